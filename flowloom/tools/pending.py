"""What people have decided about tool calls (spec §7).

A request is consumed by the first result that the call has after it. Its record in the log says whose it is, and has a
hash of the call that it is about.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from flowloom.errors import ConfigurationError, ToolArgumentsError
from flowloom.events.actions import InputRequest, ToolConfirmation
from flowloom.events.event import Event
from flowloom.events.ids import INPUT_ID_PREFIX
from flowloom.events.parts import parts_of
from flowloom.events.requests import CONFIRMATION_CALL, INPUT_CALL
from flowloom.log.answers import read_decision, read_input
from flowloom.log.ledger import CallLedger, CallRecord, Place
from flowloom.tools.output import OutputSchema
from flowloom.tools.request_record import PENDING, call_hash

_log = logging.getLogger("flowloom.tools")


@dataclass(slots=True, eq=False, repr=False)
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


def is_answer(part: types.Part) -> bool:
    """Whether a part of a user's message answers what a tool has asked for."""
    response = part.function_response
    if response is None or not response.id:
        return False
    return response.name == CONFIRMATION_CALL or (
        response.name == INPUT_CALL and response.id.startswith(INPUT_ID_PREFIX)
    )


def decided_calls(ledger: CallLedger, message: Event, place: Place) -> list[Decided]:
    """The calls that a message decides about and that have not run since, in the order asked for.

    Only the requests that were made at `place` count. An id that stands for two different calls, or a request whose
    call was changed, is never carried out; neither is a second answer to one that was consumed. What earlier messages
    of the same invocation have decided about, and no run has carried out, is decided with it.
    """
    requests: dict[str, CallRecord] = {}
    for part in parts_of(message.content):
        answer = part.function_response
        if answer is None or not is_answer(part):
            continue
        request = ledger.call(answer.id)
        if request is None:
            _log.warning("The answer to `%s` is refused: there is no request with that id.", answer.id)
        elif _is_own(request, place):
            why = _refused(request)
            if why is None:
                requests[request.id] = request
            else:
                _log.warning("The answer to `%s` of agent `%s` is refused: %s.", request.id, place.author, why)
    left = [made for made in ledger.decided(message.invocation_id) if made.answers[0].event is not message]
    earlier = {made.id for made in left if _is_own(made, place) and _refused(made) is None}
    requests |= {made.id: made for made in left if made.id in earlier}
    found: dict[str, Decided] = {}
    for request in sorted(requests.values(), key=lambda made: made.since):
        item = found.get(request.subject or "") or decision_about(ledger, request.subject, place)
        if item is not None:
            item.earlier = item.earlier or request.id in earlier
            found[request.subject or ""] = item
    return list(found.values())


def decision_about(ledger: CallLedger, call_id: str | None, place: Place) -> Decided | None:
    """All that people have said about a call to the agent that asks at `place`; None if that is nothing."""
    item: Decided | None = None
    for request in ledger.requests(call_id):
        call = _asked_about(request) if request.answers and _is_own(request, place) else None
        if call is not None:
            item = item or Decided(call)
            _take(item, request.call, call, request.answers[0].response)
    return item


def _is_own(request: CallRecord, place: Place) -> bool:
    """Whether a call is a request for a decision or for input that was made at a place, about a call."""
    return request.kind in ("confirmation", "input") and place.holds(request.place) and bool(_asked_about(request))


def _refused(request: CallRecord) -> str | None:
    """Why the answer to a request is not carried out."""
    if _is_conflicting(request):
        return "two different calls were asked for by that id"
    if not request.answers:
        return "it cannot be read, or is about another call than the one that was asked about"
    return "the call has run already" if request.state == "answered" else None


def _is_conflicting(request: CallRecord) -> bool:
    """Whether an id stands for two different calls, or the call is another one than its record says."""
    noted: Any = (request.event.actions.agent_state or {}).get(PENDING) or {}
    changed = request.id in noted and noted[request.id].get("hash") != _hash_of(request)
    return changed or stands_for_two(request, _hash_of)


def stands_for_two(request: CallRecord, said: Callable[[CallRecord], Any]) -> bool:
    """Whether the id of a request stands for two different ones of the same agent, by what is `said` in each; None for
    one that does not count."""
    before, own = request.before, said(request)
    while before is not None:
        other = said(before) if before.is_request and before.author == request.author else None
        if other is not None and other != own:
            return True
        before = before.before
    return False


def _hash_of(request: CallRecord) -> str | None:
    call = _asked_about(request)
    return None if call is None else call_hash(call)


def _asked_about(request: CallRecord) -> types.FunctionCall | None:
    """The call that a request is about."""
    return read_call((request.call.args or {}).get("originalFunctionCall"))


def _take(
    item: Decided, request: types.FunctionCall, subject: types.FunctionCall, answer: types.FunctionResponse
) -> None:
    """Add one answer to what is known about a call."""
    if request.name == CONFIRMATION_CALL:
        item.confirmation = read_decision(answer)
        edited = item.confirmation.edited_args
        if edited is not None and item.confirmation.confirmed:
            item.call = types.FunctionCall(id=subject.id, name=subject.name, args=edited)
        return
    args = request.args or {}
    asked = InputRequest(
        message=args.get("message") or "", payload=args.get("payload"), response_schema=args.get("response_schema")
    )
    value = read_input(answer)
    if asked.response_schema:
        try:
            value = OutputSchema(asked.response_schema).validate(value)
        except ToolArgumentsError as error:
            item.question = asked.message if item.question is None else item.question
            item.misfit = asked.model_copy(update={"message": f"{item.question}\n{error}"})
            return
        except ConfigurationError as error:  # of a log that was made elsewhere: requests are checked when made
            _log.warning("The answer to `%s` is taken as it is: %s", request.id, error)
    item.misfit = item.question = None
    item.inputs.append(value)


def read_call(data: Any) -> types.FunctionCall | None:
    """The call in a request's `originalFunctionCall`; None if there is none."""
    if isinstance(data, types.FunctionCall):
        return data
    try:
        original = types.FunctionCall.model_validate(data)
    except ValueError:
        return None
    return original if original.id and original.name else None
