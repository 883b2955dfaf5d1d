"""`LlmRequest` and `LlmResponse` from and to the JSON of Gemini's `generateContent`, in both of its spellings.

The forms are canonical: names in camelCase, no nulls, enums in their own case, base64 of the URL-safe alphabet in
requests (as google-genai sends it) and of the standard one in responses (as the service does). For JSON `j` so
written, `to_json(from_json(j)) == j`; JSON in any other legal spelling comes out in this one. What the types have no
field for is kept, and written back at its place.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, cast

from google.genai import types

from flowloom.errors import InputValidationError, UnsupportedFeatureError
from flowloom.events.wire import fields_of
from flowloom.interop.generate_content_codec import add_unknown, codec_of, keep_unknown
from flowloom.interop.generate_content_misfit import Misfit, json_object, misfit_of, unexpected
from flowloom.interop.generate_content_places import (
    BODY,
    CONFIG,
    GENERATION_CONFIG,
    LEFT_OUT,
    NAMES_IN_BODY,
    NAMES_IN_GENERATION_CONFIG,
)
from flowloom.interop.generate_content_responses import WireResponse, response_from_json, response_to_json
from flowloom.models.contents import SharedContents
from flowloom.models.model_names import model_name
from flowloom.models.request import LlmRequest, ToolBlock
from flowloom.objects.given import of_kind
from flowloom.tools import BaseTool, FunctionTool
from flowloom.tools.placeholder import PlaceholderTool

__all__ = ["WireResponse", "request_from_json", "request_to_json", "response_from_json", "response_to_json"]

_CONTENTS = codec_of(list[types.Content])


def request_to_json(request: LlmRequest) -> dict[str, Any]:
    """The body of a `generateContent` call, as data for `json.dumps`.

    The model's name is no part of it, because it stands in the URL; it is written as `model` only if the request was
    read from a body that had it (those of batches and of token counts do).

    The settings are written where they stand on the wire; those that are the client's own (`http_options`,
    `should_return_http_response`, `automatic_function_calling`, `automatic_continuation`) are left out, as are the
    tools behind the declarations. Short forms are written in full: a system instruction of any form as a `Content`,
    a voice by name as a `speechConfig`, a class or type as `response_schema` as the schema that describes it.

    Raises `UnsupportedFeatureError` for what JSON cannot say, such as a function among `config.tools`, and
    `InputValidationError` for what is no `LlmRequest`.
    """
    of_kind(LlmRequest, request, "`request_to_json` writes an `LlmRequest`.")
    try:
        body = _contents(request) | _settings(request)
        add_unknown(body, request, url_safe=True)
    except (Misfit, RecursionError) as error:
        misfit = misfit_of(error)
        raise UnsupportedFeatureError(
            f"The request cannot be written as JSON: {misfit}.", field=misfit.place or "request", model=request.model
        ) from None
    if "model" in body and request.model is not None and model_name(body["model"]) != model_name(request.model):
        body["model"] = model_path(request.model)
    return body


def request_from_json(
    body: Mapping[str, Any] | str | bytes,
    *,
    model: str | None = None,
    tools: Sequence[BaseTool | Callable[..., Any]] = (),
) -> LlmRequest:
    """The request of a `generateContent` body, given as data or as text in `body`.

    `model` is the name from the URL; it goes before a `model` in the body. Either is kept as it is written, with a
    `models/` in front or without. `tools` are the real ones of the functions that the body declares, by name; those
    that it does not declare are ignored. For a declared function without a real tool, `tools_dict` has a
    `PlaceholderTool`.

    What comes back is canonical: a system instruction that is one plain text of the user's role is a `str`, any other a
    `Content`; a response schema is a `types.Schema`. Unknown fields are in the `model_extra` of the object that they
    were on (the request for the body itself, its config for `generationConfig`).

    Raises `InputValidationError`, which names the place, for what is not such a body.
    """
    try:
        request = _read(json_object(body))
    except (Misfit, RecursionError) as error:
        raise InputValidationError(f"This is no body of `generateContent`: {misfit_of(error)}.") from None
    request.model = model or request.model
    request.tools_dict = _tools_of(request.config, tools)
    return request


def model_path(name: str) -> str:
    """A model as `models/<name>`, as Gemini's messages have it; a longer resource name is one already."""
    return name if "/" in name else f"models/{name}"


def _contents(request: LlmRequest) -> dict[str, Any]:
    contents = request.contents.plain() if isinstance(request.contents, SharedContents) else request.contents
    try:
        return {"contents": _CONTENTS.write(contents, url_safe=True)} if contents else {}
    except Misfit as misfit:
        raise misfit.within("contents") from None


def _settings(request: LlmRequest) -> dict[str, Any]:
    config = request.config
    try:
        for name, value in fields_of(config).items():
            if value is not None and name not in BODY and name not in GENERATION_CONFIG and name not in LEFT_OUT:
                raise Misfit("its place in the body is not known in this release", name)
        body = CONFIG.write_fields(config, BODY, url_safe=True)
        if request.service_tier and "serviceTier" not in body:
            body["serviceTier"] = CONFIG.codecs["service_tier"].write(request.service_tier, url_safe=True)
        generation = CONFIG.write_fields(config, GENERATION_CONFIG, url_safe=True)
        add_unknown(generation, config, url_safe=True)
    except Misfit as misfit:
        raise misfit.within("config") from None
    return body | ({"generationConfig": generation} if generation else {})


def _read(body: Mapping[str, Any]) -> LlmRequest:
    settings, unknown = CONFIG.read_fields(body, NAMES_IN_BODY)
    request = LlmRequest.empty(None)
    contents = _taken(unknown, "contents")
    generation = _taken(unknown, "generationConfig", "generation_config")
    place = "contents"
    beside: dict[str, Any] = {}
    try:
        if contents is not None:
            request.contents = _CONTENTS.read(contents)
        if generation is not None:
            place = "generationConfig"
            if not isinstance(generation, Mapping):
                raise unexpected("an object", generation)
            more, beside = CONFIG.read_fields(cast("Mapping[str, Any]", generation), NAMES_IN_GENERATION_CONFIG)
            settings |= more
    except Misfit as misfit:
        raise misfit.within(place) from None
    request.config = CONFIG.made(settings, beside)
    if isinstance(unknown.get("model"), str):
        request.model = unknown["model"]
    # that they were there, and empty
    unknown |= {"contents": []} if contents == [] else {}
    unknown |= {"generationConfig": {}} if generation == {} else {}
    keep_unknown(request, unknown)
    return request


def _taken(data: dict[str, Any], *names: str) -> Any:
    found = [data.pop(name) for name in names if name in data]
    if len(found) > 1:
        raise Misfit("it is there twice, in two spellings", names[0])
    return found[0] if found else None


def _tools_of(config: types.GenerateContentConfig, tools: Sequence[BaseTool | Callable[..., Any]]) -> dict[str, Any]:
    real = ToolBlock([tool if isinstance(tool, BaseTool) else FunctionTool(tool) for tool in tools]).tools
    return {
        declared.name: real.get(declared.name) or PlaceholderTool(declared)
        for declared in _declared(config)
        if declared.name
    }


def _declared(config: types.GenerateContentConfig) -> Iterator[types.FunctionDeclaration]:
    for group in cast("list[types.Tool]", cast(Any, config).tools or []):
        yield from group.function_declarations or ()
