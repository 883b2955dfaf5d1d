"""What an event shows of itself: a short line, and a table for notebooks."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import Any

from flowloom.events.actions import EventActions
from flowloom.events.parts import parts_of
from flowloom.events.response import LlmResponse
from flowloom.objects.notebook import clipped, line, quoted, table

_MOST_EVENTS = 200
"""How many events a table shows."""
_MOST_PARTS = 100
"""How many parts of an event a table shows."""
_MOST_NAMES = 60
"""How many characters of names a line shows."""

Row = tuple[str, str]
"""What a table has of an event, by its name."""


def line_of(event: LlmResponse, author: str) -> str:
    """The event of an author in one short line. Calls and results are named, without their values."""
    partial = "(partial)" if event.partial else ""
    return line([type(event).__name__, f"of {quoted(author)}", partial, *words_of(event)])


def words_of(event: LlmResponse) -> Iterator[str]:
    """What the event says and does, in a few words."""
    calls, answers = event.get_function_calls(), event.get_function_responses()
    if event.text:
        yield quoted(event.text)
    if calls:
        yield "calls " + _names(calls)
    if answers:
        yield "results of " + _names(answers)
    if event.error_code:
        yield f"error {clipped(event.error_code, _MOST_NAMES)}"


def _names(named: Iterable[Any]) -> str:
    return clipped(", ".join(str(each.name) for each in islice(named, _MOST_NAMES)), _MOST_NAMES)


def table_of(event: LlmResponse, author: str, actions: EventActions, place: Iterable[Row]) -> str:
    """The event of an author as a table, for notebooks: what it says and does, and its place."""
    partial = [("partial", "yes")] if event.partial else []
    return table(f"{type(event).__name__} of {author}", [*_contents(event), *partial, *_effects(actions), *place])


def table_of_all(title: str, facts: Iterable[Row], events: Sequence[tuple[str, LlmResponse]]) -> str:
    """Facts, and events with their authors, as a table; of very many events the last."""
    left = len(events) - _MOST_EVENTS
    rows = [*facts]
    if left > 0:
        rows.append(("…", f"{left:,} earlier events"))
    for author, event in events[max(left, 0) :]:
        told = "\n".join(f"{what}: {value}" if what != "text" else value for what, value in _contents(event))
        rows.append((author, told))
    return table(title, rows)


def _contents(event: LlmResponse) -> Iterator[Row]:
    """What an event says, in order."""
    parts = parts_of(event.content)
    for part in islice(parts, _MOST_PARTS):
        call, answer = part.function_call, part.function_response
        if part.text:
            yield "thought" if part.thought else "text", part.text
        elif call is not None:
            yield "calls", f"{call.name}({', '.join(f'{k}={_json(v)}' for k, v in (call.args or {}).items())})"
        elif answer is not None:
            yield "result", f"{answer.name}: {_json(answer.response)}"
        else:
            yield "part", ", ".join(sorted(part.model_fields_set - {"thought", "thought_signature"}))
    if len(parts) > _MOST_PARTS:
        yield "…", f"{len(parts) - _MOST_PARTS:,} more parts"
    if event.error_code:
        yield "error", f"{event.error_code}: {event.error_message or ''}"


def _effects(actions: EventActions) -> Iterator[Row]:
    if actions.state_delta:
        yield "state", _json(actions.state_delta)
    if actions.artifact_delta:
        yield "artifacts", _json(actions.artifact_delta)
    if actions.transfer_to_agent:
        yield "hands over to", actions.transfer_to_agent


def _json(value: Any) -> str:
    try:
        return json.dumps(value, ensure_ascii=False, default=repr)
    except (TypeError, ValueError, RecursionError):
        return repr(value)
