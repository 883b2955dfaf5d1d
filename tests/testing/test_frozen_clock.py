"""The frozen clock."""

from __future__ import annotations

import contextlib
import datetime
import time

import pytest
from kit import Chat, agent, call, event

from flowloom import ConfigurationError, Event, InMemorySessionService, LimitExceededError, Limits, RunConfig
from flowloom.testing import FrozenClock, frozen
from flowloom.testing.scripted import delayed

NOON = datetime.datetime(2026, 1, 1, 12, tzinfo=datetime.UTC)


async def test_events_have_the_frozen_time_and_counted_ids() -> None:
    with frozen(clock=NOON, ids="x{}"):
        events = await Chat(agent("root", "ok")).say("hi")
    assert {each.timestamp for each in events} == {NOON.timestamp()}
    assert {each.invocation_id for each in events} == {"e-x1"}
    assert all(each.id.startswith("x") for each in events)


async def test_two_runs_are_the_same_to_the_byte() -> None:
    runs: list[list[str]] = []
    for _ in range(2):
        with frozen():
            events = await Chat(agent("root", "ok")).say("hi")
        runs.append([each.model_dump_json() for each in events])
    assert runs[0] == runs[1]


async def test_time_goes_by_when_it_is_told_to() -> None:
    with frozen(clock=100.0) as clock:
        first = event("user", "a")
        clock.advance(5)
        second = event("user", "b")
    assert (first.timestamp, second.timestamp) == (100.0, 105.0)


async def test_a_delayed_answer_takes_no_time() -> None:
    with frozen(clock=100.0) as clock:
        started = time.monotonic()
        (answer,) = await Chat(agent("root", delayed("ok", 3600))).say("hi")
    assert time.monotonic() - started < 60
    assert answer.timestamp == 3700.0
    assert clock.slept == [3600]


async def test_limits_of_time_go_by_the_frozen_clock() -> None:
    def look() -> str:
        """Look."""
        return "seen"

    root = agent("root", delayed(call("look"), 10), "late", tools=[look])
    with frozen(), pytest.raises(LimitExceededError, match="seconds"):
        await Chat(root, config=RunConfig(limits=Limits(seconds=5))).say("hi")


async def test_the_clock_is_put_back() -> None:
    """After an error as well, and after one within another."""
    with contextlib.suppress(ZeroDivisionError), frozen(clock=1.0, ids="a{}"):
        with frozen(clock=2.0, ids="b{}"):
            assert Event(author="user").id == "b1"
        assert (Event(author="user").id, Event(author="user").timestamp) == ("a1", 1.0)
        raise ZeroDivisionError
    assert abs(Event(author="user").timestamp - time.time()) < 60
    assert Event(author="user").id != Event(author="user").id


async def test_ids_may_come_from_a_function() -> None:
    with frozen(ids=iter(["one", "two"]).__next__):
        assert [Event(author="user").id for _ in range(2)] == ["one", "two"]


async def test_sessions_have_counted_ids() -> None:
    with frozen(ids="s{}", clock=7.0):
        session = await InMemorySessionService().create_session(app_name="app", user_id="ann")
    assert (session.id, session.last_update_time) == ("s1", 7.0)


def test_a_pattern_without_a_number_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="makes the same id each time"), frozen(ids="same"):
        pass


def test_a_time_without_a_zone_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="no time zone"), frozen(clock=datetime.datetime(2026, 1, 1)):
        pass


def test_the_fixture_freezes_the_whole_test(frozen_clock: FrozenClock) -> None:
    assert Event(author="user").timestamp == frozen_clock.time
    assert Event(author="user").id == "id2"
