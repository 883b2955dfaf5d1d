"""Requests and answers that nobody made as they look, below the runner."""

from __future__ import annotations

from typing import Any

import pytest
from auth.desk import API_KEY, ASKED, Calendar
from google.genai import types
from kit import agent, context, event, named_call, result

from flowloom import Event

ASKS: dict[str, Any] = {"requested_auth_configs": {"c1": API_KEY.to_wire()}}


def called(call_id: str = "c1", day: str = "monday") -> list[Event]:
    """A call, and its pending result."""
    return [
        event("root", named_call(call_id, "read_calendar", day=day)),
        event("root", result(call_id, "read_calendar", {"result": "waiting"}), actions=ASKS),
    ]


def asks(request_id: str = "r1", call_id: str = "c1", author: str = "root", **config: Any) -> Event:
    args = {"functionCallId": call_id, "authConfig": API_KEY.to_wire() | config}
    part = types.Part(function_call=types.FunctionCall(id=request_id, name=ASKED, args=args))
    return event(author, part, long_running_tool_ids=[request_id])


def answers(*request_ids: str) -> Event:
    given = {"authType": "apiKey", "apiKey": "k-123456"}
    return event("user", *(result(each, ASKED, given) for each in request_ids))


async def resumed(calendar: Calendar, *log: Event) -> list[Event]:
    """What the processors emit for the agent's next step after this log."""
    root = agent("root", "ok", tools=[calendar.tool(API_KEY)])
    return (await root.flow.assemble(context(root, *log))).events


async def test_an_answer_in_the_log_is_carried_out() -> None:
    """Without a runner, nobody has taken it out of the message."""
    calendar = Calendar()
    (made,) = await resumed(calendar, *called(), asks(), answers("r1"))
    assert made.get_function_responses()[0].id == "c1"
    assert [each.api_key for each in calendar.seen] == ["k-123456"]


async def test_a_request_by_somebody_else_for_an_agents_own_call_does_nothing() -> None:
    calendar = Calendar()
    assert await resumed(calendar, *called(), asks(author="intruder"), answers("r1")) == []
    assert calendar.seen == []


async def test_a_request_for_somebody_elses_call_does_nothing() -> None:
    calendar = Calendar()
    theirs = event("intruder", named_call("c1", "read_calendar", day="monday"))
    assert await resumed(calendar, theirs, asks(), answers("r1")) == []
    assert calendar.seen == []


async def test_one_id_for_two_requests_runs_neither() -> None:
    calendar = Calendar()
    log = [*called(), *called("c2"), asks(), asks(call_id="c2"), answers("r1")]
    assert await resumed(calendar, *log) == []
    assert await resumed(calendar, *called(), asks(), asks(credentialKey="other"), answers("r1")) == []
    assert calendar.seen == []


async def test_a_call_that_has_a_result_since_is_not_run() -> None:
    calendar = Calendar()
    done = event("root", result("c1", "read_calendar", {"result": "dentist"}))
    assert await resumed(calendar, *called(), asks(), done, answers("r1")) == []
    assert calendar.seen == []


async def test_two_requests_for_one_call_run_it_once() -> None:
    calendar = Calendar()
    (made,) = await resumed(calendar, *called(), asks("r1"), asks("r2"), answers("r1", "r2"))
    assert len(made.get_function_responses()) == 1
    assert len(calendar.seen) == 1


@pytest.mark.parametrize(
    "args",
    [{"authConfig": 7}, {"functionCallId": "c1"}, {"functionCallId": 1, "authConfig": API_KEY.to_wire()}, None],
    ids=["no config", "no key", "no call", "nothing"],
)
async def test_a_request_that_cannot_be_read_does_nothing(args: dict[str, Any] | None) -> None:
    """Nor does one for a call that the log does not have; the others in the message are carried out."""
    calendar = Calendar()
    broken = types.Part(function_call=types.FunctionCall(id="r0", name=ASKED, args=args))
    asked = event("root", broken, long_running_tool_ids=["r0"])
    log = [*called(), asked]
    assert await resumed(calendar, *log, answers("r0")) == []
    assert await resumed(calendar, called()[0], asked, answers("r0")) == []
    assert await resumed(calendar, *log, asks("r1", "c8"), answers("r1")) == []
    assert calendar.seen == []
    (made,) = await resumed(calendar, *log, asks("r9", author="intruder"), asks("r1"), answers("r0", "r9", "r1"))
    assert made.get_function_responses()[0].id == "c1"


async def test_a_request_that_is_made_twice_in_the_same_words_is_one() -> None:
    """And what another agent has asked under its id does not count."""
    calendar = Calendar()
    theirs = asks(author="intruder", credentialKey="other")
    (made,) = await resumed(calendar, *called(), theirs, asks(), asks(), answers("r1"))
    assert made.get_function_responses()[0].id == "c1"


async def test_a_call_that_has_said_something_else_since_it_asked_is_run() -> None:
    """As long as it said it before the request."""
    calendar = Calendar()
    more = event("root", result("c1", "read_calendar", {"result": "still waiting"}))
    (made,) = await resumed(calendar, *called(), more, asks(), answers("r1"))
    assert made.get_function_responses()[0].id == "c1"


async def test_a_request_is_for_the_calls_that_asked_for_its_credential_before_it() -> None:
    """Not for those that asked in the same step for another one, or that ask after it."""
    calendar = Calendar()
    other = API_KEY.to_wire() | {"credentialKey": "other"}
    both = {"requested_auth_configs": {"c1": API_KEY.to_wire(), "c2": other}}
    pending = [result(f"c{n}", "read_calendar", {"result": "waiting"}) for n in (1, 2)]
    calls = [named_call(f"c{n}", "read_calendar", day="monday") for n in (1, 2)]
    log = [event("root", *calls), event("root", *pending, actions=both)]
    (made,) = await resumed(calendar, *log, asks(), asks("r2", "c2", credentialKey="other"), answers("r1"))
    assert [each.id for each in made.get_function_responses()] == ["c1"]
