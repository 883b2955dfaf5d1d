"""`flowloom sessions`: what a store holds, and what can be done with it."""

from __future__ import annotations

import asyncio
import json as json_module
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from flowloom.cli.display import Display, call_text
from flowloom.cli.durations import duration
from flowloom.cli.options import USER_ID, AsJson, StoreName, User
from flowloom.cli.session_file import session_text, write_session
from flowloom.cli.stores import Store, missing_file, opened, session_name, told_name
from flowloom.cli.tables import moment, table
from flowloom.cli.transcript import show_events, shown_state
from flowloom.cli.usage_error import UsageError, told
from flowloom.errors import (
    AlreadyExistsError,
    ConfigurationError,
    FlowloomError,
    HistoryError,
    NotSupportedError,
    closest_first,
    quoted_list,
)
from flowloom.events import new_id
from flowloom.runner.pending import pending_calls
from flowloom.sessions import Session

_T = TypeVar("_T")

AppName = Annotated[
    str | None,
    typer.Option("--app", metavar="NAME", help="The app; needed if several have the session.", show_default=False),
]
OneApp = Annotated[
    str | None, typer.Option("--app", metavar="NAME", help="Only those of this app.", show_default=False)
]
OneUser = Annotated[
    str | None, typer.Option("--user", metavar="ID", help="Only those of this user.", show_default=False)
]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The session.", show_default=False)]

_GIVEN_WRONGLY = (UsageError, ConfigurationError, AlreadyExistsError, HistoryError, NotSupportedError)

sessions = typer.Typer(no_args_is_help=True, help="List, show, move, fork, delete, prune and compact stored sessions.")


@sessions.command("list")
def list_sessions(
    store: StoreName = None,
    app: OneApp = None,
    user: OneUser = None,
    json: AsJson = False,
) -> None:
    """List the sessions of a store, oldest first."""

    async def work(opened_store: Store) -> list[Session]:
        service = opened_store.sessions
        found: list[Session] = []
        for name in [app] if app else await service.app_names():
            found += (await service.list_sessions(app_name=name, user_id=user)).sessions
        return sorted(found, key=lambda session: session.last_update_time)

    is_new = not store and _tried(lambda: missing_file(None)) is not None
    found = [] if is_new else _run(work, store)
    if json:
        typer.echo(json_module.dumps([_named(session) for session in found], ensure_ascii=False))
    elif found:
        _show_sessions(Display(sys.stdout, sys.stderr), found)
    else:
        which = "".join((f" of app `{app}`" if app else "", f" of user `{user}`" if user else ""))
        Display(sys.stdout, sys.stderr).notice(f"The store `{told_name(store)}` holds no sessions{which}.")


@sessions.command()
def show(
    name: Name,
    store: StoreName = None,
    app: AppName = None,
    user: User = USER_ID,
    ids: Annotated[bool, typer.Option("--ids", help="With the ids of events, such as `fork --at` takes.")] = False,
    json: AsJson = False,
) -> None:
    """Show a session: what was said and done, its state, and what waits."""
    session = _run(lambda opened_store: _session(opened_store, app, user, name), store)
    if json:
        typer.echo(session_text(session))
        return
    display = Display(sys.stdout, sys.stderr)
    show_events(display, session.events, ids=ids)
    state = shown_state(session.state)
    if state:
        display.page("\nState:")
    for key, value in state.items():
        display.page(f"  {key} = {json_module.dumps(value, ensure_ascii=False, default=str)}")
    waiting = pending_calls(session.events)
    if waiting:
        display.page("\nWaits:")
    for call in waiting:
        display.page(f"  {call.agent}: {call.kind} of {call_text(call.name, call.args)}")


@sessions.command()
def export(
    name: Name,
    file: Annotated[
        Path | None, typer.Argument(metavar="FILE", help="By default, and as `-`, it is printed.", show_default=False)
    ] = None,
    store: StoreName = None,
    app: AppName = None,
    user: User = USER_ID,
) -> None:
    """Write a session as ADK's JSON."""
    session = _run(lambda opened_store: _session(opened_store, app, user, name), store)
    if file in (None, Path("-")):
        typer.echo(session_text(session))
    else:
        _tried(lambda: write_session(file, session))


@sessions.command("import")
def import_sessions(
    files: Annotated[
        list[Path],
        typer.Argument(
            metavar="FILE...",
            help="Sessions as JSON, or SQLite files of flowloom or google-adk.",
            show_default=False,
        ),
    ],
    store: StoreName = None,
    app: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", help="Only this app's of a database; the app that a JSON session gets.", show_default=False
        ),
    ] = None,
) -> None:
    """Take sessions over from files, and print their names. Doing it again adds only what is new."""
    from flowloom.cli.imports import import_file

    async def work(opened_store: Store) -> None:
        for file in files:
            for session in await import_file(file, opened_store.sessions, app):
                typer.echo(session)

    _run(work, store, make=True)


@sessions.command()
def fork(
    name: Name,
    new_name: Annotated[
        str | None,
        typer.Argument(metavar="NEW_NAME", help="The new session's; by default one is made.", show_default=False),
    ] = None,
    at: Annotated[
        str | None,
        typer.Option(
            metavar="EVENT_ID", help="The last event that it shares, or the beginning of its id.", show_default=False
        ),
    ] = None,
    store: StoreName = None,
    app: AppName = None,
    user: User = USER_ID,
) -> None:
    """Begin a new session that shares what another one has been so far; prints its name."""

    async def work(opened_store: Store) -> Session:
        made = new_id()[:8] if new_name is None else session_name(new_name)
        found = await _session(opened_store, app, user, name)
        return await opened_store.sessions.fork(
            app_name=found.app_name,
            user_id=user,
            session_id=found.id,
            new_session_id=made,
            up_to_event_id=None if at is None else _event_id(found, at),
        )

    typer.echo(_run(work, store).id)


@sessions.command()
def delete(
    names: Annotated[list[str], typer.Argument(metavar="NAME...", help="The sessions.", show_default=False)],
    store: StoreName = None,
    app: AppName = None,
    user: User = USER_ID,
) -> None:
    """Delete sessions with their files. Forks of them stay whole."""

    async def work(opened_store: Store) -> None:
        found = [await _session(opened_store, app, user, name) for name in names]  # all of them, or none
        for session in found:
            await opened_store.delete(session)

    _run(work, store)


@sessions.command()
def prune(
    older_than: Annotated[
        float,
        typer.Option(
            metavar="DURATION",
            parser=duration,
            help="Those whose last update is longer ago than this: `30d`, `12h`, `90m`.",
            show_default=False,
        ),
    ],
    store: StoreName = None,
    app: OneApp = None,
    user: OneUser = None,
    dry_run: Annotated[bool, typer.Option("--dry-run", help="Only say which would be deleted.")] = False,
    json: AsJson = False,
) -> None:
    """Delete sessions that were not used for long, with their files.

    One with a run that is queued, under way or waiting is kept. Forks of them stay whole.
    """
    from flowloom.cli.pruning import prune as pruned_of

    pruned = _run(lambda opened_store: pruned_of(opened_store, older_than, app, user, dry_run=dry_run), store)
    if json:
        kept = [{**_named(session), "run": run, "status": status} for session, run, status in pruned.kept]
        data = {"dryRun": dry_run, "deleted": [_named(session) for session in pruned.gone], "kept": kept}
        typer.echo(json_module.dumps(data, ensure_ascii=False))
        return
    display = Display(sys.stdout, sys.stderr)
    if pruned.gone:
        _show_sessions(display, pruned.gone)
    for session, run, status in pruned.kept:
        display.notice(f"Session `{session.id}` of app `{session.app_name}` is kept: run `{run}` is {status}.")
    count = len(pruned.gone)
    how_many = f"{count or 'No'} session{'' if count == 1 else 's'}"
    display.notice(f"{how_many} would be deleted." if dry_run else f"{how_many} deleted.")


@sessions.command()
def compact(
    name: Name,
    model: Annotated[
        str, typer.Option(help="The model that sums up; `offline` is for trials only.", show_default=False)
    ],
    keep: Annotated[int, typer.Option(min=0, help="How many of the latest events stay as they are.")] = 10,
    store: StoreName = None,
    app: AppName = None,
    user: User = USER_ID,
) -> None:
    """Put a summary in the place of a session's older events. They stay in the store."""
    from flowloom.cli.compacting import compacted

    async def work(opened_store: Store) -> str | None:
        found = await _session(opened_store, app, user, name)
        return await compacted(found, opened_store.sessions, model, keep)

    summary = _run(work, store)
    display = Display(sys.stdout, sys.stderr)
    if summary is None:
        display.notice("There is nothing to sum up.")
    else:
        display.page(summary)


async def _session(store: Store, app: str | None, user: str, name: str) -> Session:
    """The session of that name. Raises `UsageError` if it is not there, or the app is not clear."""
    name = session_name(name)
    found: list[Session] = []
    others: list[Session] = []
    for each in [app] if app else await store.sessions.app_names():
        session = await store.sessions.get_session(app_name=each, user_id=user, session_id=name)
        if session is not None:
            found.append(session)
        else:
            others += (await store.sessions.list_sessions(app_name=each)).sessions
    if len(found) > 1:
        apps = quoted_list(session.app_name for session in found)
        raise UsageError(f"Several apps have a session `{name}`: {apps}. Give `--app NAME`.")
    if found:
        return found[0]
    of_app = f" of app `{app}`" if app else ""
    owners = sorted({session.user_id for session in others if session.id == name})
    names = closest_first(name, [session.id for session in others if session.user_id == user])
    if owners:
        hint = f"User {quoted_list(owners)} has one: give `--user`."
    elif names:
        hint = f"There are: {quoted_list(names[:10])}{' and others' if len(names) > 10 else ''}."
    else:
        hint = "`flowloom sessions list` shows what there is."
    raise UsageError(f"There is no session `{name}`{of_app} of user `{user}` in the store `{store.name}`. {hint}")


def _named(session: Session) -> dict[str, Any]:
    """What a list says of a session, as data."""
    return {
        "app": session.app_name,
        "user": session.user_id,
        "session": session.id,
        "lastUpdateTime": session.last_update_time,
    }


def _show_sessions(display: Display, found: list[Session]) -> None:
    head = ("APP", "USER", "SESSION", "LAST USED")
    for line in table([head, *((s.app_name, s.user_id, s.id, moment(s.last_update_time)) for s in found)]):
        display.page(line)


def _event_id(session: Session, beginning: str) -> str:
    found = [event.id for event in session.events if event.id.startswith(beginning)]
    if beginning in found or not found:
        return beginning
    if len(found) > 1:
        raise UsageError(f"Several events of session `{session.id}` have an id that begins with `{beginning}`.")
    return found[0]


def _run(work: Callable[[Store], Awaitable[_T]], dsn: str | None, *, make: bool = False) -> _T:
    async def run() -> _T:
        async with opened(dsn, make=make) as store:
            return await work(store)

    return _tried(lambda: asyncio.run(run()))


def _tried(work: Callable[[], _T]) -> _T:
    try:
        return work()
    except FlowloomError as error:
        wrong = isinstance(error, _GIVEN_WRONGLY)
        Display(sys.stdout, sys.stderr).error(str(error) if wrong else told(error))
        raise typer.Exit(2 if wrong else 1) from None
