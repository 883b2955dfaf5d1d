"""A run as a thing one holds: read, cancelled, paused, waited for."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Any

import pytest
from kit import STREAMED, Chat, agent, collect, open_calls, story
from runs.situations import ByTurn, Gate, Gated, ended_events, go_on, held, legal, nothing_left
from scenarios.leaving import FORWARDING, KINDS, NothingLeft, wait

from flowloom import (
    AgentTool,
    ConfigurationError,
    InMemoryRunner,
    InMemorySessionService,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    Runner,
    SequentialAgent,
    SessionNotFoundError,
)
from flowloom.plugins import BasePlugin
from flowloom.testing import call

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
    async with asyncio.timeout(5):
        while len(asyncio.all_tasks()) > 1:
            await asyncio.sleep(0)
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
    with pytest.raises(KeyError):
        async with held(chat) as run:
            await gate.reached.wait()
            raise KeyError
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
    seen = []
    with pytest.raises(RuntimeError, match="no"):
        async for event in run:
            seen.append(event)
    result = await run.result()
    assert (result.status, str(result.error)) == ("failed", "no")
    assert seen == result.events
    assert ended_events(result.events) == ["failed"]
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


# -- cancelling at once ------------------------------------------------------------------------------------


async def cancelled_after(chat: Chat, turns: int, *, config: RunConfig | None = None) -> bool:
    """Cancel a run after so many turns of the loop, and see that it is well; False if it was over before."""
    with NothingLeft():
        run = held(chat, run_config=config)
        for _ in range(turns):
            await asyncio.sleep(0)
        over = run.done
        run.cancel()
        result = await run.result()
        read = await collect(run)
    assert read[-1:] == result.events[-1:]
    assert (result.status == "cancelled") is not over
    result.raise_for_status()
    session = await chat.runner.session_service.get_session(app_name="app", user_id="ann", session_id="s1")
    events = session.events if session is not None else []
    legal(events)
    assert open_calls(events) == set()
    assert ended_events(events) == (["cancelled"] if events and not over else [])
    if ended_events(events):
        assert ended_events(result.events) == ["cancelled"]
        assert result.events[-1].id == events[-1].id
    assert (await chat.say("and now?"))[-1].is_final_response()
    return not over


@pytest.mark.parametrize("config", [None, FORWARDING], ids=["plain", "forwarding"])
@pytest.mark.parametrize("kind", KINDS)
async def test_cancelled_anywhere_it_leaves_a_legal_history_and_nothing_else(kind: str, config: Any) -> None:
    turns = 0
    while await cancelled_after(Chat(KINDS[kind](wait)), turns, config=config):
        turns += 1 if turns < 25 else 3
    assert turns > 10


async def stopped_at(gate: Gate, chat: Chat, **options: Any) -> Any:
    """The result of a run that is cancelled when it waits at the gate."""
    run = held(chat, **options)
    await gate.reached.wait()
    run.cancel()
    return await run.result()


@pytest.mark.parametrize("midway", [False, True])
async def test_cancelled_while_the_model_is_waited_for(midway: bool) -> None:
    gate = Gate()
    chat = Chat(LlmAgent(name="root", model=Gated("hi", gate=gate, midway=midway)))
    result = await stopped_at(gate, chat, run_config=STREAMED)
    assert (result.status, result.text) == ("cancelled", "")
    assert "1 model call" in (result.events[-1].error_message or "")
    assert ended_events(await chat.stored()) == ["cancelled"]
    gate.open.set()
    assert story(await chat.say("again"))[-1] == "root: hi"


async def test_cancelled_while_a_blocking_tool_works_it_ends_when_the_tool_does() -> None:
    begun = asyncio.Event()
    loop = asyncio.get_running_loop()
    ended = []

    def block() -> str:
        """Block."""
        loop.call_soon_threadsafe(begun.set)
        time.sleep(0.01)
        ended.append(True)
        return "done"

    chat = Chat(agent("root", call("block"), "next", tools=[block]))
    run = held(chat)
    await begun.wait()
    run.cancel()
    assert (await run.result()).status == "cancelled"
    assert ended == [True]
    nothing_left()
    legal(await chat.stored())
    assert story(await chat.say("again")) == ["root: next"]


@pytest.mark.parametrize(
    "hook",
    [
        "on_user_message_callback",
        "before_run_callback",
        "before_agent_callback",
        "before_model_callback",
        "after_model_callback",
        "before_tool_callback",
        "after_tool_callback",
        "on_event_callback",
        "after_agent_callback",
        "after_run_callback",
        "on_model_error_callback",
        "on_tool_error_callback",
    ],
)
async def test_cancelled_within_a_callback(hook: str) -> None:
    gate = Gate()
    plugin = type("Waits", (BasePlugin,), {hook: lambda self, **_: gate()})("waits")

    def fails() -> None:
        """Fail."""
        raise ValueError("no")

    fault = ValueError("no") if hook == "on_model_error_callback" else call("fails")
    chat = Chat(agent("root", fault, "hi", "hi again", tools=[fails]), plugins=[plugin])
    result = await stopped_at(gate, chat)
    assert result.status == "cancelled"
    events = await chat.stored()
    legal(events)
    assert ended_events(events) == ended_events(result.events) == (["cancelled"] if events else [])
    gate.open.set()
    nothing_left()
    if hook != "on_model_error_callback":
        assert (await chat.say("again"))[-1].is_final_response()


@pytest.mark.parametrize("hook", ["on_agent_error_callback", "on_run_error_callback"])
async def test_cancelled_while_it_is_told_of_an_error_it_has_failed(hook: str) -> None:
    gate = Gate()
    plugin = type("Waits", (BasePlugin,), {hook: lambda self, **_: gate()})("waits")
    chat = Chat(agent("root", RuntimeError("no"), "hi"), plugins=[plugin])
    result = await stopped_at(gate, chat)
    assert (result.status, str(result.error)) == ("failed", "no")
    assert ended_events(await chat.stored()) == ["failed"]
    nothing_left()


async def test_cancelled_before_it_has_begun_nothing_is_stored() -> None:
    chat = Chat(agent("root", "hi"))
    run = held(chat)
    run.cancel()
    result = await run.result()
    assert (result.status, result.error, result.events) == ("cancelled", None, [])
    assert [event async for event in run] == []
    assert story(await chat.say("go")) == ["root: hi"]
    assert len(await chat.stored()) == 2


async def test_cancelled_while_it_waits_for_the_session_nothing_is_stored_and_the_line_goes_on() -> None:
    gate = Gate()
    chat = Chat(LlmAgent(name="root", model=Gated("hi", gate=gate)))
    first = held(chat, "one")
    await gate.reached.wait()
    second, third = held(chat, "two"), held(chat, "three")
    await asyncio.sleep(0)
    second.cancel()
    assert (await second.result()).status == "cancelled"
    gate.open.set()
    assert (await first.result()).status == (await third.result()).status == "final"
    assert [event.text for event in await chat.stored() if event.author == "user"] == ["one", "three"]


@pytest.mark.parametrize("again", ["now", "after_step", "pause"])
async def test_what_it_is_told_while_it_is_being_cancelled_changes_nothing(again: Any) -> None:
    """A second cancel does not cut off what makes the history legal."""
    gate = Gate()

    class Slow(InMemorySessionService):
        async def append_event(self, session: Any, event: Any) -> Any:
            await asyncio.sleep(0)
            return await super().append_event(session, event)

    runner = Runner(
        app_name="app",
        agent=agent("root", [call("look"), call("look")], "next", tools=[gate.look]),
        session_service=Slow(),
        auto_create_session=True,
    )
    chat = Chat(runner=runner)  # type: ignore[arg-type]
    run = held(chat)
    await gate.reached.wait()
    run.cancel()
    while not run.done:
        await asyncio.sleep(0)
        run.pause() if again == "pause" else run.cancel(again)
    assert (await run.result()).status == "cancelled"
    events = await chat.stored()
    legal(events)
    assert open_calls(events) == set()
    assert ended_events(events) == ["cancelled"]


async def test_a_run_that_is_over_stays_as_it_is() -> None:
    run = held(Chat(agent("root", "hi")))
    await run.result()
    run.cancel()
    run.pause()
    assert (await run.result()).status == "final"


async def test_cancelling_a_run_that_is_paused_or_stopping_already_counts() -> None:
    for first in ("pause", "after_step"):
        gate = Gate()
        chat = Chat(agent("root", call("look"), "never", tools=[gate.look]))
        run = held(chat)
        await gate.reached.wait()
        run.pause() if first == "pause" else run.cancel("after_step")
        run.cancel()
        assert (await run.result()).status == "cancelled"
        assert ended_events(await chat.stored()) == ["cancelled"]


async def test_the_task_around_a_run_may_be_cancelled_too() -> None:
    """A cancellation from outside is no wish of the handle's, but the history is legal all the same."""
    gate = Gate()
    chat = Chat(agent("root", call("look"), "next", tools=[gate.look]))

    async def work() -> None:
        async for _ in chat.runner.run_async(user_id="ann", session_id="s1", new_message="go"):
            pass

    task = asyncio.create_task(work())
    await gate.reached.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    legal(await chat.stored())
    nothing_left()


# -- after the step --------------------------------------------------------------------------------------


def searcher(name: str, gate: Gate | None = None, **fields: Any) -> LlmAgent:
    """An agent that looks twice and then answers; the first look is at the gate."""
    seen = []

    async def look(tool_context: Any) -> dict[str, bool]:
        """Look."""
        seen.append(name)
        if gate is not None and len(seen) == 1:
            await gate()
        tool_context.state[f"{name}:looked"] = tool_context.state.get(f"{name}:looked", 0) + 1
        return {"seen": True}

    model = ByTurn([call("look"), call("look")], call("look"), f"{name} is done")
    return LlmAgent(name=name, model=model, tools=[look], output_key=f"{name}:said", **fields)


def loop_of(gate: Gate) -> LoopAgent:
    return LoopAgent(name="loop", max_iterations=2, sub_agents=[searcher("a", gate), searcher("b")])


def transfer_to(gate: Gate) -> LlmAgent:
    helper = searcher("helper", gate)
    return LlmAgent(
        name="root", model=ByTurn(call("transfer_to_agent", agent_name="helper"), "x"), sub_agents=[helper]
    )


SHAPES: dict[str, Callable[[Gate], Any]] = {
    "one agent": lambda gate: searcher("a", gate),
    "a sequence": lambda gate: SequentialAgent(name="row", sub_agents=[searcher("a", gate), searcher("b")]),
    "parallel branches": lambda gate: ParallelAgent(name="side", sub_agents=[searcher("a", gate), searcher("b")]),
    "a loop": loop_of,
    "a transfer": transfer_to,
    "a sequence in a branch": lambda gate: ParallelAgent(
        name="side",
        sub_agents=[
            SequentialAgent(name="row", sub_agents=[searcher("a", gate), searcher("b")]),
            searcher("c"),
        ],
    ),
    "branches in a sequence": lambda gate: SequentialAgent(
        name="row",
        sub_agents=[
            ParallelAgent(name="side", sub_agents=[searcher("a", gate), searcher("b")]),
            searcher("c"),
        ],
    ),
}


@pytest.mark.parametrize("shape", SHAPES)
async def test_cancelled_after_the_step_the_tools_finish_and_no_model_is_asked(shape: str) -> None:
    gate = Gate()
    chat = Chat(SHAPES[shape](gate))
    run = held(chat)
    await gate.reached.wait()
    before = len([e for e in await chat.stored() if e.get_function_calls() or e.text])
    run.cancel("after_step")
    gate.open.set()
    result = await run.result()
    assert (result.status, result.error) == ("cancelled", None)
    events = await chat.stored()
    legal(events)
    errors = [a for e in events for a in e.get_function_responses() if a.response and "error" in a.response]
    assert errors == []
    assert len([e for e in events if e.get_function_calls() or e.text]) == before
    assert ended_events(events) == ended_events(result.events) == ["cancelled"]
    assert result.events[-1].id == events[-1].id
    nothing_left()


async def undisturbed(shape: str) -> Chat:
    gate = Gate()
    gate.open.set()
    chat = Chat(SHAPES[shape](gate))
    await chat.say("go")
    return chat


def by_branch(events: Any) -> dict[str, list[str]]:
    """The story of each branch."""
    branches: dict[str, list[str]] = {}
    for event in events:
        branches.setdefault(event.branch or "", []).extend(story([event]))
    return branches


@pytest.mark.parametrize("shape", SHAPES)
async def test_a_paused_run_goes_on_to_the_same_end(shape: str) -> None:
    """Paused while the first tool works, and whenever it has gone on for a while."""
    whole = await undisturbed(shape)
    gate = Gate()
    chat = Chat(SHAPES[shape](gate))
    run = held(chat)
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    paused = await run.result()
    assert (paused.status, paused.error, paused.pending) == ("paused", None, [])
    legal(await chat.stored())
    assert ended_events(await chat.stored()) == []
    await go_on(chat, run.invocation_id)
    assert by_branch(await chat.stored()) == by_branch(await whole.stored())
    assert await chat.state() == await whole.state()


@pytest.mark.parametrize("shape", SHAPES)
async def test_paused_at_any_time_again_and_again_it_comes_to_the_same_end(shape: str) -> None:
    whole = await undisturbed(shape)
    for turns in (0, 1, 2, 3, 5, 8, 13, 21, 34, 55):
        gate = Gate()
        gate.open.set()
        chat = Chat(SHAPES[shape](gate))
        run = held(chat)
        legs = 0
        while True:
            for _ in range(turns):
                await asyncio.sleep(0)
            run.pause()
            result = await run.result()
            legal(await chat.stored())
            if result.status == "final":
                break
            assert result.status == "paused"
            legs += 1
            if legs > 30 or turns < 5:  # so early nothing may ever happen
                await go_on(chat, run.invocation_id)
                break
            run = chat.runner.start(user_id="ann", session_id="s1", invocation_id=run.invocation_id)
        assert by_branch(await chat.stored()) == by_branch(await whole.stored()), turns
        assert await chat.state() == await whole.state()


@pytest.mark.parametrize("shape", ["a sequence", "a loop", "branches in a sequence"])
@pytest.mark.parametrize("how", ["pause", "cancel"])
async def test_stopped_during_the_last_answer_of_a_member_those_after_it_do_not_run(shape: str, how: str) -> None:
    """The member that speaks finishes; the workflow is not over for that."""
    gate = Gate()
    first = LlmAgent(name="a", model=Gated("a", gate=gate), output_key="a")
    last = agent("b", "b", output_key="b")
    root: Any = {
        "a sequence": SequentialAgent(name="row", sub_agents=[first, last]),
        "a loop": LoopAgent(name="loop", max_iterations=1, sub_agents=[first, last]),
        "branches in a sequence": SequentialAgent(
            name="row", sub_agents=[ParallelAgent(name="side", sub_agents=[first]), last]
        ),
    }[shape]
    chat = Chat(root)
    run = held(chat)
    await gate.reached.wait()
    run.pause() if how == "pause" else run.cancel("after_step")
    gate.open.set()
    result = await run.result()
    assert result.status == ("paused" if how == "pause" else "cancelled")
    assert await chat.state() == {"a": "a"}
    await go_on(chat, run.invocation_id)
    assert await chat.state() == {"a": "a", "b": "b"}


async def test_paused_during_its_last_answer_a_run_is_over() -> None:
    gate = Gate()
    run = held(Chat(LlmAgent(name="root", model=Gated("hi", gate=gate))))
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    assert (await run.result()).status == "final"


async def test_paused_before_it_has_begun_the_message_is_kept_for_later() -> None:
    chat = Chat(agent("root", "hi"))
    run = held(chat)
    run.pause()
    assert (await run.result()).status == "paused"
    assert story(await go_on(chat, run.invocation_id)) == ["root: hi"]
    assert story(await chat.stored()) == ["user: go", "root: hi"]


async def test_an_agent_that_runs_as_a_tool_finishes_before_a_pause() -> None:
    gate = Gate()
    chat = Chat(
        LlmAgent(name="root", model=ByTurn(call("a", request="x"), "done"), tools=[AgentTool(searcher("a", gate))])
    )
    run = held(chat)
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    assert (await run.result()).status == "paused"
    assert story(await chat.stored())[-1] == "root: a -> {'result': 'a is done'}"
    assert story(await go_on(chat, run.invocation_id)) == ["root: done"]


async def test_after_a_pause_another_message_may_come_instead() -> None:
    gate = Gate()
    chat = Chat(agent("root", call("look"), "something else", tools=[gate.look]))
    run = held(chat)
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    await run.result()
    assert story(await chat.say("never mind"))[-1] == "root: something else"
    legal(await chat.stored())


@pytest.mark.parametrize("mode", ["single_turn", "task"])
async def test_paused_within_a_delegated_agent_it_goes_on_there(mode: Any) -> None:
    gate = Gate()
    clerk = searcher("clerk", gate, mode=mode)
    if mode == "task":
        clerk.model = ByTurn([call("look"), call("look")], call("finish_task", result="clerk is done"))
    root = LlmAgent(name="root", model=ByTurn(call("clerk", request="x"), "done"), sub_agents=[clerk])
    chat = Chat(root)
    run = held(chat)
    await gate.reached.wait()
    run.pause()
    gate.open.set()
    assert (await run.result()).status == "paused"
    assert story(await go_on(chat, run.invocation_id))[-1] == "root: done"
    legal(await chat.stored())


@pytest.mark.parametrize("shape", ["a sequence", "parallel branches", "a transfer"])
async def test_cancelled_at_once_it_can_be_gone_on_with(shape: str) -> None:
    """What was cut off has an error result, and the agents take it from there."""
    gate = Gate()
    chat = Chat(SHAPES[shape](gate))
    run = held(chat)
    await gate.reached.wait()
    run.cancel()
    await run.result()
    gate.open.set()
    events = await go_on(chat, run.invocation_id)
    legal(await chat.stored())
    assert events[-1].is_final_response()
