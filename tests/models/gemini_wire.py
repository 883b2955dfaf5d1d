"""Gemini's `generateContent`, as Google writes it."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from typing import Any

from google.genai import types
from models.answer_server import AnswerServer, Json, fragments, parts_of
from models.wire_server import Ending, Reply, Seen, raw_stream
from pydantic import ValidationError

from flowloom import LlmResponse

CODES = {
    400: "INVALID_ARGUMENT",
    401: "UNAUTHENTICATED",
    403: "PERMISSION_DENIED",
    404: "NOT_FOUND",
    429: "RESOURCE_EXHAUSTED",
    500: "INTERNAL",
    503: "UNAVAILABLE",
    504: "DEADLINE_EXCEEDED",
}


def whole(*parts: dict[str, Any], finish: str | None = "STOP", **fields: Any) -> Reply:
    """An answer of `generateContent`."""
    return Reply([json.dumps(answer(*parts, finish=finish, **fields)).encode()])


def refusal(status: int, code: str, message: str = "no", *details: Any, headers: dict[str, str] | None = None) -> Reply:
    """An error as Google reports it."""
    return Reply([json.dumps(error(status, code, message, *details)).encode()], status=status, headers=headers or {})


def streamed(*chunks: dict[str, Any], ending: Ending = "complete") -> Reply:
    """An answer of `streamGenerateContent`, one server-sent event for each chunk."""
    return raw_stream([frame(chunk) for chunk in chunks], ending)


def frame(data: dict[str, Any]) -> bytes:
    """One server-sent event, as Google writes them."""
    return b"data: " + json.dumps(data, ensure_ascii=False).encode() + b"\r\n\r\n"


def answer(*parts: dict[str, Any], finish: str | None = None, **fields: Any) -> dict[str, Any]:
    """A response or chunk with one candidate; further fields, given in snake case, belong to the response."""
    candidate: dict[str, Any] = {"index": 0}
    if parts:
        candidate["content"] = {"role": "model", "parts": list(parts)}
    if finish:
        candidate["finishReason"] = finish
    return {"candidates": [candidate], "modelVersion": "gemini-test", **fields}


def text(value: str, **fields: Any) -> dict[str, Any]:
    return {"text": value, **fields}


def error(status: int, code: str, message: str = "no", *details: Any) -> dict[str, Any]:
    return {"error": {"code": status, "status": code, "message": message, "details": list(details)}}


class GeminiServer(AnswerServer):
    """Speaks `generateContent` and `streamGenerateContent`."""

    def is_streamed(self, seen: Seen) -> bool:
        return ":streamGenerateContent" in seen.path

    def error(self, status: int, message: str, headers: dict[str, str] | None = None) -> Reply:
        return refusal(status, CODES.get(status, "UNKNOWN"), message, headers=headers)

    def error_inside(self) -> tuple[Json, bytes]:
        found = error(503, "UNAVAILABLE", "The model is overloaded.")
        return found, frame(found)

    def refused(self, seen: Seen) -> Reply | None:
        problem = contents_problem(seen.json.get("contents") or [])
        return None if problem is None else self.error(400, problem)

    def whole(self, response: LlmResponse, seen: Seen) -> Json:
        parts = [_json(part) for part in parts_of(response)]
        return {**_answer(response, parts, last=True), "usageMetadata": _json(response.usage_metadata)}

    def events(self, response: LlmResponse, seen: Seen) -> list[bytes]:
        """A chunk for each piece of text, and for each call; the last one tells why it ended."""
        pieces = list(_pieces(response))
        chunks = [_answer(response, [piece], last=False) for piece in pieces]
        if response.logprobs_result is not None:
            chunks = list(_token_chunks(response))
        chunks.append(_answer(response, [], last=True, logprobs=False))
        usage = _json(response.usage_metadata)
        return [frame({**chunk, "usageMetadata": usage}) for chunk in chunks]


def _json(model: Any) -> Any:
    return None if model is None else model.model_dump(mode="json", by_alias=True, exclude_none=True)


def _pieces(response: LlmResponse) -> Iterator[Json]:
    for part in parts_of(response):
        whole = _json(part)
        if not part.text:
            yield whole
            continue
        *pieces, last = fragments(part.text)
        signature = {"thoughtSignature": whole.pop("thoughtSignature")} if "thoughtSignature" in whole else {}
        for piece in pieces:
            yield {**whole, "text": piece}
        yield {**whole, "text": last, **signature}


def _token_chunks(response: LlmResponse) -> Iterator[Json]:
    """A chunk for each token, with its log probability."""
    found = response.logprobs_result
    assert found is not None
    for n, token in enumerate(found.chosen_candidates or ()):
        chunk = _answer(response, [{"text": token.token}], last=False)
        one = types.LogprobsResult(chosen_candidates=[token], top_candidates=(found.top_candidates or [])[n : n + 1])
        chunk["candidates"][0]["logprobsResult"] = _json(one)
        yield chunk


def _answer(response: LlmResponse, parts: list[Json], *, last: bool, logprobs: bool = True) -> Json:
    reason = response.finish_reason.value if response.finish_reason is not None and last else None
    made = answer(*parts, finish=reason)
    candidate = made["candidates"][0]
    if last:
        if response.citation_metadata is not None:
            candidate["citationMetadata"] = {"citationSources": _json(response.citation_metadata)["citations"]}
        if response.grounding_metadata is not None:
            candidate["groundingMetadata"] = _json(response.grounding_metadata)
        if response.avg_logprobs is not None:
            candidate["avgLogprobs"] = response.avg_logprobs
        if response.logprobs_result is not None and logprobs:
            candidate["logprobsResult"] = _json(response.logprobs_result)
    return made


# -- what the service refuses ----------------------------------------------------------------------

FOREIGN = (b"anthropic", b"openai:")


def contents_problem(contents: list[Json]) -> str | None:
    """Why the service refuses the contents of a request; None if it does not."""
    if not contents:
        return "* GenerateContentRequest.contents: contents is not specified"
    return next(_problems(contents), None)


def _problems(contents: list[Json]) -> Iterator[str]:
    calls = 0
    for number, content in enumerate(contents):
        place = f"contents[{number}]"
        try:
            types.Content.model_validate(content)
        except ValidationError as error:
            yield f"Invalid JSON payload received. {place}: {error.errors()[0]['msg']}"
        parts: list[Json] = content.get("parts") or []
        if not parts:
            yield f"* GenerateContentRequest.{place}.parts: contents.parts must not be empty."
        results = sum("functionResponse" in part for part in parts)
        if calls and calls != results:
            yield (
                "Please ensure that the number of function response parts is equal to the number of function call "
                f"parts of the function call turn ({place})."
            )
        calls = sum("functionCall" in part for part in parts)
        for part in parts:
            call = part.get("functionCall") or {}
            for name in ("partialArgs", "willContinue"):
                if name in call:
                    yield f'Invalid JSON payload received. Unknown name "{name}" at {place}.parts'
            if base64.b64decode(part.get("thoughtSignature", "")).startswith(FOREIGN):
                yield f"Corrupted thought signature ({place})."
    if calls:
        yield "Please ensure that function call turn comes with its function response turn."
