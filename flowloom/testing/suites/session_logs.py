"""The rules of whole logs: going back, forking, and taking over what another store has."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from flowloom.errors import AlreadyExistsError, FlowloomError, HistoryError, SessionNotFoundError
from flowloom.events import Event, EventActions, EventCompaction
from flowloom.events.parts import content_of, text_part
from flowloom.sessions import InMemorySessionService, Session
from flowloom.testing.suites.loop import in_loop
from flowloom.testing.suites.session_place import Place, SessionRules, said, texts_of


class LogRules(SessionRules):
    """The rules of `append_buffered`, `get_or_create_session`, `rewind`, `fork`, `import_session` and `copy_from`."""

    keeps_initial_state = False
    """Whether the store knows the values that a session began with, once events have changed them."""

    # -- soon, and at once ---------------------------------------------------------------------------

    @in_loop
    async def test_an_event_that_is_appended_buffered_is_there_in_order(self) -> None:
        """`append_buffered` puts the event into the session at hand at once, and into the store before the next one."""
        place = await self.place()
        session = await place.create("s1")
        await place.service.append_buffered(session, said("one", {"n": 1}))
        assert (texts_of(session), session.state) == (["one"], {"n": 1}), "The session at hand has not the new event."
        await place.service.append_event(session, said("two"))
        await place.service.append_buffered(session, said("three", {"n": 3}))
        found = await place.get("s1")
        assert texts_of(found) == ["one", "two", "three"], f"The store has the events {texts_of(found)}."
        assert found.state == {"n": 3}, f"The store has the state {found.state!r}."

    @in_loop
    async def test_an_event_that_is_appended_buffered_outlives_the_service(self) -> None:
        """After `flush`, what `append_buffered` was given is in a second service on the same data."""
        place = await self.place()
        await place.service.append_buffered(await place.create("s1"), said("one"))
        found = await (await self.reopened(place)).get("s1")
        assert texts_of(found) == ["one"], f"A second service has the events {texts_of(found)}."

    @in_loop
    async def test_appending_buffered_again_changes_nothing(self) -> None:
        """`append_buffered` of an event that is stored, and of a partial one, changes nothing."""
        place = await self.place()
        session = await place.create("s1")
        event = said("one")
        for each in (event, event, said("half", partial=True)):
            await place.service.append_buffered(session, each)
        await place.service.append_event(session, event)
        await place.service.append_buffered(await place.get("s1"), event)
        for which, found in (("at hand", session), ("loaded", await place.get("s1"))):
            assert texts_of(found) == ["one"], f"After repeats, the session {which} has {texts_of(found)}."

    @in_loop
    async def test_an_error_of_appending_buffered_is_raised_in_the_end(self) -> None:
        """What `append_buffered` could not store is an error of it, of the next append, or of `flush`; only once."""
        place = await self.place()
        other = await place.create("s1")
        unknown = Session(id="nope", app_name=place.app, user_id=place.user)
        errors = 0
        try:
            await place.service.append_buffered(unknown, said("x"))
        except SessionNotFoundError:
            errors += 1
        await place.service.append_event(other, said("fine"))
        if not errors:
            await _expect(SessionNotFoundError, place.service.append_event(unknown, said("y")))
        await place.service.flush()
        assert texts_of(await place.get("s1")) == ["fine"], "The failure of one session disturbed another."

    @in_loop
    async def test_a_session_is_got_or_created(self) -> None:
        """`get_or_create_session` creates with the state it is given, and gives what is there as it is."""
        place = await self.place()
        names: dict[str, Any] = {"app_name": place.app, "user_id": place.user}
        made = await place.service.get_or_create_session(**names, session_id="s1", state={"a": 1})
        await place.append(made, "one")
        again = await place.service.get_or_create_session(**names, session_id="s1", state={"a": 2})
        kept = (again.id, texts_of(again), again.state)
        assert kept == ("s1", ["one"], {"a": 1}), f"A session that was there came back as {kept}."
        fresh = {(await place.service.get_or_create_session(**names)).id for _ in range(2)}
        assert len(fresh - {"", "s1"}) == 2, f"Without an id, the sessions are named {fresh}."

    @in_loop
    async def test_those_who_get_or_create_at_once_get_the_same(self) -> None:
        """Of several `get_or_create_session` calls with one id at once, all give that session."""
        place = await self.place()
        names: dict[str, Any] = {"app_name": place.app, "user_id": place.user, "session_id": "s1"}
        made = await asyncio.gather(*(place.service.get_or_create_session(**names) for _ in range(10)))
        names_made = {each.id for each in made}
        assert names_made == {"s1"}, f"Those who asked for session `s1` at once got {names_made}."
        assert len(await place.listed()) == 1, "Several sessions of one id are listed."

    # -- going back ----------------------------------------------------------------------------------

    @in_loop
    async def test_the_state_a_session_began_with_is_kept(self) -> None:
        """`initial_state` is the session's own state as it was created, for keys that no event has changed at least."""
        place = await self.place()
        session = await place.create("s1", {"kept": [1], "user:u": 2, "app:p": 3, "temp:t": 4})
        await place.append(session, "x", new=5, **{"user:u": 6})
        state = await place.service.initial_state(app_name=place.app, user_id=place.user, session_id="s1")
        assert state == {"kept": [1]}, f"A session that began with `kept` alone is said to have begun with {state!r}."

    @in_loop
    async def test_rewinding_undoes_the_sessions_own_state(self) -> None:
        """`rewind` gives each key of the session the value it had before the invocation, None where it had none."""
        place = await self.place()
        session = await place.create("s1", {"kept": 0})
        for number in (1, 2, 3):
            delta = {"n": number, f"only{number}": True, "user:u": number, "app:p": number}
            await place.service.append_event(session, said(str(number), delta, invocation_id=f"e-{number}"))
        event = await place.service.rewind(session, before_invocation_id="e-2")
        target = event.actions.rewind_before_invocation_id
        assert target == "e-2", f"The event that rewinds to before `e-2` says `{target}`."
        expected = {"kept": 0, "n": 1, "only1": True, "only2": None, "only3": None, "user:u": 3, "app:p": 3}
        for which, found in (("at hand", session), ("loaded", await place.get("s1"))):
            assert found.state == expected, f"After rewinding, the session {which} has the state {found.state!r}."
            assert [each.id for each in found.events][-1] == event.id, f"The session {which} has not the event of it."
            assert texts_of(found)[:3] == ["1", "2", "3"], f"Rewinding deleted events of the session {which}."

    @in_loop
    async def test_what_a_session_began_with_comes_back(self) -> None:
        """Rewinding and forking know the value that a key had before any event, in copies and forks too."""
        if not self.keeps_initial_state:
            pytest.skip("`keeps_initial_state` is not set: the store does not know what a session began with")
        place = await self.place()
        session = await place.create("s1", {"n": 0})
        await place.service.append_event(session, said("1", {"n": 1}, invocation_id="e-1"))
        await place.service.append_event(session, said("2", {"n": 2}, invocation_id="e-2"))
        await fork(place, "s1", "f")
        elsewhere = Place(InMemorySessionService(), place.app, place.user)
        other = await elsewhere.create("copy", {"n": 0})
        await elsewhere.service.append_event(other, said("1", {"n": 1}, invocation_id="e-1"))
        await place.service.copy_from(elsewhere.service, app_name=place.app)
        for session_id in ("s1", "f", "copy"):
            names: dict[str, Any] = {"app_name": place.app, "user_id": place.user, "session_id": session_id}
            began = await place.service.initial_state(**names)
            assert began == {"n": 0}, f"`{session_id}` is said to have begun with the state {began!r}."
            found = await place.get(session_id)
            await place.service.rewind(found, before_invocation_id="e-1")
            assert found.state == {"n": 0}, f"Rewound to its beginning, `{session_id}` has the state {found.state!r}."

    @in_loop
    async def test_rewinding_works_on_a_session_that_was_loaded_in_part(self) -> None:
        """`rewind` finds an invocation that the session at hand does not show."""
        place = await self.place()
        session = await place.create("s1")
        for number in (1, 2):
            await place.service.append_event(session, said(str(number), {"n": number}, invocation_id=f"e-{number}"))
        await place.service.rewind(await place.get("s1", num_recent_events=1), before_invocation_id="e-1")
        state = (await place.get("s1")).state
        assert state == {"n": None}, f"After rewinding all, the state is {state!r}."

    @in_loop
    async def test_rewinding_goes_past_a_compaction_and_a_rewind(self) -> None:
        """`rewind` goes back to any invocation of the log, whatever came since."""
        place = await self.place()
        session = await place.create("s1")
        for number in (1, 2):
            await place.service.append_event(session, said(str(number), {"n": number}, invocation_id=f"e-{number}"))
        summary = EventCompaction(
            start_timestamp=0.0,
            end_timestamp=session.events[-1].timestamp,
            compacted_content=content_of("model", [text_part("in short")]),
        )
        await place.service.append_event(
            session, Event(author="user", invocation_id="e-3", actions=EventActions(compaction=summary))
        )
        await place.service.rewind(session, before_invocation_id="e-2")
        assert session.state == {"n": 1}, f"Rewound past a compaction, the state is {session.state!r}."
        await place.service.rewind(session, before_invocation_id="e-1")
        found = await place.get("s1")
        assert found.state == {"n": None}, f"After rewinding twice, the state is {found.state!r}."
        assert found.events[2].actions.compaction is not None, "Rewinding deleted a summary."

    @in_loop
    async def test_rewinding_to_what_is_not_there_is_an_error(self) -> None:
        """`rewind` raises `HistoryError` for an unknown invocation, `SessionNotFoundError` for an unknown session."""
        place = await self.place()
        session = await place.create("s1")
        await place.append(session, "x")
        await _expect(HistoryError, place.service.rewind(session, before_invocation_id="e-9"))
        unknown = Session(id="nope", app_name=place.app, user_id=place.user)
        await _expect(SessionNotFoundError, place.service.rewind(unknown, before_invocation_id="e-1"))
        assert texts_of(await place.get("s1")) == ["x"], "A refused rewinding changed the log."

    # -- forks ---------------------------------------------------------------------------------------

    @in_loop
    async def test_a_fork_has_the_log_and_the_state_of_its_moment(self) -> None:
        """`fork` gives a new session with the events up to one of them, and the session's state at that moment."""
        place = await self.place()
        session = await place.create("s1", {"first": 0})
        for number in range(4):
            await place.service.append_event(session, said(str(number), {"n": number, f"only{number}": [number]}))
        whole = await fork(place, "s1", "all")
        assert texts_of(whole) == ["0", "1", "2", "3"], f"A fork of all has the events {texts_of(whole)}."
        assert whole.state == session.state, f"A fork of all has the state {whole.state!r}."
        early = await fork(place, "s1", "early", session.events[1].id)
        for which, found in (("at hand", early), ("loaded", await place.get("early"))):
            assert texts_of(found) == ["0", "1"], f"A fork up to the second event has, {which}, {texts_of(found)}."
            expected = {"first": 0, "n": 1, "only0": [0], "only1": [1]}
            assert found.state == expected, f"A fork up to the second event has, {which}, the state {found.state!r}."
        ids = [each.id for each in early.events]
        assert ids == [each.id for each in session.events[:2]], "The events of a fork have other ids."

    @in_loop
    async def test_forks_go_their_own_ways(self) -> None:
        """What is appended to a fork is not in its parent, and what is appended to the parent is not in the fork."""
        place = await self.place()
        session = await place.create("s1", {"n": 0})
        await place.append(session, "both")
        made = await fork(place, "s1", "f")
        await place.append(session, "parent", n=1)
        await place.append(made, "fork", n=2)
        await place.append(await place.get("s1"), "parent again")
        parent, child = await place.get("s1"), await place.get("f")
        for which, found, texts, number in (
            ("parent", parent, ["both", "parent", "parent again"], 1),
            ("fork", child, ["both", "fork"], 2),
        ):
            assert texts_of(found) == texts, f"Each going its own way, the {which} has the events {texts_of(found)}."
            assert found.state == {"n": number}, f"Each going its own way, the {which} has the state {found.state!r}."
        await place.service.append_event(child, session.events[0])
        assert texts_of(await place.get("f")) == ["both", "fork"], "An event that a fork began with was stored again."

    @in_loop
    async def test_a_fork_does_not_touch_the_state_of_user_and_app(self) -> None:
        """State of user and app is as it was before the fork, whatever it was when the events were new."""
        place = await self.place()
        session = await place.create("s1")
        first = await place.append(session, "one", **{"user:u": 1, "app:p": 1})
        await place.append(session, "two", **{"user:u": 2, "app:p": 2})
        state = (await fork(place, "s1", "f", first.id)).state
        assert state == {"user:u": 2, "app:p": 2}, f"A fork of an earlier moment has the state {state!r}."
        assert (await place.get("s1")).state == state, "A fork changed the state of user and app."

    @in_loop
    async def test_forks_of_forks_outlive_what_they_came_from(self) -> None:
        """A fork keeps its whole log when its parent, and the parent's parent, are deleted."""
        place = await self.place()
        session = await place.create("s1", {"first": 1})
        first = await place.append(session, "one", a=1)
        await place.append(session, "two", a=2)
        child = await fork(place, "s1", "child")
        middle = await place.append(child, "three", a=3)
        await place.append(child, "four", a=4)
        await fork(place, "child", "grandchild", middle.id)
        await fork(place, "grandchild", "early", first.id)
        await place.append(await place.get("grandchild"), "five", b=5)
        for gone in ("s1", "child"):
            await place.delete(gone)
            assert await place.find(gone) is None, f"The deleted session `{gone}` is found."
            found, early = await place.get("grandchild"), await place.get("early")
            assert texts_of(found) == ["one", "two", "three", "five"], f"The fork of a fork has {texts_of(found)}."
            assert found.state == {"first": 1, "a": 3, "b": 5}, f"The fork of a fork has the state {found.state!r}."
            kept = (texts_of(early), early.state)
            assert kept == (["one"], {"first": 1, "a": 1}), f"The early fork of a fork has {kept}."
        late = await fork(place, "grandchild", "late", first.id)
        assert (texts_of(late), late.state) == (["one"], {"first": 1, "a": 1}), "A fork of what was deleted is wrong."
        await place.create("s1")
        assert texts_of(await place.get("s1")) == [], "A new session has the events that forks of an old one keep."
        recent = texts_of(await place.get("grandchild", num_recent_events=2))
        assert recent == ["three", "five"], f"The latest two events of a fork are {recent}."

    @in_loop
    async def test_a_fork_can_be_rewound(self) -> None:
        """`rewind` goes back, in a fork, to before the fork began."""
        place = await self.place()
        session = await place.create("s1", {"kept": 1})
        for number in (1, 2):
            await place.service.append_event(session, said(str(number), {"n": number}, invocation_id=f"e-{number}"))
        made = await fork(place, "s1", "f")
        await place.service.rewind(made, before_invocation_id="e-2")
        state = (await place.get("f")).state
        assert state == {"kept": 1, "n": 1}, f"A rewound fork has the state {state!r}."
        assert (await place.get("s1")).state == {"kept": 1, "n": 2}, "Rewinding a fork changed its parent."

    @in_loop
    async def test_a_fork_that_cannot_be_is_an_error(self) -> None:
        """`fork` raises for an unknown session, an unknown event, and an id that is in use."""
        place = await self.place()
        await place.append(await place.create("s1"), "x")
        await _expect(SessionNotFoundError, fork(place, "nope", "f"))
        await _expect(HistoryError, fork(place, "s1", "f", "no such event"))
        await _expect(AlreadyExistsError, fork(place, "s1", "s1"))
        assert [each.id for each in await place.listed()] == ["s1"], "A refused fork left a session behind."

    # -- what another store has ------------------------------------------------------------------------

    @in_loop
    async def test_an_imported_session_is_as_it_was(self) -> None:
        """`import_session` stores names, events, and the state of all scopes."""
        place = await self.place()
        elsewhere = Place(InMemorySessionService(), place.app, place.user)
        session = await elsewhere.create("s1", {"a": 1, "user:u": 1})
        await elsewhere.append(session, "one", "two", b=[2], **{"app:p": 3})
        await place.service.import_session(session)
        found = await place.get("s1")
        assert [each.id for each in found.events] == [each.id for each in session.events], "Imported events differ."
        assert found.state == session.state, f"The state {session.state!r} was imported as {found.state!r}."
        moment = found.last_update_time
        assert abs(moment - session.last_update_time) < 1e-3, f"An imported session was last updated at {moment}."

    @in_loop
    async def test_importing_again_adds_what_is_new(self) -> None:
        """Importing a session a second time changes nothing, or appends what has come since."""
        place = await self.place()
        elsewhere = Place(InMemorySessionService(), place.app, place.user)
        session = await elsewhere.create("s1")
        await elsewhere.append(session, "one", n=1)
        early = await elsewhere.get("s1")
        await elsewhere.append(session, "two", n=2)
        for given in (early, session, session, early):
            await place.service.import_session(given)
        found = await place.get("s1")
        assert (texts_of(found), found.state) == (["one", "two"], {"n": 2}), (
            f"After importing twice, the store has {texts_of(found)} and {found.state!r}."
        )

    @in_loop
    async def test_importing_over_another_log_is_an_error(self) -> None:
        """`import_session` raises `AlreadyExistsError` for a name under which another log is."""
        place = await self.place()
        await place.append(await place.create("s1"), "mine")
        elsewhere = Place(InMemorySessionService(), place.app, place.user)
        session = await elsewhere.create("s1")
        await elsewhere.append(session, "theirs", "also theirs")
        await _expect(AlreadyExistsError, place.service.import_session(session))
        assert texts_of(await place.get("s1")) == ["mine"], "A refused import changed the log."

    @in_loop
    async def test_sessions_of_another_service_are_copied(self) -> None:
        """`copy_from` imports all sessions of an app or a user, as often as one likes."""
        place = await self.place()
        ann = Place(InMemorySessionService(), place.app, place.user)
        bob, elsewhere = ann.other(user="bob"), ann.other(app=ann.app + "-b")
        for where, name in ((ann, "s1"), (ann, "s2"), (bob, "s3"), (elsewhere, "s4")):
            await where.append(await where.create(name, {"first": 1}), name, n=2, **{"user:u": name})
        names: dict[str, Any] = {"app_name": place.app}
        counts = [await place.service.copy_from(ann.service, **names, user_id="bob")]
        listed_ids = {each.id for each in await place.listed(all_users=True)}
        assert listed_ids == {"s3"}, f"Copied for one user were {listed_ids}, not the one session of that user."
        counts += [await place.service.copy_from(ann.service, **names) for _ in range(2)]
        assert counts == [1, 3, 3], f"Of 1, 3 and again 3 sessions, {counts} are said to have been copied."
        listed = {(each.user_id, each.id) for each in await place.listed(all_users=True)}
        assert listed == {("ann", "s1"), ("ann", "s2"), ("bob", "s3")}, f"Copied were {listed}."
        found = await place.get("s2")
        kept = (texts_of(found), found.state)
        assert kept == (["s2"], {"first": 1, "n": 2, "user:u": "s2"}), f"A copied session has {kept}."
        await place.service.rewind(found, before_invocation_id=found.events[0].invocation_id)
        assert found.state["first"] == 1, "The state that a copied session began with is lost."


async def fork(place: Place, session_id: str, new_id: str, event_id: str | None = None) -> Session:
    """A fork of one of a place's sessions."""
    return await place.service.fork(
        app_name=place.app,
        user_id=place.user,
        session_id=session_id,
        new_session_id=new_id,
        up_to_event_id=event_id,
    )


async def _expect(kind: type[FlowloomError], doing: Any) -> None:
    try:
        await doing
    except kind:
        return
    raise AssertionError(f"Nothing was raised; `{kind.__name__}` was expected.")
