"""Putting function responses behind their calls (spec §9.6, §9.7).

Responses may come late, in pieces, or more than once: a long-running tool reports again, a person confirms, a
session is resumed. Models want each call followed by one content that answers it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from google.genai import types

from flowloom.events.ids import CLIENT_CALL_PREFIX
from flowloom.events.parts import content_of


@dataclass(slots=True)
class HistoryItem:
    """One event's share of the history, already filtered for its viewer."""

    content: types.Content
    calls: list[str]
    """Ids of the function calls in it, in order; empty text for a call without an id."""
    responses: list[str]
    """Ids of the function responses in it, in order."""
    unanswered: frozenset[str] = frozenset()
    """Ids of the calls that must have a response to be shown: all but long-running ones."""
    foreign: bool = False
    beside_answer: bool = False
    """Whether a person said it in the message that decided about a call: it stays, whatever that call comes to."""
    transcription: str | None = None
    """The speaker's role, for the transcription of speech."""

    def without_calls(self, ids: frozenset[str]) -> HistoryItem | None:
        """The item without some of its calls, which models refuse without a response; None if nothing is left."""
        if not ids:
            return self
        parts = [p for p in self.content.parts or () if p.function_call is None or p.function_call.id not in ids]
        if not parts:
            return None
        calls = [call for call in self.calls if call not in ids]
        return HistoryItem(content_of(self.content.role, parts), calls, self.responses)


@dataclass(slots=True)
class Arranged:
    """The contents in order, and what had to be said about them."""

    contents: list[types.Content]
    orphans: list[str] = field(default_factory=list[str])
    drops_between: bool = False
    """Whether items were left out only because the latest one answers an earlier call."""


@dataclass(slots=True)
class _Answer:
    """The part of a response item that answers one call item."""

    item: int
    keys: list[str]


def rearrange(items: list[HistoryItem]) -> Arranged:
    """The contents of `items`, each response moved to right behind its call, the latest of several kept.

    When the last item answers a call that is not directly before it, what lies between is left out, unless it
    belongs to other calls (§9.6): the model is to go on from where it called. A response that answers nothing
    is left out, and the text beside it kept (decision 30).
    """
    if not any(item.responses for item in items):
        return Arranged([item.content for item in items])
    answers, orphans, loose = _pair(items)
    result = Arranged([], orphans)
    last = len(items) - 1
    skipped: set[int] = set()
    whole: int | None = None  # the call item all of whose responses are merged, not only the latest
    called_by_last = [call for call, found in answers.items() if any(a.item == last for a in found)]
    if called_by_last and max(called_by_last) != _previous_item(items, last, loose):
        whole = max(called_by_last)
        for index in range(whole + 1, last):
            item = items[index]
            if not item.calls and not item.beside_answer and (not item.responses or index in loose):
                skipped.add(index)
        result.drops_between = True
    for index, item in enumerate(items):
        if index in skipped:
            continue
        if item.responses:
            if index in loose:
                rest = [part for part in item.content.parts or () if part.function_response is None]
                if rest:
                    result.contents.append(content_of(item.content.role, rest))
            if not item.calls:
                continue
        result.contents.append(item.content)
        found = answers.get(index)
        if found:
            result.contents.append(_merge(items, item, found, every=index == whole))
    return result


def _previous_item(items: list[HistoryItem], last: int, loose: set[int]) -> int:
    """The item before the last, responses that answer nothing not counted."""
    index = last - 1
    while index > 0 and index in loose:
        index -= 1
    return index


def _pair(items: list[HistoryItem]) -> tuple[dict[int, list[_Answer]], list[str], set[int]]:
    """Which items answer which call items; ids of orphans; items all of whose responses are orphans.

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
            call_of.update((call_id, index) for call_id in item.calls if call_id)
        by_call: dict[int, list[str]] = {}
        for response_id in item.responses:
            if response_id:
                call = call_of.get(response_id)
                key = response_id
            else:
                call, key = nameless.pop(0) if nameless else (None, "")
            if call is None or call == index:
                orphans.append(response_id)
                by_call.setdefault(-1, []).append(key)
            else:
                by_call.setdefault(call, []).append(key)
        orphan_keys = by_call.pop(-1, None)
        if orphan_keys and not by_call:
            loose.add(index)
        for call, keys in by_call.items():
            answers.setdefault(call, []).append(_Answer(index, keys))
    return answers, orphans, loose


def _merge(items: list[HistoryItem], asked: HistoryItem, found: list[_Answer], *, every: bool) -> types.Content:
    """One content out of all answers to one call item (§9.7b): later ones replace parts in place.

    Where ids are left out for the model, only their order tells the answers to calls of one name apart.
    """
    if not every:
        latest: dict[str, int] = {}
        for answer in found:
            for key in answer.keys:
                latest[key] = answer.item
        wanted = set(latest.values())
        found = [answer for answer in found if answer.item in wanted]
    first = found[0]
    in_order = len(found) == 1 and first.keys == _in_call_order(first.keys, asked)
    if in_order and len(first.keys) == len(items[first.item].responses):
        return items[first.item].content
    parts: list[types.Part] = []
    place: dict[str, int] = {}
    for number, answer in enumerate(found):
        keys = iter(answer.keys)
        mine = set(answer.keys)
        ids = iter(items[answer.item].responses)
        texts: list[types.Part] = []
        for part in items[answer.item].content.parts or ():
            if part.function_response is None:
                (parts if number == 0 else texts).append(part)
                continue
            response_id = next(ids)
            if response_id and response_id not in mine:
                continue
            key = next(keys, response_id)
            if key in place:
                parts[place[key]] = part
            else:
                place[key] = len(parts)
                parts.append(part)
        parts.extend(texts)
    in_order = [parts[place[key]] for key in _in_call_order(list(place), asked)]
    for index, part in zip(sorted(place.values()), in_order, strict=True):
        parts[index] = part
    return content_of(items[found[0].item].content.role, parts)


def _in_call_order(keys: list[str], asked: HistoryItem) -> list[str]:
    """The keys of answers, each once; those of calls of one name, whose ids were minted here, as they were called."""
    calls = [part.function_call for part in asked.content.parts or () if part.function_call is not None]
    names = {call_id: call.name for call_id, call in zip(asked.calls, calls, strict=True)}
    order = list(dict.fromkeys(keys))
    places: dict[str | None, list[int]] = {}
    for index, key in enumerate(order):
        if key.startswith(CLIENT_CALL_PREFIX):
            places.setdefault(names.get(key), []).append(index)
    for name, indices in places.items():
        given = {order[index] for index in indices}
        in_order = [call_id for call_id in dict.fromkeys(asked.calls) if names[call_id] == name and call_id in given]
        for index, key in zip(indices, in_order, strict=True):
            order[index] = key
    return order
