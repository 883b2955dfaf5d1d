"""However a run ends, nothing is left behind, and its history can be continued (decision 22, decision 31)."""

from __future__ import annotations

import asyncio
import gc
import sys
import threading
import time
import weakref
from collections.abc import AsyncGenerator, Callable, Iterator
from typing import Any

import pytest
from kit import STREAMED, Chat, agent, hand_to, named_call, open_calls, said, text

from flowloom import (
    AgentTool,
    BasePlugin,
    Flow,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    ParallelAgent,
    RunConfig,
    SequentialAgent,
    ToolContext,
)
from flowloom.testing import FunctionModel, ScriptedModel, call


async def wait(seconds: float = 0.01) -> str:
    """Wait without blocking."""
    await asyncio.sleep(seconds)
    return "waited"


def block() -> str:
    """Wait and block."""
    time.sleep(0.02)
    return "blocked"


def write(tool_context: ToolContext) -> str:
    """Write state."""
    tool_context.state["written"] = True
    return "written"


TOOLS = [wait, block, write]


def worker(name: str = "root", **fields: Any) -> LlmAgent:
    calls = [text("let me see", thought=True), call("wait"), call("block"), call("write")]
    model = ScriptedModel([calls, call("block"), "the answer", *["again"] * 30], stream_chunks=True)
    return LlmAgent(name=name, model=model, tools=TOOLS, **fields)


def transferring() -> LlmAgent:
    model = ScriptedModel([hand_to("helper"), *["again"] * 30], stream_chunks=True)
    return LlmAgent(name="root", model=model, sub_agents=[worker("helper", disallow_transfer_to_parent=True)])


def with_agent_tool() -> LlmAgent:
    child = worker("child")
    model = ScriptedModel([call("child", request="x"), *["again"] * 30], stream_chunks=True)
    return LlmAgent(name="root", model=model, tools=[AgentTool(child)])


KINDS: dict[str, Callable[[], Any]] = {
    "one agent": worker,
    "a transfer": transferring,
    "an agent tool": with_agent_tool,
    "parallel agents": lambda: ParallelAgent(name="root", sub_agents=[worker("a"), worker("b")]),
    "a sequence": lambda: SequentialAgent(name="root", sub_agents=[worker("a"), worker("b")]),
}
CONFIGS = {
    "plain": None,
    "streamed": STREAMED,
    "forwarding": RunConfig(forward_agent_tool_events=True, streaming_mode=STREAMED.streaming_mode),
}


@pytest.fixture(autouse=True)
def nothing_left() -> Iterator[None]:
    """After each test: no thread of a tool."""
    yield
    assert [thread.name for thread in threading.enumerate() if thread.name.startswith("flowloom:")] == []


class Leftovers:
    """Async generators that were started and not closed when the run was over, and tasks that still run."""

    def __init__(self) -> None:
        self.started: weakref.WeakSet[AsyncGenerator[Any, Any]] = weakref.WeakSet()

    def __enter__(self) -> Leftovers:
        self._hooks = sys.get_asyncgen_hooks()
        before = self._hooks.firstiter

        def first(generator: AsyncGenerator[Any, Any]) -> None:
            self.started.add(generator)
            if before is not None:
                before(generator)

        sys.set_asyncgen_hooks(firstiter=first, finalizer=self._hooks.finalizer)
        return self

    def __exit__(self, *exc_info: object) -> None:
        sys.set_asyncgen_hooks(*self._hooks)

    def check(self) -> None:
        gc.collect()
        left = [generator for generator in self.started if generator.ag_frame is not None]  # type: ignore[attr-defined]
        assert left == []
        others = asyncio.all_tasks() - {asyncio.current_task()}
        assert [task for task in others if not task.done()] == []


async def goes_on(chat: Chat) -> None:
    """The history is legal, and the next message is answered."""
    assert open_calls(await chat.stored()) == set()
    assert (await chat.say("and now?"))[-1].is_final_response()


async def break_after(chat: Chat, count: int) -> int:
    """Take so many events and leave; how many there were."""
    stream = chat.runner.run_async(user_id="ann", session_id="s1", new_message="go", run_config=chat.config)
    taken = 0
    try:
        async for _ in stream:
            taken += 1
            if taken == count:
                break
    finally:
        await stream.aclose()
    return taken


@pytest.mark.parametrize("config", CONFIGS)
@pytest.mark.parametrize("kind", KINDS)
async def test_breaking_out_after_any_event(kind: str, config: str) -> None:
    """Breaking out of the event stream at every possible point."""
    total = await break_after(Chat(KINDS[kind](), config=CONFIGS[config]), 0)
    assert total > 2
    for count in range(1, total + 1, 1 if total < 12 else 3):
        with Leftovers() as leftovers:
            chat = Chat(KINDS[kind](), config=CONFIGS[config])
            await break_after(chat, count)
            leftovers.check()
        await goes_on(chat)


@pytest.mark.parametrize("kind", KINDS)
async def test_cancelling_at_any_time(kind: str) -> None:
    """A cancelled run ends at once, and cleanly, wherever it was."""
    for step in range(12):
        with Leftovers() as leftovers:
            chat = Chat(KINDS[kind](), config=STREAMED)
            run = asyncio.ensure_future(chat.say("go"))
            await asyncio.sleep(0.004 * step)
            run.cancel()
            await asyncio.gather(run, return_exceptions=True)
            leftovers.check()
        await goes_on(chat)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_timeout_around_a_run(kind: str) -> None:
    with Leftovers() as leftovers:
        chat = Chat(KINDS[kind]())
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.015):
                await chat.say("go")
        leftovers.check()
    await goes_on(chat)


HOOKS = [
    "before_agent_callback",
    "after_agent_callback",
    "before_model_callback",
    "after_model_callback",
    "before_run_callback",
    "on_event_callback",
    "on_user_message_callback",
    "after_run_callback",
]


@pytest.mark.parametrize("hook", HOOKS)
async def test_a_plugin_hook_that_raises(hook: str) -> None:
    """The error reaches the caller; the history is legal, and the next run works when the hook does."""

    class Raising(BasePlugin):
        armed = True

    async def fail(self: Any, **_: Any) -> None:
        if self.armed:
            raise RuntimeError("hook failed")

    setattr(Raising, hook, fail)
    plugin = Raising("raising")
    with Leftovers() as leftovers:
        chat = Chat(worker(), plugins=[plugin])
        with pytest.raises(RuntimeError, match="hook failed"):
            await chat.say("go")
        leftovers.check()
    plugin.armed = False
    await goes_on(chat)


CALLBACKS = ["before_agent_callback", "after_agent_callback", "before_model_callback", "after_model_callback"]


@pytest.mark.parametrize("callback", [*CALLBACKS, "around_model"])
async def test_an_agents_callback_that_raises(callback: str) -> None:
    armed = [True]

    def fail(**arguments: Any) -> Any:
        if armed[0]:
            raise RuntimeError("callback failed")
        if callback == "around_model":
            return arguments["call_next"](arguments["llm_request"])
        return None

    with Leftovers() as leftovers:
        chat = Chat(worker(**{callback: fail}))
        with pytest.raises(RuntimeError, match="callback failed"):
            await chat.say("go")
        leftovers.check()
    armed.clear()
    armed.append(False)
    await goes_on(chat)


async def test_a_processor_that_raises() -> None:
    """The error names the processor, and the history is legal."""
    armed = [True]

    def audit(ctx: Any, request: LlmRequest) -> None:
        if armed[0] and len(request.contents) > 1:
            raise RuntimeError("audit failed")

    with Leftovers() as leftovers:
        chat = Chat(worker(flow=Flow().with_processor(audit)))
        with pytest.raises(RuntimeError, match="audit failed") as raised:
            await chat.say("go")
        leftovers.check()
    assert any("`audit`" in note for note in raised.value.__notes__)
    armed[0] = False
    await goes_on(chat)


@pytest.mark.parametrize("config", [None, STREAMED], ids=["plain", "streamed"])
async def test_a_model_that_dies_in_mid_stream(config: RunConfig | None) -> None:
    """After a chunk, or after a call: what was complete is kept, each call is answered."""
    deaths = [
        [LlmResponse(content=said("half a "), partial=True)],
        [LlmResponse(content=said(named_call("c1", "wait")), partial=True)],
    ]
    for chunks in deaths:
        first = [True]

        async def dying(
            chunks: list[LlmResponse] = chunks, first: list[bool] = first
        ) -> AsyncGenerator[LlmResponse, None]:
            if first:
                first.clear()
                for chunk in chunks:
                    yield chunk
                raise ConnectionError("line cut")
            yield LlmResponse(content=said("here again"))

        with Leftovers() as leftovers:
            chat = Chat(
                LlmAgent(name="root", model=FunctionModel(lambda _, dying=dying: dying()), tools=TOOLS), config=config
            )
            with pytest.raises(ConnectionError, match="line cut"):
                await chat.say("go")
            leftovers.check()
        await goes_on(chat)


async def test_a_slow_consumer_that_leaves_closes_the_model_before_it_has_control_again() -> None:
    closed: list[bool] = []

    async def endless() -> AsyncGenerator[LlmResponse, None]:
        try:
            while True:
                yield LlmResponse(content=said("word "), partial=True)
                await asyncio.sleep(0)
        finally:
            closed.append(True)

    root = LlmAgent(name="root", model=FunctionModel(lambda _: endless()))
    chat = Chat(root, config=STREAMED)
    assert await break_after(chat, 3) == 3
    assert closed == [True]
    assert [event.text for event in await chat.stored()][1:] == ["word word word "]


async def test_a_blocking_tool_that_was_given_up_is_waited_for() -> None:
    ended, begun = list[bool](), threading.Event()

    def slow() -> None:
        """Block for a while."""
        begun.set()
        time.sleep(0.1)
        ended.append(True)

    chat = Chat(agent("root", call("slow"), "later", tools=[slow]))
    run = asyncio.ensure_future(chat.say("go"))
    assert await asyncio.to_thread(begun.wait, 60)
    run.cancel()
    with pytest.raises(asyncio.CancelledError):
        await run
    assert ended == [True]
    await goes_on(chat)


async def test_the_first_error_of_parallel_agents_cancels_the_others_and_is_raised_once_they_ended() -> None:
    ended: list[str] = []
    begun = asyncio.Event()

    async def patient() -> None:
        """Wait long."""
        begun.set()
        try:
            await asyncio.sleep(30)
        finally:
            ended.append("patient")

    async def fail(_: LlmRequest) -> str:
        await begun.wait()
        raise RuntimeError("branch failed")

    waiting = agent("waiting", call("patient"), "again", "again", tools=[patient])
    broken = LlmAgent(name="broken", model=FunctionModel(fail))
    with Leftovers() as leftovers:
        chat = Chat(ParallelAgent(name="side", sub_agents=[waiting, broken]))
        with pytest.raises(RuntimeError, match="branch failed"):
            await chat.say("go")
        leftovers.check()
    assert ended == ["patient"]
    assert open_calls(await chat.stored()) == set()
