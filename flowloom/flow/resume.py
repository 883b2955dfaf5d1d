"""Resuming: the stack of turns as an earlier run of the invocation has left it (decision 28)."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.progress import Progress, at_place, latest_said, path_of
from flowloom.events.event import Event
from flowloom.events.requests import looks_like_request
from flowloom.flow.delegation import ends_turn
from flowloom.flow.handover import place_of_target
from flowloom.flow.turn import OVER, WAITING, Turn, TurnOf
from flowloom.log.ledger import CallRecord
from flowloom.processors.unfinished import pending_follow_ups


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
    handovers = _Handovers(turn, progress)
    answered_here = not (ctx.node_path or ctx.path_prefix or task)
    if progress.interrupted or not answered_here:
        handovers.follow(progress.message_at if answered_here else None)
        handovers.go_back(progress.left if progress.interrupted else progress.answered)
    for each, start in handovers.turns:
        _restore(each, progress, start, on_top=each is handovers.turns[-1][0])
        for choose in ctx.run.models:
            each.ctx.model = choose(each.ctx) or each.ctx.model
    return [each for each, _ in handovers.turns]


def _restore(turn: Turn, progress: Progress, start: int, *, on_top: bool) -> None:
    """Have a turn, which begins at `start` in the log of the invocation, stand where that leaves it.

    One that is not `on_top` has handed over, and waits for those above it. The one that is begins anew if the log does
    not know it, or not how far it got, and if the user's answer resumes it.
    """
    before, after = progress.own(turn.ctx, start)
    turn.recall(progress, own := [*before, *after])
    inside = () if turn.tells_how_far else turn.inside(progress)
    said = [*own, *inside]
    ids = set(map(id, said))
    turn.last = next((event for event in reversed(progress.events) if id(event) in ids), None)
    if not on_top:
        turn.begun = True
        return
    known = own and (turn.tells_how_far or (turn.last is own[-1] and own[-1].is_final_response()))
    if known and not _is_answered(progress, after, said):
        _resume(turn, progress, own)


def _resume(turn: Turn, progress: Progress, own: Sequence[Event]) -> None:
    """Have a turn go on, wait or end, as its `own` events tell."""
    run, calls = turn.ctx.run, _calls_in(own)
    live = [made for made in run.ledger.live(run.invocation_id) if made.id in calls]
    ended, waits = bool(own[-1].actions.end_of_agent), any(made.waits for made in live)
    turn.begun = True
    if ended or not _has_work_left(turn, own, live):
        turn.outcome = WAITING if waits else OVER
        turn.bare = turn.bare or ended or waits or not progress.interrupted


def _is_answered(progress: Progress, after: Sequence[Event], said: Sequence[Event]) -> bool:
    """Whether the user answers a call in what was `said` in a turn, and it has not used that `after` the message:
    changes of state, and marks of calls that are about to be made again, come before."""
    used = latest_said(after) is not None or bool(after and after[-1].actions.end_of_agent)
    return not (progress.left if used else progress.left | progress.answered).isdisjoint(_calls_in(said))


def _has_work_left(turn: Turn, own: Sequence[Event], live: Sequence[CallRecord]) -> bool:
    """Whether a turn, whose events are its `own`, has anything to do in this run, now that these calls of it are not
    over."""
    run, said = turn.ctx.run, latest_said(own)
    later = any(made.id in run.answered_later for made in live)

    def can_go_on(made: CallRecord) -> bool:
        if made.suspended:
            return run.ledger.is_ready(made.id)
        if made.is_of_stopped_run:
            return made.event is said and (made.client_executed or not made.attempts) and not later
        return made.state == "open"

    if any(map(can_go_on, live)) or any(True for _ in pending_follow_ups(own)):
        return True
    return not any(made.suspended for made in live) and (said is None or not ends_turn(said))


def _calls_in(events: Sequence[Event]) -> set[str]:
    return {call.id or "" for event in events for call in event.get_function_calls()}


class _Handovers:
    """Who has control, from event to event of an invocation, from the turn of one agent on."""

    def __init__(self, first: Turn, progress: Progress) -> None:
        self._ctx, self._progress, self._handovers = first.ctx, progress, first.ctx.run.ledger.handovers
        self.turns: list[tuple[Turn, int]] = [(first, 0)]
        """The turns under way, each with where in the log it has begun; the last one has control."""
        self._at_call: dict[str, list[tuple[Turn, int]]] = {}
        """Those that were under way when a call was made."""

    def follow(self, begun_at: int | None) -> None:
        """Read the events of the invocation. With the message at `begun_at`, the runner has begun at the first turn."""
        for index, event in enumerate(self._progress.events):
            if index == begun_at:
                del self.turns[1:]
            if index != begun_at or event.id in self._handovers:  # the latest message may be the response of a task
                self._read(index, event)

    def go_back(self, answered: Collection[Any]) -> None:
        """A call is answered: control is with the turns that were under way when the first such call was made."""
        turns = next((turns for call_id, turns in self._at_call.items() if call_id in answered), None)
        if turns is not None:
            self.turns = turns.copy()

    def _read(self, index: int, event: Event) -> None:
        self.go_back(self._progress.answered_by(event.content))  # what answers a call belongs to the turn that made it
        depth = self._depth_of(event)
        if depth is None:
            return
        calls = event.get_function_calls()
        for call in calls:
            self._at_call[call.id or ""] = self.turns[: depth + 1]
        if any(looks_like_request(event, call) for call in calls):
            return  # people are asked what its tools want to know: that gives control to no agent
        del self.turns[depth + 1 :]
        target, ctx = self._handovers.get(event.id), self.turns[-1][0].ctx
        if target is not None and ctx.llm_agent is not None:
            place = place_of_target(ctx, target)
            place.resumed = True
            self.turns.append((place.agent.turn(place), index))

    def _depth_of(self, event: Event) -> int | None:
        """Whose turn an event belongs to; what a workflow's members say belongs to the workflow's."""
        ctx = self._ctx
        answered = map(ctx.run.ledger.call, (each.id for each in event.get_function_responses()))
        name = next((made.author for made in answered if made is not None), event.author)  # a task's is in the user's
        if not at_place(event, ctx):
            name = path_of(event).removeprefix(f"{ctx.node_path}/").partition("@")[0]
        return next((i for i in reversed(range(len(self.turns))) if self.turns[i][0].agent.name == name), None)
