"""`Assembly`: a request as the model would get it, and how it came about."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from copy import copy
from dataclasses import dataclass, field, replace
from functools import cached_property
from time import perf_counter
from typing import Any

from flowloom.context import Context, Effects, InvocationContext
from flowloom.context.observer import Observer, ProcessorCall
from flowloom.context.protocols import RunnableTool
from flowloom.context.run import Run
from flowloom.context.totals import Totals
from flowloom.errors import Halt, PipelineError, closest_first, quoted_list
from flowloom.events.event import Event
from flowloom.events.response import LlmResponse
from flowloom.inspection.canonical import canonical_at
from flowloom.inspection.changes import Change, apply, changes_between
from flowloom.inspection.page import page_of
from flowloom.inspection.report import report_of
from flowloom.inspection.request_view import RequestView
from flowloom.inspection.sections import Authors, Section, ordinals_of
from flowloom.inspection.tree import Blocks, Fields, Known, empty_tree, request_of, tree_of
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import Dropped, LlmRequest, Origin, origin_of, set_origin, snapshot
from flowloom.objects.notebook import count, framed, line, quoted

CALLBACKS = "(callbacks)"
"""The step that stands for the `before_model` callbacks and `around_model` wrappers."""


@dataclass(slots=True)
class AssemblyStep:
    """What the processor `name` did on the way to a request, in so many `seconds`."""

    name: str
    seconds: float
    changes: list[Change] = field(default_factory=list[Change])
    """What it changed in the request, in order."""
    events: list[Event] = field(default_factory=list[Event])
    """What it emitted."""


@dataclass(slots=True)
class Assembly:
    """A request as the model would get it, and how it came about. `print` it, or see `to_dict` and `to_html`."""

    agent: str
    """The agent whose request it is."""
    request: LlmRequest
    steps: list[AssemblyStep] = field(default_factory=list[AssemblyStep])
    """The processors that ran, in order."""
    sections: list[Section] = field(default_factory=list[Section])
    """The pieces of the request in the order of the wire, each with the processor that wrote it last."""
    halted_by: str | None = None
    """The processor that stopped the step, if one did."""
    reaches_model: bool = False
    """Whether the model would be asked; not if a processor halted, or a callback answered in its place."""
    tools_not_run: list[str] = field(default_factory=list[str])
    """Tools that a real run would have executed on the way, because the message confirms them."""
    step: int = 0
    """Which of the agent's steps in the invocation it is, counted from 0."""
    sent: bool = False
    """Whether the agent's model was asked, as in a run that was looked on at; `explain` asks none."""
    without_flow: str | None = None
    """The class of an agent that builds no requests, if no agent below it has built one either."""

    def __repr__(self) -> str:
        amounts = count(len(self.sections), "section"), count(len(self.steps), "processor")
        return line([f"Assembly of {quoted(self.agent)}:", " by ".join(amounts)])

    def _repr_html_(self) -> str:
        return framed(self.to_html())

    @property
    def events(self) -> list[Event]:
        """What the processors emitted."""
        return [event for step in self.steps for event in step.events]

    @property
    def changes(self) -> list[Change]:
        """The changes of all processors. Applied in order to an empty request, they make this one."""
        return [change for step in self.steps for change in step.changes]

    @property
    def view(self) -> RequestView:
        """The request as data and text that are the same on every run."""
        return RequestView(self.request)

    def request_after(self, processor: str) -> LlmRequest:
        """The request as it was when the processor named `processor` had run. Raises `PipelineError` if none of that
        name ran.
        """
        names = [step.name for step in self.steps]
        if processor not in names:
            known = quoted_list(closest_first(processor, names))
            raise PipelineError(f"No processor `{processor}` ran. There were: {known}.")
        tree = empty_tree()
        for step in self.steps[: names.index(processor) + 1]:
            tree = apply(tree, step.changes)
        return request_of(tree)

    def written_by(self, path: str) -> str | None:
        """The processor that wrote the section at `path` last; None if there is no such section."""
        return next((section.by for section in self.sections if section.path == path), None)

    def __str__(self) -> str:
        return report_of(self.to_dict())

    def to_html(self) -> str:
        """The same as a page that stands in one HTML file, coloured by processor, for light and dark screens."""
        return page_of(self.to_dict())

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values: `agent`, `request`, `sections`, `steps` with their changes, and the rest."""
        view = self.view
        ordinals = ordinals_of(view.tree)

        def data_of(change: Change) -> dict[str, Any]:
            before, after = (canonical_at(change.where, value, ordinals) for value in (change.before, change.after))
            return {"path": change.path, "kind": change.kind, "before": before, "after": after}

        return {
            "agent": self.agent,
            "step": self.step,
            "request": view.data,
            "sections": [{"path": each.path, "by": each.by, "value": each.value} for each in self.sections],
            "steps": [
                {
                    "name": step.name,
                    "microseconds": round(step.seconds * 1e6, 1),
                    "changes": [data_of(change) for change in step.changes],
                    "events": [event.to_wire() for event in step.events],
                }
                for step in self.steps
            ],
            "halted_by": self.halted_by,
            "reaches_model": self.reaches_model,
            "sent": self.sent,
            "tools_not_run": self.tools_not_run,
            "without_flow": self.without_flow,
        }


@dataclass(slots=True)
class _Look:
    """A request as the processor `name` has left it."""

    name: str
    seconds: float
    events: list[Event]
    tree: Fields
    counts: bool = True
    """Whether it is a step even if it has changed nothing."""


class _Trace:
    """The making of one request: what it was after each processor. What that tells is found out when it is asked for
    (`assembly`), which takes four times as long."""

    def __init__(self, ctx: InvocationContext | None, request: LlmRequest) -> None:
        self.agent, self.at = ("", 0) if ctx is None else (ctx.agent.name, ctx.step)
        self.request = request
        self.looks: list[_Look] = []
        self.halted_by: str | None = None
        self.moment = perf_counter()
        self._tree = empty_tree()
        self._known: Known = {}

    def step(self, name: str, seconds: float, events: list[Event], request: LlmRequest) -> None:
        """Take note of what a processor has done."""
        self.looks.append(_Look(name, seconds, events, self._seen(request, self._known)))
        self.moment = perf_counter()

    def finish(self, request: LlmRequest, called: bool) -> None:
        """Take note of what came after the processors; `called` says whether callbacks were, which can change all."""
        seconds = perf_counter() - self.moment
        tree = self._seen(request, None if called else self._known)
        self.looks.append(_Look(CALLBACKS, seconds, [], tree, called))
        self.request = request

    def _seen(self, request: LlmRequest, known: Known | None) -> Fields:
        before = self._tree
        system = before["config"].get("system_instruction")
        self._tree = tree = tree_of(request, system if isinstance(system, Blocks) else (), known)
        _share(before, tree)
        _share(before["config"], tree["config"])
        return tree

    def as_it_is(self) -> _Trace:
        """The same, which is not followed any more."""
        kept = copy(self)
        kept.looks = list(self.looks)
        kept._known = {}
        return kept

    def steps(self) -> tuple[list[AssemblyStep], list[Section]]:
        """What each processor has changed, and who wrote what stands there in the end."""
        tree, authors, steps = empty_tree(), Authors(), list[AssemblyStep]()
        for look in self.looks:
            changes = changes_between(tree, look.tree)
            if changes:
                authors.follow(look.tree, look.name)
                tree = look.tree
            if changes or look.counts:
                steps.append(AssemblyStep(look.name, look.seconds, changes, look.events))
        return steps, authors.sections(ordinals_of(tree))


def _share(before: Fields, tree: Fields) -> None:
    """Keep lists once that are as they were: the history and the tools, which take most room."""
    for name, value in tree.items():
        if isinstance(value, list) and value == before.get(name):
            tree[name] = before[name]


class Making:
    """How a request came about that reached its model. Its `assembly` is put together when it is first looked at."""

    def __init__(self, make: Callable[[], Assembly], request: LlmRequest, steps: int) -> None:
        self._make = make
        self.request = request
        """As the model was asked."""
        self.steps = steps
        """How many steps it has at most."""

    @cached_property
    def assembly(self) -> Assembly:
        """What came of it."""
        made = self._make()
        made.request = self.request
        return made


class ModelReached(BaseException):
    """Ends a rehearsal, where a real run would ask the model. No callback is to take it for an error."""


class Tracing(Observer):
    """Follows how requests come about, from processor to processor, to the model.

    A request whose model is asked then has its `Assembly` with it (`assembly_of`), and so have copies of it. `sent`
    says whether what is asked is the model that the agent has.
    """

    def __init__(self, *, sent: bool = True) -> None:
        self._traces: dict[int, _Trace] = {}
        self._latest: _Trace | None = None
        self._sent = sent
        self.tools_not_run: list[str] = []
        self.makings: list[Making] = []
        """Those of the model calls so far, in order."""

    @property
    def assemblies(self) -> list[Assembly]:
        """What came of the model calls so far, in order."""
        return [each.assembly for each in self.makings]

    def processor_started(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        if call.response is not None:
            return
        trace = self._traces.get(id(ctx))
        if trace is None or trace.request is not call.request:
            self._latest = self._traces[id(ctx)] = _Trace(ctx, call.request)

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        if call.response is not None:
            return
        trace = self._traces.get(id(ctx))
        if trace is None:  # what it began with was not seen
            return
        trace.step(call.name, call.seconds, call.events, call.request)
        if isinstance(call.error, Halt) or ctx.end_invocation:
            trace.halted_by = trace.halted_by or call.name

    def model_asked(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> None:
        trace = self._followed(ctx, request).as_it_is()
        making = Making(lambda: self._assembly(trace, trace.agent, reached=True), snapshot(request), len(trace.looks))
        self.makings.append(making)
        origin = origin_of(request)
        set_origin(request, Origin(trace.agent, trace.at, Dropped() if origin is None else origin.dropped, making))

    def _followed(self, ctx: InvocationContext, request: LlmRequest) -> _Trace:
        """The trace of a request that is about to reach its model."""
        trace = self._traces.pop(id(ctx), None) or _Trace(ctx, request)
        before = ctx.run.hooks.before_model or ctx.callbacks.before_model or ctx.callbacks.around_model
        trace.finish(request, bool(before))
        if ctx.callbacks.around_model:  # which may ask again
            self._traces[id(ctx)] = trace
        return trace

    def _assembly(self, trace: _Trace, agent: str, *, reached: bool) -> Assembly:
        steps, sections = trace.steps()
        return Assembly(
            agent=trace.agent or agent,
            request=trace.request,
            steps=steps,
            sections=sections,
            halted_by=trace.halted_by,
            reaches_model=reached,
            tools_not_run=self.tools_not_run,
            step=trace.at,
            sent=reached and self._sent,
        )


class Recording(Tracing):
    """Stops at the door of the first model."""

    def __init__(self) -> None:
        super().__init__(sent=False)
        self._reached: _Trace | None = None

    def model_asked(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> None:
        if self._reached is None:
            self._reached = self._followed(ctx, request)
        raise ModelReached

    def assembly(self, agent: str) -> Assembly:
        """What came of it; `agent` is whose run it was."""
        trace = self._reached or self._latest or _Trace(None, LlmRequest.empty(None))
        return self._assembly(trace, agent, reached=self._reached is not None)


def making_of(request: LlmRequest) -> Making | None:
    """How a request came about that a model was asked with, not yet put together; None if that was not observed."""
    origin = origin_of(request)
    return None if origin is None else origin.making


def assembly_of(request: LlmRequest) -> Assembly | None:
    """How a request came about that a model was asked with; None if that was not observed."""
    making = making_of(request)
    return None if making is None else making.assembly


class RehearsalEffects:
    """Effects that change nothing outside: no tool is run, no pause is made."""

    def __init__(self, effects: Effects, recording: Tracing) -> None:
        self._effects = effects
        self._recording = recording

    def call_model(
        self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest, stream: bool
    ) -> AsyncIterator[LlmResponse]:
        raise ModelReached

    async def call_tool(
        self, ctx: InvocationContext, tool: RunnableTool, args: dict[str, Any], context: Context
    ) -> Any:
        self._recording.tools_not_run.append(tool.name)
        return {"result": f"(the result of `{tool.name}`, which was not run)"}

    def now(self, ctx: InvocationContext) -> float:
        return self._effects.now(ctx)

    def new_id(self, ctx: InvocationContext) -> str:
        return self._effects.new_id(ctx)

    async def sleep(self, ctx: InvocationContext, seconds: float) -> None:
        return


def rehearsal_of(run: Run, recording: Tracing) -> Run:
    """The same run, which ends where a model would be asked; what it uses is not counted."""
    totals = Totals(run.config)
    totals.usage = replace(run.totals.usage)
    totals.model_calls, totals.tool_calls = run.totals.model_calls, run.totals.tool_calls
    rehearsal = copy(run)
    rehearsal.observers = (recording, *run.observers)  # first: it ends the run, and no other observer hears of a model
    rehearsal.totals, rehearsal.rehearsal = totals, True
    return rehearsal


async def rehearse(events: AsyncGenerator[Event, None], ctx: InvocationContext | None = None) -> None:
    """Let a run go on until it reaches a model; with `ctx`, its events are stored there."""
    try:
        async with aclosing(events):
            async for event in events:
                if ctx is not None:
                    await ctx.run.record(ctx, event)
    except BaseException as error:
        if not was_reached(error):
            raise


def was_reached(error: BaseException) -> bool:
    """Whether an error is the end of a rehearsal."""
    if isinstance(error, BaseExceptionGroup):
        return error.subgroup(ModelReached) is not None  # pyright: ignore[reportUnknownMemberType]
    return isinstance(error, ModelReached)
