"""`PendingCall`: what a run waits for, and the answers to it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterable
from dataclasses import dataclass, field
from inspect import isawaitable
from typing import Any, Literal

from google.genai import types

from flowloom.errors import CallbackError, InputValidationError
from flowloom.events import Event, ToolConfirmation
from flowloom.events.parts import as_object, response_part
from flowloom.events.requests import CONFIRMATION_CALL, CREDENTIAL_CALL, INPUT_CALL, RequestKind
from flowloom.events.wire import set_fields
from flowloom.log.answers import first_line, read_decision, unreadable
from flowloom.log.ledger import CallLedger, CallRecord
from flowloom.objects.given import events_given
from flowloom.runner.message import content_of_message
from flowloom.tools.pending import read_call

Kind = RequestKind | Literal["tool"]


@dataclass(slots=True)
class PendingCall:
    """A call that is pending for the user or a client: a request for a decision, input, or a result.

    `id` is what an answer names, `kind` what is waited for (`confirmation`, `input`, `credential`, or the result of a
    `tool`), `agent` the agent that asks. Of a confirmation, `name` and `args` are those of the call to decide about.
    The methods make the part that answers; several of them go into one message.

    `payload` is what the tool shows with its request, `response_schema` the JSON schema of an answer (None for any),
    `invocation_id` that of the run that waits.
    """

    id: str
    kind: Kind
    name: str
    args: dict[str, Any]
    agent: str
    message: str = ""
    """What the person is told."""
    payload: Any = None
    response_schema: dict[str, Any] | None = None
    invocation_id: str = ""
    raw: dict[str, Any] = field(default_factory=dict[str, Any])
    """The arguments of the waiting call itself."""

    def approve(self, *, edited_args: dict[str, Any] | None = None, payload: Any = None) -> types.Part:
        """Let the call run, with `edited_args` in place of its own if they are given; the tool finds `payload` in its
        `tool_confirmation`. Raises `InputValidationError` if it asks for
        something else."""
        self._check("confirmation")
        answer: dict[str, Any] = {"confirmed": True}
        if edited_args is not None:
            answer["editedArgs"] = edited_args
        if payload is not None:
            answer["payload"] = payload
        return response_part(self.id, CONFIRMATION_CALL, answer)

    def reject(self, reason: str | None = None) -> types.Part:
        """Do not let the call run; the model sees the `reason`. Raises `InputValidationError` if it asks for something
        else.
        """
        self._check("confirmation")
        answer: dict[str, Any] = {"confirmed": False}
        if reason:
            answer["reason"] = reason
        return response_part(self.id, CONFIRMATION_CALL, answer)

    def reply(self, value: Any) -> types.Part:
        """Give `value` as the input, or as the result of a tool. Raises `InputValidationError` if it asks for a
        decision."""
        if self.kind not in ("input", "tool"):
            raise InputValidationError(f"`{self.name}` waits for a {self.kind}, which `reply` cannot give.")
        name = INPUT_CALL if self.kind == "input" else self.name
        return response_part(self.id, name, {"result": value} if self.kind == "input" else as_object(value, "result"))

    @property
    def authorization_url(self) -> str | None:
        """The address where the user gives consent, if a credential is asked for that needs it."""
        return self._oauth2().get("authUri")

    def consent(self, response_url: str) -> types.Part:
        """Answer with `response_url`, the address that the user was sent to after consenting. Raises
        `InputValidationError` if it asks for something else."""
        self._check("credential")
        config: dict[str, Any] = dict(self.raw.get("authConfig") or {})
        given: dict[str, Any] = dict(config.get("exchangedAuthCredential") or {"authType": "oauth2"})
        given["oauth2"] = {**self._oauth2(), "authResponseUri": response_url}
        return response_part(self.id, CREDENTIAL_CALL, {**config, "exchangedAuthCredential": given})

    def _oauth2(self) -> dict[str, Any]:
        config: dict[str, Any] = self.raw.get("authConfig") or {}
        given: dict[str, Any] = config.get("exchangedAuthCredential") or {}
        found: dict[str, Any] = given.get("oauth2") or {}
        return found

    def _check(self, kind: Kind) -> None:
        if self.kind != kind:
            raise InputValidationError(f"`{self.name}` waits for {self.kind}, and not for a {kind}.")


Confirm = Callable[[PendingCall], "bool | ToolConfirmation | Awaitable[bool | ToolConfirmation | None] | None"]
"""Decides about a tool call in the process itself; None leaves it open."""


def pending_calls(events: Iterable[Event], invocation_id: str | None = None) -> list[PendingCall]:
    """The pending calls of the log `events`, in the order asked; of one invocation, if `invocation_id` names it.

    A call that was answered once waits no more, even if the answer was only a report of how far it is. One that was
    rewound does not either. Raises `InputValidationError` for what is no list of events, a session for one.
    """
    return pending_in(CallLedger.of(events_given(events, "pending_calls")), invocation_id)


def pending_in(ledger: CallLedger, invocation_id: str | None = None) -> list[PendingCall]:
    """The same for a log that a ledger has read."""
    return [_pending(made) for made in ledger.pending(invocation_id)]


def answers(*parts: types.Part) -> types.Content:
    """A message of answers: `parts` that the methods of `PendingCall` make, of any number of calls.

    Raises `InputValidationError` for what is no part.
    """
    return content_of_message(parts)


def _pending(made: CallRecord) -> PendingCall:
    args = made.call.args or {}
    kind: Kind = "tool" if made.kind == "client" else made.kind
    pending = PendingCall(made.id, kind, made.name, args, made.event.author, raw=args)
    pending.invocation_id = made.event.invocation_id
    if kind == "tool":
        return pending
    if (original := read_call(args.get("originalFunctionCall"))) is not None:
        pending.name, pending.args = original.name or "", original.args or {}
    asked: dict[str, Any] = (args.get("toolConfirmation") or {}) if kind == "confirmation" else args
    pending.message = str(asked.get("hint" if kind == "confirmation" else "message") or "")
    pending.payload, pending.response_schema = asked.get("payload"), asked.get("response_schema")
    return pending


async def decisions_of(confirm: Confirm, waiting: Iterable[PendingCall], decided: set[str]) -> types.Content | None:
    """The message of what `confirm` decides about calls that wait, and that it was not asked about; None for none."""
    parts: list[types.Part] = []
    for pending in waiting:
        if pending.kind != "confirmation" or pending.id in decided:
            continue
        decided.add(pending.id)
        answer: Any = confirm(pending)
        if isawaitable(answer):
            answer = await answer
        if isinstance(answer, ToolConfirmation):
            parts.append(_decision_part(pending.id, answer))
        elif isinstance(answer, bool):
            parts.append(response_part(pending.id, CONFIRMATION_CALL, {"confirmed": answer}))
        elif answer is not None:  # a text that says no would count as a yes
            raise CallbackError(
                f"The runner's `confirm` answered {type(answer).__name__} about the call of `{pending.name}`. It may "
                f"answer True, False, a ToolConfirmation, or None to leave it open."
            )
    return answers(*parts) if parts else None


def _decision_part(request_id: str, decision: ToolConfirmation) -> types.Part:
    """The part that answers a request with a decision. Raises `UnreadableAnswerError` if JSON cannot hold it."""
    part = response_part(request_id, CONFIRMATION_CALL, {})
    answer: types.FunctionResponse = part.function_response  # type: ignore[assignment]
    try:
        set_fields(answer, response=decision.to_wire())
    except ValueError as error:
        raise unreadable(answer, f"JSON cannot hold it ({first_line(error)})") from None
    read_decision(answer)
    return part
