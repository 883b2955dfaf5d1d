"""`ProcessorSuite`: what every processor promises (contract "Processor")."""

from __future__ import annotations

import json
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import aclosing
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, ClassVar, cast

import pytest

from flowloom.agents import LlmAgent
from flowloom.context import DirectEffects, InvocationContext, RunConfig, StreamingMode
from flowloom.errors import PipelineError, ProcessorError
from flowloom.events import Event, LlmResponse
from flowloom.flow import Flow
from flowloom.flow.pipeline import Processor, Step, events_of, name_of
from flowloom.models import LlmRequest
from flowloom.testing.scripted import ScriptedModel
from flowloom.testing.suites.loop import Suite, assert_no_tasks, in_loop, other_tasks
from flowloom.testing.suites.processor_inputs import (
    CALLS,
    EMPTY,
    FILES,
    FIRST_MESSAGE,
    LONG,
    RESPONSES,
    SITUATIONS,
    Situation,
    default_agent,
)
from flowloom.testing.suites.toolset import declared_in


class ProcessorSuite(Suite):
    """The rules of processors. Subclass it in a test module, and make your processor:

    ```python
    from flowloom.testing.suites import ProcessorSuite


    class TestMyProcessor(ProcessorSuite):
        def make_processor(self) -> Processor:
            return MyProcessor(limit=3)
    ```

    It is tried in the default flow: in the place of the processor of its name, or else last. Define `make_flow` to
    put it elsewhere, `make_agent` if it needs an agent of a certain kind. The agent's model is not asked: answers are
    taken from `responses`. Set `response_side = True` for a processor of responses.
    """

    response_side: ClassVar[bool] = False
    """Whether the processor takes `(ctx, request, response)`."""
    may_drop_tools: ClassVar[bool] = False
    """Whether it is what the processor is for, to take declared tools out of the request or to sort them."""
    responses: ClassVar[Sequence[LlmResponse]] = RESPONSES
    """What the model answers; each is tried."""

    def make_processor(self) -> Processor | Awaitable[Processor]:
        """The processor to be checked, made anew for each test."""
        raise NotImplementedError(f"{type(self).__name__} has to define `make_processor(self)`.")

    def make_agent(self) -> LlmAgent:
        """The agent whose requests the processor works on, made anew for each request."""
        return default_agent()

    def make_flow(self, processor: Processor) -> Flow:
        """The flow in which `processor` is tried."""
        flow, name = Flow(), name_of(processor)
        steps = flow.response_steps if self.response_side else flow.request_steps
        if any(step.name == name for step in steps):
            return flow.with_processor(processor, replace=name)
        return flow.with_response_processor(processor) if self.response_side else flow.with_processor(processor)

    # -- in a flow ---------------------------------------------------------------------------------

    @in_loop
    async def test_a_flow_takes_it_by_a_name_of_its_own(self) -> None:
        """A flow can be built with the processor, which has a name that traces and tests can call it by."""
        processor = await self._processor()
        try:
            name = name_of(processor)
            printed = str(self.make_flow(processor))
        except PipelineError as error:
            raise AssertionError(f"No flow can be built with the processor: {error}") from None
        assert name not in ("", "<lambda>", "partial"), (
            f"The processor is named {name!r}. Give it a `name`, or make it a function with a name or a class."
        )
        assert f" {name} " in f"{printed} ".replace("\n", " "), f"The printed flow does not show `{name}`:\n{printed}"

    @in_loop
    async def test_it_runs_on_an_empty_history(self) -> None:
        """Neither a message nor any event has to be there."""
        await self._try_all(EMPTY)

    @in_loop
    async def test_it_runs_on_a_first_message(self) -> None:
        """The history may be one message."""
        await self._try_all(FIRST_MESSAGE)

    @in_loop
    async def test_it_runs_on_a_long_history(self) -> None:
        """The history may be long, with thoughts, other agents, errors, changes of state, and branches."""
        await self._try_all(LONG)

    @in_loop
    async def test_it_runs_on_files(self) -> None:
        """The history may hold inline data and files, with and without names."""
        await self._try_all(FILES)

    @in_loop
    async def test_it_runs_on_calls_and_results(self) -> None:
        """The history may hold calls and their results, some of them failed, late, or waiting for somebody."""
        await self._try_all(CALLS)

    # -- what it does ------------------------------------------------------------------------------

    @in_loop
    async def test_it_emits_events_only_and_one_final_at_most(self) -> None:
        """What comes of a call is nothing or events; at most one of them ends the turn."""
        for situation in SITUATIONS:
            for trial in await self._try_all(situation):
                for emitted in trial.emitted:
                    finals = [event for event in emitted if event.content is not None and event.is_final_response()]
                    assert len(finals) <= 1, (
                        f"One call on {situation.name} emitted {len(finals)} events that end the turn: "
                        f"{[event.text for event in finals]}."
                    )

    @in_loop
    async def test_stored_events_are_not_changed(self) -> None:
        """The events of the session are shared, and nobody's to change; `request.contents` are the request's own."""
        for situation in SITUATIONS:
            for trial in await self._try_all(situation):
                assert trial.after[: len(trial.before)] == trial.before, (
                    f"On {situation.name}, stored events were changed: {_first_difference(trial.before, trial.after)}"
                )

    @in_loop
    async def test_the_agent_is_not_changed(self) -> None:
        """The agent's settings are those of all its runs; a processor writes to the request."""
        for situation in SITUATIONS:
            for trial in await self._try_all(situation):
                for name, value in trial.agent_before.items():
                    now = trial.agent_after[name]
                    assert now == value, (
                        f"On {situation.name}, `{name}` of the agent was changed: {value} became {now}."
                    )

    @in_loop
    async def test_the_same_input_gives_the_same_request(self) -> None:
        """Nothing is kept from call to call, or differs between two processors that were made alike."""
        processor = await self._processor()
        for situation in SITUATIONS:
            first = outcome_of(await self._try_all(situation, processor))
            between = FIRST_MESSAGE if situation is LONG else LONG
            await self._run(between, self.make_flow(processor), self.responses[0])
            again = outcome_of(await self._try_all(situation, processor))
            other = outcome_of(await self._try_all(situation))
            for which, outcome in (("after another input", again), ("from a second processor", other)):
                assert outcome == first, (
                    f"{which.capitalize()}, {situation.name} gave something else: {_first_difference(first, outcome)}"
                )

    @in_loop
    async def test_declared_tools_stay_in_their_order(self) -> None:
        """The tools that are declared without the processor are declared with it, in the same order."""
        if self.response_side or self.may_drop_tools:
            pytest.skip("the processor works on responses, or it is there to change the tools")
        for situation in SITUATIONS:
            processor = await self._processor()
            flow = self.make_flow(processor)
            without = await self._run(situation, flow.without(name_of(processor)), self.responses[0])
            [with_it, *_] = await self._try_all(situation, processor)
            if with_it.request is None or without.request is None:
                continue
            before = [declared.name for declared in declared_in(without.request)]
            after = [declared.name for declared in declared_in(with_it.request)]
            kept = [name for name in after if name in before]
            assert kept == before, f"On {situation.name}, the declared tools {before} became {after}."

    @in_loop
    async def test_declared_tools_can_be_found(self) -> None:
        """A tool that is declared to the model is in `tools_dict`, or its calls cannot be answered."""
        for situation in SITUATIONS:
            for trial in await self._try_all(situation):
                if trial.request is None:
                    continue
                names = [declared.name for declared in declared_in(trial.request)]
                lost = [name for name in names if name not in trial.request.tools_dict]
                assert not lost, f"On {situation.name}, {lost} are declared, but not in `tools_dict`."

    # -- the end -----------------------------------------------------------------------------------

    @in_loop
    async def test_it_leaves_no_task(self) -> None:
        """When the step is over, all that the processor started has ended."""
        for situation in SITUATIONS:
            before = other_tasks()
            await self._try_all(situation)
            await assert_no_tasks("A processor has to end the tasks that it starts.", before)

    @in_loop
    async def test_a_consumer_may_leave_early(self) -> None:
        """Whoever stops listening at the processor's first event is let go at once, and no task stays behind."""
        for situation in SITUATIONS:
            processor, before = await self._processor(), other_tasks()
            probe = Probe(processor)
            ctx = self._context(situation, self.responses[0])
            await ctx.start()
            flow = self.make_flow(processor).with_processor(probe, replace=processor)
            try:
                async with aclosing(flow.run_one_step(ctx)) as events:
                    async for _ in events:
                        if any(probe.emitted):
                            break
            except RuntimeError as error:
                raise AssertionError(f"On {situation.name}, the processor cannot be left early: {error}") from error
            await assert_no_tasks("A processor that is left early has to end the tasks that it starts.", before)

    # -- trying ------------------------------------------------------------------------------------

    async def _processor(self) -> Processor:
        return await self.opened(self.make_processor())

    def _context(self, situation: Situation, response: LlmResponse, *, streamed: bool = False) -> InvocationContext:
        config = RunConfig(streaming_mode=StreamingMode.SSE if streamed else StreamingMode.NONE)
        ctx = InvocationContext(
            agent=self.make_agent(),
            session=situation.session(),
            invocation_id="e-suite",
            user_content=deepcopy(situation.message),
            run_config=config,
            effects=StillEffects(),
        )
        ctx.model = ScriptedModel([response], stream_chunks=True)
        return ctx

    async def _try_all(self, situation: Situation, processor: Processor | None = None) -> list[Trial]:
        """One step for each kind of answer; for a processor of responses, streamed and not."""
        processor = processor or await self._processor()
        flow = self.make_flow(processor)
        responses = self.responses if self.response_side else self.responses[:1]
        trials: list[Trial] = []
        for response in responses:
            for streamed in (False, True) if self.response_side else (False,):
                probe = Probe(processor)
                probed = flow.with_processor(probe, replace=processor)
                trials.append(await self._run(situation, probed, response, probe, streamed=streamed))
                assert probe.emitted, f"On {situation.name}, the processor was not reached; is its flow in order?"
        return trials

    async def _run(
        self,
        situation: Situation,
        flow: Flow,
        response: LlmResponse,
        probe: Probe | None = None,
        *,
        streamed: bool = False,
    ) -> Trial:
        ctx = self._context(situation, response, streamed=streamed)
        await ctx.start()
        trial = Trial([] if probe is None else probe.emitted, _dumped(ctx), _settings(ctx))
        try:
            trial.yielded = [event async for event in flow.run_one_step(ctx)]
        except ProcessorError as error:
            raise AssertionError(str(error)) from error
        trial.after, trial.agent_after = _dumped(ctx), _settings(ctx)
        trial.request = next(iter(cast(ScriptedModel, ctx.model).requests), None)
        return trial


class Probe:
    """Stands in a flow for a processor, and keeps what it emitted in each call."""

    def __init__(self, processor: Processor) -> None:
        self.processor = processor
        self.name = name_of(processor)
        self.emitted: list[list[Event]] = []

    async def __call__(self, ctx: InvocationContext, *given: LlmRequest | LlmResponse) -> AsyncGenerator[Event, None]:
        emitted: list[Event] = []
        self.emitted.append(emitted)
        produced = self.processor(ctx, *given)
        async with aclosing(events_of(produced, ctx, Step(self.name, self.processor))) as events:
            async for event in events:
                emitted.append(event)
                yield event


@dataclass(slots=True)
class Trial:
    """One step, and what was there before and after."""

    emitted: list[list[Event]]
    """What came of each call of the processor."""
    before: list[str]
    agent_before: dict[str, str]
    after: list[str] = field(default_factory=list[str])
    agent_after: dict[str, str] = field(default_factory=dict[str, str])
    yielded: list[Event] = field(default_factory=list[Event])
    request: LlmRequest | None = None
    """The request as the model got it; None if the step ended before."""


def outcome_of(trials: Sequence[Trial]) -> list[str]:
    """What came of some steps, to be compared: the requests and the events."""
    lines: list[str] = []
    for trial in trials:
        lines.append("" if trial.request is None else trial.request.model_dump_json(exclude_none=True, fallback=repr))
        lines += [json.dumps(event.to_wire()) for event in trial.yielded]
    return lines


class StillEffects(DirectEffects):
    """A clock that stands still and ids that count, so that two steps can be compared."""

    def __init__(self) -> None:
        self._count = 0

    def now(self, ctx: InvocationContext) -> float:
        return 1_700_000_000.0

    def new_id(self, ctx: InvocationContext) -> str:
        self._count += 1
        return f"id-{self._count}"

    async def sleep(self, ctx: InvocationContext, seconds: float) -> None:
        return


def _dumped(ctx: InvocationContext) -> list[str]:
    return [json.dumps(event.to_wire()) for event in ctx.session.events]


def _settings(ctx: InvocationContext) -> dict[str, str]:
    """What a processor could change of an agent by mistake."""
    agent: Any = ctx.agent
    names: tuple[str, ...] = ("name", "instruction", "tools", "sub_agents", "generate_content_config", "output_schema")
    return {name: repr(getattr(agent, name)) for name in names}


def _first_difference(one: Sequence[str], other: Sequence[str]) -> str:
    for before, after in zip(one, other, strict=False):
        if before != after:
            at = next((i for i, (a, b) in enumerate(zip(before, after, strict=False)) if a != b), 0)
            start = max(0, at - 40)
            return f"...{before[start : at + 80]!r} became ...{after[start : at + 80]!r}"
    return f"{len(one)} became {len(other)}"
