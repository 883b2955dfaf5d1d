"""Sessions that google-adk wrote: its three layouts, of which the oldest keeps actions pickled."""

from __future__ import annotations

import datetime
import json
import os
import pickle
import sqlite3
import sys
import time
from collections.abc import Iterator
from enum import Enum
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from flowloom import Event, InMemorySessionService, Session, SqliteSessionService
from flowloom.errors import NotSupportedError, StorageError
from flowloom.interop.adk_sqlite import AdkSqliteDatabase
from flowloom.sessions import GetSessionConfig

WHO: dict[str, Any] = {"app_name": "app", "user_id": "ann", "session_id": "s1"}
STATES = """
    CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT NOT NULL, update_time {time} NOT NULL);
    CREATE TABLE user_states (
        app_name TEXT NOT NULL, user_id TEXT NOT NULL, state TEXT NOT NULL, update_time {time} NOT NULL,
        PRIMARY KEY (app_name, user_id));
    CREATE TABLE sessions (
        app_name TEXT NOT NULL, user_id TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL,
        create_time {time} NOT NULL, update_time {time} NOT NULL, PRIMARY KEY (app_name, user_id, id));
"""
EVENTS = """
    CREATE TABLE events (
        id TEXT NOT NULL, app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
        invocation_id TEXT NOT NULL, timestamp {time} NOT NULL, event_data TEXT,
        PRIMARY KEY (app_name, user_id, session_id, id));
"""
PICKLED_EVENTS = """
    CREATE TABLE events (
        id VARCHAR(128) NOT NULL, app_name VARCHAR(128) NOT NULL, user_id VARCHAR(128) NOT NULL,
        session_id VARCHAR(128) NOT NULL, invocation_id VARCHAR(256) NOT NULL, author VARCHAR(256) NOT NULL,
        actions BLOB NOT NULL, long_running_tool_ids_json TEXT, branch VARCHAR(256), timestamp DATETIME NOT NULL,
        content TEXT, grounding_metadata TEXT, custom_metadata TEXT, usage_metadata TEXT, citation_metadata TEXT,
        partial BOOLEAN, turn_complete BOOLEAN, error_code VARCHAR(256), error_message TEXT, interrupted BOOLEAN,
        input_transcription TEXT, output_transcription TEXT, PRIMARY KEY (id, app_name, user_id, session_id));
"""
TIMES = ("2026-11-21 10:31:05.746145", "2026-11-21 10:31:06.250000")
EPOCH = (1795257065.746145, 1795257066.25)


def written(number: int) -> str:
    """An event as google-adk dumps it: names in snake_case, bytes in the URL-safe alphabet."""
    parts = [{"text": f"t{number}"}, {"inline_data": {"data": "_wA=", "mime_type": "a/b"}}]
    return json.dumps(
        {
            "content": {"parts": parts, "role": "user"},
            "invocation_id": "e-1",
            "author": "agent",
            "actions": {"state_delta": {"n": number}, "artifact_delta": {}, "requested_auth_configs": {}},
            "node_info": {"path": ""},
            "long_running_tool_ids": ["c1"],
            "id": f"id-{number}",
            "timestamp": EPOCH[number],
        }
    )


def database(path: Path, events: str, *, times: tuple[Any, Any]) -> sqlite3.Connection:
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript((STATES + events).format(time="REAL" if times == EPOCH else "DATETIME"))
    connection.execute("INSERT INTO app_states VALUES ('app', '{\"p\": \"x\"}', ?)", times[:1])
    connection.execute("INSERT INTO user_states VALUES ('app', 'ann', '{\"u\": [2]}', ?)", times[:1])
    for user, session, state in (("ann", "s1", {"a": 1, "n": 1}), ("bob", "s2", {})):
        row = ("app", user, session, json.dumps(state), times[0], times[1])
        connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", row)
    return connection


@pytest.fixture(params=["sqlite service", "database service", "older database service"])
def path(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A file in each of the layouts, with the same in it."""
    path, times = tmp_path / "adk.db", EPOCH if request.param == "sqlite service" else TIMES
    if request.param != "older database service":
        connection = database(path, EVENTS, times=times)
        for number in (1, 0):
            row = (f"id-{number}", "app", "ann", "s1", "e-1", times[number], written(number))
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    else:
        connection = database(path, PICKLED_EVENTS, times=times)
        for number in (1, 0):
            add_pickled(connection, number, pickled("EventActions", state_delta={"n": number}))
    connection.close()
    return path


def add_pickled(connection: sqlite3.Connection, number: int, actions: bytes) -> None:
    content = json.dumps(json.loads(written(number))["content"])
    connection.execute(
        "INSERT INTO events (id, app_name, user_id, session_id, invocation_id, author, actions, "
        "long_running_tool_ids_json, timestamp, content, turn_complete) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        (f"id-{number}", "app", "ann", "s1", "e-1", "agent", actions, '["c1"]', TIMES[number], content, None),
    )


def pickled(kind: str, **fields: Any) -> bytes:
    """An object of one of google-adk's models, as pickle writes it where google-adk is installed."""
    modules = {
        name: ModuleType(name) for name in ("google.adk", "google.adk.events", "google.adk.events.event_actions")
    }
    made = type(kind, (), {"__module__": "google.adk.events.event_actions"})
    setattr(modules["google.adk.events.event_actions"], kind, made)
    value = made()
    value.__dict__.update(__dict__=fields, __pydantic_extra__=None, __pydantic_fields_set__={"state_delta"})
    before = {name: sys.modules.get(name) for name in modules}
    sys.modules.update(modules)
    try:
        return pickle.dumps(value)
    finally:
        for name, module in before.items():
            if module is None:
                del sys.modules[name]
            else:
                sys.modules[name] = module


@pytest.fixture
async def opened(path: Path) -> Any:
    service = AdkSqliteDatabase(path)
    yield service
    await service.close()


async def test_a_session_is_read_whole(opened: AdkSqliteDatabase) -> None:
    """Events in the order of their times, all scopes of state, bytes, ids that wait."""
    session = await opened.get_session(**WHO)
    assert session is not None
    assert [event.id for event in session.events] == ["id-0", "id-1"]
    assert session.state == {"a": 1, "n": 1, "app:p": "x", "user:u": [2]}
    assert session.last_update_time == pytest.approx(EPOCH[1])
    last = session.events[-1]
    assert (last.text, last.author, last.invocation_id, last.long_running_tool_ids) == ("t1", "agent", "e-1", ["c1"])
    assert last.content is not None
    assert last.content.parts is not None
    assert last.content.parts[1].inline_data is not None
    assert last.content.parts[1].inline_data.data == b"\xff\x00"
    assert (last.actions.state_delta, last.timestamp) == ({"n": 1}, EPOCH[1])


async def test_the_sessions_are_copied(opened: AdkSqliteDatabase, tmp_path: Path) -> None:
    store = SqliteSessionService(tmp_path / "mine.db")
    assert [await store.copy_from(opened, app_name=app) for app in await opened.app_names()] == [2]
    session = await store.get_session(**WHO)
    assert session is not None
    assert [event.text for event in session.events] == ["t0", "t1"]
    assert session.state == {"a": 1, "n": 1, "app:p": "x", "user:u": [2]}
    await store.rewind(session, before_invocation_id="e-1")
    assert session.state["a"] == 1
    await store.close()


async def test_sessions_are_listed(opened: AdkSqliteDatabase) -> None:
    everyone = (await opened.list_sessions(app_name="app")).sessions
    assert sorted((each.user_id, each.id) for each in everyone) == [("ann", "s1"), ("bob", "s2")]
    [bobs] = (await opened.list_sessions(app_name="app", user_id="bob")).sessions
    assert bobs.state == {"app:p": "x"}
    assert await opened.get_user_state(app_name="app", user_id="ann") == {"u": [2]}
    assert await opened.get_session(**{**WHO, "session_id": "nope"}) is None


async def test_a_part_can_be_asked_for(opened: AdkSqliteDatabase) -> None:
    for config in (GetSessionConfig(num_recent_events=1), GetSessionConfig(after_timestamp=EPOCH[1])):
        session = await opened.get_session(**WHO, config=config)
        assert session is not None
        assert [event.text for event in session.events] == ["t1"]


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """The machine is in a time zone, and not in that of the database's clock."""
    monkeypatch.setenv("TZ", "CET-1CEST,M3.5.0,M10.5.0/3")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


AROUND_THE_CHANGE = (1792889400.0, 1792890600.5)
"""Before and after the clocks of Berlin go back: 02:50 and, 20 minutes later, 02:10:00.5."""


@pytest.mark.usefixtures("berlin")
@pytest.mark.parametrize("layout", [EVENTS, PICKLED_EVENTS])
async def test_the_times_of_events_are_those_of_the_machines_zone(layout: str, tmp_path: Path) -> None:
    """google-adk's `DatabaseSessionService` writes them so, and those of sessions in UTC."""
    moments = AROUND_THE_CHANGE if layout is EVENTS else EPOCH
    connection = database(tmp_path / "adk.db", layout, times=TIMES)
    for number, moment in enumerate(moments):
        local = str(datetime.datetime.fromtimestamp(moment))
        if layout is EVENTS:
            data = json.dumps({**json.loads(written(number)), "timestamp": moment})
            row = (f"id-{number}", "app", "ann", "s1", "e-1", local, data)
            connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
        else:
            add_pickled(connection, number, pickled("EventActions", state_delta={"n": number}))
            connection.execute("UPDATE events SET timestamp = ? WHERE id = ?", (local, f"id-{number}"))
    connection.close()
    async with AdkSqliteDatabase(tmp_path / "adk.db") as service:
        session = await service.get_session(**WHO)
    assert session is not None
    assert [(event.id, event.timestamp) for event in session.events] == [("id-0", moments[0]), ("id-1", moments[1])]
    assert session.last_update_time == pytest.approx(EPOCH[1])


async def test_nothing_is_written(opened: AdkSqliteDatabase, path: Path) -> None:
    before = path.read_bytes()  # noqa: ASYNC240
    for write in (
        opened.create_session(app_name="app", user_id="ann"),
        opened.delete_session(**WHO),
        opened.append_event(Session(id="s1", app_name="app", user_id="ann"), Event(author="a")),
    ):
        with pytest.raises(NotSupportedError, match="copy_from"):
            await write
    await opened.get_session(**WHO)
    await opened.close()
    assert path.read_bytes() == before  # noqa: ASYNC240


class Colour(Enum):
    RED = "red"


@pytest.mark.parametrize("harmful", [os.system, Path, Colour.RED])
async def test_a_pickle_that_holds_more_than_data_is_refused(harmful: Any, tmp_path: Path) -> None:
    """Nothing is loaded that could run code; the error says what to do."""
    connection = database(tmp_path / "adk.db", PICKLED_EVENTS, times=TIMES)
    add_pickled(connection, 0, pickled("EventActions", state_delta={"x": harmful}))
    connection.close()
    service = AdkSqliteDatabase(tmp_path / "adk.db")
    with pytest.raises(StorageError, match="adk migrate session"):
        await service.get_session(**WHO)
    await service.close()


@pytest.mark.parametrize("actions", [b"no pickle", pickle.dumps([1]), pickle.dumps(None)])
async def test_a_damaged_pickle_is_an_error(actions: bytes, tmp_path: Path) -> None:
    connection = database(tmp_path / "adk.db", PICKLED_EVENTS, times=TIMES)
    add_pickled(connection, 0, actions)
    connection.close()
    service = AdkSqliteDatabase(tmp_path / "adk.db")
    with pytest.raises(StorageError, match="cannot be read"):
        await service.get_session(**WHO)
    await service.close()


async def test_another_file_is_refused(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match="no file"):
        AdkSqliteDatabase(tmp_path / "nope.db")
    assert not (tmp_path / "nope.db").exists()
    mine = SqliteSessionService(tmp_path / "mine.db")
    await mine.create_session(app_name="app", user_id="ann")
    await mine.close()
    (tmp_path / "text").write_text("x" * 5000)
    for name in ("mine.db", "text"):
        service = AdkSqliteDatabase(tmp_path / name)
        with pytest.raises(StorageError, match=r"not one of google-adk's|cannot be used"):
            await service.list_sessions(app_name="app")
        with pytest.raises(StorageError):
            await InMemorySessionService().copy_from(service, app_name="app")
        await service.close()
