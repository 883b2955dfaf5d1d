"""Resuming: the stack of turns as an earlier run of the invocation has left it (decision 28)."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.progress import Progress, at_place, path_of
from flowloom.events.event import Event
from flowloom.events.requests import looks_like_request
from flowloom.flow.handover import place_of_target
from flowloom.flow.turn import AGAIN, Turn, TurnOf
from flowloom.log.answers import subjects_of


def stack_of(ctx: InvocationContext, task: types.FunctionCall | None = None, bare: TurnOf | None = None) -> list[Turn]:
    """The turn of `ctx.agent`, and on top of it those of the agents that it had handed over to.

    `task` is the call that delegates to the agent; `bare` makes its turn, if that is its work alone. A runner begins at
    the agent that was answered, with no turn on top: control was never with another agent since (spec §18.6). Otherwise
    every handover since the user's message stands for one more turn, until an agent below speaks again; in a member of
    a workflow, a task and an agent tool those before it do too.
    """
    turn: Turn = (bare or ctx.agent.turn)(ctx)
    turn.bare, turn.task = bare is not None, task
    progress = ctx.run.progress
    if not ctx.resumed or progress is None:
        return [turn]
    handovers = _Handovers(turn)
    answered_here = not (ctx.node_path or ctx.path_prefix or task)
    if progress.interrupted or not answered_here:
        handovers.follow(progress, progress.message_at if answered_here else None)
        handovers.go_back(progress.left if progress.interrupted else progress.answered)
    for each, start in handovers.turns:
        each.restore(progress, start)
        for choose in ctx.run.models:
            each.ctx.model = choose(each.ctx) or each.ctx.model
    stack = [each for each, _ in handovers.turns]
    for each in stack[:-1]:  # those that handed over wait for the ones above them
        each.begun, each.outcome, each.already_ended = True, AGAIN, False
    return stack


class _Handovers:
    """Who has control, from event to event of an invocation, from the turn of one agent on."""

    def __init__(self, first: Turn) -> None:
        self._ctx = first.ctx
        self.turns: list[tuple[Turn, int]] = [(first, 0)]
        """The turns under way, each with where in the log it has begun; the last one has control."""
        self._at_call: dict[str, list[tuple[Turn, int]]] = {}
        """Those that were under way when a call was made."""

    def follow(self, progress: Progress, begun_at: int | None) -> None:
        """Read the events of the invocation. With the message at `begun_at`, the runner has begun at the first turn."""
        for index, event in enumerate(progress.events):
            if event.author != "user":
                self._read(index, event)
            elif index == begun_at:
                del self.turns[1:]
            else:
                self.go_back(progress.answered_by(event.content))

    def go_back(self, answered: Collection[Any]) -> None:
        """A call is answered: control is with the turns that were under way when the first such call was made."""
        turns = next((turns for call_id, turns in self._at_call.items() if call_id in answered), None)
        if turns is not None:
            self.turns = turns.copy()

    def _read(self, index: int, event: Event) -> None:
        depth = self._depth_of(event)
        if depth is None:  # what comes of a call belongs to the turn that made it
            self.go_back({*(answer.id for answer in event.get_function_responses()), *subjects_of(event)})
            depth = self._depth_of(event)
        if depth is None:
            return
        calls = event.get_function_calls()
        for call in calls:
            self._at_call[call.id or ""] = self.turns[: depth + 1]
        if any(looks_like_request(event, call) for call in calls):
            return  # people are asked what its tools want to know: that gives control to no agent
        del self.turns[depth + 1 :]
        target, ctx = event.actions.transfer_to_agent, self.turns[-1][0].ctx
        if target is not None and ctx.llm_agent is not None and at_place(event, self._ctx):
            place = place_of_target(ctx, target)
            place.resumed = True
            self.turns.append((place.agent.turn(place), index + 1))

    def _depth_of(self, event: Event) -> int | None:
        """Whose turn an event belongs to; what a workflow's members say belongs to the workflow's."""
        name, ctx = event.author, self._ctx
        if not at_place(event, ctx):
            path, above = path_of(event), f"{ctx.node_path}/" if ctx.node_path else ""
            if event.isolation_scope != ctx.isolation_scope or not path.startswith(above):
                return None
            name = path.removeprefix(above).partition("@")[0]
        return next((i for i in reversed(range(len(self.turns))) if self.turns[i][0].agent.name == name), None)
