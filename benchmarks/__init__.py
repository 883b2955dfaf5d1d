"""What flowloom costs, beside a hand-written loop and, where they can be installed, beside other frameworks."""
