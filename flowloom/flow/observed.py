"""Which processors a turn calls, and those under observation: timed, and each call told to the observers of the run."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from time import perf_counter
from typing import Any, NamedTuple

from flowloom.context import InvocationContext
from flowloom.context.observer import Observer, ProcessorCall
from flowloom.context.protocols import AnyLlmAgent
from flowloom.context.run import Run
from flowloom.events.event import Event
from flowloom.events.response import LlmResponse
from flowloom.flow.pipeline import Processor, Step, Steps, events_of, with_extra
from flowloom.models.request import LlmRequest
from flowloom.processors import FILES, NEEDS


class StepsOfTurn(NamedTuple):
    """The processors that the steps of a turn call."""

    request: tuple[Step, ...]
    response: tuple[Step, ...]
    files: tuple[Step, ...]
    """The response processors of an answer that holds files (see `FILES`)."""


def steps_of(agent: AnyLlmAgent, steps: Steps, run: Run) -> StepsOfTurn:
    """The processors of a step of an agent in a run, those of the app among them: all of them, wrapped for observers
    that look at processors; without such, those that have anything to do for the agent (see `NEEDS`)."""
    (request, response), observers = steps, tuple(filter(_looks_at_processors, run.observers))
    if run.extra_steps:
        request = with_extra(request, run.extra_steps)
    if not observers:
        return agent.derive("steps", _busy, agent, request, response)
    wrapped = _observed(response, observers)
    return StepsOfTurn(_observed(request, observers), wrapped, wrapped)


def _busy(agent: AnyLlmAgent, request: tuple[Step, ...], response: tuple[Step, ...]) -> StepsOfTurn:
    idle = [processor for processor, field in NEEDS if getattr(agent, field) is None]
    unless_files = [processor for processor in idle if processor is not FILES]
    return StepsOfTurn(_without(request, idle), _without(response, idle), _without(response, unless_files))


def _looks_at_processors(observer: Observer) -> bool:
    told = "processor_started", "processor_finished"
    return any(getattr(getattr(observer, name), "__func__", None) is not getattr(Observer, name) for name in told)


def _without(steps: tuple[Step, ...], idle: Sequence[Processor]) -> tuple[Step, ...]:
    return tuple(step for step in steps if not any(step.run is processor for processor in idle))


def _observed(steps: tuple[Step, ...], observers: tuple[Observer, ...]) -> tuple[Step, ...]:
    return tuple(Step(step.name, _Observed(step, observers)) for step in steps)


class _Observed:
    """One processor: called as it is, and told of before and after."""

    __slots__ = ("_observers", "_step")

    def __init__(self, step: Step, observers: tuple[Observer, ...]) -> None:
        self._step = step
        self._observers = observers

    def __call__(self, ctx: InvocationContext, request: LlmRequest, response: LlmResponse | None = None) -> Any:
        call = ProcessorCall(self._step.name, request, response)
        for observer in self._observers:
            observer.processor_started(ctx, call)
        given = (ctx, request) if response is None else (ctx, request, response)
        started = perf_counter()
        try:
            produced = self._step.run(*given)
        except BaseException as error:
            call.seconds, call.error = perf_counter() - started, error
            self._finish(ctx, call)
            raise
        call.seconds = perf_counter() - started
        if produced is not None:
            return self._events(produced, ctx, call)
        self._finish(ctx, call)
        return None

    async def _events(self, produced: Any, ctx: InvocationContext, call: ProcessorCall) -> AsyncGenerator[Event, None]:
        """What the processor emits."""
        started: float | None = perf_counter()
        try:
            async with aclosing(events_of(produced, ctx, self._step)) as events:
                async for event in events:
                    call.seconds += perf_counter() - started
                    started = None
                    call.events.append(event)
                    yield event
                    started = perf_counter()
        except BaseException as error:
            call.error = error
            raise
        finally:
            if started is not None:
                call.seconds += perf_counter() - started
            self._finish(ctx, call)

    def _finish(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        for observer in self._observers:
            observer.processor_finished(ctx, call)
