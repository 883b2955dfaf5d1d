"""Scenarios with expected traces, and the runner for them; README.md tells about the format."""
