"""Two runs on one session at once."""

from __future__ import annotations

import asyncio
import gc
from itertools import pairwise
from typing import Any

import pytest
from kit import Chat, agent, collect, open_calls, story

from flowloom import InMemoryRunner, LlmAgent
from flowloom.errors import SessionBusyError
from flowloom.testing import FunctionModel, call
from runner.situations import Gate, Gated, legal, nothing_left


def slow_runner(**options: Any) -> InMemoryRunner:
    """An agent that looks twice for each message, and lets others have their turn in between."""

    async def look() -> str:
        """Look."""
        for _ in range(3):
            await asyncio.sleep(0)
        return "seen"

    async def answer(request: Any) -> Any:
        await asyncio.sleep(0)
        last = request.contents[-1]
        since = 0
        for content in reversed(request.contents):
            if content.role == "user" and content.parts[0].text:
                break
            since += content.role == "model"
        return call("look") if since < 2 else f"answer to {len(request.contents)} {last.role}"

    root = LlmAgent(name="root", model=FunctionModel(answer), tools=[look])
    return InMemoryRunner(root, app_name="app", **options)


def start(runner: InMemoryRunner, message: str, session_id: str = "s1") -> Any:
    return runner.start(user_id="ann", session_id=session_id, new_message=message)


async def test_the_second_run_waits_for_the_first_and_they_do_not_mix() -> None:
    runner = slow_runner()
    chat = Chat(runner=runner)
    runs = [start(runner, f"message {n}") for n in range(4)]
    results = await asyncio.gather(*(run.result() for run in runs))
    assert [result.status for result in results] == ["final"] * 4
    events = await chat.stored()
    order = list(dict.fromkeys(event.invocation_id for event in events))
    assert [event.invocation_id for event in events] == sorted(
        (event.invocation_id for event in events), key=order.index
    )
    assert order == [result.invocation_id for result in results]  # first come, first served
    legal(events)


async def test_runs_on_other_sessions_do_not_wait() -> None:
    gate = Gate()
    runner = InMemoryRunner(LlmAgent(name="root", model=Gated("hi", gate=gate)))
    first, second = start(runner, "a", "s1"), start(runner, "b", "s2")
    await gate.reached.wait()
    gate.open.set()
    assert (await first.result()).status == (await second.result()).status == "final"


async def test_reject_refuses_before_anything_is_stored() -> None:
    gate = Gate()
    runner = InMemoryRunner(LlmAgent(name="root", model=Gated("hi", gate=gate)), app_name="app", concurrency="reject")
    chat = Chat(runner=runner)
    first = start(runner, "one")
    await gate.reached.wait()
    with pytest.raises(SessionBusyError) as caught:
        await chat.say("two")
    assert caught.value.session_id == "s1"
    second = await start(runner, "three").result()
    assert (second.status, type(second.error), second.events) == ("failed", SessionBusyError, [])
    gate.open.set()
    await first.result()
    assert story(await chat.stored()) == ["user: one", "root: hi"]
    assert story(await chat.say("four")) == ["root: hi"]


async def test_allow_lets_both_go_on_and_loses_nothing() -> None:
    runner = slow_runner(concurrency="allow")
    chat = Chat(runner=runner)
    runs = [start(runner, f"message {n}") for n in range(4)]
    results = await asyncio.gather(*(run.result() for run in runs))
    assert [result.status for result in results] == ["final"] * 4
    events = await chat.stored()
    assert {event.id for result in results for event in result.events} <= {event.id for event in events}
    assert len(events) == 4 + sum(len(result.events) for result in results)
    owners = [event.invocation_id for event in events]
    assert any(a != b for a, b in pairwise(owners[4:]))
    legal(events)


@pytest.mark.parametrize("how", ["closed", "dropped", "cancelled", "failed"])
async def test_a_run_that_is_given_up_lets_the_next_one_in(how: str) -> None:
    gate = Gate()
    model = Gated(RuntimeError("no") if how == "failed" else call("look"), "next")
    chat = Chat(LlmAgent(name="root", model=model, tools=[gate.look]))
    stream: Any = chat.runner.run_async(user_id="ann", session_id="s1", new_message="one")
    if how == "failed":
        with pytest.raises(RuntimeError):
            await collect(stream)
        model.answers[0] = "next"
    else:
        await anext(stream)
        if how == "closed":
            await stream.aclose()
        elif how == "cancelled":
            task = asyncio.create_task(anext(stream))
            await gate.reached.wait()
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        else:
            del stream
            gc.collect()
    gate.open.set()
    async with asyncio.timeout(5):
        events = await chat.say("two")
    assert story(events)[-1] == "root: next"
    stored = await chat.stored()
    legal(stored)
    assert open_calls(stored) == set()
    nothing_left()


async def test_a_stream_that_was_never_begun_holds_nothing() -> None:
    chat = Chat(agent("root", "hi"))
    stream = chat.runner.run_async(user_id="ann", session_id="s1", new_message="one")
    assert story(await chat.say("two")) == ["root: hi"]
    await stream.aclose()
    assert [event.text for event in await chat.stored()] == ["two", "hi"]


async def test_a_reader_that_stops_reading_keeps_the_session() -> None:
    chat = Chat(agent("root", "one", "two"))
    stream = chat.runner.run_async(user_id="ann", session_id="s1", new_message="a")
    await anext(stream)
    waiting = start(chat.runner, "b")
    for _ in range(5):
        await asyncio.sleep(0)
    assert not waiting.done
    await stream.aclose()
    assert (await waiting.result()).text == "two"


async def test_a_paused_run_does_not_keep_the_session() -> None:
    gate = Gate()
    chat = Chat(agent("root", call("look"), "one", "two", tools=[gate.look]))
    run = start(chat.runner, "a")
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    assert (await run.result()).status == "paused"
    async with asyncio.timeout(5):
        await chat.say("b")


async def test_while_somebody_decides_in_the_process_nobody_comes_between() -> None:
    from flowloom import FunctionTool

    gate = Gate()

    async def confirm(_: Any) -> bool:
        await gate()
        return True

    def pay() -> str:
        """Pay."""
        return "paid"

    root = agent("root", call("pay"), "paid", "second", tools=[FunctionTool(pay, require_confirmation=True)])
    runner = InMemoryRunner(root, app_name="app", confirm=confirm)
    first = start(runner, "a")
    await gate.reached.wait()
    second = start(runner, "b")
    for _ in range(5):
        await asyncio.sleep(0)
    assert not second.done
    gate.open.set()
    assert ((await first.result()).text, (await second.result()).text) == ("paid", "second")


async def test_cancelled_while_somebody_decides_the_session_is_free() -> None:
    from flowloom import FunctionTool

    gate = Gate()

    def pay() -> str:
        """Pay."""
        return "paid"

    root = agent("root", call("pay"), "next", tools=[FunctionTool(pay, require_confirmation=True)])
    runner = InMemoryRunner(root, app_name="app", confirm=lambda _: gate())
    run = start(runner, "a")
    await gate.reached.wait()
    run.cancel()
    result = await run.result()
    assert result.status == "cancelled"
    assert result.events[-1].custom_metadata == {"run_ended": "cancelled"}
    runner.confirm = None
    async with asyncio.timeout(5):
        assert story(await Chat(runner=runner).say("b")) == ["root: next"]
