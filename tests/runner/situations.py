"""Agents that stop at a given point, and what holds of every run however it has ended."""

from __future__ import annotations

import asyncio
import threading
from collections import Counter
from collections.abc import AsyncGenerator, Iterable
from typing import Any

from google.genai import types
from kit import WHERE, Chat, collect

from flowloom import BaseLlm, Event, LlmRequest, LlmResponse, RunHandle, RunResult
from flowloom.testing.scripted import response_of

__all__ = ["ByTurn", "Gate", "Gated", "ended_events", "go_on", "held", "legal", "nothing_left", "told"]


class Gate:
    """A point that the run reaches, and leaves when it is told to."""

    def __init__(self) -> None:
        self.reached = asyncio.Event()
        self.open = asyncio.Event()

    async def __call__(self, *_: Any, **__: Any) -> None:
        """Wait until the gate is opened."""
        self.reached.set()
        await self.open.wait()

    async def look(self) -> dict[str, bool]:
        """Wait at the gate, as a tool."""
        await self()
        return {"seen": True}


class Gated(BaseLlm):
    """Gives the answer whose turn it is, as many as the history says that it gave before; waits at the gate before the
    answer of one turn, or in the middle of its stream."""

    answers: list[Any]
    gate: Any = None
    turn: int = 0
    midway: bool = False
    asked: list[LlmRequest] = []  # noqa: RUF012 - pydantic copies it

    def __init__(self, *answers: Any, **fields: Any) -> None:
        super().__init__(model="gated", answers=list(answers), asked=[], **fields)  # type: ignore[call-arg]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        turn = sum(content.role == "model" for content in llm_request.contents)
        self.asked.append(llm_request)
        answer = self.answers[min(turn, len(self.answers) - 1)]
        if isinstance(answer, Exception):
            raise answer
        response = response_of(answer)
        here = self.gate is not None and turn == self.turn
        if here and self.midway:
            half = types.Content(role="model", parts=[types.Part(text="half")])
            yield LlmResponse(content=half, partial=True)
        if here:
            await self.gate()
        yield response


def ByTurn(*answers: Any) -> Gated:
    """A model without a gate."""
    return Gated(*answers)


def held(chat: Chat, message: Any = "go", **options: Any) -> RunHandle:
    """A run of the chat, as a thing that one holds."""
    options.setdefault("run_config", chat.config)
    return chat.runner.start(user_id="ann", session_id=chat.session_id, new_message=message, **options)


async def go_on(chat: Chat, invocation_id: str, **options: Any) -> list[Event]:
    """Go on with an invocation from the log."""
    return await collect(chat.runner.run_async(**WHERE, invocation_id=invocation_id, **options))


def legal(events: Iterable[Event]) -> None:
    """Assert that every call that does not wait has exactly one result, and no result is without a call."""
    calls: Counter[str | None] = Counter()
    waiting: set[str | None] = set()
    results: Counter[str | None] = Counter()
    ids: list[str] = []
    for event in events:
        ids.append(event.id)
        calls.update(call.id for call in event.get_function_calls())
        waiting |= set(event.long_running_tool_ids or ())
        waiting |= {event.isolation_scope} if "agent_tool_call_id" in (event.custom_metadata or ()) else set()
        results.update(answer.id for answer in event.get_function_responses())
    assert len(set(ids)) == len(ids)
    assert set(results) <= set(calls)
    assert {call for call in calls if results[call] != 1} <= waiting, (calls, results)
    assert max(calls.values(), default=0) <= 1


def ended_events(events: Iterable[Event]) -> list[str]:
    """What the events that tell of a run's end say."""
    return [e.custom_metadata["run_ended"] for e in events if e.custom_metadata and "run_ended" in e.custom_metadata]


def told(result: RunResult) -> tuple[str, str]:
    """Status and text."""
    return result.status, result.text


def nothing_left() -> None:
    """Assert that no task and no thread of a run is there any more."""
    others = asyncio.all_tasks() - {asyncio.current_task()}
    assert others == set()
    assert [each.name for each in threading.enumerate() if each.name.startswith("flowloom:")] == []
