"""What a request says, in the terms of providers other than Google: for the adapters that write it in their format."""

from __future__ import annotations

import base64
import functools
import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, cast

import pydantic_core
from google.genai import types
from pydantic import PydanticUserError, TypeAdapter, ValidationError

from flowloom.errors import ModelRequestError, UnsupportedFeatureError
from flowloom.events.wire import fields_of
from flowloom.models.request import LlmRequest
from flowloom.models.server_tools import asked_of, server_tool_error
from flowloom.models.turns import CallIds

Treatment = Literal["sent", "flow", "dropped", "refused"]
"""What becomes of a setting: it is sent; the flow has seen to it; it is left out with a warning; it is an error."""

Drop = Callable[[str], None]
"""Says once that something is left out."""

DROPPED_OR_REFUSED: Mapping[str, Treatment] = {
    "should_return_http_response": "flow",
    "automatic_function_calling": "flow",
    "automatic_continuation": "flow",
    "safety_settings": "dropped",
    "labels": "dropped",
    "media_resolution": "dropped",
    "audio_timestamp": "dropped",
    "enable_enhanced_civic_answers": "dropped",
    "model_armor_config": "dropped",
    "routing_config": "refused",
    "model_selection_config": "refused",
    "cached_content": "refused",
    "speech_config": "refused",
    "image_config": "refused",
    "audio_transcription_config": "refused",
    "continuation_token": "refused",
    "generation_output_config": "refused",
}
"""The settings that only Gemini has."""


@dataclass(frozen=True, slots=True)
class Function:
    """A function that the model may call; `parameters` is a JSON schema, None for a function without any."""

    name: str
    description: str | None
    parameters: dict[str, Any] | None


@dataclass(frozen=True, slots=True)
class Blob:
    """A file in a message: its bytes in base64, or where it is."""

    mime_type: str
    name: str | None
    base64: str | None = None
    uri: str | None = None

    @property
    def kind(self) -> str:
        """`image`, `audio`, `pdf`, `text`, or `other`."""
        major, _, minor = self.mime_type.partition("/")
        if major in ("image", "audio", "text"):
            return major
        return "pdf" if minor == "pdf" else "other"

    @property
    def data_url(self) -> str:
        """The bytes as a URL."""
        return f"data:{self.mime_type};base64,{self.base64}"

    @property
    def text(self) -> str:
        """The bytes read as text."""
        return base64.b64decode(self.base64 or "").decode(errors="replace")


class Conversation:
    """A conversation that an adapter writes in its provider's form; contents are legal, and only read."""

    def __init__(self, contents: list[types.Content], model: str, drop: Drop, call_id: re.Pattern[str]) -> None:
        self._contents = contents
        self._model = model
        self._drop = drop
        self._ids = CallIds(contents, call_id)


def turn_of(contents: list[types.Content]) -> int:
    """Where the turn that goes on began: the last place at which the user said more than results of calls, or -1."""
    asked = [number for number, content in enumerate(contents) if _is_question(content)]
    return asked[-1] if asked else -1


def _is_question(content: types.Content) -> bool:
    return content.role != "model" and any(part.function_response is None for part in content.parts or ())


def blob_of(inline: types.Blob | None, file: types.FileData | None) -> Blob | None:
    """The file in a part, if it holds one."""
    if inline is not None:
        data = base64.b64encode(inline.data or b"").decode()
        return Blob(_mime_type(inline.mime_type), inline.display_name, base64=data)
    if file is not None:
        return Blob(_mime_type(file.mime_type), file.display_name, uri=file.file_uri or "")
    return None


def _mime_type(given: str | None) -> str:
    return (given or "application/octet-stream").partition(";")[0].strip().lower()


def unsupported(model: str, field: str, why: str) -> UnsupportedFeatureError:
    """The error for what a provider's API has no words for."""
    return UnsupportedFeatureError(
        f"The request to the model `{model}` cannot be sent: `{field}` {why}.", field=field, model=model
    )


def refuse_unknown(model: str, place: str, part: types.Part) -> None:
    """Raise `UnsupportedFeatureError` for a part that holds something, and nothing that this provider knows."""
    beside = ("text", "thought", "thought_signature", "part_metadata", "media_resolution")
    for name, value in fields_of(part).items():
        if value is not None and name not in beside:
            raise unsupported(model, f"{place}.{name}", "is nothing that this API knows")


def check_settings(
    request: LlmRequest, model: str, treatments: Mapping[str, Treatment], drop: Drop, *, why: str
) -> None:
    """Refuse the settings of a request that are not known (`why` says to whom), and report those that are left out."""
    for name, value in fields_of(request.config).items():
        if value is None or value is False or value == []:
            continue
        treatment = treatments.get(name, "refused")
        if treatment == "refused":
            raise unsupported(model, f"config.{name}", why)
        if treatment == "dropped":
            drop(f"config.{name}")
    if request.previous_interaction_id is not None:
        raise unsupported(model, "previous_interaction_id", why)


def check_form(request: LlmRequest, model: str) -> None:
    """Refuse to ask for an answer that is neither text nor JSON."""
    config = cast(Any, request.config)
    modalities: list[str] = [str(_value(each)).upper() for each in config.response_modalities or ()]
    if modalities not in ([], ["TEXT"]):
        raise unsupported(model, "config.response_modalities", "asks for something other than text")
    if config.response_mime_type not in (None, "text/plain", "application/json"):
        raise unsupported(model, "config.response_mime_type", f"is {config.response_mime_type!r}")


def system_texts(request: LlmRequest, model: str) -> list[str]:
    """The texts of the system instruction. Raises `UnsupportedFeatureError` for anything in it but text."""
    given: Any = cast(Any, request.config).system_instruction
    if given is None:
        return []
    if isinstance(given, str):
        return [given] if given else []
    if isinstance(given, types.Content):
        given = given.parts or []
    items = cast(Iterable[Any], given if isinstance(given, list | tuple) else [given])
    texts: list[str] = []
    for number, item in enumerate(items):
        text: Any = item if isinstance(item, str) else getattr(item, "text", None)
        if not isinstance(text, str):
            raise unsupported(model, f"config.system_instruction[{number}]", "holds something other than text")
        if text:
            texts.append(text)
    return texts


def functions_of(request: LlmRequest, model: str) -> list[Function]:
    """The declared functions. What a provider runs by itself is asked for by `asked_of`."""
    found: list[Function] = []
    groups: list[Any] = cast(Any, request.config).tools or []
    for number, group in enumerate(groups):
        place = f"config.tools[{number}]"
        if not isinstance(group, types.Tool):
            raise unsupported(model, place, "is not a `types.Tool` with function declarations")
        for declared in group.function_declarations or ():
            schema: Any = declared.parameters_json_schema
            if schema is None and declared.parameters is not None:
                schema = declared.parameters
            parameters = None if schema is None else json_schema_of(schema, model, f"{place}.parameters")
            if parameters is not None and parameters.get("type") == "object" and "properties" not in parameters:
                parameters["properties"] = {}  # OpenAI insists on them
            found.append(Function(declared.name or "", declared.description, parameters))
    return found


def refuse_server_tools(request: LlmRequest, model: str, why: str) -> None:
    """Raise `UnsupportedFeatureError` for tools that the provider would have to run; `why` says what to do."""
    for asked in asked_of(request):
        raise server_tool_error(model, asked, why)


def response_schema_of(request: LlmRequest, model: str) -> dict[str, Any] | None:
    """The JSON schema that the answer is to follow, if there is one."""
    config = cast(Any, request.config)
    if config.response_schema is not None:
        return json_schema_of(config.response_schema, model, "config.response_schema")
    if config.response_json_schema is not None:
        return json_schema_of(config.response_json_schema, model, "config.response_json_schema")
    return None


def json_schema_of(schema: Any, model: str, field: str) -> dict[str, Any]:
    """A JSON schema out of what Gemini accepts as one: a type, a `types.Schema`, or a JSON schema."""
    if isinstance(schema, types.Schema):
        return schema.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
    if isinstance(schema, Mapping):
        given = dict(cast(Mapping[str, Any], schema))
        if not _is_googles(given):
            return given
        try:
            return json_schema_of(types.Schema.model_validate(given), model, field)
        except ValidationError as error:
            why = f"is neither a JSON schema nor one of Gemini's dialect ({error})"
            raise unsupported(model, field, why) from error
    try:
        return dict(_schema_of_type(schema) if isinstance(schema, type) else TypeAdapter(schema).json_schema())
    except PydanticUserError as error:
        raise ModelRequestError(
            f"The request to the model `{model}` cannot be sent: `{field}` cannot be described as a JSON schema: "
            f"{error.message}",
            model=model,
        ) from error


@functools.lru_cache(maxsize=64)
def _schema_of_type(kind: type) -> dict[str, Any]:
    return TypeAdapter(kind).json_schema()


def _is_googles(schema: Any) -> bool:
    """Whether a schema as plain data is in Google's dialect: its types are in capitals."""
    if isinstance(schema, list):
        return any(map(_is_googles, cast(list[Any], schema)))
    if not isinstance(schema, dict):
        return False
    given = cast(dict[str, Any], schema)
    named = given.get("type")
    return (isinstance(named, str) and named.isupper()) or any(map(_is_googles, given.values()))


@dataclass(frozen=True, slots=True)
class CallingMode:
    """Whether the model may, must or must not call functions, and which (all, if `names` is empty)."""

    mode: Literal["auto", "any", "none"]
    names: tuple[str, ...] = ()


def calling_mode(request: LlmRequest) -> CallingMode | None:
    """The request's tool config, if it says anything."""
    given: Any = cast(Any, request.config).tool_config
    if isinstance(given, Mapping):
        given = types.ToolConfig.model_validate(given)
    config = cast(types.ToolConfig | None, given)
    calling = config.function_calling_config if config is not None else None
    if calling is None or calling.mode is None:
        return None
    modes: dict[str, Literal["auto", "any", "none"]] = {"ANY": "any", "NONE": "none"}
    mode = modes.get(str(_value(calling.mode)).upper(), "auto")
    return CallingMode(mode, tuple(calling.allowed_function_names or ()) if mode != "none" else ())


Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh"]


def effort_of(thinking: types.ThinkingConfig | None) -> Effort | None:
    """How much the model is to think, as other providers name it; None where the request leaves it to the model."""
    if thinking is None:
        return None
    level = str(_value(thinking.thinking_level) or "").lower()
    if level in ("minimal", "low", "medium", "high", "xhigh"):
        return cast(Effort, level)
    budget = thinking.thinking_budget
    if budget is None or budget < 0:
        return None
    if budget == 0:
        return "none"
    return "low" if budget <= 2048 else "medium" if budget <= 12288 else "high"


def thinking_of(request: LlmRequest) -> types.ThinkingConfig | None:
    """The request's thinking config."""
    given: Any = cast(Any, request.config).thinking_config
    return types.ThinkingConfig.model_validate(given) if isinstance(given, Mapping) else given


def arguments_json(args: dict[str, Any] | None) -> str:
    """The arguments of a call as JSON text; those that could not be read stand as they came."""
    if args and len(args) == 1 and isinstance(raw := args.get("$"), str):
        return raw
    return json_text(args or {})


def json_text(data: Any) -> str:
    """Data as JSON on one line; what JSON cannot hold is given by its `repr`.

    Raises `ModelRequestError` for data that holds itself, or is nested too deep.
    """
    quick = _quick_json(data)
    return _slow_json(data, ensure_ascii=True) if quick is None else quick.decode()


def as_json(data: Any) -> Any:
    """Data as plain values, of which an SDK can write the body of a request.

    What JSON has no words for (bytes, objects, halves of characters) is a text then, a number that is none null.
    """
    quick = _quick_json(data)
    if quick is None:  # halves of surrogate pairs, as in the names of some files, have no bytes
        quick = _slow_json(data, ensure_ascii=False).encode("utf-8", "replace")
    try:
        return pydantic_core.from_json(quick)
    except ValueError:  # deeper than it reads
        return json.loads(quick)


def _quick_json(data: Any) -> bytes | None:
    try:
        return pydantic_core.to_json(data, fallback=repr, bytes_mode="base64", inf_nan_mode="null")
    except (pydantic_core.PydanticSerializationError, ValueError):
        return None


def _slow_json(data: Any, *, ensure_ascii: bool) -> str:
    def plain(value: Any) -> Any:
        return pydantic_core.to_jsonable_python(value, fallback=repr, bytes_mode="base64")

    try:
        return json.dumps(data, ensure_ascii=ensure_ascii, default=plain)
    except (ValueError, RecursionError) as error:
        raise ModelRequestError(f"Something in a request cannot be written as JSON: {error}") from error


def code_text(part: types.Part) -> str | None:
    """Code that a model ran, or what it gave, as text: other providers do not run Google's code."""
    if part.executable_code is not None:
        language = str(_value(part.executable_code.language) or "").lower()
        return f"```{language}\n{part.executable_code.code or ''}\n```\n"
    if part.code_execution_result is not None:
        return f"```output\n{part.code_execution_result.output or ''}\n```\n"
    return None


def _value(member: Any) -> Any:
    return member.value if isinstance(member, Enum) else member
