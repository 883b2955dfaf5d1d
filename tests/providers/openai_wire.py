"""OpenAI's chat completions, as the service and the servers that imitate it write them."""

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
    counts,
    fragments,
    is_refusal,
    parts_of,
)
from models.wire_server import Reply, Seen

from flowloom import LlmResponse

FINISH = {"MAX_TOKENS": "length", "SAFETY": "content_filter"}
ERROR_TYPES = {
    400: ("invalid_request_error", None),
    401: ("invalid_request_error", "invalid_api_key"),
    403: ("invalid_request_error", "unsupported_country_region_territory"),
    404: ("invalid_request_error", "model_not_found"),
    429: ("requests", "rate_limit_exceeded"),
}
NAME = re.compile(r"[a-zA-Z0-9_-]{1,64}")


def error(
    status: int,
    message: str,
    kind: str | None = None,
    *,
    param: str | None = None,
    code: str | None = None,
    headers: dict[str, str] | None = None,
) -> Reply:
    """An error as OpenAI reports it."""
    usual_kind, usual_code = ERROR_TYPES.get(status, ("server_error", None))
    found = {"message": message, "type": kind or usual_kind, "param": param, "code": code or usual_code}
    return Reply(
        [json.dumps({"error": found}).encode()], status=status, headers={"x-request-id": "req_1", **(headers or {})}
    )


def frame(data: Any) -> bytes:
    """One server-sent event of chat completions."""
    return b"data: " + (data if isinstance(data, bytes) else json.dumps(data, ensure_ascii=False).encode()) + b"\n\n"


class OpenAIServer(AnswerServer):
    """What both of OpenAI's APIs have, below `/v1`."""

    @property
    def url(self) -> str:
        return f"{super().url}/v1"

    def is_streamed(self, seen: Seen) -> bool:
        return bool(seen.json.get("stream"))

    def headers(self) -> dict[str, str]:
        return {"x-request-id": "req_1", "openai-version": "2020-10-01"}

    def error(self, status: int, message: str, headers: dict[str, str] | None = None) -> Reply:
        return error(status, message, headers=headers)


class ChatServer(OpenAIServer):
    """Speaks chat completions, below `/v1`. As servers of one's own do, it shows thoughts."""

    reasoning = "reasoning_content"
    """The field that thoughts are in; some servers call it `reasoning`."""

    def error_inside(self) -> tuple[Json, bytes]:
        found = {"message": "The server had an error.", "type": "server_error", "param": None, "code": None}
        return {"error": found}, frame({"error": found})

    def refused(self, seen: Seen) -> Reply | None:
        if seen.method != "POST" or seen.path != "/v1/chat/completions":
            return error(404, f"Invalid URL ({seen.method} {seen.path})")
        if not seen.header("authorization"):
            return error(401, "You didn't provide an API key.")
        problem = chat_problem(seen.json)
        return None if problem is None else error(400, problem)

    # -- whole -------------------------------------------------------------------------------------

    def whole(self, response: LlmResponse, seen: Seen) -> Json:
        message: Json = {"role": "assistant", "content": None, "refusal": None, "annotations": _annotations(response)}
        text = "".join(part.text or "" for part in parts_of(response) if not part.thought)
        thoughts = "".join(part.text or "" for part in parts_of(response) if part.thought)
        message["refusal" if is_refusal(response) else "content"] = text or None
        if thoughts:
            message[self.reasoning] = thoughts
        if calls := [_call(part.function_call) for part in parts_of(response) if part.function_call is not None]:
            message["tool_calls"] = calls
        choice = {"index": 0, "message": message, "logprobs": _logprobs(response), "finish_reason": _finish(response)}
        return {
            "id": "chatcmpl-1",
            "object": "chat.completion",
            "created": 1_760_000_000,
            "model": seen.json["model"],
            "choices": [choice],
            "usage": _usage(response),
            "service_tier": "default",
            "system_fingerprint": "fp_1",
        }

    # -- streamed ----------------------------------------------------------------------------------

    def events(self, response: LlmResponse, seen: Seen) -> list[bytes]:
        wants_usage = bool((seen.json.get("stream_options") or {}).get("include_usage"))
        head = {
            "id": "chatcmpl-1",
            "object": "chat.completion.chunk",
            "created": 1_760_000_000,
            "model": seen.json["model"],
            "service_tier": "default",
            "system_fingerprint": "fp_1",
        }
        usage = {"usage": None} if wants_usage else {}
        chunks: list[Json] = []
        for delta, logprobs in self._deltas(response):
            choice = {"index": 0, "delta": delta, "logprobs": logprobs, "finish_reason": None}
            chunks.append({**head, "choices": [choice], **usage, "obfuscation": "x"})
        last = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": _finish(response)}
        chunks.append({**head, "choices": [last], **usage})
        if wants_usage:
            chunks.append({**head, "choices": [], "usage": _usage(response)})
        return [*map(frame, chunks), frame(b"[DONE]")]

    def _deltas(self, response: LlmResponse) -> Iterator[tuple[Json, Json | None]]:
        yield {"role": "assistant", "content": "", "refusal": None}, None
        field = "refusal" if is_refusal(response) else "content"
        tokens = ((_logprobs(response) or {}).get("content")) or []
        index = 0
        for part in parts_of(response):
            call = part.function_call
            if call is not None:
                yield from ((delta, None) for delta in _call_deltas(index, call))
                index += 1
            elif part.thought:
                yield from (({self.reasoning: piece}, None) for piece in fragments(part.text or ""))
            elif tokens:
                yield from (({field: token["token"]}, {"content": [token], "refusal": None}) for token in tokens)
            else:
                yield from (({field: piece}, None) for piece in fragments(part.text or ""))
        if found := _annotations(response):
            yield {"annotations": found}, None


def _call(call: types.FunctionCall) -> Json:
    function = {"name": call.name, "arguments": json.dumps(call.args or {})}
    return {**({"id": call.id} if call.id else {}), "type": "function", "function": function}


def _call_deltas(index: int, call: types.FunctionCall) -> Iterator[Json]:
    whole = _call(call)
    arguments = whole["function"]["arguments"]
    whole["function"] = {"name": call.name, "arguments": ""}
    yield {"tool_calls": [{"index": index, **whole}]}
    for piece in fragments(arguments, 5):
        yield {"tool_calls": [{"index": index, "function": {"arguments": piece}}]}


def _finish(response: LlmResponse) -> str:
    if is_refusal(response):
        return "stop"
    if response.get_function_calls():
        return "tool_calls"
    reason = response.finish_reason.value if response.finish_reason is not None else "STOP"
    return FINISH.get(reason, "stop")


def _usage(response: LlmResponse) -> Json:
    prompt, cached, output, thoughts, total = counts(response)
    return {
        "prompt_tokens": prompt,
        "completion_tokens": output,
        "total_tokens": total,
        "prompt_tokens_details": {"cached_tokens": cached, "audio_tokens": 0},
        "completion_tokens_details": {
            "reasoning_tokens": thoughts,
            "audio_tokens": 0,
            "accepted_prediction_tokens": 0,
            "rejected_prediction_tokens": 0,
        },
    }


def _annotations(response: LlmResponse) -> list[Json]:
    return [{"type": "url_citation", "url_citation": cited} for cited in cited_pages(response)]


def cited_pages(response: LlmResponse) -> list[Json]:
    """The web pages that an answer names, as both of OpenAI's APIs have them."""
    cited = (response.citation_metadata.citations if response.citation_metadata is not None else None) or ()
    return [
        {"start_index": each.start_index, "end_index": each.end_index, "title": each.title, "url": each.uri}
        for each in cited
    ]


def _logprobs(response: LlmResponse) -> Json | None:
    tokens = token_logprobs(response)
    return {"content": tokens, "refusal": None} if tokens else None


def token_logprobs(response: LlmResponse) -> list[Json]:
    """The log probabilities of an answer's tokens, as both of OpenAI's APIs have them."""
    found = response.logprobs_result
    if found is None:
        return []
    tops = found.top_candidates or []
    return [
        {**_token(each), "top_logprobs": [_token(top) for top in (tops[n].candidates or ())] if n < len(tops) else []}
        for n, each in enumerate(found.chosen_candidates or ())
    ]


def _token(each: types.LogprobsResultCandidate) -> Json:
    return {"token": each.token, "logprob": each.log_probability, "bytes": list((each.token or "").encode())}


# -- what the service refuses ----------------------------------------------------------------------


@functools.cache
def _form() -> RequestForm:
    from openai.types.chat.completion_create_params import (
        CompletionCreateParamsNonStreaming,
        CompletionCreateParamsStreaming,
    )

    return RequestForm(CompletionCreateParamsNonStreaming | CompletionCreateParamsStreaming)


def chat_problem(body: Json) -> str | None:
    """Why the service refuses a request; None if it does not."""
    problem = _form().problem(body) or tools_problem(body, nested=True) or _settings_problem(body)
    return problem or next(_message_problems(body["messages"]), None)


def tools_problem(body: Json, *, nested: bool) -> str | None:
    """What is wrong with the tools of a request. In chat completions their definitions are `nested`."""
    tools: list[Json] = body.get("tools") or []
    if body.get("tools") == []:
        return "Invalid 'tools': empty array. Expected an array with minimum length 1, but got an empty array instead."
    if body.get("tool_choice") and not tools:
        return "Invalid value for 'tool_choice': 'tool_choice' is only allowed when 'tools' are specified."
    names = [(tool["function"] if nested else tool)["name"] for tool in tools if tool["type"] == "function"]
    for name in names:
        if not NAME.fullmatch(name):
            return f"Invalid function name '{name}': string does not match pattern '^[a-zA-Z0-9_-]+$'."
    if len(set(names)) < len(names):
        return "Function names must be unique."
    choice = body.get("tool_choice")
    if isinstance(choice, dict) and choice.get("type") == "function":
        chosen = choice["function"]["name"] if nested else choice["name"]
        if chosen not in names:
            return f"Tool choice '{chosen}' not found in 'tools' parameter."
    return None


def _settings_problem(body: Json) -> str | None:
    stop = body.get("stop")
    if isinstance(stop, list) and len(stop) > 4:
        return "Invalid 'stop': array too long. Expected an array with maximum length 4."
    if body.get("top_logprobs") is not None and not body.get("logprobs"):
        return "'top_logprobs' is only allowed when 'logprobs' is enabled."
    if body.get("stream_options") and not body.get("stream"):
        return "The 'stream_options' parameter is only allowed when 'stream' is enabled."
    wanted = body.get("response_format") or {}
    if wanted.get("type") == "json_object" and "json" not in json.dumps(body["messages"]).lower():
        return "'messages' must contain the word 'json' in some form, to use 'response_format' of type 'json_object'."
    if wanted.get("type") == "json_schema":
        return schema_problem(wanted["json_schema"])
    return None


def schema_problem(wanted: Json) -> str | None:
    """What is wrong with the schema of an answer that is to be followed strictly."""
    if not NAME.fullmatch(wanted["name"]):
        return f"Invalid schema name '{wanted['name']}'."
    if not wanted.get("strict"):
        return None
    for node in _objects_in(wanted["schema"]):
        if node.get("type") != "object":
            continue
        properties = node.get("properties") or {}
        if node.get("additionalProperties") is not False:
            return f"Invalid schema for response_format '{wanted['name']}': 'additionalProperties' has to be false."
        if set(node.get("required") or ()) != set(properties):
            return f"Invalid schema for response_format '{wanted['name']}': 'required' has to include every key."
    return None


def _objects_in(schema: Any) -> Iterator[Json]:
    if isinstance(schema, dict):
        yield schema
        for value in schema.values():
            yield from _objects_in(value)
    elif isinstance(schema, list):
        for value in schema:
            yield from _objects_in(value)


def _message_problems(messages: list[Json]) -> Iterator[str]:
    if not messages:
        yield "Invalid 'messages': empty array. Expected an array with minimum length 1."
    waiting: list[str] = []
    for number, message in enumerate(messages):
        place = f"messages[{number}]"
        if waiting and message["role"] != "tool":
            yield _unanswered(waiting)
        if message["role"] == "tool":
            if message["tool_call_id"] not in waiting:
                yield f"Invalid parameter: {place}: messages with role 'tool' must be a response to a preceding " + (
                    "message with 'tool_calls'."
                )
            else:
                waiting.remove(message["tool_call_id"])
        elif message["role"] == "assistant":
            calls = message.get("tool_calls") or []
            waiting = [call["id"] for call in calls]
            yield from _call_problems(place, calls)
            if not calls and message.get("content") in (None, []):
                yield f"Invalid value for 'content' of {place}: expected a string, got null."
        if message.get("content") == []:
            yield f"Invalid '{place}.content': empty array. Expected an array with minimum length 1."
    if waiting:
        yield _unanswered(waiting)


def _call_problems(place: str, calls: list[Json]) -> Iterator[str]:
    for n, call in enumerate(calls):
        if not 1 <= len(call["id"]) <= 40:
            yield (
                f"Invalid '{place}.tool_calls[{n}].id': string too long. Expected a string with maximum length 40, "
                f"but got a string with length {len(call['id'])} instead."
            )
        if not NAME.fullmatch(call["function"]["name"]):
            yield f"Invalid '{place}.tool_calls[{n}].function.name': string does not match pattern."
    if len({call["id"] for call in calls}) < len(calls):
        yield f"Duplicate value for 'tool_call_id' in {place}."


def _unanswered(waiting: list[str]) -> str:
    return (
        "An assistant message with 'tool_calls' must be followed by tool messages responding to each 'tool_call_id'. "
        f"The following tool_call_ids did not have response messages: {', '.join(waiting)}"
    )
