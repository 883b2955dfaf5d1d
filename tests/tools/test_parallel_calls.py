"""Several calls of one answer, and answers that are not there yet (cases, area 3; spec §14.1, §14.5)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, named_call, open_calls, requests_of, said, shown, story, text

from flowloom import BaseTool, FunctionTool, LlmResponse, LongRunningFunctionTool, ToolContext
from flowloom.testing import call


async def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Answering(BaseTool):
    """A tool with this answer, that may be long-running or leave the answer to somebody else."""

    def __init__(self, answer: Any, *, long_running: bool = False, defers: bool = False) -> None:
        super().__init__(name="work", description="Work.", is_long_running=long_running)
        self.answer = answer
        self.defers_response = defers

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return self.answer


async def turns_with(tool: BaseTool) -> tuple[list[str], int]:
    root = agent("root", named_call("c1", "work"), "done", tools=[tool])
    events = await Chat(root).say("go")
    return story(events), len(requests_of(root))


GATE: list[tuple[str, BaseTool, list[str], int]] = [
    (
        "tool defers + returns None | no FR event; model called again (2 events)",
        Answering(None, defers=True),
        ["root: work()", "root: done"],
        2,
    ),
    (
        "LRO + None | no FR; run parks after the FC event (1 event)",
        Answering(None, long_running=True),
        ["root: work()"],
        1,
    ),
    ("defers + LRO + None | same as LRO", Answering(None, long_running=True, defers=True), ["root: work()"], 1),
    (
        "plain tool + None | FR with null response still emitted (3 events)",
        Answering(None),
        ["root: work()", "root: work -> {'result': None}", "root: done"],
        2,
    ),
    (
        "defers + value | FR emitted",
        Answering({"x": 1}, defers=True),
        ["root: work()", "root: work -> {'x': 1}", "root: done"],
        2,
    ),
    (
        "LRO + pending dict | FR emitted and fed to the model once (3 events)",
        Answering({"status": "pending"}, long_running=True),
        ["root: work()", "root: work -> {'status': 'pending'}", "root: done"],
        2,
    ),
]


@pytest.mark.parametrize(("tool", "lines", "asked"), [g[1:] for g in GATE], ids=[g[0] for g in GATE])
async def test_the_gate_of_function_responses(tool: BaseTool, lines: list[str], asked: int) -> None:
    assert await turns_with(tool) == (lines, asked)


@pytest.mark.parametrize("silent", [(0,), (1,), (0, 1, 2)], ids=["first", "middle", "all"])
async def test_calls_without_an_answer_leave_the_others_in_order(silent: tuple[int, ...]) -> None:
    """First slot empty; empty slot in the middle; all slots empty | no event."""

    def quiet(number: int) -> dict[str, int] | None:
        """Answer later, or now."""
        return None if number in silent else {"n": number}

    calls = [named_call(f"c{n}", "quiet", number=n) for n in range(3)]
    events = await Chat(agent("root", calls, "done", tools=[LongRunningFunctionTool(quiet)])).say("go")
    answered = [response.id for event in events for response in event.get_function_responses()]
    assert answered == [f"c{n}" for n in range(3) if n not in silent]


async def test_three_slow_calls_run_at_once() -> None:
    """3 calls that wait for each other | 3 events (calls, merged responses, text); truly concurrent."""

    begun, all_begun = list[int](), asyncio.Event()

    async def slow(n: int) -> int:
        """Wait for the others."""
        begun.append(n)
        if len(begun) == 3:
            all_begun.set()
        await asyncio.wait_for(all_begun.wait(), 60)
        return n

    events = await Chat(agent("root", [call("slow", n=n) for n in range(3)], "done", tools=[slow])).say("go")
    assert len(events) == 3
    assert [r.response for r in events[1].get_function_responses()] == [{"result": n} for n in range(3)]


async def test_results_are_in_call_order_however_fast_they_are() -> None:
    async def slow(n: int) -> int:
        """Wait the longer the earlier the call."""
        await asyncio.sleep(0.05 * (3 - n))
        return n

    events = await Chat(agent("root", [call("slow", n=n) for n in range(3)], "done", tools=[slow])).say("go")
    assert [r.response for r in events[1].get_function_responses()] == [{"result": n} for n in range(3)]


async def test_two_streamed_turns_of_three_additions() -> None:
    """Per turn: 3 partial FCs, 1 aggregate with 3 FCs, 1 merged FR event with 3 parts in call order, final text.

    The model gives its ids again in the second turn, where they are taken.
    """
    calls = [named_call(f"m{n}", "add", a=n, b=1) for n in range(3)]
    calls[0].thought_signature = b"sig"
    partials = [LlmResponse(content=said(each), partial=True) for each in calls]
    turn = [[*partials, LlmResponse(content=said(*calls))], "sums told"]
    root = agent("root", *turn, *turn, tools=[add])
    chat = Chat(root, config=STREAMED)
    for message in ("go", "again"):
        events = await chat.say(message)
        assert [event.partial or False for event in events] == [True, True, True, False, False, False]
        ids = [each.id for each in events[3].get_function_calls()]
        assert [each.id for event in events[:3] for each in event.get_function_calls()] == ids
        assert (ids == ["m0", "m1", "m2"]) == (message == "go")
        merged = [(r.id, r.response) for r in events[4].get_function_responses()]
        assert merged == [(call_id, {"result": n + 1}) for n, call_id in enumerate(ids)]
        assert not any(event.partial and event.get_function_responses() for event in events)
        first = ((events[3].content and events[3].content.parts) or [text("")])[0]
        assert first.thought_signature == b"sig"
        assert events[5].text == "sums told"


async def test_an_unknown_tool_is_told_the_names_and_the_loop_goes_on() -> None:
    """Model calls unregistered name | FR error listing sorted names; loop continues."""
    root = agent("root", call("sum"), "sorry", tools=[add])
    events = await Chat(root).say("go")
    assert "`add`" in str(events[1].get_function_responses()[0].response)
    assert events[-1].text == "sorry"


async def test_on_tool_error_can_stand_in_for_an_unknown_tool() -> None:
    def stand_in(args: dict[str, Any], tool: BaseTool, **_: Any) -> dict[str, Any]:
        return {"instead": tool.name, "with": args}

    root = agent("root", call("sum", a=1), "ok", tools=[add], on_tool_error_callback=stand_in)
    events = await Chat(root).say("go")
    assert events[1].get_function_responses()[0].response == {"instead": "sum", "with": {"a": 1}}


async def test_one_of_two_that_raises_keeps_the_others_result() -> None:
    """One tool of two raises | other result kept, error result for the first."""

    def breaks() -> None:
        """Break."""
        raise ValueError("broke")

    chat = Chat(agent("root", [call("breaks"), call("add", a=1, b=2)], "ok", tools=[breaks, add]))
    events = await chat.say("go")
    answered = [r.response for r in events[1].get_function_responses()]
    assert answered == [{"error": "broke"}, {"result": 3}]
    assert open_calls(await chat.stored()) == set()


async def test_a_tool_that_takes_too_long_is_an_error_result() -> None:
    async def slow() -> None:
        """Wait long."""
        await asyncio.sleep(10)

    root = agent("root", call("slow"), "too slow", tools=[FunctionTool(slow, timeout=0.02)])
    events = await Chat(root).say("go")
    assert "0.02 seconds" in str(events[1].get_function_responses()[0].response)


async def test_a_tool_that_gives_up_by_itself_within_its_time_has_its_own_error() -> None:
    async def asks() -> None:
        """Ask another machine."""
        raise TimeoutError("no line")

    events = await Chat(agent("root", call("asks"), "ok", tools=[FunctionTool(asks, timeout=60)])).say("go")
    assert events[1].get_function_responses()[0].response == {"error": "no line"}


async def test_a_tool_is_tried_again_as_often_as_its_retries() -> None:
    tries: list[int] = []

    async def flaky() -> str:
        """Fail at first."""
        tries.append(1)
        if len(tries) < 3:
            raise ConnectionError("line busy")
        return "through"

    root = agent("root", call("flaky"), "ok", tools=[FunctionTool(flaky, retries=2)])
    assert "root: flaky -> {'result': 'through'}" in story(await Chat(root).say("go"))
    assert len(tries) == 3


async def test_the_model_sees_the_results_once() -> None:
    root = agent("root", [call("add", a=1, b=2), call("add", a=3, b=4)], "ok", tools=[add])
    await Chat(root).say("go")
    assert shown(requests_of(root)[1])[-2:] == ["user: add -> {'result': 3}", "user: add -> {'result': 7}"]


async def test_signatures_ids_and_the_finish_reason_survive_a_streamed_turn() -> None:
    """First FC part has a thought signature; finish STOP; a signature-only part behind the text; ids echoed."""
    calls = [named_call(f"m{n}", "add", a=n, b=1) for n in range(3)]
    calls[0].thought_signature = b"first"
    stop = types.FinishReason.STOP
    signed = types.Part(thought_signature=b"last")
    root = agent(
        "root",
        [LlmResponse(content=said(*calls), finish_reason=stop)],
        [
            LlmResponse(content=said("sums "), partial=True),
            LlmResponse(content=said("sums told", signed), finish_reason=stop),
        ],
        "once more",
        tools=[add],
    )
    chat = Chat(root, config=STREAMED)
    events = [event for event in await chat.say("go") if not event.partial]
    assert [event.finish_reason for event in events] == [stop, None, stop]
    assert not any(event.partial for event in events if event.get_function_responses())
    await chat.say("again")
    parts = [part for content in requests_of(root)[-1].contents for part in content.parts or []]
    assert [p.thought_signature for p in parts if p.function_call is not None] == [b"first", None, None]
    assert [p.function_call.id for p in parts if p.function_call is not None] == ["m0", "m1", "m2"]
    assert [p.function_response.id for p in parts if p.function_response is not None] == ["m0", "m1", "m2"]
    assert signed in parts
