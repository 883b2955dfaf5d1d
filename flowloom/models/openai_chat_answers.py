"""OpenAI's chat completions: responses from the JSON of answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, cast

from google.genai import types

from flowloom.errors import ModelResponseError
from flowloom.events.parts import call_part, call_piece, content_of, text_part
from flowloom.events.response import LlmResponse
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.failures import reported_in_stream, status_error
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
from flowloom.models.sdk_request import json_text

_FINISH = {
    "stop": types.FinishReason.STOP,
    "tool_calls": types.FinishReason.STOP,
    "function_call": types.FinishReason.STOP,
    "length": types.FinishReason.MAX_TOKENS,
    "content_filter": types.FinishReason.SAFETY,
}


class ChatReader:
    """Reads the answers of chat completions; see `AnswerReader`."""

    def __init__(self, model: str) -> None:
        self._model = model
        self._aggregator = StreamingAggregator()
        self._finish: str | None = None
        self._refused = False
        self._metadata: Json = {}
        self._logprobs: list[types.LogprobsResult] = []
        self._calls: dict[int, tuple[str, str]] = {}  # id and name, by the index on the wire

    @property
    def finished(self) -> bool:
        """Whether the model has said why it stopped."""
        return self._finish is not None

    def whole(self, data: Json) -> LlmResponse:
        if data.get("error"):
            code, message = reported(data)
            raise status_error(status_of(code), code, message, self._model)
        choice = _first(data)
        if choice is None:
            raise ModelResponseError(
                f"The answer of the model `{self._model}` could not be read: it has no choices.", model=self._model
            )
        self._note(data, choice)
        return self._response(content_of("model", list(self._parts(object_of(choice.get("message"))))))

    def feed(self, data: Json) -> list[LlmResponse]:
        if data.get("error"):
            code, message = reported(data)
            raise reported_in_stream(status_of(code), code, message, self._model)
        choice = _first(data)
        if choice is None:
            self._note(data, {})
            return []
        self._note(data, choice)
        if choice.get("message"):  # a server that does not stream
            whole = content_of("model", list(self._parts(object_of(choice["message"]))))
            return self._aggregator.feed_response(LlmResponse(content=whole))
        return list(self._pieces(object_of(choice.get("delta"))))

    def close(self) -> LlmResponse:
        for call_id, name in self._calls.values():
            self._aggregator.feed_response(called(call_piece(call_id, name, "", more=False)))
        complete = self._aggregator.close()
        content = complete.content if complete is not None else None
        return self._response(content or content_of("model", []))

    def _pieces(self, delta: Json) -> Iterator[LlmResponse]:
        thought = delta.get("reasoning_content") or delta.get("reasoning")
        if thought and isinstance(thought, str):
            yield self._aggregator.feed_text(thought, thought=True)
        for text in (delta.get("content"), delta.get("refusal")):
            if text:
                yield self._aggregator.feed_text(_text_of(text))
        self._refused = self._refused or bool(delta.get("refusal"))
        for piece in objects_of(delta.get("tool_calls")):
            function: Json = object_of(piece.get("function"))
            given: Any = piece.get("index")
            index: int = len(self._calls) if given is None else given
            if index not in self._calls:
                self._calls[index] = (piece.get("id") or minted_id(), function.get("name") or "")
            call_id, name = self._calls[index]
            if not name and function.get("name"):
                self._calls[index] = (call_id, name := function["name"])
            arguments = function.get("arguments") or ""
            if not isinstance(arguments, str):
                arguments = json_text(arguments)
            yield from self._aggregator.feed_response(called(call_piece(call_id, name, arguments, more=True)))

    def _parts(self, message: Json) -> Iterator[types.Part]:
        thought = message.get("reasoning_content") or message.get("reasoning")
        if thought and isinstance(thought, str):
            yield text_part(thought, thought=True)
        text = _text_of(message.get("content")) + (message.get("refusal") or "")
        if text:
            yield text_part(text)
        self._refused = bool(message.get("refusal"))
        for call in objects_of(message.get("tool_calls")):
            function: Json = object_of(call.get("function"))
            given = function.get("arguments")
            args = cast(Json, given) if isinstance(given, dict) else arguments_of(given)
            name = function.get("name") or ""
            yield call_part(call.get("id") or minted_id(), name, args)

    def _note(self, data: Json, choice: Json) -> None:
        if data.get("model"):
            self._metadata["model_version"] = data["model"]
        if data.get("usage"):
            self._metadata["usage_metadata"] = _usage(object_of(data["usage"]))
        if choice.get("finish_reason"):
            self._finish = choice["finish_reason"]
        if choice.get("logprobs"):
            found = object_of(choice["logprobs"])
            self._logprobs.append(logprobs_of([*objects_of(found.get("content")), *objects_of(found.get("refusal"))]))
        said = object_of(choice.get("message") or choice.get("delta"))
        if sources := objects_of(said.get("annotations")):
            self._metadata["citation_metadata"] = citations_of(object_of(each.get("url_citation")) for each in sources)

    def _response(self, content: types.Content) -> LlmResponse:
        reason = _FINISH.get(self._finish or "stop", types.FinishReason.OTHER)
        if self._refused and reason == types.FinishReason.STOP:
            reason = types.FinishReason.SAFETY
        return with_metadata(content, reason, {**self._metadata, **joined_logprobs(self._logprobs)})


def _first(data: Json) -> Json | None:
    """The first choice, which is the only one that counts."""
    for choice in objects_of(data.get("choices")):
        if not choice.get("index"):
            return choice
    return None


def _text_of(content: Any) -> str:
    """The text of a message, which some servers give in pieces."""
    if isinstance(content, list):
        return "".join(str(item.get("text") or "") for item in objects_of(cast(Any, content)))
    return content or ""


def _usage(usage: Json) -> types.GenerateContentResponseUsageMetadata:
    prompt: Json = object_of(usage.get("prompt_tokens_details"))
    output: Json = object_of(usage.get("completion_tokens_details"))
    return usage_of(
        prompt=usage.get("prompt_tokens"),
        output=usage.get("completion_tokens"),
        total=usage.get("total_tokens"),
        cached=prompt.get("cached_tokens"),
        thoughts=output.get("reasoning_tokens"),
    )


def logprobs_of(tokens: list[Json]) -> types.LogprobsResult:
    """The log probabilities of tokens, as both of OpenAI's APIs give them."""
    return types.LogprobsResult(
        chosen_candidates=[_candidate(token) for token in tokens],
        top_candidates=[
            types.LogprobsResultTopCandidates(candidates=list(map(_candidate, objects_of(token.get("top_logprobs")))))
            for token in tokens
        ],
    )


def _candidate(token: Json) -> types.LogprobsResultCandidate:
    return types.LogprobsResultCandidate(token=token.get("token"), log_probability=token.get("logprob"))
