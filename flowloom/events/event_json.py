"""Events from the JSON of any ADK server: as much of them as can be read."""

from __future__ import annotations

import json
import re
from typing import Any, cast

import pydantic_core

from flowloom.errors import EventParseError
from flowloom.events.event import Event, NodeInfo, read_time
from flowloom.events.json_data import without_halves
from flowloom.events.json_reader import API_NAMES, REFUSED, Rest, entries_of, model_reader, problem_of, reader_of
from flowloom.events.wire import keep_below

_PLACE = re.compile(r"line \d+ column \d+")
_NESTING = re.compile(r'"(?:[^"\\]|\\.)*+"?|[\[\]{}]', re.DOTALL)
_DEPTH = 160  # more than is kept of what a model says, so that it is seen to be too deep; readers end at 200
_SURROGATE = re.compile(r"\\u[dD][89a-fA-F]")


# -- JSON ------------------------------------------------------------------------------------------


def read_json(payload: str | bytes, *, strict: bool, any_depth: bool = False) -> Any:
    """The value of a JSON text; raises `EventParseError`.

    Unless `strict`, bytes that are not UTF-8 and halves of surrogate pairs become U+FFFD. With `any_depth`, what is
    nested deeper than any reader goes becomes its text.
    """
    try:
        return pydantic_core.from_json(payload, cache_strings="keys")
    except ValueError as error:
        problem = str(error)
        text = payload.decode("utf-8", "replace") if isinstance(payload, bytes) else without_halves(payload)
        if not strict:
            try:
                if any_depth and "recursion limit" in problem:
                    text = _without_depths(text)
                if _SURROGATE.search(text):
                    text = without_halves(json.dumps(json.loads(text), ensure_ascii=False))
                if text != payload:
                    return pydantic_core.from_json(text, cache_strings="keys")
            except (ValueError, RecursionError):
                pass  # the first problem is the one to tell
        found = _PLACE.search(problem)
        place = found[0] if found else ""
        raise EventParseError(f"The data of an event is not JSON: {problem}.", place=place) from error


def _without_depths(text: str) -> str:
    """JSON text in which what is nested deeper than `_DEPTH` is a string."""
    pieces: list[str] = []
    depth = taken = begin = 0
    for token in _NESTING.finditer(text):
        if token[0] in ("[", "{"):
            depth += 1
            if depth == _DEPTH:
                begin = token.start()
        elif token[0] in ("]", "}"):
            if depth == _DEPTH:
                pieces += [text[taken:begin], json.dumps(text[begin : token.end()])]
                taken = token.end()
            depth -= 1
    return "".join([*pieces, text[taken:]])


# -- events ----------------------------------------------------------------------------------------


def _read_node_info(value: Any, rest: Rest) -> NodeInfo | None:
    """None for an object without information (spec §0.6)."""
    if value is None or (isinstance(value, dict) and not any(cast(dict[str, Any], value).values())):
        return None
    return cast(NodeInfo, model_reader(NodeInfo)(value, rest))


_EVENT = reader_of(Event, {"timestamp": lambda value, rest: read_time(value), "node_info": _read_node_info})


class _Noted(Rest):
    """What cannot be taken is noted, and left out."""

    def __init__(self, data: dict[str, Any]) -> None:
        self._ways = _ways_in(data)
        self.unknown_below: dict[tuple[str | int, ...], Any] = {}
        self.misfits: dict[str, str] = {}

    def unknown(self, data: dict[str, Any], key: str) -> None:
        self.unknown_below[*self._ways[id(data)], key] = data[key]

    def unfit(self, data: Any, key: str | int, error: Exception) -> None:
        self.misfits[_place_of(*self._ways[id(data)], key)] = problem_of(error)


def read_event(data: dict[str, Any]) -> tuple[Event, dict[str, str]]:
    """The event of a JSON object; and of each value that had to be left out of it, what was wrong with it, by its
    place. What types of google-genai do not know is kept (decision 25)."""
    data = _without_error(data)
    try:
        return _EVENT(data, REFUSED), {}
    except (ValueError, TypeError):
        rest = _Noted(data)
        return keep_below(_EVENT(data, rest), rest.unknown_below), rest.misfits


def validated_event(data: dict[str, Any]) -> Event:
    """The event of a JSON object; raises `EventParseError`, which names the places, if a value is of a wrong type."""
    event, wrong = read_event(data)
    if wrong:
        told = "; ".join(f"`{place}`: {problem}" for place, problem in wrong.items())
        raise EventParseError(f"The data is not an event: {told}.", place=next(iter(wrong)))
    return event


def _ways_in(data: Any) -> dict[int, tuple[Any, ...]]:
    """The way to each list and object in JSON data, by its identity."""
    ways: dict[int, tuple[Any, ...]] = {id(data): ()}
    holders: list[Any] = [data]
    for held in holders:  # grows meanwhile
        for key, value in entries_of(held):
            ways[id(value)] = (*ways[id(held)], API_NAMES.get(key, key))
            holders += [value] if isinstance(value, dict | list) else []
    return ways


def _place_of(*way: str | int) -> str:
    place = ""
    for step in way:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else step
    return place


def _without_error(data: dict[str, Any]) -> dict[str, Any]:
    """`error` of an event is an exception object, which JSON does not have; a text of that name is its message."""
    names = [name for name in data if name == "error" or name == "Error"]
    if not names:
        return data
    kept = {name: value for name, value in data.items() if name not in names}
    message: Any = data[names[0]]
    if isinstance(message, str) and not (kept.get("errorMessage") or kept.get("error_message")):
        kept["errorMessage"] = message
        if not (kept.get("errorCode") or kept.get("error_code")):
            kept["errorCode"] = "ERROR"
    return kept
