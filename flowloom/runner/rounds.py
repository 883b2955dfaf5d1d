"""`Rounds`: one call of a runner, from its message to its last event (spec §18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal

from google.genai import types

from flowloom import run_stream
from flowloom.auth.answers import AuthAnswer, credential_requests, redact_message
from flowloom.context import Run, RunConfig, StreamingMode
from flowloom.context.progress import Progress, is_left_behind, progress_of, without_others
from flowloom.errors import ConfigurationError, InputValidationError, LimitExceededError
from flowloom.events import Event
from flowloom.events.parts import answers_calls
from flowloom.log.answers import readable_answers
from flowloom.log.claims import without_repeated
from flowloom.log.marks import AGENT_ENDED
from flowloom.objects.on_use import ModuleOnUse
from flowloom.runner.message import Message, content_of_message
from flowloom.runner.round import Host, Round
from flowloom.runner.routing import answered_call, as_reply, messages_of
from flowloom.sessions.admission import admitted_message, check_metadata, check_texts
from flowloom.sessions.leases import SessionLease

if TYPE_CHECKING:
    from flowloom.run_stream import RunStreamEvent
    from flowloom.runner import pending, result
    from flowloom.runner.pending import PendingCall
    from flowloom.runner.result import RunResult, RunStatus
else:
    pending = ModuleOnUse("flowloom.runner.pending")  # few runs wait for a person
    result = ModuleOnUse("flowloom.runner.result")  # streams of events have none


@dataclass(eq=False, kw_only=True)
class Rounds:
    """A message that is answered, or an invocation that is resumed: `events` runs it, `result` tells of it.

    It may take several rounds: a message that answers several agents is taken in one by one, and with a `confirm`
    callback of the runner each round suspends by an event, as it would for a person who is asked, and the next one
    carries the decisions out.
    """

    host: Host = field(kw_only=False)
    user_id: str
    session_id: str
    invocation_id: str | None = None
    """The invocation that the next round resumes."""
    new_message: Message | None = None
    state_delta: dict[str, Any] | None = None
    run_config: RunConfig | None = None
    yield_user_message: bool = False
    abort_signal: asyncio.Event | None = None
    lease: SessionLease | None = None
    """That of the session, if it has one: the caller's, or the one that `events` takes."""
    _message: types.Content | None = field(default=None, init=False)
    """The message that is next."""
    _stop_requested: Literal["paused", "cancelled"] | None = field(default=None, init=False)
    error: BaseException | None = field(default=None, init=False)
    """What `events` has raised, as who reads them notes."""
    _answers: Sequence[AuthAnswer] = field(default=(), init=False)
    """What was taken out of the message: answers to requests for a credential."""
    _left_to_others: tuple[str, list[PendingCall]] | None = field(default=None, init=False)
    """The invocation whose decisions the message has only repeated, and what waits in it."""

    def __post_init__(self) -> None:
        self._rounds: list[Round] = []
        self._later: list[types.Content] = []
        """Answers for other agents, which are resumed when the agents before them are done."""
        self._decided: set[str] = set()
        """The requests that `confirm` was asked about: what it has left open is a person's."""

    def check(self) -> None:
        """Read the arguments, as `events` does first. Raises `InputValidationError` or `ConfigurationError`."""
        if self.new_message is not None:
            self._message = content_of_message(self.new_message)
        config, delta = self.run_config, self.state_delta
        if config is not None and not isinstance(config, RunConfig):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"`run_config` takes a `RunConfig`, not a `{type(config).__name__}`.")
        if type(self.user_id) is not str or type(self.session_id) is not str:
            check_texts(user_id=self.user_id, session_id=self.session_id)
        if config is not None:
            check_metadata(config.custom_metadata)
        if delta is not None and not isinstance(delta, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise InputValidationError(f"`state_delta` takes a dict of names and values, not {delta!r:.60}.")

    @property
    def current_id(self) -> str:
        """The id of the invocation; empty before it has begun."""
        if self._rounds:
            return self._rounds[-1].run.invocation_id
        return self.invocation_id or (self._left_to_others[0] if self._left_to_others is not None else "")

    def stop(self, status: Literal["paused", "cancelled"]) -> None:
        """Let no agent take another step; what is under way is finished."""
        if self._stop_requested != "cancelled":
            self._stop_requested = status
            if self._rounds:
                self._rounds[-1].run.stop = status

    def stream_models(self) -> None:
        """Have the models stream from their next calls on, unless the caller's config says whether they do."""
        if self.run_config is None:
            self.run_config = RunConfig(streaming_mode=StreamingMode.SSE)
            for each in self._rounds:
                each.run.streaming = True

    async def events(self) -> AsyncGenerator[Event, None]:
        """Run it; yields events as they happen, each stored before it is seen."""
        self.check()
        try:
            current = await self._open()
            while current is not None:
                async with current:
                    for event in await current.begin():
                        yield event
                    async for event in current.events:
                        event = await current.run.record(current.ctx, event)
                        if not event.partial:
                            current.last = event
                        yield event
                        if self.abort_signal is not None and self.abort_signal.is_set():
                            current.aborted = True
                            break
                    await self._ask_confirm(current)
                for event in current.closing:
                    yield event
                if current.error is not None:
                    raise current.error
                current = await self._next_round(current)
            if self._rounds:
                self._rounds[-1].run.check_stored()
                self.host.after_run(self._rounds[-1].ctx)
        finally:
            if self.lease is not None:
                await self.lease.release()

    async def typed(self, events: AsyncGenerator[Event, None]) -> AsyncGenerator[RunStreamEvent, None]:
        """The typed events of the run, whose `events` these are, to its end; what ends it is told and not raised."""
        mapper = run_stream.RunStreamMapper()
        error: Exception | None = None
        try:
            async for event in events:
                for shown in mapper.feed(event):
                    yield shown
        except Exception as raised:
            self.error = error = raised
        finally:
            await events.aclose()
        for shown in mapper.finish(status=self.status, error=error):
            yield shown

    async def _open(self) -> Round | None:
        """Take the lease of the session, open it, take secrets out of the message, and begin the first round."""
        host = self.host
        if self.lease is None and host.concurrency != "allow":
            self.lease = await host.session_service.acquire_lease(
                app_name=host.app_name,
                user_id=self.user_id,
                session_id=self.session_id,
                wait=host.concurrency == "queue",
                seconds=host.lease_seconds,
            )
        self.session = await host.open_session(self.user_id, self.session_id, self.run_config)
        self.session.guard(None if self.lease is None else self.lease.fence)
        message = self._message
        if message is not None:
            if host.takes_words and not answers_calls(message):
                message = as_reply(host.agent, self.session, message)
            self._message = await self._without_secrets(message) if answers_calls(message) else message
        return self._begin()

    async def _ask_confirm(self, latest: Round) -> None:
        """Have the runner's `confirm` callback decide what waits, if nothing else comes first: that is the next
        message."""
        confirm, nothing_else = self.host.confirm, not (self._later or latest.preempted or latest.aborted)
        if confirm is not None and nothing_else and not latest.run.stopped:
            decided = await pending.decisions_of(confirm, self._pending(), self._decided)
            self._later += [] if decided is None else [decided]

    async def _next_round(self, latest: Round) -> Round | None:
        """The round after the latest one: about an answer that resumes another agent, or a decision that is not carried
        out yet. None if there is nothing more to do."""
        if latest.preempted:  # another run has stored its answer first
            self._rounds.pop()
            self.session = await self.host.open_session(self.user_id, self.session_id, self.run_config)
            return self._begin()
        if latest.aborted or latest.run.stopped:
            return None
        self._message = self.invocation_id = self.state_delta = None
        if self._later:
            self._message = self._later.pop(0)
        elif latest.run.progress is not None:
            self.invocation_id = self._with_decisions_left(latest.run)
        return None if self._message is None and self.invocation_id is None else self._begin()

    def _choose_answers(self, message: types.Content) -> bool:
        """What of a message of answers comes first; whether there is anything to do."""
        while not self._takes(message):
            if not self._later:
                return False
            message = self._later.pop(0)
        if self.lease is None:
            self.session = without_others(self.session, {each.message_id for each in self._rounds})
        return True

    def _takes(self, message: types.Content) -> bool:
        """Whether the round is about a message of answers: what that decides first, each agent with what is its own;
        the rest comes later.

        Decisions that the session has already are left out. If nothing else is there, the run resumes the invocation
        whose decision was not carried out, or does nothing: only one that is alone on the session, with a lease, knows
        that no other is about to. Raises `AlreadyAnsweredError` for a decision that is to be changed.
        """
        session = self.session
        ledger = session.history.ledger(session.events)
        news, repeated = without_repeated(ledger, admitted_message(message, ledger))
        if news is not None:
            self._message, *others = messages_of(self.host.agent, session, news)
            self._later[:0] = others
            return True
        invocation_id = max(repeated, key=lambda each: each.made.since).made.event.invocation_id
        if self.lease is not None and any(is_left_behind(ledger, decision) for decision in repeated):
            self._message, self.state_delta, self.invocation_id = None, None, invocation_id
            return True
        self._left_to_others = invocation_id, pending.pending_in(ledger, invocation_id)
        return False

    async def _without_secrets(self, message: types.Content) -> types.Content:
        """A message without the answers to requests for a credential, which are known by their name and their id."""
        config, events = self.run_config, self.session.events
        if config is not None and config.get_session_config is not None:  # the request is perhaps not among these
            events = (await self.host.open_session(self.user_id, self.session_id, None)).events
        message, self._answers = redact_message(message, credential_requests(events, message))
        return message

    def _progress(self) -> tuple[Progress | None, Event | None]:
        """How far the invocation is that the round resumes, if it does; and the event of the call that is answered."""
        session, message, invocation_id = self.session, self._message, self.invocation_id
        if message is None:
            if invocation_id is None:
                return None, None
            progress = progress_of(session, invocation_id, None)
            return progress, answered_call(session.history.ledger(session.events), progress.message)
        answered = answered_call(session.history.ledger(session.events), message)
        return None if answered is None else progress_of(session, answered.invocation_id, message), answered

    def _begin(self) -> Round | None:
        """The round of what was chosen; None if others have done it already.

        Its message belongs to the branch and scope of the call that it answers.
        """
        message, answers = self._message, answers_calls(self._message)
        if message is not None and answers and not self._choose_answers(message):
            return None
        message, invocation_id = self._message, self.invocation_id
        progress, answered = self._progress() if message is None or answers else (None, None)
        ctx = self.host.make_context(self.session, message, self.run_config, invocation_id, answered, progress)
        run = ctx.run
        if self._answers:
            run.keyring.hold(self._answers)
        run.stop = self._stop_requested
        if self._rounds:
            before = self._rounds[-1].run  # limits, what was used and the keys of effects are those of all rounds
            run.totals, run.steps, run.effect_counts = before.totals, before.steps, before.effect_counts
        elif run.config.limits.seconds is not None:
            run.totals.started = run.effects.now(ctx)
        if self._later:
            run.answered_later = frozenset(each.id or "" for left in self._later for each in readable_answers(left))
        current = Round(
            self.host,
            ctx,
            message,
            self.state_delta,
            answered=None if message is None else answered,
            shows_message=self.yield_user_message,
        )
        self._rounds.append(current)
        return current

    def _with_decisions_left(self, run: Run) -> str | None:
        """The invocation, if people have decided what no agent has carried out and no round was about.

        What a round was about and has left, a callback has answered in the agent's place; unless an agent was let begin
        by it, and waits: then those around it have their say.
        """
        *before, latest = [each.run.progress.answered for each in self._rounds if each.run.progress is not None]
        tried = set[str]().union(*before)
        left = [made for made in run.waiting_calls.values() if made.state == "decided" and made.id not in tried]
        more = any(made.id not in latest or (run.ledger.call(made.subject) or made).suspended for made in left)
        return run.invocation_id if more and not latest <= tried else None

    def result(self, events: Sequence[Event]) -> RunResult:
        """What came of the run, now that it is over; `events` are those that it gave."""
        error = None if isinstance(self.error, asyncio.CancelledError) else self.error
        told = result.RunResult(self.current_id, self.status, error=error)
        told.take(events, {key: made for each in self._rounds for key, made in (each.run.outputs or {}).items()})
        if self._rounds:
            used = self._rounds[-1].run.totals
            told.usage, told.model_calls, told.tool_calls = used.usage, used.model_calls, used.tool_calls
            told.pending = self._pending()
        if self._left_to_others is not None:
            told.pending = self._left_to_others[1]
        return told

    def _pending(self) -> list[PendingCall]:
        """What the invocation waits for."""
        run = self._rounds[-1].run
        return pending.pending_in(run.ledger, run.invocation_id)

    @property
    def status(self) -> RunStatus:
        """Why the run is over."""
        error, latest = self.error, self._rounds[-1] if self._rounds else None
        if isinstance(error, asyncio.CancelledError) or (error is None and latest is not None and latest.aborted):
            return "cancelled"
        if error is not None:
            return "limit" if isinstance(error, LimitExceededError) else "failed"
        if latest is not None and latest.run.stopped:
            return latest.run.stopped
        if self._left_to_others is not None:
            return "paused" if self._left_to_others[1] else "final"
        return "final" if latest is None else _status_of(latest)


def _status_of(latest: Round) -> RunStatus:
    """How a round has ended that went to its end."""
    if latest.run.waiting_calls:
        return "paused"
    return "limit" if latest.last is not None and AGENT_ENDED in (latest.last.custom_metadata or ()) else "final"


async def result_of(rounds: Rounds) -> RunResult:
    """Run it to its end. Raises what ends it."""
    events = rounds.events()
    try:
        collected = [event async for event in events]
    finally:
        await events.aclose()
    return rounds.result(collected)
