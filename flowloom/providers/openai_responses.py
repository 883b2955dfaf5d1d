"""OpenAI's Responses API: the JSON of a request.

The conversation is sent whole, with the thoughts of the model in the encrypted form in which they came.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from typing import Any, cast

from google.genai import types

from flowloom.models.request import LlmRequest
from flowloom.models.server_parts import is_server_run
from flowloom.models.signatures import OPENAI, signature_of
from flowloom.providers.openai_chat import image_detail, shared_settings
from flowloom.providers.openai_items import kept_item
from flowloom.providers.openai_schema import named_schema
from flowloom.providers.openai_tools import server_tools_body
from flowloom.providers.sdk_answers import Json
from flowloom.providers.sdk_request import (
    Blob,
    Conversation,
    Drop,
    arguments_json,
    blob_of,
    calling_mode,
    code_text,
    effort_of,
    functions_of,
    json_text,
    refuse_unknown,
    response_schema_of,
    system_texts,
    thinking_of,
    unsupported,
)

_CALL_ID = re.compile(r"[^\x00-\x1f]{1,64}")


def responses_body(request: LlmRequest, contents: list[types.Content], model: str, *, stream: bool, drop: Drop) -> Json:
    """The JSON of a request."""
    config = cast(Any, request.config)
    body: Json = {
        "model": model,
        "input": list(_Items(contents, model, drop, _CALL_ID).all()),
        "store": bool(config.store),
    }
    if system := "\n\n".join(system_texts(request, model)):
        body["instructions"] = system
    if stream:
        body["stream"] = True
    body |= shared_settings(request, model)
    if config.max_output_tokens is not None:
        body["max_output_tokens"] = config.max_output_tokens
    if config.candidate_count not in (None, 1):
        raise unsupported(model, "config.candidate_count", "asks for several answers; this API gives one")
    if config.response_logprobs:
        body["include"] = ["message.output_text.logprobs"]
        body["top_logprobs"] = config.logprobs or 0
    if config.labels:
        body["metadata"] = config.labels
    thinking = thinking_of(request)
    reasoning: Json = {}
    if (effort := effort_of(thinking)) is not None:
        reasoning["effort"] = effort
    if thinking is not None and thinking.include_thoughts:
        reasoning["summary"] = "auto"
    if reasoning:
        body["reasoning"] = reasoning
    schema = response_schema_of(request, model)
    if schema is not None:
        body["text"] = {"format": {"type": "json_schema", **named_schema(schema, model, openai=True)}}
    elif config.response_mime_type == "application/json":
        body["text"] = {"format": {"type": "json_object"}}
    body |= _tools(request, model)
    server_tools, included = server_tools_body(request, model)
    if server_tools:
        body["tools"] = [*server_tools, *(body.get("tools") or ())]
    if included:
        body["include"] = [*(body.get("include") or ()), *included]
    return body


def _tools(request: LlmRequest, model: str) -> Json:
    functions = functions_of(request, model)
    if not functions:
        return {}
    tools: list[Json] = []
    nothing: Json = {"type": "object", "properties": {}}
    for function in functions:
        tool: Json = {"type": "function", "name": function.name, "parameters": function.parameters or nothing}
        if function.description:
            tool["description"] = function.description
        tools.append({**tool, "strict": False})
    wanted = calling_mode(request)
    if wanted is None:
        return {"tools": tools}
    mode = {"auto": "auto", "any": "required", "none": "none"}[wanted.mode]
    named = [{"type": "function", "name": name} for name in wanted.names]
    if len(named) == 1 and mode == "required":
        return {"tools": tools, "tool_choice": named[0]}
    if named:
        return {"tools": tools, "tool_choice": {"type": "allowed_tools", "mode": mode, "tools": named}}
    return {"tools": tools, "tool_choice": mode}


class _Items(Conversation):
    """The items of a conversation."""

    _approvals: dict[str | None, str]
    """What a person was asked for a remote MCP server, by the ids of the calls that it is here."""

    def all(self) -> Iterator[Json]:
        self._approvals = {}
        for number, content in enumerate(self._contents):
            of_role = self._of_model if content.role == "model" else self._of_user
            yield from of_role(number, content.parts or [])

    def _of_model(self, number: int, parts: list[types.Part]) -> list[Json]:
        """The items of a turn of the model's; a thought that nothing came of is refused, and left out."""
        items = list(self._items_of_model(number, parts))
        while items and items[-1]["type"] == "reasoning":
            items.pop()
        return items

    def _items_of_model(self, number: int, parts: list[types.Part]) -> Iterator[Json]:
        for n, part in enumerate(parts):
            call = part.function_call
            text = part.text or code_text(part)
            kept = kept_item(part) if part.thought_signature is not None else None
            if kept is not None:
                if call is not None:
                    self._approvals[self._ids.at(number, n)] = kept["id"]
                yield kept
            elif call is not None:
                call_id = self._ids.at(number, n)
                arguments = arguments_json(call.args)
                yield {"type": "function_call", "call_id": call_id, "name": call.name or "", "arguments": arguments}
            elif part.thought:
                yield from self._thought(part)
            elif is_server_run(part):
                if part.tool_response is not None:
                    self._drop("what another provider has run")
            elif text:
                yield {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": text}]}
            else:
                refuse_unknown(self._model, f"contents[{number}].parts[{n}]", part)

    def _thought(self, part: types.Part) -> Iterator[Json]:
        signature = signature_of(OPENAI, part.thought_signature)
        if signature is None:
            self._drop("thoughts that another model signed, or none")
            return
        summary = [{"type": "summary_text", "text": part.text}] if part.text else []
        try:
            yield {"type": "reasoning", "summary": summary, **json.loads(signature)}
        except (ValueError, TypeError):
            self._drop("thoughts with a signature that cannot be read")

    def _of_user(self, number: int, parts: list[types.Part]) -> Iterator[Json]:
        """Results of calls, an item each, and then all else in one."""
        said: list[Json] = []
        for n, part in enumerate(parts):
            place, result = f"contents[{number}].parts[{n}]", part.function_response
            if result is None:
                said += self._said(place, part)
                continue
            call_id, text = self._ids.at(number, n), json_text(result.response or {})
            if (asked := self._approvals.get(call_id)) is not None and call_id is not None:
                approve = "error" not in (result.response or {})
                yield {"type": "mcp_approval_response", "approval_request_id": asked, "approve": approve}
            elif call_id is None:
                said.append({"type": "input_text", "text": f"Result of `{result.name}`: {text}"})
            else:
                output = [{"type": "input_text", "text": text}, *self._files_of(place, result)]
                yield {
                    "type": "function_call_output",
                    "call_id": call_id,
                    "output": text if len(output) == 1 else output,
                }
        if said:
            yield {"type": "message", "role": "user", "content": said}

    def _files_of(self, place: str, result: types.FunctionResponse) -> Iterator[Json]:
        for n, part in enumerate(result.parts or ()):
            blob = blob_of(cast(Any, part.inline_data), cast(Any, part.file_data))
            if blob is not None:
                yield self._file(f"{place}.function_response.parts[{n}]", blob, {})

    def _said(self, place: str, part: types.Part) -> Iterator[Json]:
        blob = blob_of(part.inline_data, part.file_data)
        text = None if part.thought else part.text or code_text(part)
        if blob is not None:
            yield self._file(place, blob, image_detail(part))
        elif text:
            yield {"type": "input_text", "text": text}
        elif not part.thought:
            refuse_unknown(self._model, place, part)

    def _file(self, place: str, blob: Blob, detail: Json) -> Json:
        kind = "input_image" if blob.kind == "image" else "input_file"
        detail = {"detail": "auto", **detail} if kind == "input_image" else {}
        if blob.base64 is None:
            uri = blob.uri or ""
            if uri.startswith("file-"):
                return {"type": kind, "file_id": uri, **detail}
            if not uri.startswith(("http://", "https://")):
                raise unsupported(self._model, f"{place}.file_data", f"is at `{uri}`, which is no web address")
            return {"type": kind, "image_url" if kind == "input_image" else "file_url": uri, **detail}
        if kind == "input_image":
            return {"type": kind, "image_url": blob.data_url, **detail}
        if blob.kind == "pdf":
            return {"type": kind, "filename": blob.name or "file.pdf", "file_data": blob.data_url}
        if blob.kind == "text":
            return {"type": "input_text", "text": blob.text}
        raise unsupported(self._model, f"{place}.inline_data", f"is {blob.mime_type}, which this API does not take")
