"""Runs that are cancelled at once, at any point."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from kit import STREAMED, Chat, agent, collect, open_calls, story
from scenarios.leaving import FORWARDING, KINDS, NothingLeft, wait

from flowloom import (
    AgentTool,
    FunctionTool,
    InMemorySessionService,
    LlmAgent,
    RunConfig,
    Runner,
    SqliteSessionService,
)
from flowloom.plugins import BasePlugin
from flowloom.runner.pending import pending_calls
from flowloom.testing import call
from runner.situations import Gate, Gated, ended_events, held, legal, nothing_left


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
    assert turns >= 8


async def test_cancelled_anywhere_on_a_store_that_is_waited_for(tmp_path: Path) -> None:
    """Events that were being stored are there once, and those of the end as well."""
    for turns in range(0, 60, 2):
        service = SqliteSessionService(tmp_path / f"{turns}.db")
        runner: Any = Runner(
            app_name="app", agent=KINDS["parallel agents"](wait), session_service=service, auto_create_session=True
        )
        chat = Chat(runner=runner)
        run = held(chat)
        for _ in range(turns):
            await asyncio.sleep(0.0002)
        run.cancel()
        result = await run.result()
        assert result.status in ("cancelled", "final")
        session = await service.get_session(app_name="app", user_id="ann", session_id="s1")
        events = session.events if session is not None else []
        legal(events)
        assert open_calls(events) == set()
        stopped = ["cancelled"] if events and result.status == "cancelled" else []
        assert ended_events(events) == ended_events(result.events) == stopped
        assert (await chat.say("and now?"))[-1].is_final_response()
        await service.close()


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
    assert (result.status, result.text) == ("cancelled", "half" if midway else "")
    assert "1 model call" in (result.events[-1].error_message or "")
    assert ended_events(await chat.stored()) == ["cancelled"]
    gate.open.set()
    assert story(await chat.say("again"))[-1] == "root: hi"


async def test_cancelled_while_a_blocking_tool_works_it_ends_when_the_tool_does() -> None:
    begun, go_on = asyncio.Event(), threading.Event()
    loop = asyncio.get_running_loop()
    ended = []

    def block() -> str:
        """Block."""
        loop.call_soon_threadsafe(begun.set)
        ended.append(go_on.wait(60))
        return "done"

    chat = Chat(agent("root", call("block"), "next", tools=[block]))
    run = held(chat)
    await begun.wait()
    run.cancel()
    for _ in range(50):  # far more turns of the loop than a run takes to end
        await asyncio.sleep(0)
    assert not run.done
    go_on.set()
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

    async def once(_: Any, **__: Any) -> None:
        if not gate.reached.is_set():
            await gate()

    plugin = type("Waits", (BasePlugin,), {hook: once})("waits")

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


async def test_cancelled_beside_agents_that_run_as_tools_and_wait_what_they_ask_is_kept() -> None:
    def pay() -> str:
        """Pay."""
        return "paid"

    gate, names = Gate(), ("one", "two")
    paying = FunctionTool(pay, require_confirmation=True)
    clerks = [AgentTool(agent(name, call("pay"), tools=[paying])) for name in names]
    chat = Chat(agent("root", [call("look"), *(call(n, request="x") for n in names)], tools=[gate.look, *clerks]))
    run = held(chat)
    await gate.reached.wait()
    for _ in range(200):  # until both wait
        await asyncio.sleep(0)
    run.cancel()
    await run.result()
    assert sorted(each.agent for each in pending_calls(await chat.stored())) == ["one", "two"]


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
