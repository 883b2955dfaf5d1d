"""Anthropic's Messages API, as the service writes it."""

from __future__ import annotations

import functools
import json
import re
from collections.abc import Iterator
from typing import Any

from google.genai import types
from models.answer_server import (
    AnswerServer,
    Json,
    RequestForm,
    base64_of,
    counts,
    fragments,
    is_signed,
    parts_of,
)
from models.wire_server import Reply, Seen

from flowloom import LlmResponse

ERROR_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    403: "permission_error",
    404: "not_found_error",
    413: "request_too_large",
    429: "rate_limit_error",
    504: "timeout_error",
    529: "overloaded_error",
}
FINISH = {"MAX_TOKENS": "max_tokens", "SAFETY": "refusal"}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,128}")
CALL_ID = re.compile(r"[a-zA-Z0-9_-]+")
THOUGHTS = ("thinking", "redacted_thinking")
SAMPLING = ("temperature", "top_p", "top_k")
"""What older models take, and the SDK's types have no more."""
OWN_SIGNATURE = "c2lnbmVkOmJ5IHRoZSBzZXJ2ZXI="
"""The signature of a thought whose answer has none: the service signs all thoughts."""


def error(status: int, message: str, *, headers: dict[str, str] | None = None) -> Reply:
    """An error as Anthropic reports it."""
    found = {"type": ERROR_TYPES.get(status, "api_error"), "message": message}
    body = {"type": "error", "error": found, "request_id": "req_1"}
    return Reply([json.dumps(body).encode()], status=status, headers={"request-id": "req_1", **(headers or {})})


def frame(data: Json) -> bytes:
    """One server-sent event, named as its data is."""
    return f"event: {data['type']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


class MessagesServer(AnswerServer):
    """Speaks the Messages API."""

    omits = False
    """Whether a hidden thought has a signature only; otherwise it is redacted."""

    def is_streamed(self, seen: Seen) -> bool:
        return bool(seen.json.get("stream"))

    def headers(self) -> dict[str, str]:
        return {"request-id": "req_1", "anthropic-organization-id": "org-1"}

    def error(self, status: int, message: str, headers: dict[str, str] | None = None) -> Reply:
        return error(status, message, headers=headers)

    def error_inside(self) -> tuple[Json, bytes]:
        found = {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}
        return found, frame(found)

    def refused(self, seen: Seen) -> Reply | None:
        if seen.method != "POST" or seen.path != "/v1/messages":
            return error(404, "Not found")
        if not (seen.header("x-api-key") or seen.header("authorization")):
            return error(401, "x-api-key header is required")
        if not seen.header("anthropic-version"):
            return error(400, "anthropic-version: header is required")
        problem = messages_problem(seen.json)
        return None if problem is None else error(400, problem)

    # -- whole -------------------------------------------------------------------------------------

    def whole(self, response: LlmResponse, seen: Seen) -> Json:
        prompt, cached, output, thoughts, _ = counts(response)
        return {
            "id": "msg_1",
            "type": "message",
            "role": "assistant",
            "model": seen.json["model"],
            "content": list(self._blocks(response)),
            "stop_reason": _stop_reason(response),
            "stop_sequence": None,
            "usage": {**_input_usage(prompt, cached), **_output_usage(output, thoughts), "service_tier": "standard"},
        }

    # -- streamed ----------------------------------------------------------------------------------

    def events(self, response: LlmResponse, seen: Seen) -> list[bytes]:
        return [frame(event) for event in self._events(response, seen)]

    def _events(self, response: LlmResponse, seen: Seen) -> Iterator[Json]:
        prompt, cached, output, thoughts, _ = counts(response)
        message = self.whole(response, seen)
        message |= {"content": [], "stop_reason": None}
        message["usage"] = {**_input_usage(prompt, cached), "output_tokens": 1, "service_tier": "standard"}
        yield {"type": "message_start", "message": message}
        for index, block in enumerate(self._blocks(response)):
            start, deltas = _begun(block)
            yield {"type": "content_block_start", "index": index, "content_block": start}
            if index == 0:
                yield {"type": "ping"}
            for delta in deltas:
                yield {"type": "content_block_delta", "index": index, "delta": delta}
            yield {"type": "content_block_stop", "index": index}
        end = {"stop_reason": _stop_reason(response), "stop_sequence": None}
        yield {"type": "message_delta", "delta": end, "usage": _output_usage(output, thoughts)}
        yield {"type": "message_stop"}

    def _blocks(self, response: LlmResponse) -> Iterator[Json]:
        cited = (response.citation_metadata.citations if response.citation_metadata is not None else None) or []
        for part in parts_of(response):
            call, signature = part.function_call, base64_of(part.thought_signature)
            if call is not None:
                yield {"type": "tool_use", "id": call.id, "name": call.name, "input": call.args or {}}
            elif part.thought and not part.text and not self.omits:
                yield {"type": "redacted_thinking", "data": signature}
            elif part.thought:
                yield {"type": "thinking", "thinking": part.text, "signature": signature or OWN_SIGNATURE}
            else:
                citations = [_citation(each) for each in cited]
                yield {"type": "text", "text": part.text or "", **({"citations": citations} if citations else {})}


def _citation(cited: types.Citation) -> Json:
    return {
        "type": "web_search_result_location",
        "url": cited.uri,
        "title": cited.title,
        "cited_text": "As it stands there.",
        "encrypted_index": "eA==",
    }


def _begun(block: Json) -> tuple[Json, list[Json]]:
    """A block as it begins, and what it then grows by."""
    kind = block["type"]
    if kind == "text":
        cited = [{"type": "citations_delta", "citation": each} for each in block.get("citations", ())]
        grown = [{"type": "text_delta", "text": piece} for piece in fragments(block["text"])]
        return {**block, "text": "", **({"citations": []} if cited else {})}, [*cited, *grown]
    if kind == "thinking":
        grown = [{"type": "thinking_delta", "thinking": piece} for piece in fragments(block["thinking"])]
        signature = {"type": "signature_delta", "signature": block["signature"]}
        return {**block, "thinking": "", "signature": ""}, [*grown, signature]
    if kind == "tool_use":
        given = json.dumps(block["input"], ensure_ascii=False) if block["input"] else ""
        pieces = ["", *fragments(given, 5)]  # the first is always empty
        return {**block, "input": {}}, [{"type": "input_json_delta", "partial_json": piece} for piece in pieces]
    return block, []


def _stop_reason(response: LlmResponse) -> str:
    reason = response.finish_reason.value if response.finish_reason is not None else "STOP"
    return FINISH.get(reason) or ("tool_use" if response.get_function_calls() else "end_turn")


def _input_usage(prompt: int, cached: int) -> Json:
    return {
        "input_tokens": prompt - cached,
        "cache_creation_input_tokens": 0,
        "cache_read_input_tokens": cached,
        "cache_creation": {"ephemeral_5m_input_tokens": 0, "ephemeral_1h_input_tokens": 0},
    }


def _output_usage(output: int, thoughts: int) -> Json:
    details = {"output_tokens_details": {"thinking_tokens": thoughts}} if thoughts else {}
    return {"output_tokens": output, **details}


# -- what the service refuses ----------------------------------------------------------------------


@functools.cache
def _form() -> RequestForm:
    from anthropic.types.message_create_params import MessageCreateParamsNonStreaming, MessageCreateParamsStreaming

    return RequestForm(MessageCreateParamsNonStreaming | MessageCreateParamsStreaming)


def messages_problem(body: Json) -> str | None:
    """Why the service refuses a request; None if it does not."""
    known = {name: value for name, value in body.items() if name not in SAMPLING}
    problem = _form().problem(known)
    if problem is not None:
        return problem
    messages = [{**each, "content": _as_blocks(each["content"])} for each in body["messages"]]
    found = (*_block_problems(body, messages), *_pairing_problems(messages), *_settings_problems(body, messages))
    return next(iter(found), None)


def _as_blocks(content: Any) -> list[Json]:
    return [{"type": "text", "text": content}] if isinstance(content, str) else content


def _block_problems(body: Json, messages: list[Json]) -> Iterator[str]:
    if not messages:
        yield "messages: at least one message is required"
    system = body.get("system")
    for block in system if isinstance(system, list) else []:
        if not block["text"].strip():
            yield "system: text content blocks must contain non-whitespace text"
    for number, message in enumerate(messages):
        place = f"messages.{number}"
        if not message["content"]:
            yield f"{place}: all messages must have non-empty content except for the optional final assistant message"
        for block in message["content"]:
            if block["type"] == "text" and not block["text"]:
                yield "messages: text content blocks must be non-empty"
            elif block["type"] == "text" and not block["text"].strip():
                yield "messages: text content blocks must contain non-whitespace text"
            if block["type"] in THOUGHTS and "cache_control" in block:
                yield f"{place}: `cache_control` cannot be set for thinking blocks"
            if block["type"] in THOUGHTS and message["role"] != "assistant":
                yield f"{place}: thinking blocks may only be in `assistant` messages"
            if block["type"] == "thinking" and not is_signed(block["signature"]):
                yield f"{place}: Invalid `signature` in `thinking` block"
            if block["type"] == "redacted_thinking" and not is_signed(block["data"]):
                yield f"{place}: Invalid `data` in `redacted_thinking` block"
    if json.dumps(body).count('"cache_control"') > 4:
        yield "A maximum of 4 blocks with cache_control may be provided."


def _pairing_problems(messages: list[Json]) -> Iterator[str]:
    """Each call has its result in the next message, before all else there; no result is without a call."""
    turns: list[Json] = []
    for message in messages:  # the service joins turns of one role
        if turns and turns[-1]["role"] == message["role"]:
            turns[-1] = {**message, "content": [*turns[-1]["content"], *message["content"]]}
        else:
            turns.append(message)
    seen: set[str] = set()
    waiting: list[str] = []
    for number, turn in enumerate(turns):
        place = f"messages.{number}"
        blocks: list[Json] = turn["content"]
        results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
        for result in results:
            if result not in waiting:
                yield f"{place}: unexpected `tool_use_id` found in `tool_result` blocks: {result}"
        first = [block["type"] == "tool_result" for block in blocks[: len(results)]]
        if set(waiting) - set(results) or not all(first):
            yield f"{place}: `tool_use` ids were found without `tool_result` blocks immediately after: {waiting}"
        if len(set(results)) < len(results):
            yield f"{place}: each tool_use must have a single result. Found multiple `tool_result` blocks."
        waiting = [block["id"] for block in blocks if block["type"] == "tool_use"]
        for call in waiting:
            if not CALL_ID.fullmatch(call):
                yield f"{place}.tool_use.id: String should match pattern '^[a-zA-Z0-9_-]+$'"
            if call in seen:
                yield f"{place}: `tool_use` ids must be unique"
            seen.add(call)
    if waiting:
        yield f"messages: `tool_use` ids were found without `tool_result` blocks immediately after: {waiting}"
    if turns and turns[-1]["role"] == "assistant":
        yield "This model does not support assistant message prefill. The conversation must end with a user message."


def _settings_problems(body: Json, messages: list[Json]) -> Iterator[str]:
    yield from _tool_problems(body, messages)
    if not 0 <= body.get("temperature", 1) <= 1:
        yield "temperature: range: 0..1"
    if body["max_tokens"] < 1:
        yield "max_tokens: must be greater than or equal to 1"
    for stop in body.get("stop_sequences") or ():
        if not stop.strip():
            yield "stop_sequences: each stop sequence must contain non-whitespace"
    thinking = body.get("thinking") or {"type": "disabled"}
    if thinking["type"] == "enabled":
        yield from _thinking_problems(body, messages, thinking["budget_tokens"])


def _tool_problems(body: Json, messages: list[Json]) -> Iterator[str]:
    tools: list[Json] = body.get("tools") or []
    used = any(block["type"] in ("tool_use", "tool_result") for each in messages for block in each["content"])
    if used and not tools:
        yield "Requests which include `tool_use` or `tool_result` blocks must define tools"
    if body.get("tool_choice") and not tools:
        yield "tool_choice: may only be specified while providing tools"
    names = [tool["name"] for tool in tools]
    if len(set(names)) < len(names):
        yield "tools: Tool names must be unique."
    for tool in tools:
        if not NAME.fullmatch(tool["name"]):
            yield "tools: String should match pattern '^[a-zA-Z0-9_-]{1,128}$'"
        if "type" not in tool and tool["input_schema"].get("type") != "object":
            yield "tools.input_schema.type: Input should be 'object'"
    choice = body.get("tool_choice") or {}
    if choice.get("type") == "tool" and choice["name"] not in names:
        yield f"Tool '{choice['name']}' not found in provided tools"


def _thinking_problems(body: Json, messages: list[Json], budget: int) -> Iterator[str]:
    if budget < 1024:
        yield "thinking.enabled.budget_tokens: Input should be greater than or equal to 1024"
    if budget >= body["max_tokens"]:
        yield "`max_tokens` must be greater than `thinking.budget_tokens`"
    if body.get("temperature", 1) != 1:
        yield "`temperature` may only be set to 1 when thinking is enabled."
    if "top_k" in body:
        yield "`top_k` must be unset when thinking is enabled."
    if (body.get("tool_choice") or {}).get("type") in ("any", "tool"):
        yield "Thinking may not be enabled when tool_choice forces tool use."
    answered = messages[-1]["content"][0]["type"] == "tool_result"
    last = next((each for each in reversed(messages) if each["role"] == "assistant"), None)
    if answered and last is not None and last["content"][0]["type"] not in THOUGHTS:
        yield (
            "messages: Expected `thinking` or `redacted_thinking`, but found `tool_use`. When `thinking` is enabled, "
            "a final `assistant` message must start with a thinking block"
        )
