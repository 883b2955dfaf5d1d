"""Runs side by side on one session, in any order of their events: nothing is lost, and what a model sees is legal."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kit import STREAMED, WHERE, Chat, examples, requests_of

from flowloom import Event, InMemorySessionService, LlmAgent, LlmRequest, RunConfig, ToolContext
from flowloom.testing import ScriptedModel, call


def note(run: int, step: int, tool_context: ToolContext) -> str:
    """Keep that a run has come so far."""
    tool_context.state[f"run{run}"] = step
    return f"run {run} step {step}"


def chat_of(run: int, steps: int, service: InMemorySessionService) -> Chat:
    """A run of so many steps of two calls each; all runs are of one and the same agent."""
    calls = [[call("note", run=run, step=step), call("note", run=run, step=step)] for step in range(steps)]
    model = ScriptedModel([*calls, f"run {run} done", "next turn"], stream_chunks=True)
    chat = Chat(LlmAgent(name="root", model=model, tools=[note]), concurrency="allow")
    chat.runner.session_service = service
    return chat


async def interleaved(
    chats: list[Chat], order: list[int], config: RunConfig | None
) -> tuple[list[list[str]], list[Event]]:
    """The ids of the complete events that each run yielded, and the log, after taking the runs' events in `order`."""
    live: dict[int, AsyncGenerator[Event, None]] = {
        n: chat.runner.run_async(**WHERE, new_message=f"go {n}", run_config=config) for n, chat in enumerate(chats)
    }
    yielded: list[list[str]] = [[] for _ in chats]
    turns = iter(order)
    while live:
        number = sorted(live)[next(turns, 0) % len(live)]
        event = await anext(live[number], None)
        if event is None:
            del live[number]
        elif not event.partial:
            yielded[number].append(event.id)
    return yielded, await chats[0].stored()


def check_legal(request: LlmRequest) -> None:
    """Each content that calls is followed by one that answers all of its calls, and nothing else answers."""
    asked: list[Any] = []
    for content in request.contents:
        parts = content.parts or []
        assert [p.function_response.response for p in parts if p.function_response is not None] == asked
        called = [p.function_call for p in parts if p.function_call is not None]
        asked = [{"result": f"run {each.args['run']} step {each.args['step']}"} for each in called if each.args]
    assert asked == []


STEPS = st.lists(st.integers(0, 3), min_size=2, max_size=4)
ORDER = st.lists(st.integers(0, 3), max_size=30)


@settings(max_examples=examples(80), deadline=None)
@given(steps=STEPS, order=ORDER, streamed=st.booleans())
def test_any_interleaving_of_runs_loses_nothing(steps: list[int], order: list[int], streamed: bool) -> None:
    """Every complete event is stored once, in its run's order; all state is there; the next turn goes on from all."""

    async def check() -> None:
        service = InMemorySessionService()
        await service.create_session(app_name="app", **WHERE)
        chats = [chat_of(run, count, service) for run, count in enumerate(steps)]
        yielded, stored = await interleaved(chats, order, STREAMED if streamed else None)
        ids = [event.id for event in stored]
        assert len(ids) == len(set(ids)) == sum(map(len, yielded)) + len(chats)
        for mine in yielded:
            assert [each for each in ids if each in set(mine)] == mine
        assert await chats[0].state() == {f"run{n}": count - 1 for n, count in enumerate(steps) if count}
        for chat in chats:
            await chat.say("and now?")
            root = chat.runner.agent
            assert isinstance(root, LlmAgent)
            check_legal(requests_of(root)[-1])

    asyncio.run(check())


@settings(max_examples=examples(40), deadline=None)
@given(steps=STEPS, order=ORDER)
def test_what_each_run_is_shown_while_others_write_is_legal(steps: list[int], order: list[int]) -> None:
    """A call of another run that has no answer yet is not shown."""

    async def check() -> None:
        service = InMemorySessionService()
        await service.create_session(app_name="app", **WHERE)
        chats = [chat_of(run, count, service) for run, count in enumerate(steps)]
        await interleaved(chats, order, None)
        for chat in chats:
            root = chat.runner.agent
            assert isinstance(root, LlmAgent)
            for request in requests_of(root):
                check_legal(request)

    asyncio.run(check())
