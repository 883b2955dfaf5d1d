"""What was said and done in a session, as the chat shows it."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterable, Iterator, Mapping
from typing import Any, cast

from google.genai import types

from flowloom.auth.fields import HIDDEN, is_secret_field
from flowloom.cli.display import Display, call_text
from flowloom.events import Event
from flowloom.events.parts import parts_of
from flowloom.events.shown import words_of
from flowloom.objects.notebook import count
from flowloom.runner.pending import PendingCall, pending_calls
from flowloom.sessions import State


def are_words(event: Event) -> bool:
    """Whether the user says something new, and does not only answer."""
    return event.author == "user" and not event.get_function_responses() and not event.actions.compaction


def show_events(display: Display, events: Iterable[Event], *, ids: bool = False) -> None:
    """Show stored events, each after its id if `ids` says so."""
    asked: dict[str, PendingCall] = {}
    for event in events:
        asked |= {call.id: call for call in pending_calls([event])}
        if ids:
            display.page(f"[{event.id}]")
        compaction, rewound = event.actions.compaction, event.actions.rewind_before_invocation_id
        if rewound:
            display.step(event.author, f"goes back to before the turn {rewound}")
        elif compaction is not None:
            content = compaction.compacted_content
            told = "".join(part.text or "" for part in parts_of(content))
            display.page(f"(summary of what came before) {told}")
        elif event.author == "user":
            _show_message(display, event, asked)
        else:
            display.show(event)
    display.end_turn()


def _show_message(display: Display, event: Event, asked: dict[str, PendingCall]) -> None:
    for part in parts_of(event.content):
        if part.text:
            display.user(part.text)
        elif part.function_response is not None:
            display.user(_answer_text(part.function_response, asked.get(part.function_response.id or "")))
        elif (data := part.inline_data or part.file_data) is not None:
            display.user(f"(a file, {data.mime_type})")


def _answer_text(answer: types.FunctionResponse, call: PendingCall | None) -> str:
    response = answer.response or {}
    if call is None or call.kind == "tool":
        return f"(result of {answer.name}) {_value(response)}"
    if call.kind == "credential":
        return f"(gives the credential for {call.name})"
    if call.kind == "input":
        return _value(response)
    reason = f": {response['reason']}" if response.get("reason") else ""
    return f"({'approves' if response.get('confirmed') else 'declines'} {call_text(call.name, call.args)}{reason})"


def _value(response: dict[str, object]) -> str:
    value = response["result"] if set(response) == {"result"} else response
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False, default=str)


def held(event: Event, waiting: Collection[PendingCall]) -> str:
    """What an event holds, on one line: calls and results by name, and which of its calls are among those `waiting`."""
    words = [*words_of(event), *_effects(event)]
    calls = {call.id for call in event.get_function_calls()}
    words += (f"waits for {_wanted(call)}" for call in waiting if call.id in calls)
    return "; ".join(words) or "nothing"


def _effects(event: Event) -> Iterator[str]:
    actions, parts = event.actions, parts_of(event.content)
    files = sum(part.inline_data is not None or part.file_data is not None for part in parts)
    if files:
        yield count(files, "file")
    if actions.compaction is not None:
        yield "a summary of what came before"
    if actions.rewind_before_invocation_id:
        yield f"goes back to before the turn {actions.rewind_before_invocation_id}"
    if actions.transfer_to_agent:
        yield f"hands over to {actions.transfer_to_agent}"
    if actions.state_delta:
        yield f"sets {', '.join(actions.state_delta)}"
    if actions.artifact_delta:
        yield f"saves {', '.join(actions.artifact_delta)}"
    if event.interrupted:
        yield "cut off"


def _wanted(call: PendingCall) -> str:
    return f"the result of {call.name}" if call.kind == "tool" else f"the {call.kind} of {call.name}"


def shown_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """State as it may be shown, by name: without what is of one turn, and without the secrets of credentials in it."""
    return {key: _without_secrets(key, state[key]) for key in sorted(state) if not key.startswith(State.TEMP_PREFIX)}


def _without_secrets(key: str, value: Any) -> Any:
    if value and is_secret_field(key.rpartition(":")[2]):
        return HIDDEN
    if isinstance(value, dict):
        return {name: _without_secrets(str(name), each) for name, each in cast(dict[Any, Any], value).items()}
    if isinstance(value, list):
        return [_without_secrets("", each) for each in cast(list[Any], value)]
    return value
