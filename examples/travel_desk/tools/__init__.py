"""What the specialists can do, a module for each."""
