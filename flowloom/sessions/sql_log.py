"""What SQL session stores do with the rows of a log, on a connection, within a transaction."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from flowloom.events.event import Event
from flowloom.sessions.codec import decode_events, decode_value, encode_event, encode_value
from flowloom.sessions.leases import Fence, Key
from flowloom.sessions.service import already_exists, session_not_found
from flowloom.sessions.sql_schema import PLACES
from flowloom.sessions.state import split_by_scope
from flowloom.sql import Connection, Dialect

WHERE = "app_name = ? AND user_id = ? AND session_id = ?"
_COLUMNS = "s.log, s.last_seq, s.updated, l.parent, s.epoch"
_FROM = f"FROM flowloom_sessions s JOIN flowloom_logs l ON l.log = s.log WHERE {WHERE}"
HEAD = f"SELECT {_COLUMNS} {_FROM}"
_HEAD_AND_LINE = (
    f"SELECT {_COLUMNS}, (SELECT CASE COUNT(*) WHEN 1 THEN MIN(t.owner) END FROM flowloom_leases t WHERE "
    f"t.app_name = s.app_name AND t.user_id = s.user_id AND t.session_id = s.session_id) {_FROM}"
)
_TAKE_OVER = (
    f"UPDATE flowloom_sessions SET epoch = epoch + CASE WHEN worker IS NULL THEN 1 ELSE 0 END WHERE {WHERE} "
    "RETURNING log, last_seq, updated, "
    "(SELECT parent FROM flowloom_logs WHERE flowloom_logs.log = flowloom_sessions.log), epoch, worker"
)
_STATE = (
    "SELECT NULL, key, value FROM flowloom_state WHERE log = ? UNION ALL "
    "SELECT user_id, key, value FROM flowloom_shared_state WHERE app_name = ? AND user_id IN ('', ?)"
)
_SET_STATE = (
    "INSERT INTO flowloom_state (log, key, value) VALUES (?, ?, ?) ON CONFLICT (log, key) DO UPDATE SET value = "
    "excluded.value"
)
_SET_SHARED = (
    "INSERT INTO flowloom_shared_state (app_name, user_id, key, value) VALUES (?, ?, ?, ?) "
    "ON CONFLICT (app_name, user_id, key) DO UPDATE SET value = excluded.value"
)
_ADD_EVENT = "INSERT INTO flowloom_events (place, log, id, timestamp, event) VALUES (?, ?, ?, ?, ?)"
CHAIN = """WITH RECURSIVE chain (log, parent, parent_seq) AS (
    SELECT log, parent, parent_seq FROM flowloom_logs WHERE log = ?
    UNION ALL SELECT l.log, l.parent, l.parent_seq FROM flowloom_logs l JOIN chain ON l.log = chain.parent
) SELECT log, parent, parent_seq FROM chain"""


class Head(NamedTuple):
    """A session's row, with the log that its log was forked from."""

    log: int
    last_seq: int
    updated: float
    parent: int | None
    epoch: int = 0


class Segment(NamedTuple):
    """A stretch of a session's log: the rows of `log` after `after`, up to and with `upto`."""

    log: int
    after: int
    upto: int


class StateRows(NamedTuple):
    """State as it is stored, split by scope: keys and the JSON of values."""

    app: list[tuple[str, str]]
    user: list[tuple[str, str]]
    own: list[tuple[str, str]]

    @classmethod
    def of(cls, state: Mapping[str, Any]) -> StateRows:
        """Sorted, so that two writers lock rows in one order."""
        if not state:
            return _NO_STATE
        return cls(*([(key, encode_value(part[key])) for key in sorted(part)] for part in split_by_scope(state)))


_NO_STATE = StateRows([], [], [])


class EventRow(NamedTuple):
    """An event as it is stored."""

    id: str
    timestamp: float
    text: str
    state: StateRows
    is_message: bool
    """Whether the user says it."""

    @classmethod
    def of(cls, event: Event) -> EventRow:
        """The row of an event without `temp:` state."""
        moment = round(event.timestamp, 6)  # as it is read again, so that an event is found by its own time
        state = StateRows.of(event.actions.state_delta)
        return cls(event.id, moment, encode_event(event), state, event.author == "user")


@dataclass(slots=True)
class Appended:
    """Where an event is in which log; `stored` is the text of one that was there already."""

    log: int = 0
    seq: int = 0
    stored: str | None = None


@dataclass(slots=True)
class Loaded:
    """A session as it was read: its events after `after`, and the text of its state."""

    head: Head
    after: int
    events: list[Event]
    state: dict[str, Any]


# -- heads and segments --------------------------------------------------------------------------------


def find(connection: Connection, key: Key, dialect: Dialect, *, lock: bool) -> Head | None:
    """The row of a session; `lock` keeps other writers off until the transaction ends."""
    sql = HEAD + " FOR UPDATE OF s" if lock and dialect == "postgres" else HEAD
    row = connection.execute(sql, key).fetchone()
    return None if row is None else Head(*row)


def found(connection: Connection, key: Key, dialect: Dialect) -> Head:
    """The row of a session that is to be written. Raises `SessionNotFoundError`."""
    head = find(connection, key, dialect, lock=True)
    if head is None:
        raise session_not_found(*key)
    return head


def find_held(connection: Connection, key: Key, owner: str) -> Head | None:
    """The row of a session; None also unless the lease of `owner` is the only one, and no other run waits."""
    row = connection.execute(_HEAD_AND_LINE, key).fetchone()
    return None if row is None or row[-1] != owner else Head(*row[:-1])


def take_over(connection: Connection, key: Key) -> tuple[Head | None, str | None]:
    """The row of a session, whose epoch is raised: those who had it before append nothing any more.

    And the worker that has it; its epoch is as it was then.
    """
    row = connection.execute(_TAKE_OVER, key).fetchone()
    return (None, None) if row is None else (Head(*row[:-1]), row[-1])


def is_held(connection: Connection, key: Key, head: Head | None, fence: Fence) -> bool:
    """Whether no other run has taken a session over since. Of one that was made since, the ticket tells."""
    before, held = fence.held, None if head is None else (head.log, head.epoch)
    if before is not None and held is not None and before[0] == held[0]:
        return before == held
    sql = f"SELECT 1 FROM flowloom_leases WHERE {WHERE} AND owner = ?"
    if connection.execute(sql, (*key, fence.owner)).fetchone() is None:
        return False
    fence.held = held
    return True


def segments(connection: Connection, head: Head) -> list[Segment]:
    """Where the events of a session are, the first ones first."""
    if head.parent is None:
        return [Segment(head.log, 0, head.last_seq)]
    result: list[Segment] = []
    upto = head.last_seq
    for log, parent, parent_seq in connection.execute(CHAIN, (head.log,)).fetchall():
        after = 0 if parent is None else parent_seq
        if upto > after:
            result.append(Segment(log, after, upto))
        upto = min(upto, after)
    result.reverse()
    return result


def seq_of(connection: Connection, stretches: Sequence[Segment], event_id: str) -> int | None:
    """The seq of an event in a log; None if it is not there."""
    for log, after, upto in stretches:
        sql = "SELECT place FROM flowloom_events WHERE log = ? AND id = ?"
        row = connection.execute(sql, (log, event_id)).fetchone()
        if row is not None and after < row[0] % PLACES <= upto:
            return row[0] % PLACES
    return None


# -- reading ---------------------------------------------------------------------------------------------


def load(
    connection: Connection, key: Key, seen: tuple[int, int], recent: int | None = None, since: float | None = None
) -> Loaded | None:
    """A session without the events that were seen: (log, seq). Of those, the last `recent`, at or after `since`.

    None if there is none.
    """
    row = connection.execute(HEAD, key).fetchone()
    if row is None:
        return None
    head = Head(*row)
    after = _after(head, seen)
    if recent is not None:
        after = max(after, head.last_seq - recent)
    return _loaded(connection, key, head, after, since)


def load_few(connection: Connection, key: Key, head: Head | None, seen: tuple[int, int], most: int) -> Loaded | None:
    """The session of a row without the events that were seen; None if there is none, or `most` are not enough."""
    if head is None or head.last_seq - _after(head, seen) > most:
        return None
    return _loaded(connection, key, head, _after(head, seen), None)


def _after(head: Head, seen: tuple[int, int]) -> int:
    return seen[1] if seen[0] == head.log and seen[1] <= head.last_seq else 0


def _loaded(connection: Connection, key: Key, head: Head, after: int, since: float | None) -> Loaded:
    events: list[Event] = []
    if after < head.last_seq:
        for stretch in segments(connection, head):
            if stretch.upto > after:
                events.extend(_events(connection, stretch, after, since))
    return Loaded(head, after, events, state_of(connection, key, head.log))


def _events(connection: Connection, stretch: Segment, after: int, since: float | None) -> list[Event]:
    base = stretch.log * PLACES
    first, last = base + max(stretch.after, after), base + stretch.upto
    if since is None:
        sql = "SELECT event FROM flowloom_events WHERE place > ? AND place <= ? ORDER BY place"
        rows = connection.execute(sql, (first, last)).fetchall()
    else:
        sql = (
            "SELECT event FROM flowloom_events WHERE log = ? AND timestamp >= ? AND +place > ? AND +place <= ? "
            "ORDER BY place"
        )
        rows = connection.execute(sql, (stretch.log, since, first, last)).fetchall()
    return decode_events(rows)


def state_of(connection: Connection, key: Key, log: int) -> dict[str, Any]:
    """The state of a session, all scopes merged."""
    state: dict[str, Any] = {}
    for scope, name, value in connection.execute(_STATE, (log, *key[:2])).fetchall():
        state[name if scope is None else ("user:" if scope else "app:") + name] = decode_value(value)
    return state


def app_names(connection: Connection) -> list[str]:
    """The apps that have sessions, sorted."""
    rows = connection.execute("SELECT DISTINCT app_name FROM flowloom_sessions").fetchall()
    return sorted(row[0] for row in rows)


def list_all(
    connection: Connection, app_name: str, user_id: str | None
) -> list[tuple[str, str, float, dict[str, Any]]]:
    """User, id, time of update and state of all sessions of an app or user, the oldest first."""
    which, names = (
        ("app_name = ?", (app_name,)) if user_id is None else ("app_name = ? AND user_id = ?", (app_name, user_id))
    )
    sql = f"SELECT user_id, session_id, updated, log FROM flowloom_sessions WHERE {which} ORDER BY updated, log"
    sessions = connection.execute(sql, names).fetchall()
    own: dict[int, dict[str, str]] = {}
    sql = f"SELECT t.log, t.key, t.value FROM flowloom_sessions s JOIN flowloom_state t ON t.log = s.log WHERE {which}"
    for log, name, value in connection.execute(sql, names).fetchall():
        own.setdefault(log, {})[name] = value
    shared: dict[str, dict[str, str]] = {}
    sql = "SELECT user_id, key, value FROM flowloom_shared_state WHERE app_name = ?"
    if user_id is not None:
        sql += " AND user_id IN ('', ?)"
    for owner, name, value in connection.execute(sql, names).fetchall():
        shared.setdefault(owner, {})[("user:" if owner else "app:") + name] = value
    result: list[tuple[str, str, float, dict[str, Any]]] = []
    for owner, session_id, updated, log in sessions:
        texts = own.get(log, {}) | shared.get("", {}) | shared.get(owner, {})
        state = {name: decode_value(value) for name, value in texts.items()}
        result.append((owner, session_id, updated, state))
    return result


# -- writing ---------------------------------------------------------------------------------------------


def create(connection: Connection, key: Key, updated: float, state: StateRows, made: str) -> tuple[int, dict[str, Any]]:
    """Create a session; its log, and its state with that of user and app. Raises `AlreadyExistsError`.

    `made` is an id of this write: a session that has it is what an earlier attempt has made, whose answer was lost.
    """
    log = add_session(connection, key, Head(0, 0, updated, None), None, made)
    if log is None:
        log = made_by(connection, key, made)
        if log is None:
            raise already_exists(*key)
    else:
        write_own(connection, log, "base", state.own)
        write_own(connection, log, "state", state.own)
        _write_shared(connection, key, state)
    return log, state_of(connection, key, log)


def append(
    connection: Connection,
    key: Key,
    dialect: Dialect,
    rows: Sequence[EventRow],
    attempted: set[str],
    fence: Fence | None,
) -> list[Appended]:
    """Append events, each unless one of its id is in the log. Raises `SessionNotFoundError`, `RunLostError`.

    `attempted` has the ids of those that an earlier attempt of this write has added: if they are there, the write has
    succeeded, and its answer was lost.
    """
    head = found(connection, key, dialect)
    if fence is not None:
        if not is_held(connection, key, head, fence):
            raise fence.error()
        if fence.along is not None and any(row.is_message for row in rows):
            fence.along(connection)
    done: list[Appended] = []
    added: list[str] = []
    for row in rows:
        each = _append(connection, key, head, row)
        done.append(each)
        if each.stored is None:
            added.append(row.id)
            head = head._replace(last_seq=each.seq, updated=row.timestamp)
        elif row.id in attempted and row.id not in added:
            each.stored = None
    if added:
        attempted.update(added)
        _set_end(connection, key, head.last_seq, head.updated)
    return done


def events_since(connection: Connection, key: Key, dialect: Dialect, event_id: str | None) -> list[Event]:
    """What a session has after one of its events, or all if that is not there; other writers are kept off.

    Raises `SessionNotFoundError`.
    """
    head = found(connection, key, dialect)
    stretches = segments(connection, head)
    seen = seq_of(connection, stretches, event_id) if event_id is not None else None
    after = seen or 0
    return [event for each in stretches if each.upto > after for event in _events(connection, each, after, None)]


def _append(connection: Connection, key: Key, head: Head, row: EventRow) -> Appended:
    if head.parent is not None:
        stretches = segments(connection, head)
        seq = seq_of(connection, stretches, row.id)
        if seq is not None:
            return _stored(connection, head, stretches, seq)
    seq = head.last_seq + 1
    added = connection.execute(
        _ADD_EVENT + " ON CONFLICT (log, id) DO NOTHING",
        (head.log * PLACES + seq, head.log, row.id, row.timestamp, row.text),
    )
    if added.rowcount < 1:
        stretches = [Segment(head.log, 0, head.last_seq)]
        seq = seq_of(connection, stretches, row.id)
        assert seq is not None
        return _stored(connection, head, stretches, seq)
    if row.state is not _NO_STATE:
        write_own(connection, head.log, "state", row.state.own)
        _write_shared(connection, key, row.state)
        if row.state.own:
            _write_changes(connection, head.log, ((name, seq) for name, _ in row.state.own))
    return Appended(head.log, seq)


def _stored(connection: Connection, head: Head, stretches: Sequence[Segment], seq: int) -> Appended:
    log = next(stretch.log for stretch in stretches if stretch.after < seq <= stretch.upto)
    sql = "SELECT event FROM flowloom_events WHERE place = ?"
    return Appended(head.log, seq, connection.execute(sql, (log * PLACES + seq,)).fetchone()[0])


def _set_end(connection: Connection, key: Key, seq: int, updated: float) -> None:
    sql = f"UPDATE flowloom_sessions SET last_seq = ?, updated = ? WHERE {WHERE}"
    connection.execute(sql, (seq, updated, *key))


def made_by(connection: Connection, key: Key, made: str) -> int | None:
    """The log of a session, if it is the write `made` that has made it."""
    sql = f"SELECT l.log, l.made FROM flowloom_sessions s JOIN flowloom_logs l ON l.log = s.log WHERE {WHERE}"
    row = connection.execute(sql, key).fetchone()
    return row[0] if row is not None and row[1] == made else None


def add_session(
    connection: Connection,
    key: Key,
    head: Head,
    parent: tuple[int, int] | None,
    made: str | None = None,
) -> int | None:
    """The log of a new session; None if there is one already."""
    sql = "INSERT INTO flowloom_logs (parent, parent_seq, made) VALUES (?, ?, ?) RETURNING log"
    log = connection.execute(sql, (*(parent or (None, None)), made)).fetchone()[0]
    added = connection.execute(
        "INSERT INTO flowloom_sessions (app_name, user_id, session_id, log, last_seq, updated) "
        "VALUES (?, ?, ?, ?, ?, ?) ON CONFLICT (app_name, user_id, session_id) DO NOTHING",
        (*key, log, head.last_seq, head.updated),
    )
    if added.rowcount < 1:
        connection.execute("DELETE FROM flowloom_logs WHERE log = ?", (log,))
        return None
    return log


def write_own(
    connection: Connection, log: int, table: Literal["state", "base"], rows: Sequence[tuple[str, str]]
) -> None:
    """Set values of a session's own state, or of what its log began with."""
    if rows:
        sql = _SET_STATE if table == "state" else _SET_STATE.replace("flowloom_state", "flowloom_base")
        connection.executemany(sql, [(log, name, value) for name, value in rows])


def _write_shared(connection: Connection, key: Key, state: StateRows) -> None:
    if state.app or state.user:
        rows = [(key[0], "", name, value) for name, value in state.app]
        rows += [(key[0], key[1], name, value) for name, value in state.user]
        connection.executemany(_SET_SHARED, rows)


def _write_changes(connection: Connection, log: int, rows: Iterable[tuple[str, int]]) -> None:
    sql = "INSERT INTO flowloom_changes (log, key, seq) VALUES (?, ?, ?)"
    connection.executemany(sql, [(log, name, seq) for name, seq in rows])


def import_events(
    connection: Connection,
    key: Key,
    dialect: Dialect,
    updated: float,
    state: StateRows,
    initial: StateRows,
    rows: Sequence[EventRow],
) -> None:
    """Put events at the end of a session as they are, the session created if need be, and set its state."""
    head = find(connection, key, dialect, lock=True)
    if head is None:
        log = add_session(connection, key, Head(0, 0, updated, None), None)
        if log is None:  # another call was quicker
            raise already_exists(*key)
        head = Head(log, 0, updated, None)
        write_own(connection, head.log, "base", initial.own)
    numbered = list(enumerate(rows, head.last_seq + 1))
    base = head.log * PLACES
    connection.executemany(
        _ADD_EVENT, [(base + seq, head.log, row.id, row.timestamp, row.text) for seq, row in numbered]
    )
    _write_changes(connection, head.log, ((name, seq) for seq, row in numbered for name, _ in row.state.own))
    write_own(connection, head.log, "state", state.own)
    _write_shared(connection, key, state)
    _set_end(connection, key, head.last_seq + len(rows), updated)


def event_ids(connection: Connection, head: Head) -> list[str]:
    """The ids of all events of a session, in order."""
    ids: list[str] = []
    sql = "SELECT id FROM flowloom_events WHERE place > ? AND place <= ? ORDER BY place"
    for log, after, upto in segments(connection, head):
        ids += [row[0] for row in connection.execute(sql, (log * PLACES + after, log * PLACES + upto)).fetchall()]
    return ids
