"""Stores that break one rule of whole logs, or of leases, each."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

from flowloom import BaseSessionService, Event, Session, SessionNotFoundError
from flowloom.errors import AlreadyExistsError, HistoryError
from flowloom.sessions.leases import LeaseQueue, Place, SessionLease
from flowloom.sessions.service import own_state

from .json_store import Data, JsonStore, Key


class AppendsBufferedOutOfOrder(JsonStore):
    """And keeps what it was given for later to itself."""

    def __init__(self, data: Data | None = None) -> None:
        super().__init__(data)
        self.later: list[tuple[Session, Event]] = []

    async def append_buffered(self, session: Session, event: Event) -> Event:
        self.later.append((session.model_copy(deep=True), event))
        session.events.append(event)
        session.state.update(event.actions.state_delta)
        return event


class RepeatsWhatIsAppendedBuffered(JsonStore):
    async def append_buffered(self, session: Session, event: Event) -> Event:
        return await self.append_event(session, event.model_copy(update={"id": Event.new_id()}))


class SwallowsErrors(JsonStore):
    async def append_event(self, session: Session, event: Event) -> Event:
        try:
            return await super().append_event(session, event)
        except SessionNotFoundError:
            return event


class CreatesAnew(JsonStore):
    async def get_or_create_session(self, **fields: Any) -> Session:
        if fields.get("session_id"):
            await self.delete_session(**{name: fields[name] for name in ("app_name", "user_id", "session_id")})
        return await self.create_session(**fields)


class CreatesUnderAnotherName(JsonStore):
    async def get_or_create_session(self, **fields: Any) -> Session:
        try:
            await asyncio.sleep(0)
            return await self.create_session(**fields)
        except AlreadyExistsError:
            return await self.create_session(**{**fields, "session_id": None})


class TakesTheStateOfNowForTheFirst(JsonStore):
    async def initial_state(self, **names: Any) -> dict[str, Any]:
        session = await self.get_session(**names)
        return own_state(session.state) if session is not None else {}


class RewindsSharedState(JsonStore):
    async def rewind(self, session: Session, *, before_invocation_id: str) -> Event:
        event = await super().rewind(session, before_invocation_id=before_invocation_id)
        again = event.model_copy(deep=True, update={"id": Event.new_id()})
        again.actions.state_delta["user:u"] = None
        return await self.append_event(session, again)


class KnowsTheSessionAtHandAlone(JsonStore):
    async def rewind(self, session: Session, *, before_invocation_id: str) -> Event:
        if all(each.invocation_id != before_invocation_id for each in session.events):
            raise AssertionError(f"The session at hand does not show `{before_invocation_id}`.")
        return await super().rewind(session, before_invocation_id=before_invocation_id)


class DropsSummaries(JsonStore):
    async def rewind(self, session: Session, *, before_invocation_id: str) -> Event:
        row = self.data.rows[self.key(session.app_name, session.user_id, session.id)]
        row.events = [each if "compaction" not in each else self.write(Event(author="x")) for each in row.events]
        return await super().rewind(session, before_invocation_id=before_invocation_id)


class RewindsToNowhere(JsonStore):
    async def rewind(self, session: Session, *, before_invocation_id: str) -> Event:
        try:
            return await super().rewind(session, before_invocation_id=before_invocation_id)
        except HistoryError:
            return Event(author="user")


class ForksAll(JsonStore):
    async def fork(self, **names: Any) -> Session:
        return await super().fork(**{**names, "up_to_event_id": None})


class ForksShareRows(JsonStore):
    async def fork(self, **names: Any) -> Session:
        made = await super().fork(**names)
        row = self.data.rows[self.key(names["app_name"], names["user_id"], names["session_id"])]
        self.data.rows[self.key(made.app_name, made.user_id, made.id)].events = row.events
        return made


class ForksChangeSharedStateAgain(JsonStore):
    async def fork(self, **names: Any) -> Session:
        made = await super().fork(**names)
        session = await self.get_session(**{name: names[name] for name in ("app_name", "user_id", "session_id")})
        assert session is not None
        row = self.data.rows[self.key(made.app_name, made.user_id, made.id)]
        for event in session.events[: len(made.events)]:
            self.change(row, event.actions.state_delta)
        return self.load(row)


class ForksDieWithTheirParents(JsonStore):
    def __init__(self) -> None:
        super().__init__()
        self.children: dict[Key, list[Key]] = {}

    async def fork(self, **names: Any) -> Session:
        made = await super().fork(**names)
        parent = self.key(names["app_name"], names["user_id"], names["session_id"])
        self.children.setdefault(parent, []).append(self.key(made.app_name, made.user_id, made.id))
        return made

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await super().delete_session(app_name=app_name, user_id=user_id, session_id=session_id)
        for child in self.children.get(self.key(app_name, user_id, session_id), ()):
            self.data.rows[child].events.clear()


class ForksForgetInvocations(JsonStore):
    async def fork(self, **names: Any) -> Session:
        made = await super().fork(**names)
        row = self.data.rows[self.key(made.app_name, made.user_id, made.id)]
        row.events = [each.replace('"n"', '"m"') for each in row.events]
        return self.load(row)


class ForksToWhereverItCan(JsonStore):
    async def fork(self, **names: Any) -> Session:
        try:
            return await super().fork(**names)
        except HistoryError:
            return await super().fork(**{**names, "up_to_event_id": None})


class ImportsEventsAlone(JsonStore):
    async def import_session(self, session: Session, *, initial_state: Mapping[str, Any] | None = None) -> Session:
        bare = session.model_copy(deep=True, update={"state": {}})
        return await super().import_session(bare, initial_state={})


class ImportsOnce(JsonStore):
    async def import_session(self, session: Session, *, initial_state: Mapping[str, Any] | None = None) -> Session:
        found = await self.get_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
        return found or await super().import_session(session, initial_state=initial_state)


class ImportsOverAll(JsonStore):
    async def import_session(self, session: Session, *, initial_state: Mapping[str, Any] | None = None) -> Session:
        await self.delete_session(app_name=session.app_name, user_id=session.user_id, session_id=session.id)
        return await super().import_session(session, initial_state=initial_state)


class CopiesAllUsers(JsonStore):
    async def copy_from(self, other: BaseSessionService, *, app_name: str, user_id: str | None = None) -> int:
        return await super().copy_from(other, app_name=app_name)


BROKEN_LOGS: dict[str, type[JsonStore]] = {
    "an_event_that_is_appended_buffered_is_there_in_order": AppendsBufferedOutOfOrder,
    "appending_buffered_again_changes_nothing": RepeatsWhatIsAppendedBuffered,
    "an_error_of_appending_buffered_is_raised_in_the_end": SwallowsErrors,
    "a_session_is_got_or_created": CreatesAnew,
    "those_who_get_or_create_at_once_get_the_same": CreatesUnderAnotherName,
    "the_state_a_session_began_with_is_kept": TakesTheStateOfNowForTheFirst,
    "rewinding_undoes_the_sessions_own_state": RewindsSharedState,
    "what_a_session_began_with_comes_back": JsonStore,  # which does not know it
    "rewinding_works_on_a_session_that_was_loaded_in_part": KnowsTheSessionAtHandAlone,
    "rewinding_goes_past_a_compaction_and_a_rewind": DropsSummaries,
    "rewinding_to_what_is_not_there_is_an_error": RewindsToNowhere,
    "a_fork_has_the_log_and_the_state_of_its_moment": ForksAll,
    "forks_go_their_own_ways": ForksShareRows,
    "a_fork_does_not_touch_the_state_of_user_and_app": ForksChangeSharedStateAgain,
    "forks_of_forks_outlive_what_they_came_from": ForksDieWithTheirParents,
    "a_fork_can_be_rewound": ForksForgetInvocations,
    "a_fork_that_cannot_be_is_an_error": ForksToWhereverItCan,
    "an_imported_session_is_as_it_was": ImportsEventsAlone,
    "importing_again_adds_what_is_new": ImportsOnce,
    "importing_over_another_log_is_an_error": ImportsOverAll,
    "sessions_of_another_service_are_copied": CopiesAllUsers,
}


# -- leases ------------------------------------------------------------------------------------------------


class LetsAllIn(JsonStore):
    async def acquire_lease(self, **names: Any) -> SessionLease:
        return SessionLease(names["session_id"], lambda: None)


class LocksEverything(JsonStore):
    async def acquire_lease(self, **names: Any) -> SessionLease:
        return await super().acquire_lease(**{**names, "app_name": "a", "user_id": "u", "session_id": "s1"})


class ReleasesWhatIsAnothers(JsonStore):
    """Each release frees the session, whoever has it."""

    def __init__(self, data: Data | None = None) -> None:
        super().__init__(data)
        self.queue = LeaseQueue()
        self.first: Place | None = None

    async def acquire_lease(self, **names: Any) -> SessionLease:
        self.first = await self.queue.enter(("", "", names["session_id"]), wait=names["wait"], seconds=30.0)
        return AlwaysReleases(self, names["session_id"])


class AlwaysReleases(SessionLease):
    def __init__(self, store: ReleasesWhatIsAnothers, session_id: str) -> None:
        super().__init__(session_id, lambda: None)
        self.store = store

    async def release(self) -> None:
        if self.store.first is not None:
            self.store.queue.leave(("", "", self.session_id), self.store.first)


class LetsAllInWhenOneGivesUp(JsonStore):
    given_up = False

    async def acquire_lease(self, **names: Any) -> SessionLease:
        if self.given_up:
            return SessionLease(names["session_id"], lambda: None)
        try:
            return await super().acquire_lease(**names)
        except asyncio.CancelledError:
            self.given_up = True
            raise


class HoldsForEver(JsonStore):
    def __init__(self, data: Data | None = None) -> None:
        super().__init__(data)
        self.held: list[SessionLease] = []

    async def acquire_lease(self, **names: Any) -> SessionLease:
        self.held.append(await super().acquire_lease(**names))
        return self.held[-1]


BROKEN_LEASES: dict[str, type[JsonStore]] = {
    "a_lease_is_held_by_one_run_at_a_time": LetsAllIn,
    "who_does_not_wait_is_told_so": LetsAllIn,
    "sessions_have_leases_of_their_own": LocksEverything,
    "a_lease_may_be_released_twice": ReleasesWhatIsAnothers,
    "a_waiter_that_gives_up_leaves_the_line_as_it_is": LetsAllInWhenOneGivesUp,
    "a_lease_that_was_dropped_is_free": HoldsForEver,
}
REOPENED_LOGS = {
    "an_event_that_is_appended_buffered_outlives_the_service": AppendsBufferedOutOfOrder,
    "services_on_one_store_share_leases": JsonStore,  # each of which has leases of its own
    "a_lease_outlives_its_time_if_it_is_renewed": JsonStore,
}
