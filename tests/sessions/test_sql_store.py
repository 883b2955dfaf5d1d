"""What is particular to the SQL stores: rows, what is read again, forks that share, and what is left of them."""

from __future__ import annotations

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import pytest
from kit import event

from flowloom import Event, EventActions, LlmAgent, PostgresSessionService, Runner, Session, SqliteSessionService
from flowloom.errors import StorageError
from flowloom.sessions import GetSessionConfig
from flowloom.sessions.sql_schema import PLACES, SESSIONS
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.sql import Connection, Schema
from flowloom.testing import ScriptedModel, call

WHO: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s1"}
Open = Callable[..., SqlSessionService]
TABLES = "logs sessions events state base changes shared_state leases".split()


@pytest.fixture(params=["sqlite", "postgres"])
async def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> AsyncIterator[Open]:
    """Opens one and the same store, as often as it is called; all are closed in the end."""
    opened: list[SqlSessionService] = []
    dsn: str | None = None if request.param == "sqlite" else request.getfixturevalue("postgres_dsn")

    def open_store(**settings: Any) -> SqlSessionService:
        path = tmp_path / "a.db"
        opened.append(
            SqliteSessionService(path, **settings) if dsn is None else PostgresSessionService(dsn, **settings)
        )
        return opened[-1]

    yield open_store
    for service in opened:
        await service.close()


def said(text: str, **delta: Any) -> Event:
    made = event("agent", text)
    made.actions = EventActions(state_delta=delta)
    return made


async def get(service: SqlSessionService, **names: Any) -> Session:
    found = await service.get_session(**{**WHO, **names})
    assert found is not None
    return found


async def rows(service: SqlSessionService, table: str) -> int:
    sql = f"SELECT count(*) FROM flowloom_{table}"
    return await service.database.read(lambda connection: connection.execute(sql).fetchone()[0])


async def test_the_seq_of_events_has_no_gap(open_store: Open) -> None:
    """From 1, whoever appends, whatever is repeated or refused."""
    stores = [open_store() for _ in range(3)]
    await stores[0].create_session(**WHO)

    async def write(store: SqlSessionService) -> None:
        session = await get(store)
        for _ in range(8):
            made = said("x")
            await store.append_event(session, made)
            await store.append_event(session, made)

    await asyncio.gather(*(write(store) for store in stores for _ in range(2)))
    sql = "SELECT place % 4294967296 FROM flowloom_events ORDER BY place"
    found = await stores[0].database.read(lambda connection: [row[0] for row in connection.execute(sql).fetchall()])
    assert found == list(range(1, 49))


async def test_events_that_were_seen_are_not_read_again(open_store: Open) -> None:
    """They are the very same objects, those appended here among them; only what is new is read."""
    store, other = open_store(), open_store()
    mine = await store.create_session(**WHO)
    await store.append_event(mine, said("one"))
    await store.append_buffered(mine, said("soon"))
    await store.append_event(mine, said("after"))
    first = await get(store)
    assert first.events[1] is mine.events[1]
    await other.append_event(await get(other), said("two"))
    second, third = await get(store), await get(store)
    assert [each.text for each in third.events] == ["one", "soon", "after", "two"]
    assert second.events[0] is first.events[0] is mine.events[0]
    assert third.events[3] is second.events[3]
    assert (await get(other)).events[0] is not mine.events[0]


async def test_snapshots_of_one_loop_share_their_history(open_store: Open) -> None:
    """What was projected once is not projected again; but histories are not made for threads."""
    store = open_store()
    await store.create_session(**WHO)
    here = (await get(store)).history
    assert (await get(store)).history is here
    there = await asyncio.to_thread(lambda: asyncio.run(_history(store)))
    assert there is not here


async def _history(store: SqlSessionService) -> object:
    return (await get(store)).history


async def test_a_session_that_another_process_made_anew_is_not_taken_for_the_old_one(open_store: Open) -> None:
    store, other = open_store(), open_store()
    session = await store.create_session(**WHO, state={"old": 1})
    await store.append_event(session, said("old"))
    await other.delete_session(**WHO)
    assert await store.get_session(**WHO) is None
    await other.append_event(await other.create_session(**WHO), said("new"))
    found = await get(store)
    assert ([each.text for each in found.events], found.state) == (["new"], {})
    for text in ("newer", ""):
        await other.delete_session(**WHO)
        session = await other.create_session(**WHO)
        if text:
            await other.append_event(session, said(text))
        assert [each.text for each in (await get(store)).events] == [text][: bool(text)]


async def test_what_is_kept_in_memory_is_bounded(open_store: Open) -> None:
    """The sessions used least lately are read anew."""
    store = open_store(cached_events=5)
    for name in ("a", "b"):
        session = await store.create_session(**{**WHO, "session_id": name})
        for number in range(3):
            await store.append_event(session, said(str(number)))
    b1, b2 = await get(store, session_id="b"), await get(store, session_id="b")
    assert b1.events[0] is b2.events[0]
    a1 = await get(store, session_id="a")
    b3 = await get(store, session_id="b")
    assert [each.text for each in a1.events] == ["0", "1", "2"]
    assert b3.events[0] is not b1.events[0]


async def test_a_fork_copies_no_event(open_store: Open) -> None:
    store = open_store()
    session = await store.create_session(**WHO)
    for number in range(5):
        await store.append_event(session, said(str(number), n=number))
    before = await rows(store, "events")
    forks = [await store.fork(**WHO, up_to_event_id=up_to) for up_to in (None, session.events[2].id)]
    assert [(len(each.events), each.state["n"]) for each in forks] == [(5, 4), (3, 2)]
    assert await rows(store, "events") == before


async def test_deleting_leaves_what_forks_need_and_nothing_else(open_store: Open) -> None:
    """When the last fork goes, no row is left of the log."""
    store = open_store()
    session = await store.create_session(**WHO, state={"first": 1})
    for number in range(5):
        await store.append_event(session, said(str(number), n=number))
    middle = session.events[2].id
    await store.fork(**WHO, new_session_id="f1", up_to_event_id=middle)
    await store.fork(**{**WHO, "session_id": "f1"}, new_session_id="f2", up_to_event_id=session.events[1].id)
    await store.delete_session(**WHO)
    assert await rows(store, "events") == 3
    await store.delete_session(**{**WHO, "session_id": "f1"})
    assert await rows(store, "events") == 2
    assert [each.text for each in (await get(store, session_id="f2")).events] == ["0", "1"]
    await store.delete_session(**{**WHO, "session_id": "f2"})
    assert {table: await rows(store, table) for table in TABLES if table != "shared_state"} == {
        table: 0 for table in TABLES if table != "shared_state"
    }


async def test_only_changed_keys_are_written(open_store: Open) -> None:
    store, other = open_store(), open_store()
    first = await store.create_session(**WHO, state={"a": 1, "b": 1, "user:u": 1})
    second = await get(other)
    await store.append_event(first, said("x", a=2))
    await other.append_event(second, said("y", b=2, **{"user:u": 2}))
    assert (await get(store)).state == {"a": 2, "b": 2, "user:u": 2}


async def test_an_append_that_was_cut_off_can_be_repeated(open_store: Open) -> None:
    """Whether it was stored or not: the event is there once, and the session at hand has it."""
    store = open_store()
    session = await store.create_session(**WHO)
    for turns in range(6):
        made = said(str(turns), n=turns)
        appending = asyncio.ensure_future(store.append_event(session, made))
        for _ in range(turns):
            await asyncio.sleep(0)
        appending.cancel()
        await asyncio.gather(appending, return_exceptions=True)  # a fast store was not cut off any more
        await store.append_event(session, made)
    for found in (session, await get(store)):
        assert [each.text for each in found.events] == [str(number) for number in range(6)]
        assert found.state == {"n": 5}


async def test_a_failed_append_buffered_is_not_remembered(open_store: Open) -> None:
    """After it, loading shows what is stored, not what was to be."""
    store, other = open_store(), open_store()
    session = await store.create_session(**WHO)
    await store.append_event(session, said("one"))
    await other.delete_session(**WHO)
    await store.append_buffered(session, said("lost"))
    with pytest.raises(ValueError, match="not in this service"):
        await store.append_event(session, said("lost too"))
    await other.append_event(await other.create_session(**WHO), said("new"))
    assert [each.text for each in (await get(store)).events] == ["new"]


async def test_a_damaged_row_is_an_error_that_shows_it(open_store: Open) -> None:
    store = open_store()
    await store.append_event(await store.create_session(**WHO), said("x"))
    await store.database.write(lambda connection: connection.execute("UPDATE flowloom_events SET event = '{broken'"))
    with pytest.raises(StorageError, match="broken"):
        await open_store().get_session(**WHO)


async def test_services_may_start_at_once_on_an_empty_database(open_store: Open) -> None:
    stores = [open_store() for _ in range(5)]
    made = await asyncio.gather(*(store.get_or_create_session(**WHO, state={"a": 1}) for store in stores))
    assert [each.state for each in made] == [{"a": 1}] * 5


async def test_a_store_of_the_first_release_is_brought_up_to_date(open_store: Open) -> None:
    """Its sessions are read, run on, forked and deleted as if they had been made today."""
    old = open_store()
    dialect = old.database.dialect
    await Schema("sessions", {dialect: SESSIONS.steps[dialect][:1]}).ensure(old.database)

    def fill(connection: Connection) -> None:
        connection.execute("INSERT INTO flowloom_logs (parent, parent_seq) VALUES (NULL, NULL)")
        connection.execute("INSERT INTO flowloom_sessions VALUES ('app', 'ann', 's1', 1, 1, 1.5)")
        row = (PLACES + 1, 1, "e1", 1.5, said("old", n=1).model_copy(update={"id": "e1"}).model_dump_json())
        connection.execute("INSERT INTO flowloom_events VALUES (?, ?, ?, ?, ?)", row)
        connection.execute("INSERT INTO flowloom_state VALUES (1, 'n', '1')")
        connection.execute("INSERT INTO flowloom_leases VALUES ('app', 'ann', 's1', 1, 'dead', 1.0)")

    await old.database.write(fill)
    store = open_store()
    async with await store.acquire_lease(**WHO, wait=False):
        await store.append_event(await get(store), said("new", n=2))
    fork = await store.fork(**WHO)
    for found in (await get(store), fork):
        assert ([each.text for each in found.events], found.state) == (["old", "new"], {"n": 2})
    await store.delete_session(**WHO)


class Recorder:
    """A connection that keeps what it is asked."""

    def __init__(self, connection: sqlite3.Connection) -> None:
        self.asked: list[str] = []
        self._connection = connection

    def execute(self, sql: str, parameters: Sequence[Any] = (), /) -> sqlite3.Cursor:
        self.asked.append(sql)
        return self._connection.execute(sql, parameters)

    def executemany(self, sql: str, rows: Iterable[Sequence[Any]], /) -> object:
        self.asked.append(sql)
        return self._connection.executemany(sql, rows)


async def test_no_statement_scans_a_table(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each finds its rows by an index, and in their order, whatever the store is asked to do."""
    asked: set[str] = set()
    store = SqliteSessionService(tmp_path / "a.db", cached_events=0)
    await store.create_session(**{**WHO, "session_id": "first"})
    run = store.database.read

    def recorded(work: Callable[[Connection], Any]) -> Callable[[Connection], Any]:
        def record(connection: Any) -> Any:
            recorder = Recorder(connection)
            try:
                return work(recorder)
            finally:
                asked.update(recorder.asked)

        return record

    write = store.database.write
    monkeypatch.setattr(store.database, "read", lambda work: run(recorded(work)))
    monkeypatch.setattr(store.database, "write", lambda work, **how: write(recorded(work), **how))
    session = await store.create_session(**WHO, state={"a": 1, "user:u": 1, "app:p": 1})
    for number in range(3):
        await store.append_event(session, said(str(number), a=number))
    await store.append_event(session, session.events[0])
    await store.fork(**WHO, new_session_id="f", up_to_event_id=session.events[1].id)
    await store.append_event(await get(store, session_id="f"), said("x", b=1))
    await store.get_session(**WHO, config=GetSessionConfig(num_recent_events=2))
    await store.get_session(**{**WHO, "session_id": "f"}, config=GetSessionConfig(after_timestamp=0.0))
    await store.list_sessions(app_name="app")
    await store.list_sessions(app_name="app", user_id="ann")
    await store.get_user_state(app_name="app", user_id="ann")
    await store.rewind(session, before_invocation_id=session.events[0].invocation_id)
    await store.import_session(session)
    held = await store.acquire_lease(**WHO, wait=True)
    await held.release()
    for name in ("s1", "f"):
        await store.delete_session(**{**WHO, "session_id": name})
    await store.close()
    assert len(asked) > 25
    connection = sqlite3.connect(tmp_path / "a.db")
    for sql in asked:
        if not sql.startswith(("SELECT", "UPDATE", "DELETE", "WITH")) or "last_insert_rowid" in sql:
            continue
        plan = [row[3] for row in connection.execute(f"EXPLAIN QUERY PLAN {sql}", [1] * sql.count("?"))]
        scans = [step for step in plan if step.startswith("SCAN") and step != "SCAN chain"]
        assert not scans, (sql, plan)
        sorts = [step for step in plan if "TEMP B-TREE" in step]
        assert not sorts or "ORDER BY updated" in sql or "timestamp >=" in sql, (sql, plan)
    connection.close()


async def test_a_session_that_is_read_with_its_lease_is_the_latest(open_store: Open) -> None:
    """What this process has written since the lease was taken is in it, whichever session it wrote to."""
    store = open_store()
    session = await store.create_session(**WHO)
    neighbour = await store.create_session(**{**WHO, "session_id": "s2"})

    async def append(**delta: Any) -> None:
        await store.append_event(session, said("x", **delta))

    async def append_buffered(**delta: Any) -> None:
        await store.append_buffered(session, said("x", **delta))

    async def append_to_neighbour(**delta: Any) -> None:
        await store.append_event(neighbour, said("x", **{f"user:{name}": value for name, value in delta.items()}))

    async def delete_and_create(**delta: Any) -> None:
        await store.delete_session(**WHO)
        await store.create_session(**WHO, state=delta)

    for number, write in enumerate((append, append_buffered, append_to_neighbour, delete_and_create)):
        async with await store.acquire_lease(**WHO, wait=True):
            await write(**{f"n{number}": number})
            found = await get(store)
            assert number in found.state.values()


async def test_a_lease_of_a_long_session_reads_none_of_it(open_store: Open) -> None:
    """Others would have to wait for that; the session is there all the same."""
    store, other = open_store(), open_store()
    session = await store.create_session(**WHO)
    for number in range(250):
        await store.append_buffered(session, said(str(number)))
    await store.flush()
    async with await other.acquire_lease(**WHO, wait=True):
        assert len((await get(other)).events) == 250


async def test_a_run_whose_file_was_deleted_does_not_end_well(tmp_path: Path) -> None:
    """It raises `StorageError` at the next event; whatever else is asked of the service does too."""
    path = tmp_path / "a.db"

    async def tidy_up() -> str:
        """Delete too much."""
        path.unlink()
        return "tidy"

    service = SqliteSessionService(path)
    session = await service.create_session(**WHO)
    agent = LlmAgent(name="agent", model=ScriptedModel([call("tidy_up"), "All is well."]), tools=[tidy_up])
    runner = Runner(app_name="app", agent=agent, session_service=service)
    with pytest.raises(StorageError, match=r"a\.db.*deleted while it was open"):
        await runner.run_to_result(user_id="ann", session_id="s1", new_message="Tidy up.")
    for attempt in (
        lambda: service.append_event(session, said("x")),
        lambda: service.get_session(**WHO),
        lambda: service.acquire_lease(**WHO, wait=False),
        lambda: service.create_session(app_name="app", user_id="bob"),
    ):
        with pytest.raises(StorageError, match=r"a\.db"):
            await attempt()
    await service.close()  # all that was not written has been told


async def test_what_was_appended_buffered_is_written_with_the_next_event(open_store: Open) -> None:
    """The session's row is read and set once for both; its state is read in one statement."""
    service = open_store()
    session = await service.create_session(**WHO)
    statements: list[str] = []

    class Noting:
        def __init__(self, connection: Connection) -> None:
            self.connection = connection

        def execute(self, sql: str, parameters: Sequence[Any] = ()) -> Any:
            statements.append(sql.split()[0])
            return self.connection.execute(sql, parameters)

    def noted(method: Callable[..., Any]) -> Callable[..., Any]:
        return lambda work, **how: method(lambda connection: work(Noting(connection)), **how)

    database: Any = service.database
    for name in ("write", "write_buffered", "read"):
        setattr(database, name, noted(getattr(database, name)))
    await service.append_buffered(session, event("user", "Go."))
    await service.append_event(session, said("Gone."))
    assert statements == ["SELECT", "INSERT", "INSERT", "UPDATE"]
    statements.clear()
    await get(service)
    assert statements == ["SELECT", "SELECT"]
