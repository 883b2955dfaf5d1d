"""`StreamingAggregator`: from the chunks of a stream to the partial responses and the complete one (spec §16).

Synchronous, one per model call, and used by every adapter that streams:

    aggregator = StreamingAggregator()
    for chunk in chunks:
        yield from aggregator.feed(chunk)      # partial responses, to show
    complete = aggregator.close()              # the one to store, and to execute tools from

The complete response repeats the content of the partial ones: runs of text joined, thoughts and answer apart,
streamed function calls put together, each call under the id that its partials had, which no other call has.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, cast

from google.genai import types
from pydantic import BaseModel

from flowloom.events.ids import CLIENT_CALL_PREFIX, new_id
from flowloom.events.parts import content_of, text_part
from flowloom.events.response import LlmResponse
from flowloom.events.wire import assemble, fields_of, make, replace
from flowloom.models.grounding import joined_pages
from flowloom.models.partial_args import PartialArgs

# Chunks and parts that set nothing beyond these take the fast path.
_PLAIN_CHUNK = frozenset({"candidates", "usage_metadata", "model_version", "response_id", "create_time"})
_PLAIN_CANDIDATE = frozenset({"content", "finish_reason", "index", "safety_ratings", "token_count"})
_PLAIN_TEXT = frozenset({"text", "thought"})

# What makes a part a piece of text; anything else set on it keeps it from being merged with its neighbours.
_TEXT_FIELDS = frozenset({"text", "thought", "thought_signature"})
# What the aggregate does not take over from the responses as "the latest one".
_MADE_HERE = frozenset({"content", "partial", "turn_complete", "logprobs_result", "error_code", "error_message"})
# What was fed has been validated, and is not validated again: it would take longer than all else that is done here.
_PART_FIELDS = {**fields_of(types.Part.model_construct())}
_CALL = types.FunctionCall.model_construct(id=None, name=None, args=None)
_CONTENT = types.Content.model_construct(role="model", parts=None)


class StreamingAggregator:
    """Turns the responses of one model call into partial ones, and sums them up.

    `new_id` makes the random part of function-call ids, for models that send none. Chunks are never changed;
    the complete response shares no mutable state with the partial ones but the values inside of arguments.
    """

    def __init__(self, *, new_id: Callable[[], str] = new_id) -> None:
        self._new_id = new_id
        self._seen = False
        self._turn_complete = False
        # Metadata of the complete response, by field: the latest that was not empty.
        self._kept: dict[str, Any] = {}
        self._logprobs: list[types.LogprobsResult] = []
        # The parts so far, in the order in which they began. None holds the place of a call still streaming.
        self._parts: list[types.Part | None] = []
        # The text that still grows: its pieces, its kind, and the signature that ended it, if one did.
        self._run: list[str] = []
        self._run_thought = False
        self._run_signature: bytes | None = None
        # A signature that came in a part of its own, and belongs to the next call as well.
        self._signature: bytes | None = None
        self._call: _StreamedCall | None = None
        # The ids of the calls so far: a model may give one twice.
        self._ids: set[str] = set()
        # Calls that another one interrupted, by the model's ids: their further pieces may still come.
        self._interrupted: dict[str, _StreamedCall] = {}

    def feed(self, chunk: types.GenerateContentResponse) -> list[LlmResponse]:
        """Take in one `chunk` of google-genai; returns the partial responses to show (spec §16.3).

        Costs about 3 µs for the usual chunk, one text part. Raises `ModelResponseError` for streamed arguments that
        cannot be built; if it is caught, the call is given with what is wrong in their place.
        """
        candidates = chunk.candidates
        if candidates and chunk.__pydantic_fields_set__ <= _PLAIN_CHUNK:
            candidate = candidates[0]
            content = candidate.content
            if content is not None and candidate.__pydantic_fields_set__ <= _PLAIN_CANDIDATE:
                parts = content.parts
                if parts is not None and len(parts) == 1:
                    part = parts[0]
                    text = part.text
                    if text and part.thought_signature is None and part.__pydantic_fields_set__ <= _PLAIN_TEXT:
                        return self._feed_text(chunk, content, text, bool(part.thought), candidate.finish_reason)
        return [self._take(LlmResponse.create(chunk))]

    def feed_response(self, response: LlmResponse) -> list[LlmResponse]:
        """The same for adapters that make their own responses, one for each piece of the stream.

        `response` is not changed. What it holds beyond content (metadata of any kind) is kept as in `feed`.
        """
        return [self._take(replace(response))]

    def feed_text(self, text: str, *, thought: bool = False) -> LlmResponse:
        """The same for a piece of text, one of a `thought` or of the answer, in about 2 µs; `text` is not empty."""
        self._seen = True
        self._grow(text, thought)
        content = content_of("model", [text_part(text, thought=thought or None)])
        return make(LlmResponse, content=content, partial=True, turn_complete=False)

    def feed_parts(self, parts: list[types.Part]) -> LlmResponse:
        """The same for `parts` that are the adapter's own, and held nowhere else."""
        self._seen = True
        content = content_of("model", [self._take_part(part) for part in parts])
        return make(LlmResponse, content=content, partial=True, turn_complete=False)

    def sign_thought(self, signature: bytes) -> None:
        """Take in the `signature` of the thought that came last, or of one without text. It is shown when complete."""
        self._seen = True
        if self._run and self._run_thought:
            self._run_signature = signature
            self._end_run()
        else:
            self._end_run()
            self._parts.append(_part(text="", thought=True, thought_signature=signature))

    def end_text(self, signature: bytes | None = None) -> None:
        """What text comes next is a part of its own; the one that ends here has that `signature`."""
        if self._run and signature is not None:
            self._run_signature = signature
        self._end_run()

    def close(self) -> LlmResponse | None:
        """The complete response, or None when nothing was fed (spec §16.7).

        A stream of nothing but errors gives an error without content. May be called again, with the same result.
        """
        if not self._seen:
            return None
        self._end_run()
        self._end_call()
        parts = [part for part in self._parts if part is not None]
        values = self._kept.copy()
        values["turn_complete"] = self._turn_complete
        if parts and values.get("error_code") == values.get("finish_reason"):
            values["error_code"] = values["error_message"] = None  # beside content, a reason to finish is no error
        if parts or not values.get("error_code"):
            values["content"] = replace(_CONTENT, parts=parts)
        if self._logprobs:
            values["logprobs_result"] = _joined_logprobs(self._logprobs)
        return make(LlmResponse, values)

    # -- one response ----------------------------------------------------------------------------

    def _feed_text(
        self,
        chunk: types.GenerateContentResponse,
        content: types.Content,
        text: str,
        thought: bool,
        finish_reason: types.FinishReason | None,
    ) -> list[LlmResponse]:
        """`_take` for the chunk that almost every chunk is."""
        self._seen = True
        kept = self._kept
        usage = chunk.usage_metadata
        if usage is not None and not _is_empty(usage):
            kept["usage_metadata"] = usage
        version = chunk.model_version
        if version:
            kept["model_version"] = version
        self._grow(text, thought)
        values: dict[str, Any] = {
            "content": content,
            "partial": True,
            "turn_complete": False,
            "usage_metadata": usage,
            "model_version": version,
        }
        if finish_reason is not None:
            kept["finish_reason"] = values["finish_reason"] = finish_reason
            values["turn_complete"] = self._turn_complete = True
        return [make(LlmResponse, values)]

    def _take(self, response: LlmResponse) -> LlmResponse:
        """Take in `response`, which is held nowhere else, and make it a partial one."""
        self._seen = True
        self._keep(response)
        content = response.content
        if content is not None and content.parts:
            shown = [self._take_part(part) for part in content.parts]
            if any(new is not old for new, old in zip(shown, content.parts, strict=True)):
                mine = replace(content)
                mine.parts = shown
                response.content = mine
        response.partial = True
        response.turn_complete = bool(response.turn_complete) or response.finish_reason is not None
        self._turn_complete = self._turn_complete or response.turn_complete
        return response

    def _keep(self, response: LlmResponse) -> None:
        """Remember the response's metadata for the complete one (spec §16.6)."""
        kept = self._kept
        for name, value in fields_of(response).items():
            if value is not None and name not in _MADE_HERE and not _is_empty(value):
                join = _JOINED.get(name) if name in kept else None
                kept[name] = value if join is None else join(kept[name], value)
        if response.logprobs_result is not None:
            self._logprobs.append(response.logprobs_result)
        # An error stays when later responses have none, and its code and message stay together.
        if response.error_code or response.error_message:
            kept["error_code"] = response.error_code
            kept["error_message"] = response.error_message

    # -- one part --------------------------------------------------------------------------------

    def _take_part(self, part: types.Part) -> types.Part:
        """Take in one part; returns it as the partial response shows it (spec §16.4)."""
        if part.function_call is not None:
            return self._take_call(part, part.function_call)
        extra = [name for name, value in fields_of(part).items() if value is not None and name not in _TEXT_FIELDS]
        if not extra:
            if part.text:
                self._take_text(part.text, bool(part.thought), part.thought_signature)
                return part
            if part.thought_signature is None:
                return part  # an empty part says nothing
            if not part.thought:
                self._signature = part.thought_signature
        self._end_run()
        self._parts.append(replace(part))
        return part

    def _grow(self, text: str, thought: bool) -> None:
        """`_take_text` for text without a signature."""
        if self._run and self._run_thought is thought and self._run_signature is None:
            self._run.append(text)
        else:
            self._take_text(text, thought, None)

    def _take_text(self, text: str, thought: bool, signature: bytes | None) -> None:
        """Append to the open run of text, or begin a new one.

        A signature stands for the text up to it: text that follows goes with it only under the same signature.
        """
        ended = self._run_signature is not None and self._run_signature != signature
        if self._run and (ended or self._run_thought is not thought):
            self._end_run()
        self._run.append(text)
        self._run_thought = thought
        if signature is not None:
            self._run_signature = signature

    def _end_run(self) -> None:
        if not self._run:
            return
        fields: dict[str, Any] = {"text": "".join(self._run)}
        if self._run_thought:
            fields["thought"] = True
        if self._run_signature is not None:
            fields["thought_signature"] = self._run_signature
        self._parts.append(_part(**fields))
        self._run = []
        self._run_signature = None

    # -- function calls --------------------------------------------------------------------------

    def _take_call(self, part: types.Part, call: types.FunctionCall) -> types.Part:
        """Take in one function call or a piece of one; returns the part to show, with the call's id (spec §16.5)."""
        pending = self._call
        if pending is not None and not pending.goes_on_in(call):
            if pending.model_id:
                self._interrupted[pending.model_id] = pending
            self._end_call()
            pending = None
        if pending is None and call.id in self._interrupted and (call.partial_args or call.will_continue is False):
            pending = self._call = self._interrupted.pop(call.id)
        if pending is None:
            if not call.partial_args and not call.will_continue:
                return self._take_whole_call(part, call)
            self._end_run()
            pending = self._call = _StreamedCall(len(self._parts), self._id_for(call))
            self._parts.append(None)
        pending.take(part, call)
        if not call.will_continue:
            self._end_call()
        return _with_call_id(part, call, pending.id)

    def _take_whole_call(self, part: types.Part, call: types.FunctionCall) -> types.Part:
        if not call.name:
            return part  # only ends a streamed call, and that one has ended
        self._end_run()
        shown = _with_call_id(part, call, self._id_for(call))
        # Callbacks may edit what they are shown, on the partial response and again on the complete one.
        mine = replace(shown)
        mine_call = replace(cast(types.FunctionCall, shown.function_call))
        mine_call.args = dict(call.args or {})
        mine.function_call = mine_call
        if mine.thought_signature is None and self._signature is not None:
            mine.thought_signature = self._signature
        self._signature = None
        self._parts.append(mine)
        return shown

    def _end_call(self) -> None:
        """Put the streamed call, complete or not, in the place where it began."""
        pending = self._call
        if pending is None:
            return
        self._call = None
        if not pending.name:
            return  # a call of nothing
        fields: dict[str, Any] = {
            "function_call": replace(_CALL, id=pending.id, name=pending.name, args=pending.args.result())
        }
        signature = pending.signature or self._signature
        if signature is not None:
            fields["thought_signature"] = signature
        self._signature = None
        self._parts[pending.place] = _part(**fields)

    def _id_for(self, call: types.FunctionCall) -> str:
        """The id of a call that begins: the model's, unless there is none or an earlier call of the answer has it."""
        call_id = call.id
        if not call_id or call_id in self._ids:
            call_id = CLIENT_CALL_PREFIX + self._new_id()
        self._ids.add(call_id)
        return call_id


class _StreamedCall:
    """A function call whose arguments are still arriving."""

    __slots__ = ("args", "id", "model_id", "name", "place", "signature")

    def __init__(self, place: int, call_id: str) -> None:
        self.place = place
        self.id = call_id
        self.model_id: str | None = None
        """The id that the model gave, which may come later than the first piece."""
        self.name = ""
        self.signature: bytes | None = None
        self.args = PartialArgs()

    def goes_on_in(self, call: types.FunctionCall) -> bool:
        """Whether `call` is a further piece of this call, and not another call."""
        if call.id and self.model_id and call.id != self.model_id:
            return False
        if call.name and self.name and call.name != self.name:
            return False
        if call.partial_args or call.will_continue:
            return True
        if call.id and call.id == self.model_id:
            return True
        # A nameless piece can only close. One with the name may be a second call of the same function, unless it
        # says itself that it is the end of something.
        return not call.name or call.will_continue is False

    def take(self, part: types.Part, call: types.FunctionCall) -> None:
        self.name = self.name or call.name or ""
        self.model_id = self.model_id or call.id or None
        self.signature = self.signature or part.thought_signature
        if call.args:
            self.args.merge(call.args)
        for partial in call.partial_args or ():
            self.args.apply(partial)


def _part(**fields: Any) -> types.Part:
    """A part to which only fields with a value are given: what a field set says travels into stored events."""
    return assemble(types.Part, _PART_FIELDS | fields, set(fields))


def _with_call_id(part: types.Part, call: types.FunctionCall, call_id: str) -> types.Part:
    """`part` with that id on its call; a copy, if the id is not there yet."""
    if call.id == call_id:
        return part
    shown = replace(part)
    shown.function_call = replace(call)
    shown.function_call.id = call_id
    return shown


def _is_empty(value: Any) -> bool:
    """Whether a piece of metadata says nothing: an empty text or dict, or an object without a value."""
    if isinstance(value, BaseModel):
        return not value.__pydantic_fields_set__ and all(field is None for field in fields_of(value).values())
    return value == "" or value == {}


def _joined_fields(before: BaseModel, since: BaseModel) -> BaseModel:
    """The later one, with what only the earlier one says: a search tells its queries and its sources in turns."""
    return replace(before, **{name: value for name, value in fields_of(since).items() if value})


_JOINED: Mapping[str, Callable[[Any, Any], Any]] = {
    "grounding_metadata": _joined_fields,
    "url_context_metadata": joined_pages,
}
"""What a stream may tell in turns, and how that is put together; of all else the latest counts."""


def _joined_logprobs(results: list[types.LogprobsResult]) -> types.LogprobsResult:
    """One result for a stream: each chunk reports its own tokens, so lists are joined and sums are added."""
    if len(results) == 1:
        return results[0]
    chosen = [candidate for result in results for candidate in result.chosen_candidates or ()]
    top = [candidates for result in results for candidates in result.top_candidates or ()]
    joined = replace(results[0])
    joined.chosen_candidates = chosen or None
    joined.top_candidates = top or None
    sums = [result.log_probability_sum for result in results if result.log_probability_sum is not None]
    joined.log_probability_sum = sum(sums) if sums else None
    return joined
