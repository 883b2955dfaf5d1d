"""`flowloom run`, `flowloom explain` and `flowloom bench`: one agent, at a path. Each loads what it works with when
it is run."""

from __future__ import annotations

import logging
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from flowloom.cli.display import Display
from flowloom.cli.options import USER_ID, AgentPath, AllowImports, AllowStdio, AsJson, StoreName, User
from flowloom.cli.usage_error import telling_errors

if TYPE_CHECKING:
    from flowloom.cli.loading import Loaded

AgentName = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The agent of the tree that answers; by default the one that would.", show_default=False
    ),
]
Conversation = Annotated[
    str | None,
    typer.Option(
        metavar="NAME", help="The conversation so far: a session of the store, or a file.json.", show_default=False
    ),
]
State = Annotated[
    list[str] | None,
    typer.Option(metavar="KEY=JSON", help="A value in the session's state; may be repeated.", show_default=False),
]


def _loaded(path: Path, display: Display, allow_imports: list[str] | None, allow_stdio: bool) -> Loaded:
    """What is at a path; what else is there is told on stderr."""
    from flowloom.cli.loading import load_app

    loaded = load_app(path, allow_imports=allow_imports or (), allow_stdio=allow_stdio)
    if loaded.notice is not None:
        display.notice(loaded.notice)
    return loaded


def run(
    path: AgentPath,
    model: Annotated[
        str | None,
        typer.Option(
            help="The model of all agents in this run; `offline` needs no key, `human` is you.", show_default=False
        ),
    ] = None,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="Answer this message and leave.", show_default=False)
    ] = None,
    stream: Annotated[bool, typer.Option(help="Show answers while they are written.")] = True,
    session: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            help="Continue the session of this name, or begin it; by default a new one.",
            show_default=False,
        ),
    ] = None,
    go_on: Annotated[
        bool | None,
        typer.Option(
            "--go-on/--no-go-on",
            help="Whether to resume a turn that was interrupted. By default a terminal asks you.",
            show_default=False,
        ),
    ] = None,
    store: StoreName = None,
    user: User = USER_ID,
    allow_imports: AllowImports = None,
    allow_stdio: AllowStdio = False,
    debug: Annotated[bool, typer.Option("--debug", help="Log each step on stderr.")] = False,
) -> None:
    """Chat with an agent in the terminal.

    When the input is no terminal, each of its lines is a message.

    Sessions are kept: after a stop or a kill, `--session NAME` continues where the program was.

    The offline stand-in answers for agents without a model, or whose model lacks a key in the environment.

    Ctrl-C stops an answer; Ctrl-C or Ctrl-D at the prompt leaves. `/help` lists what else the chat understands.
    """
    from flowloom.cli.chat import Chat
    from flowloom.cli.model_choice import ModelChoice
    from flowloom.cli.reading import open_reader

    display = Display(sys.stdout, sys.stderr)
    if debug:
        logging.basicConfig(format="%(asctime)s %(levelname)s %(name)s: %(message)s")
        logging.getLogger("flowloom").setLevel(logging.DEBUG)
    with telling_errors(display):
        loaded = _loaded(path, display, allow_imports, allow_stdio)
        choice = ModelChoice(loaded.agent, model, watched=display.is_terminal)
        display.notice(choice.notice)
        with (
            open_reader(display) as reader,
            Chat(
                loaded, choice, display, reader, stream=stream, store=store, session=session, user=user, go_on=go_on
            ) as chat,
        ):
            failed = chat.run(message)
    if failed:
        raise typer.Exit(1)


def explain(
    path: AgentPath,
    message: Annotated[
        str | None, typer.Option("--message", "-m", help="The message to be answered.", show_default=False)
    ] = None,
    agent: AgentName = None,
    session: Conversation = None,
    store: StoreName = None,
    user: User = USER_ID,
    allow_imports: AllowImports = None,
    allow_stdio: AllowStdio = False,
    state: State = None,
    model: Annotated[
        str | None, typer.Option(help="The model of all agents; none is asked.", show_default=False)
    ] = None,
    json: AsJson = False,
    html: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write a page for the browser.", show_default=False)
    ] = None,
    output: Annotated[
        Path | None, typer.Option(metavar="FILE", help="Write the text, or the data, here.", show_default=False)
    ] = None,
) -> None:
    """Show the request that an agent would send, and which processor wrote which part of it.

    Nothing is sent, no tool is run, and no key is needed.
    """
    from flowloom.cli.explain import Pages, Question

    display = Display(sys.stdout, sys.stderr)
    pages = Pages(json, html, output)
    with telling_errors(display, Exception):
        pages.check()
        loaded = _loaded(path, display, allow_imports, allow_stdio)
        assembly = Question(message, agent, session, state or (), model, store, user).assembly(loaded)
        for file in pages.write(assembly):
            display.notice(f"Wrote {file}.")
        printed = pages.printed(assembly)
    if printed is not None:
        typer.echo(printed)


def bench(
    path: AgentPath,
    message: Annotated[str, typer.Option("--message", "-m", help="The message to be answered.")] = "Hello.",
    agent: AgentName = None,
    session: Conversation = None,
    store: StoreName = None,
    user: User = USER_ID,
    allow_imports: AllowImports = None,
    allow_stdio: AllowStdio = False,
    state: State = None,
    turns: Annotated[int, typer.Option(min=0, help="Exchanges of words to begin with.")] = 0,
    repeat: Annotated[int, typer.Option(min=1, help="How many turns are measured.")] = 200,
    max_us: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=US",
            help="The most microseconds for a processor, or for the whole `turn`; may be repeated.",
            show_default=False,
        ),
    ] = None,
    baseline: Annotated[
        Path | None, typer.Option(metavar="FILE", help="A profile that `--save` stored.", show_default=False)
    ] = None,
    max_ratio: Annotated[
        list[str] | None,
        typer.Option(
            metavar="NAME=N", help="The most times what the stored profile says; may be repeated.", show_default=False
        ),
    ] = None,
    save: Annotated[Path | None, typer.Option(metavar="FILE", help="Store the profile.", show_default=False)] = None,
    json: AsJson = False,
) -> None:
    """Measure what each processor of an agent costs. Exits with 1 past a budget.

    No model is asked and no tool is run: a stand-in answers.
    """
    from flowloom.cli.bench import Bench, Budget, Verdict, as_json, compared, save_profile

    display = Display(sys.stdout, sys.stderr)
    with telling_errors(display, Exception):
        verdict = Verdict(
            Budget.parse("--max-us", max_us or ()), Budget.parse("--max-ratio", max_ratio or ()), baseline
        )
        stored = verdict.read_baseline()
        loaded = _loaded(path, display, allow_imports, allow_stdio)
        profile = Bench(message, agent, session, state or (), turns, repeat, store, user).profile(loaded)
        broken = list(verdict.broken(profile, stored))
        if save is not None:
            save_profile(profile, save)
    typer.echo(as_json(profile, stored) if json else str(profile))
    if stored is not None and not json:
        typer.echo("\n" + compared(profile, stored))
    for line in broken:
        display.error(line)
    if broken:
        raise typer.Exit(1)
