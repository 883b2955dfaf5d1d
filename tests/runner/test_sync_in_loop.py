"""The synchronous forms within a running event loop, as in a notebook."""

from __future__ import annotations

import asyncio
import gc
import signal
import subprocess
import sys
import threading
from contextvars import ContextVar
from pathlib import Path
from typing import Any

import pytest
from kit import agent, open_calls, story

from flowloom import InMemoryRunner, InMemorySessionService, LlmAgent, Runner, SqliteSessionService
from flowloom.errors import SessionBusyError
from flowloom.run_stream import RunStreamEvent
from flowloom.testing import call
from runner.situations import ByTurn, Gate, Gated
from runner.test_sync import WHERE, bound

_name: ContextVar[str] = ContextVar("_name", default="nobody")


def look() -> str:
    """Look."""
    return "seen"


def looking(**fields: Any) -> InMemoryRunner:
    root = LlmAgent(name="root", model=ByTurn([call("look")], "done"), tools=[look], **fields)
    return InMemoryRunner(root, app_name="app")


async def stored(runner: Runner) -> list[Any]:
    session = await runner.session_service.get_session(app_name="app", **WHERE)
    assert session is not None
    return session.events


async def test_every_form_works_and_all_use_one_loop() -> None:
    """All forms give what they give elsewhere; a model that is bound to a loop is asked again and again."""
    runner = InMemoryRunner(bound())
    assert [event.text for event in runner.run(**WHERE, new_message="a")] == ["hi"]
    assert runner.run_to_result_sync(**WHERE, new_message="b").text == "hi"
    assert runner.run_stateless_sync("c").text == "hi"
    typed: list[RunStreamEvent] = list(runner.run_stream_sync(**WHERE, new_message="d"))
    assert typed[-1].type == "run_finished"
    await asyncio.sleep(0)  # the running loop is as it was


async def test_it_stands_beside_runs_of_the_running_loop() -> None:
    """The same runner and session serve awaited runs and synchronous ones in turn."""
    runner = looking()
    assert (await runner.run_to_result(**WHERE, new_message="a")).text == "done"
    assert story(runner.run(**WHERE, new_message="b")) == ["root: done"]
    assert (await runner.run_to_result(**WHERE, new_message="c")).text == "done"
    assert len([event for event in await stored(runner) if event.author == "user"]) == 3


async def test_a_store_serves_both_loops(tmp_path: Path) -> None:
    """A session of a SQLite file that was made by `await` is resumed by a synchronous call, and back."""
    async with SqliteSessionService(tmp_path / "s.db") as service:
        await service.create_session(app_name="app", **WHERE)
        runner = Runner(app_name="app", agent=agent("root", "one", "two", "three"), session_service=service)
        texts = [
            (await runner.run_to_result(**WHERE, new_message="a")).text,
            runner.run_to_result_sync(**WHERE, new_message="b").text,
            (await runner.run_to_result(**WHERE, new_message="c")).text,
        ]
        assert texts == ["one", "two", "three"]
        assert len(await stored(runner)) == 6


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_session_that_a_run_of_the_waiting_loop_has_is_busy(kind: str, tmp_path: Path) -> None:
    """That run could not go on, so the call is refused and does not wait for ever; then both are fine."""
    gate = Gate()
    async with InMemorySessionService() if kind == "memory" else SqliteSessionService(tmp_path / "s.db") as service:
        root = LlmAgent(name="root", model=Gated("hi", gate=gate))
        runner = Runner(app_name="app", agent=root, session_service=service, auto_create_session=True)
        run = runner.start(**WHERE, new_message="a")
        await gate.reached.wait()
        with pytest.raises(SessionBusyError, match="event loop"):
            runner.run_to_result_sync(**WHERE, new_message="b")
        gate.open.set()
        assert (await run.result()).text == "hi"
        assert runner.run_to_result_sync(**WHERE, new_message="b").text == "hi"


async def test_a_tool_of_such_a_run_may_make_one_itself() -> None:
    """Synchronous calls nest: an async tool and a blocking one, each below a loop."""
    inner = InMemoryRunner(bound())

    async def ask() -> str:
        """Ask."""
        return inner.run_stateless_sync("go").text

    def ask_blocking() -> str:
        """Ask."""
        return inner.run_stateless_sync("go").text

    inner_model = LlmAgent(name="root", model=ByTurn([call("ask"), call("ask")], "done"), tools=[ask])
    result = InMemoryRunner(inner_model).run_to_result_sync(**WHERE, new_message="go")
    assert [r.response for e in result.events for r in e.get_function_responses()] == [{"result": "hi"}] * 2
    gc.collect()


async def test_context_variables_are_carried() -> None:
    """What runs sees the context variables of who called."""
    seen: list[str] = []
    runner = InMemoryRunner(agent("root", "hi", "hi", before_agent_callback=lambda **_: seen.append(_name.get())))
    _name.set("ann")
    runner.run_to_result_sync(**WHERE, new_message="go")
    for _ in runner.run(**WHERE, new_message="go"):
        pass
    assert seen == ["ann", "ann"]


async def test_errors_are_raised_and_the_next_call_works() -> None:
    """Also those that end programs: they reach the caller, and not the thread that runs the loop."""
    runner = InMemoryRunner(agent("root", RuntimeError("no"), "hi", "hi"), app_name="app")
    with pytest.raises(RuntimeError, match="no"):
        runner.run_to_result_sync(**WHERE, new_message="go")

    def leave(**_: Any) -> None:
        sys.exit(3)

    with pytest.raises(SystemExit):
        InMemoryRunner(agent("root", "hi", before_agent_callback=leave)).run_stateless_sync("go")
    assert runner.run_to_result_sync(**WHERE, new_message="go").text == "hi"


async def test_leaving_early_closes_the_run() -> None:
    """A generator that is left, closed or collected leaves a legal history."""
    runner = looking()
    for _ in runner.run(**WHERE, new_message="go"):
        break
    gc.collect()
    assert open_calls(await stored(runner)) == set()


def test_what_is_begun_within_a_loop_may_be_read_outside_and_the_other_way() -> None:
    """A generator belongs to no place: each step may be asked for within a loop or without one."""
    runner = looking()

    async def within(run: Any) -> Any:
        return next(run)

    run = runner.run(**WHERE, new_message="go")
    assert story([next(run), asyncio.run(within(run)), *run]) == [
        "root: look()",
        "root: look -> {'result': 'seen'}",
        "root: done",
    ]

    async def begin() -> Any:
        run = looking().run(**WHERE, new_message="go")
        return run, next(run)

    run, first = asyncio.run(begin())
    assert story([first, *run]) == ["root: look()", "root: look -> {'result': 'seen'}", "root: done"]


def test_a_run_that_is_dropped_by_what_runs_in_its_loop_is_closed() -> None:
    """The loop closes it as it goes on."""
    runner, kept = looking(), []
    kept.append(runner.run(**WHERE, new_message="go"))
    next(kept[0])

    async def drop() -> str:
        """Drop it."""
        kept.clear()
        await asyncio.sleep(0.01)
        return "dropped"

    other = LlmAgent(name="other", model=ByTurn([call("drop")], "done"), tools=[drop])
    assert InMemoryRunner(other).run_stateless_sync("go").text == "done"
    assert open_calls(asyncio.run(stored(runner))) == set()


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
async def test_an_interrupted_cell_leaves_a_legal_history() -> None:
    """Ctrl-C while a tool works: the run is ended in its own thread before the interrupt goes on."""
    main = threading.main_thread().ident
    assert main is not None
    ended: list[bool] = []

    async def hang() -> None:
        """Hang."""
        await asyncio.sleep(0.05)  # until the main thread waits
        signal.pthread_kill(main, signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    root = LlmAgent(name="root", model=ByTurn([call("hang")], "done"), tools=[hang])
    runner = InMemoryRunner(root, app_name="app")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            runner.run_to_result_sync(**WHERE, new_message="go")
    finally:
        signal.signal(signal.SIGINT, before)
    assert ended == [True]
    assert open_calls(await stored(runner)) == set()
    assert runner.run_to_result_sync(**WHERE, new_message="again").status == "final"


def test_the_thread_ends_with_the_one_that_called() -> None:
    """A thread with a running loop leaves no other thread behind."""

    async def work() -> None:
        InMemoryRunner(agent("root", "hi")).run_stateless_sync("go")

    gc.collect()
    before = set(threading.enumerate())
    thread = threading.Thread(target=lambda: asyncio.run(work()))
    thread.start()
    thread.join()
    gc.collect()
    for each in set(threading.enumerate()) - before:
        each.join(10)
    assert set(threading.enumerate()) <= before


EXIT = """
import asyncio
from flowloom import InMemoryRunner, LlmAgent
from flowloom.testing import ScriptedModel

runner = InMemoryRunner(LlmAgent(name="root", model=ScriptedModel(["hi", "hi"])))

async def main():
    global run
    run = runner.run(user_id="u", session_id="s", new_message="go")
    next(run)
    print(runner.run_stateless_sync("go").text)

asyncio.run(main())
"""


def test_a_program_ends_without_a_word() -> None:
    """At exit the second thread and its loop are closed, also with a run that is open."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", EXIT], capture_output=True, text=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, "hi\n", "")
