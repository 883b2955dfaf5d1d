"""OpenAI's Responses API: responses from the JSON of answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from google.genai import types

from flowloom.errors import ModelResponseError
from flowloom.events.parts import call_part, call_piece, content_of, text_part
from flowloom.events.response import LlmResponse
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.failures import reported_in_stream, status_error
from flowloom.models.openai_chat_answers import logprobs_of
from flowloom.models.partial_args import arguments_of
from flowloom.models.sdk_answers import (
    Json,
    called,
    citations_of,
    joined_logprobs,
    minted_id,
    object_of,
    objects_of,
    usage_of,
    with_metadata,
)
from flowloom.models.sdk_call import reported, status_of
from flowloom.models.signatures import OPENAI, signed

_INCOMPLETE = {"max_output_tokens": types.FinishReason.MAX_TOKENS, "content_filter": types.FinishReason.SAFETY}
_ENDS = ("response.completed", "response.incomplete")
_TEXT, _THOUGHT = False, True
_DELTAS = {
    "response.output_text.delta": _TEXT,
    "response.refusal.delta": _TEXT,
    "response.reasoning_text.delta": _THOUGHT,
    "response.reasoning_summary_text.delta": _THOUGHT,
}


class ResponsesReader:
    """Reads the answers of the Responses API; see `AnswerReader`."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._aggregator = StreamingAggregator()
        self._response: Json = {}
        self._items: dict[int, Json] = {}  # what is done, by its place
        self._calls: dict[int, tuple[str, str]] = {}  # id and name of those that stream, by their place

    @property
    def finished(self) -> bool:
        """Whether the answer has been told to be at its end."""
        return bool(self._response)

    def whole(self, data: Json) -> LlmResponse:
        if data.get("error") or data.get("status") == "failed":
            code, message = reported(data)
            raise status_error(status_of(code), code, message, self._model)
        if "output" not in data:
            raise ModelResponseError(
                f"The answer of the model `{self._model}` could not be read: it has no output.", model=self._model
            )
        self._response = data
        self._items = dict(enumerate(objects_of(data["output"])))
        self._aggregator.feed_response(LlmResponse(content=self._content()))
        return self.close()

    def feed(self, data: Json) -> list[LlmResponse]:
        kind: Any = data.get("type")
        thought = _DELTAS.get(kind)
        if thought is not None:
            return [self._aggregator.feed_text(data["delta"], thought=thought)] if data.get("delta") else []
        if kind == "response.function_call_arguments.delta":
            return self._more_arguments(data)
        if kind in ("response.output_item.added", "response.output_item.done"):
            return self._item(data, done=kind.endswith("done"))
        if kind == "response.reasoning_summary_part.added" and data.get("summary_index"):
            return [self._aggregator.feed_text("\n\n", thought=True)]
        if kind in _ENDS:
            self._response = object_of(data.get("response"))
            if not self._items:  # a server that tells all at the end
                self._items = dict(enumerate(objects_of(self._response.get("output"))))
                return self._aggregator.feed_response(LlmResponse(content=self._content())) if self._items else []
        if kind in ("error", "response.failed") or data.get("error"):
            code, message = reported(object_of(data.get("response")) if kind == "response.failed" else data)
            raise reported_in_stream(status_of(code), code, message, self._model)
        return []

    def close(self) -> LlmResponse:
        complete = self._aggregator.close()
        content = complete.content if complete is not None and complete.content else content_of("model", [])
        return with_metadata(content, self._reason(), self._metadata())

    # -- items -------------------------------------------------------------------------------------

    def _item(self, data: Json, *, done: bool) -> list[LlmResponse]:
        place: int = data.get("output_index") or 0
        item = object_of(data.get("item"))
        if done:
            self._items[place] = item
        if item.get("type") == "reasoning" and done and (signature := _signature(item)) is not None:
            self._aggregator.sign_thought(signature)
        if item.get("type") != "function_call":
            return []
        arguments = ""
        if place not in self._calls:
            self._calls[place] = (item.get("call_id") or minted_id(), item.get("name") or "")
            arguments = item.get("arguments") or "" if done else ""
        return self._piece(place, arguments, more=not done)

    def _more_arguments(self, data: Json) -> list[LlmResponse]:
        place: int = data.get("output_index") or 0
        return self._piece(place, data.get("delta") or "", more=True) if place in self._calls else []

    def _piece(self, place: int, arguments: str, *, more: bool) -> list[LlmResponse]:
        call_id, name = self._calls[place]
        return self._aggregator.feed_response(called(call_piece(call_id, name, arguments, more=more)))

    def _content(self) -> types.Content:
        return content_of("model", [part for item in self._items.values() for part in _parts(item)])

    # -- the end -----------------------------------------------------------------------------------

    def _reason(self) -> types.FinishReason:
        if self._response.get("status") == "incomplete":
            why = object_of(self._response.get("incomplete_details")).get("reason")
            return _INCOMPLETE.get(str(why), types.FinishReason.OTHER)
        refused = any(text.get("type") == "refusal" for text in self._texts())
        return types.FinishReason.SAFETY if refused else types.FinishReason.STOP

    def _metadata(self) -> Json:
        found: Json = {}
        if self._response.get("model"):
            found["model_version"] = self._response["model"]
        if usage := object_of(self._response.get("usage")):
            found["usage_metadata"] = usage_of(
                prompt=usage.get("input_tokens"),
                output=usage.get("output_tokens"),
                total=usage.get("total_tokens"),
                cached=object_of(usage.get("input_tokens_details")).get("cached_tokens"),
                thoughts=object_of(usage.get("output_tokens_details")).get("reasoning_tokens"),
            )
        texts = list(self._texts())
        sources = [each for text in texts for each in objects_of(text.get("annotations")) if each.get("url")]
        if sources:
            found["citation_metadata"] = citations_of(sources)
        logprobs = [logprobs_of(objects_of(text.get("logprobs"))) for text in texts if text.get("logprobs")]
        return {**found, **joined_logprobs(logprobs)}

    def _texts(self) -> Iterator[Json]:
        """The pieces of the messages in the answer."""
        for item in self._items.values():
            if item.get("type") == "message":
                yield from objects_of(item.get("content"))


def _parts(item: Json) -> Iterator[types.Part]:
    """An item as parts; none for what a server did on its own."""
    kind = item.get("type")
    if kind == "function_call":
        yield call_part(item.get("call_id") or minted_id(), item.get("name") or "", arguments_of(item.get("arguments")))
    elif kind == "message":
        for text in objects_of(item.get("content")):
            if said := text.get("text") or text.get("refusal"):
                yield text_part(said)
    elif kind == "reasoning":
        summary = "\n\n".join(str(each.get("text") or "") for each in objects_of(item.get("summary")))
        thought = summary + "".join(str(each.get("text") or "") for each in objects_of(item.get("content")))
        signature = _signature(item)
        if thought or signature is not None:
            yield types.Part(text=thought, thought=True, thought_signature=signature)


def _signature(item: Json) -> bytes | None:
    """What a thought has to be sent back with."""
    secret = item.get("encrypted_content")
    if not secret:
        return None
    return signed(OPENAI, json.dumps({"id": item.get("id"), "encrypted_content": secret}))
