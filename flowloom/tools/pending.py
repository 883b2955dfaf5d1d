"""Pending calls: what tools wait for, as records in the log, and the answers to them (spec §7).

A record is the request that an agent made: its id, whose it is, which call it is about, and a hash of that call. It is
consumed by the first result that the call has after it.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from flowloom.context.progress import is_from_agent_tool
from flowloom.errors import ConfigurationError, ToolArgumentsError
from flowloom.events.actions import InputRequest, ToolConfirmation
from flowloom.events.event import Event
from flowloom.events.ids import INPUT_ID_PREFIX
from flowloom.events.requests import CONFIRMATION_CALL, CREDENTIAL_CALL, INPUT_CALL, is_request
from flowloom.log.answers import answers_request, read_decision, read_input
from flowloom.tools.output import OutputSchema
from flowloom.tools.request_record import PENDING, call_hash

_log = logging.getLogger("flowloom.tools")


@dataclass(slots=True)
class Decided:
    """A call that may run now, with all that people have said about it."""

    call: types.FunctionCall
    confirmation: ToolConfirmation | None = None
    inputs: list[Any] = field(default_factory=list[Any])
    misfit: InputRequest | None = None
    """What has to be asked again, because the answer does not fit."""
    earlier: bool = False
    """Whether an earlier message has decided about it, so that it was perhaps under way when the run was cut off."""
    question: str | None = None
    """What was asked at first, if it was asked again."""


@dataclass(slots=True)
class _Record:
    request: types.FunctionCall
    call: types.FunctionCall
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


def decided_calls(
    events: Sequence[Event], at: int, agent: str, here: Callable[[Event], bool] = lambda _: True
) -> list[Decided]:
    """The calls that the message `events[at]` decides about and that have not run since, in the order asked for.

    Only the requests that `agent` made count, `here` (its place in the run). An id that stands for two different calls,
    or a request whose call was changed, is never carried out; neither is a second answer to one that was consumed.
    What earlier messages of the same invocation have decided about, and nobody has carried out, is decided with it.
    """
    message = events[at]
    answered = {part.function_response.id for part in _parts(message) if is_answer(part)}  # type: ignore[union-attr]
    records = _records(events, agent, here)
    answers = _first_answers(events[: at + 1], records)
    about: dict[str | None, list[_Record]] = {}
    for record in records.values():
        about.setdefault(record.call.id, []).append(record)
    decided: dict[str, Decided] = {}
    for request_id, record in records.items():
        answer, _ = answers.get(request_id, _UNANSWERED)
        left = answer is not None and answer is not message and answer.invocation_id == message.invocation_id
        left = left and not (record.consumed or record.conflicting)
        if request_id not in answered and not left:
            continue
        answered.discard(request_id)
        why = None
        if record.conflicting:
            why = "two different calls were asked for by that id"
        elif record.consumed:
            why = "the call has run already"
        elif answer is None:
            why = "it cannot be read, or is about another call than the one that was asked about"
        if why is not None:
            _log.warning("The answer to `%s` of agent `%s` is refused: %s.", request_id, agent, why)
            continue
        call = record.call
        item = decided.setdefault(call.id or "", Decided(call))
        item.earlier = item.earlier or left
        item.inputs, item.question = [], None
        for other in about[call.id]:
            _, given = answers.get(other.request.id or "", _UNANSWERED)
            if given is not None:
                _take(item, other, given)
    if answered:
        known = {call.id for event in events for call in event.get_function_calls()}
        for unknown in answered - known:
            _log.warning("The answer to `%s` is refused: nobody asked for anything by that id.", unknown)
    return list(decided.values())


_UNANSWERED: tuple[None, None] = (None, None)


def _take(item: Decided, record: _Record, answer: types.FunctionResponse) -> None:
    """Add one answer to what is known about a call."""
    if record.request.name == CONFIRMATION_CALL:
        item.confirmation = read_decision(answer)
        edited = item.confirmation.edited_args
        if edited is not None and item.confirmation.confirmed:
            item.call = types.FunctionCall(id=record.call.id, name=record.call.name, args=edited)
        return
    args = record.request.args or {}
    request = InputRequest(
        message=args.get("message") or "", payload=args.get("payload"), response_schema=args.get("response_schema")
    )
    value = read_input(answer)
    if request.response_schema:
        try:
            value = OutputSchema(request.response_schema).validate(value)
        except ToolArgumentsError as error:
            item.question = request.message if item.question is None else item.question
            item.misfit = request.model_copy(update={"message": f"{item.question}\n{error}"})
            return
        except ConfigurationError as error:  # of a log that was made elsewhere: requests are checked when made
            _log.warning("The answer to `%s` is taken as it is: %s", record.request.id, error)
    item.misfit = item.question = None
    item.inputs.append(value)


def _records(events: Sequence[Event], agent: str, here: Callable[[Event], bool]) -> dict[str, _Record]:
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
            if call is None or not is_request(event, call) or call.name == CREDENTIAL_CALL or not here(event):
                continue
            original = read_call((call.args or {}).get("originalFunctionCall"))
            if original is None:
                continue
            noted: Any = (event.actions.agent_state or {}).get(PENDING) or {}
            altered = call.id in noted and noted[call.id].get("hash") != call_hash(original)
            before = found.get(call.id or "")
            if before is not None and call_hash(before.call) != call_hash(original):
                before.conflicting = True
                continue
            record = _Record(call, original, conflicting=altered)
            found[call.id or ""] = record
            open_records.setdefault(original.id or "", []).append(record)
    return found


def _first_answers(
    events: Sequence[Event], records: Mapping[str, _Record]
) -> dict[str, tuple[Event, types.FunctionResponse]]:
    """The first answer to each request, with its message: it stands."""
    found: dict[str, tuple[Event, types.FunctionResponse]] = {}
    for event in events:
        if event.author != "user" or is_from_agent_tool(event):
            continue
        for response in event.get_function_responses():
            record = records.get(response.id or "")
            if record is not None and answers_request(response, record.request):
                found.setdefault(response.id or "", (event, response))
    return found


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
