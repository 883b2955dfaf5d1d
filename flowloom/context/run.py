"""`Run`: what all agents of one invocation share."""

from __future__ import annotations

import asyncio
import contextlib
import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, Literal, TypeVar

from google.genai import types

from flowloom.artifacts import BaseArtifactService
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
from flowloom.context.totals import Totals, new_dict
from flowloom.errors import AlreadyAnsweredError, CallbackError, StorageError
from flowloom.events.event import Event
from flowloom.events.ids import INPUT_ID_PREFIX
from flowloom.events.json_data import keep_json
from flowloom.events.parts import content_of, parts_of, response_part
from flowloom.events.requests import without_requests
from flowloom.events.wire import replace
from flowloom.log.answers import says_nothing
from flowloom.log.ledger import CallLedger, CallRecord, asks
from flowloom.log.marks import AGENT_TOOL_CALL, tells_of_end
from flowloom.memory import BaseMemoryService
from flowloom.models.base_llm import BaseLlm
from flowloom.sessions import BaseSessionService, Session

_ContextT = TypeVar("_ContextT", bound=AnyContext)
_log = logging.getLogger("flowloom.plugins")

INTERRUPTED = "The run was interrupted before this call gave a result."
FLUSHING_SECONDS = 0.75
"""How long a cancelled run waits for the store to confirm them."""


@dataclass(eq=False, repr=False)
class Run:
    """What all agents of one invocation share.

    `invocation_id` is the id that its events have, `user_content` its message, None if it began without one. The
    services are `session_service`, `artifact_service`, `memory_service` and `credential_service`; None where there is
    none. `hooks` are those of the plugins, `effects` the way to models, tools, time and chance, `totals` the counters
    (those of the caller, if it shares them), `observers` what looks at processors. `streaming` says whether models are
    asked for streams; None: as the config says.

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
    observers: tuple[Observer, ...] = field(default_factory=observers)
    progress: Progress | None = None
    """How far the invocation got before this run, if the run resumes one (decision 28)."""
    extra_steps: tuple[Any, ...] = ()
    """Request processors of the app, which every flow of the run has before `contents`."""
    caller: Run | None = field(default=None, repr=False)
    """The run of which this one is a tool."""
    totals: Totals = field(init=False)
    streaming: bool = field(init=False)
    steps: dict[str, int] = field(default_factory=new_dict, init=False)
    """Model steps taken so far, by agent path."""
    effect_counts: dict[tuple[str, int, str], int] = field(default_factory=new_dict, init=False)
    attempts: dict[tuple[str, int, str, int], int] | None = field(default=None, init=False)
    """How often tool calls were tried before, by path, step, kind and position, for those that were."""
    recorded_calls: dict[str, bool] = field(default_factory=new_dict, init=False)
    """The calls that the run has recorded, or results of, by id, and whether each has a result: while all have, the run
    need not ask the ledger."""
    told_calls: dict[str | None, int | None] = field(default_factory=new_dict, init=False)
    """The calls of which the run was told whether it has to answer them: how many responses one had that it makes
    again; None for one that a later run answers, or a client or a person."""
    entries: dict[str, int] = field(default_factory=new_dict, init=False)
    """How often each workflow was entered, by node path."""
    done_once: frozenset[tuple[str, str]] = field(default=frozenset(), init=False)
    """What was done once at a place in the run (see `InvocationContext.once`)."""
    answered_later: frozenset[str] = field(default=frozenset(), init=False)
    """Calls whose results are there already, and stored when the run resumes the agents that made them."""
    outputs: dict[str, Callable[[], Any]] | None = field(default=None, init=False)
    """The structured answers of the run's agents, by the id of the event: what each makes of its output schema."""
    inputs: dict[str, list[Any]] | None = field(default=None, init=False)
    """What people have answered to the tools that asked for input, by call id."""
    models: tuple[Callable[[Any], BaseLlm | None], ...] = field(default=(), init=False)
    """What may choose another model for an agent whose turn had begun before the run, given its place."""
    requests: frozenset[str] = field(default=frozenset(), init=False)
    """The requests to people that the run has made, those of its agents that run as tools included."""
    rehearsal: bool = field(default=False, init=False)
    """Whether this only finds out what a run would do: no telemetry, and no model is asked."""
    own_threads: Threads | None = field(default=None, init=False)
    stop: Literal["paused", "cancelled"] | None = field(default=None, init=False)
    """What was asked for: no agent of the run is to take another step."""
    stopped: Literal["paused", "cancelled", "limit"] | None = field(default=None, init=False)
    """Why an agent did not take a step, and no other one does."""
    unflushed: bool = field(default=False, init=False)
    """Whether an event was handed to the store that is perhaps not durable yet."""
    message_seen: tuple[int, int | None] = field(default=(0, None), init=False)
    """How much of the log was looked through for the user's latest message, and where it is if it answers calls."""
    undelivered_events: dict[str, Event] | None = field(default=None, init=False)
    """What agents have left that ran as tools and wait, by event id, until it is stored."""
    streamed: Streamed | None = field(default=None, init=False)
    """What the consumer has seen of answers that are not complete yet; None until something is streamed."""
    in_doubt_event: Event | None = field(default=None, init=False)
    """The event whose storing was cut off: the store may or may not have it."""
    failures: tuple[tuple[BaseException, Any], ...] = field(default=(), init=False)
    """The errors that ended turns of agents, and where each came from."""

    def __post_init__(self) -> None:
        outer = self.caller
        if outer is None:
            self.totals = Totals(self.config)
            self.streaming = self.config.streaming_mode is StreamingMode.SSE
        else:  # an agent that runs as a tool counts with those who called it
            self.totals, self.rehearsal = outer.totals, outer.rehearsal
            self.streaming = outer.streaming and outer.config.forward_agent_tool_events
        self.stop = self.stopped = self.streamed = self.undelivered_events = self.in_doubt_event = None

    def note_failure(self, error: BaseException, ctx: AnyContext) -> None:
        """An `error` ends the turn of `ctx.agent`: what it was saying is broken off."""
        if isinstance(error, Exception):
            self.failures += ((error, self.origin_of(error, ctx)),)
        if self.streamed is not None:
            self.streamed.break_off(ctx.agent.name, ctx.branch, ctx.isolation_scope)

    def broken_off(self) -> list[Event]:
        """The events that keep what was broken off so far, while the run goes on: an agent has caught what ended it."""
        return self.streamed.cut_off(all_over=False) if self.streamed is not None else []

    def origin_of(self, error: BaseException, otherwise: _ContextT) -> _ContextT:
        """Where `error` comes from, as far as that was noted, or `otherwise`; others may have been caught before."""
        return next((ctx for known, ctx in self.failures if known in (error, error.__context__)), otherwise)

    @property
    def threads(self) -> Threads:
        """The threads of blocking tools, those of its caller if the run has one; made at the first use."""
        if self.caller is not None:
            return self.caller.threads
        if self.own_threads is None:
            self.own_threads = Threads(self.config.tool_thread_pool_config.max_workers)
        return self.own_threads

    @cached_property
    def keyring(self) -> Keyring:
        """What the run knows of credentials, with its caller if it has one; in memory only."""
        return Keyring() if self.caller is None else self.caller.keyring

    def claim_call_id(self, call_id: str) -> bool:
        """Whether a call may have the id `call_id`: no other one has it, in the session or in an agent that runs as a
        tool.
        """
        if self.caller is not None:
            return self.caller.claim_call_id(call_id)
        session = self.session
        return not call_id.startswith(INPUT_ID_PREFIX) and session.history.claim_call_id(session.events, call_id)

    @property
    def lost(self) -> bool:
        """Whether another run is known to have taken the session over."""
        return self.session.fence is not None and (self.session.fence.lost or self.session.fence.refused)

    def check_stored(self) -> None:
        """Raise `RunLostError` if an event was not stored whose storing was not awaited."""
        if self.session.fence is not None and self.session.fence.refused:
            raise self.session.fence.error()

    async def check_lease(self) -> None:
        """Before something is done to the world: raises `RunLostError` if another run has taken the session over."""
        fence = self.session.fence
        if fence is not None:
            await fence.check()

    def answering_message(self) -> int | None:
        """Where in the session's log the user's latest message is, if it answers calls; nothing is read twice.

        Of a run that is resumed without a new message, only those of its own invocation count.
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

    async def record(
        self,
        ctx: AnyContext,
        event: Event,
        hooks: Callbacks | None = None,
        *,
        durable: bool = True,
        answers: bool = False,
    ) -> Event:
        """Take an event into the session, and return it as the consumer is to see it (spec §18.8).

        Plugins may replace it (`hooks`: those asked; not for the user's message), but not its id, which spans and
        partial events have, too; it is stored unless it is partial;
        `temp:` state goes no further. One that no consumer sees need not be `durable` before the next;
        one that `answers` calls is stored unless they were answered. Raises `AlreadyAnsweredError` then.
        """
        if not event.author or event.output is not None or self.config.custom_metadata:
            event = self._completed(ctx, event)
        partial = event.partial
        if partial:
            self.streamed = self.streamed or Streamed()
            self.streamed.add(event)
        elif self.streamed is not None:
            event = self.streamed.completed(event)
        hooks = self.hooks.on_event if hooks is None else hooks
        if hooks:
            event = await _as_plugins_want(hooks, ctx, event)
            partial = event.partial
        if event.long_running_tool_ids:
            event = without_requests(event, self.requests)
        if not partial:
            service, session = self.session_service, self.session
            try:
                if durable:
                    event = await (service.append_answer if answers else service.append_event)(session, event)
                else:
                    event = await service.append_buffered(session, event)
            except (asyncio.CancelledError, StorageError):
                self.in_doubt_event = event
                raise
            self.unflushed = not durable
            self._note_stored(event)
        if self.observers:
            self._tell_observers(ctx, event)
        return event

    def _completed(self, ctx: AnyContext, event: Event) -> Event:
        """An event with its author, with the metadata of the run's config, and with its output said once."""
        if not event.author:
            event.author = ctx.agent.name
        if self.config.custom_metadata:
            event = replace(event, custom_metadata=self.config.custom_metadata | (event.custom_metadata or {}))
        node = event.node_info
        if event.output is not None and event.content is not None and node is not None and node.message_as_output:
            event = replace(event, output=None)
        return event

    def _note_stored(self, event: Event) -> None:
        """The store has an event: it is no more what the consumer has seen only, nor undelivered."""
        if self.streamed is not None:
            self.streamed.end(event)
        if self.undelivered_events:
            self.undelivered_events.pop(event.id, None)
        content = event.content
        for part in parts_of(content):
            if (call := part.function_call) is not None:
                self.recorded_calls[call.id or ""] = False
            elif (response := part.function_response) is not None:
                self.recorded_calls[response.id or ""] = not asks(event, response.id)

    def _tell_observers(self, ctx: AnyContext, event: Event) -> None:
        for observer in self.observers:
            try:
                observer.event_recorded(ctx, event)
            except Exception as error:
                note_origin(error, ctx, f"observer `{type(observer).__qualname__}`")
                raise

    @property
    def ledger(self) -> CallLedger:
        """In what state each call of the session is."""
        session = self.session
        return session.history.ledger(session.events)

    @property
    def waiting_calls(self) -> Mapping[str, CallRecord]:
        """Calls of long-running tools, requests to a person that were not carried out, and the calls of agents that
        wait."""
        if not self.recorded_calls and self.progress is None:
            return {}
        return {made.id: made for made in self.ledger.waiting(self.invocation_id)}

    @property
    def open_calls(self) -> Mapping[str, CallRecord]:
        """The calls that this run has to answer if it ends before they have a result.

        A call whose agent waits is left to the run that has the answer; so are the others of an agent that delegates
        and waits.
        """
        if self.progress is None and not self.told_calls and all(self.recorded_calls.values()):
            return {}
        found, waiting = self._without_result(), self.ledger.awaiting()
        delegating = {made.place[:3] for made in found.values() if made.id in waiting and not made.suspended}
        return {made.id: made for made in found.values() if made.id not in waiting and made.place[:3] not in delegating}

    def _without_result(self) -> Mapping[str, CallRecord]:
        """The calls without a result that this run has made, or makes again. If it resumes an invocation without a
        message, it is about all that was left there, agents as tools that were cut off included: what those have called
        is theirs to answer."""
        ledger, told, progress = self.ledger, self.told_calls, self.progress
        made_here = ledger.open(self.invocation_id)
        if progress is not None and progress.interrupted:
            made_here += [made for made in ledger.live(self.invocation_id) if made.suspended and not made.inner]
        found = {made.id: made for made in made_here if told.get(made.id, 0) is not None}
        for call_id, responses in told.items():
            made = ledger.call(call_id)
            if made is not None and len(made.answers) == responses:
                found[made.id] = made
        return found

    def begin_again(self, call_id: str) -> None:
        """Count the call `call_id` as open until it has a result, so that one that is interrupted is not forgotten."""
        made = self.ledger.call(call_id)
        if made is not None:
            self.told_calls[call_id] = len(made.answers)

    def leave_open(self, *call_ids: str | None) -> None:
        """Leave the calls with `call_ids` to a later run, or to a client or a person who answers them."""
        self.told_calls |= dict.fromkeys(call_ids)

    async def answer_open_calls(self, ctx: AnyContext, reason: str) -> list[Event]:
        """Give every call of this run that is still without a result an error result with `reason`, so that the history
        is legal.

        The store has the events then, in their order; `flush` waits for them.
        """
        events: list[Event] = []
        service, session, self.unflushed = self.session_service, self.session, True
        if self.in_doubt_event is not None:  # appending an event that is stored already changes nothing
            event, self.in_doubt_event = self.in_doubt_event, None
            with contextlib.suppress(AlreadyAnsweredError):
                await (service.append_answer if event.author == "user" else service.append_buffered)(session, event)
                self._note_stored(event)
        while self.undelivered_events:
            event = self.undelivered_events.pop(next(iter(self.undelivered_events)))
            events.append(await service.append_buffered(session, event))
        for calls in self._open_calls_by_place().values():
            self.leave_open(*(made.id for made in calls))  # whatever the store says
            events.append(await service.append_buffered(session, self._refusal(ctx, calls, reason)))
            if self.observers:
                self._tell_observers(ctx, events[-1])
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

    def refusals_of(self, ctx: AnyContext, reason: str) -> list[Event]:
        """The event that answers the open calls of `ctx.agent` at its place with an error of this `reason`, if there
        are any.
        """
        calls = self._open_calls_by_place().get(ctx.place[:3])
        return [self._refusal(ctx, calls, reason)] if calls else []

    def _open_calls_by_place(self) -> dict[tuple[str, str | None, str | None], list[CallRecord]]:
        """The open calls by author, branch and scope: one event answers those that have them in common."""
        groups: dict[tuple[str, str | None, str | None], list[CallRecord]] = {}
        for made in self.open_calls.values():
            groups.setdefault(made.place[:3], []).append(made)
        return groups

    def _refusal(self, ctx: AnyContext, calls: Sequence[CallRecord], reason: str) -> Event:
        """The event that answers calls of one agent at one place with an error."""
        author, branch, scope, _ = calls[0].place
        place = {"author": author, "branch": branch, "isolation_scope": scope, "node_info": None}
        content = content_of("user", [response_part(made.id, made.name, {"error": reason}) for made in calls])
        return ctx.new_event({**place, "custom_metadata": self.config.custom_metadata, "content": content})


async def _as_plugins_want(hooks: Callbacks, ctx: AnyContext, event: Event) -> Event:
    """What plugins put in the place of an event, under its id; the event itself if they put nothing there.

    A plugin that fails with the event that tells of the end of a run does not keep it from the log.
    """
    try:
        replaced = await first_answer(hooks, invocation_context=ctx, event=event)
        if replaced is None:
            return event
        if not isinstance(replaced, Event):
            raise CallbackError(f"`on_event` of a plugin answered {type(replaced).__name__}. It may answer an Event.")
        keep_json(replaced)
    except Exception:
        if not tells_of_end(event):
            raise
        _log.exception("A plugin's `on_event` failed with the event that ends the run, which is stored as it is.")
        return event
    return replaced if replaced.id == event.id else replace(replaced, id=event.id)
