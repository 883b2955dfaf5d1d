"""`Run`: what all agents of one invocation share."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from google.genai import types

from flowloom.auth.keyring import Keyring
from flowloom.context.effects import DIRECT_EFFECTS
from flowloom.context.ending import to_its_end
from flowloom.context.hooks import NO_HOOKS, Callbacks, Hooks, first_answer
from flowloom.context.observer import Observer, observers
from flowloom.context.origin import note_origin
from flowloom.context.progress import Progress
from flowloom.context.protocols import AnyContext, Effects
from flowloom.context.run_config import RunConfig, StreamingMode
from flowloom.context.streamed import Streamed
from flowloom.context.threads import Threads
from flowloom.context.totals import Totals
from flowloom.errors import AlreadyAnsweredError, RunLostError, StorageError
from flowloom.events.actions import no_actions
from flowloom.events.event import Event
from flowloom.events.ids import INPUT_ID_PREFIX
from flowloom.events.json_data import keep_json
from flowloom.events.parts import content_of, response_part
from flowloom.events.requests import is_request, looks_like_request, without_requests
from flowloom.events.wire import make, replace
from flowloom.log.answers import answers_request, says_nothing, subject_call_id
from flowloom.log.marks import AGENT_TOOL_CALL, HOST_CALLS

if TYPE_CHECKING:
    from flowloom.artifacts import BaseArtifactService
    from flowloom.memory import BaseMemoryService
    from flowloom.sessions import BaseSessionService, Session

_ContextT = TypeVar("_ContextT", bound=AnyContext)
_dict: Any = dict  # called as it is: `dict[str, int]()` takes five times as long

INTERRUPTED = "The run was interrupted before this call gave a result."
FLUSHING_SECONDS = 0.75
"""How long a cancelled run waits for the store to confirm them."""


@dataclass(slots=True)
class OpenCall:
    """A function call that is in the history without a result."""

    id: str
    name: str
    author: str
    branch: str | None
    isolation_scope: str | None
    of_host: bool = False
    """Whether it waits only because the run stopped before it: any result ends that."""
    suspended: bool = False
    """Whether it is the call of an agent that waits: it is answered by the agent, not by the user."""
    about: str | None = None
    """The id of the call that a request to a person is about: with a result of that, the request is over."""
    request: types.FunctionCall | None = None
    """The call itself, if the user may answer it."""
    answered: bool = False
    """Whether a person has decided, and the call that it is about has no result yet."""

    @property
    def place(self) -> tuple[str, str | None, str | None]:
        """Whose call it is, and where it was made."""
        return self.author, self.branch, self.isolation_scope


@dataclass
class Run:
    """What all agents of one invocation share.

    Fields that every run begins with as they are (`init=False`) are the class's until they are set: they cost nothing.
    """

    invocation_id: str
    session: Session
    session_service: BaseSessionService
    artifact_service: BaseArtifactService | None
    memory_service: BaseMemoryService | None
    credential_service: Any
    config: RunConfig
    user_content: types.Content | None = None
    hooks: Hooks = NO_HOOKS
    effects: Effects = DIRECT_EFFECTS
    totals: Totals = None  # type: ignore[assignment] - set below when not shared
    own_threads: Threads | None = None
    streaming: bool = None  # type: ignore[assignment] - as the config says, if not given
    observers: tuple[Observer, ...] = field(default_factory=observers)
    rehearsal: bool = False
    """Whether this only finds out what a run would do: no telemetry, and no model is asked."""
    steps: dict[str, int] = field(default_factory=_dict, init=False)
    """Model steps taken so far, by agent path."""
    effect_counts: dict[tuple[str, int, str], int] = field(default_factory=_dict, init=False)
    attempts: dict[tuple[str, int, str, int], int] | None = field(default=None, init=False)
    """How often tool calls were tried before, by path, step, kind and position, for those that were."""
    open_calls: dict[str, OpenCall] = field(default_factory=_dict, init=False)
    inner_calls: dict[str, OpenCall] = field(default_factory=_dict, init=False)
    """Calls of agents that run as tools, as the log keeps them: those agents answer them, in runs of their own."""
    waiting_calls: dict[str, OpenCall] = field(default_factory=_dict, init=False)
    """Calls of long-running tools, and requests to a person, that the user has not answered yet."""
    progress: Progress | None = None
    """How far the invocation got before this run, if it goes on with one (decision 28)."""
    extra_steps: tuple[Any, ...] = ()
    """Request processors of the app, which every flow of the run has before `contents`."""
    entries: dict[str, int] = field(default_factory=_dict, init=False)
    """How often each workflow was entered, by node path."""
    settled: frozenset[tuple[str, str]] = field(default=frozenset(), init=False)
    """What was done once at a place in the run (see `InvocationContext.once`)."""
    answered_later: frozenset[str] = field(default=frozenset(), init=False)
    """Calls whose results are there already, and stored when the run goes on with the agents that made them."""
    outputs: dict[str, Callable[[], Any]] | None = field(default=None, init=False)
    """The structured answers of the run's agents, by the id of the event: what each makes of its output schema."""
    inputs: dict[str, list[Any]] | None = field(default=None, init=False)
    """What people have answered to the tools that asked for input, by call id."""
    requests: frozenset[str] = field(default=frozenset(), init=False)
    """The requests to people that the run has made, those of its agents that run as tools included."""
    caller: Run | None = field(default=None, repr=False)
    """The run of which this one is a tool."""
    own_keyring: Keyring | None = field(default=None, repr=False)
    """What the run knows of credentials, in memory only."""
    stop: Literal["paused", "cancelled", "limit"] | None = field(default=None, init=False)
    """Why no agent of the run is to take another step."""
    unflushed: bool = field(default=False, init=False)
    """Whether an event was handed to the store that is perhaps not durable yet."""
    stopped: bool = field(default=False, init=False)
    """Whether an agent did not take a step for that."""
    message_seen: tuple[int, int | None] = field(default=(0, None), init=False)
    """How much of the log was looked through for the user's latest message, and where it is if it answers calls."""
    owed: dict[str, Event] | None = field(default=None, init=False)
    """What agents have left that ran as tools and wait, by event id, until it is stored."""
    streamed: Streamed | None = field(default=None, init=False)
    """What the consumer has seen of answers that are not complete yet; None until something is streamed."""
    unsettled: Event | None = field(default=None, init=False)
    """The event whose storing was cut off: nobody knows whether it was stored."""
    failures: tuple[tuple[BaseException, Any], ...] = field(default=(), init=False)
    """The errors that ended turns of agents, and where each came from."""

    def note_failure(self, error: BaseException, ctx: AnyContext) -> None:
        """An error ends the turn of `ctx.agent`: what it was saying is broken off."""
        if isinstance(error, Exception):
            self.failures += ((error, self.origin_of(error, ctx)),)
        if self.streamed is not None:
            self.streamed.break_off(ctx.agent.name, ctx.branch, ctx.isolation_scope)

    def broken_off(self) -> list[Event]:
        """The events that keep what was broken off so far, while the run goes on: an agent has caught what ended it."""
        return self.streamed.cut_off(all_over=False) if self.streamed is not None and self.streamed.broken else []

    def origin_of(self, error: BaseException, otherwise: _ContextT) -> _ContextT:
        """Where an error comes from, as far as that was noted; others may have been caught before."""
        return next((ctx for known, ctx in self.failures if known in (error, error.__context__)), otherwise)

    @property
    def threads(self) -> Threads:
        """The threads of blocking tools; made when somebody asks for them."""
        if self.own_threads is None:
            self.own_threads = Threads(self.config.tool_thread_pool_config.max_workers)
        return self.own_threads

    @property
    def keyring(self) -> Keyring:
        """The credentials of the run; made when somebody asks for one."""
        if self.own_keyring is None:
            self.own_keyring = Keyring()
        return self.own_keyring

    def claim_call_id(self, call_id: str) -> bool:
        """Whether a call may have this id: no other one has it, in the session or in an agent that runs as a tool."""
        run = self
        while run.caller is not None:
            run = run.caller
        session = run.session
        return not call_id.startswith(INPUT_ID_PREFIX) and session.history.call_ids.claim(session.events, call_id)

    @property
    def lost(self) -> bool:
        """Whether another run is known to have taken the session over."""
        return self.session.fence is not None and (self.session.fence.lost or self.session.fence.refused)

    def check_stored(self) -> None:
        """Raise `RunLostError` if an event was not stored that nobody waited for."""
        if self.session.fence is not None and self.session.fence.refused:
            raise self.session.fence.error()

    async def check_lease(self) -> None:
        """Before something is done to the world: raises `RunLostError` if another run has taken the session over."""
        fence = self.session.fence
        if fence is not None:
            await fence.check()

    def note_loss(self, error: RunLostError) -> None:
        """Something of the run was not stored when nobody could be told; it is told at its end."""
        fence = self.session.fence
        if fence is None:
            raise error
        fence.refused = True

    def answering_message(self) -> int | None:
        """Where in the session's log the user's latest message is, if it answers calls; nothing is read twice.

        Of a run that is gone on with without a new message, only those of its own invocation count.
        """
        events = self.session.events
        count, (seen, at) = len(events), self.message_seen
        if count == seen:
            return at
        for index in range(count - 1, seen - 1, -1):
            event = events[index]
            if event.author != "user" or says_nothing(event.content):
                continue
            progress = self.progress
            if progress is not None and (
                (progress.interrupted and event.invocation_id != self.invocation_id)
                or AGENT_TOOL_CALL in (event.custom_metadata or ())
            ):
                continue
            at = index if event.get_function_responses() else None
            break
        self.message_seen = count, at
        return at

    def __post_init__(self) -> None:
        if self.totals is None:  # pyright: ignore[reportUnnecessaryComparison]
            self.totals = Totals(self.config)
        if self.streaming is None:  # pyright: ignore[reportUnnecessaryComparison]
            self.streaming = self.config.streaming_mode is StreamingMode.SSE

    async def record(
        self,
        ctx: AnyContext,
        event: Event,
        hooks: Callbacks | None = None,
        *,
        soon: bool = False,
        answers: bool = False,
    ) -> Event:
        """Take an event into the session, and return it as the consumer is to see it (spec §18.8).

        Plugins may replace it (`hooks`: those asked; not for the user's message), but not its id, which spans and
        partial events have, too; it is stored unless it is partial;
        `temp:` state goes no further. One that is shown to nobody may become durable together with the next (`soon`);
        one that `answers` calls is stored unless they were answered. Raises `AlreadyAnsweredError` then.
        """
        if not event.author:
            event.author = ctx.agent.name
        given = self.config.custom_metadata
        if given:
            event = replace(event)
            event.custom_metadata = given | (event.custom_metadata or {})
        if (
            event.output is not None
            and event.content is not None
            and (event.node_info and event.node_info.message_as_output)
        ):
            event = replace(event)
            event.output = None
        if event.partial:
            if self.streamed is None:
                self.streamed = Streamed()
            self.streamed.add(event)
        elif self.streamed is not None:
            event = self.streamed.completed(event)
        hooks = self.hooks.on_event if hooks is None else hooks
        if hooks:
            replaced = await first_answer(hooks, invocation_context=ctx, event=event)
            if replaced is not None:
                keep_json(replaced)
                event = _with_id(replaced, event.id)
        if event.long_running_tool_ids:
            event = without_requests(event, self.requests)
        if event.partial:
            if self.observers:
                self._tell_observers(ctx, event)
            return event
        try:
            service = self.session_service
            if soon:
                stored = await service.append_soon(self.session, event)
                self.unflushed = True
            else:
                stored = await (service.append_answer if answers else service.append_event)(self.session, event)
                if self.unflushed:
                    self.unflushed = False
        except (asyncio.CancelledError, StorageError):
            self.unsettled = event
            raise
        if self.streamed is not None:
            self.streamed.end(stored)
        self.follow(stored)
        if self.observers:
            self._tell_observers(ctx, stored)
        return stored

    def _tell_observers(self, ctx: AnyContext, event: Event) -> None:
        for observer in self.observers:
            try:
                observer.event_recorded(ctx, event)
            except Exception as error:
                note_origin(error, ctx, f"observer `{type(observer).__qualname__}`")
                raise

    def follow(self, event: Event) -> None:
        """Keep account of which calls are open after an event of this run."""
        if self.owed:
            self.owed.pop(event.id, None)
        content = event.content
        if content is None or not content.parts:
            return
        for part in content.parts:
            if part.function_call is not None or part.function_response is not None:
                break
        else:
            if event.isolation_scope is None:
                return
        author, branch, scope, marks = event.author, event.branch, event.isolation_scope, event.custom_metadata or {}
        from_tool = AGENT_TOOL_CALL in marks
        if scope is not None and from_tool and (scope in self.open_calls or scope in self.inner_calls):
            self.suspend(scope)
        of_host, waits = marks.get(HOST_CALLS, ()), frozenset(event.long_running_tool_ids or ())
        asked_for, asked_input = event.actions.requested_tool_confirmations, event.actions.requested_inputs or ()
        if self.waiting_calls and author != "user":
            self._end_waiting(event)
        for part in content.parts:
            call, response = part.function_call, part.function_response
            if call is not None:
                asks = bool(waits) and is_request(event, call)
                if call.id and (asks or not (waits and looks_like_request(event, call))):
                    known = (
                        self.waiting_calls if call.id in waits else self.inner_calls if from_tool else self.open_calls
                    )
                    about = subject_call_id(call) if asks else None
                    if call.id in waits:
                        self.open_calls.pop(about or "", None)
                    known[call.id] = OpenCall(
                        call.id, call.name or "", author, branch, scope, call.id in of_host, False, about, call
                    )
            elif response is not None and response.id:
                self.open_calls.pop(response.id, None)
                if not from_tool and (response.id in asked_for or response.id in asked_input):
                    # until somebody is asked
                    self.open_calls[response.id] = OpenCall(response.id, response.name or "", author, branch, scope)
                if not waits and not self.waiting_calls:
                    continue
                waiting = self.waiting_calls.get(response.id)
                ends = author == "user" or "error" in (response.response or ())
                if author == "user" and waiting is not None and waiting.about is not None:
                    if waiting.request is not None:
                        waiting.answered = waiting.answered or answers_request(response, waiting.request)
                    continue  # it is over when that is carried out
                if waiting is not None and (waiting.suspended or waiting.of_host or ends):
                    del self.waiting_calls[response.id]
                elif response.id in waits:
                    # it has begun, now that a person has decided
                    self.waiting_calls[response.id] = OpenCall(response.id, response.name or "", author, branch, scope)

    def _end_waiting(self, event: Event) -> None:
        """Calls wait no more once those that they ask about have a result, or one that their agents run for."""
        answered = {answer.id for answer in event.get_function_responses() if answer.id}
        over = [
            each.id
            for each in self.waiting_calls.values()
            if each.about in answered or not answered.isdisjoint(self._around(each))
        ]
        for call_id in over:
            del self.waiting_calls[call_id]

    def _around(self, call: OpenCall) -> Iterator[str]:
        """The calls that the agent that made a call runs for, the innermost first."""
        scope = call.isolation_scope
        while scope is not None:
            yield scope
            outer = self.waiting_calls.get(scope) or self.inner_calls.get(scope) or self.open_calls.get(scope)
            scope = outer.isolation_scope if outer is not None else None

    def may_go_on(self, call_id: str) -> bool:
        """Whether the agent behind a call waits for nobody: it was cut off, or stopped before calls that can run."""
        inside = [c for c in self.waiting_calls.values() if not c.suspended and call_id in self._around(c)]
        return all(call.answered for call in inside) or any(call.of_host for call in inside)

    def suspend(self, call_id: str) -> None:
        """A call of an agent as a tool waits for what that agent waits for."""
        call = self.open_calls.pop(call_id, None) or self.inner_calls.pop(call_id, None)
        if call is not None:
            call.suspended = True
            self.waiting_calls[call_id] = call

    async def answer_open_calls(self, ctx: AnyContext, reason: str) -> list[Event]:
        """Give every call of this run that is still without a result an error result, so that the history is legal.

        The store has the events then, in their order; `flush` waits for them.
        """
        events: list[Event] = []
        service, self.unflushed = self.session_service, True
        if self.unsettled is not None:  # appending an event that is stored already changes nothing
            event, self.unsettled = self.unsettled, None
            with contextlib.suppress(AlreadyAnsweredError):
                append = service.append_answer if event.author == "user" else service.append_soon
                self.follow(await append(self.session, event))
            if self.streamed is not None:
                self.streamed.end(event)
        while self.owed:
            event = self.owed.pop(next(iter(self.owed)))
            events.append(await service.append_soon(self.session, event))
            self.follow(event)
        around = {outer for waiting in self.waiting_calls.values() for outer in self._around(waiting)}
        places = {call.place for call in self.open_calls.values() if call.id in around}
        for call in [call for call in self.open_calls.values() if call.place in places]:
            del self.open_calls[call.id]  # agents that it delegated to wait
        while self.open_calls:
            event = self.refusal(ctx, next(iter(self.open_calls.values())), reason)
            for response in event.get_function_responses():
                self.open_calls.pop(response.id or "", None)
            stored = await service.append_soon(self.session, event)
            if self.observers:
                self._tell_observers(ctx, stored)
            events.append(stored)
        return events

    async def flush(self) -> None:
        """Wait for what the store has been given; if the run is cancelled, for a moment only."""
        if self.unflushed:
            self.unflushed = False
            late = (
                f"The session store has the last events of run `{self.invocation_id}`, which was cancelled, and writes "
                f"them when it can: it has not confirmed them"
            )
            work, hurried = self.session_service.flush(), self.stop == "cancelled"
            await to_its_end(work, hurried=hurried, grace=FLUSHING_SECONDS, late=late)

    def refusal(self, ctx: AnyContext, first: OpenCall, reason: str) -> Event:
        """The event that answers an open call, and those of the same agent at the same place, with an error."""
        parts = [
            response_part(call.id, call.name, {"error": reason})
            for call in self.open_calls.values()
            if call.place == first.place
        ]
        return make(
            Event,
            id=self.effects.new_id(ctx),
            timestamp=self.effects.now(ctx),
            invocation_id=self.invocation_id,
            author=first.author,
            branch=first.branch,
            isolation_scope=first.isolation_scope,
            content=content_of("user", parts),
            actions=no_actions(),
        )

    def refusals_of(self, ctx: AnyContext, reason: str) -> list[Event]:
        """The event that answers the open calls of `ctx.agent` at its place with an error, if there are any."""
        place = (ctx.agent.name, ctx.branch, ctx.isolation_scope)
        mine = [call for call in self.open_calls.values() if call.place == place]
        return [self.refusal(ctx, mine[0], reason)] if mine else []


def _with_id(event: Event, event_id: str) -> Event:
    """The event under that id."""
    if event.id == event_id:
        return event
    return replace(event, id=event_id)
