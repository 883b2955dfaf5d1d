"""Pending calls: what tools wait for, as records in the log, and the answers to them (spec §7).

A record is the request that an agent made: its id, whose it is, which call it is about, and a hash of that call. It is
consumed by the first result that the call has after it.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, cast

from google.genai import types

from flowloom.context.context import INPUT_CALL
from flowloom.errors import HistoryError, ToolArgumentsError
from flowloom.events.actions import InputRequest, ToolConfirmation
from flowloom.events.event import Event
from flowloom.events.ids import INPUT_ID_PREFIX
from flowloom.tools.confirmation import CONFIRMATION_CALL, PENDING, call_hash
from flowloom.tools.input_request import input_of
from flowloom.tools.output import OutputSchema

_log = logging.getLogger("flowloom.tools")


@dataclass(slots=True)
class Decided:
    """A call that may run now, with all that people have said about it."""

    call: types.FunctionCall
    confirmation: ToolConfirmation | None = None
    inputs: list[Any] = field(default_factory=list[Any])
    misfit: InputRequest | None = None
    """What has to be asked again, because the answer does not fit."""


@dataclass(slots=True)
class _Record:
    request_id: str
    kind: str
    call: types.FunctionCall
    args: dict[str, Any]
    consumed: bool = False
    conflicting: bool = False


def is_answer(part: types.Part) -> bool:
    """Whether a part of a user's message answers what a tool has asked for."""
    response = part.function_response
    if response is None or not response.id:
        return False
    return response.name == CONFIRMATION_CALL or (
        response.name == INPUT_CALL and response.id.startswith(INPUT_ID_PREFIX)
    )


def decided_calls(events: Sequence[Event], at: int, agent: str) -> list[Decided]:
    """The calls that the message `events[at]` decides about and that have not run since, in the order asked for.

    Only the requests that `agent` made count. An id that stands for two different calls, or a request whose call was
    changed, is never carried out; neither is a second answer to a request that was consumed. Raises `HistoryError` for
    an answer that cannot be read.
    """
    answered = {part.function_response.id for part in _parts(events[at]) if is_answer(part)}  # type: ignore[union-attr]
    records = _records(events, agent)
    answers = _first_answers(events, records)
    decided: dict[str, Decided] = {}
    for record in records.values():
        if record.request_id not in answered:
            continue
        answered.discard(record.request_id)
        why = None
        if record.conflicting:
            why = "two different calls were asked for by that id"
        elif record.consumed:
            why = "the call has run already"
        elif record.request_id not in answers:
            why = "it is about another call than the one that was asked about"
        if why is not None:
            _log.warning("The answer to `%s` of agent `%s` is refused: %s.", record.request_id, agent, why)
            continue
        call = record.call
        item = decided.setdefault(call.id or "", Decided(call))
        for other in records.values():
            if other.call.id == call.id and other.request_id in answers:
                _take(item, other, answers[other.request_id])
    if answered:
        known = {call.id for event in events for call in event.get_function_calls()}
        for unknown in answered - known:
            _log.warning("The answer to `%s` is refused: nobody asked for anything by that id.", unknown)
    return list(decided.values())


def _take(item: Decided, record: _Record, message: Event) -> None:
    """Add one answer to what is known about a call."""
    for part in _parts(message):
        answer = part.function_response
        if answer is None or answer.id != record.request_id:
            continue
        if record.kind == CONFIRMATION_CALL:
            item.confirmation = _read_decision(message, answer.response)
            edited = item.confirmation.edited_args
            if edited is not None and item.confirmation.confirmed:
                item.call = types.FunctionCall(id=record.call.id, name=record.call.name, args=edited)
            return
        request = InputRequest(
            message=record.args.get("message") or "",
            payload=record.args.get("payload"),
            response_schema=record.args.get("response_schema"),
        )
        value = input_of(answer.response)
        if request.response_schema:
            try:
                value = OutputSchema(request.response_schema).validate(value)
            except ToolArgumentsError as error:
                item.misfit = request.model_copy(update={"message": f"{request.message}\n{error}"})
                return
        item.misfit = None
        item.inputs.append(value)
        return


def _records(events: Sequence[Event], agent: str) -> dict[str, _Record]:
    """All requests of an agent by id, in the order made."""
    found: dict[str, _Record] = {}
    open_records: dict[str, list[_Record]] = {}
    for event in events:
        if event.author != agent:
            continue
        for response in event.get_function_responses():
            for record in open_records.pop(response.id or "", ()):
                record.consumed = True
        for part in _parts(event):
            call = part.function_call
            if call is None or not call.id or call.name not in (CONFIRMATION_CALL, INPUT_CALL):
                continue
            original = read_call((call.args or {}).get("originalFunctionCall"))
            if original is None:
                continue
            noted: Any = (event.actions.agent_state or {}).get(PENDING) or {}
            altered = call.id in noted and noted[call.id].get("hash") != call_hash(original)
            before = found.get(call.id)
            if before is not None and call_hash(before.call) != call_hash(original):
                before.conflicting = True
                continue
            record = _Record(call.id, call.name, original, call.args or {}, conflicting=altered)
            found[call.id] = record
            open_records.setdefault(original.id or "", []).append(record)
    return found


def _first_answers(events: Sequence[Event], records: Mapping[str, _Record]) -> dict[str, Event]:
    """The first message that answers each request: it stands. One that speaks of another call is no answer."""
    found: dict[str, Event] = {}
    for event in events:
        if event.author != "user":
            continue
        for part in _parts(event):
            response = part.function_response
            if response is None or not response.id or not is_answer(part) or response.id not in records:
                continue
            if _is_about(response, records[response.id].call):
                found.setdefault(response.id, event)
    return found


def _is_about(answer: types.FunctionResponse, call: types.FunctionCall) -> bool:
    """Whether an answer that says which call it is about speaks of this one."""
    data: Any = (answer.response or {}).get("originalFunctionCall")
    if data is None:
        return True
    same = read_call(data)
    return same is not None and call_hash(same) == call_hash(call)


def _read_decision(event: Event, response: dict[str, Any] | None) -> ToolConfirmation:
    if not response:
        return ToolConfirmation()
    data: Any = response
    if set(response) == {"response"}:
        text = response["response"]
        if isinstance(text, Mapping):
            data = cast(Any, text)
        elif not isinstance(text, str):
            raise HistoryError(
                f"The confirmation in event `{event.id}` has a `response` of type {type(text).__name__}, not JSON text."
            )
        else:
            try:
                data = json.loads(text)
            except ValueError as error:
                raise HistoryError(f"The confirmation in event `{event.id}` is not JSON: {error}.") from error
    try:
        return ToolConfirmation.model_validate(data)
    except ValueError as error:
        raise HistoryError(f"The confirmation in event `{event.id}` cannot be read: {error}.") from error


def read_call(data: Any) -> types.FunctionCall | None:
    """The call in a request's `originalFunctionCall`; None if there is none."""
    if isinstance(data, types.FunctionCall):
        return data
    try:
        original = types.FunctionCall.model_validate(data)
    except ValueError:
        return None
    return original if original.id and original.name else None


def _parts(event: Event) -> Sequence[types.Part]:
    return (event.content.parts if event.content is not None else None) or ()
