"""The tool calls of a run, and what a person is asked, as typed events."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, cast

from google.genai import types
from pydantic_core import to_jsonable_python

from flowloom.auth.fields import is_secret_field
from flowloom.events.event import Event
from flowloom.events.requests import RESERVED_CALLS, RequestKind
from flowloom.log.answers import answers_request
from flowloom.models.server_parts import ServerRun
from flowloom.run_stream.agents import Out, Speaker, UniqueIds
from flowloom.run_stream.records import (
    ConfirmationRequested,
    CredentialRequested,
    InputRequested,
    RequestAnswered,
    ToolCallArgumentsCompleted,
    ToolCallArgumentsDelta,
    ToolCallFinished,
    ToolCallProgress,
    ToolCallStarted,
)

HIDDEN_CALLS = frozenset({"transfer_to_agent", "set_model_response"})
"""Calls that are shown as what follows from them: a transfer, a message."""

DROPPED = "The call was not part of the complete answer, so it was not executed."
UNFINISHED = "The run ended before this call gave a result."


class Call:
    """A tool call that was shown."""

    __slots__ = (
        "args",
        "finished",
        "id",
        "long_running",
        "name",
        "parent",
        "provider",
        "ready",
        "run",
        "signature",
        "waiting",
    )

    def __init__(self, call_id: str, name: str, parent: str | None, long_running: bool, run: int) -> None:
        self.id = call_id
        self.name = name
        self.parent = parent
        """The call that its agent runs for."""
        self.long_running = long_running
        self.run = run
        """The run that it was made in."""
        self.provider = False
        """Whether the provider of the model runs it."""
        self.args: dict[str, Any] | None = None
        """The arguments, if they came as a whole."""
        self.signature: str | None = None
        self.ready = False
        """Whether the complete call is known."""
        self.waiting = False
        """Whether it waits for a person, and may be answered by a later run."""
        self.finished = False


class ToolCalls:
    """All calls of a stream by id. One id is one call: it starts once and finishes once."""

    __slots__ = ("_asked", "_calls", "_ids", "_open", "_requests", "run")

    def __init__(self) -> None:
        self._calls: dict[str, Call] = {}
        self._open: dict[str, Call] = {}
        self._asked: dict[str, int] = {}
        self._requests: dict[str, types.FunctionCall] = {}
        """What people were asked, and have not answered."""
        self._ids = UniqueIds()
        self.run = 0
        """The number of the current run."""

    # -- calls -------------------------------------------------------------------------------------

    def take_piece(self, call: types.FunctionCall, speaker: Speaker, event: Event, calls: list[Call], out: Out) -> None:
        """A call, or a piece of it, in a partial event. One without an id is shown when it is complete."""
        if not call.id or (call.name in HIDDEN_CALLS or call.name in RESERVED_CALLS):
            return
        known = self._calls.get(call.id)
        if known is None:
            if not call.name:
                return
            known = self._start(call.id, call.name, speaker, event, out)
            calls.append(known)
            if call.args is not None and not call.partial_args and not call.will_continue:
                known.args = call.args
        elif known.ready or known.finished:
            return
        for piece in call.partial_args or ():
            value: str | float | bool | None = piece.string_value
            if value is None:
                value = piece.number_value if piece.number_value is not None else piece.bool_value
            out.append(ToolCallArgumentsDelta(known.id, piece.json_path or "$", value))

    def take_whole(self, call: types.FunctionCall, speaker: Speaker, event: Event, out: Out) -> Call | None:
        """A complete call; returns it if it was not complete before."""
        call_id = call.id or self._ids.give(f"{event.id}:call")
        known = self._calls.get(call_id)
        if known is None:
            known = self._start(call_id, call.name or "", speaker, event, out)
        elif known.ready or known.finished:
            return None
        known.args = call.args or {}
        known.long_running = known.long_running or _is_long_running(event, call_id)
        return known

    def take_server_run(self, run: ServerRun, speaker: Speaker, event: Event, out: Out) -> None:
        """A call that the provider makes, or what came of it. One without an id is shown when it is complete."""
        known = self._calls.get(run.id) if run.id else self._oldest(run.name)
        if known is None:
            if event.partial and not run.id:
                return
            call_id = run.id or self._ids.give(f"{event.id}:call")
            known = self._start(call_id, run.name, speaker, event, out, provider=True)
        if known.finished or not known.provider:
            return
        if run.args is not None:
            known.args = run.args
            self.complete(known, out)
        if run.result is not None:
            self._finish(known, run.result, _error_in(run.result), out)

    def complete(self, call: Call, out: Out) -> None:
        """The arguments of a call are known."""
        if not call.ready and call.args is not None:
            out.append(ToolCallArgumentsCompleted(call.id, call.name, call.args, call.signature))
        call.ready = True

    def drop(self, calls: list[Call], out: Out) -> None:
        """Finish those calls that were streamed and never completed."""
        for call in calls:
            if not call.ready and not call.finished:
                self._finish(call, None, DROPPED, out)

    def expect_answers(self, answers: list[types.FunctionResponse], out: Out) -> None:
        """Calls that are answered are complete, whatever was seen of them."""
        for answer in answers:
            call = self._calls.get(answer.id or "")
            if call is not None and not call.finished:
                self.complete(call, out)

    def take_answer(
        self, answer: types.FunctionResponse, speaker: Speaker, event: Event, out: Out
    ) -> tuple[Call, dict[str, Any], str | None] | None:
        """A result of a tool. Returns the call with its result and error if that ends it; see `finish`."""
        if answer.name in HIDDEN_CALLS:
            return None
        kind = RESERVED_CALLS.get(answer.name)
        if kind is not None and event.author == "user":
            return self._take_decision(answer, kind, out)
        call = self._calls.get(answer.id) if answer.id else self._oldest(answer.name)
        actions = event.actions
        if answer.id in actions.requested_tool_confirmations or answer.id in actions.requested_auth_configs:
            if call is not None:  # a placeholder: a person is asked first
                call.waiting = True
            return None
        if call is None:
            call_id = answer.id or self._ids.give(f"{event.id}:call")
            call = self._start(call_id, answer.name or "", speaker, event, out)
            call.ready = True
        elif call.finished:
            return None
        result = answer.response or {}
        error = _error_in(result)
        if answer.will_continue or (call.long_running and speaker[0] != "user" and error is None):
            out.append(ToolCallProgress(call.id, call.name, result))
            return None
        return call, result, error

    def take_progress(self, told: Any, out: Out) -> None:
        """How far a call is that has no result yet."""
        given = cast(dict[str, Any], told) if isinstance(told, dict) else {}
        call = self._calls.get(given.get("call_id", ""))
        if call is not None and not call.finished:
            result = {name: given[name] for name in ("progress", "total", "message") if given.get(name) is not None}
            out.append(ToolCallProgress(call.id, call.name, result))

    def finish_inner(self, call: Call, out: Out) -> None:
        """Finish the calls of the agent that ran for a call: nothing more will be told of them."""
        found = [call]
        for outer in found:  # grows meanwhile
            found += [each for each in self._open.values() if each.parent == outer.id and each not in found]
        for each in reversed(found[1:]):
            self._finish(each, None, None, out)

    def finish(self, found: tuple[Call, dict[str, Any], str | None], out: Out) -> None:
        """Finish a call that `take_answer` has given."""
        call, result, error = found
        self._finish(call, result, error, out)

    def end(self, paused: bool, out: Out) -> None:
        """The run is over. What waits stays open if the run only pauses; what is left has no result."""
        for call in list(self._open.values()):
            if not call.ready:
                self._finish(call, None, DROPPED, out)
            elif paused:
                call.waiting = True
            elif not call.waiting and not call.long_running:
                self._finish(call, None, UNFINISHED, out)

    def wait(self) -> bool:
        """Whether something of the current run waits for a result or an answer."""
        run = self.run
        return any(run == asked for asked in self._asked.values()) or any(
            call.ready and not call.provider and call.run == run for call in self._open.values()
        )

    def _start(
        self, call_id: str, name: str, speaker: Speaker, event: Event, out: Out, *, provider: bool = False
    ) -> Call:
        agent, branch, _, parent = speaker
        call = Call(call_id, name, parent, _is_long_running(event, call_id), self.run)
        call.provider = provider
        self._calls[call_id] = self._open[call_id] = call
        out.append(ToolCallStarted(call_id, name, agent, call.long_running, branch, parent, provider))
        return call

    def _finish(self, call: Call, result: dict[str, Any] | None, error: str | None, out: Out) -> None:
        call.finished = True
        call.args = None
        self._open.pop(call.id, None)
        out.append(ToolCallFinished(call.id, call.name, result, error, call.provider))

    def _oldest(self, name: str | None) -> Call | None:
        """The call that an answer without an id is for."""
        return next((call for call in self._open.values() if call.name == name), None)

    # -- requests ----------------------------------------------------------------------------------

    def ask(self, call: types.FunctionCall, speaker: Speaker, event: Event, out: Out) -> None:
        """A person is asked for something, by a call of an `adk_request_…` function."""
        agent, branch, _, parent = speaker
        request_id = call.id or self._ids.give(f"{event.id}:call")
        if request_id in self._asked:
            return
        self._asked[request_id], self._requests[request_id] = self.run, call
        args = call.args or {}
        kind = RESERVED_CALLS[call.name]
        if kind == "confirmation":
            original = _object(_value(args, "originalFunctionCall"))
            decision = _object(_value(args, "toolConfirmation"))
            out.append(
                ConfirmationRequested(
                    request_id,
                    _text(original.get("id")),
                    _text(original.get("name")),
                    _object(original.get("args")),
                    _text(decision.get("hint")),
                    agent,
                    decision.get("payload"),
                    branch,
                    parent,
                )
            )
        elif kind == "input":
            schema, payload = _value(args, "responseSchema"), args.get("payload")
            out.append(
                InputRequested(request_id, _text(args.get("message")), agent, schema, payload, branch, parent),
            )
        else:
            config = _object(_without_secrets(_plain(_value(args, "authConfig"))))
            about = _text(_value(args, "functionCallId"))
            out.append(CredentialRequested(request_id, about, agent, config, _auth_uri(config), branch, parent))

    def _take_decision(self, answer: types.FunctionResponse, kind: RequestKind, out: Out) -> None:
        if not answer.id or self._asked.get(answer.id) == -1:
            return
        request = self._requests.get(answer.id) or types.FunctionCall(name=answer.name)
        if not answers_request(answer, request):  # no reader of the log takes it for a decision
            return
        self._asked[answer.id] = -1
        self._requests.pop(answer.id, None)
        out.append(RequestAnswered(answer.id, kind, None if kind == "credential" else answer.response))


def _is_long_running(event: Event, call_id: str) -> bool:
    ids = event.long_running_tool_ids
    return bool(ids) and call_id in ids


def _error_in(result: Mapping[str, Any]) -> str | None:
    told = result.get("error")
    return (told if isinstance(told, str) else repr(told)) if told else None


def _text(value: Any) -> str:
    return value if isinstance(value, str) else "" if value is None else str(value)


def _value(data: Mapping[str, Any], name: str) -> Any:
    """A value under its camelCase name, or the same in snake_case."""
    if name in data:
        return data[name]
    return data.get("".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in name))


def _plain(value: Any) -> Any:
    try:
        return to_jsonable_python(value, by_alias=True, exclude_none=True, bytes_mode="base64", fallback=repr)
    except ValueError:  # circular, or text that is no Unicode
        return None


def _object(value: Any) -> dict[str, Any]:
    """A value of a request as a dict: clients may have made it of their own types."""
    plain: Any = cast(Any, value) if isinstance(value, dict) else _plain(value)
    return cast(dict[str, Any], plain) if isinstance(plain, dict) else {}


def _without_secrets(value: Any) -> Any:
    if isinstance(value, list):
        return [_without_secrets(each) for each in cast(list[Any], value)]
    if not isinstance(value, dict):
        return value
    return {
        key: _without_secrets(each) for key, each in cast(dict[str, Any], value).items() if not is_secret_field(key)
    }


def _auth_uri(config: dict[str, Any]) -> str | None:
    """Where a person gives consent, if the flow has such a place."""
    credential = _object(_value(config, "exchangedAuthCredential"))
    uri = _value(_object(credential.get("oauth2")), "authUri")
    return uri if isinstance(uri, str) else None
