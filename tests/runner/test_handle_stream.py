"""The typed events of a run that one holds."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterable
from typing import Any

import pytest
from kit import Chat, agent, hand_to

from flowloom import (
    FunctionTool,
    InMemorySessionService,
    Limits,
    LlmAgent,
    ParallelAgent,
    RunConfig,
    RunHandle,
    Runner,
    SequentialAgent,
    StreamingMode,
)
from flowloom.run_stream import MessageCompleted, RunFinished, RunStarted, RunStreamEvent, TextDelta
from flowloom.testing import ScriptedModel, call, frozen
from runner.situations import Gate, Gated, held, nothing_left


def look() -> str:
    """Look."""
    return "seen"


def speaking(*said: Any, **fields: Any) -> LlmAgent:
    """An agent whose model streams in pieces."""
    return LlmAgent(name="root", model=ScriptedModel(said, stream_chunks=True, chunk_size=2), tools=[look], **fields)


async def read(stream: AsyncIterable[RunStreamEvent]) -> list[RunStreamEvent]:
    return [event async for event in stream]


def end(events: list[RunStreamEvent]) -> tuple[str, str | None]:
    last = events[-1]
    assert isinstance(last, RunFinished)
    return last.status, last.error_code


def deltas(events: list[RunStreamEvent]) -> list[str]:
    return [event.text for event in events if isinstance(event, TextDelta)]


def situations() -> dict[str, tuple[Any, dict[str, Any]]]:
    """Runs that end in all ways."""
    return {
        "answer": (lambda: speaking("a long answer"), {}),
        "tools": (lambda: speaking(call("look"), "done"), {}),
        "unstreamed": (lambda: speaking("a long answer"), {"run_config": RunConfig()}),
        "transfer": (lambda: agent("root", hand_to("helper"), sub_agents=[agent("helper", "helped")]), {}),
        "row": (lambda: SequentialAgent(name="row", sub_agents=[agent("a", "a"), agent("b", "b")]), {}),
        "side": (lambda: ParallelAgent(name="side", sub_agents=[agent("a", "a"), agent("b", "b")]), {}),
        "failure": (lambda: speaking(call("look"), RuntimeError("no")), {}),
        "waits": (lambda: agent("root", call("look"), tools=[FunctionTool(look, require_confirmation=True)]), {}),
        "limit": (
            lambda: speaking(call("look"), "x"),
            {"run_config": RunConfig(limits=Limits(model_calls=1), streaming_mode=StreamingMode.SSE)},
        ),
        "no run": (lambda: agent("root", "x"), {"invocation_id": "e-none", "new_message": None}),
    }


@pytest.mark.parametrize("name", situations())
async def test_it_gives_what_run_stream_gives(name: str) -> None:
    """However the run ends: the same events, streamed by the same rule."""
    make, options = situations()[name]
    options = {"new_message": "go", "user_id": "u", "session_id": "s"} | options
    with frozen():
        expected = await read(Chat(make()).runner.run_stream(**options))
    with frozen():
        run = Chat(make()).runner.start(**options)
        events = await read(run.stream())
    assert [event.to_dict() for event in events] == [event.to_dict() for event in expected]
    assert end(events)[0] == (await run.result()).status
    nothing_left()


@pytest.mark.parametrize("mode", ["now", "after_step"])
async def test_cancelling_gives_the_closing_events(mode: Any) -> None:
    """What is open is finished, at once or by the step, and the last event says `cancelled`."""
    gate = Gate()
    run = held(Chat(LlmAgent(name="root", model=Gated(call("look"), "x", gate=gate, midway=True), tools=[look])))
    seen: list[RunStreamEvent] = []
    async for event in run.stream():
        seen.append(event)
        if isinstance(event, TextDelta):
            run.cancel(mode)
            gate.open.set()
    assert end(seen) == ("cancelled", "RunCancelledError")
    assert [event.interrupted for event in seen if isinstance(event, MessageCompleted)] == [mode == "now"]
    assert (await run.result()).status == "cancelled"
    nothing_left()


async def test_a_reader_sees_each_event_before_the_run_goes_on() -> None:
    """A run that never waits for anything is cancelled, or paused, by the first event that a reader sees."""
    chat = Chat(speaking(call("look"), "a long answer", "again"))
    run = held(chat)
    async for event in run.stream():
        if isinstance(event, TextDelta):
            run.cancel()
    result = await run.result()
    assert (result.status, [event.error_code for event in result.events][-1]) == ("cancelled", "RunCancelledError")
    assert end(await read(run.stream()))[0] == "cancelled"
    run = held(chat)
    async for _ in run:
        run.pause()
    assert (await run.result()).status == "final"
    nothing_left()


async def test_cancelling_at_the_last_event_changes_nothing() -> None:
    """The answer was given: the run is over."""
    run = held(Chat(speaking("answer")))
    async for event in run:
        if not event.partial:
            run.cancel()
    assert ((await run.result()).status, (await run.result()).text) == ("final", "answer")
    assert end(await read(run.stream())) == ("final", None)


async def test_cancelled_before_it_begins_it_has_a_beginning_and_an_end() -> None:
    """A reader gets a run that ended, whatever happened."""
    run = held(Chat(speaking("x")))
    run.cancel()
    events = await read(run.stream())
    assert [type(event) for event in events] == [RunStarted, RunFinished]
    assert end(events)[0] == "cancelled"


async def test_pausing_ends_the_stream_as_paused() -> None:
    """The run goes on by its id, as a stream of its own."""
    chat = Chat(speaking(call("look"), "done"))
    run = held(chat)
    run.pause()
    assert end(await read(run.stream())) == ("paused", None)
    again = chat.runner.start(user_id="ann", session_id=chat.session_id, invocation_id=run.invocation_id)
    events = await read(again.stream())
    assert (end(events), "".join(deltas(events))) == (("final", None), "done")


async def test_leaving_the_stream_does_not_end_the_run() -> None:
    """Closed early, or its reader cancelled: the run goes on, and another reader gets all of it."""
    gate = Gate()
    run = held(Chat(LlmAgent(name="root", model=Gated("hi", gate=gate, midway=True))))
    stream = run.stream()
    assert isinstance(await anext(stream), RunStarted)
    await stream.aclose()
    reader = asyncio.create_task(read(run.stream()))
    await asyncio.sleep(0)
    reader.cancel()
    await asyncio.gather(reader, return_exceptions=True)
    assert not run.done
    gate.open.set()
    assert end(await read(run.stream())) == ("final", None)
    nothing_left()


async def test_several_readers_get_everything() -> None:
    """At once, and after the run; the plain events can be read beside them."""
    run = held(Chat(speaking("a long answer")))

    async def plain(run: RunHandle) -> list[str]:
        return [event.text async for event in run if not event.partial]

    first, second, texts = await asyncio.gather(read(run.stream()), read(run.stream()), plain(run))
    third = await read(run.stream())
    assert first == second == third
    assert ("".join(deltas(first)), texts) == ("a long answer", ["a long answer"])


async def test_a_stream_that_is_asked_for_later_streams_from_the_next_model_call() -> None:
    """What was answered before comes whole."""
    gate = Gate()
    model = ScriptedModel([[call("wait")], "in pieces"], stream_chunks=True, chunk_size=3)

    async def wait() -> str:
        """Wait."""
        await gate()
        return "waited"

    run = held(Chat(LlmAgent(name="root", model=model, tools=[wait])))
    await gate.reached.wait()
    stream = run.stream()
    gate.open.set()
    assert deltas(await read(stream)) == ["in ", "pie", "ces"]


async def test_an_error_before_the_first_event_is_told() -> None:
    """It is the last event and not raised; the iterator of the handle raises it."""
    runner = Runner(app_name="app", agent=agent("root"), session_service=InMemorySessionService())
    run = runner.start(user_id="u", session_id="none", new_message="go")
    assert end(await read(run.stream())) == ("failed", "SessionNotFoundError")
