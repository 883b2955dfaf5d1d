"""OpenAI's chat completions: the JSON of a request."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any, cast

from google.genai import types

from flowloom.models.request import LlmRequest
from flowloom.models.server_parts import is_server_run
from flowloom.models.signatures import CHAT, signature_of
from flowloom.providers.openai_schema import named_schema
from flowloom.providers.sdk_answers import Json
from flowloom.providers.sdk_request import (
    Blob,
    Conversation,
    Drop,
    arguments_json,
    blob_of,
    calling_mode,
    check_form,
    code_text,
    effort_of,
    functions_of,
    json_text,
    refuse_server_tools,
    refuse_unknown,
    response_schema_of,
    system_texts,
    thinking_of,
    turn_of,
    unsupported,
)

_CALL_ID = re.compile(r"[^\x00-\x1f]{1,40}")
_AUDIO = {"audio/wav": "wav", "audio/x-wav": "wav", "audio/wave": "wav", "audio/mp3": "mp3", "audio/mpeg": "mp3"}
_DETAIL = {"MEDIA_RESOLUTION_LOW": "low", "MEDIA_RESOLUTION_HIGH": "high"}
NO_SERVER_TOOLS = (
    "is one that the provider would have to run, and chat completions run none. Use OpenAI's Responses API "
    "(`openai-responses/...`) or another provider, or give a function in its place: `native_or(function)`"
)
THOUGHT_FIELDS = ("reasoning_content", "reasoning")
"""Where servers that let one see thoughts write them."""
_FIELDS = {
    "stop_sequences": "stop",
    "seed": "seed",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "store": "store",
}
_TIERS = {"standard": "default", "flex": "flex", "priority": "priority"}


def chat_body(
    request: LlmRequest,
    contents: list[types.Content],
    model: str,
    *,
    stream: bool,
    drop: Drop,
    openai: bool,
    server: str = "",
) -> Json:
    """The JSON of a request.

    `openai` is False for other servers, which do not know the newer fields; `server` is the one that gets its thoughts
    back.
    """
    config = cast(Any, request.config)
    system = "\n\n".join(system_texts(request, model))
    messages: list[Json] = [{"role": "system", "content": system}] if system else []
    messages += _Messages(contents, model, drop, server).all()
    body: Json = {"model": model, "messages": messages}
    if stream:
        body |= {"stream": True, "stream_options": {"include_usage": True}}
    body |= shared_settings(request, model)
    if config.max_output_tokens is not None:
        body["max_completion_tokens" if openai else "max_tokens"] = config.max_output_tokens
    if config.candidate_count not in (None, 1):
        body["n"] = config.candidate_count
    for name, field in _FIELDS.items():
        if (value := getattr(config, name)) not in (None, []):
            body[field] = value
    body |= answer_settings(request, model, drop, openai=openai)
    body |= _tools(request, model, openai=openai)
    return body


def answer_settings(request: LlmRequest, model: str, drop: Drop, *, openai: bool) -> Json:
    """What a request says of thinking, of log probabilities, and of the form of the answer."""
    config = cast(Any, request.config)
    body: Json = {}
    if config.response_logprobs:
        body["logprobs"] = True
        if config.logprobs is not None:
            body["top_logprobs"] = config.logprobs
    thinking = thinking_of(request)
    if (effort := effort_of(thinking)) is not None:
        body["reasoning_effort"] = effort
    if thinking is not None and thinking.include_thoughts:
        drop("config.thinking_config.include_thoughts")
    schema = response_schema_of(request, model)
    if schema is not None:
        body["response_format"] = {"type": "json_schema", "json_schema": named_schema(schema, model, openai=openai)}
    elif config.response_mime_type == "application/json":
        body["response_format"] = {"type": "json_object"}
    return body


def shared_settings(request: LlmRequest, model: str) -> Json:
    """The settings that chat completions and Responses have under the same names."""
    config = cast(Any, request.config)
    body: Json = {name: value for name in ("temperature", "top_p") if (value := getattr(config, name)) is not None}
    tier = request.service_tier or config.service_tier
    if tier is not None and (name := str(getattr(tier, "value", tier)).lower()) != "unspecified":
        body["service_tier"] = _TIERS.get(name, name)
    check_form(request, model)
    return body


def _tools(request: LlmRequest, model: str, *, openai: bool) -> Json:
    refuse_server_tools(request, model, NO_SERVER_TOOLS)
    functions = functions_of(request, model)
    if not functions:
        return {}
    wanted = calling_mode(request)
    if wanted is not None and wanted.names and not {function.name for function in functions} & set(wanted.names):
        raise unsupported(model, "config.tool_config", "allows functions only that are not declared")
    if wanted is not None and wanted.names and not openai:
        functions = [function for function in functions if function.name in wanted.names]
    body: Json = {"tools": [{"type": "function", "function": _declaration(each)} for each in functions]}
    if wanted is None:
        return body
    named = [{"type": "function", "function": {"name": name}} for name in wanted.names]
    mode = {"auto": "auto", "any": "required", "none": "none"}[wanted.mode]
    if len(named) == 1 and mode == "required":
        body["tool_choice"] = named[0]
    elif named and openai:
        body["tool_choice"] = {"type": "allowed_tools", "allowed_tools": {"mode": mode, "tools": named}}
    else:
        body["tool_choice"] = mode
    return body


def _declaration(function: Any) -> Json:
    declared: Json = {"name": function.name}
    if function.description:
        declared["description"] = function.description
    if function.parameters is not None:
        declared["parameters"] = function.parameters
    return declared


class _Messages(Conversation):
    """The messages of a conversation.

    `server` gets back what it thought in the turn that goes on, between calls; some answer no further without.
    """

    def __init__(self, contents: list[types.Content], model: str, drop: Drop, server: str) -> None:
        super().__init__(contents, model, drop, _CALL_ID)
        self._server = server
        self._turn = turn_of(contents)

    def all(self) -> Iterator[Json]:
        for number, content in enumerate(self._contents):
            if content.role == "model":
                message = self._of_model(number, content.parts or ())
                if message is not None:
                    yield message
            else:
                yield from self._of_user(number, content.parts or ())

    def _of_model(self, number: int, parts: Any) -> Json | None:
        texts: list[str] = []
        calls: list[Json] = []
        thoughts: dict[str, str] = {}
        for n, part in enumerate(parts):
            call: types.FunctionCall | None = part.function_call
            if call is not None:
                function = {"name": call.name or "", "arguments": arguments_json(call.args)}
                calls.append({"id": self._ids.at(number, n), "type": "function", "function": function})
            elif part.thought:
                field = self._thought_field(number, part)
                if field:
                    thoughts[field] = thoughts.get(field, "") + (part.text or "")
            elif part.text:
                texts.append(part.text)
            elif (code := code_text(part)) is not None:
                texts.append(code)
            elif is_server_run(part):
                self._drop("what another provider has run")
            else:
                self._refuse(number, n, part)
        if not texts and not calls:
            return None
        message: Json = {"role": "assistant", "content": "".join(texts) or None}
        if calls:
            message |= {"tool_calls": calls, **thoughts}
        return message

    def _thought_field(self, number: int, part: types.Part) -> str | None:
        """Where a thought goes back; None where it is left out."""
        field, _, server = (signature_of(CHAT, part.thought_signature) or "").partition("@")
        if not self._server or server != self._server or field not in THOUGHT_FIELDS:
            self._drop("thoughts of the model")
            return None
        return field if number > self._turn else None

    def _of_user(self, number: int, parts: Any) -> Iterator[Json]:
        """Results of calls, a message each, and then all else in one."""
        items: list[Json] = []
        for n, part in enumerate(parts):
            result: types.FunctionResponse | None = part.function_response
            if result is None:
                items += self._items(number, n, part)
                continue
            if result.parts:
                place = f"contents[{number}].parts[{n}].function_response.parts"
                raise unsupported(self._model, place, "holds files, and results of calls are text in this API")
            call_id, text = self._ids.at(number, n), json_text(result.response or {})
            if call_id is None:
                items.append({"type": "text", "text": f"Result of `{result.name}`: {text}"})
            else:
                yield {"role": "tool", "tool_call_id": call_id, "content": text}
        if len(items) == 1 and items[0]["type"] == "text":
            yield {"role": "user", "content": items[0]["text"]}
        elif items:
            yield {"role": "user", "content": items}

    def _items(self, number: int, n: int, part: types.Part) -> Iterator[Json]:
        blob = blob_of(part.inline_data, part.file_data)
        text = part.text if not part.thought else None
        text = text or code_text(part)
        if blob is not None:
            yield self._file(f"contents[{number}].parts[{n}]", blob, part)
        elif text:
            yield {"type": "text", "text": text}
        elif not part.thought:
            self._refuse(number, n, part)

    def _file(self, place: str, blob: Blob, part: types.Part) -> Json:
        if blob.base64 is None:
            place, uri = f"{place}.file_data", blob.uri or ""
            if uri.startswith("file-"):
                return {"type": "file", "file": {"file_id": uri}}
            if blob.kind == "image" and uri.startswith(("http://", "https://")):
                return {"type": "image_url", "image_url": {"url": uri, **image_detail(part)}}
            raise unsupported(
                self._model, place, f"({blob.mime_type}) is at `{uri}`: this API takes web addresses of images only"
            )
        if blob.kind == "image":
            return {"type": "image_url", "image_url": {"url": blob.data_url, **image_detail(part)}}
        if blob.mime_type in _AUDIO:
            return {"type": "input_audio", "input_audio": {"data": blob.base64, "format": _AUDIO[blob.mime_type]}}
        if blob.kind == "pdf":
            return {"type": "file", "file": {"filename": blob.name or "file.pdf", "file_data": blob.data_url}}
        if blob.kind == "text":
            return {"type": "text", "text": blob.text}
        raise unsupported(self._model, f"{place}.inline_data", f"is {blob.mime_type}, which this API does not take")

    def _refuse(self, number: int, n: int, part: types.Part) -> None:
        refuse_unknown(self._model, f"contents[{number}].parts[{n}]", part)


def image_detail(part: types.Part) -> Json:
    """How closely an image is to be looked at."""
    level: Any = getattr(part.media_resolution, "level", None)
    detail = _DETAIL.get(str(getattr(level, "value", level)))
    return {} if detail is None else {"detail": detail}
