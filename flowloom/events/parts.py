"""Contents and parts made without validation, for values that are known to fit (about 1 to 3 µs each)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, cast

from google.genai import types

from flowloom.events.wire import copier, share_keys

# made without validation, because building these types' validators would cost every start 10 ms
_part = copier(share_keys(types.Part.model_construct()))
_content = copier(types.Content.model_construct())
_call = copier(types.FunctionCall.model_construct())
_partial_arg = copier(types.PartialArg.model_construct(json_path="$"))
_response = copier(types.FunctionResponse.model_construct())


def text_part(text: str, *, thought: bool | None = None) -> types.Part:
    """A part of text."""
    return _part(text=text, thought=thought)


def content_of(role: str | None, parts: list[types.Part]) -> types.Content:
    """A content of these parts; the list is kept, not copied."""
    return _content(role=role, parts=parts)


def content_like(given: Any) -> types.Content:
    """A content, or one of what has the fields of one. Raises `ValueError` for anything else.

    google-genai reads any object by its attributes: of one that has none of a content's there would be nothing left.
    """
    content = given if isinstance(given, types.Content) else types.Content.model_validate(given)
    if content is not given and not content.model_fields_set:
        raise ValueError(f"{type(given).__name__} has no fields of a content.")
    return content


def call_part(call_id: str | None, name: str, args: dict[str, Any]) -> types.Part:
    """A part that calls a function."""
    return _part(function_call=_call(id=call_id, name=name, args=args))


def call_piece(call_id: str | None, name: str | None, arguments: str, *, more: bool) -> types.Part:
    """A part with a piece of the JSON text of a call's arguments, as models stream them."""
    pieces = [_partial_arg(string_value=arguments)] if arguments else None
    return _part(function_call=_call(id=call_id, name=name, partial_args=pieces, will_continue=more))


def response_part(call_id: str | None, name: str | None, response: dict[str, Any]) -> types.Part:
    """A part that answers a function call."""
    return _part(function_response=_response(id=call_id, name=name, response=response))


def parts_of(content: types.Content | None) -> Sequence[types.Part]:
    """The parts of a content, which may have none, or not be there."""
    return (content and content.parts) or ()


def answers_calls(content: types.Content | None) -> bool:
    """Whether a content answers calls."""
    for part in parts_of(content):  # noqa: SIM110 - a generator costs more than the look
        if part.function_response is not None:
            return True
    return False


def as_object(data: Any, key: str) -> dict[str, Any]:
    """JSON data as an object, which function responses are; what is none goes under `key`."""
    return cast(dict[str, Any], data) if isinstance(data, dict) else {key: data}
