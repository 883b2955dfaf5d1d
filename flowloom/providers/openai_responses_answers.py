"""OpenAI's Responses API: responses from the JSON of answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from google.genai import types

from flowloom.errors import ModelResponseError
from flowloom.events.parts import call_part, call_piece, content_of, text_part
from flowloom.events.response import LlmResponse
from flowloom.events.wire import make
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.grounding import Grounds
from flowloom.models.partial_args import arguments_of
from flowloom.models.server_parts import server_call
from flowloom.models.signatures import OPENAI, signed
from flowloom.providers.openai_chat_answers import logprobs_of
from flowloom.providers.openai_items import (
    APPROVAL,
    approval_part,
    is_server_item,
    item_name,
    message_signature,
    searches_of,
    server_parts,
)
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

_INCOMPLETE = {"max_output_tokens": types.FinishReason.MAX_TOKENS, "content_filter": types.FinishReason.SAFETY}
_ENDS = ("response.completed", "response.incomplete")
_TEXT, _THOUGHT = False, True
_DELTAS = {
    "response.output_text.delta": _TEXT,
    "response.refusal.delta": _TEXT,
    "response.reasoning_text.delta": _THOUGHT,
    "response.reasoning_summary_text.delta": _THOUGHT,
}


class _Open:
    """An item that has begun."""

    __slots__ = ("arguments", "call_id", "name")

    def __init__(self, item: Json) -> None:
        is_call = item.get("type") == "function_call"
        self.call_id = _call_id(item) if is_call else ""
        self.name = text_in(item, "name")
        self.arguments: str = item.get("arguments") or ""


class ResponsesReader:
    """Reads the answers of the Responses API; see `AnswerReader`."""

    def __init__(self, model: str) -> None:
        self._model = model
        self.paused = False  # its provider never does
        self._aggregator = StreamingAggregator()
        self._response: Json = {}
        self._items: list[Json] = []  # what is done
        self._open: dict[int, _Open] = {}  # what has begun, by its place
        self._streamed: set[int] = set()  # the places of which something has come by itself
        self._ran = False  # whether a tool of the server's ran before what comes

    @property
    def finished(self) -> bool:
        """Whether the answer has been told to be at its end."""
        return bool(self._response)

    def whole(self, data: Json) -> LlmResponse:
        if data.get("error") or data.get("status") == "failed":
            raise error_in(data, self._model, stream=False)
        if "output" not in data or data.get("status") not in (None, "completed", "incomplete"):
            raise ModelResponseError(
                f"The answer of the model `{self._model}` could not be read: it has no output, or is not complete "
                f"(its status is {data.get('status')!r}).",
                model=self._model,
            )
        self._response = data
        self._items = objects_of(data["output"])
        for item in self._items:
            self._shown(self._parts_of(item))
        return self.close()

    def feed(self, data: Json) -> list[LlmResponse]:
        kind: Any = data.get("type")
        thought = _DELTAS.get(kind)
        if thought is not None:
            if not data.get("delta"):
                return []
            self._streamed.add(data.get("output_index") or 0)
            return [self._aggregator.feed_text(data["delta"], thought=thought)]
        if kind == "response.function_call_arguments.delta":
            return self._more_arguments(data)
        if kind in ("response.output_item.added", "response.output_item.done"):
            return self._item(data, done=kind.endswith("done"))
        if kind == "response.reasoning_summary_part.added" and data.get("summary_index"):
            return [self._aggregator.feed_text("\n\n", thought=True)]
        if kind in _ENDS:
            self._response = object_of(data.get("response"))
            if not self._items:  # a server that tells at the end alone what is done
                told = [
                    {"output_index": n, "item": item} for n, item in enumerate(objects_of(self._response.get("output")))
                ]
                return [shown for each in told for shown in self._item(each, done=True)]
        if kind in ("error", "response.failed") or data.get("error"):
            failed = object_of(data.get("response")) if kind == "response.failed" else data
            raise error_in(failed, self._model, stream=True)
        return []

    def close(self) -> LlmResponse:
        complete = self._aggregator.close()
        text = "" if complete is None else complete.text
        return with_metadata(complete and complete.content, self._reason(), self._metadata(text))

    # -- items -------------------------------------------------------------------------------------

    def _item(self, data: Json, *, done: bool) -> list[LlmResponse]:
        place: int = data.get("output_index") or 0
        item = object_of(data.get("item"))
        if not done or place not in self._open:
            self._open[place] = _Open(item)
        opened, streamed = self._open[place], place in self._streamed
        if done:
            self._items.append(item)
            del self._open[place]
            self._streamed.discard(place)
        kind = item.get("type")
        if kind == "function_call":
            # arguments that were not streamed stand in the item, at its end or from the beginning
            late = "" if streamed or not done else item.get("arguments") or opened.arguments
            return self._piece(opened, late, more=not done)
        if not done:
            return self._begun(item)
        if not streamed:
            return self._shown(self._parts_of(item))
        if kind == "message" and self._is_kept(item):
            self._aggregator.end_text(message_signature(item))
        elif kind == "reasoning" and (signature := _signature(item)) is not None:
            self._aggregator.sign_thought(signature)
        return []

    def _begun(self, item: Json) -> list[LlmResponse]:
        """What is shown of an item that has begun."""
        if item.get("type") == "message":
            self._aggregator.end_text()
        if not is_server_item(item) or not item.get("id"):
            return []
        self._aggregator.end_text()
        shown = content_of("model", [server_call(text_in(item, "id"), item_name(item), None, None)])
        return [make(LlmResponse, content=shown, partial=True, turn_complete=False)]

    def _is_kept(self, message: Json) -> bool:
        """Whether a message goes back with all that stands around its words: that goes with what the server ran."""
        return self._ran or any(each.get("annotations") for each in objects_of(message.get("content")))

    def _parts_of(self, item: Json) -> list[types.Part]:
        """An item as parts."""
        if is_server_item(item):
            self._ran = True
            return list(server_parts(item))
        parts = list(_parts(item))
        if item.get("type") == "message" and parts:
            self._aggregator.end_text()
            if self._is_kept(item):
                text = text_part("".join(part.text or "" for part in parts))
                text.thought_signature = message_signature(item)
                return [text]
        return parts

    def _more_arguments(self, data: Json) -> list[LlmResponse]:
        place: int = data.get("output_index") or 0
        opened = self._open.get(place)
        if opened is None or not data.get("delta"):
            return []
        self._streamed.add(place)
        return self._piece(opened, data["delta"], more=True)

    def _piece(self, opened: _Open, arguments: str, *, more: bool) -> list[LlmResponse]:
        return self._shown([call_piece(opened.call_id, opened.name, arguments, more=more)])

    def _shown(self, parts: list[types.Part]) -> list[LlmResponse]:
        return [self._aggregator.feed_parts(parts)] if parts else []

    # -- the end -----------------------------------------------------------------------------------

    def _reason(self) -> types.FinishReason:
        if self._response.get("status") == "incomplete":
            why = object_of(self._response.get("incomplete_details")).get("reason")
            return _INCOMPLETE.get(str(why), types.FinishReason.OTHER)
        refused = any(text.get("type") == "refusal" for text in self._texts())
        return types.FinishReason.SAFETY if refused else types.FinishReason.STOP

    def _metadata(self, said: str) -> Json:
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
        if (grounding := self._grounding(said)) is not None:
            found["grounding_metadata"] = grounding
        logprobs = [logprobs_of(objects_of(text.get("logprobs"))) for text in texts if text.get("logprobs")]
        return {**found, **joined_logprobs(logprobs)}

    def _grounding(self, said: str) -> types.GroundingMetadata | None:
        """The sources of an answer, and what words they stand behind: each piece counts from its own beginning."""
        grounds = Grounds()
        for item in self._items:
            grounds.search(*searches_of(item))
        shift = 0
        for text in self._texts():
            for cited in objects_of(text.get("annotations")):
                place = {name: (cited.get(name) or 0) + shift for name in ("start_index", "end_index")}
                if cited.get("type") == "url_citation":
                    grounds.cite_words(said, {**cited, **place})
                elif cited.get("file_id"):
                    source = {"url": cited["file_id"], "title": cited.get("filename"), "file": True}
                    grounds.cite_words(said, {**source, **place})
            shift += len(text.get("text") or text.get("refusal") or "")
        return grounds.metadata(said)

    def _texts(self) -> Iterator[Json]:
        """The pieces of the messages in the answer."""
        for item in self._items:
            if item.get("type") == "message":
                yield from objects_of(item.get("content"))


def _parts(item: Json) -> Iterator[types.Part]:
    """An item as parts; what a server did on its own is not among them."""
    kind = item.get("type")
    if kind == "function_call":
        yield call_part(_call_id(item), text_in(item, "name"), arguments_of(item.get("arguments")))
    elif kind == "message":
        for text in objects_of(item.get("content")):
            if said := text.get("text") or text.get("refusal"):
                yield text_part(said)
    elif kind == APPROVAL:
        yield approval_part(item)
    elif kind == "reasoning":
        thought, signature = _thought_of(item), _signature(item)
        if thought or signature is not None:
            yield types.Part(text=thought, thought=True, thought_signature=signature)


def _call_id(item: Json) -> str:
    return text_in(item, "call_id") or minted_id()


def _thought_of(item: Json) -> str:
    summary = "\n\n".join(str(each.get("text") or "") for each in objects_of(item.get("summary")))
    return summary + "".join(str(each.get("text") or "") for each in objects_of(item.get("content")))


def _signature(item: Json) -> bytes | None:
    """What a thought has to be sent back with."""
    secret = item.get("encrypted_content")
    if not secret:
        return None
    more = {"summary": item["summary"]} if len(objects_of(item.get("summary"))) > 1 else {}
    return signed(OPENAI, json.dumps({**more, "id": item.get("id"), "encrypted_content": secret}))
