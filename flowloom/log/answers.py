"""The one strict reading of what people answer to requests for a decision, for input or for a credential (spec §7.3).

What cannot be read is refused before it is stored, and is no answer for any reader of a log that holds it all the same.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from google.genai import types
from pydantic import ValidationError
from pydantic_core import from_json, to_json

from flowloom.errors import UnreadableAnswerError
from flowloom.events.actions import ToolConfirmation
from flowloom.events.event import Event
from flowloom.events.parts import parts_of
from flowloom.events.requests import RESERVED_CALLS, RequestKind, is_request
from flowloom.events.wire import fields_of

_NO_JSON = object()
_BEYOND = ("recursion limit", "number out of range")
"""How `from_json` begins to say that a text is JSON, but more than can be held."""
_FORMS: dict[RequestKind, str] = {
    "confirmation": '`{"confirmed": true}` or `{"confirmed": false}`',
    "input": '`{"result": value}`',
    "credential": "an `AuthConfig` that holds an `exchangedAuthCredential`",
}


def read_decision(answer: types.FunctionResponse) -> ToolConfirmation:
    """The decision in an answer to `adk_request_confirmation`; an empty answer rejects.

    It is `{"confirmed": true}` or `false`, with `payload`, `editedArgs`, `reason` and `hint` if wanted, or that as an
    object or JSON text under `response`. Raises `UnreadableAnswerError`.
    """
    if not answer.response:
        return ToolConfirmation()
    data = _plain(answer, answer.response)
    if set(data) == {"response"}:
        data = data["response"]
        if isinstance(data, str):
            data = _parsed(answer, data, otherwise=_NO_JSON)
            if data is _NO_JSON:
                raise unreadable(answer, "its `response` is not JSON")
    if not isinstance(data, dict):
        raise unreadable(answer, f"its `response` is {type(data).__name__}, not an object")
    given = cast(dict[str, Any], data)
    if not isinstance(given.get("confirmed"), bool):
        raise unreadable(answer, "`confirmed` is not true or false" if "confirmed" in given else "it lacks `confirmed`")
    try:
        return ToolConfirmation.model_validate({name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        places = ", ".join(f"`{'.'.join(map(str, each['loc']))}`: {each['msg']}" for each in error.errors())
        raise unreadable(answer, places) from None


def read_input(answer: types.FunctionResponse) -> Any:
    """The input in an answer: what stands under `result`, `response` or `payload`, or all of it.

    A text under `response` is read as JSON if it is. Raises `UnreadableAnswerError`.
    """
    if not answer.response:
        return None
    data = _plain(answer, answer.response)
    if len(data) != 1:
        return data
    ((name, value),) = data.items()
    if name == "response" and isinstance(value, str):
        return _parsed(answer, value, otherwise=value)
    return value if name in ("result", "response", "payload") else data


def check_answer(answer: types.FunctionResponse, kind: RequestKind | None) -> None:
    """Raise `UnreadableAnswerError` if an answer to a request of that kind cannot be read.

    An answer that holds no credential is readable (the user gives no access), and so is the result of a call.
    """
    if kind == "confirmation":
        read_decision(answer)
    elif kind is not None:
        read_input(answer)


def readable_answers(message: types.Content | None) -> list[types.FunctionResponse]:
    """The function responses of a message, without answers that cannot be read."""
    given = (part.function_response for part in parts_of(message))
    return [answer for answer in given if answer is not None and _is_readable(answer, RESERVED_CALLS.get(answer.name))]


def says_nothing(message: types.Content | None) -> bool:
    """Whether a message holds answers that cannot be read, and nothing else."""
    parts = parts_of(message)
    return bool(parts) and all(part.function_response is not None for part in parts) and not readable_answers(message)


def subjects_of(event: Event) -> set[str | None]:
    """The ids of the calls that an event's requests to people are about; None for one that is about no call."""
    return {subject_call_id(call) for call in event.get_function_calls() if is_request(event, call)}


def subject_call_id(call: types.FunctionCall) -> str | None:
    """The id of the call that a request to a person is about, if it is about one."""
    original: Any = (call.args or {}).get("originalFunctionCall")
    call_id: Any = original.get("id") if isinstance(original, dict) else None  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType]
    return call_id if isinstance(call_id, str) else None


def answers_request(answer: types.FunctionResponse, request: types.FunctionCall) -> bool:
    """Whether a function response of that id answers a call: to a request of the engine's, one of another kind, about
    another call, or that cannot be read is no answer."""
    kind = RESERVED_CALLS.get(request.name)
    if kind is None:
        return True
    return (subject_call_id(request) is None or _names_subject_of(answer, request)) and _is_readable(answer, kind)


def _is_readable(answer: types.FunctionResponse, kind: RequestKind | None) -> bool:
    try:
        check_answer(answer, kind)
    except UnreadableAnswerError:
        return False
    return True


def _names_subject_of(answer: types.FunctionResponse, request: types.FunctionCall) -> bool:
    asked: Any = (request.args or {})["originalFunctionCall"]
    named: Any = (answer.response or {}).get("originalFunctionCall", asked)
    named = {**fields_of(named)} if isinstance(named, types.FunctionCall) else named
    same = isinstance(named, dict) and all(named.get(key) == asked.get(key) for key in ("id", "name", "args"))  # pyright: ignore[reportUnknownVariableType, reportUnknownMemberType, reportUnknownArgumentType]
    return answer.name == request.name and same


def _plain(answer: types.FunctionResponse, value: Mapping[str, Any]) -> dict[str, Any]:
    """The value as JSON holds it: neither deeper nor larger than a log can be."""
    try:
        return from_json(to_json(value), allow_inf_nan=False)
    except ValueError as error:
        raise unreadable(answer, f"JSON cannot hold it ({first_line(error)})") from None


def _parsed(answer: types.FunctionResponse, text: str, otherwise: Any) -> Any:
    """A text as data if it is JSON, `otherwise` if not. Raises `UnreadableAnswerError` for more than can be held."""
    try:
        data = from_json(text, allow_inf_nan=False)
    except ValueError as error:
        if str(error).startswith(_BEYOND):
            raise unreadable(answer, f"JSON cannot hold it ({error})") from None
        return otherwise
    return _plain(answer, {"": data})[""]


def unreadable(answer: types.FunctionResponse, why: str) -> UnreadableAnswerError:
    """The error for an answer that cannot be read."""
    kind = RESERVED_CALLS.get(answer.name, "input")
    return UnreadableAnswerError(
        f"The answer to the {kind} request `{answer.id}` cannot be read: {why}. It was not stored, and the request "
        f"waits on. Answer with {_FORMS[kind]}.",
        call_id=answer.id or "",
    )


def first_line(error: ValueError) -> str:
    """What an error says first, shortened."""
    return str(error).splitlines()[0][:200]
