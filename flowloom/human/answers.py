"""From what a person gave to the response of a model, checked against the request."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, cast

from google.genai import types

from flowloom.errors import ToolArgumentsError, UnfitAnswerError, closest_first, quoted_list
from flowloom.events.ids import CLIENT_CALL_PREFIX, new_id
from flowloom.events.parts import content_of, text_part
from flowloom.events.response import LlmResponse
from flowloom.events.wire import fields_of, make, replace
from flowloom.human.forms import unfit
from flowloom.human.request import WaitingRequest
from flowloom.models.aggregator import StreamingAggregator
from flowloom.providers.sdk_request import calling_mode

Piece = str | types.Part | types.FunctionCall
Answer = Piece | Sequence[Piece] | types.Content | LlmResponse | Exception
"""What a person says: a text, a part, a call, several of these; a whole response; or an exception that is raised."""


def outcome_of(answer: Answer, waiting: WaitingRequest) -> LlmResponse | Exception:
    """What the model gives or raises. Raises `UnfitAnswerError` for an answer that does not fit the request.

    A whole `LlmResponse` is not checked: this is how one plays a model that errs.
    """
    if isinstance(answer, Exception):
        return answer
    try:
        if isinstance(answer, LlmResponse):
            return _whole(answer)
        rest = [_part(each) for each in _pieces(answer)]
        parts = [*waiting.said, *rest]
        if not any(map(_says_something, parts)):
            raise UnfitAnswerError("The answer says nothing. Give a text, a call, or an error.")
        _check_calls(parts, waiting)
        _check_text(parts, waiting)
    except UnfitAnswerError as error:
        error.request_id = waiting.id
        raise
    content = content_of("model", _with_ids(rest))
    return make(LlmResponse, content=content, finish_reason=types.FinishReason.STOP)


def piece_of(answer: Answer, waiting: WaitingRequest) -> list[types.Part]:
    """The parts of a piece of an answer. Raises `UnfitAnswerError` for all that is neither text nor a thought."""
    try:
        parts = [] if isinstance(answer, LlmResponse | Exception) else [_part(each) for each in _pieces(answer)]
        if not parts or not all(map(_is_said, parts)):
            raise UnfitAnswerError("Only text and thoughts can be said before the answer is complete.")
    except UnfitAnswerError as error:
        error.request_id = waiting.id
        raise
    return parts


def responses_of(
    outcome: LlmResponse, aggregator: StreamingAggregator, said: Sequence[types.Part], stream: bool
) -> Iterator[LlmResponse]:
    """What the model gives for an answer: all of it, with what was `said` before. To a run that streams, `aggregator`
    has been fed that already, and the rest comes as a partial response first."""
    rest = outcome.content is not None and bool(outcome.content.parts)
    if not said and not (stream and rest):
        yield outcome
        return
    if not stream:
        aggregator.feed_parts(list(said))
    partial = aggregator.feed_response(outcome)
    if stream and rest:
        yield from partial
    complete = aggregator.close()
    assert complete is not None
    yield complete


def _whole(response: LlmResponse) -> LlmResponse:
    if response.partial:
        raise UnfitAnswerError("The response is partial. Give the complete one: pieces of it are made here.")
    content = response.content
    if content is None or not content.parts:
        return response
    return replace(response, content=content_of(content.role or "model", _with_ids(content.parts)))


def _pieces(answer: Any) -> list[Any]:
    if isinstance(answer, types.Content):
        return list(answer.parts or ())
    if isinstance(answer, list | tuple):
        return list(cast(Sequence[Any], answer))
    return [answer]


def _part(piece: Any) -> types.Part:
    if isinstance(piece, types.Part):
        return piece
    if isinstance(piece, str):
        return text_part(piece)
    if isinstance(piece, types.FunctionCall):
        return types.Part(function_call=piece)
    raise UnfitAnswerError(
        f"{piece!r} is no part of an answer. Give a text, a `types.Part`, a `types.FunctionCall`, a list of them, an "
        f"`LlmResponse`, or an exception."
    )


def _says_something(part: types.Part) -> bool:
    if part.text is not None:
        return bool(part.text.strip())
    return any(
        value is not None for name, value in fields_of(part).items() if name not in ("thought", "thought_signature")
    )


def _is_said(part: types.Part) -> bool:
    return bool(part.text) and all(
        value is None for name, value in fields_of(part).items() if name not in ("text", "thought")
    )


def _check_calls(parts: Sequence[types.Part], waiting: WaitingRequest) -> None:
    calls = [part.function_call for part in parts if part.function_call is not None]
    names = [form.name for form in waiting.tools]
    calling = calling_mode(waiting.request)
    if not calls and calling is not None and calling.mode == "any":
        raise UnfitAnswerError(f"The request asks for a call. The tools are {quoted_list(names)}.")
    ids = [call.id for call in calls if call.id]
    if len(set(ids)) < len(ids):
        raise UnfitAnswerError("Two calls have the same id. Leave the ids out: they are made here.")
    for call in calls:
        form = waiting.form(call.name or "")
        if form is None:
            known = quoted_list(closest_first(call.name or "", names))
            raise UnfitAnswerError(f"There is no tool `{call.name}` to call. The tools are {known}.", tool=call.name)
        form.check(call.args or {})


def _check_text(parts: Sequence[types.Part], waiting: WaitingRequest) -> None:
    """Raise if the request asks for JSON, and this is an answer, and not on the way to one by a call."""
    if waiting.output is None or any(part.function_call is not None for part in parts):
        return
    try:
        waiting.output.parse("".join(part.text for part in parts if part.text and not part.thought))
    except ToolArgumentsError as error:
        raise unfit(error) from error


def _with_ids(parts: Sequence[types.Part]) -> list[types.Part]:
    """The parts with an id on each call, so that streamed pieces and the whole have the same."""
    named: list[types.Part] = []
    for part in parts:
        call = part.function_call
        if call is not None and not call.id:
            part = replace(part, function_call=replace(call, id=CLIENT_CALL_PREFIX + new_id(), args=call.args or {}))
        named.append(part)
    return named
