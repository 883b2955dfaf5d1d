"""The commands and their options."""

from __future__ import annotations

import sys
from importlib.metadata import version
from pathlib import Path
from typing import Annotated

import typer

from flowloom.cli.chat import Chat
from flowloom.cli.display import Display
from flowloom.cli.loading import load_app
from flowloom.cli.model_choice import ModelChoice
from flowloom.cli.reading import open_reader
from flowloom.cli.session_file import SessionFile
from flowloom.cli.usage_error import UsageError

app = typer.Typer(add_completion=False, no_args_is_help=True, pretty_exceptions_enable=False)


def _show_version(wanted: bool) -> None:
    if wanted:
        print(f"flowloom {version('flowloom')}")
        raise typer.Exit


@app.callback()
def flowloom(
    _version: Annotated[
        bool, typer.Option("--version", callback=_show_version, is_eager=True, help="Show the version and leave.")
    ] = False,
) -> None:
    """A fast, small, transparent flow engine for LLM agents."""


@app.command()
def run(
    path: Annotated[
        Path,
        typer.Argument(
            metavar="PATH", help="A .py file or a package folder with `root_agent` or `app`.", show_default=False
        ),
    ],
    model: Annotated[
        str | None,
        typer.Option(help="The model of all agents in this run; `offline` needs no key.", show_default=False),
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Answer this message and leave.", show_default=False)
    ] = None,
    stream: Annotated[bool, typer.Option(help="Show answers while they are written.")] = True,
    session: Annotated[
        Path | None,
        typer.Option(metavar="FILE.json", help="Go on from this file, and save to it.", show_default=False),
    ] = None,
) -> None:
    """Chat with an agent in the terminal.

    When the input is no terminal, each of its lines is a message.

    Without a Gemini key in the environment the offline stand-in answers.

    Ctrl-C stops an answer; Ctrl-C or Ctrl-D at the prompt leaves.
    """
    display = Display(sys.stdout, sys.stderr)
    try:
        loaded = load_app(path)
        choice = ModelChoice.of(loaded.agent, model, watched=display.is_terminal)
        display.notice(choice.notice)
        file = SessionFile.open(session, loaded.name)
        with Chat(loaded, choice, file, display, open_reader(display), stream=stream) as chat:
            failed = chat.run(message)
    except UsageError as error:
        display.error(str(error))
        raise typer.Exit(2) from None
    if failed:
        raise typer.Exit(1)
