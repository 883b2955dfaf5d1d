"""Runs without an event loop of one's own."""

from __future__ import annotations

import asyncio
import gc
import signal
import threading
from collections.abc import AsyncGenerator, Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from kit import agent, open_calls, story
from models.gemini_kit import adapter
from models.gemini_wire import text, whole
from models.wire_server import WireServer

from flowloom import BaseLlm, InMemoryRunner, LlmAgent, LlmRequest, LlmResponse
from flowloom.testing import call
from flowloom.testing.scripted import response_of
from runner.situations import ByTurn

WHERE: Any = {"user_id": "u", "session_id": "s"}


class Bound(BaseLlm):
    """Has a connection that belongs to the loop in which it was opened, as clients of services have."""

    lock: Any = None
    closed: Any = None

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.lock = self.lock or asyncio.Condition()
        async with self.lock:
            waker = asyncio.get_running_loop().call_soon(lambda: None)
            await asyncio.sleep(0)
            waker.cancel()
        async with self.lock:
            task = asyncio.ensure_future(self._wake())
            await self.lock.wait()
            await task
        try:
            yield response_of("hi")
        finally:
            self.closed = True

    async def _wake(self) -> None:
        async with self.lock:
            self.lock.notify_all()


def bound() -> LlmAgent:
    return LlmAgent(name="root", model=Bound(model="bound"))


def test_one_call_after_the_other_uses_one_loop() -> None:
    runner = InMemoryRunner(bound())
    assert [event.text for event in runner.run(**WHERE, new_message="a")] == ["hi"]
    assert runner.run_to_result_sync(**WHERE, new_message="b").text == "hi"
    assert runner.run_stateless_sync("c").text == "hi"
    assert list(runner.run_stream_sync(**WHERE, new_message="d"))[-1].type == "run_finished"


def test_two_runners_may_share_a_model() -> None:
    root = bound()
    for runner in (InMemoryRunner(root), InMemoryRunner(root)):
        assert runner.run_to_result_sync(**WHERE, new_message="a").text == "hi"


def test_two_runs_may_be_read_in_turn() -> None:
    runner = InMemoryRunner(LlmAgent(name="root", model=ByTurn([call("look")], "done"), tools=[look]))
    first = runner.run(user_id="u", session_id="a", new_message="go")
    second = runner.run(user_id="u", session_id="b", new_message="go")
    assert [story([next(first), next(second)]) for _ in range(3)] == [
        ["root: look()", "root: look()"],
        ["root: look -> {'result': 'seen'}"] * 2,
        ["root: done", "root: done"],
    ]
    assert (list(first), list(second)) == ([], [])


def look() -> str:
    """Look."""
    return "seen"


def test_several_threads_each_have_a_loop() -> None:
    runner = InMemoryRunner(LlmAgent(name="root", model=ByTurn("hi")))

    def work(n: int) -> list[str]:
        return [
            runner.run_to_result_sync(user_id="u", session_id=f"s{n}-{turn}", new_message="go").text
            for turn in range(3)
        ]

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(12))) == [["hi"] * 3] * 12
    gc.collect()


def test_threads_wait_for_one_session_as_tasks_do() -> None:
    runner = InMemoryRunner(LlmAgent(name="root", model=ByTurn("hi")), app_name="app")

    def work(n: int) -> str:
        return runner.run_to_result_sync(**WHERE, new_message=f"message {n}").status

    with ThreadPoolExecutor(6) as pool:
        assert list(pool.map(work, range(12))) == ["final"] * 12
    session = asyncio.run(runner.session_service.get_session(app_name="app", **WHERE))
    assert session is not None
    owners = [event.invocation_id for event in session.events]
    assert owners == [owner for owner in dict.fromkeys(owners) for _ in range(2)]


def test_a_tool_may_run_another_agent() -> None:
    """A blocking tool has a thread of its own, and so a loop of its own."""
    inner = InMemoryRunner(LlmAgent(name="inner", model=ByTurn("inside")))

    def ask() -> str:
        """Ask."""
        return inner.run_stateless_sync("go").text

    root = LlmAgent(name="root", model=ByTurn([call("ask"), call("ask")], "done"), tools=[ask])
    result = InMemoryRunner(root).run_to_result_sync(**WHERE, new_message="go")
    answers = [a.response for event in result.events for a in event.get_function_responses()]
    assert (answers, result.text) == ([{"result": "inside"}] * 2, "done")
    gc.collect()


def test_leaving_the_loop_early_closes_the_run() -> None:
    closed: list[bool] = []

    class Closing(BaseLlm):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            try:
                yield response_of([call("look")])
                yield response_of("never")
            finally:
                closed.append(True)

    root = LlmAgent(name="root", model=Closing(model="closing"), tools=[look])
    runner = InMemoryRunner(root, app_name="app")
    for _ in runner.run(**WHERE, new_message="go"):
        break
    gc.collect()
    assert closed == [True]
    session = asyncio.run(runner.session_service.get_session(app_name="app", **WHERE))
    assert session is not None
    assert open_calls(session.events) == set()
    root.model = ByTurn("x", "again")
    assert runner.run_to_result_sync(**WHERE, new_message="go").status == "final"


def test_errors_are_raised() -> None:
    runner = InMemoryRunner(agent("root", RuntimeError("no"), RuntimeError("no")))
    with pytest.raises(RuntimeError, match="no"):
        runner.run_to_result_sync(**WHERE, new_message="go")
    with pytest.raises(RuntimeError, match="no"):
        list(runner.run(**WHERE, new_message="go"))


def test_a_run_that_outlives_its_thread_can_be_read_and_closed() -> None:
    runner = InMemoryRunner(LlmAgent(name="root", model=ByTurn([call("look")], "done"), tools=[look]))
    begun: list[Any] = []

    def begin() -> None:
        run = runner.run(**WHERE, new_message="go")
        next(run)
        begun.append(run)

    thread = threading.Thread(target=begin)
    thread.start()
    thread.join()
    gc.collect()
    run = begun.pop()
    assert story([next(run)]) == ["root: look -> {'result': 'seen'}"]
    run.close()


async def test_a_run_that_is_dropped_within_a_loop_is_closed() -> None:
    runner = InMemoryRunner(LlmAgent(name="root", model=ByTurn([call("look")], "done"), tools=[look]), app_name="app")

    def begin() -> Any:
        run = runner.run(**WHERE, new_message="go")
        next(run)
        return run

    run = await asyncio.to_thread(begin)
    run.close()
    session = await runner.session_service.get_session(app_name="app", **WHERE)
    assert session is not None
    assert open_calls(session.events) == set()


FORMS: dict[str, Callable[[InMemoryRunner], Any]] = {
    "result": lambda runner: runner.run_to_result_sync(**WHERE, new_message="go"),
    "events": lambda runner: list(runner.run(**WHERE, new_message="go")),
}


@pytest.mark.skipif(not hasattr(signal, "setitimer"), reason="needs timers")
@pytest.mark.parametrize("form", FORMS)
def test_an_interrupted_program_leaves_a_legal_history(form: str) -> None:
    """Ctrl-C while a tool works: the run is closed before the interrupt goes on."""
    ended: list[bool] = []

    async def hang() -> None:
        """Hang."""
        signal.raise_signal(signal.SIGINT)
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    runner = InMemoryRunner(LlmAgent(name="root", model=ByTurn([call("hang")], "done"), tools=[hang]), app_name="app")

    def interrupt(*_: Any) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGINT, interrupt)
    try:
        with pytest.raises(KeyboardInterrupt):
            FORMS[form](runner)
    finally:
        signal.signal(signal.SIGINT, before)
    gc.collect()
    session = asyncio.run(runner.session_service.get_session(app_name="app", **WHERE))
    assert session is not None
    assert open_calls(session.events) == set()
    assert runner.run_to_result_sync(**WHERE, new_message="again").status == "final"


def test_what_works_in_the_background_ends_with_the_thread() -> None:
    ended: list[bool] = []

    async def background() -> None:
        try:
            await asyncio.sleep(60)
        finally:
            ended.append(True)

    kept: list[Any] = []

    def begin(**_: Any) -> None:
        kept.append(asyncio.get_running_loop().create_task(background()))

    runner = InMemoryRunner(agent("root", "hi", before_agent_callback=begin))
    thread = threading.Thread(target=lambda: runner.run_to_result_sync(**WHERE, new_message="go"))
    thread.start()
    thread.join()
    gc.collect()
    kept.clear()
    assert ended == [True]


@pytest.mark.parametrize("threads", [1, 3])
def test_the_client_of_a_service_is_used_again_and_again(threads: int) -> None:
    """The Gemini adapter over a real connection."""
    with WireServer(*[whole(text("hello"))] * 12) as server:
        model = adapter(server)
        runner = InMemoryRunner(LlmAgent(name="root", model=model))

        def work(n: int) -> list[str]:
            where: Any = {"user_id": "u", "session_id": f"s{n}"}
            first = runner.run_to_result_sync(**where, new_message="a").text
            second = runner.run_stateless_sync("b").text
            third = [event.text for event in runner.run(**where, new_message="c")]
            return [first, second, *third]

        with ThreadPoolExecutor(threads) as pool:
            assert list(pool.map(work, range(4))) == [["hello"] * 3] * 4
        gc.collect()
        asyncio.run(model.aclose())
