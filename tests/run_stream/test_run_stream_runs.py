"""Typed streams of real runs, and of what they stored."""

from __future__ import annotations

from typing import Any

import kit
import pytest
from run_stream_kit import lines, mapped, thought

from flowloom import (
    AgentTool,
    Context,
    Event,
    FunctionTool,
    LlmAgent,
    LongRunningFunctionTool,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    StreamingMode,
)
from flowloom.run_stream import (
    AgentStarted,
    ConfirmationRequested,
    MessageCompleted,
    RunFinished,
    TextDelta,
    ToolCallFinished,
    ToolCallStarted,
    run_stream_of,
)
from flowloom.testing import call

FORWARDED = RunConfig(streaming_mode=StreamingMode.SSE, forward_agent_tool_events=True)


def agent(name: str, *answers: Any, **fields: Any) -> LlmAgent:
    """An agent whose model streams."""
    return LlmAgent(name=name, model=kit.model(*answers, stream_chunks=True), **fields)


def weather(city: str) -> dict[str, Any]:
    """The weather."""
    return {"city": city, "deg": 21}


def named(events: list[str], call_ids: dict[str, str]) -> list[str]:
    """The lines with ids that were minted replaced."""
    for call_id, name in call_ids.items():
        events = [each.replace(call_id, name) for each in events]
    return events


def story(events: list[Event], **options: Any) -> list[str]:
    """What a mapper says, without the beginning and the end of the run, calls named by their tools."""
    stream = mapped(events, **options)
    names = {e.call_id: e.name for e in stream if isinstance(e, ToolCallStarted)}
    return named(lines(stream), names)[1:-1]


async def test_a_streamed_run_with_a_tool() -> None:
    chat = kit.Chat(
        agent(
            "root",
            [thought("a tool?"), kit.text("I look."), call("weather", city="Rome")],
            "It is 21 degrees.",
            tools=[weather],
        ),
        config=kit.STREAMED,
    )
    assert story(await chat.say("How is Rome?")) == [
        "+root",
        "root~ (a tool?)",
        "root~ I look.",
        "call weather weather",
        "root: (a tool?)I look.",
        "weather {'city': 'Rome'}",
        "weather -> {'city': 'Rome', 'deg': 21}",
        "root~ It is 21",
        "root~  degrees",
        "root~ .",
        "root: It is 21 degrees.",
        "-root",
    ]


async def test_what_was_stored_says_the_same_after_the_users_message() -> None:
    chat = kit.Chat(agent("root", [call("weather", city="Rome")], "Fine.", tools=[weather]), config=kit.STREAMED)
    live = story(await chat.say("How is Rome?"))
    assert story(await chat.stored()) == ["user~ How is Rome?", "user: How is Rome?", *live]


async def test_two_turns_of_a_session_are_two_runs() -> None:
    chat = kit.Chat(agent("root", "One.", "Two."))
    await chat.say("1")
    await chat.say("2")
    stream = list(run_stream_of(await chat.stored()))
    assert [e.status for e in stream if isinstance(e, RunFinished)] == ["final", "final"]
    assert [e.text for e in stream if isinstance(e, MessageCompleted)] == ["1", "One.", "2", "Two."]


async def test_an_agent_that_hands_over_finishes_last() -> None:
    root = agent("root", kit.hand_to("helper"), sub_agents=[agent("helper", "Here I am.")])
    said = story(await kit.Chat(root, config=kit.STREAMED).say("Help!"))
    assert said == [
        "+root",
        "root => helper",
        "+helper",
        "helper~ Here I a",
        "helper~ m.",
        "helper: Here I am.",
        "-helper",
        "-root",
    ]


async def test_parallel_agents_have_turns_and_messages_of_their_own() -> None:
    team = ParallelAgent(name="team", sub_agents=[agent(name, f"I am agent {name}, at work.") for name in "abc"])
    root = SequentialAgent(name="root", sub_agents=[team, agent("last", "All done.")])
    stream = mapped(await kit.Chat(root, config=kit.STREAMED).say("Go"))
    complete = {e.message_id: e for e in stream if isinstance(e, MessageCompleted)}
    assert sorted((e.author, e.branch, e.text) for e in complete.values()) == [
        *((name, f"team.{name}", f"I am agent {name}, at work.") for name in "abc"),
        ("last", None, "All done."),
    ]
    for message_id, message in complete.items():
        deltas = [e.text for e in stream if isinstance(e, TextDelta) and e.message_id == message_id]
        assert len(deltas) > 1
        assert "".join(deltas) == message.text
    said = lines(stream)
    assert max(said.index(f"-{name}") for name in "abc") < said.index("+last")
    assert {e.branch for e in stream if isinstance(e, AgentStarted)} == {"team.a", "team.b", "team.c", None}


async def test_a_call_that_is_approved_finishes_after_the_pause() -> None:
    tool = FunctionTool(weather, require_confirmation=True)
    chat = kit.Chat(agent("root", [call("weather", city="Rome")], "It is 21.", tools=[tool]), config=kit.STREAMED)
    first = await chat.say("How is Rome?")
    stream = mapped(first)
    (request,) = [e for e in stream if isinstance(e, ConfirmationRequested)]
    (started,) = [e for e in stream if isinstance(e, ToolCallStarted)]
    assert (request.call_id, request.name, request.args) == (started.call_id, "weather", {"city": "Rome"})
    assert not [e for e in stream if isinstance(e, ToolCallFinished)]
    assert lines(stream)[-1] == "end paused"
    (asked,) = kit.pending(first)
    assert asked.id == request.request_id
    assert story(await chat.answer(kit.approve(asked)))[:3] == [
        "+root",
        "call weather weather",
        "weather -> {'city': 'Rome', 'deg': 21}",
    ]
    whole = list(run_stream_of(await chat.stored()))
    (finished,) = [e for e in whole if isinstance(e, ToolCallFinished)]
    assert (finished.call_id, finished.error) == (started.call_id, None)
    assert lines(whole)[-1] == "end final"


async def test_an_agent_that_runs_as_a_tool_is_shown_within_its_call() -> None:
    inner = agent("inner", [thought("hm"), call("weather", city="Rome")], "Sunny.", tools=[weather])
    root = agent("root", [call("inner", request="Rome?")], "It is sunny.", tools=[AgentTool(inner)])
    said = story(await kit.Chat(root, config=FORWARDED).say("How is Rome?"))
    assert said == [
        "+root",
        "call inner inner",
        "inner {'request': 'Rome?'}",
        "+inner",
        "inner~ (hm)",
        "call weather weather",
        "inner: (hm)",
        "weather {'city': 'Rome'}",
        "weather -> {'city': 'Rome', 'deg': 21}",
        "inner~ Sunny.",
        "inner: Sunny.",
        "-inner",
        "inner -> {'result': 'Sunny.'}",
        "root~ It is su",
        "root~ nny.",
        "root: It is sunny.",
        "-root",
    ]


@pytest.mark.parametrize("forwarded", [True, False])
async def test_an_agent_that_runs_as_a_tool_asks_for_approval_within_its_call(forwarded: bool) -> None:
    tool = FunctionTool(weather, require_confirmation=True)
    inner = agent("inner", [kit.text("I look."), call("weather", city="Rome")], "Sunny.", tools=[tool])
    root = agent("root", [call("inner", request="Rome?")], "It is sunny.", tools=[AgentTool(inner)])
    config = RunConfig(streaming_mode=StreamingMode.SSE, forward_agent_tool_events=forwarded)
    chat = kit.Chat(root, config=config)
    first = await chat.say("How is Rome?")
    said = story(first)
    assert said[3:8] == [
        "+inner",
        "inner~ I look.",
        "call weather weather",
        "inner: I look.",
        "weather {'city': 'Rome'}",
    ]
    assert [each.split(": ")[0].split()[0] for each in said[8:]] == ["confirm", "-inner", "-root"]
    (asked,) = kit.pending(first)
    await chat.answer(kit.approve(asked))
    stored = story(await chat.stored())
    assert [each for each in stored if "->" in each] == ["weather -> None", "inner -> {'result': 'Sunny.'}"]


async def test_an_agent_tool_that_does_not_stream_is_shown_too() -> None:
    inner = agent("inner", "It is sunny in Rome.")
    root = agent("root", [call("inner", request="Rome?")], "Sunny.", tools=[AgentTool(inner)])
    said = story(await kit.Chat(root, config=RunConfig(forward_agent_tool_events=True)).say("How is Rome?"))
    assert said[3:8] == [
        "+inner",
        "inner~ It is sunny in Rome.",
        "inner: It is sunny in Rome.",
        "-inner",
        "inner -> {'result': 'It is sunny in Rome.'}",
    ]


async def test_a_structured_answer_is_a_message_and_no_call() -> None:
    root = agent(
        "root",
        [call("weather", city="Rome")],
        [call("set_model_response", deg=21)],
        tools=[weather],
        output_schema={"type": "object", "properties": {"deg": {"type": "integer"}}, "required": ["deg"]},
    )
    said = story(await kit.Chat(root, config=kit.STREAMED).say("How is Rome?"))
    assert said[4:] == ['root~ {"deg": 21}', 'root: {"deg": 21}', "-root"]


async def test_a_long_running_tool_reports_and_finishes_by_the_users_answer() -> None:
    def book() -> dict[str, Any]:
        """Book it."""
        return {"status": "pending"}

    tool = LongRunningFunctionTool(book)
    chat = kit.Chat(agent("root", [call("book")], "Started.", "Booked.", tools=[tool]), config=kit.STREAMED)
    first = await chat.say("Book")
    assert "call book book long" in story(first)
    assert "book .. {'status': 'pending'}" in story(first)
    (waiting,) = kit.pending(first)
    await chat.answer(kit.result(waiting.id, "book", {"status": "done"}))
    stored = story(await chat.stored())
    assert stored.index("book .. {'status': 'pending'}") < stored.index("book -> {'status': 'done'}")


async def test_state_that_a_tool_writes_is_told_after_its_result() -> None:
    def note(tool_context: Context) -> str:
        """Take a note."""
        tool_context.state["noted"] = True
        return "ok"

    said = story(await kit.Chat(agent("root", [call("note")], "Done.", tools=[note])).say("Note it"))
    assert said[3:5] == ["note -> {'result': 'ok'}", "state {'noted': True} {}"]


async def test_a_model_that_fails_fails_the_run() -> None:
    chat = kit.Chat(agent("root", ValueError("down")))
    with pytest.raises(ValueError, match="down"):
        await chat.say("Hi")
    assert lines(mapped(await chat.stored()))[-2:] == ["failed ValueError: down", "end failed"]
