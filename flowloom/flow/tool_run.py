"""`ToolRun`: the calls of an answer while they run, with the agents that run in them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.ending import all_of
from flowloom.context.protocols import RunnableTool
from flowloom.events.event import Event
from flowloom.events.parts import content_of, response_part
from flowloom.flow.delegation import delegated_context, is_single_turn
from flowloom.flow.handover import response_of_task
from flowloom.flow.outbox import Outbox, forwarding, put_events
from flowloom.flow.play import play
from flowloom.flow.resume import stack_of
from flowloom.flow.turn import AGAIN
from flowloom.processors.agent_transfer import transfer_problem
from flowloom.tools.calls import CallResults, run_calls
from flowloom.tools.progress_box import ProgressBox


class SingleTurns:
    """Runs the `single_turn` agents that one answer has called, at once (spec §17.9); their events go to `outbox`."""

    def __init__(self, ctx: InvocationContext) -> None:
        self._ctx = ctx
        self.outbox = Outbox()
        self.waiting: list[types.FunctionCall] = []
        """The calls whose agents wait: a later run answers them."""
        self.stopped = False
        """Whether the run was stopped in one of them."""

    async def run(self, call: types.FunctionCall, number: int) -> dict[str, Any] | None:
        """The response of the agent that a call is for, the call's `number` in its step; None if it waits, and for a
        `task` agent, whose turn comes after the calls."""
        if not is_single_turn(self._ctx.agent, call):
            return None
        place = delegated_context(self._ctx, call)
        place.path_prefix = self._ctx.inside_call(number).path_prefix
        stack = stack_of(place, call)
        turn = stack[0]
        await put_events(play(place.run, stack), self.outbox)
        if turn.outcome is AGAIN:
            self.stopped = True
            return None
        response = response_of_task(self._ctx, call, turn)
        if response is None:
            self.waiting.append(call)
        return response

    async def resume(self, calls: Sequence[types.FunctionCall]) -> Event | None:
        """Resume the agents of calls that a run before this one has left open: the event of their responses."""
        first = self._ctx.count_effects("tool", len(calls))
        given = await all_of([self.run(call, first + index) for index, call in enumerate(calls)])
        responses = zip(calls, given, strict=True)
        parts = [response_part(call.id, call.name, each) for call, each in responses if each is not None]
        return self._ctx.new_event({"content": content_of("user", parts)}) if parts else None


@dataclass(slots=True)
class ToolRun:
    """The run of an answer's calls."""

    results: Awaitable[CallResults]
    forwarded: AsyncGenerator[Event, None] | None = None
    """What agents say meanwhile, if that is seen; to be read to its end first."""
    single: SingleTurns | None = None
    """The `single_turn` agents that run in it."""


def tool_run(
    ctx: InvocationContext, calls: Sequence[types.FunctionCall], tools: Mapping[str, RunnableTool], *, delegates: bool
) -> ToolRun:
    """The run of the calls of an answer; what agents that run as tools say is seen if the run's config says so.

    `delegates` says whether the agent has sub-agents that are called like functions.
    """
    agent, forwards = ctx.agent, ctx.run.config.forward_agent_tool_events
    reports = False
    for call in calls:  # no generator: this is done for each answer with calls
        reports = reports or getattr(tools.get(call.name or ""), "reports_progress", False)
    if not forwards and not reports and not (delegates and any(is_single_turn(agent, call) for call in calls)):
        return ToolRun(run_calls(ctx, calls, tools, None, transfer_problem))
    single = SingleTurns(ctx)
    inner = ctx.model_copy(update={"delegate": single.run, "progress_box": ProgressBox(single.outbox)})
    inner.outbox = single.outbox if forwards else None
    return ToolRun(*forwarding(run_calls(inner, calls, tools, None, transfer_problem), single.outbox), single)
