"""`flowloom sessions`: what a store holds, and what can be done with it."""

from __future__ import annotations

import asyncio
import datetime
import json as json_module
import sys
from collections.abc import Awaitable, Callable, Iterable
from pathlib import Path
from typing import Annotated, Any, TypeVar

import typer

from flowloom.cli.display import Display
from flowloom.cli.model_choice import model_named
from flowloom.cli.session_file import read_session, session_text, write_session
from flowloom.cli.stores import USER_ID, Store, opened, store_named
from flowloom.cli.usage_error import UsageError
from flowloom.compaction import EventsCompactionConfig, LlmEventsSummarizer, compact_session
from flowloom.errors import FlowloomError, closest_first, quoted_list
from flowloom.events import Event
from flowloom.models import BaseLlm
from flowloom.models.offline import OfflineModel
from flowloom.pending import pending_calls
from flowloom.sessions import Session
from flowloom.sessions.adk_sqlite import AdkSqliteDatabase

_T = TypeVar("_T")

StoreName = Annotated[
    str | None,
    typer.Option(
        metavar="DSN",
        help="A SQLite file, or `postgresql://...`. Default: $FLOWLOOM_STORE, or .flowloom/sessions.db in this folder.",
        show_default=False,
    ),
]
AppName = Annotated[
    str | None,
    typer.Option("--app", metavar="NAME", help="The app; needed if the store holds several.", show_default=False),
]
User = Annotated[str, typer.Option(metavar="ID", help="Whose session it is.")]
Name = Annotated[str, typer.Argument(metavar="NAME", help="The session.", show_default=False)]
AsJson = Annotated[bool, typer.Option("--json", help="As data.")]

sessions = typer.Typer(no_args_is_help=True, help="List, show, move, fork, delete and compact stored sessions.")


@sessions.command("list")
def list_sessions(
    store: StoreName = None,
    app: AppName = None,
    user: Annotated[str | None, typer.Option(metavar="ID", help="Only those of this user.", show_default=False)] = None,
    json: AsJson = False,
) -> None:
    """List the sessions of a store, oldest first."""

    async def work(opened_store: Store) -> list[Session]:
        apps = [app] if app else await opened_store.sessions.app_names()
        found: list[Session] = []
        for name in apps:
            found += (await opened_store.sessions.list_sessions(app_name=name, user_id=user)).sessions
        return sorted(found, key=lambda session: session.last_update_time)

    found = _run(work, store)
    if json:
        rows = [
            {"app": s.app_name, "user": s.user_id, "session": s.id, "lastUpdateTime": s.last_update_time} for s in found
        ]
        typer.echo(json_module.dumps(rows, ensure_ascii=False))
        return
    if not found:
        Display(sys.stdout, sys.stderr).notice(f"The store `{store_named(store)}` holds no sessions.")
    for line in _table([(s.app_name, s.user_id, s.id, _time(s.last_update_time)) for s in found]):
        typer.echo(line)


@sessions.command()
def show(name: Name, store: StoreName = None, app: AppName = None, user: User = USER_ID, json: AsJson = False) -> None:
    """Show a session: what was said and done, its state, and what waits."""

    async def work(opened_store: Store) -> Session:
        return await _session(opened_store, app, user, name)

    session = _run(work, store)
    if json:
        typer.echo(session_text(session))
        return
    for event in session.events:
        for line in _lines(event):
            typer.echo(line)
    for key, value in sorted(session.state.items()):
        typer.echo(f"  {key} = {json_module.dumps(value, ensure_ascii=False, default=str)}")
    for call in pending_calls(session.events):
        typer.echo(f"  waits: {call.kind} {call.name}({json_module.dumps(call.args, ensure_ascii=False, default=str)})")


@sessions.command()
def export(
    name: Name,
    file: Annotated[Path | None, typer.Argument(help="The file; by default it is printed.", show_default=False)] = None,
    store: StoreName = None,
    app: AppName = None,
    user: User = USER_ID,
) -> None:
    """Write a session as ADK's JSON."""

    async def work(opened_store: Store) -> Session:
        return await _session(opened_store, app, user, name)

    session = _run(work, store)
    if file is None:
        typer.echo(session_text(session))
    else:
        _tried(lambda: write_session(file, session))


@sessions.command("import")
def import_sessions(
    files: Annotated[
        list[Path], typer.Argument(help="Sessions as JSON, or SQLite databases of google-adk.", show_default=False)
    ],
    store: StoreName = None,
    app: AppName = None,
) -> None:
    """Take sessions over from files. Doing it again adds only what is new."""

    async def work(opened_store: Store) -> int:
        count = 0
        for file in files:
            if _is_database(file):
                other = AdkSqliteDatabase(file)
                try:
                    for each in [app] if app else await other.app_names():
                        count += await opened_store.sessions.copy_from(other, app_name=each)
                finally:
                    await other.close()
                continue
            session = read_session(file)
            session.app_name = app or session.app_name
            if not session.app_name:
                raise UsageError(f"`{file}` does not say which app its session belongs to. Give `--app NAME`.")
            session.user_id = session.user_id or USER_ID
            await opened_store.sessions.import_session(session)
            count += 1
        return count

    count = _run(work, store)
    Display(sys.stdout, sys.stderr).notice(f"Took over {count} session{'' if count == 1 else 's'}.")


@sessions.command()
def fork(
    name: Name,
    new_name: Annotated[
        str | None, typer.Argument(help="The new session's name; by default one is made.", show_default=False)
    ] = None,
    at: Annotated[
        str | None, typer.Option(metavar="EVENT_ID", help="The last event it is to share.", show_default=False)
    ] = None,
    store: StoreName = None,
    app: AppName = None,
    user: User = USER_ID,
) -> None:
    """Begin a new session that shares what another one has been so far; prints its name."""

    async def work(opened_store: Store) -> Session:
        found = await _session(opened_store, app, user, name)
        return await opened_store.sessions.fork(
            app_name=found.app_name, user_id=user, session_id=name, new_session_id=new_name, up_to_event_id=at
        )

    typer.echo(_run(work, store).id)


@sessions.command()
def delete(name: Name, store: StoreName = None, app: AppName = None, user: User = USER_ID) -> None:
    """Delete a session. Forks of it stay whole."""

    async def work(opened_store: Store) -> None:
        found = await _session(opened_store, app, user, name)
        await opened_store.sessions.delete_session(app_name=found.app_name, user_id=user, session_id=name)

    _run(work, store)


@sessions.command()
def compact(
    name: Name,
    model: Annotated[
        str | None,
        typer.Option(help="The model that sums up; by default the offline stand-in.", show_default=False),
    ] = None,
    keep: Annotated[int, typer.Option(min=0, help="How many of the latest events stay as they are.")] = 10,
    store: StoreName = None,
    app: AppName = None,
    user: User = USER_ID,
) -> None:
    """Put a summary in the place of a session's older events. They stay in the store."""
    summarizer = LlmEventsSummarizer(_tried(lambda: _model(model)))
    config = EventsCompactionConfig(summarizer=summarizer, event_threshold=1, event_retention_size=keep)

    async def work(opened_store: Store) -> Event | None:
        found = await _session(opened_store, app, user, name)
        return await compact_session(found, opened_store.sessions, config, force=True)

    made = _run(work, store)
    display = Display(sys.stdout, sys.stderr)
    display.notice("There is nothing to sum up." if made is None else "The older events are summed up.")


def _model(name: str | None) -> BaseLlm:
    return OfflineModel() if name is None else model_named(name)


async def _session(store: Store, app: str | None, user: str, name: str) -> Session:
    """The session of that name. Raises `UsageError` if it is not there, or the app is not clear."""
    apps = [app] if app else await store.sessions.app_names()
    found: list[Session] = []
    names: set[str] = set()
    for each in apps:
        session = await store.sessions.get_session(app_name=each, user_id=user, session_id=name)
        if session is not None:
            found.append(session)
        else:
            names.update(s.id for s in (await store.sessions.list_sessions(app_name=each, user_id=user)).sessions)
    if len(found) == 1:
        return found[0]
    if found:
        apps = quoted_list(session.app_name for session in found)  # pyright: ignore[reportAssignmentType]
        raise UsageError(f"Several apps have a session `{name}`: {apps}. Give `--app NAME`.")
    there = quoted_list(closest_first(name, names)[:10])
    raise UsageError(f"There is no session `{name}` of user `{user}` in the store `{store.name}`. There are: {there}.")


def _run(work: Callable[[Store], Awaitable[_T]], dsn: str | None) -> _T:
    async def run() -> _T:
        async with opened(dsn) as store:
            return await work(store)

    return _tried(lambda: asyncio.run(run()))


def _tried(work: Callable[[], _T]) -> _T:
    try:
        return work()
    except (UsageError, FlowloomError) as error:
        Display(sys.stdout, sys.stderr).error(str(error))
        raise typer.Exit(2 if isinstance(error, UsageError) else 1) from None


def _is_database(path: Path) -> bool:
    try:
        with path.open("rb") as file:
            return file.read(16) == b"SQLite format 3\x00"
    except OSError as error:
        raise UsageError(f"`{path}` cannot be read: {error.strerror}.") from error


def _table(rows: list[tuple[str, ...]]) -> Iterable[str]:
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))] if rows else []
    for row in rows:
        yield "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()


def _time(seconds: float) -> str:
    return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M")


def _lines(event: Event) -> Iterable[str]:
    """What an event says and does, a line for each part."""
    for part in (event.content.parts if event.content is not None else None) or ():
        said: Any = None
        if part.function_call is not None:
            said = f"calls {part.function_call.name}({_short(part.function_call.args)})"
        elif part.function_response is not None:
            said = f"{part.function_response.name} gave {_short(part.function_response.response)}"
        elif part.text and not part.thought:
            said = part.text
        if said is not None:
            yield f"{event.author}: {said}"
    if event.error_code:
        yield f"{event.author}: ! {event.error_code}: {event.error_message or ''}".rstrip()


def _short(value: Any) -> str:
    text = json_module.dumps(value, ensure_ascii=False, default=str)
    return text if len(text) <= 200 else f"{text[:200]}..."
