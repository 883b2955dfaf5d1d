"""From a request's contents to the JSON that Gemini accepts. The contents themselves are only read.

google-genai converts and validates every part of the history again in each call, at about 0.3 ms a content; this
is some 4 µs. What it adds to the contents themselves (shorthands such as plain strings) a request does not have.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from google.genai import types
from pydantic import ConfigDict, TypeAdapter

from flowloom.events.ids import CLIENT_CALL_PREFIX
from flowloom.events.parts import content_of, response_part, text_part
from flowloom.events.wire import shallow_copy

CONTINUE = "Please continue from where you stopped."
"""The user turn that is added to contents which end on the model's (decision 4)."""
NO_RESULT = "No result was recorded for this call: the run was interrupted before the call finished."
"""What the model reads as the error of a call that was never answered."""

_CONTENTS = TypeAdapter(list[types.Content], config=ConfigDict(defer_build=True))
# Fields that only streamed calls have; the Gemini API refuses them in a history.
_STREAMED_ONLY = ("partialArgs", "willContinue")


def legal_contents(contents: list[types.Content]) -> list[types.Content]:
    """`contents` in the form that Gemini asks for; the same list when it has that form already.

    Each function call gets an answer directly behind it, and the last word is the user's. Neither the list nor
    anything in it is changed.
    """
    legal = _with_all_calls_answered(contents)
    if legal and legal[-1].role != "user":
        return [*legal, content_of("user", [text_part(CONTINUE)])]
    return legal


def contents_to_json(contents: list[types.Content]) -> list[dict[str, Any]]:
    """The contents as plain JSON data, without the call ids that were minted here (decision 16)."""
    data = cast(
        "list[dict[str, Any]]",
        _CONTENTS.dump_python(contents, mode="json", by_alias=True, exclude_none=True, fallback=repr, warnings=False),
    )
    for content in data:
        for part in content.get("parts", ()):
            if len(part) == 1 and "text" in part:
                continue
            call: dict[str, Any] | None = part.get("functionCall")
            if call is not None:
                for name in _STREAMED_ONLY:
                    call.pop(name, None)
            call_or_answer = call if call is not None else part.get("functionResponse")
            if call_or_answer is not None and call_or_answer.get("id", "").startswith(CLIENT_CALL_PREFIX):
                del call_or_answer["id"]
    return data


def _with_all_calls_answered(contents: list[types.Content]) -> list[types.Content]:
    legal: list[types.Content] = []
    replaced: dict[int, types.Content] = {}
    for index, content in enumerate(contents):
        legal.append(replaced.get(index, content))
        calls = [part.function_call for part in content.parts or () if part.function_call is not None]
        if not calls:
            continue
        behind = _answers_behind(contents, index)
        found = _pair(calls, [part for answers in behind for part in answers])
        if all(found):
            continue
        if behind:
            replaced[index + 1] = _completed(contents[index + 1], calls, found)
        else:
            legal.append(content_of("user", [_no_result(call) for call in calls]))
    return legal if len(legal) != len(contents) or replaced else contents


def _answers_behind(contents: list[types.Content], index: int) -> list[list[types.Part]]:
    """The function responses of each content directly behind `index`, as long as there are any."""
    behind: list[list[types.Part]] = []
    for later in range(index + 1, len(contents)):
        answers = [part for part in contents[later].parts or () if part.function_response is not None]
        if not answers:
            break
        behind.append(answers)
    return behind


def _pair(calls: Sequence[types.FunctionCall], answers: list[types.Part]) -> list[types.Part | None]:
    """Each call's answer: the one of its id, else the next one of its name where an id is missing."""
    unused = [(part, cast(types.FunctionResponse, part.function_response)) for part in answers]
    found: list[types.Part | None] = [None] * len(calls)
    for by_id in (True, False):
        for place, call in enumerate(calls):
            if found[place] is not None:
                continue
            for at, (part, answer) in enumerate(unused):
                both = bool(call.id and answer.id)
                if both is by_id and (call.id == answer.id if both else call.name == answer.name):
                    found[place] = part
                    del unused[at]
                    break
    return found


def _completed(
    content: types.Content, calls: Sequence[types.FunctionCall], found: list[types.Part | None]
) -> types.Content:
    """`content`, which holds some of the answers, with the missing ones in the places of their calls."""
    here = {id(part) for part in content.parts or ()}
    parts = [
        _no_result(call) if answer is None else answer
        for call, answer in zip(calls, found, strict=True)
        if answer is None or id(answer) in here
    ]
    placed = {id(part) for part in parts}
    completed = shallow_copy(content)
    completed.parts = [*parts, *(part for part in content.parts or () if id(part) not in placed)]
    return completed


def _no_result(call: types.FunctionCall) -> types.Part:
    return response_part(call.id, call.name, {"error": NO_RESULT})
