"""`Invocation`: one call of a runner, from its message to its last event (spec §18)."""

from __future__ import annotations

import asyncio
import math
from collections import deque
from collections.abc import AsyncGenerator, Sequence
from typing import Any, Literal, Protocol

from google.genai import types

from flowloom.agents import BaseAgent
from flowloom.auth.answers import AuthAnswer, credential_requests, redact_message
from flowloom.context import InvocationContext, Run, RunConfig, StreamingMode
from flowloom.context.hooks import NO_HOOKS, content_answered, first_answer, tell_all
from flowloom.context.progress import Progress, events_of, is_left_behind, without_others
from flowloom.errors import (
    AlreadyAnsweredError,
    ConfigurationError,
    FlowloomError,
    LimitExceededError,
    RunLostError,
)
from flowloom.events import Event, EventActions
from flowloom.events.json_data import keep_json_actions
from flowloom.events.parts import answers_calls
from flowloom.events.wire import make
from flowloom.flow import record_end, settle_end, settle_failure
from flowloom.flow.ending import error_event
from flowloom.log.answers import check_answers
from flowloom.log.claims import without_repeated
from flowloom.log.marks import AGENT_ENDED
from flowloom.objects.notebook import count
from flowloom.runner.message import Message, content_of_message
from flowloom.runner.pending import Confirm, PendingCall, decisions_of, pending_in
from flowloom.runner.result import RunResult, RunStatus
from flowloom.runner.routing import answered_calls, messages_of
from flowloom.sessions import BaseSessionService, Session


class RunCancelledError(FlowloomError):
    """A run was cancelled through its handle. It is told by an event, and not raised."""


class Host(Protocol):
    """What an invocation needs of its runner."""

    app_name: str
    agent: BaseAgent
    concurrency: Literal["queue", "reject", "allow"]
    lease_seconds: float
    confirm: Confirm | None
    session_service: BaseSessionService

    async def open_session(self, user_id: str, session_id: str, run_config: RunConfig | None) -> Session: ...
    def make_context(
        self,
        session: Session,
        message: types.Content | None,
        run_config: RunConfig | None,
        invocation_id: str | None,
        answered: Sequence[Event],
        progress: Progress | None,
    ) -> InvocationContext: ...
    @property
    def tasks(self) -> frozenset[str]: ...
    async def save_blobs(self, ctx: InvocationContext, message: types.Content) -> types.Content: ...
    def after_run(self, ctx: InvocationContext) -> None: ...


class Invocation:
    """A message that is answered, or an invocation that is gone on with: `events` runs it, `result` tells of it.

    With a `confirm` callback of the runner it may take several turns: each suspends by an event, as it would for a
    person who is asked, and the next one goes on with the decisions.
    """

    _wish: Literal["paused", "cancelled"] | None = None
    _aborted: bool = False
    _error: BaseException | None = None
    _last: Event | None = None
    _told: bool = False
    """Whether an event says that the run was cancelled."""
    _answers: Sequence[AuthAnswer] = ()
    """What was taken out of the message: answers to requests for a credential."""
    _left_to_others: tuple[str, list[PendingCall]] | None = None
    """The invocation whose decisions the message has only repeated, and what waits in it."""
    _left: float = math.inf
    """How many decisions no agent had carried out after the turn before."""

    def __init__(
        self,
        host: Host,
        *,
        user_id: str,
        session_id: str,
        invocation_id: str | None = None,
        new_message: Message | None = None,
        state_delta: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
        yield_user_message: bool = False,
        abort_signal: asyncio.Event | None = None,
    ) -> None:
        self._host = host
        self._user_id = user_id
        self._session_id = session_id
        self._invocation_id = invocation_id
        self._message = None if new_message is None else content_of_message(new_message)
        if self._message is not None:
            check_answers(self._message)
        if run_config is not None and not isinstance(run_config, RunConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"`run_config` takes a `RunConfig`, not a `{type(run_config).__name__}`.")
        self._state_delta = state_delta
        self._run_config = run_config
        self._yield_user_message = yield_user_message
        self._abort_signal = abort_signal
        self._runs: list[Run] = []
        self._later: deque[types.Content] = deque()
        """Answers that other agents go on with, when the agents before them are done."""
        self._answered: set[str] = set()
        """The events that hold the answers of this run."""
        self._decided: set[str] = set()
        """The requests that `confirm` was asked about: what it has left open is a person's."""

    @property
    def invocation_id(self) -> str:
        """The id of the invocation; empty before it has begun."""
        if self._runs:
            return self._runs[-1].invocation_id
        return self._invocation_id or (self._left_to_others[0] if self._left_to_others is not None else "")

    @property
    def error(self) -> BaseException | None:
        """What ended the run, if it failed."""
        return self._error

    def stop(self, status: Literal["paused", "cancelled"]) -> None:
        """Let no agent take another step; what is under way is finished."""
        if self._wish == "cancelled":
            return
        self._wish = status
        if self._runs and self._runs[-1].stop != "limit":
            self._runs[-1].stop = status

    def stream_models(self) -> None:
        """Have the models stream from their next calls on, unless the caller's config says whether they do."""
        if self._run_config is None:
            self._run_config = RunConfig(streaming_mode=StreamingMode.SSE)
            for run in self._runs:
                run.streaming = True

    async def events(self) -> AsyncGenerator[Event, None]:
        """Run it; yields events as they happen, each stored before it is seen."""
        host = self._host
        lease, over = None, None
        if host.concurrency != "allow":
            lease = await host.session_service.acquire_lease(
                app_name=host.app_name,
                user_id=self._user_id,
                session_id=self._session_id,
                wait=host.concurrency == "queue",
                seconds=host.lease_seconds,
            )
        try:
            session = await host.open_session(self._user_id, self._session_id, self._run_config)
            session.guard(None if lease is None else lease.fence)
            answers = answers_calls(self._message)
            if answers:
                await self._take_secrets(session)
            message, state_delta, invocation_id = self._message, self._state_delta, self._invocation_id
            later = self._later
            while True:
                if message is not None and answers:
                    message, left = self._first_of(session, message, alone=lease is not None)
                    if message is None and left is None:  # there is nothing to do
                        if not later:
                            break
                        message = later.popleft()
                        continue
                    if message is None:
                        answers, state_delta, invocation_id = False, None, left
                    if lease is None:
                        session = without_others(session, self._answered)
                ctx, branch, scope = self._begin(session, message, invocation_id, answers)
                run, hooks = ctx.run, ctx.run.hooks
                if later:
                    run.answered_later = frozenset(
                        part.function_response.id or ""
                        for content in later
                        for part in content.parts or ()
                        if part.function_response is not None
                    )
                agen: AsyncGenerator[Event, None] | None = None
                settled = False
                try:
                    try:
                        ended = False
                        if message is not None or state_delta:
                            stored = await self._take_message(ctx, message, state_delta, branch, scope)
                            if stored is None:  # another run has stored its answer first
                                session = await host.open_session(self._user_id, self._session_id, self._run_config)
                                hooks, settled = NO_HOOKS, True
                                self._runs.pop()
                                continue
                            if self._yield_user_message:
                                yield stored
                        if hooks.before_run:
                            content = await first_answer(hooks.before_run, invocation_context=ctx)
                            if content is not None:
                                ended = True
                                content = content_answered(content, "before_run", ctx)
                                yield await run.record(ctx, ctx.new_event({"content": content}))
                        if not ended:
                            agen = ctx.agent.run_async(ctx)
                            async for event in agen:
                                event = await run.record(ctx, event)
                                if not event.partial:
                                    self._last = event
                                yield event
                                if self._abort_signal is not None and self._abort_signal.is_set():
                                    self._aborted = True
                                    break
                        last = await settle_end(ctx, agen, whole=not self._aborted)
                        settled = True
                        for event in last:
                            if not self._aborted:
                                yield event
                        if run.stop == "cancelled" and run.stopped:
                            for event in await self._tell_of_cancellation(ctx):
                                yield event
                    except Exception as error:
                        self._error = error
                        for event in await settle_failure(ctx, error):
                            yield event
                        raise
                    except asyncio.CancelledError:
                        for event in await self._cut_off(ctx, agen):
                            yield event
                    finally:
                        if not settled:
                            await settle_end(ctx, agen)
                        if hooks.after_run:
                            await tell_all(hooks.after_run, invocation_context=ctx)
                    message, invocation_id = None, None
                    if later and not (run.stopped or self._aborted):
                        message = later.popleft()
                    elif host.confirm is not None and not (run.stopped or self._aborted):
                        message = await decisions_of(host.confirm, self._pending(), self._decided)
                    if message is None and run.progress is not None and not (run.stopped or self._aborted):
                        invocation_id = self._with_decisions_left(run)
                except asyncio.CancelledError:  # while plugins are told that it is over, or somebody decides
                    message, invocation_id = None, None
                    for event in await self._cut_off(ctx, None):
                        yield event
                over, state_delta, answers = ctx, None, message is not None  # a further message holds answers
                if message is None and invocation_id is None:
                    break
            if session.fence is not None and session.fence.refused:
                raise session.fence.error()
        except RunLostError as lost:
            self._error = lost
            raise
        finally:
            if lease is not None:
                await lease.release()
        if over is not None:
            host.after_run(over)

    def _first_of(
        self, session: Session, message: types.Content, *, alone: bool
    ) -> tuple[types.Content | None, str | None]:
        """What a message of answers decides first, each agent going on with what is its own; the rest comes later.

        Decisions that the session has already are left out. If nothing else is there, the run goes on with the
        invocation whose decision was not carried out, or does nothing: only one that is `alone` knows that no other is
        about to. Raises `AlreadyAnsweredError` for a decision that is to be changed.
        """
        news, repeated = without_repeated(session.events, message)
        if news is not None:
            first, *others = messages_of(self._host.agent, session.events, news)
            self._later.extendleft(reversed(others))
            return first, None
        invocation_id = repeated[0].asked.invocation_id
        if alone and any(is_left_behind(session.events, decision) for decision in repeated):
            return None, invocation_id
        self._left_to_others = invocation_id, pending_in(session.history.ledger(session.events), invocation_id)
        return None, None

    async def _take_secrets(self, session: Session) -> None:
        """Take answers to requests for a credential out of the message, by their name and by their id."""
        assert self._message is not None
        config, events = self._run_config, session.events
        if config is not None and config.get_session_config is not None:  # the request is perhaps not among these
            events = (await self._host.open_session(self._user_id, self._session_id, None)).events
        self._message, self._answers = redact_message(self._message, credential_requests(events, self._message))

    def _begin(
        self, session: Session, message: types.Content | None, invocation_id: str | None, answers: bool
    ) -> tuple[InvocationContext, str | None, str | None]:
        """Where to begin: the context, and the branch and scope that the message belongs to, if it `answers` calls."""
        answered = answered_calls(session.events, message) if answers else []
        progress: Progress | None = None
        if answered:
            own = answered[0].invocation_id
            progress = Progress(events_of(session, own), interrupted=False)
            progress.answers(message)
        elif message is None and invocation_id is not None:
            progress = Progress(events_of(session, invocation_id), interrupted=True)
            answered = answered_calls(session.events[: progress.beginning_in(session.events)], progress.message)
        ctx = self._host.make_context(session, message, self._run_config, invocation_id, answered, progress)
        run = ctx.run
        if self._answers:
            run.keyring.hold(self._answers)
        run.stop = self._wish
        if self._runs:
            before = self._runs[-1]  # limits, what was used and the keys of effects are those of all turns together
            run.totals, run.steps, run.effect_counts = before.totals, before.steps, before.effect_counts
        elif run.totals.started is None:
            run.totals.start(ctx)
        self._runs.append(run)
        if not answered or message is None:
            return ctx, None, None
        first = answered[0]
        return ctx, first.branch, first.isolation_scope

    def _with_decisions_left(self, run: Run) -> str | None:
        """The invocation, if people have decided what no agent has carried out, and the last turn carried out some."""
        left = sum(call.state == "decided" for call in run.waiting_calls.values())
        fewer, self._left = 0 < left < self._left, left
        return run.invocation_id if fewer else None

    async def _cut_off(self, ctx: InvocationContext, agen: AsyncGenerator[Event, None] | None) -> list[Event]:
        """The last events of a run that was cancelled at once; raises if nobody wished that, or if it has failed."""
        if self._wish != "cancelled":
            raise
        if self._error is not None:
            raise self._error
        ctx.run.stop, ctx.run.stopped = "cancelled", True
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()  # it is taken care of here
        events = await settle_end(ctx, agen, whole=True)
        if not self._told:
            events += await self._tell_of_cancellation(ctx)
        return events

    async def _tell_of_cancellation(self, ctx: InvocationContext) -> list[Event]:
        self._told = True
        events = await record_end(ctx, _cancelled(ctx))
        await ctx.run.flush()
        return events

    async def _take_message(
        self,
        ctx: InvocationContext,
        message: types.Content | None,
        state_delta: dict[str, Any] | None,
        branch: str | None,
        scope: str | None,
    ) -> Event | None:
        """Store the user's message (spec §18.4); one that answers a call belongs to that call's branch.

        None if another run has decided meanwhile what it decides: nothing of it was stored.
        """
        run = ctx.run
        if message is not None:
            if run.hooks.on_user_message:
                replaced = await first_answer(run.hooks.on_user_message, invocation_context=ctx, user_message=message)
                if replaced is not None:
                    check_answers(replaced := content_answered(replaced, "on_user_message", ctx))
                    message = run.keyring.receive(replaced, run.session.events)
            if run.config.save_input_blobs_as_artifacts and run.artifact_service is not None:
                message = await self._host.save_blobs(ctx, message)
            run.user_content = message
        if scope is None and self._host.tasks:
            scope = run.session.history.ledger(run.session.events).open_task(self._host.tasks)
        values: dict[str, Any] = {"author": "user", "branch": branch, "content": message, "isolation_scope": scope}
        if state_delta:
            actions = make(EventActions, state_delta=dict(state_delta))
            keep_json_actions(actions)
            values["actions"] = actions
        if answers_calls(message):  # a tool may run because of it, so it has to be kept before that
            event = ctx.new_event(values)
            self._answered.add(event.id)
            try:
                return await run.record(ctx, event, hooks=(), answers=True)
            except AlreadyAnsweredError:
                return None
        event = await run.record(ctx, ctx.new_event(values), hooks=(), soon=not self._yield_user_message)
        if run.progress is None:
            run.message_seen = len(run.session.events), None
        return event

    def result(self, events: Sequence[Event]) -> RunResult:
        """What came of the run, now that it is over; `events` are those that it gave."""
        error = None if isinstance(self._error, asyncio.CancelledError) else self._error
        result = RunResult(self.invocation_id, self.status, error=error)
        result.take(events, {event_id: made for run in self._runs for event_id, made in (run.outputs or {}).items()})
        if self._runs:
            result.count(self._runs[-1].totals)
            result.pending = self._pending()
        if self._left_to_others is not None:
            result.pending = self._left_to_others[1]
        return result

    def _pending(self) -> list[PendingCall]:
        """What the invocation waits for."""
        run = self._runs[-1]
        return pending_in(run.session.history.ledger(run.session.events), run.invocation_id)

    @property
    def status(self) -> RunStatus:
        """Why the run is over."""
        if self._error is not None:
            if isinstance(self._error, asyncio.CancelledError):
                return "cancelled"
            return "limit" if isinstance(self._error, LimitExceededError) else "failed"
        run = self._runs[-1] if self._runs else None
        if self._aborted:
            return "cancelled"
        if run is not None and run.stopped and run.stop is not None:
            return run.stop
        if self._left_to_others is not None:
            return "paused" if self._left_to_others[1] else "final"
        if run is not None and run.waiting_calls:
            return "paused"
        if self._last is not None and AGENT_ENDED in (self._last.custom_metadata or ()):
            return "limit"
        return "final"

    def failed(self, error: BaseException) -> None:
        """Note an error that came before the first event, or a cancellation."""
        self._error = self._error or error


async def result_of(invocation: Invocation) -> RunResult:
    """Run it to its end. Raises what ends it."""
    events = invocation.events()
    try:
        collected = [event async for event in events]
    finally:
        await events.aclose()
    return invocation.result(collected)


def _cancelled(ctx: InvocationContext) -> Event:
    totals = ctx.run.totals
    error = RunCancelledError(
        f"The run was cancelled after {count(totals.model_calls, 'model call')} and "
        f"{count(totals.tool_calls, 'tool call')}. What had a result by then is in the history."
    )
    return error_event(ctx, error, "cancelled")
