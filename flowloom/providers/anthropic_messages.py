"""Anthropic's Messages API: the JSON of a request."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Literal, cast

from google.genai import types

from flowloom.errors import ModelRequestError
from flowloom.models.request import LlmRequest
from flowloom.models.server_parts import CONTAINER, is_server_run
from flowloom.models.signatures import (
    ANTHROPIC,
    ANTHROPIC_BLOCK,
    ANTHROPIC_REDACTED,
    ANTHROPIC_TEXT,
    signature_of,
)
from flowloom.models.turns import BEGIN, CONTINUE
from flowloom.providers.anthropic_models import Abilities, abilities_of
from flowloom.providers.anthropic_tools import server_tools_body
from flowloom.providers.sdk_answers import Json
from flowloom.providers.sdk_request import (
    Blob,
    CallingMode,
    Conversation,
    Drop,
    blob_of,
    calling_mode,
    code_text,
    effort_of,
    functions_of,
    json_text,
    refuse_unknown,
    system_texts,
    thinking_of,
    turn_of,
    unsupported,
)

_CALL_ID = re.compile(r"[a-zA-Z0-9_-]{1,64}")
_IMAGES = ("image/jpeg", "image/png", "image/gif", "image/webp")
_THOUGHTS = ("thinking", "redacted_thinking")
_TIERS = {"priority": "auto", "standard": "standard_only", "auto": "auto", "standard_only": "standard_only"}
_LEAST_BUDGET = 1024
_BUDGETS = {"minimal": 1024, "low": 2048, "medium": 8192, "high": 16_384, "xhigh": 32_768}
_NO_PARAMETERS: Json = {"type": "object", "properties": {}}


def messages_body(
    request: LlmRequest,
    contents: list[types.Content],
    model: str,
    *,
    stream: bool,
    drop: Drop,
    max_tokens: int,
    schema: Json | None,
    cache: Literal["5m", "1h"] | None,
    unbind: bool,
) -> Json:
    """The JSON of a request.

    `max_tokens` is for a request that says nothing of it, `schema` the one that the answer is to follow. With
    `unbind`, thoughts that do not fit what stands before them are left out by the server, which otherwise refuses them.
    """
    config = cast(Any, request.config)
    can = abilities_of(model)
    messages = _Messages(contents, model, drop, _CALL_ID).all()
    if not messages and request.config.system_instruction:
        messages = [{"role": "user", "content": [_text(BEGIN)]}]
    if not messages:
        raise ModelRequestError(f"The request to the model `{model}` has no contents but blank ones.", model=model)
    body: Json = {"model": model, "max_tokens": config.max_output_tokens or max_tokens, "messages": messages}
    if stream:
        body["stream"] = True
    if system := [_text(text) for text in system_texts(request, model) if text.strip()]:
        body["system"] = system
    if config.stop_sequences:
        body["stop_sequences"] = config.stop_sequences
    _refuse_formats(config, model, schema)
    if (tier := _tier(request, drop)) is not None:
        body["service_tier"] = tier
    wanted = calling_mode(request)
    body |= _tools(request, model, wanted, can, messages)
    server_tools, mcp_servers = server_tools_body(request, model)
    if server_tools:
        body["tools"] = [*server_tools, *(body.get("tools") or ())]
        if (container := container_in(contents)) is not None:
            body["container"] = container
    if mcp_servers:
        body["mcp_servers"] = mcp_servers
    forced = body.get("tool_choice", {}).get("type") in ("any", "tool")
    output: Json = {} if schema is None else {"format": {"type": "json_schema", "schema": schema}}
    _add_thinking(body, output, request, can, forced=forced, drop=drop)
    if unbind and _has_thoughts(messages) and body.get("thinking", {"type": "adaptive"})["type"] == "adaptive":
        binding = {"prefix_mismatch_behavior": "drop_block"}
        body["thinking"] = {"type": "adaptive", **body.get("thinking", {}), "block_binding": binding}
    if output:
        body["output_config"] = output
    body |= _sampling(config, model, can, body.get("thinking"), drop)
    if cache is not None:
        _mark(body, {"type": "ephemeral"} if cache == "5m" else {"type": "ephemeral", "ttl": cache})
    return body


def _refuse_formats(config: Any, model: str, schema: Json | None) -> None:
    """Raise `UnsupportedFeatureError` for answers that the API cannot give."""
    if config.candidate_count not in (None, 1):
        raise unsupported(model, "config.candidate_count", "asks for several answers; this API gives one")
    modalities: list[str] = [str(getattr(each, "value", each)).upper() for each in config.response_modalities or ()]
    if modalities not in ([], ["TEXT"]):
        raise unsupported(model, "config.response_modalities", "asks for something other than text")
    if config.response_mime_type in (None, "text/plain") or (
        schema is not None and config.response_mime_type == "application/json"
    ):
        return
    why = "which this API gives only by a `response_schema`" if "json" in config.response_mime_type else "not text"
    raise unsupported(model, "config.response_mime_type", f"is {config.response_mime_type!r}, {why}")


def _tier(request: LlmRequest, drop: Drop) -> str | None:
    given: Any = request.service_tier or cast(Any, request.config).service_tier
    name = str(getattr(given, "value", given) or "unspecified").lower()
    if name == "flex":
        drop("config.service_tier")
    return _TIERS.get(name)


# -- tools -----------------------------------------------------------------------------------------


def _tools(request: LlmRequest, model: str, wanted: CallingMode | None, can: Abilities, messages: list[Json]) -> Json:
    functions = functions_of(request, model)
    if not functions:
        return _tools_of_the_past(messages)
    mode = wanted.mode if wanted is not None else None
    names = list(wanted.names) if wanted is not None else []
    if mode == "any" and not can.forced:
        raise unsupported(model, "config.tool_config", "forces a call, which this model does not take")
    one = mode == "any" and len(names) == 1
    if names and not one:
        functions = [function for function in functions if function.name in names]
    tools: list[Json] = []
    for function in functions:
        schema = _NO_PARAMETERS if function.parameters is None else {"type": "object", **function.parameters}
        described = {"description": function.description} if function.description else {}
        tools.append({"name": function.name, **described, "input_schema": schema})
    if mode is None:
        return {"tools": tools}
    return {"tools": tools, "tool_choice": {"type": "tool", "name": names[0]} if one else {"type": mode}}


def _tools_of_the_past(messages: list[Json]) -> Json:
    """The functions that were called, when there are none to call now: the API wants to have them declared."""
    names = {block["name"]: None for message in messages for block in message["content"] if block["type"] == "tool_use"}
    if not names:
        return {}
    tools = [{"name": name, "input_schema": _NO_PARAMETERS} for name in names]
    return {"tools": tools, "tool_choice": {"type": "none"}}


# -- thinking and sampling -------------------------------------------------------------------------


def _add_thinking(body: Json, output: Json, request: LlmRequest, can: Abilities, *, forced: bool, drop: Drop) -> None:
    """Write how much the model is to think into `body` and `output`, its `output_config`."""
    config = thinking_of(request)
    effort = effort_of(config)
    budget = (config.thinking_budget or 0) if config is not None else 0
    wanted = config is not None and (effort not in (None, "none") or bool(config.include_thoughts) or budget < 0)
    if forced:
        if wanted:
            drop("config.thinking_config beside a forced call")
        if can.thinks:
            body["thinking"] = {"type": "disabled"}
    elif effort == "none":
        if can.off is None:
            drop("config.thinking_config.thinking_budget of 0")
            output["effort"] = "low"
        elif can.off != "omitted":
            body["thinking"] = {"type": can.off}
    elif not wanted or config is None:
        return
    elif can.adaptive and not (can.budget and budget > 0):
        body["thinking"] = {"type": "adaptive", **_display(config, adaptive=True)}
        if effort is not None:
            output["effort"] = {"minimal": "low", "xhigh": "xhigh" if can.xhigh else "high"}.get(effort, effort)
    elif not _may_think(body["messages"]):
        drop("config.thinking_config amid calls that were made without a thought")
    else:
        _add_budget(body, request, budget or _BUDGETS[effort or "medium"], drop, exact=budget > 0)
        if "thinking" in body:
            body["thinking"] |= _display(config, adaptive=False)


def _display(config: types.ThinkingConfig, *, adaptive: bool) -> Json:
    """Whether thoughts are to be shown. Models with a budget show them by default."""
    if config.include_thoughts is False:
        return {"display": "omitted"}
    return {"display": "summarized"} if config.include_thoughts and adaptive else {}


def _add_budget(body: Json, request: LlmRequest, budget: int, drop: Drop, *, exact: bool) -> None:
    """Give the model tokens to think, fewer than it has in all. `exact` ones are the request's own."""
    budget = max(_LEAST_BUDGET, _BUDGETS["medium"] if budget < 0 else budget)
    most: int | None = cast(Any, request.config).max_output_tokens
    if most is None:
        body["max_tokens"] += budget
    elif budget >= most:
        if exact:
            why = f"is not below `max_output_tokens` ({most})"
            raise unsupported(body["model"], "config.thinking_config.thinking_budget", why)
        budget = max(_LEAST_BUDGET, most // 2)
        if budget >= most:
            drop("config.thinking_config with so few `max_output_tokens`")
            return
    body["thinking"] = {"type": "enabled", "budget_tokens": budget}


def _may_think(messages: list[Json]) -> bool:
    """Whether a model with a budget may think now: amid calls only if it thought before the first of them."""
    if not any(block["type"] == "tool_result" for block in messages[-1]["content"]):
        return True
    for message in reversed(messages):
        if message["role"] == "assistant" and message["content"][0]["type"] in _THOUGHTS:
            return True
        if message["role"] == "user" and message["content"][0]["type"] != "tool_result":
            break
    return False


def _has_thoughts(messages: list[Json]) -> bool:
    return any(block["type"] in _THOUGHTS for message in messages for block in message["content"])


def _sampling(config: Any, model: str, can: Abilities, thinking: Json | None, drop: Drop) -> Json:
    """The sampling settings that the model takes, which is not to say all that it is given."""
    given = {name: value for name in ("temperature", "top_p", "top_k") if (value := getattr(config, name)) is not None}
    if thinking is not None and thinking["type"] in ("enabled", "adaptive"):
        refused = {"temperature": given.get("temperature") != 1, "top_p": given.get("top_p", 1) < 0.95, "top_k": True}
    else:
        refused = {"top_p": can.one_sampling and given.get("temperature", 1) != 1}
    for name in list(given):
        if can.sampling and not refused.get(name):
            continue
        if (name, given[name]) != ("temperature", 1):  # which is what it is anyway
            drop(f"config.{name}")
        del given[name]
    if can.one_sampling and len(given.keys() & {"temperature", "top_p"}) == 2:
        del given["temperature"]
    if given.get("temperature", 0) > 1:
        raise unsupported(model, "config.temperature", "is above 1, the most that this API takes")
    return given


# -- the cache -------------------------------------------------------------------------------------


def _mark(body: Json, mark: Json) -> None:
    """Mark what may be read from the cache next time; four marks are the most that the API takes.

    The end of the last user message but one is where the request before ended: what it left in the cache is looked
    for from there, since the server goes back only a few blocks from a mark.
    """
    ends: list[Json] = [body[part][-1] for part in ("tools", "system") if body.get(part)]
    said = [message["content"][-1] for message in body["messages"] if message["role"] == "user"]
    for block in (*ends, *said[-2:]):
        block["cache_control"] = mark


# -- messages --------------------------------------------------------------------------------------


def _text(text: str) -> Json:
    return {"type": "text", "text": text}


class _Messages(Conversation):
    """The messages of a conversation.

    A call of Anthropic's own without a result is waiting as long as the turn goes on, and refused when it is over.
    """

    def all(self) -> list[Json]:
        """Messages of user and model in turns, the results of calls first in those of the user.

        The last ones are the user's, save where the model has paused and is to go on.
        """
        messages: list[Json] = []
        parts = [part for content in self._contents for part in content.parts or ()]
        self._ran = {part.tool_response.id for part in parts if part.tool_response is not None}
        self._turn = turn_of(self._contents)
        for number, content in enumerate(self._contents):
            role, of_role = ("assistant", self._of_model) if content.role == "model" else ("user", self._of_user)
            blocks = [block for n, part in enumerate(content.parts or ()) for block in of_role(number, n, part)]
            if messages and messages[-1]["role"] == role:
                messages[-1]["content"] += blocks
            elif blocks:
                messages.append({"role": role, "content": blocks})
        paused = bool(self._contents) and self._contents[-1].role == "model"
        if messages and messages[-1]["role"] == "assistant" and not paused:  # what the user said last was blank
            messages.append({"role": "user", "content": [_text(CONTINUE)]})
        for message in messages:
            if message["role"] == "user":
                message["content"].sort(key=_comes_later)
        return messages

    def _of_model(self, number: int, n: int, part: types.Part) -> Iterator[Json]:
        call = part.function_call
        if call is not None:
            name, args = call.name or "", call.args or {}
            yield {"type": "tool_use", "id": self._ids.at(number, n), "name": name, "input": args}
        elif part.thought:
            yield from self._thought(part)
        elif is_server_run(part):
            if part.tool_call is None or part.tool_call.id in self._ran or number > self._turn:
                yield from self._kept(part, ANTHROPIC_BLOCK)
            else:
                self._drop("calls of the provider's own tools that never ran")
        elif part.text and part.text.strip() and signature_of(ANTHROPIC_TEXT, part.thought_signature) is not None:
            yield from self._kept(part, ANTHROPIC_TEXT)
        elif part.text or code_text(part):
            yield from _said(part)
        else:
            refuse_unknown(self._model, f"contents[{number}].parts[{n}]", part)

    def _kept(self, part: types.Part, maker: bytes) -> Iterator[Json]:
        """A block as it came, with the words of the part if it has some."""
        kept = signature_of(maker, part.thought_signature)
        if kept is None:
            self._drop("what another provider has run")
            return
        block: Json = json.loads(kept)
        yield {**block, "text": part.text} if part.text else block

    def _thought(self, part: types.Part) -> Iterator[Json]:
        hidden = signature_of(ANTHROPIC_REDACTED, part.thought_signature)
        signature = signature_of(ANTHROPIC, part.thought_signature)
        if hidden is not None:
            yield {"type": "redacted_thinking", "data": hidden}
        elif signature is not None:
            yield {"type": "thinking", "thinking": part.text or "", "signature": signature}
        else:
            self._drop("thoughts that another model signed, or none")

    def _of_user(self, number: int, n: int, part: types.Part) -> Iterator[Json]:
        place, result = f"contents[{number}].parts[{n}]", part.function_response
        if result is not None:
            yield from self._result(place, self._ids.at(number, n), result)
        elif (blob := blob_of(part.inline_data, part.file_data)) is not None:
            yield self._file(place, blob)
        elif part.text or code_text(part):
            yield from () if part.thought else _said(part)
        elif not part.thought:
            refuse_unknown(self._model, place, part)

    def _result(self, place: str, call_id: str | None, result: types.FunctionResponse) -> Iterator[Json]:
        response = result.response or {}
        text, files = json_text(response), list(self._files_of(place, result))
        if call_id is None:
            yield from (_text(f"Result of `{result.name}`: {text}"), *files)
            return
        block: Json = {
            "type": "tool_result",
            "tool_use_id": call_id,
            "content": [_text(text), *files] if files else text,
        }
        if response.keys() == {"error"} and response["error"] is not None:
            block["is_error"] = True
        yield block

    def _files_of(self, place: str, result: types.FunctionResponse) -> Iterator[Json]:
        for n, part in enumerate(result.parts or ()):
            blob = blob_of(cast(Any, part.inline_data), cast(Any, part.file_data))
            if blob is not None:
                yield self._file(f"{place}.function_response.parts[{n}]", blob)

    def _file(self, place: str, blob: Blob) -> Json:
        kind = "image" if blob.kind == "image" else "document"
        title = {"title": blob.name} if blob.name and kind == "document" else {}
        return {"type": kind, "source": self._source(place, blob, kind), **title}

    def _source(self, place: str, blob: Blob, kind: str) -> Json:
        if blob.base64 is None:
            uri = blob.uri or ""
            if uri.startswith(("file_", "file-")):
                return {"type": "file", "file_id": uri}
            if blob.kind in ("image", "pdf") and uri.startswith(("http://", "https://")):
                return {"type": "url", "url": uri}
            why = f"({blob.mime_type}) is at `{uri}`: this API takes web addresses of images and PDF, and ids of files"
            raise unsupported(self._model, f"{place}.file_data", why)
        media_type = "image/jpeg" if blob.mime_type == "image/jpg" else blob.mime_type
        if blob.kind == "pdf" or (kind == "image" and media_type in _IMAGES):
            return {"type": "base64", "media_type": media_type, "data": blob.base64}
        if blob.kind == "text":
            return {"type": "text", "media_type": "text/plain", "data": blob.text}
        raise unsupported(self._model, f"{place}.inline_data", f"is {blob.mime_type}, which this API does not take")


def container_in(contents: list[types.Content]) -> str | None:
    """Where code ran last, if that is still there: the next run finds what was left. A pause ends where it began."""
    paused = bool(contents) and contents[-1].role == "model"
    for content in reversed(contents):
        for part in reversed(content.parts or ()):
            noted: Any = (part.part_metadata or {}).get(CONTAINER)
            if noted:
                return noted["id"] if paused or _is_there(noted.get("expires_at")) else None
    return None


def _is_there(until: Any) -> bool:
    """Whether a moment, in ISO 8601, is still to come; what cannot be read is over."""
    try:
        return datetime.fromisoformat(until) > datetime.now(UTC)
    except (TypeError, ValueError):
        return False


def _comes_later(block: Json) -> bool:
    """False for the results of calls, which come before all else."""
    return block["type"] != "tool_result"


def _said(part: types.Part) -> Iterator[Json]:
    """The text of a part; none for a blank one, which the API refuses."""
    text = part.text or code_text(part) or ""
    if text.strip():
        yield _text(text)
