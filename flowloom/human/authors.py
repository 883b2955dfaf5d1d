"""`HumanObserver`: which agent asks a person, and which processor wrote which part of its request."""

from __future__ import annotations

from threading import Lock

from flowloom.context import InvocationContext
from flowloom.context.observer import Observer, ProcessorCall
from flowloom.errors import ModelNotConfiguredError
from flowloom.human.model import people_in
from flowloom.human.request import followed
from flowloom.inspection.assembly import ModelReached, Recording
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest
from flowloom.processors.model_choice import model_of

_MAX_OPEN = 256
"""How many unfinished requests are followed. Those that never reach a model, because they were halted, stay until
others push them out."""


class HumanObserver(Observer):
    """Follows the requests of agents whose model is, or holds, a `HumanModel`, so that their pages say who asks, and
    who wrote what.

    Give it to the runner: `observers=[HumanObserver()]`. One will do for any number of models. A request that is
    followed takes about a millisecond more; requests to other models are left alone.
    """

    def __init__(self) -> None:
        self._open: dict[int, Recording] = {}
        self._lock = Lock()

    def processor_started(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        if call.response is None and _asks_a_person(ctx):
            with self._lock:
                recording = self._open.setdefault(id(ctx), Recording())
                if len(self._open) > _MAX_OPEN:
                    del self._open[next(iter(self._open))]
            recording.processor_started(ctx, call)

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        recording = self._open.get(id(ctx))
        if recording is not None and call.response is None:
            recording.processor_finished(ctx, call)

    def model_asked(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> None:
        with self._lock:
            recording = self._open.pop(id(ctx), None)
        if recording is None and not any(people_in(model)):
            return
        recording = recording or Recording()
        try:
            recording.model_asked(ctx, model, request)
        except ModelReached:  # how it ends a rehearsal; this is none
            pass
        followed.set(recording.assembly(ctx.agent.name))


def _asks_a_person(ctx: InvocationContext) -> bool:
    try:
        return any(people_in(model_of(ctx)))
    except ModelNotConfiguredError:
        return False
