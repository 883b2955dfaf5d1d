"""`SessionServiceSuite`: a store that outlives its service passes, and each rule finds a store that breaks it."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from copy import deepcopy
from typing import Any, ClassVar

import pytest

from flowloom import Event, Session, SessionNotFoundError
from flowloom.events import deep_merge
from flowloom.sessions import GetSessionConfig, ListSessionsResponse
from flowloom.testing.suites import SessionServiceSuite

from .broken_logs import BROKEN_LEASES, BROKEN_LOGS, REOPENED_LOGS
from .json_store import JsonStore, Key, Row
from .rules import breaks, rules_of


class TestAStoreThatOutlivesItsService(SessionServiceSuite):
    async def make_service(self) -> JsonStore:
        return JsonStore()

    async def reopen(self, service: Any) -> JsonStore:
        return JsonStore(service.data)


class LosesInitialState(JsonStore):
    async def create_session(self, **fields: Any) -> Session:
        return await super().create_session(**{**fields, "state": None})


class TakesEveryAnswer(JsonStore):
    async def append_answer(self, session: Session, event: Event) -> Event:
        return await self.append_event(session, event)


class GivesAnEmptyId(JsonStore):
    async def create_session(self, **fields: Any) -> Session:
        session = await super().create_session(**fields)
        return session if fields.get("session_id") else session.model_copy(update={"id": ""})


class Overwrites(JsonStore):
    async def create_session(self, **fields: Any) -> Session:
        await self.delete_session(**{name: fields[name] for name in ("app_name", "user_id", "session_id")})
        return await super().create_session(**fields)


class LooksBeforeItWrites(JsonStore):
    async def create_session(self, **fields: Any) -> Session:
        key = self.key(fields["app_name"], fields["user_id"], fields["session_id"])
        if key not in self.data.rows:
            await asyncio.sleep(0)
            self.data.rows.pop(key, None)
        return await super().create_session(**fields)


class ForgetsTheUser(JsonStore):
    def key(self, app_name: str, user_id: str, session_id: str) -> Key:
        return app_name, session_id


class SharesSessions(ForgetsTheUser):
    async def create_session(self, **fields: Any) -> Session:
        row = self.data.rows.get(self.key(fields["app_name"], "", fields["session_id"]))
        return await super().create_session(**fields) if row is None else self.load(row)


class ListsAllUsers(JsonStore):
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        return await super().list_sessions(app_name=app_name)


class ListsEvents(JsonStore):
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        listed = (await super().list_sessions(app_name=app_name, user_id=user_id)).sessions
        rows = [self.data.rows[(each.app_name, each.user_id, each.id)] for each in listed]
        return ListSessionsResponse(sessions=[self.load(row) for row in rows])


class ListsNewestFirst(JsonStore):
    async def list_sessions(self, *, app_name: str, user_id: str | None = None) -> ListSessionsResponse:
        listed = await super().list_sessions(app_name=app_name, user_id=user_id)
        return ListSessionsResponse(sessions=listed.sessions[::-1])


class NeverDeletes(JsonStore):
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        return


class RefusesToDeleteTwice(JsonStore):
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        if self.key(app_name, user_id, session_id) not in self.data.rows:
            raise SessionNotFoundError("It is not there.")
        await super().delete_session(app_name=app_name, user_id=user_id, session_id=session_id)


class KeepsEventsOfTheDeleted(JsonStore):
    bin: dict[Key, Row]

    def __init__(self) -> None:
        super().__init__()
        self.bin = {}

    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        key = self.key(app_name, user_id, session_id)
        self.bin[key] = self.data.rows.pop(key)

    async def create_session(self, **fields: Any) -> Session:
        session = await super().create_session(**fields)
        old = self.bin.get(row_key := self.key(session.app_name, session.user_id, session.id))
        self.data.rows[row_key].events = [] if old is None else old.events
        return self.load(self.data.rows[row_key])


class FoldsCase(JsonStore):
    def key(self, app_name: str, user_id: str, session_id: str) -> Key:
        return app_name.lower(), user_id.lower(), session_id.lower()

    async def create_session(self, **fields: Any) -> Session:
        key = self.key(fields["app_name"], fields["user_id"], fields["session_id"])
        row = self.data.rows.get(key)
        return await super().create_session(**fields) if row is None else self.load(row)


class JoinsNames(JsonStore):
    def key(self, app_name: str, user_id: str, session_id: str) -> Key:
        return (app_name, f"{user_id}/{session_id}")


class ForgetsTheSessionAtHand(JsonStore):
    async def append_event(self, session: Session, event: Event) -> Event:
        return await super().append_event(session.model_copy(deep=True), event)


class SortsByTime(JsonStore):
    def read(self, row: Row) -> list[Event]:
        return sorted(super().read(row), key=lambda event: event.timestamp)


class LooksAtItsOwnClock(JsonStore):
    async def append_event(self, session: Session, event: Event) -> Event:
        stored = await super().append_event(session, event)
        self.data.rows[self.key(session.app_name, session.user_id, session.id)].updated = 5.0
        return stored


class StoresPartials(JsonStore):
    async def append_event(self, session: Session, event: Event) -> Event:
        return await super().append_event(session, event.model_copy(update={"partial": None}))


class StoresRepeats(JsonStore):
    def is_stored(self, row: Row, event: Event) -> bool:
        return False


class KnowsIdsOfAllSessions(JsonStore):
    def is_stored(self, row: Row, event: Event) -> bool:
        return any(super(KnowsIdsOfAllSessions, self).is_stored(each, event) for each in self.data.rows.values())


class CreatesOnAppend(JsonStore):
    async def append_event(self, session: Session, event: Event) -> Event:
        key = self.key(session.app_name, session.user_id, session.id)
        self.data.rows.setdefault(key, Row(key))
        return await super().append_event(session, event)


class ReadsThenWrites(JsonStore):
    async def append_event(self, session: Session, event: Event) -> Event:
        row = self.data.rows[self.key(session.app_name, session.user_id, session.id)]
        before = row.events.copy()
        await asyncio.sleep(0)
        stored = await super().append_event(session, event)
        row.events = [*before, self.write(stored)]
        return stored


class StoresTheSessionAtHand(JsonStore):
    async def append_event(self, session: Session, event: Event) -> Event:
        stored = await super().append_event(session, event)
        row = self.data.rows[self.key(session.app_name, session.user_id, session.id)]
        row.events = [self.write(each) for each in session.events]
        return stored


class GivesTheFirstEvents(JsonStore):
    def selected(self, events: list[Event], config: GetSessionConfig) -> list[Event]:
        return events[: config.num_recent_events]


class LeavesOutTheMoment(JsonStore):
    def selected(self, events: list[Event], config: GetSessionConfig) -> list[Event]:
        since = config.after_timestamp
        return [each for each in super().selected(events, config) if since is None or each.timestamp > since]


class LosesSignatures(JsonStore):
    def write(self, event: Event) -> str:
        copy = event.model_copy(deep=True)
        for part in (copy.content and copy.content.parts) or ():
            part.thought_signature = None
        return super().write(copy)


class CutsLongTexts(JsonStore):
    def write(self, event: Event) -> str:
        copy = event.model_copy(deep=True)
        for part in (copy.content and copy.content.parts) or ():
            part.text = part.text and part.text[:65_535]
        return super().write(copy)


class Lends(JsonStore):
    """Gives out what it keeps."""

    def __init__(self) -> None:
        super().__init__()
        self.lent: dict[Key, Session] = {}

    def load(self, row: Row, config: GetSessionConfig | None = None) -> Session:
        if row.key not in self.lent:
            self.lent[row.key] = super().load(row)
        fresh, lent = super().load(row, config), self.lent[row.key]
        return fresh.model_copy(update={"state": lent.state, "events": fresh.events if config else lent.events})


class TakesUserStateForTheApps(JsonStore):
    def change(self, row: Row, delta: dict[str, Any]) -> None:
        super().change(row, {key.replace("user:", "app:"): value for key, value in delta.items()})


class LosesSharedState(JsonStore):
    async def delete_session(self, *, app_name: str, user_id: str, session_id: str) -> None:
        await super().delete_session(app_name=app_name, user_id=user_id, session_id=session_id)
        self.data.shared.pop((app_name, user_id), None)


class TakesPrefixesOff(JsonStore):
    def change(self, row: Row, delta: dict[str, Any]) -> None:
        super().change(row, {key.rpartition(":")[2]: value for key, value in delta.items()})


class MergesDeeply(JsonStore):
    def merge(self, stored: str, values: dict[str, Any]) -> str:
        return json.dumps(deep_merge(json.loads(stored), values))


class DropsNone(JsonStore):
    def merge(self, stored: str, values: dict[str, Any]) -> str:
        merged = json.loads(super().merge(stored, values))
        return json.dumps({key: value for key, value in merged.items() if value is not None})


class MakesNumbersOfBools(JsonStore):
    def merge(self, stored: str, values: dict[str, Any]) -> str:
        return super().merge(stored, {k: int(v) if isinstance(v, bool) else v for k, v in values.items()})


class StoresTemporaryState(JsonStore):
    def change(self, row: Row, delta: dict[str, Any]) -> None:
        super().change(row, delta)
        row.state = self.merge(row.state, {key: value for key, value in delta.items() if key.startswith("temp:")})

    async def append_event(self, session: Session, event: Event) -> Event:
        stored = await super().append_event(session, event)
        self.change(self.data.rows[session.app_name, session.user_id, session.id], event.actions.state_delta)
        return stored


class KeepsWhatItIsGiven(JsonStore):
    def __init__(self) -> None:
        super().__init__()
        self.given: dict[str, Any] = {}

    def change(self, row: Row, delta: dict[str, Any]) -> None:
        super().change(row, delta)
        self.given |= delta

    def load(self, row: Row, config: GetSessionConfig | None = None) -> Session:
        return super().load(row, config).model_copy(update={"state": self.given.copy()})


class LendsUserState(JsonStore):
    def __init__(self) -> None:
        super().__init__()
        self.lent: dict[Key, dict[str, Any]] = {}

    async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
        state = await super().get_user_state(app_name=app_name, user_id=user_id)
        return self.lent.setdefault((app_name, user_id), state)


BROKEN: dict[str, type[JsonStore]] = {
    "a_session_is_created_under_a_given_id": LosesInitialState,
    "a_session_without_an_id_gets_a_fresh_one": GivesAnEmptyId,
    "an_id_that_is_in_use_is_refused": Overwrites,
    "concurrent_creates_of_one_id_have_one_winner": LooksBeforeItWrites,
    "a_session_that_is_not_there_is_none": ForgetsTheUser,
    "users_may_have_sessions_of_one_id": SharesSessions,
    "sessions_are_listed_by_user_or_for_all": ListsAllUsers,
    "sessions_are_listed_without_events": ListsEvents,
    "sessions_are_listed_oldest_first": ListsNewestFirst,
    "a_deleted_session_is_gone": NeverDeletes,
    "deleting_is_idempotent": RefusesToDeleteTwice,
    "a_session_created_after_a_deleted_one_starts_empty": KeepsEventsOfTheDeleted,
    "names_are_taken_as_they_are": FoldsCase,
    "names_are_not_confused_when_joined": JoinsNames,
    "an_appended_event_is_in_the_session_and_in_the_store": ForgetsTheSessionAtHand,
    "events_keep_the_order_in_which_they_were_appended": SortsByTime,
    "the_last_update_is_the_time_of_the_last_event": LooksAtItsOwnClock,
    "partial_events_are_not_stored": StoresPartials,
    "appending_an_event_again_changes_nothing": StoresRepeats,
    "an_event_id_may_be_in_two_sessions": KnowsIdsOfAllSessions,
    "appending_to_an_unknown_session_is_an_error": CreatesOnAppend,
    "concurrent_appends_lose_nothing": ReadsThenWrites,
    "two_loaded_copies_lose_no_event": StoresTheSessionAtHand,
    "a_session_that_was_loaded_in_part_loses_nothing": StoresTheSessionAtHand,
    "the_latest_events_can_be_asked_for": GivesTheFirstEvents,
    "events_since_a_time_can_be_asked_for": LeavesOutTheMoment,
    "events_come_back_whole": LosesSignatures,
    "any_text_and_large_payloads_come_back_whole": CutsLongTexts,
    "a_loaded_list_of_events_is_the_callers_own": Lends,
    "initial_state_has_the_reach_of_its_scope": TakesUserStateForTheApps,
    "appended_state_has_the_reach_of_its_scope": TakesUserStateForTheApps,
    "shared_state_outlives_a_session": LosesSharedState,
    "scopes_keep_equal_names_apart": TakesPrefixesOff,
    "later_changes_win_and_others_stay": MergesDeeply,
    "none_is_a_value": DropsNone,
    "values_keep_their_kinds": MakesNumbersOfBools,
    "temporary_state_is_seen_in_the_run_and_not_stored": StoresTemporaryState,
    "temporary_state_of_a_new_session_is_not_stored": StoresTemporaryState,
    "state_at_hand_is_the_callers_own": Lends,
    "stored_state_is_the_stores_own": KeepsWhatItIsGiven,
    "a_users_state_can_be_asked_for": LendsUserState,
    "a_decision_is_made_once": TakesEveryAnswer,
    "a_fork_has_the_decisions_from_before_it": TakesEveryAnswer,
    **BROKEN_LOGS,
    **BROKEN_LEASES,
}
REOPENED_WRONGLY: dict[str, Callable[[JsonStore], JsonStore]] = {
    "what_is_stored_outlives_the_service": lambda service: JsonStore(),
    "two_services_on_one_store_lose_no_event": lambda service: JsonStore(deepcopy(service.data)),
    "two_services_on_one_store_make_a_decision_once": lambda service: TakesEveryAnswer(service.data),
    "who_lost_a_lease_appends_nothing_more": lambda service: JsonStore(service.data),
}


class Suite(SessionServiceSuite):
    shares_leases = keeps_initial_state = True
    service: ClassVar[type[JsonStore]] = JsonStore
    again: ClassVar[Callable[[JsonStore], JsonStore] | None] = None

    def make_service(self) -> JsonStore:
        return self.service()

    def reopen(self, service: Any) -> JsonStore | None:
        again = type(self).again
        return None if again is None else again(service)


@pytest.mark.parametrize("rule", BROKEN)
def test_a_store_that_breaks_a_rule_is_found(rule: str) -> None:
    class Broken(Suite):
        service = BROKEN[rule]

    breaks(Broken, rule)


@pytest.mark.parametrize("rule", REOPENED_WRONGLY)
def test_a_store_that_does_not_outlive_its_service_is_found(rule: str) -> None:
    class Broken(Suite):
        again = REOPENED_WRONGLY[rule]

    breaks(Broken, rule)


@pytest.mark.parametrize("rule", REOPENED_LOGS)
def test_a_store_whose_services_do_not_know_of_each_other_is_found(rule: str) -> None:
    class Broken(Suite):
        service = REOPENED_LOGS[rule]

        def reopen(self, service: Any) -> JsonStore:
            return JsonStore(service.data)

    breaks(Broken, rule)


def test_every_rule_is_shown_to_fail() -> None:
    assert rules_of(SessionServiceSuite) == BROKEN.keys() | REOPENED_WRONGLY.keys() | REOPENED_LOGS.keys()


@pytest.mark.parametrize(
    "rule",
    [
        "what_a_session_began_with_comes_back",
        "services_on_one_store_share_leases",
        "a_lease_outlives_its_time_if_it_is_renewed",
    ],
)
def test_what_a_store_does_not_offer_is_skipped(rule: str) -> None:
    """Only what it would have to say that it offers."""
    with pytest.raises(pytest.skip.Exception, match="is not set"):
        getattr(TestAStoreThatOutlivesItsService(), f"test_{rule}")()


def test_rules_of_reopening_are_skipped_for_a_store_in_memory() -> None:
    for rule in REOPENED_WRONGLY:
        with pytest.raises(pytest.skip.Exception, match="reopen"):
            getattr(Suite(), f"test_{rule}")()


def test_a_service_without_user_state_is_not_at_fault() -> None:
    class NoUserState(JsonStore):
        async def get_user_state(self, *, app_name: str, user_id: str) -> dict[str, Any]:
            raise NotImplementedError

    class Without(Suite):
        service = NoUserState

    with pytest.raises(pytest.skip.Exception, match="get_user_state"):
        Without().test_a_users_state_can_be_asked_for()


def test_a_suite_without_a_part_says_what_to_define() -> None:
    with pytest.raises(NotImplementedError, match=r"make_service\(self\)"):
        SessionServiceSuite().test_deleting_is_idempotent()
