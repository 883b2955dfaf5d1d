"""`LlmResponse` from and to the JSON of an answer of Gemini's `generateContent`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from google.genai import types
from pydantic import ConfigDict, Field

from flowloom.errors import ModelResponseError, UnsupportedFeatureError
from flowloom.events.response import LlmResponse
from flowloom.events.wire import fields_of, make
from flowloom.interop.generate_content_codec import ModelCodec, add_unknown, json_copy
from flowloom.interop.generate_content_misfit import Misfit, json_object, misfit_of, unexpected
from flowloom.objects.given import of_kind

OF_CANDIDATE = (
    "content",
    "grounding_metadata",
    "citation_metadata",
    "url_context_metadata",
    "avg_logprobs",
    "logprobs_result",
    "finish_reason",
)
"""The fields of an `LlmResponse` that its first candidate has."""
OF_RESPONSE = ("usage_metadata", "model_version")
"""The fields of an `LlmResponse` that the answer itself has."""
CLIENTS_OWN = ("sdk_http_response", "automatic_function_calling_history", "parsed")
"""The fields of google-genai's answer that are no part of the wire."""

_CODEC = ModelCodec(types.GenerateContentResponse)
_PLACES = {name: alias for name, alias in _CODEC.aliases.items() if name not in CLIENTS_OWN}
_NAMES = {spelling: name for name, alias in _PLACES.items() for spelling in (name, alias)}


class WireResponse(LlmResponse):
    """A response that was read from JSON, with all that came.

    It equals a response with the same fields; two of its kind are equal if they are written in the same way.
    """

    model_config = ConfigDict(defer_build=True)

    received: types.GenerateContentResponse = Field(
        default_factory=types.GenerateContentResponse, exclude=True, repr=False
    )
    """All that came: further candidates, safety ratings, ids, times. No part of events."""
    reported: dict[str, Any] | None = Field(default=None, exclude=True, repr=False)
    """What came instead of an answer, if that was the report of an error."""
    citation_sources: bool = Field(default=False, exclude=True, repr=False)
    """Whether citations came by the name that the Gemini API has for them."""

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, LlmResponse):
            return NotImplemented
        if isinstance(other, WireResponse):
            return response_to_json(self) == response_to_json(other)
        return all(_same(getattr(self, name), getattr(other, name)) for name in LlmResponse.model_fields)

    __hash__ = None  # pyright: ignore[reportAssignmentType]


def response_from_json(body: Mapping[str, Any] | str | bytes) -> WireResponse:
    """The response of a `generateContent` answer, or of one chunk of a streamed one, given as data or as text in
    `body`.

    The first candidate becomes the response, as `LlmResponse.create` has it; all that came is in `received`. The report
    of an error (`{"error": {...}}`) becomes a response with its status and message as `error_code` and `error_message`.
    Unknown fields are in the `model_extra` of the object that they were on.

    Raises `ModelResponseError`, which names the place, for what is no such answer.
    """
    try:
        data = json_object(body)
        if data.get("error") is not None and "candidates" not in data:
            reported = json_copy(data, url_safe=False)
            return make(WireResponse, reported=reported, **_error_in(reported))
        received: types.GenerateContentResponse = _CODEC.made(*_CODEC.read_fields(data, _NAMES))
    except (Misfit, RecursionError) as error:
        raise ModelResponseError(f"This is no answer of `generateContent`: {misfit_of(error)}.") from None
    spelled = any("citationSources" in metadata for metadata in _citations(data))
    return make(WireResponse, **fields_of(LlmResponse.create(received)), received=received, citation_sources=spelled)


def response_to_json(response: LlmResponse) -> dict[str, Any]:
    """The answer of `generateContent` that says what `response` says, as data for `json.dumps`.

    A `WireResponse` is written as it came, with what was changed since. Of a response, that is written which such an
    answer has a place for: content, finish reason, the metadata of grounding, citations and usage, log probabilities,
    model version, and errors. An error is a finish reason or the block of a prompt if its code says so, else the
    report of an error (`{"error": {"status": ..., "message": ...}}`).

    Raises `UnsupportedFeatureError` for what JSON cannot say, and for an error beside an answer;
    `InputValidationError` for what is no `LlmResponse`.
    """
    of_kind(LlmResponse, response, "`response_to_json` writes an `LlmResponse`.")
    received, was = types.GenerateContentResponse(), None
    if isinstance(response, WireResponse):
        received = response.received
        was = None if response.reported is None else make(LlmResponse, **_error_in(response.reported))
    was = was or LlmResponse.create(received)
    changed = {name for name in LlmResponse.model_fields if not _same(getattr(response, name), getattr(was, name))}
    try:
        report = _error_report(response, changed)
        if report is not None:
            return report
        answer = _with_changes(received, response, changed)
        written = _CODEC.write_fields(answer, _PLACES, url_safe=False)
        add_unknown(written, received, url_safe=False)
    except (Misfit, RecursionError) as error:
        misfit = misfit_of(error)
        raise UnsupportedFeatureError(
            f"The response cannot be written as JSON: {misfit}.",
            field=misfit.place or "response",
            model=response.model_version,
        ) from None
    if isinstance(response, WireResponse) and response.citation_sources:
        for metadata in _citations(written):
            if "citations" in metadata:
                metadata["citationSources"] = metadata.pop("citations")
    return written


def _citations(answer: Mapping[str, Any]) -> list[dict[str, Any]]:
    """The citation metadata of all candidates."""
    candidates = cast("list[dict[str, Any]]", answer.get("candidates") or [])
    found = [each.get("citationMetadata") or each.get("citation_metadata") for each in candidates]
    return [metadata for metadata in found if metadata is not None]


def _same(one: Any, other: Any) -> bool:
    return one is other or bool(one == other)


# -- errors ------------------------------------------------------------------------------------


def _error_in(reported: Mapping[str, Any]) -> dict[str, Any]:
    """The code and the message of an error as Google reports it."""
    error = reported["error"]
    if not isinstance(error, Mapping):
        raise unexpected("an object", error).within("error")
    details = cast("Mapping[str, Any]", error)
    code, message = details.get("status", details.get("code")), details.get("message")
    return {
        "error_code": None if code is None else str(code),
        "error_message": None if message is None else str(message),
    }


def _error_report(response: LlmResponse, changed: set[str]) -> dict[str, Any] | None:
    """The report of the response's error, if no answer can tell of it."""
    reported = response.reported if isinstance(response, WireResponse) else None
    if reported is not None and not changed:
        return json_copy(reported, url_safe=False)
    if response.error_code is None or _is_finish(response) or (reported is None and "error_code" not in changed):
        return None
    if response.finish_reason is not None or _has_parts(response):
        raise Misfit("an answer of `generateContent` has no error beside parts or another finish reason", "error_code")
    if reported is None and response.error_code in types.BlockedReason.__members__:
        return None
    error = {**(reported or {}).get("error", {}), "status": response.error_code, "message": response.error_message}
    return {**(reported or {}), "error": {name: value for name, value in error.items() if value is not None}}


def _is_finish(response: LlmResponse) -> bool:
    return response.finish_reason is not None and response.finish_reason.value == response.error_code


def _has_parts(response: LlmResponse) -> bool:
    return response.content is not None and bool(response.content.parts)


def _with_changes(
    received: types.GenerateContentResponse, response: LlmResponse, changed: set[str]
) -> types.GenerateContentResponse:
    """What came, with the fields of the response that are no longer as they came."""
    answer = received.model_copy(update={name: getattr(response, name) for name in OF_RESPONSE if name in changed})
    of_candidate: dict[str, Any] = {name: getattr(response, name) for name in OF_CANDIDATE if name in changed}
    if changed & {"error_code", "error_message"} and response.error_code is not None:
        if _is_finish(response):
            of_candidate["finish_message"] = response.error_message
        else:
            feedback = received.prompt_feedback or types.GenerateContentResponsePromptFeedback()
            update = {"block_reason": response.error_code, "block_reason_message": response.error_message}
            answer.prompt_feedback = feedback.model_copy(update=update)
    if received.candidates:
        first, *others = received.candidates
        answer.candidates = [first.model_copy(update=of_candidate), *others]
    elif any(value is not None for value in of_candidate.values()):
        answer.candidates = [types.Candidate.model_construct(**of_candidate)]
    return answer
