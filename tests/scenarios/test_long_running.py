"""Tools whose results come later (cases area 19)."""

from __future__ import annotations

from typing import Any

import pytest
from kit import (
    Chat,
    agent,
    call,
    declarations,
    hand_to,
    named_call,
    open_calls,
    pending,
    requests_of,
    result,
    shown,
    story,
    text,
)

from flowloom import FunctionTool, LlmAgent, LongRunningFunctionTool


class Office:
    """Starts requests, and counts how often."""

    def __init__(self, first_report: Any) -> None:
        self.first_report = first_report
        self.started = 0

    def file_request(self, days: int) -> Any:
        """File a request."""
        self.started += 1
        return self.first_report


def filing(first_report: Any, *answers: Any) -> tuple[Office, LlmAgent]:
    office = Office(first_report)
    tool = LongRunningFunctionTool(office.file_request)
    return office, agent("root", call("file_request", days=3), *answers, tools=[tool])


@pytest.mark.parametrize(
    ("report", "response"), [({"status": "pending"}, {"status": "pending"}), ("pending", {"result": "pending"})]
)
async def test_a_first_report_is_shown_to_the_model_in_the_same_turn(report: Any, response: dict[str, Any]) -> None:
    """LRO tool returns pending (dict or string) | 2 model requests in turn 1; second = user, FC, FR(pending)."""
    office, root = filing(report, "I filed it.")
    events = await Chat(root).say("three days off")
    assert len(requests_of(root)) == 2
    assert shown(requests_of(root)[1]) == [
        "user: three days off",
        "model: file_request()",
        f"user: file_request -> {response}",
    ]
    assert events[-1].text == "I filed it."
    assert office.started == 1


async def test_ids_that_were_minted_here_are_not_sent() -> None:
    """Client ids stripped."""
    _, root = filing({"status": "pending"}, "ok")
    events = await Chat(root).say("go")
    assert str(events[0].get_function_calls()[0].id).startswith("adk-")
    for content in requests_of(root)[1].contents:
        for part in content.parts or ():
            for held in (part.function_call, part.function_response):
                assert held is None or held.id is None


async def test_the_user_may_report_again_and_again() -> None:
    """3 successive FRs | each: 1 more request, contents still 3 with the newest FR replaced; tool ran once."""
    office, root = filing({"status": "pending"}, "filed", "one", "two", "three")
    chat = Chat(root)
    first = await chat.say("three days off")
    call_id = first[0].get_function_calls()[0].id
    for n, status in enumerate(("in review", "approved", "paid")):
        await chat.answer(result(call_id, "file_request", {"status": status}))
        assert len(requests_of(root)) == 3 + n
        assert shown(requests_of(root)[-1]) == [
            "user: three days off",
            "model: file_request()",
            f"user: file_request -> {{'status': '{status}'}}",
        ]
    assert office.started == 1


async def test_the_event_lists_the_id_of_the_call() -> None:
    """Ids | model calls LRO tool | event lists the call id."""
    _, root = filing(None)
    [only] = await Chat(root).say("go")
    assert only.long_running_tool_ids == [only.get_function_calls()[0].id]
    assert only.is_final_response()


async def test_ids_of_several_calls_are_listed_in_call_order_and_ordinary_ones_left_out() -> None:
    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    tool = LongRunningFunctionTool(Office(None).file_request)
    filed = [named_call(call_id, "file_request", days=1) for call_id in ("z", "a")]
    calls = [filed[0], named_call("m", "add", a=1, b=1), filed[1]]
    events = await Chat(agent("root", calls, "both filed", tools=[tool, add])).say("go")
    assert events[0].long_running_tool_ids == ["z", "a"]
    assert [r.id for r in events[1].get_function_responses()] == ["m"]


async def test_a_run_pauses_and_the_result_leads_to_the_final_answer() -> None:
    """Runner | LRO pause then FR | turn 2 final answer, in the same invocation."""
    office, root = filing(None, "Approved.")
    chat = Chat(root)
    first = await chat.say("three days off")
    [waiting] = pending(first)
    second = await chat.answer(result(waiting.id, "file_request", {"status": "approved"}))
    assert story(second) == ["root: Approved."]
    assert {e.invocation_id for e in second} == {first[0].invocation_id}
    assert office.started == 1


async def test_a_first_report_keeps_the_call_open() -> None:
    """Turn 1: 2 model calls and open interrupt; turn 2 final answer."""
    _, root = filing({"status": "pending"}, "Filed.", "Approved.")
    chat = Chat(root)
    first = await chat.say("go")
    [waiting] = pending(first)
    assert len(requests_of(root)) == 2
    assert story(await chat.answer(result(waiting.id, "file_request", {"status": "ok"}))) == ["root: Approved."]


async def test_text_after_a_pause_keeps_the_call_open_and_the_late_result_finds_it() -> None:
    _, root = filing(None, "Still waiting.", "Approved.")
    chat = Chat(root)
    [waiting] = pending(await chat.say("go"))
    await chat.say("any news?")
    await chat.answer(result(waiting.id, "file_request", {"status": "ok"}))
    lines = shown(requests_of(root)[-1])
    at = lines.index("model: file_request()")
    assert lines[at + 1] == "user: file_request -> {'status': 'ok'}"
    assert open_calls(await chat.stored()) == set()


@pytest.mark.parametrize("order", [("c1", "c2"), ("c2", "c1")])
async def test_two_pending_calls_are_answered_one_after_the_other_in_any_order(order: tuple[str, str]) -> None:
    tool = LongRunningFunctionTool(Office(None).file_request)
    calls = [named_call("c1", "file_request", days=1), named_call("c2", "file_request", days=2)]
    root = agent("root", calls, "one is there", "both are there", tools=[tool])
    chat = Chat(root)
    await chat.say("go")
    for call_id in order:
        await chat.answer(result(call_id, "file_request", {"id": call_id}))
    last = requests_of(root)[-1]
    answers = [p.function_response for c in last.contents for p in c.parts or () if p.function_response]
    assert sorted(str(a.response) for a in answers) == ["{'id': 'c1'}", "{'id': 'c2'}"]


async def test_both_results_may_come_in_one_message() -> None:
    tool = LongRunningFunctionTool(Office(None).file_request)
    calls = [named_call("c1", "file_request", days=1), named_call("c2", "file_request", days=2)]
    root = agent("root", calls, "both", tools=[tool])
    chat = Chat(root)
    await chat.say("go")
    answers = [result(i, "file_request", {"id": i}) for i in ("c2", "c1")]
    assert story(await chat.answer(*answers)) == ["root: both"]


async def test_a_result_goes_to_the_agent_that_called_even_if_another_spoke_since() -> None:
    """The message's first function response decides who goes on (spec 18.6)."""
    tool = LongRunningFunctionTool(Office(None).file_request)
    filed = named_call("c1", "file_request", days=1)
    sub = agent("sub", filed, "sub done", tools=[tool], disallow_transfer_to_parent=True)
    root = agent("root", hand_to("sub"), "root speaks", sub_agents=[sub])
    chat = Chat(root)
    await chat.say("go")
    assert story(await chat.say("hello?")) == ["root: root speaks"]
    assert story(await chat.answer(result("c1", "file_request", {"ok": True}))) == ["sub: sub done"]


async def test_a_result_may_come_with_text() -> None:
    _, root = filing(None, "Thanks.")
    chat = Chat(root)
    [waiting] = pending(await chat.say("go"))
    await chat.answer(result(waiting.id, "file_request", {"ok": True}), text("here you are"))
    assert "here you are" in " ".join(shown(requests_of(root)[-1]))


def test_the_declaration_notes_that_it_runs_long() -> None:
    """Description | LRO declaration | note appended (or is the description)."""

    def bare() -> None: ...

    described = LongRunningFunctionTool(Office(None).file_request).declaration
    alone = LongRunningFunctionTool(bare).declaration
    plain = FunctionTool(Office(None).file_request).declaration
    assert described is not None
    assert alone is not None
    assert plain is not None
    assert alone.description
    assert described.description == f"{plain.description}\n\n{alone.description}"


async def test_the_note_reaches_the_model() -> None:
    _, root = filing(None)
    await Chat(root).say("go")
    [declared] = declarations(requests_of(root)[0])
    assert "pending" in (declared.description or "")


async def test_a_long_running_tool_that_fails_is_answered_at_once() -> None:
    def broken() -> None:
        """Break."""
        raise RuntimeError("no clerk")

    root = agent("root", call("broken"), "sorry", tools=[LongRunningFunctionTool(broken)])
    events = await Chat(root).say("go")
    assert story(events) == ["root: broken()", "root: broken -> {'error': 'no clerk'}", "root: sorry"]
