"""What the person at the command line is told of errors: those that they can put right, and those of a run."""

from flowloom.errors import FlowloomError


class UsageError(FlowloomError):
    """A path, option, file or environment that cannot be used; the text says what to do. Exit code 2."""


def told(error: BaseException) -> str:
    """An error of a run as lines: what went wrong, and its notes; those of a group one after the other."""
    if isinstance(error, BaseExceptionGroup):
        return "\n".join(told(each) for each in error.exceptions)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType, reportUnknownMemberType]
    notes = [f"  {note}" for note in getattr(error, "__notes__", ())]
    return "\n".join([f"{type(error).__name__}: {error}", *notes])
