"""The rules of state: who shares it, how long it lives, and that nobody changes it behind the store's back."""

from __future__ import annotations

from typing import Any

import pytest

from flowloom.testing.suites.loop import in_loop
from flowloom.testing.suites.session_place import SessionRules, said

_SCOPED = {"app:a": 1, "user:u": 2, "own": 3}


class StateRules(SessionRules):
    """The rules of session, user, app and temporary state."""

    @in_loop
    async def test_initial_state_has_the_reach_of_its_scope(self) -> None:
        """State given to `create_session` goes to the app, the user or the session, as its keys say."""
        ann = await self.place()
        await ann.create("s1", dict(_SCOPED))
        reach = {
            "the same session": (await ann.get("s1")).state,
            "another session of the user": (await ann.create("s2")).state,
            "another user's session": (await ann.other(user="bob").create("s1")).state,
            "a session of another app": (await ann.other(app=ann.app + "-b").create("s1")).state,
        }
        _assert_reach(reach)

    @in_loop
    async def test_appended_state_has_the_reach_of_its_scope(self) -> None:
        """A change of state reaches sessions that are there: `app:` all, `user:` the user's, the rest its own."""
        ann = await self.place()
        bob, elsewhere = ann.other(user="bob"), ann.other(app=ann.app + "-b")
        session = await ann.create("s1")
        for place, session_id in ((ann, "s2"), (bob, "s1"), (elsewhere, "s1")):
            await place.create(session_id)
        await ann.append(session, "x", **_SCOPED)
        assert session.state == _SCOPED, f"The session at hand has the state {session.state!r}, not {_SCOPED!r}."
        reach = {
            "the same session": (await ann.get("s1")).state,
            "another session of the user": (await ann.get("s2")).state,
            "another user's session": (await bob.get("s1")).state,
            "a session of another app": (await elsewhere.get("s1")).state,
        }
        _assert_reach(reach)

    @in_loop
    async def test_shared_state_outlives_a_session(self) -> None:
        """Deleting a session deletes neither the user's state nor the app's."""
        place = await self.place()
        await place.create("s1", dict(_SCOPED))
        await place.delete("s1")
        state = (await place.create("s2")).state
        assert state == {"app:a": 1, "user:u": 2}, f"After its session was deleted, shared state is {state!r}."

    @in_loop
    async def test_scopes_keep_equal_names_apart(self) -> None:
        """`x`, `user:x` and `app:x` are three keys."""
        place = await self.place()
        given = {"x": 1, "user:x": 2, "app:x": 3, "App:x": 4, "a.b": 5, "a/b": 6, "名前": 7}
        await place.append(await place.create("s1"), "x", **given)
        state = (await place.get("s1")).state
        assert state == given, f"State {given!r} was stored, and loaded as {state!r}."

    @in_loop
    async def test_later_changes_win_and_others_stay(self) -> None:
        """A change of state replaces the values of its keys as a whole, and leaves other keys alone."""
        place = await self.place()
        session = await place.create("s1", {"kept": 1, "changed": {"a": 1}})
        await place.append(session, "x", changed={"b": 2}, new=3)
        state, expected = (await place.get("s1")).state, {"kept": 1, "changed": {"b": 2}, "new": 3}
        assert state == expected, f"The state is {state!r}, not {expected!r}."

    @in_loop
    async def test_none_is_a_value(self) -> None:
        """A key that is set to None is there and is None; it is not deleted."""
        place = await self.place()
        session = await place.create("s1", {"a": 1, "user:b": 1})
        await place.append(session, "x", **{"a": None, "user:b": None})
        for which, state in (("at hand", session.state), ("loaded", (await place.get("s1")).state)):
            assert state == {"a": None, "user:b": None}, f"Keys set to None became {state!r} in the session {which}."

    @in_loop
    async def test_values_keep_their_kinds(self) -> None:
        """State holds any JSON value, and gives it back as what it was."""
        place = await self.place()
        given: dict[str, Any] = {
            "text": "ü 名前 🧵",
            "true": True,
            "zero": 0,
            "big": 2**53 - 1,
            "float": 0.1,
            "list": [1, [2, {}], []],
            "dict": {"a": {"1": None}},
            "empty": "",
        }
        await place.append(await place.create("s1", {"first": given}), "x", **given)
        state = (await place.get("s1")).state
        for name, value in {**given, "first": given}.items():
            kept = state.get(name)
            assert (kept, type(kept)) == (value, type(value)), f"State {value!r} was loaded as {kept!r}."

    @in_loop
    async def test_temporary_state_is_seen_in_the_run_and_not_stored(self) -> None:
        """`temp:` state reaches the session at hand, and neither the stored event nor any session loaded later."""
        place = await self.place()
        session = await place.create("s1")
        event = said("x", {"temp:t": 1, "kept": 2})
        returned = await place.service.append_event(session, event)
        assert session.state == {"temp:t": 1, "kept": 2}, (
            f"The session at hand has the state {session.state!r}; for the rest of the run, it holds `temp:` too."
        )
        assert event.actions.state_delta == {"temp:t": 1, "kept": 2}, "The caller's event was changed."
        loaded = await place.get("s1")
        assert loaded.state == {"kept": 2}, f"A session loaded later has the state {loaded.state!r}."
        for which, stored in (("returned", returned), ("at hand", session.events[-1]), ("loaded", loaded.events[-1])):
            delta = stored.actions.state_delta
            assert delta == {"kept": 2}, f"The event {which} has the change of state {delta!r}, `temp:` among it."

    @in_loop
    async def test_temporary_state_of_a_new_session_is_not_stored(self) -> None:
        """`temp:` state given to `create_session` is not there when the session is loaded."""
        place = await self.place()
        await place.create("s1", {"temp:t": 1, "kept": 2})
        state = (await place.get("s1")).state
        assert state == {"kept": 2}, f"A session created with `temp:` state is loaded with {state!r}."

    @in_loop
    async def test_state_at_hand_is_the_callers_own(self) -> None:
        """Changing the state of a session that was created or loaded changes nothing in the store, at any depth."""
        place = await self.place()
        scopes = ("own", "user:u", "app:a")
        created = await place.create("s1", {key: {"list": [1]} for key in scopes})
        for session in (created, await place.get("s1"), (await place.listed())[0]):
            for key in scopes:
                session.state[key]["list"].append(2)
            session.state["new"] = True
        state = (await place.get("s1")).state
        assert state == {key: {"list": [1]} for key in scopes}, f"Changing the state at hand left {state!r} stored."

    @in_loop
    async def test_stored_state_is_the_stores_own(self) -> None:
        """What the caller does with a value after giving it to the store does not reach the store."""
        place = await self.place()
        values = [[1], [1]]
        session = await place.create("s1", {"first": values[0]})
        await place.append(session, "x", **{"own": values[1], "user:u": values[1]})
        for value in (*values, session.state["own"], session.state["first"]):
            value.append(2)
        state = (await place.get("s1")).state
        expected = {"first": [1], "own": [1], "user:u": [1]}
        assert state == expected, f"Changing values after they were stored left {state!r} in the store."

    @in_loop
    async def test_a_users_state_can_be_asked_for(self) -> None:
        """`get_user_state` gives the user's state without prefix, as a copy; for a user without state, `{}`."""
        place = await self.place()
        await place.append(await place.create("s1", {"user:a": [1], "app:b": 2, "c": 3}), "x", **{"user:d": 4})
        try:
            state = await place.service.get_user_state(app_name=place.app, user_id=place.user)
        except NotImplementedError:
            pytest.skip("the service does not offer `get_user_state`")
        assert state == {"a": [1], "d": 4}, f"`get_user_state` gave {state!r}, not {{'a': [1], 'd': 4}}."
        state["a"].append(2)
        again = await place.service.get_user_state(app_name=place.app, user_id=place.user)
        assert again == {"a": [1], "d": 4}, "Changing what `get_user_state` gave changed the store."
        other = await place.service.get_user_state(app_name=place.app, user_id="bob")
        assert other == {}, f"`get_user_state` gave {other!r} for a user without state."


def _assert_reach(reach: dict[str, dict[str, Any]]) -> None:
    expected: dict[str, dict[str, Any]] = {
        "the same session": _SCOPED,
        "another session of the user": {"app:a": 1, "user:u": 2},
        "another user's session": {"app:a": 1},
        "a session of another app": {},
    }
    for where, state in reach.items():
        assert state == expected[where], (
            f"Of the state {_SCOPED!r}, {where} has {state!r}, but should have {expected[where]!r}."
        )
