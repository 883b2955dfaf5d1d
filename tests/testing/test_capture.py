"""What happens in the runs that some code begins."""

from __future__ import annotations

import asyncio

import pytest
from kit import Chat, agent, call, collect, hand_to

from flowloom import Flow, InMemoryRunner
from flowloom.testing import CapturedRun, capture_run


async def product(question: str) -> str:
    """Code that hides its runner."""
    child = agent("child", "From below.", description="Below.")
    root = agent("root", hand_to("child"), sub_agents=[child])
    return (await collect(InMemoryRunner(root).run_async(user_id="u", session_id="s", new_message=question)))[-1].text


async def test_requests_events_and_processors_of_a_hidden_run() -> None:
    with capture_run() as run:
        await product("hi")
    assert run.agents == ["root", "child"]
    assert run.requests_of("child") == [run.requests[1]]
    assert run.final_text == "From below."
    assert [each.author for each in run.events] == ["user", "root", "root", "child"]
    assert [each.name for each in run.processors if each.agent == "root"][:2] == ["basic", "tools"]


async def test_nothing_is_kept_of_runs_before_and_after() -> None:
    with capture_run() as run:
        pass
    await product("hi")
    assert run == CapturedRun()


async def test_what_happened_before_an_error_is_there() -> None:
    def broken(ctx: object, request: object) -> None:
        raise ZeroDivisionError

    with capture_run() as run, pytest.raises(ZeroDivisionError):
        await Chat(agent("root", flow=Flow().with_processor(broken))).say("hi")
    assert run.calls == []
    assert isinstance(run.processors[-1].error, ZeroDivisionError)
    assert run.events[-1].error_code == "ZeroDivisionError"


async def test_requests_stay_as_they_were_when_the_model_was_asked() -> None:
    def add(a: int) -> int:
        """Add."""
        return a

    with capture_run() as run:
        await Chat(agent("root", call("add", a=1), "2", tools=[add])).say("hi")
    assert [len(request.contents) for request in run.requests] == [1, 3]


async def test_runs_of_tools_and_of_other_tasks_are_captured() -> None:
    root = agent("root", call("inner", request="x"), "done", tools=[agent("inner", "in")])
    with capture_run() as run:
        await asyncio.gather(Chat(root).say("hi"), product("hi"))
    assert sorted(run.agents) == ["child", "inner", "root", "root", "root"]


async def test_the_fixture_captures_the_whole_test(captured_run: CapturedRun) -> None:
    await product("hi")
    assert captured_run.agents == ["root", "child"]
