"""OpenAI's Responses API, as the service writes it."""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator
from itertools import count
from typing import Any

from google.genai import types
from models.answer_server import (
    Json,
    RequestForm,
    base64_of,
    counts,
    fragments,
    is_refusal,
    is_signed,
    parts_of,
)
from models.wire_server import Reply, Seen
from providers.openai_wire import NAME, OpenAIServer, cited_pages, error, schema_problem, token_logprobs, tools_problem

from flowloom import LlmResponse

INCOMPLETE = {"MAX_TOKENS": "max_output_tokens", "SAFETY": "content_filter"}


def frame(data: Json) -> bytes:
    """One server-sent event, named as its data is."""
    return f"event: {data['type']}\ndata: {json.dumps(data, ensure_ascii=False)}\n\n".encode()


class ResponsesServer(OpenAIServer):
    """Speaks the Responses API, below `/v1`."""

    def error_inside(self) -> tuple[Json, bytes]:
        failed = {
            "id": "resp_1",
            "object": "response",
            "status": "failed",
            "error": {"code": "server_error", "message": "The model failed to answer."},
            "output": [],
        }
        return failed, frame({"type": "response.failed", "response": failed, "sequence_number": 9})

    def refused(self, seen: Seen) -> Reply | None:
        if seen.method != "POST" or seen.path != "/v1/responses":
            return error(404, f"Invalid URL ({seen.method} {seen.path})")
        if not seen.header("authorization"):
            return error(401, "You didn't provide an API key.")
        problem = responses_problem(seen.json)
        return None if problem is None else error(400, problem)

    # -- whole -------------------------------------------------------------------------------------

    def whole(self, response: LlmResponse, seen: Seen) -> Json:
        prompt, cached, output, thoughts, total = counts(response)
        why = _incomplete(response)
        asked = seen.json
        return {
            **_head(asked),
            "status": "completed" if why is None else "incomplete",
            "incomplete_details": None if why is None else {"reason": why},
            "output": list(_items(response, asked, "completed" if why is None else "incomplete")),
            "usage": {
                "input_tokens": prompt,
                "input_tokens_details": {"cached_tokens": cached, "cache_write_tokens": 0},
                "output_tokens": output,
                "output_tokens_details": {"reasoning_tokens": thoughts},
                "total_tokens": total,
            },
        }

    # -- streamed ----------------------------------------------------------------------------------

    def events(self, response: LlmResponse, seen: Seen) -> list[bytes]:
        numbers = count()
        return [frame({**event, "sequence_number": next(numbers)}) for event in self._events(response, seen)]

    def _events(self, response: LlmResponse, seen: Seen) -> Iterator[Json]:
        begun = {**_head(seen.json), "status": "in_progress", "output": [], "usage": None}
        yield {"type": "response.created", "response": begun}
        yield {"type": "response.in_progress", "response": begun}
        whole = self.whole(response, seen)
        for place, item in enumerate(whole["output"]):
            grown = {"reasoning": _thought_events, "message": _message_events, "function_call": _call_events}
            start, events = grown[item["type"]](item)
            yield {"type": "response.output_item.added", "output_index": place, "item": start}
            for event in events:
                yield {**event, "item_id": item["id"], "output_index": place}
            yield {"type": "response.output_item.done", "output_index": place, "item": item}
        yield {"type": f"response.{whole['status']}", "response": whole}


def _head(asked: Json) -> Json:
    """What a response has whether or not it is complete."""
    return {
        "id": "resp_1",
        "object": "response",
        "created_at": 1_760_000_000,
        "background": False,
        "error": None,
        "incomplete_details": None,
        "instructions": asked.get("instructions"),
        "max_output_tokens": asked.get("max_output_tokens"),
        "metadata": asked.get("metadata") or {},
        "model": asked["model"],
        "parallel_tool_calls": True,
        "previous_response_id": None,
        "reasoning": {"effort": None, "summary": None},
        "store": asked.get("store", True),
        "temperature": asked.get("temperature", 1.0),
        "text": asked.get("text") or {"format": {"type": "text"}},
        "tool_choice": asked.get("tool_choice", "auto"),
        "tools": asked.get("tools") or [],
        "top_p": asked.get("top_p", 1.0),
        "truncation": "disabled",
        "user": None,
    }


def _incomplete(response: LlmResponse) -> str | None:
    if is_refusal(response) or response.finish_reason is None:
        return None
    return INCOMPLETE.get(response.finish_reason.value)


def _items(response: LlmResponse, asked: Json, status: str) -> Iterator[Json]:
    for number, part in enumerate(parts_of(response)):
        call = part.function_call
        if call is not None:
            yield {
                "id": f"fc_{number}",
                "type": "function_call",
                "status": status,
                "arguments": json.dumps(call.args or {}),
                "call_id": call.id,
                "name": call.name,
            }
        elif part.thought:
            secret = base64_of(part.thought_signature)
            summary = [{"type": "summary_text", "text": part.text}] if part.text else []
            sealed = {"encrypted_content": secret} if secret else {}
            yield {"id": f"rs_{number}", "type": "reasoning", "summary": summary, **sealed}
        else:
            content = [_said(response, part, asked)]
            yield {
                "id": f"msg_{number}",
                "type": "message",
                "status": status,
                "role": "assistant",
                "content": content,
            }


def _said(response: LlmResponse, part: types.Part, asked: Json) -> Json:
    if is_refusal(response):
        return {"type": "refusal", "refusal": part.text}
    annotations = [{"type": "url_citation", **page} for page in cited_pages(response)]
    wanted = "message.output_text.logprobs" in (asked.get("include") or ())
    logprobs = token_logprobs(response) if wanted else []
    return {"type": "output_text", "text": part.text, "annotations": annotations, "logprobs": logprobs}


def _thought_events(item: Json) -> tuple[Json, Iterator[Json]]:
    def events() -> Iterator[Json]:
        for n, summary in enumerate(item["summary"]):
            at: Json = {"summary_index": n}
            kind = "response.reasoning_summary"
            yield {"type": f"{kind}_part.added", **at, "part": {"type": "summary_text", "text": ""}}
            for piece in fragments(summary["text"]):
                yield {"type": f"{kind}_text.delta", **at, "delta": piece, "obfuscation": "x"}
            yield {"type": f"{kind}_text.done", **at, "text": summary["text"]}
            yield {"type": f"{kind}_part.done", **at, "part": summary}

    # what is encrypted is not whole before the end
    unfinished = {"encrypted_content": item["encrypted_content"][:4]} if "encrypted_content" in item else {}
    return {**item, "summary": [], **unfinished}, events()


def _message_events(item: Json) -> tuple[Json, Iterator[Json]]:
    def events() -> Iterator[Json]:
        [part] = item["content"]
        at: Json = {"content_index": 0}
        refused = part["type"] == "refusal"
        empty = {**part, "refusal": ""} if refused else {**part, "text": "", "annotations": [], "logprobs": []}
        yield {"type": "response.content_part.added", **at, "part": empty}
        if refused:
            for piece in fragments(part["refusal"]):
                yield {"type": "response.refusal.delta", **at, "delta": piece}
            yield {"type": "response.refusal.done", **at, "refusal": part["refusal"]}
        else:
            yield from _text_events(part, at)
        yield {"type": "response.content_part.done", **at, "part": part}

    return {**item, "status": "in_progress", "content": []}, events()


def _text_events(part: Json, at: Json) -> Iterator[Json]:
    tokens: list[Json] = part["logprobs"]
    pieces = [(token["token"], [token]) for token in tokens] or [(piece, []) for piece in fragments(part["text"])]
    for piece, logprobs in pieces:
        yield {"type": "response.output_text.delta", **at, "delta": piece, "logprobs": logprobs, "obfuscation": "x"}
    for n, annotation in enumerate(part["annotations"]):
        added = {"annotation_index": n, "annotation": annotation}
        yield {"type": "response.output_text.annotation.added", **at, **added}
    yield {"type": "response.output_text.done", **at, "text": part["text"], "logprobs": tokens}


def _call_events(item: Json) -> tuple[Json, Iterator[Json]]:
    def events() -> Iterator[Json]:
        kind = "response.function_call_arguments"
        for piece in fragments(item["arguments"], 5):
            yield {"type": f"{kind}.delta", "delta": piece, "obfuscation": "x"}
        yield {"type": f"{kind}.done", "arguments": item["arguments"]}

    return {**item, "status": "in_progress", "arguments": ""}, events()


# -- what the service refuses ----------------------------------------------------------------------


@functools.cache
def _form() -> RequestForm:
    from openai.types.responses.response_create_params import (
        ResponseCreateParamsNonStreaming,
        ResponseCreateParamsStreaming,
    )

    return RequestForm(ResponseCreateParamsNonStreaming | ResponseCreateParamsStreaming)


def responses_problem(body: Json) -> str | None:
    """Why the service refuses a request; None if it does not."""
    given = body.get("input")
    items: list[Json] = given if isinstance(given, list) else []
    problem = _form().problem({**body, "input": [_filled(item) for item in items]} if items else body)
    return problem or tools_problem(body, nested=False) or next(_item_problems(body, items), None)


def _filled(item: Json) -> Json:
    """A message of the model with what the SDK's types ask for and the service does not."""
    if item.get("type", "message") != "message" or item.get("role") != "assistant":
        return item
    content: Any = item.get("content")
    if not isinstance(content, list):
        return item
    filled = [{"annotations": [], **part} if part.get("type") == "output_text" else part for part in content]
    return {"id": "msg_1", "status": "completed", **item, "content": filled}


def _item_problems(body: Json, items: list[Json]) -> Iterator[str]:
    wanted = (body.get("text") or {}).get("format") or {}
    if wanted.get("type") == "json_schema" and (problem := schema_problem(wanted)) is not None:
        yield problem
    if wanted.get("type") == "json_object" and "json" not in json.dumps(items).lower():
        yield "Response input messages must contain the word 'json' in some form to use 'text.format' 'json_object'."
    if body.get("input") in ([], ""):
        yield "Invalid 'input': empty array. Expected an array with minimum length 1."
    called: set[str] = set()
    answered: set[str] = set()
    for number, item in enumerate(items):
        place, kind = f"input[{number}]", item.get("type")
        if kind == "function_call":
            if not 1 <= len(item["call_id"]) <= 64:
                yield f"Invalid '{place}.call_id': string too long. Expected a string with maximum length 64."
            if not NAME.fullmatch(item["name"]):
                yield f"Invalid '{place}.name': string does not match pattern."
            if item["call_id"] in called:
                yield f"Duplicate function call id {item['call_id']}."
            called.add(item["call_id"])
        elif kind == "function_call_output":
            if item["call_id"] not in called - answered:
                yield f"No tool call found for function call output with call_id {item['call_id']}."
            answered.add(item["call_id"])
        elif kind == "reasoning":
            yield from _thought_problems(body, place, item, items[number + 1 :])
        elif item.get("content") == []:
            yield f"Invalid '{place}.content': empty array."
    for call in called - answered:
        yield f"No tool output found for function call {call}."


def _thought_problems(body: Json, place: str, item: Json, behind: list[Json]) -> Iterator[str]:
    name = item["id"]
    if not name.startswith("rs"):
        yield f"Invalid '{place}.id': '{name}'. Expected an ID that begins with 'rs'."
    secret = item.get("encrypted_content")
    if secret is None and not body.get("store", True):
        yield f"Item with id '{name}' not found. Items are not persisted when `store` is set to false."
    if secret is not None and not is_signed(secret):
        yield f"The encrypted content for item {name} could not be verified."
    following = next((each for each in behind if each.get("type") != "reasoning"), {})
    if following.get("type") != "function_call" and following.get("role") != "assistant":
        yield f"Item '{name}' of type 'reasoning' was provided without its required following item."
