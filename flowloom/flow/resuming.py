"""Taking up a turn where an earlier run of its invocation left it (decision 28)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.progress import at_place, path_of
from flowloom.events.event import Event
from flowloom.events.requests import looks_like_request
from flowloom.flow.frame import Frame
from flowloom.log.answers import subjects_of

if TYPE_CHECKING:
    from flowloom.flow.flow import Flow


def frames_of(ctx: InvocationContext, flow: Flow | None = None, task: types.FunctionCall | None = None) -> list[Frame]:
    """The turn of `ctx.agent`, and on top of it those of the agents that it had handed over to.

    Whom a runner gave an answer has no one below it: control was never with anybody else since (spec §18.6). Otherwise
    every handover since the user's message stands for one more turn, until an agent further down speaks again; in a
    member of a workflow, a task and an agent tool those before it do too.
    """
    stack = [Frame(ctx, flow=flow, task=task)]
    progress = ctx.run.progress
    if not ctx.taken_up or progress is None:
        return stack
    begun = [0]  # where in the log each turn has begun
    turns: dict[str, tuple[list[Frame], list[int]]] = {}  # those under way when a call was made
    placed = not (ctx.node_path or ctx.path_prefix or task)  # a runner begins at the agent that was answered
    if progress.interrupted or not placed:
        events = progress.since_message() if placed else enumerate(progress.events)
        for index, event in events:
            if event.author == "user":
                stack, begun = _answered_turns(turns, progress.answered_by(event.content)) or (stack, begun)
            depth, calls = _depth_of(event, ctx, stack), event.get_function_calls()
            if depth is None and event.author != "user":  # what comes of a call belongs to the turn that made it
                ids = {*(answer.id for answer in event.get_function_responses()), *subjects_of(event)}
                stack, begun = _answered_turns(turns, ids) or (stack, begun)
                depth = _depth_of(event, ctx, stack)
            if depth is None:
                continue
            for call in calls:
                turns[call.id or ""] = stack[: depth + 1], begun[: depth + 1]
            if any(looks_like_request(event, call) for call in calls):
                continue  # people are asked what its tools want to know: nobody has got control by that
            del stack[depth + 1 :], begun[depth + 1 :]
            target = event.actions.transfer_to_agent
            if target is not None and at_place(event, ctx):
                place = stack[-1].target(target)
                place.taken_up = True
                stack.append(Frame(place))
                begun.append(index + 1)
        answered = progress.left if progress.interrupted else progress.answered
        stack, begun = _answered_turns(turns, answered) or (stack, begun)
    for frame, start in zip(stack, begun, strict=True):
        frame.take_up(progress, start)
    for frame in stack[:-1]:  # those that handed over wait for the ones above them
        frame.begun, frame.finished, frame.silent = True, False, False
    return stack


def _answered_turns(
    turns: dict[str, tuple[list[Frame], list[int]]], answered: set[Any]
) -> tuple[list[Frame], list[int]] | None:
    """The turns that were under way when the first of the calls that are answered was made."""
    return next(((stack[:], begun[:]) for call_id, (stack, begun) in turns.items() if call_id in answered), None)


def _depth_of(event: Event, ctx: InvocationContext, stack: list[Frame]) -> int | None:
    """Whose turn an event belongs to, of those on the stack; what a workflow's members say is the turn on top of it."""
    if event.author == "user":
        return None
    if at_place(event, ctx):
        return next((i for i in reversed(range(len(stack))) if stack[i].agent.name == event.author), None)
    path, above = path_of(event), f"{ctx.node_path}/" if ctx.node_path else ""
    if event.isolation_scope != ctx.isolation_scope or not path.startswith(above):
        return None
    workflow = path.removeprefix(above).partition("@")[0]
    return next((i for i in reversed(range(len(stack))) if stack[i].agent.name == workflow), None)
