"""What the person at the command line can put right."""

from flowloom.errors import FlowloomError


class UsageError(FlowloomError):
    """A path, option, file or environment that cannot be used; the text says what to do. Exit code 2."""
