"""What was said and done in a session, as the chat shows it."""

from __future__ import annotations

import json
from collections.abc import Iterable

from google.genai import types

from flowloom.cli.display import Display, call_text
from flowloom.events import Event
from flowloom.pending import PendingCall, pending_calls


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
            told = "".join(part.text or "" for part in (content.parts if content else None) or ())
            display.page(f"(summary of what came before) {told}")
        elif event.author == "user":
            _show_message(display, event, asked)
        else:
            display.show(event)
    display.end_turn()


def _show_message(display: Display, event: Event, asked: dict[str, PendingCall]) -> None:
    for part in (event.content.parts if event.content is not None else None) or ():
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
