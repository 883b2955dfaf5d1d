"""Taking up a turn where an earlier run of its invocation left it (decision 28)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.progress import at_place
from flowloom.flow.frame import Frame

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
    placed = not (ctx.node_path or ctx.path_prefix or task)  # a runner begins at the agent that was answered
    if progress.interrupted or not placed:
        for index, event in progress.since_message() if placed else enumerate(progress.events):
            if event.author == "user" or not at_place(event, ctx):
                continue
            depth = next((i for i in reversed(range(len(stack))) if stack[i].agent.name == event.author), None)
            if depth is None:
                continue
            del stack[depth + 1 :], begun[depth + 1 :]
            target = event.actions.transfer_to_agent
            if target is not None:
                place = stack[-1].target(target)
                place.taken_up = True
                stack.append(Frame(place))
                begun.append(index + 1)
    for frame, start in zip(stack, begun, strict=True):
        frame.take_up(progress, start)
    for frame in stack[:-1]:  # those that handed over wait for the ones above them
        frame.begun, frame.finished, frame.silent = True, False, False
    return stack
