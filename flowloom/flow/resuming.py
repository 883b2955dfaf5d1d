"""Taking up a turn where an earlier run of its invocation left it: the stack of agents, as the log tells (decision 28)."""

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

    Who answered a message has no one below it: control was never with anybody else since (spec §18.6). Otherwise every
    handover since the user's message stands for one more turn, until an agent further down speaks again.
    """
    stack = [Frame(ctx, flow=flow, task=task)]
    progress = ctx.run.progress
    if not ctx.taken_up or progress is None:
        return stack
    if progress.interrupted:
        for event in progress.since_message():
            if event.author == "user" or not at_place(event, ctx):
                continue
            depth = next((i for i, frame in enumerate(stack) if frame.agent.name == event.author), None)
            if depth is None:
                continue
            del stack[depth + 1 :]
            target = event.actions.transfer_to_agent
            if target is not None:
                place = stack[-1].target(target)
                place.taken_up = True
                stack.append(Frame(place))
    for frame in stack:
        frame.take_up(progress)
    for frame in stack[:-1]:  # those that handed over wait for the ones above them
        frame.begun, frame.finished, frame.silent = True, False, False
    return stack
