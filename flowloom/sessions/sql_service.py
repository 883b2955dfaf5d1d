"""What the SQL session services share: sessions in a database, and those that were seen lately in memory."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from flowloom.errors import RunLostError, StorageError
from flowloom.events.clock import now
from flowloom.events.event import Event
from flowloom.events.ids import new_id
from flowloom.events.wire import make
from flowloom.log.claims import check_undecided
from flowloom.log.history import History
from flowloom.sessions import sql_forks, sql_log
from flowloom.sessions.admission import admitted_state, answers_unknown, key_of_new
from flowloom.sessions.codec import decode_event
from flowloom.sessions.leases import Fence, Key, SessionLease
from flowloom.sessions.service import (
    BaseSessionService,
    GetSessionConfig,
    ListSessionsResponse,
    apply_event,
    as_appended,
    missing_events,
    without_temp_state,
)
from flowloom.sessions.session import Session
from flowloom.sessions.session_cache import SessionCache
from flowloom.sessions.sql_leases import SqlLeases
from flowloom.sessions.sql_log import Appended, EventRow, Head, Loaded, StateRows
from flowloom.sessions.sql_schema import SESSIONS
from flowloom.sql import Connection, Database
from flowloom.sql.database import Job

T = TypeVar("T")
CACHED_EVENTS = 100_000
_NOT_THERE = object()
_NEVER: tuple[float, Loaded | None] = (0.0, None)
_JUST_NOW = 0.05  # for how long a session that was read with its lease is as good as read now, in seconds
_FEW = 32  # how many events are read with a lease at most: the loop, or the writer, has others to serve
_LATELY = 8  # how far back `append_buffered` looks for an event that is there already


class _Buffered:
    """An event on its way into the database, and what came of it."""

    __slots__ = ("done", "event", "fence", "job", "row")

    def __init__(self, event: Event, row: EventRow, fence: Fence | None) -> None:
        self.event = event
        self.row = row
        self.fence = fence
        self.job: Job[Any] | None = None
        self.done: Appended | None = None


class SqlSessionService(BaseSessionService):
    """Sessions in a SQL database. Make a `SqliteSessionService` or a `PostgresSessionService`.

    It serves several event loops and threads at once, and other processes may use the same database. Events of
    sessions that were seen are kept in memory, up to `cached_events` in all, so that loading one again reads only
    what is new. Close the service when it is not needed any more.
    """

    def __init__(self, database: Database, *, cached_events: int = CACHED_EVENTS) -> None:
        self.database = database
        """The database, which other stores may share."""
        self._cache = SessionCache(cached_events)
        self._lines = SqlLeases(database)
        self._buffered: dict[Key, list[_Buffered]] = {}
        self._fresh: dict[Key, tuple[float, Loaded]] = {}  # read with a lease, for the run that is about to begin
        self._in_doubt: dict[str, None] = {}  # ids of events that the store may or may not have

    # -- sessions ------------------------------------------------------------------------------------

    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        key = key_of_new(app_name, user_id, session_id)
        rows, updated, made = StateRows.of(admitted_state(state or {})), now(), new_id()
        await SESSIONS.ensure(self.database)
        self._outdate(key)
        log, whole = await self.database.write(
            lambda connection: sql_log.create(connection, key, updated, rows, made), lane=key
        )
        merged = self._cache.merge(key, log, 0, ())
        return self._guarded(_session(key, [], whole, updated, None if merged is None else merged[1]))

    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        key = (app_name, user_id, session_id)
        await self._ready(key)
        if config is not None and (config.num_recent_events is not None or config.after_timestamp is not None):
            recent, since = config.num_recent_events, config.after_timestamp
            part = await self.database.read(lambda connection: sql_log.load(connection, key, (0, 0), recent, since))
            if part is None:
                return None
            return self._guarded(_session(key, part.events, part.state, part.head.updated, None))
        session = self._take_fresh(key)
        while session is None:
            seen = self._cache.seen(key)
            loaded = await self._read(key, lambda connection, seen=seen: sql_log.load(connection, key, seen))
            if loaded is None:
                self._cache.forget(key)
                return None
            session = self._whole_session(key, loaded)
        return self._guarded(session)

    async def _read(self, key: Key, work: Callable[[Connection], T]) -> T:
        """What is read of a session; a run that has it is left to whoever goes on with it if the database fails."""
        try:
            return await self.database.read(work)
        except StorageError as error:
            if not isinstance(error.__cause__, (ValueError, TypeError)):  # what is stored can be read by no other
                _abandon(self._lines.fence_of(key), error)
            raise

    def _guarded(self, session: Session) -> Session:
        """The session behind the fence of the run that has it in this process, if one has."""
        session.guard(self._lines.fence_of((session.app_name, session.user_id, session.id)))
        return session

    def _whole_session(self, key: Key, loaded: Loaded) -> Session | None:
        merged = self._cache.merge(key, loaded.head.log, loaded.after, loaded.events)
        if merged is None:  # dropped meanwhile
            return None
        return _session(key, merged[0], loaded.state, loaded.head.updated, merged[1])

    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        await self._ready(None)
        rows = await self.database.read(lambda connection: sql_log.list_all(connection, app_name, user_id))
        sessions = [
            _session((app_name, owner, session_id), [], state, updated, None)
            for owner, session_id, updated, state in rows
        ]
        return make(ListSessionsResponse, sessions=sessions)

    async def app_names(self) -> list[str]:
        await self._ready(None)
        return await self.database.read(sql_log.app_names)

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        key, dialect = (app_name, user_id, session_id), self.database.dialect
        await self._ready(key)
        self._outdate(key)
        meant: set[int] = set()
        await self.database.write(lambda connection: sql_forks.delete(connection, key, dialect, meant), lane=key)
        self._cache.forget(key)

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        await self._ready(None)
        key = (app_name, user_id, "")
        state = await self.database.read(lambda connection: sql_log.state_of(connection, key, 0))
        return {name[len("user:") :]: value for name, value in state.items() if name.startswith("user:")}

    async def initial_state(self, *, app_name: str, user_id: str, session_id: str) -> dict[str, Any]:
        key = (app_name, user_id, session_id)
        await self._ready(key)
        return await self._read(key, lambda connection: sql_forks.initial_state(connection, key))

    # -- events --------------------------------------------------------------------------------------

    async def append_event(self, session: Session, event: Event) -> Event:
        return event if event.partial else await self._append(session, event)

    async def append_answer(self, session: Session, event: Event) -> Event:
        key, known, dialect = (session.app_name, session.user_id, session.id), session.events, self.database.dialect
        last = known[-1].id if known else None

        def check(connection: Connection) -> None:
            since = sql_log.events_since(connection, key, dialect, last)
            check_undecided([*known, *since] if since else known, event)

        return await self._append(session, event, check)

    async def _append(self, session: Session, event: Event, check: Callable[[Connection], None] | None = None) -> Event:
        """Write an event in one transaction with those in the buffer; after `check`, by itself."""
        fence = _fence_of(session)
        key, log = (session.app_name, session.user_id, session.id), session.events
        if event.author == "user" and answers_unknown(event, log):
            whole = await self.get_session(app_name=key[0], user_id=key[1], session_id=key[2])
            log = log if whole is None else whole.events
        kept = as_appended(log, event)
        row, dialect = EventRow.of(kept), self.database.dialect
        await SESSIONS.ensure(self.database)
        self._outdate(key, row.state)
        earlier = self._buffered.pop(key, ()) if check is None else ()
        mine = [  # they come with this one
            each
            for each in earlier
            if each.fence is fence and each.job is not None and self.database.withdraw(each.job)
        ]
        rows = [*(each.row for each in mine), row]
        attempted: set[str] = set()

        def work(connection: Connection) -> list[Appended]:
            if check is not None:
                check(connection)
            return sql_log.append(connection, key, dialect, rows, attempted, fence)

        try:
            *before, done = await self.database.write(work, lane=key)
        except BaseException as error:
            self._cache.forget(key)
            if not isinstance(error, RunLostError):
                self._in_doubt[event.id] = None
            _abandon(fence, error)
            raise
        self._outdate(key, row.state)
        for each, found in zip(mine, before, strict=True):
            each.done = found
        self._remember(key, earlier)
        if done.stored is not None:
            return self._already_stored(session, event, done)
        self._cache.append(key, done.log, done.seq, kept)
        apply_event(session, event, kept)
        return kept

    async def append_buffered(self, session: Session, event: Event) -> Event:
        if event.partial or any(each.id == event.id for each in session.events[-_LATELY:]):
            return event
        fence = _fence_of(session)
        key, kept = (session.app_name, session.user_id, session.id), as_appended(session.events, event)
        row, dialect = EventRow.of(kept), self.database.dialect
        await SESSIONS.ensure(self.database)
        buffered = _Buffered(kept, row, fence)
        attempted: set[str] = set()

        def work(connection: Connection) -> None:
            try:
                buffered.done = sql_log.append(connection, key, dialect, (row,), attempted, fence)[0]
            except RunLostError:  # the run hears of it with its next event, or at its end
                assert fence is not None
                fence.refused = True

        self._outdate(key, row.state)
        buffered.job = self.database.write_buffered(work, lane=key)
        self._buffered.setdefault(key, []).append(buffered)
        apply_event(session, event, kept)
        return kept

    def _already_stored(self, session: Session, event: Event, done: Appended) -> Event:
        """The stored event; a session at hand that has not heard of it, because its append was cut off, gets it."""
        assert done.stored is not None
        stored = decode_event(done.stored)
        if self._in_doubt.pop(event.id, _NOT_THERE) is None and all(each.id != stored.id for each in session.events):
            apply_event(session, event, stored)
        return stored

    def _remember(self, key: Key, appended: Iterable[_Buffered]) -> None:
        for each in appended:
            if each.done is not None and each.done.stored is None:
                self._cache.append(key, each.done.log, each.done.seq, each.event)

    async def _ready(self, key: Key | None) -> None:
        """The tables are there, and what was buffered is written, of one session or of all."""
        await SESSIONS.ensure(self.database)
        if key is None:
            if self._buffered:
                await self.flush()
        elif key in self._buffered:
            earlier = self._buffered.pop(key)
            try:
                await self.database.flush(lane=key)
            except BaseException as error:
                self._cache.forget(key)
                self._still_on_the_way({key: earlier}, error)
                for each in earlier:
                    _abandon(each.fence, error)
                raise
            self._remember(key, earlier)

    def _still_on_the_way(self, appended: dict[Key, list[_Buffered]], error: BaseException) -> None:
        """Who did not wait to the end leaves it to the next one."""
        if isinstance(error, asyncio.CancelledError):
            for key, earlier in appended.items():
                self._buffered[key] = earlier + self._buffered.get(key, [])

    async def flush(self) -> None:
        earlier, self._buffered = self._buffered, {}
        try:
            await self.database.flush()
        except BaseException as error:
            self._cache.clear()
            self._still_on_the_way(earlier, error)
            for each in [each for buffered in earlier.values() for each in buffered]:
                if each.done is None:
                    _abandon(each.fence, error)
            raise
        for key, appended in earlier.items():
            self._remember(key, appended)

    async def close(self) -> None:
        self._buffered.clear()
        self._cache.clear()
        await self.database.close()

    # -- whole logs ----------------------------------------------------------------------------------

    async def fork(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        new_session_id: str | None = None,
        up_to_event_id: str | None = None,
    ) -> Session:
        key, dialect = (app_name, user_id, session_id), self.database.dialect
        new_key = key_of_new(app_name, user_id, new_session_id)
        made = new_id()
        await self._ready(key)
        forked = await self.database.write(
            lambda connection: sql_forks.fork(connection, key, dialect, new_key[2], up_to_event_id, made), lane=new_key
        )
        if forked is not None:
            self._cache.share(key, forked.source, new_key, forked.log, forked.upto)
        return await self._whole(*new_key)

    async def import_session(self, session: Session, *, initial_state: Mapping[str, Any] | None = None) -> Session:
        key, dialect = (session.app_name, session.user_id, session.id), self.database.dialect
        await self._ready(key)
        changed = {name for event in session.events for name in event.actions.state_delta}
        whole = admitted_state(session.state)
        own = {name: value for name, value in whole.items() if name not in changed}
        initial = StateRows.of(own if initial_state is None else initial_state)
        state, updated = StateRows.of(whole), session.last_update_time
        rows: dict[str, EventRow] = {}

        def work(connection: Connection) -> None:
            head: Head | None = sql_log.find(connection, key, dialect, lock=True)
            missing = missing_events(session, [] if head is None else sql_log.event_ids(connection, head))
            if head is None or missing:
                fresh = [rows.setdefault(event.id, EventRow.of(without_temp_state(event))) for event in missing]
                sql_log.import_events(connection, key, dialect, updated, state, initial, fresh)

        self._outdate(key)
        await self.database.write(work, lane=key)
        return await self._whole(*key)

    # -- leases --------------------------------------------------------------------------------------

    async def acquire_lease(
        self, *, app_name: str, user_id: str, session_id: str, wait: bool, seconds: float = 30.0
    ) -> SessionLease:
        key = (app_name, user_id, session_id)
        await self._ready(key)
        seen = self._cache.seen(key)
        lease, fresh = await self._lines.acquire(
            key,
            wait=wait,
            seconds=seconds,
            also=lambda connection, head: sql_log.load_few(connection, key, head, seen, _FEW),
        )
        self._fresh.pop(key, None)
        if fresh is not None:
            self._fresh[key] = (time.monotonic(), fresh)
        return lease

    def hold_lease(self, *, app_name: str, user_id: str, session_id: str, fence: Fence) -> SessionLease:
        """The lease of a session that is held without one: the row of the session names the worker that has it, for as
        long as its beats come. The `fence` says which epoch it was given.
        """
        return self._lines.hold((app_name, user_id, session_id), fence)

    def _take_fresh(self, key: Key) -> Session | None:
        """The session as it was read with its lease, if that was just now and nothing was written here since."""
        moment, loaded = self._fresh.pop(key, _NEVER)
        if loaded is None or time.monotonic() - moment > _JUST_NOW:
            return None
        return self._whole_session(key, loaded)

    def _outdate(self, key: Key, state: StateRows | None = None) -> None:
        """What was read with a lease is not the latest any more."""
        if self._fresh:
            if state is None or state.app or state.user:
                self._fresh.clear()
            else:
                self._fresh.pop(key, None)


def _abandon(fence: Fence | None, error: BaseException) -> None:
    """Leave a run that the store has failed to whoever goes on with it, if that is how it is held."""
    if fence is not None and isinstance(error, StorageError):
        fence.abandon()


def _fence_of(session: Session) -> Fence | None:
    """What an append for this session has to keep to. Raises `RunLostError` if it is known to be lost."""
    fence = session.fence
    if fence is None or fence.over:
        return None
    if fence.lost:
        raise fence.error()
    return fence


def _session(
    key: Key, events: Sequence[Event], state: dict[str, Any], updated: float, history: History | None
) -> Session:
    session = make(
        Session,
        id=key[2],
        app_name=key[0],
        user_id=key[1],
        state=state,
        events=events,
        last_update_time=updated,
    )
    if history is not None:
        session.share_history(history)
    return session
