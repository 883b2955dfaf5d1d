"""Events from the JSON of any ADK server: by readers, by validation, or as much of them as can be read."""

from __future__ import annotations

import copy
import json
import re
import warnings
from collections.abc import Sequence
from typing import Any, cast

import pydantic_core
from pydantic import ValidationError

from flowloom.errors import EventParseError
from flowloom.events.event import Event, NodeInfo, read_time
from flowloom.events.json_reader import MisfitError, model_reader, reader_of
from flowloom.events.wire import way_to

_ROUNDS = 16
"""How often single values are left out of an event; one that is still wrong then loses whole fields."""
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


def without_halves(text: str) -> str:
    """A text with U+FFFD in the place of halves of surrogate pairs."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


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


def _read_node_info(value: Any, lossy: bool) -> NodeInfo | None:
    """None for an object without information (spec §0.6)."""
    if value is None or (isinstance(value, dict) and not any(cast(dict[str, Any], value).values())):
        return None
    return cast(NodeInfo, _NODE_INFO(value, lossy))


_NODE_INFO = model_reader(NodeInfo)
_EVENT = reader_of(Event, {"timestamp": lambda value, lossy: read_time(value), "node_info": _read_node_info})


def read_event(data: dict[str, Any]) -> tuple[Event, list[str]]:
    """The event of a JSON object, and the places of what had to be left out of it for being of a wrong type.

    Raises `EventParseError` if nothing helps.
    """
    data = _without_error(data)
    try:
        return cast(Event, _EVENT(data, False)), []
    except (ValueError, TypeError):
        try:
            return _salvaged(data)
        except (ValidationError, MisfitError) as error:
            raise _parse_error(error) from error


def validated_event(data: dict[str, Any]) -> Event:
    """The event of a JSON object, validated; raises `EventParseError`, which names the place."""
    try:
        return _validated(_without_error(data))
    except (ValidationError, MisfitError) as error:
        raise _parse_error(error) from error


def _parse_error(error: ValidationError | MisfitError) -> EventParseError:
    """The error that names the places of what does not fit."""
    if isinstance(error, MisfitError):
        found = [(_place_of(error.location), str(error))]
    else:
        problems = error.errors(include_url=False, include_context=False, include_input=False)
        found = [(_place_of(problem["loc"]), problem["msg"]) for problem in problems]
    wrong = "; ".join(f"`{place}`: {problem}" for place, problem in found)
    return EventParseError(f"The data is not an event: {wrong}.", place=found[0][0])


def _validated(data: dict[str, Any]) -> Event:
    """Raises `ValidationError` or `MisfitError`."""
    try:
        with warnings.catch_warnings():
            # google-genai warns of values of enums that it does not know
            warnings.simplefilter("ignore", UserWarning)
            return Event.model_validate(data)
    except AttributeError:
        _EVENT(data, True)  # google-genai fails on an enum that is no text without saying where it is: a reader does
        raise


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


def _salvaged(data: dict[str, Any]) -> tuple[Event, list[str]]:
    """The event without the values that validation refuses; of many, without the whole fields that they are in."""
    left_out: list[str] = []
    kept, rounds = data, 0
    while True:
        try:
            return _validated(kept), left_out
        except (ValidationError, MisfitError) as error:
            if kept is data:
                kept = copy.deepcopy(data)
            depth = None if rounds < _ROUNDS else 1
            dropped = [_drop(kept, location[:depth]) for location in _locations(error)]
            if not any(dropped):
                raise
            left_out += [place for place in dropped if place]
            rounds += 1


def _locations(error: ValidationError | MisfitError) -> list[Sequence[str | int]]:
    """Where the wrong values are, the last one first, so that taking one out of a list moves no other."""
    if isinstance(error, MisfitError):
        return [error.location]
    problems = error.errors(include_url=False, include_context=False, include_input=False)
    return [problem["loc"] for problem in reversed(problems) if problem["type"] != "extra_forbidden"]


def _drop(data: dict[str, Any], location: Sequence[str | int]) -> str | None:
    """Take what is at `location`, or the nearest thing around it, out of `data`; its place, or None."""
    way = way_to(data, location)
    if not way:
        return None
    parent, key = way[-1]
    del parent[key]
    return _place_of([step for _, step in way])


def _place_of(location: Sequence[str | int]) -> str:
    place = ""
    for step in location:
        place += f"[{step}]" if isinstance(step, int) else f".{step}" if place else step
    return place
