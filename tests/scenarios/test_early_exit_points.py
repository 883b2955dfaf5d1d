"""Leaving a run wherever it waits: nothing is left behind, and its history can be continued (decision 22)."""

from __future__ import annotations

import asyncio
import gc
import itertools
import threading
from typing import Any

import pytest
from kit import STREAMED, WHERE, Chat, agent

from flowloom import BasePlugin, Event, InMemoryRunner, InMemorySessionService, RunConfig, Session
from flowloom.testing import call
from scenarios.leaving import CONFIGS, KINDS, NothingLeft, block, cancelled_at, goes_on, wait

each_config = pytest.mark.parametrize(
    "config", [name if name == "streamed" else pytest.param(name, marks=pytest.mark.soak) for name in CONFIGS]
)


class DistantStore(InMemorySessionService):
    """A store that is waited for: before it has written, and after."""

    async def append_event(self, session: Session, event: Event) -> Event:
        await asyncio.sleep(0)
        stored = await super().append_event(session, event)
        await asyncio.sleep(0)
        return stored


class FailingStore(InMemorySessionService):
    """A store that fails to write one event."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.count = 0

    async def append_event(self, session: Session, event: Event) -> Event:
        self.count += 1
        if self.count == self.number:
            raise OSError("disk full")
        return await super().append_event(session, event)


@each_config
@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_wherever_a_run_waits(kind: str, config: str) -> None:
    """Cancelling at every point, threads at work or not."""
    number, more = 0, True
    while more:
        number += 1
        chat = Chat(KINDS[kind](block), config=CONFIGS[config])
        with NothingLeft():
            more = await cancelled_at(number, chat.say("go"))
        await goes_on(chat)
    assert number > 4


@each_config
@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_wherever_something_within_a_run_waits(kind: str, config: str) -> None:
    """Cancelling at every turn of the event loop: within tools, branches, and agents that run as tools."""
    turns, more = 0, True
    while more:
        turns += 1
        chat = Chat(KINDS[kind](wait), config=CONFIGS[config])
        with NothingLeft():
            run = asyncio.create_task(chat.say("go"))
            for _ in range(turns):
                await asyncio.sleep(0)
            more = run.cancel()
            await asyncio.gather(run, return_exceptions=True)
        await goes_on(chat)
    assert turns > 5


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_while_an_event_is_stored(kind: str) -> None:
    """Whether an event was written or not when the store was cut off: each call is answered, once."""
    number, more = 0, True
    while more:
        number += 1
        chat = Chat(KINDS[kind](block))
        chat.runner.session_service = DistantStore()
        with NothingLeft():
            more = await cancelled_at(number, chat.say("go"))
        await goes_on(chat)
        answered = [answer.id for event in await chat.stored() for answer in event.get_function_responses()]
        assert len(answered) == len(set(answered))


@pytest.mark.parametrize("kind", KINDS)
async def test_a_store_that_fails_at_any_event(kind: str) -> None:
    """The error reaches the caller, and what was stored before is legal."""
    for number in itertools.count(1):
        chat = Chat(KINDS[kind](wait))
        chat.runner.session_service = store = FailingStore(number)
        with NothingLeft():
            (ended,) = await asyncio.gather(chat.say("go"), return_exceptions=True)
        if store.count < number:
            break
        if number > 1:
            assert isinstance(ended, OSError)
            await goes_on(chat)


@each_config
@pytest.mark.parametrize("kind", KINDS)
async def test_an_abort_signal_at_any_event(kind: str, config: str) -> None:
    """The run ends behind the event at which the signal was given."""
    for number in itertools.count(1):
        chat, signal, seen = Chat(KINDS[kind](block), config=CONFIGS[config]), asyncio.Event(), 0
        with NothingLeft():
            async for _ in chat.runner.run_async(
                **WHERE, new_message="go", run_config=chat.config, abort_signal=signal
            ):
                seen += 1
                if seen == number:
                    signal.set()
        await goes_on(chat)
        assert seen <= number
        if seen < number:
            break


@pytest.mark.parametrize("kind", KINDS)
async def test_a_stream_that_is_dropped_and_not_closed(kind: str) -> None:
    """Left to the garbage collector, a run is closed by the event loop, and its history is legal as well."""
    for number in (1, 3, 5):
        chat = Chat(KINDS[kind](block), config=STREAMED)
        stream = chat.runner.run_async(**WHERE, new_message="go", run_config=STREAMED)
        for _ in range(number):
            await anext(stream)
        del stream
        gc.collect()
        await asyncio.sleep(0)  # the loop is told to close it, and begins to
        await asyncio.sleep(0)
        while others := asyncio.all_tasks() - {asyncio.current_task()}:
            await asyncio.wait(others)
        await goes_on(chat)


@pytest.mark.parametrize("kind", KINDS)
def test_leaving_a_run_without_an_event_loop(kind: str) -> None:
    """`Runner.run` closes what it runs when its consumer leaves."""
    runner = InMemoryRunner(KINDS[kind](block), app_name="app")
    stream = runner.run(**WHERE, new_message="go", run_config=STREAMED)
    next(stream)
    next(stream)
    stream.close()
    assert [each.name for each in threading.enumerate() if each.name.startswith("flowloom:")] == []
    asyncio.run(goes_on(Chat(runner=runner)))


TOOL_HOOKS = ["before_tool_callback", "after_tool_callback", "on_tool_error_callback"]


@pytest.mark.parametrize(
    ("kind", "hook"),
    [*(("plugin", hook) for hook in TOOL_HOOKS), *(("agent", hook) for hook in [*TOOL_HOOKS, "around_tool"])],
)
async def test_a_tool_callback_that_raises_where_errors_end_the_run(kind: str, hook: str) -> None:
    """The error reaches the caller once all calls of the answer have ended, and each is answered."""
    ended: list[str] = []

    async def slow() -> None:
        """Take a while."""
        await asyncio.sleep(0.01)
        ended.append("slow")

    def broken() -> None:
        """Fail."""
        raise ValueError("tool failed")

    def fail(tool: Any, **_: Any) -> None:
        if tool.name == "broken":
            raise RuntimeError("callback failed")

    async def around(call_next: Any, tool: Any, **_: Any) -> Any:
        fail(tool)
        return await call_next()

    async def ask(self: Any, tool: Any, **_: Any) -> None:
        fail(tool)

    tools = [broken, slow]
    plugins: list[BasePlugin] = []
    fields: dict[str, Any] = {}
    if kind == "agent":
        fields[hook] = around if hook == "around_tool" else fail
    else:
        plugins = [type("Raising", (BasePlugin,), {hook: ask})("raising")]
    root = agent("root", [call("broken"), call("slow")], "again", tools=tools, **fields)
    chat = Chat(root, plugins=plugins, config=RunConfig(tool_errors="raise"))
    with NothingLeft(), pytest.raises(RuntimeError, match="callback failed"):
        await chat.say("go")
    assert ended == ["slow"]
    await goes_on(chat)
