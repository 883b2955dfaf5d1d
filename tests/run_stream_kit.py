"""Events of runs, and the typed events made of them as short lines."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import kit
from google.genai import types

from flowloom import Event
from flowloom.run_stream import (
    AgentFinished,
    AgentStarted,
    AgentTransferred,
    ConfirmationRequested,
    CredentialRequested,
    ErrorReported,
    InputRequested,
    MessageCompleted,
    RequestAnswered,
    RunFailed,
    RunFinished,
    RunStarted,
    RunStatus,
    RunStreamEvent,
    RunStreamMapper,
    StateChanged,
    TextDelta,
    ThoughtDelta,
    ToolCallArgumentsCompleted,
    ToolCallArgumentsDelta,
    ToolCallFinished,
    ToolCallProgress,
    ToolCallStarted,
    UsageReported,
)


def whole(author: str, *parts: types.Part | str, **fields: Any) -> Event:
    """A complete event of invocation `i1`."""
    return kit.event(author, *parts, **{"invocation_id": "i1", **fields})


def piece(author: str, *parts: types.Part | str, **fields: Any) -> Event:
    """A partial event of invocation `i1`."""
    return whole(author, *parts, partial=True, **fields)


def thought(text: str) -> types.Part:
    return kit.text(text, thought=True)


def call_piece(call_id: str | None, name: str | None, *pieces: dict[str, Any], more: bool = True) -> types.Part:
    """A piece of a call whose arguments stream."""
    partial_args = [types.PartialArg(**each) for each in pieces] or None
    return types.Part(
        function_call=types.FunctionCall(id=call_id, name=name, partial_args=partial_args, will_continue=more)
    )


def mapped(events: Iterable[Event], status: RunStatus | None = None) -> list[RunStreamEvent]:
    """All that a mapper says to these events."""
    mapper = RunStreamMapper()
    return [each for event in events for each in mapper.feed(event)] + mapper.finish(status)


def lines(stream: Iterable[RunStreamEvent]) -> list[str]:
    return [line(event) for event in stream]


def told(*events: Event, status: RunStatus | None = None) -> list[str]:
    """What a mapper says to these events, without the run's own beginning and end."""
    said = lines(mapped(events, status))
    assert said[0] == "run i1"
    assert said[-1].startswith("end ")
    return said[1:-1]


def line(event: RunStreamEvent) -> str:
    match event:
        case RunStarted():
            return f"run {event.invocation_id}"
        case RunFailed():
            return f"failed {event.error_code}: {event.error_message}"
        case RunFinished():
            return f"end {event.status}"
        case ErrorReported():
            return f"error {event.error_code} of {event.agent}"
        case AgentStarted():
            return f"+{event.agent}"
        case AgentFinished():
            return f"-{event.agent}"
        case AgentTransferred():
            return f"{event.from_agent} => {event.to_agent}"
        case ThoughtDelta():
            return f"{event.author}~ ({event.text})"
        case TextDelta():
            return f"{event.author}~ {event.text}"
        case MessageCompleted():
            thoughts = f"({event.thoughts})" if event.thoughts else ""
            return f"{event.author}: {thoughts}{event.text}{' ...' if event.interrupted else ''}"
        case ToolCallStarted():
            return f"call {event.call_id} {event.name}{' long' if event.long_running else ''}"
        case ToolCallArgumentsDelta():
            return f"{event.call_id} {event.path} {event.value!r}"
        case ToolCallArgumentsCompleted():
            return f"{event.call_id} {event.args}"
        case ToolCallProgress():
            return f"{event.call_id} .. {event.result}"
        case ToolCallFinished():
            return f"{event.call_id} -> {event.error or event.result}"
        case ConfirmationRequested():
            return f"confirm {event.request_id}: {event.call_id} {event.name} {event.args} {event.hint}"
        case InputRequested():
            return f"ask {event.request_id}: {event.message}"
        case CredentialRequested():
            return f"log in {event.request_id}: {event.auth_uri}"
        case RequestAnswered():
            return f"answered {event.request_id} {event.kind}: {event.response}"
        case StateChanged():
            return f"state {event.delta} {event.artifacts}"
        case UsageReported():
            return f"tokens {event.usage.total_tokens} of {event.total.total_tokens}"
        case _:
            raise AssertionError(event)
