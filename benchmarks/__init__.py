"""What flowloom costs, beside a hand-written loop and, where it is installed, google-adk."""
