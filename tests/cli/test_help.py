"""What the command line tells of itself, and how it is started."""

from __future__ import annotations

import sys
from collections.abc import Iterator

import pytest
from typer.main import get_command
from typer.testing import CliRunner

from cli.process import environment, server
from flowloom.cli.commands import app


def all_commands(command: object = None, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words that lead to each command, those of nested ones included."""
    command = command or get_command(app)
    yield path
    for name, inner in getattr(command, "commands", {}).items():
        yield from all_commands(inner, (*path, name))


@pytest.mark.parametrize("words", list(all_commands()), ids=" ".join)
def test_every_command_explains_itself_by_a_short_and_a_long_option(words: tuple[str, ...]) -> None:
    """`-h` says what `--help` says."""
    short, long = (CliRunner().invoke(app, [*words, option]) for option in ("-h", "--help"))
    assert short.exit_code == 0, short.output
    assert short.output == long.output
    assert "Usage: " in short.output


def test_the_package_is_the_command() -> None:
    """`python -m flowloom` is `flowloom`."""
    with server().start([sys.executable, "-m", "flowloom", "run", "-h"], env=environment()) as process:
        out, err = process.communicate(timeout=60)
    assert (process.returncode, err) == (0, "")
    assert "Usage: flowloom run" in out
