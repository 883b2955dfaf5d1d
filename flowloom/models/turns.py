"""A conversation in the form that all providers ask for. Contents are only read."""

from __future__ import annotations

import hashlib
import re
from collections import deque
from collections.abc import Iterator, Sequence

from google.genai import types

from flowloom.events.parts import content_of, response_part, text_part
from flowloom.events.wire import replace
from flowloom.models.contents import SharedContents
from flowloom.models.request import LlmRequest

CONTINUE = "Please continue from where you stopped."
"""The user turn that is added to contents which end on the model's (decision 4)."""
BEGIN = "Please do what your instructions say."
"""The user turn of a request that has instructions and nothing else (decision 4)."""
NO_RESULT = "This call has no result yet: it is still under way, or the run was interrupted before it was finished."
"""What the model reads as the error of a call that was never answered."""


def legal_contents(contents: list[types.Content]) -> list[types.Content]:
    """`contents` in the form that models ask for; the same list when it has that form already.

    Each function call gets an answer directly behind it, and the last word is the user's. Neither the list nor
    anything in it is changed.
    """
    legal = _with_all_calls_answered(contents)
    if legal and legal[-1].role != "user":
        return [*legal, content_of("user", [text_part(CONTINUE)])]
    return legal


def spoken_contents(request: LlmRequest) -> list[types.Content]:
    """The contents of a request; a user turn, if it has nothing but a system instruction."""
    given = request.contents
    contents = given.plain() if isinstance(given, SharedContents) else given
    if contents or not request.config.system_instruction:
        return contents
    return [content_of("user", [text_part(BEGIN)])]


class CallIds:
    """The ids under which calls and their results are sent to a provider that cannot do without.

    Ids are kept where the provider takes them. A call without one gets one; so does a call whose id is not of the
    allowed form, or was used by an earlier call. A result has the id of the call that it answers.
    """

    def __init__(self, contents: list[types.Content], allowed: re.Pattern[str]) -> None:
        self._allowed = allowed
        self._at: dict[tuple[int, int], str] = {}
        self._used: set[str] = set()
        self._repeats: dict[str, int] = {}
        for index, content in enumerate(contents):
            calls = [(n, part.function_call) for n, part in enumerate(content.parts or ()) if part.function_call]
            if not calls:
                continue
            places = list(_places_behind(contents, index))
            found = _pair([call for _, call in calls], [answer for _, answer in places])
            for (n, call), nth in zip(calls, found, strict=True):
                call_id = self._at[index, n] = self._new(call.id)
                if nth is not None:
                    self._at[places[nth][0]] = call_id

    def at(self, content: int, part: int) -> str | None:
        """The id for a part that calls a function or holds its result; None for a result that no call asked for."""
        return self._at.get((content, part))

    def _new(self, given: str | None) -> str:
        call_id = given or f"call_{len(self._used) + 1}"
        if not self._allowed.fullmatch(call_id):
            call_id = "call_" + hashlib.sha256(call_id.encode(errors="replace")).hexdigest()[:24]
        unique, number = call_id, self._repeats.get(call_id, 1)
        while unique in self._used:
            number += 1
            unique = f"call_{hashlib.sha256(f'{call_id} {number}'.encode()).hexdigest()[:24]}"
        self._repeats[call_id] = number
        self._used.add(unique)
        return unique


def _with_all_calls_answered(contents: list[types.Content]) -> list[types.Content]:
    legal: list[types.Content] = []
    changed = False
    written = 0  # contents up to here stand in `legal`, as they are or in one that answers a call
    for index, content in enumerate(contents):
        if index < written:
            continue
        legal.append(content)
        written = index + 1
        calls = [part.function_call for part in content.parts or () if part.function_call is not None]
        if not calls:
            continue
        behind = _contents_behind(contents, index)
        found = _pair(calls, [answer for each in behind for answer in _answers_in(each)])
        if len(behind) == 1 and None not in found:
            continue
        changed = True
        written += len(behind)
        answers = _joined(behind) if behind else content_of("user", [])
        legal.append(answers if None not in found else _completed(answers, calls, found))
    return legal if changed else contents


def _joined(contents: list[types.Content]) -> types.Content:
    """Several contents as one: all results of a turn's calls have to come together."""
    joined = replace(contents[0])
    joined.parts = [part for content in contents for part in content.parts or ()]
    return joined


def _answers_in(content: types.Content) -> list[types.FunctionResponse]:
    return [part.function_response for part in content.parts or () if part.function_response is not None]


def _contents_behind(contents: list[types.Content], index: int) -> list[types.Content]:
    """The contents directly behind `index` that hold function responses."""
    end = index + 1
    while end < len(contents) and _answers_in(contents[end]):
        end += 1
    return contents[index + 1 : end]


def _places_behind(
    contents: list[types.Content], index: int
) -> Iterator[tuple[tuple[int, int], types.FunctionResponse]]:
    """The function responses in those contents, and where they stand: by content and part."""
    for number, content in enumerate(_contents_behind(contents, index), index + 1):
        for n, part in enumerate(content.parts or ()):
            if part.function_response is not None:
                yield (number, n), part.function_response


def _pair(calls: Sequence[types.FunctionCall], answers: list[types.FunctionResponse]) -> list[int | None]:
    """For each call which answer is its: the one of its id, else the next one of its name where an id is missing."""
    by_id: dict[str, deque[int]] = {}
    for nth, answer in enumerate(answers):
        if answer.id:
            by_id.setdefault(answer.id, deque()).append(nth)
    found: list[int | None] = [queue.popleft() if (queue := by_id.get(call.id or "")) else None for call in calls]
    if None not in found:
        return found
    used = set(found)
    without: dict[str | None, deque[int]] = {}  # those that no call has yet, by name
    for nth, answer in enumerate(answers):
        if nth not in used:
            without.setdefault(answer.name, deque()).append(nth)
    for place, call in enumerate(calls):
        if found[place] is None:
            queue = without.get(call.name, deque())
            nth = next((nth for nth in queue if not (call.id and answers[nth].id)), None)
            if nth is not None:
                queue.remove(nth)
                found[place] = nth
    return found


def _completed(content: types.Content, calls: Sequence[types.FunctionCall], found: list[int | None]) -> types.Content:
    """`content`, which holds all answers there are, with the missing ones in the places of their calls."""
    answers = [part for part in content.parts or () if part.function_response is not None]
    used = set(found)
    parts = [_no_result(call) if nth is None else answers[nth] for call, nth in zip(calls, found, strict=True)]
    seen = -1
    for part in content.parts or ():
        if part.function_response is not None:
            seen += 1
            if seen in used:
                continue
        parts.append(part)
    completed = replace(content)
    completed.parts = parts
    return completed


def _no_result(call: types.FunctionCall) -> types.Part:
    return response_part(call.id, call.name, {"error": NO_RESULT})
