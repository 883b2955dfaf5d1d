"""`capture_run`: what happened in the runs that some code began."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field

from flowloom.context import InvocationContext, ProcessorCall, observing
from flowloom.events import Event
from flowloom.inspection import Assembly
from flowloom.inspection.assembly import Tracing
from flowloom.models import BaseLlm, LlmRequest
from flowloom.models.request import snapshot


@dataclass(slots=True)
class ModelCallRecord:
    """One call of the model named `model`, for the agent named `agent`."""

    agent: str
    model: str
    request: LlmRequest
    """As it was when the model was asked."""
    assembly: Assembly
    """How it came about, and who wrote what."""

    @property
    def step(self) -> int:
        """Which of the agent's steps in the invocation it is, counted from 0."""
        return self.assembly.step


@dataclass(slots=True)
class ProcessorRecord:
    """One call of the processor `name`, in a step of the agent named `agent`, in so many `seconds`.

    `error` is what it raised, or None.
    """

    agent: str
    name: str
    seconds: float
    error: BaseException | None


@dataclass(slots=True)
class CapturedRun:
    """What happened, in order: the `calls` of models, the events, and the calls of `processors`."""

    calls: list[ModelCallRecord] = field(default_factory=list[ModelCallRecord])
    events: list[Event] = field(default_factory=list[Event])
    """What was stored, and the partial events between; the user's messages too."""
    processors: list[ProcessorRecord] = field(default_factory=list[ProcessorRecord])

    @property
    def requests(self) -> list[LlmRequest]:
        """What the models were asked. Each knows its `agent` and `step`; in a snapshot, it has its authors."""
        return [call.request for call in self.calls]

    @property
    def assemblies(self) -> list[Assembly]:
        """How the requests came about, as `explain` shows one."""
        return [call.assembly for call in self.calls]

    def requests_of(self, agent: str) -> list[LlmRequest]:
        """What the model of the agent named `agent` was asked."""
        return [call.request for call in self.calls if call.agent == agent]

    @property
    def agents(self) -> list[str]:
        """The agents that asked a model, in the order of their calls."""
        return [call.agent for call in self.calls]

    @property
    def final_text(self) -> str:
        """The text of the last complete event that has one."""
        return next((each.text for each in reversed(self.events) if each.text and not each.partial), "")


class _Capture(Tracing):
    def __init__(self, captured: CapturedRun) -> None:
        super().__init__()
        self._captured = captured

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        super().processor_finished(ctx, call)
        self._captured.processors.append(ProcessorRecord(ctx.agent.name, call.name, call.seconds, call.error))

    def model_asked(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> None:
        super().model_asked(ctx, model, request)
        asked = ModelCallRecord(ctx.agent.name, request.model or model.model, snapshot(request), self.assemblies[-1])
        self._captured.calls.append(asked)

    def event_recorded(self, ctx: InvocationContext, event: Event) -> None:
        self._captured.events.append(event)


@contextmanager
def capture_run() -> Generator[CapturedRun, None, None]:
    """Keep what happens in all runs of this process that begin meanwhile: requests, events, processors.

    What happened before an error is there, too. For code that hides its runner.
    """
    captured = CapturedRun()
    with observing(_Capture(captured)):
        yield captured
