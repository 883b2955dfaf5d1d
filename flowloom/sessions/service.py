"""The session service protocol (spec §19)."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import Any

from pydantic import BaseModel, ConfigDict, Field

from flowloom.errors import AlreadyExistsError, HistoryError, NotSupportedError, SessionNotFoundError
from flowloom.events.actions import EventActions
from flowloom.events.event import Event
from flowloom.events.ids import new_id
from flowloom.events.parts import answers_calls
from flowloom.events.wire import WireModel, make, replace, stored_fields
from flowloom.log.claims import check_undecided
from flowloom.objects.service import Service
from flowloom.sessions.admission import admitted, admitted_log, admitted_state, check_owner, check_texts
from flowloom.sessions.leases import LeaseQueue, SessionLease
from flowloom.sessions.session import Session
from flowloom.sessions.state import State


class GetSessionConfig(BaseModel):
    """Which events `get_session` loads: the last `num_recent_events`, of those at or after `after_timestamp`."""

    model_config = ConfigDict(extra="forbid", defer_build=True)

    num_recent_events: int | None = Field(default=None, ge=0)
    after_timestamp: float | None = None


class ListSessionsResponse(WireModel):
    """Sessions without their events, oldest first."""

    model_config = ConfigDict(defer_build=True)

    sessions: list[Session] = Field(default_factory=list[Session])


class BaseSessionService(Service, ABC):
    """A store of sessions: an append-only log of events each, and state by scope.

    A session is named by `app_name`, `user_id` and `session_id`, which every method takes that does not take a
    `Session`. Appending an event whose id is stored already changes nothing, so a writer may repeat itself; two writers
    never lose each other's events.
    """

    _leases: LeaseQueue | None = None
    _deciding: LeaseQueue | None = None

    @abstractmethod
    async def create_session(
        self, *, app_name: str, user_id: str, state: dict[str, Any] | None = None, session_id: str | None = None
    ) -> Session:
        """Create a session, with `state` before its first event; an id is made if there is no `session_id`.

        Keys with `app:` and `user:` go to the state that is shared. Raises `AlreadyExistsError`, `JsonDataError` for
        state that JSON cannot hold.
        """

    @abstractmethod
    async def get_session(
        self, *, app_name: str, user_id: str, session_id: str, config: GetSessionConfig | None = None
    ) -> Session | None:
        """A snapshot of the session, or None if there is none. `config` limits which events it has."""

    @abstractmethod
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        """The sessions of an app, or of one of its users if there is a `user_id`; the oldest first, without events."""

    @abstractmethod
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        """Delete a session. Deleting one that does not exist is fine."""

    @abstractmethod
    async def append_event(self, session: Session, event: Event) -> Event:
        """Store `event`, bring `session` up to date, and return the event as it is stored.

        A partial event is not stored. `temp:` state reaches `session.state` and nothing else. Only the engine
        asks people: a request that an event of another origin makes is history. Of a user's credential nothing is kept.
        Raises `SessionNotFoundError` if the session is not in the store, `RunLostError` if it was read by a run that
        another one has replaced since, `JsonDataError` for state that JSON cannot hold.
        """

    # -- what has a default, so that a service needs the methods above only ---------------------------

    async def append_answer(self, session: Session, event: Event) -> Event:
        """`append_event` for a message that answers calls: each decision is made once, whoever makes it.

        The default holds among the users of this service; stores that several processes share look and store in one
        step. Raises `AlreadyAnsweredError`, and stores nothing, if the log has an answer to what is decided here.
        """
        key = (session.app_name, session.user_id, session.id)
        if self._deciding is None:
            self._deciding = LeaseQueue()
        async with await self._deciding.acquire(key, wait=True, seconds=math.inf):
            check_undecided((await self._whole(*key)).events, event)
            return await self.append_event(session, event)

    async def append_buffered(self, session: Session, event: Event) -> Event:
        """`append_event`, but it may return before the event is durable.

        The next `append_event` to the session, or `flush`, waits for it and raises its error.
        """
        return await self.append_event(session, event)

    async def flush(self) -> None:
        """Return when everything appended so far is durable."""
        return

    async def app_names(self) -> list[str]:
        """The apps that have sessions here, sorted. The default raises `NotSupportedError`."""
        raise NotSupportedError(f"{type(self).__name__} does not tell which apps have sessions in it.")

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        """The state that all sessions of a user in an app share, without its prefix. Raises `NotImplementedError`
        unless the service offers that."""
        raise NotImplementedError(f"{type(self).__name__} does not offer user state.")

    async def get_or_create_session(
        self, *, app_name: str, user_id: str, session_id: str | None = None, state: dict[str, Any] | None = None
    ) -> Session:
        """The session of that id, created with `state` if there is none. Who else does the same gets the same one.

        Without a `session_id` it is a new session. Raises as `create_session` does.
        """
        names: dict[str, Any] = {"app_name": app_name, "user_id": user_id}
        check_texts(app_name=app_name, user_id=user_id, session_id=session_id or "")
        session_id = (session_id or "").strip()  # as `create_session` takes it
        if not session_id:
            return await self.create_session(**names, state=state)
        while True:
            found = await self.get_session(**names, session_id=session_id)
            if found is not None:
                return found
            try:
                return await self.create_session(**names, session_id=session_id, state=state)
            except AlreadyExistsError:  # another call was quicker
                continue

    async def initial_state(self, *, app_name: str, user_id: str, session_id: str) -> dict[str, Any]:
        """The session's own state as it was created, without that of user and app.

        The default knows the keys that no event has changed. Raises `SessionNotFoundError`.
        """
        session = await self._whole(app_name, user_id, session_id)
        changed = {key for event in session.events for key in event.actions.state_delta}
        return {key: value for key, value in own_state(session.state).items() if key not in changed}

    async def rewind(self, session: Session, *, before_invocation_id: str) -> Event:
        """Go back to before the invocation of the id `before_invocation_id`: what came since is no longer shown, and
        the session's state is undone.

        Nothing is deleted: an event is appended to `session` that says so, and returned. State of user and app stays
        as it is. Raises `HistoryError` if the session has no such invocation, `SessionNotFoundError`.
        """
        names = {"app_name": session.app_name, "user_id": session.user_id, "session_id": session.id}
        events = (await self._whole(**names)).events
        start = next((i for i, event in enumerate(events) if event.invocation_id == before_invocation_id), None)
        if start is None:
            raise HistoryError(f"Session `{session.id}` has no invocation `{before_invocation_id}` to rewind.")
        changed = own_state({key: None for event in events[start:] for key in event.actions.state_delta})
        before = state_after(events[:start], await self.initial_state(**names))
        actions = make(
            EventActions,
            rewind_before_invocation_id=before_invocation_id,
            state_delta={key: before.get(key) for key in changed},
        )
        event = make(Event, author="user", invocation_id="e-" + new_id(), actions=actions)
        return await self.append_event(session, event)

    async def fork(
        self,
        *,
        app_name: str,
        user_id: str,
        session_id: str,
        new_session_id: str | None = None,
        up_to_event_id: str | None = None,
    ) -> Session:
        """A new session with the log of another, and the state it had then.

        `up_to_event_id`: the last event that it has, all without one; `new_session_id`: made if there is none. What is
        appended to either later is not in the other. The default copies; its copy of an event does not change the state
        of user and app again. Raises `SessionNotFoundError`, `HistoryError` for an event that is not in the log,
        `AlreadyExistsError` for the new id.
        """
        source = await self._whole(app_name, user_id, session_id)
        events = events_up_to(source, up_to_event_id)
        initial = await self.initial_state(app_name=app_name, user_id=user_id, session_id=session_id)
        made = await self.create_session(
            app_name=app_name, user_id=user_id, session_id=new_session_id, state=own_state(initial)
        )
        for event in events:
            await self.append_event(made, without_shared_state(event))
        await self.flush()
        return made

    async def import_session(self, session: Session, *, initial_state: Mapping[str, Any] | None = None) -> Session:
        """Store a session that was kept elsewhere, with its names, events, and state.

        It may come from anywhere: credentials that users gave are left out, and requests to people that were not read
        from a store of flowloom's become history, which no answer brings to life.
        If it is there already, events that it has not yet are appended, so that importing again does no harm; raises
        `AlreadyExistsError` if its log is another. `initial_state`: its own state before the first event.
        """
        names: dict[str, Any] = {
            "app_name": session.app_name,
            "user_id": session.user_id,
            "session_id": session.id,
        }
        found = await self.get_session(**names)
        if found is None:
            state = session.state if initial_state is None else {**session.state, **initial_state}
            found = await self.create_session(**names, state=state)
        for event in missing_events(session, [event.id for event in found.events]):
            await self.append_event(found, event)
        await self.flush()
        return found

    async def copy_from(self, other: BaseSessionService, *, app_name: str, user_id: str | None = None) -> int:
        """Import all sessions of an app, or of one of its users, from the service `other`; returns how many there are.

        A copy that was interrupted may be done again.
        """
        listed = (await other.list_sessions(app_name=app_name, user_id=user_id)).sessions
        count = 0
        for each in listed:
            names: dict[str, Any] = {"app_name": app_name, "user_id": each.user_id, "session_id": each.id}
            session = await other.get_session(**names)
            if session is not None:
                await self.import_session(session, initial_state=await other.initial_state(**names))
                count += 1
        return count

    async def acquire_lease(
        self, *, app_name: str, user_id: str, session_id: str, wait: bool, seconds: float = 30.0
    ) -> SessionLease:
        """The right to run on a session, which one run has at a time; runs that wait get it in order.

        Stores that serve several processes share it among them: a lease is renewed while its process lives, and
        expires `seconds` after it died, or at once if it is known to have died. A store that can lose leases gives each
        a `Fence`, puts it before the sessions that it reads meanwhile (`Session.guard`), and appends nothing for those
        whose fence is lost. Raises `SessionBusyError` at once if it is not to `wait`.
        """
        if self._leases is None:  # made here because services need not call `super().__init__`
            self._leases = LeaseQueue()
        return await self._leases.acquire((app_name, user_id, session_id), wait=wait, seconds=seconds)

    async def _whole(self, app_name: str, user_id: str, session_id: str) -> Session:
        session = await self.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
        if session is None:
            raise session_not_found(app_name, user_id, session_id)
        return session


# -- what services share ---------------------------------------------------------------------------


def session_not_found(app_name: str, user_id: str, session_id: str) -> SessionNotFoundError:
    """The error for an operation on a session that is not there."""
    return SessionNotFoundError(
        f"Session `{session_id}` of user `{user_id}` in app `{app_name}` is not in this service. "
        f"Create it with `create_session` first."
    )


def already_exists(app_name: str, user_id: str, session_id: str) -> AlreadyExistsError:
    """The error for creating a session that is there already."""
    return AlreadyExistsError(
        f"Session `{session_id}` of user `{user_id}` in app `{app_name}` exists already. "
        f"Get it with `get_session`, or leave `session_id` out for a new id."
    )


def own_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """What of a state belongs to the session itself."""
    return {key: value for key, value in state.items() if not key.startswith(_SHARED)}


_SHARED = (State.APP_PREFIX, State.USER_PREFIX, State.TEMP_PREFIX)


def state_after(events: Sequence[Event], initial: Mapping[str, Any]) -> dict[str, Any]:
    """A session's own state after these events."""
    state = dict(initial)
    for event in events:
        if event.actions.state_delta:
            state.update(own_state(event.actions.state_delta))
    return state


def events_up_to(session: Session, event_id: str | None) -> list[Event]:
    """The events up to and with that one, or all. Raises `HistoryError` if there is no such event."""
    if event_id is None:
        return session.events
    for index, event in enumerate(session.events, 1):
        if event.id == event_id:
            return session.events[:index]
    raise no_such_event(session.id, event_id)


def no_such_event(session_id: str, event_id: str) -> HistoryError:
    """The error for an event that a log does not hold."""
    return HistoryError(f"Session `{session_id}` has no event `{event_id}`. Take the id of one of its stored events.")


def missing_events(session: Session, stored: Sequence[str]) -> list[Event]:
    """The events of `session` that come after those of the ids `stored`, each once, as they may be taken over.

    Raises `AlreadyExistsError` if one of the two logs is not the beginning of the other, `InputValidationError` for a
    session without an app or a user.
    """
    check_owner(session.app_name, session.user_id)
    named = [each if each.id else replace(each, id=f"{session.id}-{at}") for at, each in enumerate(session.events)]
    events = list({event.id: event for event in reversed(named)}.values())[::-1]
    if any(event.id != known for event, known in zip(events, stored, strict=False)):
        raise AlreadyExistsError(
            f"Session `{session.id}` of user `{session.user_id}` in app `{session.app_name}` exists already, with "
            f"another log. Delete it, or import under another id."
        )
    return admitted_log(events)[len(stored) :]


def without_shared_state(event: Event) -> Event:
    """The event without changes of the state of user and app."""
    delta = event.actions.state_delta
    return event if not any(key.startswith(_SHARED) for key in delta) else _with_delta(event, own_state(delta))


def as_appended(log: Sequence[Event], event: Event) -> Event:
    """The event as it is stored behind a log (see `append_event`)."""
    if not event.id:
        event = replace(event, id=new_id())
    if event.long_running_tool_ids or (event.author == "user" and answers_calls(event.content)):
        event = admitted(event, log)
    return without_temp_state(event) if event.actions.state_delta else event


def without_temp_state(event: Event) -> Event:
    """The event as it is stored: without `temp:` keys, and with values that a run does not change in place later.

    Raises `JsonDataError`.
    """
    kept = admitted_state(event.actions.state_delta)
    return event if kept is event.actions.state_delta else _with_delta(event, kept)


def _with_delta(event: Event, delta: dict[str, Any]) -> Event:
    return replace(event, actions=replace(event.actions, state_delta=delta))


def apply_event(session: Session, event: Event, stored: Event) -> None:
    """Bring a caller's snapshot up to date with an event that was stored."""
    if event.actions.state_delta:
        session.state.update(event.actions.state_delta)
    fields = stored_fields(session)
    fields["events"].append(stored)
    fields["last_update_time"] = stored.timestamp
