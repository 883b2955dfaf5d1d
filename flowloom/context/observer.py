"""`Observer`: sees what a run does, without a part in it."""

from __future__ import annotations

from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:  # nothing is loaded here, so that a test run that does not use flowloom does not pay for it
    from flowloom.events.event import Event
    from flowloom.events.response import LlmResponse
    from flowloom.models.base_llm import BaseLlm
    from flowloom.models.request import LlmRequest


@dataclass(slots=True)
class ProcessorCall:
    """One call of the processor `name`, filled in while it goes on."""

    name: str
    request: LlmRequest
    response: LlmResponse | None
    """What a response processor is given; None on the request side."""
    seconds: float = 0.0
    """The processor's own time; while a consumer holds an event of it, no time is counted."""
    events: list[Event] = field(default_factory=list)  # type: ignore[assignment] - of events
    """What it emitted."""
    error: BaseException | None = None
    """What it raised: a `Halt`, too."""


class Observer:
    """Is told of every processor, model call and stored event of the runs that it is given to.

    Override what you need, and give it to a `Runner` (`observers=[...]`). `ctx` is the agent's `InvocationContext`.
    A run without observers pays nothing. What an observer raises ends the run: this is how one forbids something.
    """

    def processor_started(self, ctx: Any, call: ProcessorCall) -> None:
        """A processor is about to be called."""

    def processor_finished(self, ctx: Any, call: ProcessorCall) -> None:
        """A processor has returned or raised; nothing more comes of this call."""

    def model_asked(self, ctx: Any, model: BaseLlm, request: LlmRequest) -> None:
        """A model is about to be given this request; the callbacks have been asked."""

    def model_waits(self, ctx: Any, model: BaseLlm) -> None:
        """The request that a model was to be given waits first, for a place or the time that a `ModelLimit` of the
        fleet gives it (durable design, section 8); told once."""

    def event_recorded(self, ctx: Any, event: Event) -> None:
        """An event was taken in, as the consumer will see it; partial ones too."""


_everywhere: tuple[Observer, ...] = ()


def observers() -> tuple[Observer, ...]:
    """The observers of every run that begins now, the latest first."""
    return _everywhere


@contextmanager
def observing(observer: Observer) -> Generator[None]:
    """Let an observer see every run of this process that begins meanwhile."""
    global _everywhere
    _everywhere = (observer, *_everywhere)
    try:
        yield
    finally:
        _everywhere = tuple(each for each in _everywhere if each is not observer)
