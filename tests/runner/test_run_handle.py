"""A run as a thing one holds: read, cancelled, paused, waited for."""

from __future__ import annotations

import asyncio
import gc

import pytest
from kit import Chat, agent, story
from scenarios.leaving import wait

from flowloom import (
    ConfigurationError,
    InMemoryRunner,
    InMemorySessionService,
    LlmAgent,
    Runner,
    SessionNotFoundError,
)
from flowloom.testing import call
from runner.situations import Gate, Gated, ended_events, held, nothing_left

# -- reading and waiting -----------------------------------------------------------------------------


async def test_it_gives_the_events_of_the_run_and_then_its_result() -> None:
    run = held(Chat(agent("root", "hi")))
    assert story([event async for event in run]) == ["root: hi"]
    result = await run.result()
    assert (result.status, result.text, run.done) == ("final", "hi", True)
    assert run.invocation_id == result.invocation_id == result.events[0].invocation_id


async def test_it_goes_on_without_being_read() -> None:
    result = await held(Chat(agent("root", "hi"))).result()
    assert story(result.events) == ["root: hi"]
    nothing_left()


async def test_it_goes_on_without_being_held() -> None:
    chat = Chat(agent("root", "hi"))
    held(chat)
    gc.collect()
    (task,) = asyncio.all_tasks() - {asyncio.current_task()}
    await task
    assert story(await chat.stored()) == ["user: go", "root: hi"]


async def test_its_events_can_be_read_when_it_is_over_and_only_once() -> None:
    run = held(Chat(agent("root", "hi")))
    await run.result()
    assert story([event async for event in run]) == ["root: hi"]
    assert [event async for event in run] == []


async def test_several_may_wait_for_the_result() -> None:
    run = held(Chat(agent("root", "hi")))
    first, second = await asyncio.gather(run.result(), run.result())
    assert first.text == second.text == "hi"


async def test_cancelling_who_waits_does_not_cancel_the_run() -> None:
    gate = Gate()
    run = held(Chat(LlmAgent(name="root", model=Gated("hi", gate=gate))))
    waiter = asyncio.create_task(run.result())
    reader = asyncio.create_task(anext(run))
    await gate.reached.wait()
    waiter.cancel()
    reader.cancel()
    await asyncio.gather(waiter, reader, return_exceptions=True)
    assert not run.done
    gate.open.set()
    assert (await run.result()).text == "hi"


async def test_a_block_that_is_left_early_cancels_the_run() -> None:
    gate = Gate()
    chat = Chat(LlmAgent(name="root", model=Gated("hi", gate=gate)))
    async with held(chat) as run:
        await gate.reached.wait()
    assert (await run.result()).status == "cancelled"
    nothing_left()


async def test_a_block_that_is_left_afterwards_leaves_it_as_it_is() -> None:
    async with held(Chat(agent("root", "hi"))) as run:
        await run.result()
    assert (await run.result()).status == "final"


async def test_a_run_needs_an_event_loop_to_be_started_in() -> None:
    runner = InMemoryRunner(agent("root", "hi"))
    with pytest.raises(ConfigurationError, match="run_to_result_sync"):
        await asyncio.to_thread(lambda: runner.start(user_id="u", session_id="s", new_message="go"))


# -- failing ---------------------------------------------------------------------------------------------


async def test_reading_a_run_that_fails_raises_its_error_and_the_result_tells_it() -> None:
    run = held(Chat(agent("root", call("wait"), RuntimeError("no"), tools=[wait])))
    result = await run.result()
    assert (result.status, str(result.error)) == ("failed", "no")
    assert ended_events(result.events) == ["failed"]
    assert [await anext(run) for _ in result.events] == result.events
    for _ in range(2):
        with pytest.raises(RuntimeError, match="no"):
            await anext(run)
    with pytest.raises(RuntimeError, match="no"):
        result.raise_for_status()


async def test_an_error_before_the_first_event_is_told_as_well() -> None:
    runner = Runner(app_name="app", agent=agent("root"), session_service=InMemorySessionService())
    run = runner.start(user_id="u", session_id="none", new_message="go")
    result = await run.result()
    assert result.status == "failed"
    assert isinstance(result.error, SessionNotFoundError)
    with pytest.raises(SessionNotFoundError):
        await anext(run)


async def test_run_to_result_raises_what_ends_the_run() -> None:
    with pytest.raises(RuntimeError, match="no"):
        await Chat(agent("root", RuntimeError("no"))).runner.run_to_result(
            user_id="ann", session_id="s1", new_message="go"
        )
