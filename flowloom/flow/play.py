"""`play`: the loop over turns, with an explicit stack (spec §1, §2, decision 6).

Entering another agent's turn is a push, so that a thousand transfers do not deepen Python's stack; what a user sees is
as if the turns were nested. A streamed chunk passes through the model's generator, `LlmTurn.step`, `play` and the
runner, and nothing else.
"""

from __future__ import annotations

from itertools import chain

from flowloom.context import InvocationContext
from flowloom.context.run import Run
from flowloom.flow.ending import finish_failed_run, finish_run
from flowloom.flow.resume import stack_of
from flowloom.flow.turn import AGAIN, Enter, Events, Turn, TurnOf
from flowloom.telemetry import recorder


def run_agent(ctx: InvocationContext, bare: TurnOf | None = None) -> Events:
    """Run `ctx.agent` and all agents it hands over to, with their callbacks; its own work alone, in the turn that
    `bare` makes, if that is given."""
    if not ctx.recorded:
        return _record_all(ctx, bare)
    return play(ctx.run, stack_of(ctx, bare=bare))


async def play(run: Run, stack: list[Turn]) -> Events:
    """Play turns until the first one is over or waits, or the run is stopped."""
    spans = None if run.rehearsal else recorder()
    error: BaseException | None = None
    try:
        while stack:
            turn = stack[-1]
            if turn.outcome is AGAIN:
                run.stopped = run.stopped or run.stop
                if run.stopped:  # paused, cancelled, or at its limit
                    break
                turn.start_span(spans)
                if not turn.begun:
                    for event in await turn.begin():
                        yield event
                    continue
                events = turn.step(spans)
                try:
                    async for event in events:
                        yield event
                finally:
                    await events.aclose()
            elif isinstance(turn.outcome, Enter):
                entered, turn.outcome = turn.outcome, AGAIN
                stack += stack_of(entered.ctx, entered.task)
            else:  # control goes back to the turn below (spec §1.6, decision 27)
                ended = await turn.end()
                stack.pop()
                for event in chain(ended, stack[-1].returned(turn) if stack else ()):
                    yield event
    except BaseException as raised:
        error = raised
        if stack:
            run.note_failure(error, stack[-1].ctx)
        raise
    finally:
        for turn in reversed(stack):
            turn.close(error)


async def _record_all(ctx: InvocationContext, bare: TurnOf | None) -> Events:
    """The events of `run_agent`, stored in the session: no runner around it stores them."""
    ctx = ctx.model_copy(update={"recorded": True})
    events = run_agent(ctx, bare)
    whole = False
    try:
        async for event in events:
            yield await ctx.run.record(ctx, event)
        whole = True
    except Exception as error:
        for event in await finish_failed_run(ctx, error):
            yield event
        raise
    finally:
        await finish_run(ctx, events, whole=whole)
