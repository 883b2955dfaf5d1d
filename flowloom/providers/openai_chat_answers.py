"""OpenAI's chat completions: responses from the JSON of answers."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from google.genai import types

from flowloom.errors import ModelResponseError
from flowloom.events.json_data import UNREADABLE
from flowloom.events.parts import call_part, call_piece
from flowloom.events.response import LlmResponse
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.partial_args import arguments_of
from flowloom.models.signatures import CHAT, signed
from flowloom.providers.openai_chat import THOUGHT_FIELDS
from flowloom.providers.sdk_answers import (
    Json,
    citations_of,
    joined_logprobs,
    minted_id,
    object_of,
    objects_of,
    text_in,
    usage_of,
    with_metadata,
)
from flowloom.providers.sdk_call import error_in
from flowloom.providers.sdk_request import json_text

_FINISH = {
    "stop": types.FinishReason.STOP,
    "tool_calls": types.FinishReason.STOP,
    "function_call": types.FinishReason.STOP,
    "length": types.FinishReason.MAX_TOKENS,
    "content_filter": types.FinishReason.SAFETY,
}


class _Call:
    """A call that streams: its id, its name, the id that the wire gave it, if any, and its arguments so far."""

    __slots__ = ("arguments", "call_id", "name", "wire_id")

    def __init__(self, call_id: str, name: str, wire_id: str) -> None:
        self.call_id = call_id
        self.name = name
        self.wire_id = wire_id
        self.arguments: list[str] = []

    def goes_on(self, wire_id: str, name: str, arguments: str, *, at_index: bool) -> bool:
        """Whether a piece is one of this call's. Where ids do not tell, a name begins a call: but for one that comes
        again at the same index, before the arguments are whole."""
        if wire_id and self.wire_id:
            return wire_id == self.wire_id
        if not name or not at_index:
            return not name
        if name != (self.name or name):
            return False
        return bool(wire_id or self.wire_id) or not arguments or not self._is_whole()

    def _is_whole(self) -> bool:
        ended = "".join(self.arguments[-1:]).rstrip().endswith("}")
        return ended and UNREADABLE not in arguments_of("".join(self.arguments))


class ChatReader:
    """Reads the answers of chat completions; see `AnswerReader`. `server` is who thinks, if that has to be known."""

    def __init__(self, model: str, server: str = "") -> None:
        self._model = model
        self.paused = False  # its provider never does
        self._server = server
        self._aggregator = StreamingAggregator()
        self._finish: str | None = None
        self._refused = False
        self._metadata: Json = {}
        self._logprobs: list[types.LogprobsResult] = []
        self._sources: list[Json] = []
        self._calls: list[_Call] = []
        self._at: dict[int, _Call] = {}  # the latest call of an index on the wire
        self._thinking: str | None = None  # the field in which a thought is coming

    @property
    def finished(self) -> bool:
        """Whether the model has said why it stopped."""
        return self._finish is not None

    def whole(self, data: Json) -> LlmResponse:
        if data.get("error"):
            raise error_in(data, self._model, stream=False)
        choice = _first(data)
        if choice is None:
            raise ModelResponseError(
                f"The answer of the model `{self._model}` could not be read: it has no choices.", model=self._model
            )
        if choice.get("error"):
            raise error_in(choice, self._model, stream=False)
        self._note(data, choice)
        message = object_of(choice.get("message"))
        list(self._said(message))
        calls = [call_part(call.call_id, call.name, arguments_of(text)) for call, text in self._called(message)]
        self._aggregator.feed_parts(calls)
        self._calls.clear()  # none of them goes on
        return self.close()

    def feed(self, data: Json) -> list[LlmResponse]:
        choice = _first(data)
        if data.get("error") or data.get("object") == "error" or (choice is None and _is_message(data)):
            raise error_in(data, self._model, stream=True)
        if choice is None:
            self._note(data, {})
            return []
        if choice.get("error"):
            raise error_in(choice, self._model, stream=True)
        self._note(data, choice)
        # a server that does not stream gives a message; one that does may give all so far beside what is new
        delta = object_of(choice.get("delta")) or object_of(choice.get("message"))
        shown = list(self._said(delta))
        for call, text in self._called(delta):
            shown.append(self._aggregator.feed_parts([call_piece(call.call_id, call.name, text, more=True)]))
        return shown

    def close(self) -> LlmResponse:
        self._end_thought()
        for call in self._calls:
            self._aggregator.feed_parts([call_piece(call.call_id, call.name, "", more=False)])
        reason = _FINISH.get(str(self._finish or "stop"), types.FinishReason.OTHER)
        if self._refused and reason == types.FinishReason.STOP:
            reason = types.FinishReason.SAFETY
        complete = self._aggregator.close()
        metadata = {**self._metadata, **joined_logprobs(self._logprobs)}
        if self._sources:
            metadata["citation_metadata"] = citations_of(self._sources)
        return with_metadata(complete and complete.content, reason, metadata)

    def _said(self, delta: Json) -> Iterator[LlmResponse]:
        for field in THOUGHT_FIELDS:
            if (thought := delta.get(field)) and isinstance(thought, str):
                self._thinking = field
                yield self._aggregator.feed_text(thought, thought=True)
                break
        for text, is_thought in (*_texts(delta.get("content")), *_texts(delta.get("refusal"))):
            if not is_thought:
                self._end_thought()
            yield self._aggregator.feed_text(text, thought=is_thought)
        self._refused = self._refused or bool(delta.get("refusal"))

    def _called(self, delta: Json) -> Iterator[tuple[_Call, str]]:
        """Calls, or pieces of them, and what they add to the JSON of their arguments."""
        legacy = object_of(delta.get("function_call"))
        for piece in objects_of(delta.get("tool_calls")) or ([{"function": legacy}] if legacy else []):
            self._end_thought()
            function = object_of(piece.get("function"))
            given = function.get("arguments") or ""
            arguments = given if isinstance(given, str) else json_text(given)
            call = self._call_of(piece, text_in(function, "name"), arguments)
            call.arguments.append(arguments)
            yield call, arguments

    def _end_thought(self) -> None:
        """Note in which field a thought came: some servers want it back there."""
        if self._thinking is not None and self._server:
            self._aggregator.sign_thought(signed(CHAT, f"{self._thinking}@{self._server}"))
        self._thinking = None

    def _call_of(self, piece: Json, name: str, arguments: str) -> _Call:
        """The call that a piece belongs to, or a new one. Servers leave out the index, or give all calls the same."""
        wire_id = text_in(piece, "id")
        index: Any = piece.get("index")
        call = self._at.get(index) if index is not None else self._calls[-1] if self._calls else None
        if call is not None and not call.goes_on(wire_id, name, arguments, at_index=index is not None):
            call = None
        if call is None:
            taken = any(other.wire_id == wire_id for other in self._calls)
            call = _Call(wire_id if wire_id and not taken else minted_id(), name, wire_id)
            self._calls.append(call)
        if index is not None:
            self._at[index] = call
        call.name = call.name or name
        call.wire_id = call.wire_id or wire_id
        return call

    def _note(self, data: Json, choice: Json) -> None:
        if data.get("model"):
            self._metadata["model_version"] = data["model"]
        if usage := object_of(data.get("usage") or choice.get("usage")):
            self._metadata["usage_metadata"] = _usage(usage)
        if choice.get("finish_reason"):
            self._finish = choice["finish_reason"]
        if choice.get("logprobs"):
            found = object_of(choice["logprobs"])
            self._logprobs.append(logprobs_of([*objects_of(found.get("content")), *objects_of(found.get("refusal"))]))
        said = object_of(choice.get("message") or choice.get("delta"))
        sources = [object_of(each.get("url_citation")) for each in objects_of(said.get("annotations"))]
        self._sources += [each for each in sources if each not in self._sources]


def _first(data: Json) -> Json | None:
    """The first choice, which is the only one that counts."""
    for choice in objects_of(data.get("choices")):
        if not int(choice.get("index") or 0):
            return choice
    return None


def _is_message(data: Json) -> bool:
    """Whether an event without choices is an error that is not called one."""
    return isinstance(data.get("message"), str) and not data.get("usage")


def _texts(content: Any) -> Iterator[tuple[str, bool]]:
    """The texts of a message, and which of them are thoughts: some servers give them in pieces."""
    if isinstance(content, str):
        if content:
            yield content, False
        return
    for item in objects_of(content):
        if item.get("type") == "thinking":
            inner = item.get("thinking")
            thought = inner if isinstance(inner, str) else "".join(text for text, _ in _texts(inner))
            if thought:
                yield thought, True
        elif text := item.get("text"):
            yield str(text), False


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
