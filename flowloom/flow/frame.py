"""`Frame`: one agent's turn on the stack of a run."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from google.genai import types

from flowloom.context import Context, InvocationContext
from flowloom.context.hooks import Callbacks, content_answered, first_answer
from flowloom.context.progress import Progress, is_from_agent_tool
from flowloom.context.protocols import AnyAgent, AnyLlmAgent, as_llm_agent
from flowloom.errors import (
    AgentNotFoundError,
    CallbackError,
    IncompleteStreamError,
    LimitExceededError,
    closest_first,
    error_text,
    quoted_list,
)
from flowloom.events.event import UNFIT_OUTPUT, Event
from flowloom.events.json_data import keep_json
from flowloom.events.requests import RESERVED_CALLS
from flowloom.events.wire import replace
from flowloom.flow.delegation import delegates_of, ends_turn, finish_result, unresolved_tasks
from flowloom.flow.model_call import ONLY_THOUGHTS, is_thought_only
from flowloom.flow.observed import observed
from flowloom.flow.output import ask_again, give_up, keep_answer, note_answer
from flowloom.flow.pipeline import Step, with_extra
from flowloom.flow.waiting import awaits_more, has_agent
from flowloom.log.marks import AGENT_ENDED, HOST_CALLS, REPEATED, RUN_ENDED
from flowloom.processors.agent_transfer import transfer_targets
from flowloom.processors.model_choice import model_of
from flowloom.processors.output_schema import refusal_in
from flowloom.processors.unfinished import marked_calls, unasked
from flowloom.telemetry import AgentSpan, Recorder
from flowloom.tools.delegation import FINISH_TASK
from flowloom.tools.output import SET_MODEL_RESPONSE

if TYPE_CHECKING:
    from flowloom.flow.flow import Flow

MAX_THOUGHT_TURNS = 3
"""How many turns of nothing but thoughts a model may take in a row (decision 2)."""


_NEVER_PAUSED = ("transfer_to_agent", SET_MODEL_RESPONSE, FINISH_TASK, *RESERVED_CALLS)
"""Calls that are between the model and the flow, and no host's to answer."""


_REACHED = ("", "limit of the run")
"""What `Run.settled` holds when an agent has reached a limit of the run, so that no other one lands too."""


class Frame:
    """An agent's turn: what it yielded last, and whether it goes on."""

    # what every turn begins with is the class's until it is set, so that beginning one costs little
    span: AgentSpan | None = None
    begun: bool = False
    finished: bool = False
    paused: bool = False
    """Whether the turn waits for a person or a long-running tool, and nothing further up may go on."""
    silent: bool = False
    """Whether the turn was over before this run, so that nobody is told of its end again."""
    last: Event | None = None
    """The latest complete event of this turn, or of the turn that it handed over to."""
    open_partial: bool = False
    """Whether the latest event was partial."""
    thought_turns: int = 0
    transfer_to: str | None = None
    halted_by: str | None = None
    landing: LimitExceededError | None = None
    """The limit that was reached, while the agent sums up."""
    answered: bool = False
    """Whether the calls of the latest answer have results, so that the model is not listened to any further."""
    suspended: bool = False
    """Whether a call stays open, because an agent that runs as a tool waits."""
    gave_output: bool = False
    """Whether a tool that was confirmed has given the structured final answer."""
    output: Any = None
    """What a delegated task came to, once it is finished."""
    structured: bool = False
    """Whether the agent's answer has to be of a certain form."""
    unfit: str | None = None
    """What is wrong with the answer of this step, if it is not of that form."""
    refusals: int = 0
    """How many such answers there were in this turn."""
    failure: str | None = None
    """Why a delegated turn has come to nothing."""
    resuming: bool = False
    """Whether what people have decided comes before the delegated calls, in a step without the model."""
    _steps: tuple[tuple[Step, ...], tuple[Step, ...]] | None = None

    def __init__(
        self, ctx: InvocationContext, *, flow: Flow | None = None, task: types.FunctionCall | None = None
    ) -> None:
        self.ctx = ctx
        self.agent: AnyAgent = ctx.agent
        self.llm: AnyLlmAgent | None = as_llm_agent(ctx.agent)
        if self.llm is not None and (self.llm.output_schema is not None or self.llm.mode == "task"):
            self.structured = True
        self._flow = flow
        self._bare = flow is not None
        self.task = task
        """The call that delegated to this agent."""
        self.delegated: deque[types.FunctionCall] = deque()
        """Calls of agents that are to run before the next step."""

    @property
    def flow(self) -> Flow:
        """The flow that runs this turn."""
        if self._flow is None:
            assert self.llm is not None
            self._flow = self.llm.flow  # pyright: ignore[reportAttributeAccessIssue] - agents hold Flows
        return self._flow  # pyright: ignore[reportReturnType]

    @property
    def steps(self) -> tuple[tuple[Step, ...], tuple[Step, ...]]:
        """The processors of the turn, those of the request and those of the response; observed, if anybody observes."""
        if self._steps is None:
            self._steps = self.flow.steps
            if self.ctx.run.extra_steps:
                self._steps = with_extra(self._steps[0], self.ctx.run.extra_steps), self._steps[1]
            observers = self.ctx.run.observers
            if observers:
                request, response = self._steps
                self._steps = observed(request, observers), observed(response, observers)
        return self._steps

    def note(self, event: Event) -> None:
        """Take an event of this turn into account."""
        if event.partial:
            self.open_partial = True
            return
        self.open_partial = False
        self.last = event
        if event.actions.escalate:
            self.ctx.escalated = True
        if self.structured:
            note_answer(self, event)
        if self.task is not None:
            finish_result(self, event)

    def own(self, event: Event) -> Event:
        """Take an event of a custom agent's own; one without an author gets it here (spec §17.2)."""
        if not event.author:
            event.author = "user" if event.content is not None and event.content.role == "user" else self.agent.name
        if not event.invocation_id:
            event.invocation_id = self.ctx.invocation_id
        if event.node_info is None and self.ctx.node_path and not is_from_agent_tool(event):
            event.node_info = self.ctx.node_info
        if not event.partial:
            keep_json(event)
        self.note(event)
        return event

    def finish_body(self) -> None:
        """The body of an agent that works without a flow has ended."""
        self.finished = True
        self.open_partial = False
        waits = self.last is not None and bool(self.last.long_running_tool_ids)
        self.paused = waits or any(has_agent(self.agent, call.author) for call in self.ctx.run.waiting_calls.values())

    # -- beginning and end ------------------------------------------------------------------------

    async def begin(self, spans: Recorder | None) -> list[Event]:
        """Ask the before-agent callbacks (spec §17.3). Content ends the turn; a change of state alone is an event."""
        self.begun = True
        ctx = self.ctx
        events: list[Event] = []
        if not self._bare:
            if spans is not None:
                self.span = spans.start_agent(ctx)
            event = await self._ask("before_agent", ctx.run.hooks.before_agent, self.agent.before_agent_callbacks)
            if event is not None:
                event = self.finish_event(event)
                if UNFIT_OUTPUT in (event.custom_metadata or ()):
                    raise CallbackError(
                        f"`before_agent` of agent `{self.agent.name}` answered what does not fit the agent's output "
                        f"schema. {refusal_in(event)} Answer JSON of that form, or raise what is to end the run."
                    )
                self.note(event)
                events.append(event)
                ctx.end_invocation = ctx.end_invocation or event.content is not None
            self.finished = ctx.end_invocation
        if not self.finished:
            self.enter_flow()
        return events

    def _owes_more(self, own: Sequence[Event], last: Event) -> bool:
        """Whether something follows from the turn's latest answer: calls are run that the run stopped before, say."""
        if HOST_CALLS not in (last.custom_metadata or ()):
            return any(True for _ in unasked(own))
        calls, run = {call.id for call in last.get_function_calls()}, self.ctx.run
        return run.answered_later.isdisjoint(calls) and not calls & run.waiting_calls.keys() <= marked_calls(own)

    def enter_flow(self) -> None:
        """Get ready for the first step of this run."""
        if self.llm is not None:
            self.ctx.callbacks = self.flow.callbacks
            if self.agent.sub_agents:
                self.delegated.extend(unresolved_tasks(self.ctx))
                self.resuming = bool(self.delegated) and self.ctx.taken_up

    def take_up(self, progress: Progress, start: int) -> None:
        """Stand where the log of the invocation leaves this turn, which begins at `start` (decision 28).

        A turn that it does not know is new.
        """
        before, after = progress.own(self.ctx, start)
        own = [*before, *after]
        run, calls = self.ctx.run, {call.id or "": call for event in own for call in event.get_function_calls()}
        waiting = run.waiting_calls.keys() & calls.keys()
        for event in own:
            self.ctx.escalated = self.ctx.escalated or bool(event.actions.escalate)
            if self.task is not None:
                finish_result(self, event)
        self.refusals = sum(refusal_in(event) is not None for event in own) if self.structured else 0
        if not own or not progress.left.isdisjoint(calls) or (not after and progress.is_answered(before)):
            return  # a new turn, or one that goes on with the user's answer
        behind = [call_id for call_id in waiting if run.waiting_calls[call_id].suspended]
        ready = any(map(run.may_go_on, behind))
        suspended = bool(behind) and not ready
        if not after and not suspended and not ends_turn(own[-1]):
            return  # it was interrupted before the user answered somebody else
        if self.llm is None and not (after or before)[-1].is_final_response():
            return  # only the agent itself could tell how far it got
        self.begun = True
        self.last = own[-1]
        said = [event for event in own if event.content is not None or event.error_code]
        over = own[-1].actions.end_of_agent
        ready = ready or (bool(said) and self._owes_more(own, said[-1]))
        if progress.interrupted:  # what was under way is done again
            cut_off = run.open_calls.keys() & calls.keys()
            ready = ready or any(calls[call_id].name not in delegates_of(self.agent) for call_id in cut_off)
        if over or (not ready and (suspended or (bool(said) and ends_turn(said[-1])))):
            self.finished = True
            self.paused = bool(waiting)
            self.silent = bool(over) or self.paused or not progress.interrupted
        else:
            self.enter_flow()

    async def end(self) -> list[Event]:
        """Ask the after-agent callbacks (spec §17.4), unless the turn was ended."""
        if self._bare or self.silent:
            return []
        event = None
        if not self.ctx.end_invocation:
            event = await self._ask("after_agent", self.ctx.run.hooks.after_agent, self.agent.after_agent_callbacks)
        if event is not None:
            event.actions.end_of_agent = True  # a run that takes this one up does not ask again
            if event.content is not None:
                self.note(event)
        if self.span is not None:
            self.span.end(last=self.last)
        return [] if event is None else [event]

    async def _ask(self, hook: str, plugins: Callbacks, own: Callbacks) -> Event | None:
        if not plugins and not own:
            return None
        context = Context(self.ctx)
        content: Any = None
        if plugins:
            content = await first_answer(plugins, agent=self.agent, callback_context=context)
        if content is None and own:
            content = await first_answer(own, callback_context=context)
        actions = context.settle()
        if content is not None:
            event = self.ctx.new_event({"content": content_answered(content, hook, self.ctx), "actions": actions})
            keep_json(event)
            return event
        if actions.state_delta or actions.artifact_delta:
            return self.ctx.new_event({"actions": actions})
        return None

    # -- a step -----------------------------------------------------------------------------------

    def begin_step(self) -> None:
        """Forget what the step before has left."""
        self.last = None
        self.transfer_to = None
        self.answered = False
        self.gave_output = False
        self.suspended = False
        self.unfit = None

    def wants_model(self) -> bool:
        """Whether the model is to be called, now that the request is built.

        Not when a processor halted, or when what it emitted (the results of a confirmed tool) ends the step itself.
        """
        last = self.last
        if self.resuming:
            return False
        if self.halted_by or self.ctx.end_invocation or self.transfer_to or self.gave_output or self.suspended:
            return False
        if self.unfit is not None:
            return False
        if last is not None and (last.actions.skip_summarization or last.long_running_tool_ids):
            return False
        if last is not None and last.actions.agent_state and REPEATED in last.actions.agent_state:
            self.suspended = True  # the calls that it was about have been made, and have no result yet
            return False
        self.suspended = awaits_more(self.ctx)
        return not self.suspended

    def has_calls(self, event: Event) -> bool:
        """Whether a model event asks for tools to be run."""
        if event.partial or event.content is None:
            return False
        for part in event.content.parts or ():  # noqa: SIM110 - a generator costs more than the look
            if part.function_call is not None:
                return True
        return False

    def finish_event(self, event: Event) -> Event:
        """The event as it is yielded: its calls may wait for the host, its text may be the agent's answer."""
        if self.ctx.run.config.pause_on_tool_calls:
            paused = self._pausing(event)
            if paused is not event:
                return paused
        return keep_answer(self, event)

    def _pausing(self, event: Event) -> Event:
        """The event with its calls marked as waiting, if the run is to stop before them."""
        wanted = self.landing is None and self.ctx.run_config.pause_on_tool_calls
        calls = [call for call in event.get_function_calls() if call.name not in _NEVER_PAUSED]
        if event.author != self.agent.name or not (
            calls if wanted is True else any(isinstance(wanted, list) and call.name in wanted for call in calls)
        ):
            return event
        new, all_ids = replace(event), [c.id for c in event.get_function_calls() if c.name not in RESERVED_CALLS]
        by_themselves = event.long_running_tool_ids or ()
        marked = {HOST_CALLS: [call_id for call_id in all_ids if call_id not in by_themselves]}
        vars(new).update(long_running_tool_ids=all_ids, custom_metadata={**(event.custom_metadata or {}), **marked})
        self.answered = True
        return new

    def reach_limit(self, error: LimitExceededError) -> list[Event]:
        """A limit was reached, and is not to raise: end the turn, or let the agent sum up; the history stays legal."""
        ctx, run = self.ctx, self.ctx.run
        events = run.refusals_of(ctx, str(error))
        if error.agent is None:
            if _REACHED in run.settled:  # an agent of another branch has the last word
                run.stopped = True
                return events
            run.settled |= {_REACHED}
        if error.on_limit == "summarise":
            self.landing = error
            return events
        if error.agent is None:
            event = error_event(ctx, error, "limit")
            run.stop, run.stopped = "limit", True
        else:
            event = error_event(ctx, error, "limit", AGENT_ENDED)
            self.finished = True
        self.note(event)
        return [*events, event]

    def conclude_step(self) -> tuple[InvocationContext | None, Event | None]:
        """What comes after the step (spec §1.3): the agent to hand over to, an event that follows, or neither.

        Raises what ends the run: `IncompleteStreamError`, and `ModelResponseError` after too many unfit answers.
        """
        ctx = self.ctx
        steps, path = ctx.run.steps, ctx.path
        steps[path] = steps.get(path, 0) + 1
        if self.unfit is not None:
            retry = ask_again(self)
            if retry is not None or self.failure is not None:
                return None, retry
        if self.landing is not None:
            self.finished = True
            if self.landing.agent is None:
                ctx.run.stop, ctx.run.stopped = "limit", True
            return None, None
        if self.resuming:
            self.resuming = False
            return None, None
        if self.suspended:
            self.finished = self.paused = True
            return None, None
        if self.transfer_to is not None:
            return self.target(self.transfer_to), None
        if self.delegated:
            return None, None
        if self.halted_by or ctx.end_invocation:
            self.finished = True
            return None, None
        if self.open_partial:
            raise IncompleteStreamError(
                f"The model of agent `{self.agent.name}` ended its stream on a partial response: the complete one "
                f"never came. The connection may have broken, or the output limit was reached.",
                model=model_of(ctx).model,
            )
        return None, self._rule_on_last()

    def _rule_on_last(self) -> Event | None:
        """Finish the turn if its latest event says so."""
        last = self.last
        if last is None:
            self.finished = True
            return None
        if is_thought_only(last) and not last.error_code:
            self.thought_turns += 1
            if self.thought_turns <= MAX_THOUGHT_TURNS:
                return None
            self.finished = True
            told = (
                f"The model of agent `{self.agent.name}` gave nothing but thoughts {self.thought_turns} times in a row."
            )
            if self.structured and self.llm is not None and self.llm.mode != "task":
                give_up(self, told)
            self.last = self.ctx.new_event({"error_code": ONLY_THOUGHTS, "error_message": told})
            return self.last
        self.thought_turns = 0
        if ends_turn(last):
            self.finished = True
            self.paused = bool(last.long_running_tool_ids)
        return None

    def came_back(self, other: Frame) -> None:
        """Take the turn up again after the one it handed over to; the same rule applies to that one's last event."""
        self.last = other.last or self.last
        self.ctx.escalated = self.ctx.escalated or other.ctx.escalated
        self.open_partial = False
        self._rule_on_last()
        if other.paused:
            self.finished = self.paused = True

    def target(self, name: str) -> InvocationContext:
        """The context of the agent to hand over to. Raises `AgentNotFoundError` for one out of reach (decision 5)."""
        ctx = self.ctx
        assert self.llm is not None
        targets = transfer_targets(self.llm, ctx.parent)
        for target in targets:
            if target.name != name:
                continue
            if any(child is target for child in self.agent.sub_agents):
                return ctx.below(target)
            return ctx.at(target, ctx.lineage[:-1] if target is ctx.parent else ctx.lineage)
        names = quoted_list(closest_first(name, [target.name for target in targets]))
        raise AgentNotFoundError(
            f"Agent `{self.agent.name}` cannot hand over to `{name}`. It reaches: {names}. Add it to `sub_agents`, or "
            f"allow the transfer."
        )


def error_event(ctx: InvocationContext, error: BaseException, ended: str = "failed", whose: str = RUN_ENDED) -> Event:
    """The event that stands for what ends a run (decision 31), or an agent's turn."""
    return ctx.new_event(
        {
            "error_code": type(error).__name__,
            "error_message": error_text(error),
            "error": error,
            "custom_metadata": {whose: ended},
        }
    )
