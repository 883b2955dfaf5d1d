"""`AdkSqliteDatabase`: the sessions in a SQLite file that google-adk wrote, to be read, and copied from.

Three layouts are known: that of google-adk's `SqliteSessionService`, and the two of its `DatabaseSessionService`, of
which the older keeps the actions of events pickled.
"""

from __future__ import annotations

import datetime
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NoReturn, TypeVar

from flowloom.errors import NotSupportedError, StorageError
from flowloom.events.event import Event
from flowloom.events.event_json import read_event
from flowloom.interop.adk_pickle import unpickled_actions
from flowloom.sessions.codec import decode_events, decode_foreign_event, decode_value
from flowloom.sessions.service import BaseSessionService, GetSessionConfig, ListSessionsResponse
from flowloom.sessions.session import Session
from flowloom.sql import Connection
from flowloom.sql.sqlite import SqliteDatabase

T = TypeVar("T")
_OF_SESSION = "app_name = ? AND user_id = ? AND session_id = ?"
_NEWER = {"app_name", "user_id", "session_id", "timestamp", "event_data"}
_OLDER = {"app_name", "user_id", "session_id", "timestamp", "author", "actions", "content"}
_PLAIN = "id invocation_id author branch error_code error_message".split()
_FLAGS = "partial turn_complete interrupted".split()
_JSON = (
    "content grounding_metadata custom_metadata usage_metadata citation_metadata input_transcription "
    "output_transcription long_running_tool_ids_json"
).split()


class AdkSqliteDatabase(BaseSessionService):
    """A SQLite file of google-adk at `path`, read-only.

    Take its sessions over with `await service.copy_from(AdkSqliteDatabase(path), app_name="...")`; `app_names` says
    which apps there are. What would write (with whatever `names`) raises `NotSupportedError`. Raises `StorageError` for
    a file that is missing, of another layout, or holds what cannot be read.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = os.fspath(path)
        if not Path(self.path).is_file():
            raise StorageError(f"There is no file `{self.path}` to read google-adk's sessions from.")
        self._database = SqliteDatabase(self.path)

    async def app_names(self) -> list[str]:
        """The apps that have sessions, sorted."""
        return await self._read(lambda connection: [row[0] for row in _rows(connection, _APPS)])

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        key = (app_name, user_id, session_id)
        found = await self._read(lambda connection: _session(connection, key))
        if found is not None and config is not None:
            if config.num_recent_events is not None:
                found.events = found.events[-config.num_recent_events :] if config.num_recent_events else []
            if config.after_timestamp is not None:
                found.events = [event for event in found.events if event.timestamp >= config.after_timestamp]
        return found

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        return ListSessionsResponse(sessions=await self._read(lambda connection: _list(connection, app_name, user_id)))

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        return await self._read(lambda connection: _state(connection, _USER_STATE, (app_name, user_id)))

    async def close(self) -> None:
        await self._database.close()

    async def create_session(self, **names: Any) -> Session:
        self._refuse()

    async def delete_session(self, **names: Any) -> None:
        self._refuse()

    async def append_event(self, session: Session, event: Event) -> Event:
        self._refuse()

    def _refuse(self) -> NoReturn:
        raise NotSupportedError(
            f"The google-adk database `{self.path}` is only read. Copy it into a service of flowloom with `copy_from`."
        )

    async def _read(self, work: Callable[[Connection], T]) -> T:
        def checked(connection: Connection) -> T:
            columns = {row[1] for row in _rows(connection, "PRAGMA table_info(events)")}
            if not columns >= _NEWER and not columns >= _OLDER:
                raise StorageError(
                    f"The SQLite database `{self.path}` is not one of google-adk's session services: its table "
                    f"`events` has the columns {sorted(columns)}."
                )
            try:
                return work(connection)
            except (ValueError, TypeError) as error:
                raise StorageError(f"The google-adk database `{self.path}` cannot be read: {error}.") from error

        return await self._database.read(checked)


_APPS = "SELECT DISTINCT app_name FROM sessions ORDER BY app_name"
_APP_STATE = "SELECT state FROM app_states WHERE app_name = ?"
_USER_STATE = "SELECT state FROM user_states WHERE app_name = ? AND user_id = ?"


def _rows(connection: Connection, sql: str, parameters: Sequence[Any] = ()) -> list[Any]:
    return connection.execute(sql, parameters).fetchall()


def _state(connection: Connection, sql: str, names: Sequence[str]) -> dict[str, Any]:
    row = connection.execute(sql, names).fetchone()
    return dict(decode_value(row[0])) if row is not None and row[0] else {}


def _list(connection: Connection, app_name: str, user_id: str | None) -> list[Session]:
    sql = "SELECT user_id, id, state, update_time FROM sessions WHERE app_name = ?"
    names = [app_name]
    if user_id is not None:
        sql += " AND user_id = ?"
        names.append(user_id)
    found = [_made(connection, (app_name, row[0], row[1]), row[2], row[3]) for row in _rows(connection, sql, names)]
    return sorted(found, key=lambda session: session.last_update_time)


def _made(connection: Connection, key: tuple[str, str, str], state: str, updated: Any) -> Session:
    shared = {f"app:{name}": value for name, value in _state(connection, _APP_STATE, key[:1]).items()}
    shared.update((f"user:{name}", value) for name, value in _state(connection, _USER_STATE, key[:2]).items())
    return Session(
        app_name=key[0],
        user_id=key[1],
        id=key[2],
        state={**(decode_value(state) if state else {}), **shared},
        last_update_time=_time(updated),
    )


def _session(connection: Connection, key: tuple[str, str, str]) -> Session | None:
    sql = "SELECT state, update_time FROM sessions WHERE app_name = ? AND user_id = ? AND id = ?"
    row = connection.execute(sql, key).fetchone()
    if row is None:
        return None
    session = _made(connection, key, *row)
    columns = [each[1] for each in _rows(connection, "PRAGMA table_info(events)")]
    if "event_data" in columns:
        sql = f"SELECT event_data FROM events WHERE {_OF_SESSION} ORDER BY timestamp, rowid"
        events = decode_events(_rows(connection, sql, key), decode_foreign_event)
        session.events = sorted(events, key=lambda event: event.timestamp)  # the column may have a local time
    else:
        sql = f"SELECT {', '.join(columns)} FROM events WHERE {_OF_SESSION} ORDER BY timestamp, rowid"
        session.events = [_older_event(dict(zip(columns, each, strict=True))) for each in _rows(connection, sql, key)]
    return session


def _older_event(row: dict[str, Any]) -> Event:
    data: dict[str, Any] = {name: row[name] for name in _PLAIN if row.get(name) is not None}
    data.update((name, bool(row[name])) for name in _FLAGS if row.get(name) is not None)
    data.update((name, decode_value(row[name])) for name in _JSON if row.get(name))
    waiting: Any = data.pop("long_running_tool_ids_json", None)
    if waiting:
        data["long_running_tool_ids"] = sorted(waiting)
    if row["actions"]:
        data["actions"] = unpickled_actions(row["actions"])
    data["timestamp"] = _time(row["timestamp"], zone=None)
    return read_event(data)[0]


def _time(value: Any, zone: datetime.tzinfo | None = datetime.UTC) -> float:
    """Epoch seconds, or the text of a time in the `zone`; None is that of this machine, as google-adk takes it."""
    if isinstance(value, str):
        moment = datetime.datetime.fromisoformat(value)
        return (moment if moment.tzinfo else moment.replace(tzinfo=zone)).timestamp()
    return float(value)
