"""What the commands about runs, workers and schedules share: the store, the app that is meant, and how errors end."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from flowloom.cli.display import Display
from flowloom.cli.stores import Store, opened
from flowloom.cli.tables import table
from flowloom.cli.usage_error import UsageError, told
from flowloom.errors import (
    AlreadyExistsError,
    ConfigurationError,
    FlowloomError,
    InputValidationError,
    NotSupportedError,
    RequestNotFoundError,
    quoted_list,
)

if TYPE_CHECKING:
    from flowloom.durable import RunClient

T = TypeVar("T")

AppName = Annotated[
    str | None,
    typer.Option("--app", metavar="NAME", help="The app; needed if the store has several.", show_default=False),
]
Labels = Annotated[
    list[str] | None,
    typer.Option(metavar="LABEL", help="What its worker must have; may be repeated.", show_default=False),
]
_GIVEN_WRONGLY = (
    UsageError,
    ConfigurationError,
    InputValidationError,
    AlreadyExistsError,
    NotSupportedError,
    RequestNotFoundError,
)


async def apps_of(store: Store) -> list[str]:
    """The apps that have sessions or workers in a store, sorted."""
    from flowloom.durable.registry import Registry

    rows, _ = await Registry(store.sessions).workers()
    return sorted({*await store.sessions.app_names(), *(row.app_name for row in rows)})


@asynccontextmanager
async def client_of(store: Store, app: str | None) -> AsyncGenerator[RunClient]:
    """A client of the app, or of the only one that the store has. Raises `UsageError` if it is not clear which."""
    from flowloom.durable import RunClient

    if app is None:
        found = await apps_of(store)
        if len(found) != 1:
            which = f"has several apps: {quoted_list(found)}" if found else "has no app yet"
            raise UsageError(f"The store `{store.name}` {which}. Give `--app NAME`.")
        app = found[0]
    async with RunClient(app, store.sessions) as client:
        yield client


@asynccontextmanager
async def client_of_run(store: Store, run_id: str) -> AsyncGenerator[RunClient]:
    """A client of the app that a run belongs to. Raises `RunNotFoundError`."""
    from flowloom.durable import RunClient
    from flowloom.durable.registry import Registry, not_found

    row = await Registry(store.sessions).find(run_id)
    if row is None:
        raise not_found(run_id)
    async with RunClient(row.app_name, store.sessions) as client:
        yield client


def in_store(work: Callable[[Store], Awaitable[T]], dsn: str | None, *, make: bool = False) -> T:
    """What `work` does with a store. An error is told, and ends the command: with 2 if the person can put it right."""

    async def run() -> T:
        async with opened(dsn, make=make) as store:
            return await work(store)

    try:
        return asyncio.run(run())
    except FlowloomError as error:
        wrong = _given_wrongly(error)
        Display(sys.stdout, sys.stderr).error(str(error) if wrong else told(error))
        raise typer.Exit(2 if wrong else 1) from None


def _given_wrongly(error: FlowloomError) -> bool:
    from flowloom.durable import RunNotFoundError, RunStateError

    return isinstance(error, (*_GIVEN_WRONGLY, RunNotFoundError, RunStateError))


def show_data(data: Any) -> None:
    """Print data as a line of JSON, at once."""
    typer.echo(json.dumps(data, ensure_ascii=False, default=str))
    sys.stdout.flush()


def show_table(head: tuple[str, ...], rows: Sequence[tuple[str, ...]], nothing: str) -> None:
    """Print the rows under their heads; `nothing` is said if there are none."""
    display = Display(sys.stdout, sys.stderr)
    if not rows:
        display.notice(nothing)
        return
    for line in table([head, *rows]):
        display.page(line)
