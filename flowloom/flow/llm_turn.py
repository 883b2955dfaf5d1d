"""`LlmTurn`: the turn of an agent with a model, step by step (spec §1, §2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import TYPE_CHECKING

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.progress import Progress
from flowloom.context.protocols import AnyFlow, AnyLlmAgent
from flowloom.errors import CallbackError, Halt, IncompleteStreamError, LimitExceededError
from flowloom.events.event import UNFIT_OUTPUT, Event
from flowloom.events.parts import content_of, parts_of, response_part
from flowloom.flow.delegation import delegated_context, ends_turn, response_of_task, unresolved_tasks
from flowloom.flow.ending import error_event
from flowloom.flow.handover import place_of_target
from flowloom.flow.model_call import ONLY_THOUGHTS, ModelCall, is_thought_only
from flowloom.flow.observed import StepsOfTurn, steps_of
from flowloom.flow.output import can_be_asked_again, keep_answer, no_answer
from flowloom.flow.pipeline import run_steps
from flowloom.flow.tool_run import paused_at, pauses_at, resumed_run, tool_run
from flowloom.flow.turn import AGAIN, OVER, WAITING, Enter, Events, Outcome, Turn
from flowloom.flow.waiting import awaits_more
from flowloom.log.marks import AGENT_ENDED, is_from_agent_tool
from flowloom.models.request import LlmRequest
from flowloom.processors.model_choice import model_of
from flowloom.processors.output_schema import refusal_in, retry_event
from flowloom.tools.calls import CallResults
from flowloom.tools.confirmation import follow_ups
from flowloom.tools.delegation import task_result

if TYPE_CHECKING:
    from flowloom.telemetry import Recorder

MAX_THOUGHT_TURNS = 3
"""How many steps of nothing but thoughts a model may take in a row (decision 2)."""
_REACHED = ("", "limit of the run")
"""What `Run.done_once` holds when an agent has reached a limit of the run, so that no other one has a final step."""


@dataclass(slots=True, eq=False, repr=False)
class StepResult:
    """What a step has come to so far: `LlmTurn.rule` says what follows from it."""

    last: Event | None = None
    """The latest complete event."""
    open_partial: bool = False
    """Whether the latest event was partial."""
    transfer_to: str | None = None
    halted_by: str | None = None
    answered: bool = False
    """Whether the model is not listened to (any further): the calls of its latest answer have results, say, or a tool
    that was confirmed has given the structured final answer."""
    waiting: bool = False
    """Whether a call stays open: an agent that runs as a tool waits, or a client is to execute it."""
    cut_short: bool = False
    """Whether the run was stopped in an agent that this one has called: the step is not over."""
    tasks: Sequence[types.FunctionCall] = ()
    """Calls of `task` agents that have no result: they come, one after the other, before the next step."""
    unfit: str | None = None
    """What is wrong with the answer, if it is not of the form that it has to have."""
    limit: LimitExceededError | None = None
    """The limit that has ended the step."""


class LlmTurn(Turn):
    """The turn of an agent with a model. A step builds a request, asks the model, and runs the calls in its answer.

    With `single_step`, it ends after one.
    """

    tells_how_far = True

    def __init__(self, ctx: InvocationContext, flow: AnyFlow, *, single_step: bool = False) -> None:
        super().__init__(ctx)
        assert ctx.llm_agent is not None
        self.llm: AnyLlmAgent = ctx.llm_agent
        self.flow = flow
        self.single_step = single_step
        self.final_step: LimitExceededError | None = None
        """The limit that was reached, when the agent has one more step to sum up."""
        self.thoughts = 0
        """How many steps in a row have given nothing but thoughts."""
        self.refusals = 0
        """How many answers of this turn did not have the form that they have to have."""
        self.structured = self.llm.output_schema is not None or self.llm.mode == "task"
        """Whether the agent's answer has to be of a certain form."""
        self.keeps = self.structured or bool(self.llm.output_key)
        """Whether something is made of the agent's final answer."""

    def enter(self) -> None:
        if self.agent.sub_agents and not self.ctx.resumed:
            self.outcome = self._next_task() or AGAIN  # it may go on over many messages

    def answered_before(self, event: Event) -> Event:
        event = keep_answer(self.ctx, self.llm, event)
        if UNFIT_OUTPUT in (event.custom_metadata or ()):
            raise CallbackError(
                f"`before_agent` of agent `{self.agent.name}` answered what does not fit the agent's output "
                f"schema. {refusal_in(event)} Answer JSON of that form, or raise what is to end the run."
            )
        return event

    # -- a step -----------------------------------------------------------------------------------

    async def step(self, spans: Recorder | None) -> Events:
        """The request, the model, its tool calls (spec §2). Without the model, if an earlier run has left calls of
        sub-agents open: when what people have decided is done, they come first."""
        self.ctx.callbacks = self.flow.callbacks
        request, result = LlmRequest.empty(None), StepResult()
        steps = steps_of(self.llm, self.flow.steps, self.ctx.run)
        call = ModelCall(self.ctx, request, spans, steps)
        try:
            produced = self._events_before_model(steps, request, result)
            if produced is not None:
                async with aclosing(produced):
                    async for event in produced:
                        yield event
            result.answered = not self._wants_model(result)
            while not result.answered and (response := await call.next_response(self.final_step)) is not None:
                produced = run_steps(call.response_steps, self.ctx, request, response)
                if produced is not None:
                    async with aclosing(produced):
                        async for event in produced:
                            yield self._noted(result, call.told_by(event, response))
                event = call.event(response)
                if event is None:
                    continue
                yield (event := self._noted(result, self._finished(result, event)))
                if not call.has_calls or result.answered:  # by errors or by the client, and not here
                    continue
                running, forwarded = tool_run(self.ctx, event.get_function_calls(), request.tools_dict)
                if forwarded is not None:
                    async with aclosing(forwarded):
                        async for inner in forwarded:
                            yield inner
                for answer in self._answers(result, event, await running):
                    yield answer
        except LimitExceededError as error:
            result.limit = error
        finally:
            await call.close()
        for event in self._concluded(result):
            yield event

    def _events_before_model(self, steps: StepsOfTurn, request: LlmRequest, result: StepResult) -> Events | None:
        """Build the request; the events of that, and of what is resumed. None if there are none, as usual."""
        try:
            produced = run_steps(steps.request, self.ctx, request)
        except Halt as halt:
            produced, result.halted_by = None, halt.processor
        return None if produced is None and not self.ctx.resumed else self._produced(produced, result)

    async def _produced(self, produced: Events | None, result: StepResult) -> Events:
        """The events of the request processors (the results of a confirmed tool, say), and then of the calls that are
        resumed."""
        if produced is not None:
            try:
                async with aclosing(produced):
                    async for event in produced:
                        event = self._noted(result, keep_answer(self.ctx, self.llm, event))
                        result.waiting = result.waiting or is_from_agent_tool(event)
                        result.answered = result.answered or event.id in (self.ctx.run.outputs or ())
                        yield event
                        result.transfer_to = self.ctx.run.ledger.handovers.get(event.id, result.transfer_to)
            except Halt as halt:
                result.halted_by = halt.processor
        if self.ctx.resumed:
            async with aclosing(self._resume_single_turns(result)) as resumed:
                async for event in resumed:
                    yield event

    def _wants_model(self, result: StepResult) -> bool:
        """Whether the model is to be called, now that the request is built.

        Not when a processor halted, or when what it emitted (the results of a confirmed tool) ends the step itself.
        """
        if result.answered or result.tasks or self.ctx.end_invocation or result.halted_by:
            return False
        last = result.last
        if last is not None:
            if result.transfer_to or result.waiting or result.unfit is not None:
                return False
            if last.actions.skip_summarization or last.long_running_tool_ids or task_result(last) is not None:
                return False
        progress = self.ctx.run.progress
        result.waiting = progress is not None and awaits_more(self.ctx, progress)
        return not result.waiting

    def _noted(self, result: StepResult, event: Event) -> Event:
        """Take an event of this step into account."""
        result.open_partial = bool(event.partial)
        if event.partial:
            return event
        result.last = self.note(event)
        if self.structured and (wrong := refusal_in(event)) is not None:
            result.unfit, self.refusals = wrong, self.refusals + 1
        return event

    def _finished(self, result: StepResult, event: Event) -> Event:
        """An event as it is yielded: its calls may wait for the client, its text may be the agent's answer."""
        if event.partial:
            return event
        if self.final_step is not None:
            result.answered = bool(event.get_function_calls())  # with errors, when the step is over
        elif self.ctx.run.config.pause_on_tool_calls and pauses_at(self.ctx, event):
            result.answered = True
            return paused_at(event)
        return keep_answer(self.ctx, self.llm, event) if self.keeps else event

    # -- tool calls -------------------------------------------------------------------------------

    def _answers(self, result: StepResult, event: Event, results: CallResults) -> Iterator[Event]:
        """What has come of the calls of an event. Raises the error of a call that ends the run."""
        if results.event is not None:
            result.transfer_to = results.event.actions.transfer_to_agent
            yield self._noted(result, self._finished(result, results.event))
            for further in follow_ups(self.ctx, parts_of(event.content), results.event):
                yield self._noted(result, self._finished(result, further))
        yield from results.waiting
        if results.error is not None:
            raise results.error
        result.waiting = bool(results.waiting)
        self._note_open_calls(result)
        has_results = results.event is not None and results.event.content is not None
        result.answered = has_results or bool(result.tasks) or result.waiting

    def _note_open_calls(self, result: StepResult) -> None:
        """Of the calls of sub-agents that have no result, those of `task` agents come next; those of `single_turn`
        agents, which wait, or in which the run was stopped, are answered by a later run."""
        singles, result.tasks = unresolved_tasks(self.ctx)
        result.cut_short = bool(singles and self.ctx.run.stopped)
        result.waiting = result.waiting or bool(singles)

    async def _resume_single_turns(self, result: StepResult) -> Events:
        """Take note of the calls of sub-agents that an earlier run has left open, and resume the `single_turn` ones at
        once."""
        singles, result.tasks = unresolved_tasks(self.ctx)
        if not singles:
            return
        running, forwarded = resumed_run(self.ctx, singles)
        async with aclosing(forwarded):
            async for event in forwarded:
                yield event
        answer = await running
        if answer is not None:
            yield self._noted(result, answer)
            result.transfer_to = self.ctx.run.ledger.handovers.get(answer.id, result.transfer_to)
        result.answered = True
        self._note_open_calls(result)

    # -- what follows -----------------------------------------------------------------------------

    def _concluded(self, result: StepResult) -> Sequence[Event]:
        """Set the outcome of a step; what follows from it at once.

        Raises what ends the run: `IncompleteStreamError`, a limit that is to raise, and `ModelResponseError` after too
        many unfit answers.
        """
        if result.limit is not None:
            return self._at_limit(result.limit)
        if result.cut_short:
            return ()
        self.ctx.run.steps[self.ctx.path] = self.ctx.step + 1
        if result.unfit is not None:
            assert result.last is not None
            if self.final_step or not can_be_asked_again(self.ctx, self.llm, result.last, self.refusals):
                self._give_up(result.unfit, result.last)
                return ()
            if UNFIT_OUTPUT in (result.last.custom_metadata or ()):  # else a result of the model's call says what is
                self.outcome = OVER if self.single_step else AGAIN
                return (retry_event(self.ctx, result.last),)
        self.outcome = self.rule(result)
        if self.outcome is WAITING:
            self.ctx.run.leave_open(*(call.id for call in result.tasks))
        if self.final_step is None:
            return self._only_thoughts() if self.thoughts > MAX_THOUGHT_TURNS else ()
        if self.final_step.agent is None:
            self.ctx.run.stopped = "limit"
        return self.ctx.run.refusals_of(self.ctx, str(self.final_step))

    def rule(self, result: StepResult) -> Outcome | Enter:
        """What follows from a step; the first that holds (spec §1.3). Raises `IncompleteStreamError`."""
        if self.final_step is not None:
            return OVER
        if result.waiting:
            return WAITING
        if result.transfer_to is not None:
            return Enter(place_of_target(self.ctx, result.transfer_to))
        if result.tasks:
            return OVER if self.single_step else self._delegate(result.tasks[0])
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
        if self.structured and self.llm.mode != "task":
            self._give_up(told, None)
        return (self.note(self.ctx.new_event({"error_code": ONLY_THOUGHTS, "error_message": told})),)

    def _give_up(self, wrong: str, last: Event | None) -> None:
        """End a turn that has come to no structured answer: the caller of the agent is told, else the run fails."""
        error = no_answer(self.ctx, self.llm, self.refusals, wrong, last)
        if self.task is None:
            raise error
        self.failure, self.outcome = str(error), OVER

    def _at_limit(self, error: LimitExceededError) -> Sequence[Event]:
        """A limit was reached: raise it, end the turn, or have the agent sum up; the history stays legal."""
        if error.on_limit == "raise":
            raise error
        ctx, run = self.ctx, self.ctx.run
        events = run.refusals_of(ctx, str(error))
        if error.agent is None:
            if _REACHED in run.done_once:  # an agent of another branch has the last word
                run.stopped = "limit"
                return events
            run.done_once |= {_REACHED}
        if error.on_limit == "summarise":
            self.final_step = error
            return events
        if error.agent is None:
            event = error_event(ctx, error, "limit")
            run.stopped = "limit"
        else:
            event = error_event(ctx, error, "limit", AGENT_ENDED)
            self.outcome = OVER
        return [*events, self.note(event)]

    # -- agents that this one hands over or delegates to ------------------------------------------

    def _next_task(self) -> Enter | None:
        """The turn of the `task` agent that is called next; None if there is none."""
        tasks = unresolved_tasks(self.ctx)[1]
        return self._delegate(tasks[0]) if tasks else None

    def _delegate(self, task: types.FunctionCall) -> Enter:
        return Enter(delegated_context(self.ctx, task), task)

    def returned(self, below: Turn) -> Iterable[Event]:
        if below.task is not None:
            return self._task_returned(below, below.task)
        super().returned(below)
        if self.outcome is AGAIN:  # the same rule applies to the last event of the other agent
            self.outcome = self._rule_on(self.last)
        return ()

    def _task_returned(self, below: Turn, task: types.FunctionCall) -> Iterable[Event]:
        response = response_of_task(self.ctx, task, below)
        if response is None:
            self.ctx.run.leave_open(*(call.id for call in unresolved_tasks(self.ctx)[1]))
            self.outcome = WAITING
            return
        content = content_of("user", [response_part(task.id, task.name, response)])
        yield (event := self.note(self.ctx.new_event({"author": "user", "content": content})))
        target = self.ctx.run.ledger.handovers.get(event.id)
        handover = Enter(place_of_target(self.ctx, target)) if target else AGAIN
        self.outcome = self._next_task() or handover

    # -- resuming ---------------------------------------------------------------------------------

    def recall(self, progress: Progress, own: Sequence[Event]) -> None:
        super().recall(progress, own)
        self.refusals = sum(refusal_in(event) is not None for event in own)
