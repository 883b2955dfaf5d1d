"""Anthropic's Messages API: responses from the JSON of answers."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom.errors import ModelResponseError
from flowloom.events.parts import call_part, call_piece, content_of, parts_of
from flowloom.events.response import LlmResponse
from flowloom.events.wire import make
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.grounding import Grounds
from flowloom.models.partial_args import arguments_of
from flowloom.models.server_parts import CONTAINER, is_server_run, server_call, server_result
from flowloom.models.signatures import ANTHROPIC, ANTHROPIC_BLOCK, ANTHROPIC_REDACTED, ANTHROPIC_TEXT, signed
from flowloom.providers.sdk_answers import (
    Json,
    citations_of,
    minted_id,
    object_of,
    objects_of,
    shown_result,
    text_in,
    usage_of,
    with_metadata,
)
from flowloom.providers.sdk_call import error_in
from flowloom.providers.sdk_request import json_text

_FINISH = {
    "end_turn": types.FinishReason.STOP,
    "stop_sequence": types.FinishReason.STOP,
    "tool_use": types.FinishReason.STOP,
    "pause_turn": types.FinishReason.OTHER,
    "max_tokens": types.FinishReason.MAX_TOKENS,
    "model_context_window_exceeded": types.FinishReason.MAX_TOKENS,
    "refusal": types.FinishReason.SAFETY,
}


class MessagesReader:
    """Reads the answers of the Messages API; see `AnswerReader`.

    A whole answer is taken block by block as a streamed one is, so that both give the same.
    """

    def __init__(self, model: str) -> None:
        self._model = model
        self._aggregator = StreamingAggregator()
        self._finished = False
        self._message: Json = {}
        self._usage: Json = {}
        self._calls: dict[int, tuple[str, str]] = {}  # id and name, by the place of the block
        self._signatures: dict[int, str] = {}
        self._length = 0  # of the text so far
        self._start = 0  # of the block of text that came last
        self._cited: list[Json] = []
        self._cites: list[Json] = []  # the citations of the block of text that came last, as they came
        self._texts: dict[int, Json] = {}  # blocks of text as they began, by their place
        self._run: dict[int, Json] = {}  # what the server does on its own
        self._inputs: dict[int, list[str]] = {}  # the pieces of what it does that with
        self._names: dict[str, str] = {}  # of its calls
        self._grounds = Grounds()

    @property
    def finished(self) -> bool:
        """Whether the answer has been told to be at its end."""
        return self._finished

    @property
    def paused(self) -> bool:
        """Whether the server has paused in the middle of the answer, and goes on when it is given what it said."""
        return self._message.get("stop_reason") == "pause_turn"

    def whole(self, data: Json) -> LlmResponse:
        if data.get("error"):
            raise error_in(data, self._model, stream=False)
        if "content" not in data:
            raise ModelResponseError(
                f"The answer of the model `{self._model}` could not be read: it has no content.", model=self._model
            )
        self._note(data, object_of(data.get("usage")))
        for place, block in enumerate(objects_of(data["content"])):
            if block.get("type") == "tool_use":
                made = call_part(*_named(block), object_of(block.get("input")))
                self._aggregator.feed_parts([made])
            else:
                self._begin(place, block)
                self._end(place)
        return self.close()

    def feed(self, data: Json) -> list[LlmResponse]:
        kind: Any = data.get("type")
        if kind == "content_block_delta":
            return self._more(data.get("index") or 0, data["delta"])
        if kind == "content_block_start":
            return self._begin(data.get("index") or 0, data["content_block"])
        if kind == "content_block_stop":
            return self._end(data.get("index") or 0)
        if kind == "message_start":
            message = object_of(data.get("message"))
            self._note(message, object_of(message.get("usage")))
        elif kind == "message_delta":
            self._note(object_of(data.get("delta")), object_of(data.get("usage")))
        elif kind == "message_stop":
            self._finished = True
        elif kind == "error" or data.get("error"):
            raise error_in(data, self._model, stream=True)
        return []

    def close(self) -> LlmResponse:
        complete = self._aggregator.close()
        content = complete and complete.content
        reason = _FINISH.get(str(self._message.get("stop_reason") or "end_turn"), types.FinishReason.OTHER)
        metadata = self._metadata("".join(part.text or "" for part in _said(content)))
        self._note_container(content)
        explanation = object_of(self._message.get("stop_details")).get("explanation")
        if explanation and not (content and content.parts):
            metadata["error_message"] = explanation
        return with_metadata(content, reason, metadata)

    # -- blocks ------------------------------------------------------------------------------------

    def _begin(self, place: int, block: Json) -> list[LlmResponse]:
        kind = block.get("type")
        if kind == "text":
            self._start = self._length
            self._aggregator.end_text()
            self._texts[place] = block
            self._cites = objects_of(block.get("citations"))
            self._cited += [self._citation(each) for each in objects_of(block.get("citations"))]
            return self._text(block.get("text"))
        if kind == "thinking":
            if block.get("signature"):
                self._signatures[place] = block["signature"]
            return self._thought(block.get("thinking"))
        if kind == "redacted_thinking":
            hidden = types.Part(text="", thought=True, thought_signature=signed(ANTHROPIC_REDACTED, block["data"]))
            self._aggregator.feed_parts([hidden])  # nothing to show
        elif kind == "tool_use":
            self._calls[place] = _named(block)
            given = object_of(block.get("input"))
            return self._arguments(place, json_text(given) if given else "", more=True)
        elif kind:
            return self._begin_run(place, block)
        return []

    def _more(self, place: int, delta: Json) -> list[LlmResponse]:
        kind = delta.get("type")
        if kind == "text_delta":
            return self._text(delta.get("text"))
        if kind == "thinking_delta":
            return self._thought(delta.get("thinking"))
        if kind == "input_json_delta" and place in self._calls:
            return self._arguments(place, delta.get("partial_json") or "", more=True)
        if kind == "input_json_delta" and place in self._run:
            self._inputs.setdefault(place, []).append(delta.get("partial_json") or "")
        elif kind == "signature_delta":
            self._signatures[place] = delta["signature"]
        elif kind == "citations_delta":
            self._cites.append(object_of(delta.get("citation")))
            self._cited.append(self._citation(self._cites[-1]))
        return []

    def _end(self, place: int) -> list[LlmResponse]:
        for citation in self._cited:
            citation.setdefault("end_index", self._length)
        if (block := self._texts.pop(place, None)) is not None and self._cites:
            block = {**block, "text": "", "citations": self._cites}
            self._aggregator.end_text(signed(ANTHROPIC_TEXT, json_text(block)))
        if place in self._run:
            return self._end_run(place)
        if signature := self._signatures.get(place):
            self._aggregator.sign_thought(signed(ANTHROPIC, signature))
        return self._arguments(place, "", more=False) if place in self._calls else []

    def _begin_run(self, place: int, block: Json) -> list[LlmResponse]:
        """What the server does on its own. A call is shown as soon as it is made."""
        self._run[place] = block
        name, call_id = block.get("name"), block.get("id")
        if not (isinstance(name, str) and isinstance(call_id, str)):
            return []
        self._names[call_id] = name
        self._aggregator.end_text()
        shown = content_of("model", [server_call(call_id, name, None, None)])
        return [make(LlmResponse, content=shown, partial=True, turn_complete=False)]

    def _end_run(self, place: int) -> list[LlmResponse]:
        block, pieces = self._run.pop(place), "".join(self._inputs.pop(place, ()))
        if pieces:
            block = {**block, "input": arguments_of(pieces)}
        part = self._run_part(block)
        if block.get("name") == "web_search":
            self._grounds.search(text_in(object_of(block.get("input")), "query"))
        return [self._aggregator.feed_parts([part])]

    def _run_part(self, block: Json) -> types.Part:
        """A block that is between the server and its tools, to be given back as it came."""
        signature = signed(ANTHROPIC_BLOCK, json_text(block))
        kind, call_id = text_in(block, "type"), text_in(block, "id")
        if call_id in self._names:
            return server_call(call_id, self._names[call_id], object_of(block.get("input")), signature)
        about = text_in(block, "tool_use_id")
        name = self._names.get(about) or kind.removesuffix("_tool_result")
        return server_result(about, name, _result(block), signature)

    def _text(self, text: Any) -> list[LlmResponse]:
        if not text:
            return []
        self._length += len(text)
        return [self._aggregator.feed_text(text)]

    def _thought(self, text: Any) -> list[LlmResponse]:
        return [self._aggregator.feed_text(text, thought=True)] if text else []

    def _arguments(self, place: int, text: str, *, more: bool) -> list[LlmResponse]:
        call_id, name = self._calls[place]
        return [self._aggregator.feed_parts([call_piece(call_id, name, text, more=more)])]

    # -- what stands beside the content ------------------------------------------------------------

    def _citation(self, cited: Json) -> Json:
        """Where the source is, and where in the answer the block begins that it stands behind."""
        return {
            "url": cited.get("url") or cited.get("source") or cited.get("file_id"),
            "title": cited.get("title") or cited.get("document_title"),
            "start_index": self._start,
            "file": cited.get("type") not in ("web_search_result_location", "search_result_location"),
        }

    def _note_container(self, content: types.Content | None) -> None:
        """Keep where code ran with the latest part that tells of it: what it left there is found again."""
        container = object_of(self._message.get("container"))
        runs = [part for part in parts_of(content) if is_server_run(part)]
        if container.get("id") and runs:
            kept = {name: container.get(name) for name in ("id", "expires_at")}
            runs[-1].part_metadata = {**(runs[-1].part_metadata or {}), CONTAINER: kept}

    def _note(self, message: Json, usage: Json) -> None:
        """Take in a message without its content, or what has changed of it."""
        self._message |= {name: value for name, value in message.items() if value is not None and name != "content"}
        self._usage |= {name: value for name, value in usage.items() if value is not None}

    def _metadata(self, text: str) -> Json:
        found: Json = {}
        if self._message.get("model"):
            found["model_version"] = self._message["model"]
        if self._usage:
            cached: int = self._usage.get("cache_read_input_tokens") or 0
            stored: int = self._usage.get("cache_creation_input_tokens") or 0
            found["usage_metadata"] = usage_of(
                prompt=(self._usage.get("input_tokens") or 0) + cached + stored,
                output=self._usage.get("output_tokens"),
                cached=cached,
                thoughts=object_of(self._usage.get("output_tokens_details")).get("thinking_tokens"),
            )
        if self._cited:
            found["citation_metadata"] = citations_of(self._cited)
        for cited in self._cited:
            self._grounds.cite_words(text, cited)
        if (grounding := self._grounds.metadata(text)) is not None:
            found["grounding_metadata"] = grounding
        return found


def _said(content: types.Content | None) -> list[types.Part]:
    """The parts that make the text of an answer."""
    return [part for part in parts_of(content) if part.text and not part.thought]


def _result(block: Json) -> Json:
    """What came of a run, as a person may want to see it."""
    content: Any = block.get("content")
    code = object_of(content).get("error_code")
    if code:
        return {"error": str(code), **shown_result(object_of(content))}
    if isinstance(content, list):
        shown: Json = {"results": shown_result(content)}
        return {"error": "The tool failed.", **shown} if block.get("is_error") else shown
    return shown_result(content if isinstance(content, dict) else {"content": content})


def _named(block: Json) -> tuple[str, str]:
    """The id and the name of a call."""
    return text_in(block, "id") or minted_id(), text_in(block, "name")
