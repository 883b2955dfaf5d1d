"""`play` knows turns, outcomes and the stack, and neither models nor tools (spec §1, decisions 6 and 22)."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import AsyncGenerator, Callable, Iterable
from contextlib import aclosing
from types import FrameType

import pytest
from kit import collect, context, said, story

from flowloom import BaseAgent, Event, InvocationContext
from flowloom.flow.play import play
from flowloom.flow.turn import AGAIN, OVER, WAITING, Enter, Turn
from flowloom.telemetry import Recorder

Step = Callable[["Scripted"], object]
"""What a turn does in a step; its result is the outcome."""


class Scripted(Turn):
    """A turn whose steps are functions; it writes down what happens to it."""

    def __init__(self, ctx: InvocationContext, steps: list[Step], log: list[str]) -> None:
        super().__init__(ctx)
        self.steps, self.log = steps, log

    async def step(self, spans: Recorder | None) -> AsyncGenerator[Event, None]:
        self.note_in_log("step")
        try:
            outcome = self.steps.pop(0)(self)
            yield self.note(self.ctx.new_event({"content": said(self.agent.name)}))
            if outcome is not None:
                self.outcome = outcome  # pyright: ignore[reportAttributeAccessIssue]
        finally:
            self.note_in_log("closed")

    def returned(self, below: Turn) -> Iterable[Event]:
        self.note_in_log(f"back from {below.agent.name}")
        return super().returned(below)

    async def end(self) -> list[Event]:
        self.note_in_log("end")
        return await super().end()

    def close(self, error: BaseException | None = None) -> None:
        self.note_in_log(f"left by {type(error).__name__}")

    def note_in_log(self, what: str) -> None:
        self.log.append(f"{self.agent.name}: {what}")


class Plays(BaseAgent):
    """An agent whose turn is given."""

    steps: list[Step]
    log: object

    def turn(self, ctx: InvocationContext) -> Turn:
        assert isinstance(self.log, list)
        return Scripted(ctx, [*self.steps], self.log)


def again(turn: Turn) -> object:
    return AGAIN


def over(turn: Turn) -> object:
    return OVER


def waiting(turn: Turn) -> object:
    return WAITING


def fails(turn: Turn) -> object:
    raise ValueError("down")


def enter(*steps: Step) -> Step:
    """Enter the turn of another agent, which takes these steps."""

    def to(turn: Scripted) -> object:
        return Enter(turn.ctx.below(Plays(name=f"{turn.agent.name}1", steps=list(steps), log=turn.log)))

    return to


def stack(*steps: Step) -> tuple[list[Turn], list[str]]:
    """A stack of one turn that takes these steps, and what is written down."""
    log: list[str] = []
    agent = Plays(name="a", steps=list(steps), log=log)
    return [agent.turn(context(agent))], log


def run(turns: list[Turn]) -> AsyncGenerator[Event, None]:
    return play(turns[0].ctx.run, turns)


async def test_a_turn_takes_steps_until_it_is_over() -> None:
    """Then it is ended, once, and leaves the stack."""
    turns, log = stack(again, again, over)
    assert story(await collect(run(turns))) == ["a: a", "a: a", "a: a"]
    assert log == ["a: step", "a: closed"] * 3 + ["a: end"]
    assert turns == []


async def test_a_turn_that_was_entered_comes_first() -> None:
    """When it is over, control goes back to the one below, which takes another step."""
    turns, log = stack(enter(over), over)
    assert story(await collect(run(turns))) == ["a: a", "a1: a1", "a: a"]
    assert [line for line in log if "closed" not in line] == [
        "a: step",
        "a1: step",
        "a1: end",
        "a: back from a1",
        "a: step",
        "a: end",
    ]


async def test_what_waits_ends_all_that_stands_below_it() -> None:
    """None of those takes another step."""
    turns, log = stack(enter(enter(waiting), over), over)
    assert story(await collect(run(turns))) == ["a: a", "a1: a1", "a11: a11"]
    assert [line for line in log if "end" in line] == ["a11: end", "a1: end", "a: end"]


async def test_a_thousand_turns_do_not_deepen_the_stack_of_python() -> None:
    """Entering a turn is a push."""
    depths: list[int] = []

    def deeper(turn: Scripted) -> object:
        frame: FrameType | None = sys._getframe()
        depths.append(0)
        while frame is not None:
            depths[-1], frame = depths[-1] + 1, frame.f_back
        place = turn.ctx.at(Plays(name="a", steps=[deeper, over], log=[]), ())
        return Enter(place) if len(depths) < 1000 else OVER

    turns, _ = stack(deeper, over)
    assert len(await collect(run(turns))) == 1999
    assert len(depths) == 1000
    assert len(set(depths)) == 1


async def test_an_error_in_a_step_closes_every_turn_of_the_stack() -> None:
    """The upper one first, each with the error, which is raised as it is; none is ended."""
    turns, log = stack(enter(enter(fails)))
    with pytest.raises(ValueError, match="down"):
        await collect(run(turns))
    assert log[-4:] == ["a11: closed", "a11: left by ValueError", "a1: left by ValueError", "a: left by ValueError"]


async def test_decision_22_a_consumer_that_leaves_closes_the_step_and_then_the_turns() -> None:
    """Before control returns to it."""
    turns, log = stack(enter(over), over)
    async with aclosing(run(turns)) as events:
        async for event in events:
            if event.author == "a1":
                break
    assert log[-3:] == ["a1: closed", "a1: left by GeneratorExit", "a: left by GeneratorExit"]


async def test_decision_22_a_cancelled_run_closes_the_step_and_then_the_turns() -> None:
    """So does one that is cancelled while a step is at work."""
    began = asyncio.Event()

    class Hangs(Scripted):
        async def step(self, spans: Recorder | None) -> AsyncGenerator[Event, None]:
            try:
                began.set()
                await asyncio.Event().wait()
                yield Event()
            finally:
                self.note_in_log("closed")

    turns, log = stack(over)
    turns = [Hangs(turns[0].ctx, [], log)]
    task = asyncio.create_task(collect(run(turns)))
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert log == ["a: closed", "a: left by CancelledError"]


async def test_a_stop_is_looked_at_before_each_step() -> None:
    """The step under way comes to its end; the next one is not taken, and no turn is ended."""

    def stops(turn: Turn) -> object:
        turn.ctx.run.stop = "paused"
        return AGAIN

    turns, log = stack(again, stops, over)
    ctx = turns[0].ctx
    assert len(await collect(run(turns))) == 2
    assert ctx.run.stopped
    assert log[-1] == "a: left by NoneType"
    assert not any("end" in line for line in log)


async def test_a_stop_after_the_last_step_stops_nothing() -> None:
    """What is over is over."""

    def stops(turn: Turn) -> object:
        turn.ctx.run.stop = "paused"
        return OVER

    turns, log = stack(stops)
    ctx = turns[0].ctx
    await collect(run(turns))
    assert not ctx.run.stopped
    assert log[-1] == "a: end"


async def test_an_agent_is_begun_before_its_first_step_only() -> None:
    """Its before-callbacks are asked once, its after-callbacks when it is over."""
    log: list[str] = []
    agent = Plays(
        name="a",
        steps=[again, over],
        log=log,
        before_agent_callback=lambda callback_context: log.append("before"),
        after_agent_callback=lambda callback_context: log.append("after"),
    )
    await collect(run([agent.turn(context(agent))]))
    assert [line for line in log if "closed" not in line] == ["before", "a: step", "a: step", "a: end", "after"]
