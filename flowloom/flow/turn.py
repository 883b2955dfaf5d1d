"""`Turn`: one agent's turn on the stack of a run, and the `Outcome` that says what follows from a step of it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from enum import Enum
from typing import TYPE_CHECKING, Any, NamedTuple

from google.genai import types

from flowloom.context import Context, InvocationContext
from flowloom.context.hooks import Callbacks, as_callbacks, content_answered, first_answer
from flowloom.context.origin import no_events, note_origin
from flowloom.context.progress import Progress, is_within
from flowloom.context.protocols import AnyAgent
from flowloom.errors import ConfigurationError
from flowloom.events.event import Event
from flowloom.events.json_data import keep_json
from flowloom.flow.waiting import has_agent
from flowloom.log.marks import AGENT_TOOL_CALL
from flowloom.tools.agent_tool import answer_in
from flowloom.tools.delegation import task_result

if TYPE_CHECKING:
    from flowloom.telemetry import AgentSpan, Recorder

Events = AsyncGenerator[Event, None]
TurnOf = Callable[[InvocationContext], "Turn"]


class Outcome(Enum):
    """What follows from a step, unless another turn is entered."""

    AGAIN = "again"
    """The turn takes another step."""
    WAITING = "waiting"
    """The turn is over for this run: a person, a client or a long-running tool has to answer first, and nothing that
    stands below it on the stack may go on."""
    OVER = "over"
    """Control goes back to the turn below."""


class Enter(NamedTuple):
    """Another agent's turn comes first: a transfer, a delegated task, a member of a workflow."""

    ctx: InvocationContext
    """The place of that agent."""
    task: types.FunctionCall | None = None
    """The call that delegates to it."""


AGAIN, WAITING, OVER = Outcome.AGAIN, Outcome.WAITING, Outcome.OVER


class Turn:
    """One agent's turn. `step` yields events; when it has ended, `outcome` says what follows.

    `play` calls `begin`, then `step` until the outcome is no more `AGAIN`, `returned` when a turn that it entered is
    over, and `end`. A kind of agent that runs others in an order of its own is a `WorkflowAgent`, and needs no turn.
    """

    tells_how_far: bool = False
    """Whether the events of the turn say by themselves how far it got before this run; else they say only that it is
    over, if its agent had the last word beside those `inside`."""

    def __init__(self, ctx: InvocationContext) -> None:
        self.ctx = ctx
        self.agent: AnyAgent = ctx.agent
        self.outcome: Outcome | Enter = AGAIN
        self.begun = False
        self.bare = False
        """Whether its callbacks are not asked and it has no span: it was over before this run, or is the work of its
        agent alone."""
        self.last: Event | None = None
        """The latest complete event of this turn, or of the turn that it entered."""
        self.span: AgentSpan | None = None
        self.task: types.FunctionCall | None = None
        """The call that delegated to this agent."""
        self.output: Any = None
        """What a delegated task came to, once it is finished."""
        self.failure: str | None = None
        """Why a delegated turn has come to nothing."""

    def step(self, spans: Recorder | None) -> Events:
        """Take a step, and set `outcome`; yields what comes of it."""
        raise NotImplementedError

    @property
    def ends_branch(self) -> bool:
        """Whether an escalation in this turn ends the parallel branch that it is in (decision 33)."""
        return self.ctx.escalated

    def note(self, event: Event) -> Event:
        """Take an event of this turn into account."""
        if not event.partial:
            self.last = event
            if event.actions.escalate:
                self.ctx.escalated = True
            self._take_output(event)
        return event

    def _take_output(self, event: Event) -> None:
        """Note what a turn that was delegated to has come to."""
        llm = self.ctx.llm_agent
        if self.task is None or llm is None or event.author != llm.name:
            return
        if llm.mode == "task":
            if (result := task_result(event)) is not None:
                self.output = result
        elif event.is_final_response() and not event.actions.end_of_agent and (event.content or event.error_code):
            self.output = answer_in(event)

    def returned(self, below: Turn) -> Iterable[Event]:
        """Control has come back from a turn that this one entered: set `outcome`; what follows from it at once."""
        self.last = below.last or self.last
        self.ctx.escalated = self.ctx.escalated or below.ctx.escalated
        self.outcome = WAITING if below.outcome is WAITING else AGAIN
        return ()

    def end_or_wait(self) -> None:
        """The agent has nothing more to do: the turn is over, unless something in it waits for an answer."""
        self.outcome = WAITING if waits_below(self.agent, self.ctx) else OVER

    # -- beginning and end ------------------------------------------------------------------------

    def start_span(self, spans: Recorder | None) -> None:
        """Open the span of the turn, when it begins or is resumed."""
        if spans is not None and self.span is None and not self.bare:
            self.span = spans.start_agent(self.ctx)

    async def begin(self) -> list[Event]:
        """Ask the before-agent callbacks (spec §17.3). Content ends the turn; a change of state alone is an event."""
        self.begun = True
        ctx = self.ctx
        events: list[Event] = []
        if not self.bare:
            plugins, own = ctx.run.hooks.before_agent, as_callbacks(self.agent.before_agent_callback)
            event = await self._ask("before_agent", plugins, own) if plugins or own else None
            if event is not None:
                events.append(self.note(self.answered_before(event)))
                ctx.end_invocation = ctx.end_invocation or event.content is not None
            if ctx.end_invocation:
                self.outcome = OVER
                return events
        self.enter()
        return events

    def answered_before(self, event: Event) -> Event:
        """The event of a before-agent callback, as it is to be stored."""
        return event

    def enter(self) -> None:
        """Get ready for the first step of a turn that begins."""

    async def end(self) -> list[Event]:
        """Ask the after-agent callbacks (spec §17.4), unless the turn was ended."""
        if self.bare:
            return []
        event = None
        plugins, own = self.ctx.run.hooks.after_agent, as_callbacks(self.agent.after_agent_callback)
        if (plugins or own) and not self.ctx.end_invocation:
            event = await self._ask("after_agent", plugins, own)
        if event is not None:
            event.actions.end_of_agent = True  # a run that resumes this one does not ask again
            if event.content is not None:
                self.note(event)
        if self.span is not None:
            self.span.end(last=self.last)
        return [] if event is None else [event]

    def close(self, error: BaseException | None = None) -> None:
        """The run is over, or stops, before the turn is."""
        if self.span is not None:
            self.span.end(error, self.last)

    async def _ask(self, hook: str, plugins: Callbacks, own: Callbacks) -> Event | None:
        context = Context(self.ctx)
        content = await first_answer(plugins, agent=self.agent, callback_context=context)
        if content is None:
            content = await first_answer(own, callback_context=context)
        actions = context.collect_actions()
        if content is not None:
            event = self.ctx.new_event({"content": content_answered(content, hook, self.ctx), "actions": actions})
            keep_json(event)
            return event
        if actions.state_delta or actions.artifact_delta:
            return self.ctx.new_event({"actions": actions})
        return None

    # -- resuming (see `stack_of`) ------------------------------------------------------------------

    def recall(self, progress: Progress, own: Sequence[Event]) -> None:
        """Take into account what the turn has said before this run: its `own` events."""
        for event in own:
            self._take_output(event)

    def inside(self, progress: Progress) -> Sequence[Event]:
        """What this turn's own agent, and those that it runs, have said before this run."""
        found = (each for each in progress.events if has_agent(self.agent, each.author))
        return [each for each in found if is_within(each.branch, self.ctx.branch)]


def waits_below(agent: AnyAgent, ctx: InvocationContext) -> bool:
    """Whether a call of an agent, or of one below it, waits for a person, a client or a long-running tool."""
    return any(has_agent(agent, call.author) for call in ctx.run.waiting_calls.values())


class BodyTurn(Turn):
    """The turn of a custom agent: one step, in which its own code yields events and runs other agents."""

    async def step(self, spans: Recorder | None) -> Events:
        run = self.ctx.run
        body = self.agent._run_async_impl(self.ctx)  # pyright: ignore[reportPrivateUsage] - custom agents override it
        if not hasattr(body, "aclose"):
            raise no_events(body, f"`_run_async_impl` of agent `{self.agent.name}`", "Event")
        if self.span is not None:
            body = self.span.watch(body)
        try:
            async for event in body:
                for kept in run.broken_off():
                    yield kept
                yield self._own(event)
        except Exception as error:
            if run.origin_of(error, self.ctx) is self.ctx:
                note_origin(error, self.ctx, "`_run_async_impl`")
            raise
        finally:
            await body.aclose()
        for kept in run.broken_off():
            yield kept
        if not run.stopped:
            self.end_or_wait()

    def _own(self, event: Event) -> Event:
        """An event of a custom agent's own; one without an author gets it here (spec §17.2)."""
        if not isinstance(event, Event):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"{type(self.agent).__name__} yielded {event!r:.60}. An agent yields `Event`s.")
        if not event.author:
            event.author = "user" if event.content is not None and event.content.role == "user" else self.agent.name
        if not event.invocation_id:
            event.invocation_id = self.ctx.invocation_id
        if event.node_info is None and AGENT_TOOL_CALL not in (event.custom_metadata or ()):
            event.node_info = self.ctx.node_info
        if not event.partial:
            keep_json(event)
        return self.note(event)
