"""A run that slept past its lease and wakes: it ends with `RunLostError`, and does nothing more to log and world."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import signal
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
from kit import STREAMED, agent, story
from kit import event as said

from flowloom import (
    AgentTool,
    BaseAgent,
    BasePlugin,
    Event,
    FunctionTool,
    InMemoryRunner,
    LlmAgent,
    ParallelAgent,
    PostgresSessionService,
    Runner,
    SequentialAgent,
    SqliteSessionService,
    ToolContext,
)
from flowloom.errors import RunLostError
from flowloom.processors.code_executors import BaseCodeExecutor, CodeExecutionInput, CodeExecutionResult
from flowloom.sessions import SessionLease
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing import ScriptedModel, call

WHERE: dict[str, Any] = {"user_id": "ann", "session_id": "s1"}
WHO = {"app_name": "app", **WHERE}


@pytest.fixture
async def stores(tmp_path: Path) -> AsyncIterator[list[SqlSessionService]]:
    """Two services on one store, as two processes have them."""
    opened: list[SqlSessionService] = [SqliteSessionService(tmp_path / "a.db") for _ in range(2)]
    yield opened
    for each in opened:
        await each.close()


class Sleep:
    """What a run sleeps through: another process takes its session over, and writes to it."""

    def __init__(self, stores: list[SqlSessionService]) -> None:
        self.zombie, self.store = stores
        self.began: list[str] = []
        """The tools that were begun."""
        self.lease: SessionLease | None = None

    async def pass_by(self) -> None:
        def expire(connection: Any) -> None:
            connection.execute("UPDATE flowloom_leases SET expires = 0")

        await self.store.database.write(expire)
        self.lease = await self.store.acquire_lease(**WHO, wait=False)
        session = await self.store.get_session(**WHO)
        assert session is not None
        await self.store.append_event(session, said("agent", "of the other"))

    async def sleep_in_tool(self) -> str:
        """A tool during which the process sleeps."""
        self.began.append("sleep")
        await self.pass_by()
        return "slept"

    async def before_tool(self, tool: Any, args: Any, tool_context: Any) -> None:
        """A callback during which the process sleeps."""
        if self.lease is None:
            tool_context.session.fence.renewed -= 1000
            await self.pass_by()

    async def work(self) -> str:
        """Work."""
        self.began.append("work")
        return "worked"

    async def other_texts(self) -> list[str]:
        """What the log has after the other's event, and whether it is legal up to there."""
        session = await self.store.get_session(**WHO)
        assert session is not None
        texts = [each.text for each in session.events]
        return texts[texts.index("of the other") + 1 :]

    async def ends(self, root: BaseAgent, **arguments: Any) -> None:
        """Check that a run of this agent is lost: its consumer is told, and nothing of it comes after the other's."""
        runner = Runner(app_name="app", agent=root, session_service=self.zombie, auto_create_session=True)
        tasks = asyncio.all_tasks()
        with pytest.raises(RunLostError, match="taken over session `s1`"):
            await runner.run_to_result(**WHERE, new_message="Go.", **arguments)
        assert await self.other_texts() == []
        assert asyncio.all_tasks() == tasks
        names = {
            thread.name
            for thread in threading.enumerate()
            if not thread.name.startswith(("flowloom-sqlite", "flowloom sync"))
        }
        assert names == {"MainThread"}
        assert self.lease is not None
        await self.lease.release()


async def test_a_result_of_a_run_that_was_replaced_is_not_stored(stores: list[SqlSessionService]) -> None:
    """Nor an error event, nor an answer to what was open."""
    sleep = Sleep(stores)
    await sleep.ends(agent("root", call("sleep_in_tool"), "Done.", tools=[sleep.sleep_in_tool]))


async def test_a_lost_run_is_a_line_of_the_log(
    stores: list[SqlSessionService], caplog: pytest.LogCaptureFixture
) -> None:
    """One at WARNING, with the session's id and nothing that was said; the other line is of who took it over."""
    sleep = Sleep(stores)
    await sleep.ends(agent("root", call("sleep_in_tool"), "Done.", tools=[sleep.sleep_in_tool]))
    taken, lost = [record for record in caplog.records if record.name == "flowloom.sessions"]
    assert "was not given back" in taken.getMessage()
    assert (lost.levelname, lost.getMessage().split(":")[0]) == ("WARNING", "A run has lost session `s1`")


async def test_a_streamed_run_is_told_too(stores: list[SqlSessionService]) -> None:
    """As one that is not streamed."""
    sleep = Sleep(stores)
    await sleep.ends(agent("root", call("sleep_in_tool"), "Done.", tools=[sleep.sleep_in_tool]), run_config=STREAMED)


@pytest.mark.parametrize("shape", [SequentialAgent, ParallelAgent])
async def test_a_member_of_a_workflow_ends_the_whole(
    stores: list[SqlSessionService], shape: Callable[..., Any]
) -> None:
    """No other member goes on."""
    sleep = Sleep(stores)
    first = agent("first", call("sleep_in_tool"), "Done.", tools=[sleep.sleep_in_tool])
    await sleep.ends(shape(name="root", sub_agents=[first, agent("second", "Done too.")]))


async def test_a_tool_that_fails_after_the_sleep_is_no_error_of_the_run(stores: list[SqlSessionService]) -> None:
    """The run is lost, whatever its tool says; the tool's error is not stored."""
    sleep = Sleep(stores)

    async def sleep_and_fail() -> str:
        """Sleep and fail."""
        await sleep.pass_by()
        raise OSError("too late")

    root = agent("root", call("sleep_and_fail"), "Done.", tools=[sleep_and_fail], tool_errors="raise")
    await sleep.ends(root)


async def test_a_run_that_fails_after_the_sleep_is_told_as_lost(stores: list[SqlSessionService]) -> None:
    """Its own error is not stored, so that it is not what ended the run."""
    sleep = Sleep(stores)

    class Fails(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Event]:
            await sleep.pass_by()
            raise ValueError("no")
            yield

    await sleep.ends(Fails(name="root"))


@pytest.mark.parametrize("failure", [ValueError("no"), None], ids=["another error", "none"])
async def test_a_lost_run_is_told_as_lost_whatever_its_agents_make_of_that(
    stores: list[SqlSessionService], failure: ValueError | None
) -> None:
    """An agent that catches the error does not hide it."""
    sleep = Sleep(stores)

    class Catches(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Event]:
            with contextlib.suppress(RunLostError):
                async for each in self.sub_agents[0].run_async(ctx):
                    yield each
            if failure is not None:
                raise failure

    inner = agent("inner", call("work"), call("work"), before_tool_callback=sleep.before_tool, tools=[sleep.work])
    await sleep.ends(Catches(name="root", sub_agents=[inner]))
    assert sleep.began == []


async def test_what_answers_the_calls_of_a_lost_run_is_not_seen(stores: list[SqlSessionService]) -> None:
    """The run hears at its end only that the store has not taken it."""
    sleep = Sleep(stores)

    class Leaves(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Event]:
            async with contextlib.aclosing(self.sub_agents[0].run_async(ctx)) as events:
                yield await anext(events)
            await sleep.pass_by()

    root = Leaves(name="root", sub_agents=[agent("inner", call("work"), tools=[sleep.work])])
    runner = Runner(app_name="app", agent=root, session_service=sleep.zombie, auto_create_session=True)
    result = await runner.start(**WHERE, new_message="Go.").result()
    assert isinstance(result.error, RunLostError)
    assert story(result.events) == ["inner: work()"]
    assert await sleep.other_texts() == []
    assert sleep.lease is not None
    await sleep.lease.release()


@pytest.mark.parametrize(
    "calls", [[call("work")], [call("work"), call("work"), call("work")]], ids=["one call", "several"]
)
async def test_who_wakes_before_a_tool_does_not_begin_it(stores: list[SqlSessionService], calls: list[Any]) -> None:
    """A holder that was not renewed for half its lease asks whether the session is still its own."""
    sleep = Sleep(stores)
    await sleep.ends(agent("root", calls, "Done.", tools=[sleep.work], before_tool_callback=sleep.before_tool))
    assert sleep.began == []


async def test_no_callback_is_told_of_a_tool_that_a_lost_run_has_not_begun(stores: list[SqlSessionService]) -> None:
    """It is no failure of the tool's."""
    sleep = Sleep(stores)
    root = agent("root", call("work"), "Done.", tools=[sleep.work], before_tool_callback=sleep.before_tool)
    root.on_tool_error_callback = lambda **_: sleep.began.append("on error")
    root.after_tool_callback = lambda **_: sleep.began.append("after")
    await sleep.ends(root)
    assert sleep.began == []


async def test_who_wakes_before_a_tool_of_an_agent_that_is_a_tool_does_not_begin_it(
    stores: list[SqlSessionService],
) -> None:
    """The agent has a history of its own, and no lease of its own."""
    sleep = Sleep(stores)
    inner = agent("inner", call("work"), "Done.", tools=[sleep.work], before_tool_callback=sleep.before_tool)
    await sleep.ends(agent("root", call("inner", request="Go."), "Done.", tools=[AgentTool(inner)]))
    assert sleep.began == []


async def test_who_wakes_before_another_attempt_does_not_begin_it(
    stores: list[SqlSessionService], caplog: pytest.LogCaptureFixture
) -> None:
    """A tool that failed is not tried again by a run that was replaced, nor does that wait for further tries."""
    sleep = Sleep(stores)
    caplog.set_level("INFO", "flowloom.tools")

    async def fail(tool_context: Any) -> str:
        """Fail."""
        sleep.began.append("fail")
        tool_context.session.fence.renewed -= 1000
        await sleep.pass_by()
        raise OSError("once more")

    await sleep.ends(agent("root", call("fail"), "Done.", tools=[FunctionTool(fail, retries=3)]))
    assert sleep.began == ["fail"]
    assert [line for line in caplog.messages if "follows" in line] == [
        "Tool `fail` failed (once more); attempt 2 follows."
    ]


async def test_a_tool_that_fails_in_a_lost_run_has_its_error_told_to_its_callbacks(
    stores: list[SqlSessionService],
) -> None:
    """It had begun before the run knew."""
    sleep, told = Sleep(stores), list[str]()

    async def fail(tool_context: ToolContext) -> None:
        """Fail."""
        tool_context.session.fence.renewed -= 1000
        await sleep.pass_by()
        with contextlib.suppress(RunLostError):
            await tool_context.invocation_context.run.check_lease()
        raise OSError("too late")

    root = agent("root", call("fail"), "Done.", tools=[fail])
    root.on_tool_error_callback = lambda error, **_: told.append(str(error))
    await sleep.ends(root)
    assert told == ["too late"]


async def test_who_wakes_before_code_of_the_model_does_not_run_it(stores: list[SqlSessionService]) -> None:
    """Code does to the world what a tool does."""
    sleep = Sleep(stores)

    class Counting(BaseCodeExecutor):
        async def execute_code(self, ctx: Any, task: CodeExecutionInput) -> CodeExecutionResult:
            sleep.began.append("code")
            return CodeExecutionResult(stdout="ran")

    sessions: list[Any] = []
    root = agent("root", "```python\nprint(1)\n```", "Done.", code_executor=Counting())
    root.before_agent_callback = lambda callback_context: sessions.append(callback_context.session)
    runner = Runner(app_name="app", agent=root, session_service=sleep.zombie, auto_create_session=True)
    events = runner.run_async(**WHERE, new_message="Go.")
    assert "print(1)" in (await anext(events)).model_dump_json()
    sessions[0].fence.renewed -= 1000
    await sleep.pass_by()
    with pytest.raises(RunLostError):
        await anext(events)
    assert (sleep.began, await sleep.other_texts()) == ([], [])


async def test_a_run_that_only_takes_a_message_is_told_at_its_end(stores: list[SqlSessionService]) -> None:
    """Its message was to be stored with the next event, and there was none."""
    sleep = Sleep(stores)

    class Silent(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Event]:
            return
            yield

    class SleepsFirst(BasePlugin):
        async def on_user_message_callback(self, **_: Any) -> None:
            await sleep.pass_by()

    root = Silent(name="root")
    runner = Runner(
        app_name="app",
        agent=root,
        session_service=sleep.zombie,
        auto_create_session=True,
        plugins=[SleepsFirst(name="sleeps")],
    )
    with pytest.raises(RunLostError):
        await runner.run_to_result(**WHERE, new_message="Go.")
    assert await sleep.other_texts() == []


async def test_plugins_are_told_and_the_handle_knows(stores: list[SqlSessionService]) -> None:
    """`on_run_error`, `after_run`, and the result of a handle say what ended the run."""
    sleep = Sleep(stores)
    told: list[str] = []

    class Told(BasePlugin):
        async def on_run_error_callback(self, *, invocation_context: Any, error: Exception) -> None:
            told.append(type(error).__name__)

        async def after_run_callback(self, **_: Any) -> None:
            told.append("over")

    root = agent("root", call("sleep_in_tool"), "Done.", tools=[sleep.sleep_in_tool])
    runner = Runner(
        app_name="app", agent=root, session_service=sleep.zombie, auto_create_session=True, plugins=[Told(name="told")]
    )
    result = await runner.start(**WHERE, new_message="Go.").result()
    assert (result.status, type(result.error)) == ("failed", RunLostError)
    assert told == ["RunLostError", "over"]
    assert await sleep.other_texts() == []


async def test_a_run_that_was_replaced_can_be_cancelled(stores: list[SqlSessionService]) -> None:
    """Cancelling it stores nothing either, and leaves nothing behind."""
    sleep = Sleep(stores)
    asleep = asyncio.Event()

    async def wait() -> str:
        """Wait."""
        await sleep.pass_by()
        asleep.set()
        await asyncio.sleep(60)
        return "never"

    root = agent("root", call("wait"), "Done.", tools=[wait])
    runner = Runner(app_name="app", agent=root, session_service=sleep.zombie, auto_create_session=True)
    running = asyncio.create_task(runner.run_to_result(**WHERE, new_message="Go."))
    await asleep.wait()
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await sleep.other_texts() == []


async def test_runs_that_share_a_session_have_no_fence(stores: list[SqlSessionService]) -> None:
    """With `concurrency="allow"` nobody holds it, so that nobody can lose it, whoever else has a lease."""
    sleep = Sleep(stores)
    root = agent("root", call("sleep_in_tool"), "Done.", tools=[sleep.sleep_in_tool])
    runner = Runner(
        app_name="app", agent=root, session_service=sleep.zombie, auto_create_session=True, concurrency="allow"
    )
    await sleep.zombie.create_session(**WHO)
    async with await sleep.zombie.acquire_lease(**WHO, wait=True):
        assert (await runner.run_to_result(**WHERE, new_message="Go.")).text == "Done."
    assert await sleep.other_texts() == ["", "Done."]


async def test_a_lost_run_of_a_tool_is_an_error_of_that_tool(stores: list[SqlSessionService], tmp_path: Path) -> None:
    """A run that a tool has begun on another session ends; the run of the tool goes on."""
    sleep = Sleep(stores)
    inner = Runner(
        app_name="app",
        agent=agent("inner", call("sleep_in_tool"), "Done.", tools=[sleep.sleep_in_tool]),
        session_service=sleep.zombie,
        auto_create_session=True,
    )

    async def ask() -> str | None:
        """Ask."""
        return (await inner.run_to_result(**WHERE, new_message="Go.")).text

    service = SqliteSessionService(tmp_path / "outer.db")
    root = agent("root", call("ask"), "It was lost.", tools=[ask])
    runner = Runner(app_name="app", agent=root, session_service=service, auto_create_session=True)
    result = await runner.run_to_result(**WHERE, new_message="Go.")
    assert result.text == "It was lost."
    assert "taken over" in str(result.events[1].get_function_responses()[0].response)
    await service.close()
    gc.collect()


async def test_a_run_that_fails_because_another_one_was_lost_stores_that_as_its_end() -> None:
    """Its own session is still its own."""

    class Fails(BaseAgent):
        async def _run_async_impl(self, ctx: Any) -> AsyncIterator[Event]:
            raise RunLostError("It has session `s2`.", session_id="s2", retry_after=1.0)
            yield

    runner = InMemoryRunner(agent=Fails(name="root"))
    runner.auto_create_session = True
    with pytest.raises(RunLostError):
        await runner.run_to_result(**WHERE, new_message="Go.")
    session = await runner.session_service.get_session(app_name=runner.app_name, **WHERE)
    assert session is not None
    assert session.events[-1].error_code == "RunLostError"


# -- a process that is stopped and woken --------------------------------------------------------------

PROGRAM = """
import asyncio, sys
from flowloom import LlmAgent, PostgresSessionService, Runner, SqliteSessionService
from flowloom.errors import RunLostError
from flowloom.testing import ScriptedModel, call

where = sys.argv[1]

async def step(number: int) -> str:
    "Take a step."
    print("step", number, flush=True)
    if number == 2:
        await asyncio.to_thread(sys.stdin.readline)
    return f"zombie {number}"

async def main():
    service = (PostgresSessionService if "://" in where else SqliteSessionService)(where)
    model = ScriptedModel([*(call("step", number=n) for n in (1, 2, 3)), "Zombie."])
    agent = LlmAgent(name="agent", model=model, tools=[step])
    runner = Runner(app_name="app", agent=agent, session_service=service, auto_create_session=True, lease_seconds=0.3)
    try:
        await runner.run_to_result(user_id="ann", session_id="s1", new_message="Go.")
    except RunLostError:
        print("lost", flush=True)
    await service.close()

asyncio.run(main())
"""


@pytest.mark.skipif(sys.platform == "win32", reason="Windows cannot stop a process")
@pytest.mark.parametrize("kind", ["sqlite", "postgres"])
async def test_a_process_that_was_stopped_and_woken_changes_nothing(
    kind: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    """The log is that of whoever resumed its run, and no tool is begun by the one that wakes."""
    where = str(tmp_path / "a.db") if kind == "sqlite" else request.getfixturevalue("postgres_dsn")
    process = subprocess.Popen(  # noqa: ASYNC220
        [sys.executable, "-c", PROGRAM, where], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        assert [process.stdout.readline() for _ in range(2)] == ["step 1\n", "step 2\n"]
        os.kill(process.pid, signal.SIGSTOP)
        service = PostgresSessionService(where) if kind == "postgres" else SqliteSessionService(where)

        async def step(number: int) -> str:
            """Take a step."""
            return f"mine {number}"

        model = ScriptedModel([call("step", number=3), "Mine."])
        runner = Runner(
            app_name="app",
            agent=LlmAgent(name="agent", model=model, tools=[step]),
            session_service=service,
            lease_seconds=5,
        )
        session = await service.get_session(**WHO)
        assert session is not None
        result = await runner.run_to_result(**WHERE, invocation_id=session.events[0].invocation_id)
        assert result.text == "Mine."
        process.stdin.write("\n")
        process.stdin.flush()
        os.kill(process.pid, signal.SIGCONT)
        assert process.stdout.read() == "lost\n"
        assert process.wait() == 0
        final = await service.get_session(**WHO)
        assert final is not None
        responses = [each.response for event in final.events for each in event.get_function_responses()]
        assert responses == [{"result": "zombie 1"}, {"result": "mine 2"}, {"result": "mine 3"}]
        assert [event.text for event in final.events if event.text] == ["Go.", "Mine."]
        await service.close()
    finally:
        process.kill()
        process.communicate()
