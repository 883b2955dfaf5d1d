"""`LlmRequest` and `LlmResponse` from and to the messages of `google-ai-generativelanguage` (extra `protobuf`).

Both ways lead over the JSON form. For a message `m`, `to_proto(from_proto(m)) == m`. A message has less than JSON:

* a field without presence that has its default (`false`, `0`, an empty text) is as if not given,
* a number of 32 bits (`temperature`, probabilities) is rounded to it,
* free data (arguments and results of functions, JSON schemas) has floating-point numbers only; those that are whole
  come back as integers,
* an offset comes back in its shortest form (`1.50s` as `1.5s`).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, cast

from flowloom.errors import InputValidationError, ModelResponseError, UnsupportedFeatureError
from flowloom.events.response import LlmResponse
from flowloom.extras import require
from flowloom.interop.generate_content import (
    WireResponse,
    model_path,
    request_from_json,
    request_to_json,
    response_from_json,
    response_to_json,
)
from flowloom.interop.generate_content_codec import keep_unknown
from flowloom.interop.generate_content_misfit import Misfit, unexpected
from flowloom.interop.protobuf_fields import Message, data_of, fill, generativelanguage
from flowloom.models.request import LlmRequest
from flowloom.objects.given import of_kind
from flowloom.tools import BaseTool

_NAMED_OTHERWISE = {"model_config": "model_selection_config", "output_config": "generation_output_config"}


def request_to_proto(request: LlmRequest) -> generativelanguage.GenerateContentRequest:
    """The `GenerateContentRequest` that says what `request` says; the model's name goes with it.

    Raises `UnsupportedFeatureError`, which names the field, for what the message of the installed release has no
    place for, and for what JSON cannot say (see `request_to_json`); `InputValidationError` for what is no `LlmRequest`.
    """
    of_kind(LlmRequest, request, "`request_to_proto` writes an `LlmRequest`.")
    data = request_to_json(request)
    if request.model:
        data.setdefault("model", model_path(request.model))
    filled = generativelanguage.GenerateContentRequest()
    try:
        fill(_plain(filled, "GenerateContentRequest"), data)
    except Misfit as misfit:
        raise _unsupported(misfit, _field_of(misfit.place), request.model) from None
    return filled


def request_from_proto(
    message: generativelanguage.GenerateContentRequest | Message,
    *,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
) -> LlmRequest:
    """The request of a `GenerateContentRequest`, `message`, as proto-plus or as plain protobuf has it.

    What comes back, and what becomes of `tools`, is as with `request_from_json`. Raises `InputValidationError` for what
    is no such message, and for one that google-genai's types cannot hold.
    """
    try:
        data = data_of(_plain(message, "GenerateContentRequest"))
    except Misfit as misfit:
        raise InputValidationError(f"This is no request for `generateContent`: {misfit}.") from None
    path: str = data.pop("model", "")
    request = request_from_json(data, model=path or None, tools=tools)
    if path and model_path(path) != path:
        keep_unknown(request, {**(request.model_extra or {}), "model": path})
    return request


def response_to_proto(response: LlmResponse) -> generativelanguage.GenerateContentResponse:
    """The `GenerateContentResponse` that says what `response` says, by the rules of `response_to_json`.

    Raises `UnsupportedFeatureError`, which names the field, for what the message of the installed release has no
    place for; an error that is neither a finish reason nor the block of a prompt is among that.
    `InputValidationError` says that it was given what is no `LlmResponse`.
    """
    of_kind(LlmResponse, response, "`response_to_proto` writes an `LlmResponse`.")
    data = response_to_json(response)
    filled = generativelanguage.GenerateContentResponse()
    try:
        fill(_plain(filled, "GenerateContentResponse"), data)
    except Misfit as misfit:
        field = "error_code" if misfit.place == "error" else misfit.place
        raise _unsupported(misfit, field, response.model_version) from None
    return filled


def response_from_proto(message: generativelanguage.GenerateContentResponse | Message) -> WireResponse:
    """The response of a `GenerateContentResponse`, `message`, as proto-plus or as plain protobuf has it.

    Raises `ModelResponseError` for what is no such message, and for one that google-genai's types cannot hold.
    """
    try:
        data = data_of(_plain(message, "GenerateContentResponse"))
    except Misfit as misfit:
        raise ModelResponseError(f"This is no answer of `generateContent`: {misfit}.") from None
    return response_from_json(data)


def _plain(message: Any, kind: str) -> Message:
    """The message without proto-plus around it. Raises `Misfit` for what is no message of that kind, of any version."""
    require(Message)
    unwrap = None if isinstance(message, Message) else getattr(cast(Any, type(message)), "pb", None)
    plain = unwrap(message) if unwrap is not None else message
    if not isinstance(plain, Message) or cast(Any, plain).DESCRIPTOR.name != kind:
        raise unexpected(f"a message `{kind}`", message)
    return plain


def _field_of(place: str) -> str:
    """A place in the message as a place in the request."""
    if not place:
        return "request"
    if place.startswith("contents"):
        return place
    first, dot, rest = place.removeprefix("generation_config.").partition(".")
    return f"config.{_NAMED_OTHERWISE.get(first, first)}{dot}{rest}"


def _unsupported(misfit: Misfit, field: str, model: str | None) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"It cannot be written as a message: `{field}`: {misfit.problem}.", field=field, model=model
    )
