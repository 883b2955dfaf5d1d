"""`SessionServiceSuite`: what every session service promises (contract "Session store")."""

from __future__ import annotations

import asyncio

from flowloom.errors import AlreadyExistsError, FlowloomError
from flowloom.sessions import Session
from flowloom.testing.suites.loop import in_loop
from flowloom.testing.suites.session_answers import AnswerRules
from flowloom.testing.suites.session_events import EventRules
from flowloom.testing.suites.session_leases import LeaseRules
from flowloom.testing.suites.session_logs import LogRules
from flowloom.testing.suites.session_place import Place, expect_not_found, said, texts_of
from flowloom.testing.suites.session_state import StateRules

ODD_NAMES = (
    "a b",
    "a/b",
    "../a",
    "a\\b",
    "a:b",
    "a'b",
    'a"b',
    "a`b",
    "a%b",
    "a_b",
    "a;--",
    "a?b=c&d#e",
    "A",
    "a",
    "ä",
    "名前",
    "🧵",
    "x" * 200,
)
"""Names that a store has to take as they are, and tell apart."""


class SessionServiceSuite(EventRules, AnswerRules, StateRules, LogRules, LeaseRules):
    """The rules of session services. Subclass it in a test module, and make your service:

    ```python
    from flowloom.testing.suites import SessionServiceSuite


    class TestMyService(SessionServiceSuite):
        def make_service(self) -> MyService:
            return MyService("sqlite://")
    ```

    `make_service` may be asynchronous. Define `reopen(service)` for a store that outlives its service, and
    `close(service)` if neither its `aclose()` nor its `close()` is what ends it; set `shares_leases = True` if two
    services on the same data keep to each other's leases, and `keeps_initial_state = True` if the store keeps the
    state that a session began with.
    """

    @in_loop
    async def test_a_session_is_created_under_a_given_id(self) -> None:
        """`create_session` keeps the id, the app, the user and the state that it is given."""
        place = await self.place()
        made = await place.create("s1", {"a": 1})
        for session in (made, await place.get("s1")):
            names = (session.app_name, session.user_id, session.id)
            assert names == (place.app, place.user, "s1"), f"The session is named {names}, not as it was created."
            assert session.state == {"a": 1}, f"The initial state {{'a': 1}} became {session.state!r}."
            assert session.events == [], "A new session has events."

    @in_loop
    async def test_a_session_without_an_id_gets_a_fresh_one(self) -> None:
        """`create_session` without an id makes one that is not empty and not in use."""
        place = await self.place()
        ids = [(await place.create()).id for _ in range(5)]
        assert all(ids), "A session that was created without an id has an empty one."
        assert len(set(ids)) == len(ids), f"Sessions that were created without an id share one: {ids}."
        assert (await place.get(ids[0])).id == ids[0]

    @in_loop
    async def test_an_id_that_is_in_use_is_refused(self) -> None:
        """`create_session` raises `AlreadyExistsError` for an id in use, and leaves that session alone."""
        place = await self.place()
        await place.append(await place.create("s1", {"a": 1}), "kept")
        try:
            await place.create("s1", {"a": 2})
        except AlreadyExistsError:
            pass
        else:
            raise AssertionError("A second session of the same id was created; `AlreadyExistsError` was expected.")
        found = await place.get("s1")
        kept = (texts_of(found), found.state)
        assert kept == (["kept"], {"a": 1}), f"Creating a second session of the same id changed the first: {kept}."

    @in_loop
    async def test_concurrent_creates_of_one_id_have_one_winner(self) -> None:
        """Of several `create_session` calls with one id at once, one succeeds, the others get `AlreadyExistsError`."""
        place = await self.place()
        made = await asyncio.gather(*(place.create("s1") for _ in range(10)), return_exceptions=True)
        winners = [each for each in made if isinstance(each, Session)]
        assert len(winners) == 1, f"{len(winners)} of 10 concurrent creates of one id succeeded, not 1."
        losers = {type(each).__name__ for each in made if not isinstance(each, Session)}
        assert losers == {"AlreadyExistsError"}, f"The others raised {losers}, not `AlreadyExistsError`."

    @in_loop
    async def test_a_session_that_is_not_there_is_none(self) -> None:
        """`get_session` gives None for an unknown id, and for a session of another user or app."""
        place = await self.place()
        await place.create("s1")
        for where, found in (
            ("under an unknown id", await place.find("s2")),
            ("for another user", await place.other(user="bob").find("s1")),
            ("for another app", await place.other(app=place.app + "-b").find("s1")),
        ):
            assert found is None, f"`get_session` found a session {where}."

    @in_loop
    async def test_users_may_have_sessions_of_one_id(self) -> None:
        """A session is named by app, user and id together."""
        ann = await self.place()
        bob = ann.other(user="bob")
        await ann.append(await ann.create("s1"), "of ann")
        await bob.append(await bob.create("s1"), "of bob")
        found = [texts_of(await each.get("s1")) for each in (ann, bob)]
        assert found == [["of ann"], ["of bob"]], f"Two users' sessions of one id share events: {found}."

    @in_loop
    async def test_sessions_are_listed_by_user_or_for_all(self) -> None:
        """`list_sessions` gives the sessions of a user, or without a user those of the app; never another app's."""
        ann = await self.place()
        bob, elsewhere = ann.other(user="bob"), ann.other(app=ann.app + "-b")
        for place, session_id in ((ann, "s1"), (ann, "s2"), (bob, "s3"), (elsewhere, "s4")):
            await place.create(session_id)
        of_ann = {each.id for each in await ann.listed()}
        assert of_ann == {"s1", "s2"}, f"The sessions of one user are listed as {of_ann}."
        of_all = {(each.user_id, each.id) for each in await ann.listed(all_users=True)}
        assert of_all == {("ann", "s1"), ("ann", "s2"), ("bob", "s3")}, f"The app's sessions are listed as {of_all}."
        of_nobody = await ann.other(user="eve").listed()
        assert of_nobody == [], "A user without sessions has some listed."

    @in_loop
    async def test_sessions_are_listed_without_events(self) -> None:
        """`list_sessions` gives names, state and times, but no events."""
        place = await self.place()
        await place.append(await place.create("s1"), "x", seen=1)
        [listed] = await place.listed()
        assert listed.events == [], "A session is listed with its events."
        assert listed.state == {"seen": 1}, f"A session is listed with the state {listed.state!r}, not its own."

    @in_loop
    async def test_sessions_are_listed_oldest_first(self) -> None:
        """`list_sessions` is sorted by the time of the last update."""
        place = await self.place()
        now = round((await place.create("c")).last_update_time, 3)
        for number, session_id in enumerate(("c", "a", "b"), 1):
            session = await place.get("c") if session_id == "c" else await place.create(session_id)
            await place.service.append_event(session, said("x", timestamp=now + 100 * number))
        listed = [each.id for each in await place.listed()]
        assert listed == ["c", "a", "b"], f"Sessions last updated in the order c, a, b are listed as {listed}."

    @in_loop
    async def test_a_deleted_session_is_gone(self) -> None:
        """`delete_session` removes a session from `get_session` and `list_sessions`, and nothing else."""
        place = await self.place()
        gone = await place.create("s1")
        await place.create("s2")
        await place.other(user="bob").create("s1")
        await place.delete("s1")
        assert await place.find("s1") is None, "A deleted session is still found."
        left = [(each.user_id, each.id) for each in await place.listed(all_users=True)]
        assert sorted(left) == [("ann", "s2"), ("bob", "s1")], f"After deleting one of three sessions, {left} are left."
        await expect_not_found(place.append(gone, "x"), "a deleted session")

    @in_loop
    async def test_deleting_is_idempotent(self) -> None:
        """`delete_session` of a session that is not there does nothing."""
        place = await self.place()
        await place.create("s1")
        for session_id in ("s1", "s1", "never there"):
            try:
                await place.delete(session_id)
            except FlowloomError as error:
                raise AssertionError(f"Deleting a session that is not there raised {error!r}.") from error
        assert await place.listed() == [], "A deleted session is still listed."

    @in_loop
    async def test_a_session_created_after_a_deleted_one_starts_empty(self) -> None:
        """The events and the state of a deleted session do not come back with its id."""
        place = await self.place()
        event = said("old", {"a": 1})
        await place.service.append_event(await place.create("s1"), event)
        await place.delete("s1")
        new = await place.create("s1")
        assert (new.events, new.state) == ([], {}), "A new session has events or state of a deleted one of that id."
        await place.service.append_event(new, event)
        found = texts_of(await place.get("s1"))
        assert found == ["old"], "An event of a deleted session could not be appended to a new one of that id."

    @in_loop
    async def test_names_are_taken_as_they_are(self) -> None:
        """Apps, users and session ids may hold any characters, and differ in any of them."""
        place = await self.place()
        for name in ODD_NAMES:
            where = place.other(app=f"{place.app}-{name}", user=name)
            await where.append(await where.create(name), name)
        for name in ODD_NAMES:
            found = await place.other(app=f"{place.app}-{name}", user=name).get(name)
            assert texts_of(found) == [name], f"A session named {name!r} holds the events {texts_of(found)}."
            names = (found.user_id, found.id)
            assert names == (name, name), f"A user and a session named {name!r} came back as {names}."

    @in_loop
    async def test_names_are_not_confused_when_joined(self) -> None:
        """User `a/b` with session `c` is not user `a` with session `b/c`, whatever the separator."""
        place = await self.place()
        for mark in ("/", ":", "|", ".", "_", " ", "\x1f"):
            await place.other(user=f"a{mark}b").create("c")
            found = await place.other(user="a").find(f"b{mark}c")
            assert found is None, f"User `a{mark}b`, session `c` is found as user `a`, session `b{mark}c`."

    @in_loop
    async def test_what_is_stored_outlives_the_service(self) -> None:
        """After `flush`, a second service on the same data has the sessions, their events and all state."""
        place = await self.place()
        session = await place.create("s1", {"a": 1, "user:u": 2, "app:p": 3})
        await place.append(session, "one", "two", b=4)
        found = await (await self.reopened(place)).get("s1")
        assert texts_of(found) == ["one", "two"], f"A second service has the events {texts_of(found)}."
        expected = {"a": 1, "user:u": 2, "app:p": 3, "b": 4}
        assert found.state == expected, f"A second service has the state {found.state!r}, not {expected!r}."

    @in_loop
    async def test_two_services_on_one_store_lose_no_event(self) -> None:
        """What two services append to one session at once is all there."""
        place = await self.place()
        await place.create("s1")
        other = await self.reopened(place)

        async def write(where: Place, name: str) -> None:
            session = await where.get("s1")
            for number in range(10):
                await where.append(session, f"{name}{number}")

        await asyncio.gather(write(place, "a"), write(other, "b"))
        await place.service.flush()
        await other.service.flush()
        found = sorted(texts_of(await place.get("s1")))
        assert found == sorted(f"{name}{n}" for name in "ab" for n in range(10)), f"Two services stored {found}."
