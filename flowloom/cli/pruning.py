"""`flowloom sessions prune`: sessions that were not used for long are deleted (durable design, section 10)."""

from __future__ import annotations

import time
from typing import NamedTuple, get_args

from flowloom.cli.stores import Store
from flowloom.durable.records import OVER, Status
from flowloom.durable.registry import Registry
from flowloom.sessions import Session
from flowloom.sessions.sql_service import SqlSessionService

_NOT_OVER = sorted({*get_args(Status)} - OVER)


class Pruned(NamedTuple):
    """The sessions that go, and those that stay because a run of theirs is not over, with its id and state."""

    gone: list[Session]
    kept: list[tuple[Session, str, str]]


async def prune(store: Store, older_than: float, app: str | None, user: str | None, *, dry_run: bool) -> Pruned:
    """Delete the sessions whose last update is more than `older_than` seconds ago, but for those with a run that is not
    over; with `dry_run`, only find them. `app` and `user` say whose; None means all."""
    latest = time.time() - older_than
    pruned = Pruned([], [])
    for name in [app] if app else await store.sessions.app_names():
        for session in (await store.sessions.list_sessions(app_name=name, user_id=user)).sessions:
            if session.last_update_time >= latest:
                continue
            run = await _run_of(store, session)  # asked for each just before it goes: runs come meanwhile
            if run is not None:
                pruned.kept.append((session, *run))
                continue
            if not dry_run:
                await store.delete(session)
            pruned.gone.append(session)
    pruned.gone.sort(key=lambda session: session.last_update_time)
    return pruned


async def _run_of(store: Store, session: Session) -> tuple[str, str] | None:
    """A run of a session that is queued, under way or waiting: its id and state."""
    if not isinstance(store.sessions, SqlSessionService):
        return None  # in memory there is no registry
    rows = await Registry(store.sessions).listed(session.app_name, _NOT_OVER, session.user_id, session.id, None, 1)
    return (rows[0].run_id, rows[0].status) if rows else None
