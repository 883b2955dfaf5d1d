"""The pipeline: processors, looked at once and then called as what they are.

A sync processor is a plain call that returns None or what it produced; nothing is awaited unless there is something
to await.
"""

from __future__ import annotations

import inspect
from collections.abc import AsyncGenerator, AsyncIterable, Callable, Iterable, Sequence
from contextlib import aclosing
from inspect import isawaitable
from typing import Any, NamedTuple, cast

from pydantic import BaseModel

from flowloom.context import InvocationContext
from flowloom.context.origin import note_origin
from flowloom.errors import Halt, PipelineError, ProcessorError
from flowloom.events.event import Event
from flowloom.events.json_data import keep_json
from flowloom.events.response import LlmResponse
from flowloom.models.request import LlmRequest

Processor = Callable[..., Any]
"""`(ctx, request)`, or `(ctx, request, response)` for a response processor."""


class Step(NamedTuple):
    """A processor with its name."""

    name: str
    run: Processor


Steps = tuple[tuple[Step, ...], tuple[Step, ...]]
"""The processors of the request and those of the response."""
REQUEST = ("ctx", "request")
RESPONSE = ("ctx", "request", "response")
"""What processors of the two sides are called with."""


def compile_steps(processors: Iterable[Processor], called_with: tuple[str, ...] = REQUEST) -> tuple[Step, ...]:
    """The processors with their names. Raises `PipelineError` for one that cannot be called so, or is named twice."""
    steps: list[Step] = []
    seen: set[str] = set()
    for processor in processors:
        name = name_of(processor)
        if name in seen:
            raise PipelineError(f"Two processors are named `{name}`. Give one a `name` of its own.")
        seen.add(name)
        _check_arity(name, processor, called_with)
        steps.append(Step(name, processor))
    return tuple(steps)


def _check_arity(name: str, processor: Any, called_with: tuple[str, ...]) -> None:
    try:
        signature = inspect.signature(processor)
    except ValueError:
        return  # written in C: it cannot be known
    try:
        signature.bind(*called_with)
    except TypeError as error:
        raise PipelineError(
            f"Processor `{name}` takes `{signature}` but is called with `({', '.join(called_with)})`: {error}."
        ) from None


def name_of(processor: Processor) -> str:
    """A processor's name: its `name`, its `__name__`, or that of its class."""
    if isinstance(processor, type) or not callable(processor):
        raise PipelineError(
            f"{processor!r} is no processor: a processor is a callable `(ctx, request)`. Give a class as an instance."
        )
    name = getattr(processor, "name", None) or getattr(processor, "__name__", None)
    return name if isinstance(name, str) else type(processor).__name__


def explain(error: Exception, ctx: InvocationContext, step: Step) -> None:
    """Note on an error where it came from, and on a halt who halted."""
    if isinstance(error, Halt):
        error.processor = step.name
        return
    note_origin(error, ctx, f"processor `{step.name}`")


def run_steps(
    steps: Sequence[Step], ctx: InvocationContext, request: LlmRequest, response: LlmResponse | None = None
) -> AsyncGenerator[Event, None] | None:
    """The request side, or that of a response, as plain calls. The first processor that has produced something makes it
    a generator of the events, in which the others are called.

    Once the invocation is ended, no further processor of the request side is called.
    """
    step = None
    try:
        for step in steps:  # a call with unpacked arguments would take a third more
            produced = step.run(ctx, request) if response is None else step.run(ctx, request, response)
            if produced is not None:
                return _events_from(produced, steps[steps.index(step) :], ctx, request, response)
            if response is None and ctx.end_invocation:
                break
    except Exception as error:
        assert step is not None
        explain(error, ctx, step)
        raise
    return None


async def _events_from(
    produced: object, steps: Sequence[Step], ctx: InvocationContext, request: LlmRequest, response: LlmResponse | None
) -> AsyncGenerator[Event, None]:
    """The events of what the first of these processors has produced, and those of the others."""
    async with aclosing(events_of(produced, ctx, steps[0])) as made:
        async for event in made:
            yield event
    if response is None and ctx.end_invocation:
        return
    further = run_steps(steps[1:], ctx, request, response)
    if further is not None:
        async with aclosing(further):
            async for event in further:
                yield event


async def events_of(produced: Any, ctx: InvocationContext, step: Step) -> AsyncGenerator[Event, None]:
    """The events of whatever a processor returned: an event, several, an awaitable or an async generator of them."""
    try:
        if isawaitable(produced):
            produced = await produced
        if isinstance(produced, AsyncIterable):
            iterator = cast(AsyncIterable[Any], produced).__aiter__()
            try:
                async for event in iterator:
                    yield _checked(event, step)
            finally:
                close = getattr(iterator, "aclose", None)
                if close is not None:
                    await close()
        elif isinstance(produced, Iterable) and not isinstance(produced, str | bytes | dict | BaseModel):
            for event in cast(Iterable[Any], produced):
                yield _checked(event, step)
        elif produced is not None:
            yield _checked(produced, step)
    except Exception as error:
        explain(error, ctx, step)
        raise


def _checked(event: Any, step: Step) -> Event:
    if isinstance(event, Event):
        keep_json(event)
        return event
    if isinstance(event, LlmResponse | LlmRequest):
        what = "response" if isinstance(event, LlmResponse) else "request"
        raise ProcessorError(
            f"Processor `{step.name}` returned its {what}. It is to change the {what} that it is given: return nothing."
        )
    raise ProcessorError(
        f"Processor `{step.name}` produced {type(event).__name__}, but a processor returns nothing, an Event, several "
        f"Events, or is an async generator of them."
    )


def with_extra(steps: tuple[Step, ...], extra: Sequence[Step]) -> tuple[Step, ...]:
    """The steps with those of an app before `contents`; a flow that has one of the same name keeps its own."""
    names = [step.name for step in steps]
    at = names.index("contents") if "contents" in names else len(names)
    return (*steps[:at], *(step for step in extra if step.name not in names), *steps[at:])
