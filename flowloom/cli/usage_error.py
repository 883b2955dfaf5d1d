"""What the person at the command line is told of errors: those that they can put right, and those of a run."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager

import typer

from flowloom.cli.display import Display
from flowloom.errors import FlowloomError


class UsageError(FlowloomError):
    """A path, option, file or environment that cannot be used; the text says what to do. Exit code 2."""


def told(error: BaseException) -> str:
    """An error of a run as lines: what went wrong, and its notes; those of a group one after the other."""
    if isinstance(error, BaseExceptionGroup):
        return "\n".join(told(each) for each in error.exceptions)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType, reportUnknownMemberType]
    notes = [f"  {note}" for note in getattr(error, "__notes__", ())]
    return "\n".join([f"{type(error).__name__}: {error}", *notes])


@contextmanager
def telling_errors(display: Display, kind: type[Exception] = FlowloomError) -> Generator[None]:
    """Show an error of this `kind`, and leave with exit code 1; one that the person can put right with 2."""
    try:
        yield
    except UsageError as error:
        display.error(str(error))
        raise typer.Exit(2) from None
    except kind as error:
        display.error(told(error))
        raise typer.Exit(1) from None
