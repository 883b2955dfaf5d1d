"""`Flow`: an ordered list of request processors, one model call, response processors, and the loop over them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Sequence
from copy import copy
from typing import TYPE_CHECKING, Any, Self

from flowloom.context import InvocationContext
from flowloom.context.hooks import NO_CALLBACKS, FlowCallbacks
from flowloom.errors import PipelineError, closest_first, quoted_list
from flowloom.events.event import Event
from flowloom.flow.llm_turn import LlmTurn
from flowloom.flow.pipeline import RESPONSE, Processor, Step, compile_steps, name_of
from flowloom.flow.play import run_agent
from flowloom.objects.notebook import count, line, table
from flowloom.processors import REQUEST_PROCESSORS, RESPONSE_PROCESSORS

if TYPE_CHECKING:
    from flowloom.inspection.assembly import Assembly

_REQUEST, _RESPONSE = 0, 1
"""The sides of a flow, as they stand in its `steps`."""


class Flow:
    """What happens in an agent's turn, as a value that can be printed, edited, run and timed.

    `request_processors` make the request, `response_processors` look at each response, both in order; `callbacks` are
    called around model and tools.

    A flow never changes: `with_processor`, `without` and `with_callbacks` give new flows. A processor is any callable
    `(ctx, request)`, a response processor `(ctx, request, response)`; sync or async, they return None, an event,
    several events, or are async generators of them. Each is looked at once, here.

    Raises `PipelineError` for what is no processor, cannot be called as one, or has the name of another.
    """

    __slots__ = ("callbacks", "steps")

    def __init__(
        self,
        request_processors: Sequence[Processor] = REQUEST_PROCESSORS,
        response_processors: Sequence[Processor] = RESPONSE_PROCESSORS,
        *,
        callbacks: FlowCallbacks = NO_CALLBACKS,
    ) -> None:
        self.steps = compile_steps(request_processors), compile_steps(response_processors, RESPONSE)
        """The processors of both sides with their names."""
        self.callbacks = callbacks
        """Callbacks around model and tool calls, asked after those of the plugins."""

    @property
    def request_processors(self) -> tuple[Processor, ...]:
        """The processors that build the request, in order."""
        return tuple(step.run for step in self.request_steps)

    @property
    def response_processors(self) -> tuple[Processor, ...]:
        """The processors that see each response, in order."""
        return tuple(step.run for step in self.response_steps)

    @property
    def request_steps(self) -> tuple[Step, ...]:
        """The request processors with their names."""
        return self.steps[_REQUEST]

    @property
    def response_steps(self) -> tuple[Step, ...]:
        """The response processors with their names."""
        return self.steps[_RESPONSE]

    def with_processor(
        self,
        processor: Processor,
        *,
        before: str | Processor | None = None,
        after: str | Processor | None = None,
        replace: str | Processor | None = None,
    ) -> Self:
        """A flow with one more `processor`, or one in another's place; without a place it is put last.

        `before`, `after` or `replace` gives the place, by name or by the processor that is there, on the request or the
        response side.

        Raises `PipelineError` for an unknown place, or more than one.
        """
        places = [place for place in (before, after, replace) if place is not None]
        if len(places) > 1:
            raise PipelineError("Give one of `before`, `after` and `replace`, not several.")
        if not places:
            return self._with(_REQUEST, [*self.request_processors, processor])
        side, index = self._find(places[0])
        processors = [step.run for step in self.steps[side]]
        if replace is not None:
            processors[index] = processor
        else:
            processors.insert(index + (after is not None), processor)
        return self._with(side, processors)

    def without(self, name: str | Processor) -> Self:
        """A flow without one of its processors, given by `name` or itself. Raises `PipelineError` if it is not
        there."""
        side, index = self._find(name)
        steps = self.steps[side]
        return self._with(side, [step.run for step in (*steps[:index], *steps[index + 1 :])])

    def with_response_processor(self, processor: Processor) -> Self:
        """A flow with one more response processor, `processor`, put last."""
        return self._with(_RESPONSE, [*self.response_processors, processor])

    def with_callbacks(self, callbacks: FlowCallbacks) -> Self:
        """A flow that also asks `callbacks`, after its own."""
        flow = copy(self)  # its processors are not looked at again
        flow.callbacks += callbacks
        return flow

    def _find(self, wanted: str | Processor) -> tuple[int, int]:
        """The side of a processor, and its index there."""
        found = [(side, index, step) for side in (_RESPONSE, _REQUEST) for index, step in enumerate(self.steps[side])]
        for side, index, step in found:
            if step.name == wanted or step.run is wanted:
                return side, index
        name = wanted if isinstance(wanted, str) else name_of(wanted)
        names = closest_first(name, [step.name for _, _, step in found])
        raise PipelineError(f"The flow has no processor `{name}`. It has: {quoted_list(names)}.")

    def _with(self, side: int, processors: Sequence[Processor]) -> Self:
        """A flow with these processors on one side."""
        sides = [self.request_processors, self.response_processors]
        sides[side] = tuple(processors)
        return type(self)(*sides, callbacks=self.callbacks)

    def __str__(self) -> str:
        request, response = ([(step.name, _first_line(step.run)) for step in steps] for _, steps in self._sides())
        width = max((len(name) for name, _ in (*request, *response)), default=0)
        tools = "(tools)", "The calls in the answer, at once; then from 1 again, or hand over."
        rows = enumerate([*request, ("(model)", "One model call."), *response, tools], 1)
        lines = ["Flow", *(f"{number:>4}  {name:<{width}}  {told}".rstrip() for number, (name, told) in rows)]
        hooks = {name: len(asked) for name, asked in self.callbacks._asdict().items()}
        given = [f"{hook} × {count}" for hook, count in hooks.items() if count]
        return "\n".join([*lines, *([f"      callbacks: {', '.join(given)}"] if given else [])])

    def __repr__(self) -> str:
        return line(["Flow of", " and ".join(count(len(steps), f"{side} processor") for side, steps in self._sides())])

    def _repr_html_(self) -> str:
        rows = [(side, step.name, _first_line(step.run)) for side, steps in self._sides() for step in steps]
        return table("Flow", rows, ("side", "processor", "what it does"))

    def _sides(self) -> tuple[tuple[str, tuple[Step, ...]], ...]:
        return ("request", self.request_steps), ("response", self.response_steps)

    # -- running -----------------------------------------------------------------------------------

    def run(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """The agent's turn: steps until a final event, handing over included; no agent callbacks (spec §1.3).

        Events are stored in the session before they are yielded, unless a flow further out does that.
        """
        return run_agent(ctx, lambda inner: LlmTurn(inner, self))

    def run_one_step(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """One model call with all that belongs to it: processors, tool calls, handing over (spec §2)."""
        return run_agent(ctx, lambda inner: LlmTurn(inner, self, single_step=True))

    async def assemble(self, ctx: InvocationContext) -> Assembly:
        """The request side only: the request as the model would get it, and who wrote what. The model is not asked.

        It is the first half of a step, for real: callbacks before the model have their say, tools that the message
        confirms are run, and the events of processors are stored in the session. `explain` changes nothing.
        """
        from flowloom.inspection.assembly import Recording, rehearsal_of, rehearse  # a room above, loaded when used

        recording = Recording()
        inner = ctx.model_copy(update={"run": rehearsal_of(ctx.run, recording)})
        events = self.run_one_step(inner)
        await rehearse(events, inner if ctx.recorded else None)
        return recording.assembly(ctx.agent.name)


def _first_line(processor: Any) -> str:
    documentation: str | None = processor.__doc__ if hasattr(processor, "__name__") else type(processor).__doc__
    return (documentation or "").strip().split("\n")[0]
