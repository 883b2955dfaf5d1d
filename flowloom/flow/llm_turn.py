"""`LlmTurn`: the turn of an agent with a model, step by step (spec §1, §2)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Protocol

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.hooks import FlowCallbacks
from flowloom.context.progress import Progress, is_from_agent_tool
from flowloom.context.protocols import AnyLlmAgent
from flowloom.errors import CallbackError, Halt, IncompleteStreamError, LimitExceededError
from flowloom.events.event import UNFIT_OUTPUT, Event
from flowloom.events.requests import RESERVED_CALLS
from flowloom.events.wire import replace
from flowloom.flow.delegation import delegated_calls, delegated_context, ends_turn, unresolved_tasks
from flowloom.flow.ending import error_event
from flowloom.flow.forwarding import run_tools_forwarding_events
from flowloom.flow.handover import answer_of_task, place_of_target
from flowloom.flow.limits import ask_to_summarise
from flowloom.flow.model_call import ONLY_THOUGHTS, ModelCall, is_thought_only
from flowloom.flow.observed import observed
from flowloom.flow.output import ask_again, has_form, keep_answer, no_answer
from flowloom.flow.pipeline import Step, StoppedAt, events_of, explain, response_events, run_response_steps, with_extra
from flowloom.flow.step_result import StepResult
from flowloom.flow.turn import AGAIN, OVER, WAITING, Enter, Events, Outcome, Turn
from flowloom.flow.waiting import awaits_more
from flowloom.log.marks import AGENT_ENDED, HOST_CALLS, REPEATED
from flowloom.models.request import LlmRequest
from flowloom.processors.agent_transfer import transfer_problem
from flowloom.processors.model_choice import model_of
from flowloom.processors.output_schema import refusal_in
from flowloom.tools.calls import run_calls
from flowloom.tools.confirmation import follow_ups
from flowloom.tools.delegation import FINISH_TASK, task_result
from flowloom.tools.output import SET_MODEL_RESPONSE

if TYPE_CHECKING:
    from flowloom.telemetry import Recorder

MAX_THOUGHT_TURNS = 3
"""How many steps of nothing but thoughts a model may take in a row (decision 2)."""
_NEVER_PAUSED = ("transfer_to_agent", SET_MODEL_RESPONSE, FINISH_TASK, *RESERVED_CALLS)
"""Calls that are between the model and the flow, and no client's to execute."""
_REACHED = ("", "limit of the run")
"""What `Run.done_once` holds when an agent has reached a limit of the run, so that no other one has a final step."""


class Pipeline(Protocol):
    """A flow, as a turn knows it."""

    @property
    def steps(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]: ...
    @property
    def callbacks(self) -> FlowCallbacks: ...


class LlmTurn(Turn):
    """The turn of an agent with a model. A step builds a request, asks the model, and runs the calls in its answer.

    With `alone`, it is the flow's work alone: without the agent's callbacks. With `single_step`, it ends after one.
    """

    final_step: LimitExceededError | None = None
    """The limit that was reached, when the agent has one more step to sum up."""
    thoughts: int = 0
    """How many steps in a row have given nothing but thoughts."""
    refusals: int = 0
    """How many answers of this turn did not have the form that they have to have."""
    structured: bool = False
    """Whether the agent's answer has to be of a certain form."""
    keeps: bool = False
    """Whether something is made of the agent's final answer."""
    decisions_first: bool = False
    """Whether what people have decided comes before the delegated calls, in a step without the model."""
    _steps: tuple[tuple[Step, ...], tuple[Step, ...]] | None = None

    def __init__(
        self, ctx: InvocationContext, flow: Pipeline, *, alone: bool = False, single_step: bool = False
    ) -> None:
        super().__init__(ctx)
        assert ctx.llm_agent is not None
        self.llm: AnyLlmAgent = ctx.llm_agent
        self.flow = flow
        self.single_step = single_step
        self.delegated: deque[types.FunctionCall] = deque()
        """Calls of agents that are to run before the next step."""
        if alone:
            self.bare = True
        if has_form(self.llm):
            self.structured = self.keeps = True
        elif self.llm.output_key:
            self.keeps = True

    @property
    def steps(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """The processors of the turn, of the request and of the response; wrapped for the observers of the run."""
        if self._steps is None:
            self._steps, run = self.flow.steps, self.ctx.run
            if run.extra_steps:
                self._steps = with_extra(self._steps[0], run.extra_steps), self._steps[1]
            if run.observers:
                request, response = self._steps
                self._steps = observed(request, run.observers), observed(response, run.observers)
        return self._steps

    def enter(self) -> None:
        self.ctx.callbacks = self.flow.callbacks
        if self.agent.sub_agents:
            self.delegated.extend(unresolved_tasks(self.ctx))
            self.decisions_first = bool(self.delegated) and self.ctx.resumed
            if self.delegated and not self.decisions_first:
                self.outcome = self._delegate()

    def answered_before(self, event: Event) -> Event:
        event = self._finished(StepResult(), event)
        if UNFIT_OUTPUT in (event.custom_metadata or ()):
            raise CallbackError(
                f"`before_agent` of agent `{self.agent.name}` answered what does not fit the agent's output "
                f"schema. {refusal_in(event)} Answer JSON of that form, or raise what is to end the run."
            )
        return event

    # -- a step -----------------------------------------------------------------------------------

    async def step(self, spans: Recorder | None) -> Events:
        """The request, the model, its tool calls (spec §2)."""
        ctx, request = self.ctx, LlmRequest.empty(None)
        request_steps, response_steps = self.steps
        self.last = None
        result, call = StepResult(), None
        try:
            stopped_at = self._build(request_steps, result, request)
            if stopped_at is not None:
                async with aclosing(self._build_rest(request_steps, stopped_at, result, request)) as events:
                    async for event in events:
                        yield event
            call = self._model_call(result, request, spans)
            while call is not None and (response := await call.next()) is not None:
                stopped_at = run_response_steps(response_steps, ctx, request, response)
                if stopped_at is not None:
                    async with aclosing(response_events(response_steps, stopped_at, ctx, request, response)) as events:
                        async for event in events:
                            yield self._noted(result, call.told_by(event, response))
                event = call.event(response)
                if event is None:
                    continue
                yield (event := self._noted(result, self._finished(result, event)))
                if not result.answered and _has_calls(event):
                    async with aclosing(self._run_tools(event, request, result)) as events:
                        async for answer in events:
                            yield answer
                if result.answered:
                    break
        except LimitExceededError as error:
            result.limit = error
        finally:
            if call is not None:
                await call.close()
        for event in self._concluded(result):
            yield event

    def _build(self, steps: tuple[Step, ...], result: StepResult, request: LlmRequest) -> StoppedAt | None:
        """The request side as plain calls, up to a processor that has produced something to be awaited or yielded."""
        ctx, step = self.ctx, None
        try:
            for step in steps:
                produced = step.run(ctx, request)
                if produced is not None:
                    return steps.index(step), produced
                if ctx.end_invocation:
                    break
        except Exception as error:
            assert step is not None
            self._halted(error, step, result)
        return None

    async def _build_rest(
        self, steps: tuple[Step, ...], stopped_at: StoppedAt, result: StepResult, request: LlmRequest
    ) -> Events:
        """The request side from a processor on that has produced something."""
        ctx, (first, produced) = self.ctx, stopped_at
        for step in steps[first:]:
            try:
                if produced is None:
                    produced = step.run(ctx, request)
                if produced is not None:
                    async with aclosing(events_of(produced, ctx, step)) as made:
                        async for event in made:
                            yield self._took(result, event)
            except Exception as error:
                self._halted(error, step, result)
            produced = None
            if result.halted_by or ctx.end_invocation:
                return

    def _halted(self, error: Exception, step: Step, result: StepResult) -> None:
        """A processor has raised: a `Halt` ends the request side, anything else the run."""
        explain(error, self.ctx, step)
        if not isinstance(error, Halt):
            raise error
        result.halted_by = error.processor

    def _took(self, result: StepResult, event: Event) -> Event:
        """An event of a request processor: the results of a confirmed tool, say."""
        event = self._noted(result, keep_answer(self.ctx, self.llm, event) if self.keeps else event)
        result.waiting = result.waiting or is_from_agent_tool(event)
        result.transfer_to = event.actions.transfer_to_agent or result.transfer_to
        result.gave_output = result.gave_output or event.id in (self.ctx.run.outputs or ())
        return event

    def _model_call(self, result: StepResult, request: LlmRequest, spans: Recorder | None) -> ModelCall | None:
        """The call of the model with the request; None if the model is not to be asked."""
        if not self._wants_model(result):
            return None
        if self.final_step is not None:
            ask_to_summarise(self.ctx, request, self.final_step)
        return ModelCall(self.ctx, request, spans, counts=self.final_step is None)

    def _wants_model(self, result: StepResult) -> bool:
        """Whether the model is to be called, now that the request is built.

        Not when a processor halted, or when what it emitted (the results of a confirmed tool) ends the step itself.
        """
        if self.decisions_first or self.ctx.end_invocation:
            return False
        if result.halted_by or result.transfer_to or result.gave_output or result.waiting or result.unfit is not None:
            return False
        last = result.last
        if last is not None:
            if last.actions.skip_summarization or last.long_running_tool_ids:
                return False
            # calls that were marked as made again have been made, and have no result yet
            result.waiting = REPEATED in (last.actions.agent_state or ())
        result.waiting = result.waiting or awaits_more(self.ctx)
        return not result.waiting

    def _noted(self, result: StepResult, event: Event) -> Event:
        """Take an event of this step into account."""
        if event.partial:
            result.open_partial = True
            return event
        result.open_partial = False
        result.last = self.last = event
        if event.actions.escalate:
            self.ctx.escalated = True
        if self.structured:
            wrong = refusal_in(event)
            if wrong is not None:
                result.unfit, self.refusals = wrong, self.refusals + 1
        if self.task is not None:
            self._take_output(event)
        return event

    def _take_output(self, event: Event) -> None:
        """Note what a delegated turn has come to."""
        if event.author != self.agent.name:
            return
        if self.llm.mode == "task":
            result = task_result(event)
            if result is not None:
                self.output = result
        elif event.is_final_response() and event.text.strip() and not (self.structured and event.actions.end_of_agent):
            self.output = event.text

    def _finished(self, result: StepResult, event: Event) -> Event:
        """An event as it is yielded: its calls may wait for the client, its text may be the agent's answer."""
        if event.partial:
            return event
        if self.ctx.run.config.pause_on_tool_calls and self._pauses_at(event):
            result.answered = True
            return _paused(event)
        return keep_answer(self.ctx, self.llm, event) if self.keeps else event

    def _pauses_at(self, event: Event) -> bool:
        """Whether the run is to stop before the calls of an event, which the client executes."""
        if event.author != self.agent.name or self.final_step is not None:
            return False
        wanted = self.ctx.run.config.pause_on_tool_calls
        calls = [call for call in event.get_function_calls() if call.name not in _NEVER_PAUSED]
        return bool(calls) and (wanted is True or any(call.name in (wanted or ()) for call in calls))

    # -- tool calls -------------------------------------------------------------------------------

    async def _run_tools(self, event: Event, request: LlmRequest, result: StepResult) -> Events:
        """Run the calls of a complete model event (spec §2.6). Raises the error of a call that ends the run."""
        ctx, run = self.ctx, self.ctx.run
        if self.final_step is not None:
            result.answered = True
            for refusal in run.refusals_of(ctx, str(self.final_step)):
                yield refusal
            return
        calls, tools = event.get_function_calls(), request.tools_dict
        if run.config.forward_agent_tool_events:
            running, forwarded = run_tools_forwarding_events(ctx, calls, tools)
            async with aclosing(forwarded):
                async for inner in forwarded:
                    yield inner
            results = await running
        else:
            results = await run_calls(ctx, calls, tools, None, transfer_problem)
        if results.event is not None:
            result.transfer_to = results.event.actions.transfer_to_agent
            yield self._noted(result, results.event)
            for further in follow_ups(ctx, _parts_of(event), results.event):
                yield self._noted(result, self._finished(result, further))
        for waiting in results.waiting:
            yield waiting
        if self.agent.sub_agents:
            self.delegated.extend(delegated_calls(calls, tools, results.event))
        if results.error is not None:
            raise results.error
        result.waiting = bool(results.waiting)
        has_results = results.event is not None and results.event.content is not None
        result.answered = has_results or bool(self.delegated) or result.waiting

    # -- what follows -----------------------------------------------------------------------------

    def _concluded(self, result: StepResult) -> Sequence[Event]:
        """Set the outcome of a step; what follows from it at once.

        Raises what ends the run: `IncompleteStreamError`, a limit that is to raise, and `ModelResponseError` after too
        many unfit answers.
        """
        if result.limit is not None:
            return self._at_limit(result.limit)
        steps, path = self.ctx.run.steps, self.ctx.path
        steps[path] = steps.get(path, 0) + 1
        if result.unfit is not None:
            retry = None if self.final_step else ask_again(self.ctx, self.llm, result.last, self.refusals)
            if retry is None:
                self._give_up(result.unfit, result.last)
            if retry or self.failure is not None:
                self.outcome = OVER if self.failure is not None or self.single_step else AGAIN
                return retry or ()
        if self.final_step is not None and self.final_step.agent is None:
            self.ctx.run.stop, self.ctx.run.stopped = "limit", True
        self.outcome = self.rule(result)
        return self._only_thoughts() if self.thoughts > MAX_THOUGHT_TURNS else ()

    def rule(self, result: StepResult) -> Outcome | Enter:
        """What follows from a step; the first that holds (spec §1.3). Raises `IncompleteStreamError`."""
        if self.final_step is not None:
            return OVER
        if self.decisions_first:
            self.decisions_first = False
            return OVER if self.single_step else self._delegate()
        if result.waiting:
            return WAITING
        if result.transfer_to is not None:
            return Enter(place_of_target(self.ctx, result.transfer_to))
        if self.delegated:
            return OVER if self.single_step else self._delegate()
        if result.halted_by or self.ctx.end_invocation:
            return OVER
        if result.open_partial:
            raise IncompleteStreamError(
                f"The model of agent `{self.agent.name}` ended its stream on a partial response: the complete one "
                f"never came. The connection may have broken, or the output limit was reached.",
                model=model_of(self.ctx).model,
            )
        return self._rule_on(result.last)

    def _rule_on(self, last: Event | None) -> Outcome:
        """What the latest event of a step, or of the turn that it entered, says."""
        if last is None:
            return OVER
        if is_thought_only(last) and not last.error_code:
            self.thoughts += 1
            return OVER if self.thoughts > MAX_THOUGHT_TURNS or self.single_step else AGAIN
        self.thoughts = 0
        if ends_turn(last):
            return WAITING if last.long_running_tool_ids else OVER
        return OVER if self.single_step else AGAIN

    def _only_thoughts(self) -> Sequence[Event]:
        """The event that ends a turn of nothing but thoughts."""
        told = f"The model of agent `{self.agent.name}` gave nothing but thoughts {self.thoughts} times in a row."
        self.thoughts = 0
        if self.structured and self.llm.mode != "task":
            self._give_up(told, None)
        return (self.note(self.ctx.new_event({"error_code": ONLY_THOUGHTS, "error_message": told})),)

    def _give_up(self, wrong: str, last: Event | None) -> None:
        """End a turn that has come to no structured answer: the caller of the agent is told, else the run fails."""
        error = no_answer(self.ctx, self.llm, self.refusals, wrong, last)
        if self.task is None:
            raise error
        self.failure = str(error)

    def _at_limit(self, error: LimitExceededError) -> Sequence[Event]:
        """A limit was reached: raise it, end the turn, or have the agent sum up; the history stays legal."""
        if error.on_limit == "raise":
            raise error
        ctx, run = self.ctx, self.ctx.run
        events = run.refusals_of(ctx, str(error))
        if error.agent is None:
            if _REACHED in run.done_once:  # an agent of another branch has the last word
                run.stopped = True
                return events
            run.done_once |= {_REACHED}
        if error.on_limit == "summarise":
            self.final_step = error
            return events
        if error.agent is None:
            event = error_event(ctx, error, "limit")
            run.stop, run.stopped = "limit", True
        else:
            event = error_event(ctx, error, "limit", AGENT_ENDED)
            self.outcome = OVER
        return [*events, self.note(event)]

    # -- agents that this one hands over or delegates to ------------------------------------------

    def _delegate(self) -> Enter:
        """The turn of the sub-agent that the next delegated call is for."""
        task = self.delegated.popleft()
        return Enter(delegated_context(self.ctx, task), task)

    def returned(self, below: Turn) -> Iterable[Event]:
        if below.task is not None:
            return self._task_returned(below, below.task)
        super().returned(below)
        if self.outcome is AGAIN:  # the same rule applies to the last event of the other agent
            self.outcome = OVER if self.single_step else self._rule_on(self.last)
        return ()

    def _task_returned(self, below: Turn, task: types.FunctionCall) -> Iterable[Event]:
        answer = answer_of_task(self.ctx, task, below)
        if answer is None:
            self.ctx.run.leave_open(task.id, *(call.id for call in self.delegated))
            self.outcome = WAITING
            return ()
        self.outcome = self._delegate() if self.delegated else AGAIN
        return (self.note(answer),)

    # -- resuming ---------------------------------------------------------------------------------

    def recall(self, own: Sequence[Event]) -> None:
        super().recall(own)
        if self.task is not None:
            for event in own:
                self._take_output(event)
        if self.structured:
            self.refusals = sum(refusal_in(event) is not None for event in own)

    def _knows_how_far(self, progress: Progress, own: Sequence[Event]) -> bool:
        return True


def _has_calls(event: Event) -> bool:
    """Whether a model event asks for tools to be run."""
    if event.partial or event.content is None:
        return False
    for part in event.content.parts or ():  # noqa: SIM110 - a generator costs more than the look
        if part.function_call is not None:
            return True
    return False


def _parts_of(event: Event) -> Sequence[types.Part]:
    return (event.content.parts if event.content is not None else None) or ()


def _paused(event: Event) -> Event:
    """An event with its calls marked as those that the client executes."""
    all_ids = [call.id for call in event.get_function_calls() if call.name not in RESERVED_CALLS]
    by_themselves = event.long_running_tool_ids or ()
    marked = {HOST_CALLS: [call_id for call_id in all_ids if call_id not in by_themselves]}
    metadata = {**(event.custom_metadata or {}), **marked}
    return replace(event, long_running_tool_ids=all_ids, custom_metadata=metadata)
