"""The confirmation processor: running the tool calls that a person has decided about (spec §7)."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Mapping, Sequence
from typing import Any, cast

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.run import OpenCall
from flowloom.errors import HistoryError
from flowloom.events.actions import ToolConfirmation
from flowloom.events.event import Event
from flowloom.models.request import LlmRequest
from flowloom.processors.agent_transfer import transfer_problem
from flowloom.tools.calls import run_calls
from flowloom.tools.confirmation import CONFIRMATION_CALL, follow_ups


def confirmation(ctx: InvocationContext, request: LlmRequest) -> Awaitable[list[Event]] | None:
    """Run the tool calls that the user's message approves or rejects, in the order asked.

    Reads: the session's events back to the request for confirmation; `ctx.tools`.
    Writes: events: the tools' results, and what follows from them (another request, a final answer).
    Must come after: tools; before contents, which shows the results.

    Only requests that this agent made count; one id that stands for two different calls is never run.
    """
    agent = ctx.llm_agent
    if agent is None:
        return None
    events = ctx.session.events
    at = _latest_message(events)
    if at is None or not any(_answers(part) for part in _parts(events[at])):
        return None
    mark = (ctx.path, events[at].id)
    if mark in ctx.run.handled_messages:
        return None
    ctx.run.handled_messages.add(mark)
    decisions = _decisions(events[at])
    pending = _pending(events, at, agent.name, decisions)
    return _resume(ctx, pending) if pending else None


def _parts(event: Event) -> Sequence[types.Part]:
    return (event.content.parts if event.content is not None else None) or ()


def _answers(part: types.Part) -> bool:
    return part.function_response is not None and part.function_response.name == CONFIRMATION_CALL


def _latest_message(events: Sequence[Event]) -> int | None:
    for index in range(len(events) - 1, -1, -1):
        if events[index].author == "user":
            return index
    return None


def _decisions(event: Event) -> dict[str, ToolConfirmation]:
    """The decisions in a message, by the id of the request. Raises `HistoryError` for one that cannot be read."""
    found: dict[str, ToolConfirmation] = {}
    for part in _parts(event):
        answer = part.function_response
        if answer is None or answer.name != CONFIRMATION_CALL or not answer.id:
            continue
        found[answer.id] = _read_decision(event, answer.response)
    return found


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


def _pending(
    events: Sequence[Event], at: int, agent: str, decisions: Mapping[str, ToolConfirmation]
) -> list[tuple[types.FunctionCall, ToolConfirmation]]:
    """The decided calls that have not run, in the order they were asked for (spec §7.5 to §7.8)."""
    asked: dict[str, types.FunctionCall] = {}
    conflicting: set[str] = set()
    answered: set[str] = {r.id for event in events[at:] for r in event.get_function_responses() if r.id}
    run_before: set[str] = set()
    for index in range(at - 1, -1, -1):
        event = events[index]
        if event.author != agent:
            continue
        answered.update(response.id for response in event.get_function_responses() if response.id)
        for part in reversed(_parts(event)):
            call = part.function_call
            if call is None or call.name != CONFIRMATION_CALL or not call.id or call.id not in decisions:
                continue
            original = _original(call)
            if original is None:
                continue
            before = asked.get(call.id)
            if before is not None and _canonical(before) != _canonical(original):
                conflicting.add(call.id)
            asked[call.id] = original
            if original.id in answered:  # after this request, so by its own run
                run_before.add(call.id)
    pending: dict[str, tuple[types.FunctionCall, ToolConfirmation]] = {}
    for request_id in reversed(asked):
        original = asked[request_id]
        if request_id in conflicting or request_id in run_before:
            continue
        pending[original.id or ""] = (original, decisions[request_id])
    return list(pending.values())


def _original(call: types.FunctionCall) -> types.FunctionCall | None:
    data = (call.args or {}).get("originalFunctionCall")
    if isinstance(data, types.FunctionCall):
        return data
    try:
        original = types.FunctionCall.model_validate(data)
    except ValueError:
        return None
    return original if original.id and original.name else None


def _canonical(call: types.FunctionCall) -> str:
    return json.dumps([call.id, call.name, call.args], sort_keys=True, default=str)


async def _resume(ctx: InvocationContext, pending: list[tuple[types.FunctionCall, ToolConfirmation]]) -> list[Event]:
    calls = [call for call, _ in pending]
    for call in calls:  # until their results are recorded, so that an interrupted one is not run a second time
        call_id = call.id or ""
        ctx.run.open_calls[call_id] = OpenCall(
            call_id, call.name or "", ctx.agent.name, ctx.branch, ctx.isolation_scope
        )
    tools = {tool.name: tool for tool in ctx.tools or ()}
    decisions = {call.id or "": decision for call, decision in pending}
    results = await run_calls(ctx, calls, tools, decisions, transfer_problem)
    if results.error is not None:
        raise results.error
    if results.event is None:
        return []
    return [results.event, *follow_ups(ctx, [types.Part(function_call=call) for call in calls], results.event)]
