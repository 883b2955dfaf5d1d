"""The confirmation processor: running the tool calls that people have decided about, and those that were cut off
(spec §7, decision 28)."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Mapping, Sequence

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.events.actions import ToolConfirmation
from flowloom.events.event import Event
from flowloom.events.parts import content_of, response_part, text_part
from flowloom.models.request import LlmRequest
from flowloom.processors.unfinished import Unfinished, after_results, made_again, run_again, unfinished_calls
from flowloom.tools.calls import CallResults
from flowloom.tools.input_request import request_of
from flowloom.tools.pending import Decided, decided_calls


def confirmation(ctx: InvocationContext, request: LlmRequest) -> AsyncGenerator[Event, None] | None:
    """Run the tool calls that the user's message approves, rejects or gives input for, and those that were cut off.

    Reads: the session's events back to what was asked; `ctx.tools`; the progress of a run that is resumed.
    Writes: events: the tools' results, and what follows from them (another request, a final answer).
    Must come after: tools; before contents, which shows the results.

    Only requests that this agent made count; one id that stands for two different calls is never run.
    """
    at, events = ctx.run.answering_message(), ctx.session.events
    decided: list[Decided] = []
    if at is not None and ctx.once(events[at].id):  # what earlier messages have decided may be left
        decided = decided_calls(ctx.run.ledger, events[at], ctx.place)
    unfinished = unfinished_calls(ctx) if ctx.resumed and ctx.once("unfinished calls") else None
    return _resume(ctx, decided, unfinished) if decided or unfinished else None


async def _resume(
    ctx: InvocationContext, decided: Sequence[Decided], unfinished: Unfinished | None
) -> AsyncGenerator[Event, None]:
    asked_again = [(item.call, item.misfit) for item in decided if item.misfit is not None]
    run_now = [item for item in decided if item.misfit is None]
    decisions = {item.call.id or "": item.confirmation for item in run_now if item.confirmation is not None}
    ctx.run.inputs = (ctx.run.inputs or {}) | {item.call.id or "": item.inputs for item in run_now}
    interrupted = ctx.run.progress is not None and not ctx.run.progress.fresh
    again = made_again(ctx, [item.call for item in run_now if interrupted or item.earlier])
    twice = {call.id for call in again.calls}
    again.calls = [c.call for c in run_now if c.call.id in twice or not (interrupted or c.earlier)]
    for event in again.events:
        yield event
    if again.calls:
        async for event in _run(ctx, again.calls, decisions, decided=True):
            yield event
    if unfinished is not None:
        for event in unfinished.events:
            yield event
        if unfinished.calls:
            async for event in _run(ctx, unfinished.calls, {}):
                yield event
    if asked_again:
        yield request_of(ctx, asked_again)


async def _run(
    ctx: InvocationContext,
    calls: Sequence[types.FunctionCall],
    decisions: dict[str, ToolConfirmation],
    *,
    decided: bool = False,
) -> AsyncGenerator[Event, None]:
    results = await run_again(ctx, calls, decisions)
    started = _started(ctx, calls, results) if decided else None
    if started is not None:
        yield started
    if results.event is not None:
        yield _with_changes(results.event, calls, decisions)
    for event in after_results(ctx, calls, results):
        yield event


def _started(ctx: InvocationContext, calls: Sequence[types.FunctionCall], results: CallResults) -> Event | None:
    """The event that tells of long-running calls which have begun now: the decision about them is carried out."""
    responses = results.event.get_function_responses() if results.event is not None else []
    answered = {answer.id for answer in responses}
    waiting = {event.isolation_scope for event in results.waiting} | ctx.run.waiting_calls.keys()
    begun = [c for c in calls if c.id not in answered and c.id not in waiting]
    if not begun:
        return None
    parts = [response_part(call.id, call.name, {"status": "pending"}) for call in begun]
    return ctx.new_event({"content": content_of("user", parts), "long_running_tool_ids": [call.id for call in begun]})


def _with_changes(
    results: Event, calls: Sequence[types.FunctionCall], decisions: Mapping[str, ToolConfirmation]
) -> Event:
    """The results, and beside them what people have changed: the model knows only what it asked for itself."""
    texts = [
        f"A person changed the arguments of `{call.name}` before it ran. It was called with "
        f"{json.dumps(call.args, ensure_ascii=False)}."
        for call in calls
        if (decision := decisions.get(call.id or "")) is not None
        and decision.confirmed
        and decision.edited_args is not None
    ]
    if texts and results.content is not None:
        results.content = content_of("user", [*(results.content.parts or ()), *map(text_part, texts)])
    return results
