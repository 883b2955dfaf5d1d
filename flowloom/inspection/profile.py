"""`measure`: what each processor of an agent's flow costs."""

from __future__ import annotations

import json
import statistics
import tracemalloc
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import aclosing
from dataclasses import asdict, dataclass, field
from pathlib import Path
from time import perf_counter
from typing import Any, Self

from google.genai import types

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.context import InvocationContext, Observer, ProcessorCall, RunConfig
from flowloom.errors import (
    ConfigurationError,
    InputValidationError,
    ModelResponseError,
    PipelineError,
    closest_first,
    quoted_list,
)
from flowloom.events import LlmResponse
from flowloom.events.parts import content_of, text_part
from flowloom.flow import Flow
from flowloom.inspection.assembly import ModelReached, Recording, RehearsalEffects, was_reached
from flowloom.inspection.explanation import Rehearsal, Said
from flowloom.models import BaseLlm, LlmRequest
from flowloom.objects.given import of_kind
from flowloom.objects.notebook import count, line, quoted, table
from flowloom.plugins import BasePlugin
from flowloom.runner.app import App
from flowloom.runner.message import Message
from flowloom.sessions import InMemorySessionService, Session

TURNS_PER_SESSION = 20
"""After how many turns the conversation begins anew, so that it does not grow while it is measured."""

_ROUNDS_OF_ALLOCATIONS = 5
_BAR = 24


@dataclass(frozen=True, slots=True)
class ProcessorCost:
    """What the processor `name` costs."""

    name: str
    count: int
    """How often it was called."""
    median: float
    """Seconds of a call, in the middle."""
    p95: float
    """Seconds that 95 of 100 calls take at most."""
    share: float
    """Its part of the time of all processors, 0 to 1; medians are counted, so that a pause of the machine is not."""
    first: float = 0.0
    """Seconds of the first call in a conversation, in the middle: what is compiled or read once is in it."""
    allocated: int | None = None
    """The most memory that a call holds on its way, in bytes; None if it was not measured."""


@dataclass(frozen=True, slots=True)
class CostChange:
    """The processor `name` beside what it cost before.

    `after` is what it costs now, in seconds of a call, in the middle.
    """

    name: str
    before: float
    """Seconds of a call, in the middle, as stored."""
    after: float
    ratio: float
    """How many times the cost before, the speed of the machines taken out."""


@dataclass(frozen=True, slots=True)
class ProcessorProfile:
    """What the processors of a turn cost. `print` it, `save` it, and `compare` a later one with it.

    `agent` is the name of the agent that was measured, in `turns` turns.
    """

    agent: str
    turns: int
    processors: list[ProcessorCost]
    """In the order of the flow."""
    turn: float
    """Seconds of a whole turn without the model's time, in the middle."""
    yardstick: float
    """Seconds of a fixed piece of work on the same machine in the same minutes; two profiles are compared by it."""

    @property
    def total(self) -> float:
        """Seconds of all processors in a turn, medians summed."""
        return sum(each.median * each.count for each in self.processors) / max(self.turns, 1)

    def __getitem__(self, name: str) -> ProcessorCost:
        """The cost of a processor. Raises `PipelineError` if none of that name ran."""
        for each in self.processors:
            if each.name == name:
                return each
        names = closest_first(name, [each.name for each in self.processors])
        raise PipelineError(f"No processor `{name}` was measured. There are: {quoted_list(names)}.")

    def __iter__(self) -> Iterator[ProcessorCost]:
        return iter(self.processors)

    def compare(self, baseline: ProcessorProfile) -> list[CostChange]:
        """This beside an earlier profile, processor by processor; those that only one of them has are left out."""
        baseline = of_kind(ProcessorProfile, baseline, "A profile is compared with another one: see `load`.")
        speed = self.yardstick / baseline.yardstick
        known = {each.name: each.median for each in baseline.processors}
        return [
            CostChange(each.name, before, each.median, each.median / before / speed)
            for each in self.processors
            if (before := known.get(each.name))
        ]

    def to_dict(self) -> dict[str, Any]:
        """The same as JSON values; times are seconds."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The profile whose `to_dict` gave `data`. Raises `InputValidationError` for data that is no profile."""
        try:
            values: dict[str, Any] = dict(data)
            values["processors"] = [ProcessorCost(**each) for each in data["processors"]]
            return cls(**values)
        except (TypeError, KeyError, ValueError) as error:
            raise InputValidationError(
                f"This is no stored profile: {error}. Store one with `ProcessorProfile.save`."
            ) from error

    def save(self, path: str | Path) -> None:
        """Store the profile as JSON at `path`, for `load`."""
        Path(path).write_text(json.dumps(self.to_dict(), indent=1) + "\n", encoding="utf-8")

    @classmethod
    def load(cls, path: str | Path) -> Self:
        """The profile stored at `path`. Raises `InputValidationError` if the file holds none."""
        try:
            return cls.from_dict(json.loads(Path(path).read_text(encoding="utf-8")))
        except ValueError as error:
            raise InputValidationError(f"`{path}` holds no profile: {error}") from error

    def __repr__(self) -> str:
        processors = count(len(self.processors), "processor")
        return line([f"ProcessorProfile of {quoted(self.agent)}:", f"{processors}, {_us(self.total)} a turn"])

    def _repr_html_(self) -> str:
        rows = [
            (each.name, str(each.count), _us(each.median), _us(each.p95), f"{each.share:.1%}", _kilobytes(each))
            for each in self.processors
        ]
        title = f"{self.agent}: {_us(self.turn)} a turn, {_us(self.total)} of it in processors"
        return table(title, rows, ("processor", "count", "median", "p95", "share", "memory"))

    def __str__(self) -> str:
        width = max([len("processor"), *(len(each.name) for each in self.processors)])
        highest = max((each.share for each in self.processors), default=1.0)
        lines = [
            f"Agent `{self.agent}`, {self.turns} turns: {_us(self.turn)} a turn, {_us(self.total)} of it in processors",
            _row("processor".ljust(width), "count", ("median", "p95", "first"), "share", "memory"),
        ]
        for each in self.processors:
            bar = "█" * round(_BAR * each.share / highest) if highest else ""
            memory = _kilobytes(each)
            times = _us(each.median), _us(each.p95), _us(each.first)
            lines.append(_row(each.name.ljust(width), str(each.count), times, f"{each.share:.1%}", memory, bar))
        return "\n".join(lines)


def _row(name: str, count: str, times: tuple[str, str, str], share: str, memory: str, bar: str = "") -> str:
    cells = "  ".join(time.rjust(10) for time in times)
    return f"  {name}  {count:>6}  {cells}  {share:>6}  {memory:>8}  {bar}".rstrip()


def _kilobytes(cost: ProcessorCost) -> str:
    return "" if cost.allocated is None else f"{cost.allocated / 1024:.1f} KB"


def _us(seconds: float) -> str:
    return f"{seconds * 1e6:,.1f} µs"


async def measure(
    agent_or_flow: BaseAgent | App | Flow,
    message: Message = "Hello.",
    *,
    history: Sequence[Said] | None = None,
    session: Session | None = None,
    state: dict[str, Any] | None = None,
    repeat: int = 200,
    run_config: RunConfig | None = None,
    plugins: Sequence[BasePlugin] | None = None,
    allocations: bool = True,
) -> ProcessorProfile:
    """Run one model step of `agent_or_flow` `repeat` times and time every processor of it.

    Each time `message` is answered by a stand-in for the model, in a conversation that begins with `history` (or
    `session`, which is not changed) and `state`, and begins anew every `TURNS_PER_SESSION` turns; the first turn of
    each is counted apart. No model is asked, no tool is run, no telemetry is made; callbacks and instruction providers
    are called, and so are `plugins`. A flow is measured in a plain agent. `run_config` holds the settings of the runs.
    `allocations` measures memory too, in turns of its own.

    Raises `ConfigurationError` for a `repeat` below 1, and what a run would raise.
    """
    if not isinstance(repeat, int) or repeat < 1:  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"`repeat` is {repeat!r}: nothing can be measured in less than one turn.")
    if isinstance(agent_or_flow, Flow):
        agent_or_flow = LlmAgent(name="agent", model=_StandIn(), flow=agent_or_flow)
    bench = _Bench(agent_or_flow, Recording(), session, state, history, plugins, None, None)
    bench.message, bench.run_config = message, run_config
    times, first = _Times(), _Times()
    turns: list[float] = []
    yardsticks: list[float] = []
    for done in range(0, repeat, TURNS_PER_SESSION):
        turns += await bench.converse(first, times, min(TURNS_PER_SESSION, repeat - done))
        yardsticks.append(_yardstick())
    memory = _Memory()
    if allocations:
        tracing = tracemalloc.is_tracing()
        tracemalloc.start()
        try:
            await bench.converse(Observer(), memory, _ROUNDS_OF_ALLOCATIONS)
        finally:
            if not tracing:
                tracemalloc.stop()
    return ProcessorProfile(
        agent=times.agent or bench.explained.name,
        turns=len(turns),
        processors=times.costs(first, memory.peaks),
        turn=statistics.median(turns),
        yardstick=statistics.median(yardsticks),
    )


class _StandIn(BaseLlm):
    """Answers at once, as far as a turn needs it."""

    model: str = "stand-in"

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:  # type: ignore[override]
        if llm_request.config.response_schema or "set_model_response" in llm_request.tools_dict:
            yield LlmResponse(error_code="MEASURED", error_message="No model was asked.")
        else:
            yield LlmResponse(content=content_of("model", [text_part("ok")]))


class _StandInEffects(RehearsalEffects):
    def call_model(
        self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest, stream: bool
    ) -> AsyncIterator[LlmResponse]:
        return _StandIn().generate_content_async(request, stream)


class _OneStep(Observer):
    """Ends a turn where it would go on to the next model call."""

    def __init__(self) -> None:
        self._asked = False

    def model_asked(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> None:
        self._asked = True

    def processor_started(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        if self._asked and call.response is None:
            raise ModelReached


class _Bench(Rehearsal):
    """A runner whose models are stand-ins."""

    message: Message
    run_config: RunConfig | None
    observer: Observer

    def make_context(self, *args: Any, **kwargs: Any) -> InvocationContext:
        ctx = super().make_context(*args, **kwargs)
        ctx.run.observers = (_OneStep(), self.observer)
        ctx.run.effects = _StandInEffects(self.effects, self._recording)
        return ctx

    async def converse(self, first: Observer, others: Observer, turns: int) -> list[float]:
        """A first turn of a new conversation and some others, with an observer each; returns the others' seconds."""
        start = self.start_session
        service = InMemorySessionService()
        service.adopt(start.model_copy(update={"events": list(start.events)}))
        self.session_service = service
        seconds: list[float] = []
        for turn in range(turns + 1):
            self.observer = others if turn else first
            started = perf_counter()
            await self._answer()
            if turn:
                seconds.append(perf_counter() - started)
        return seconds

    async def _answer(self) -> None:
        events = self.answer(self.message, self.run_config)
        try:
            async with aclosing(events):
                async for _ in events:
                    pass
        except ModelResponseError:
            pass  # the stand-in has no answer that fits an output schema
        except BaseException as error:
            if not was_reached(error):
                raise


@dataclass(slots=True)
class _Times(Observer):
    """The times of each processor."""

    agent: str | None = None
    seconds: dict[str, list[float]] = field(default_factory=dict[str, list[float]])

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        self.agent = self.agent or ctx.agent.name
        self.seconds.setdefault(call.name, []).append(call.seconds)

    def costs(self, first: _Times, peaks: dict[str, list[int]]) -> list[ProcessorCost]:
        medians = {name: statistics.median(seconds) for name, seconds in self.seconds.items()}
        total = sum(medians[name] * len(seconds) for name, seconds in self.seconds.items()) or 1.0
        return [
            ProcessorCost(
                name=name,
                count=len(seconds),
                median=medians[name],
                p95=sorted(seconds)[max(0, -(-len(seconds) * 95 // 100) - 1)],
                first=statistics.median(first.seconds.get(name, seconds)),
                share=medians[name] * len(seconds) / total,
                allocated=round(statistics.median(peaks[name])) if name in peaks else None,
            )
            for name, seconds in self.seconds.items()
        ]


class _Memory(Observer):
    """How much memory each processor takes at most."""

    def __init__(self) -> None:
        self.peaks: dict[str, list[int]] = {}
        self._before = 0

    def processor_started(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        tracemalloc.reset_peak()
        self._before = tracemalloc.get_traced_memory()[0]

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        peak = tracemalloc.get_traced_memory()[1]
        self.peaks.setdefault(call.name, []).append(max(0, peak - self._before))


def _yardstick() -> float:
    """How long this machine takes right now for some work of the kind that processors do."""
    times: list[float] = []
    for _ in range(15):
        started = perf_counter()
        for number in range(5):
            types.Content(role="user", parts=[types.Part(text=f"{number}")])
        times.append(perf_counter() - started)
    return statistics.median(times)
