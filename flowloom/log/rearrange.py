"""Putting function responses behind their calls (spec §9.6, §9.7).

Responses may come late, in pieces, or more than once: a long-running tool reports again, a person confirms, a
session is resumed. Models want each call followed by one content that answers it.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count
from typing import NamedTuple

from google.genai import types

from flowloom.events.ids import CLIENT_CALL_PREFIX
from flowloom.events.parts import content_of, parts_of
from flowloom.log.item import HistoryItem


class Arranged(NamedTuple):
    """The contents in order, and what had to be said about them."""

    contents: list[types.Content]
    orphans: list[str]
    drops_between: bool
    """Whether items were left out only because the latest one answers an earlier call."""


class _Answer(NamedTuple):
    """The part of a response item that answers one call item."""

    item: int
    keys: dict[int, str]
    """By which key each of the item's responses is known, by its number among them; without those to other calls."""


def rearrange(items: list[HistoryItem]) -> Arranged:
    """The contents of `items`, each response moved to right behind its call, the latest of several kept.

    When the last item answers a call that is not directly before it, what lies between is left out, unless it
    belongs to other calls (§9.6): the model is to go on from where it called. A response that answers nothing
    is left out, and the text beside it kept (decision 30).
    """
    answers, orphans, loose = _pair(items)
    resumed = _call_resumed(items, answers, loose)
    contents: list[types.Content] = []
    for index, item in enumerate(items):
        if resumed is not None and index > resumed and not (item.calls or item.beside_answer):
            continue
        if index in loose:
            contents.extend(item.beside_responses())
        if item.responses:
            continue
        contents.append(item.content)
        found = answers.get(index)
        if found:
            contents.append(_merge(items, item, found if index == resumed else _latest(found)))
    return Arranged(contents, orphans, drops_between=resumed is not None)


def _call_resumed(items: list[HistoryItem], answers: dict[int, list[_Answer]], loose: set[int]) -> int | None:
    """The call item that the last item answers late, behind others; responses to no call do not count as those."""
    last = len(items) - 1
    called = max((call for call, found in answers.items() if any(each.item == last for each in found)), default=None)
    before = last - 1
    while before in loose:
        before -= 1
    return None if called == before else called


def _pair(items: list[HistoryItem]) -> tuple[dict[int, list[_Answer]], list[str], set[int]]:
    """Which items answer which call items; ids of orphans; items of nothing but orphans, and perhaps words.

    A response belongs to the latest call of its id before it, so an id that a model uses twice is no problem.
    Without an id it belongs to the first unanswered call without one of the latest call item.
    """
    call_of: dict[str, int] = {}
    nameless: list[tuple[int, str]] = []
    answers: dict[int, list[_Answer]] = {}
    orphans: list[str] = []
    loose: set[int] = set()
    for index, item in enumerate(items):
        if item.calls:
            nameless = [(index, f"#{position}") for position, call_id in enumerate(item.calls) if not call_id]
            call_of.update((call_id, index) for call_id in item.calls)
        by_call: dict[int, dict[int, str]] = {}
        for number, response_id in enumerate(item.responses):
            if response_id:
                call, key = call_of.get(response_id), response_id
            else:
                call, key = nameless.pop(0) if nameless else (None, "")
            if call is None:
                orphans.append(response_id)
            else:
                by_call.setdefault(call, {})[number] = key
        if item.responses and not by_call:
            loose.add(index)
        for call, keys in by_call.items():
            answers.setdefault(call, []).append(_Answer(index, keys))
    return answers, orphans, loose


def _latest(found: list[_Answer]) -> list[_Answer]:
    """Those of the answers to one call item that hold the latest response to one of its calls."""
    latest = {key: answer.item for answer in found for key in answer.keys.values()}
    wanted = set(latest.values())
    return [answer for answer in found if answer.item in wanted]


def _merge(items: list[HistoryItem], asked: HistoryItem, found: list[_Answer]) -> types.Content:
    """One content out of answers to one call item (§9.7b): later ones replace parts in place.

    Where ids are left out for the model, only their order tells the answers to calls of one name apart.
    """
    first = items[found[0].item]
    if len(found) == 1:
        keys = [*found[0].keys.values()]
        if len(keys) == len(first.responses) and keys == _in_call_order(keys, asked):
            return first.content
    parts: list[types.Part] = []
    positions: dict[str, int] = {}  # of the answer to each call, in `parts`
    for answer in found:
        beside: list[types.Part] = []
        for part, key in _answering(items[answer.item], answer.keys):
            if key is None:
                (parts if answer is found[0] else beside).append(part)
            elif key in positions:
                parts[positions[key]] = part
            else:
                positions[key] = len(parts)
                parts.append(part)
        parts.extend(beside)
    in_order = [parts[positions[key]] for key in _in_call_order(list(positions), asked)]
    for index, part in zip(positions.values(), in_order, strict=True):
        parts[index] = part
    return content_of(first.content.role, parts)


def _answering(item: HistoryItem, keys: dict[int, str]) -> Iterator[tuple[types.Part, str | None]]:
    """The parts of an item with the keys of the calls that they answer; None for other parts.

    Responses to calls of other items are left out.
    """
    numbers = count()
    for part in parts_of(item.content):
        if part.function_response is None:
            yield part, None
        elif (number := next(numbers)) in keys:
            yield part, keys[number]


def _in_call_order(keys: list[str], asked: HistoryItem) -> list[str]:
    """The keys of answers, each once; those of calls of one name, whose ids were minted here, as they were called."""
    calls = [part.function_call for part in parts_of(asked.content) if part.function_call is not None]
    names = {call_id: call.name for call_id, call in zip(asked.calls, calls, strict=True)}
    order = list(dict.fromkeys(keys))
    places: dict[str | None, list[int]] = {}
    for index, key in enumerate(order):
        if key.startswith(CLIENT_CALL_PREFIX):
            places.setdefault(names.get(key), []).append(index)
    for indices in places.values():
        given = {order[index] for index in indices}
        in_order = [call_id for call_id in dict.fromkeys(asked.calls) if call_id in given]
        for index, key in zip(indices, in_order, strict=True):
            order[index] = key
    return order
