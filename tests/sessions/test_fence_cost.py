"""What the fence costs an append: a column of a row that is read anyway (durable design, sections 2 and 12)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from postgres_server import empty

from benchmarks.fences import WHO, beside, measured
from flowloom import Event, SqliteSessionService
from flowloom.events.parts import content_of, text_part
from flowloom.sessions import PostgresSessionService, sql_service
from flowloom.sessions.sql_log import append
from flowloom.sessions.sql_service import SqlSessionService


class Counting:
    """A connection that notes the statements and how many rows they change."""

    def __init__(self, connection: Any, told: list[tuple[str, int]]) -> None:
        self._connection = connection
        self._told = told

    def execute(self, sql: str, parameters: Any = ()) -> Any:
        cursor = self._connection.execute(sql, parameters)
        self._told.append((sql, max(cursor.rowcount, 0) if not sql.startswith("SELECT") else 0))
        return cursor


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> SqlSessionService:
    """A store of each kind."""
    if request.param == "sqlite":
        return SqliteSessionService(tmp_path / "sessions.db")
    return PostgresSessionService(request.getfixturevalue("postgres_dsn"))


async def test_the_fence_is_no_statement_and_no_row(store: SqlSessionService, monkeypatch: pytest.MonkeyPatch) -> None:
    """An append that a fence is checked for says and changes what one without says and changes."""
    told: list[tuple[str, int]] = []
    monkeypatch.setattr(sql_service.sql_log, "append", lambda c, *rest: append(Counting(c, told), *rest))
    bare = await store.create_session(**WHO, session_id="bare")
    await store.append_event(bare, Event(author="agent", content=content_of("model", [text_part("Hi.")])))
    without, told[:] = list(told), []
    await store.create_session(**WHO, session_id="held")
    async with await store.acquire_lease(**WHO, session_id="held", wait=True):
        held = await store.get_session(**WHO, session_id="held")
        assert held is not None
        assert held.fence is not None
        await store.append_event(held, Event(author="agent", content=content_of("model", [text_part("Hi.")])))
    assert told == without
    assert sum(rows for _, rows in told) == 2
    await store.close()


async def test_both_appends_are_measured(tmp_path: Path) -> None:
    """In two stores, of which one is as it was before there was a fence."""
    found = await beside(str(tmp_path / "now.db"), str(tmp_path / "before.db"), 1, 2)
    assert found["ratio"] > 0


@pytest.mark.soak
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_an_append_behind_a_fence_takes_a_tenth_longer_at_most(
    request: pytest.FixtureRequest, tmp_path: Path, kind: str
) -> None:
    """In the median of 20 rounds, append by append in turns, where other tests disturb least of ten times."""
    ratio = 2.0
    for number in range(10):
        if kind == "sqlite":
            where = str(tmp_path / f"{number}.db")
        else:
            empty(where := request.getfixturevalue("postgres_dsn"))
        ratio = min(ratio, (await measured(where, 20, 25))["ratio"])
        if ratio <= 1.10:
            break
    assert ratio <= 1.10
