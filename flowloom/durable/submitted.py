"""`SubmittedRun`: a run of the fleet, from any process (durable design, section 4)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncGenerator, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from google.genai import types

from flowloom.auth.answers import credential_requests, redact_message
from flowloom.context import Usage
from flowloom.durable import sql_audience, sql_runs
from flowloom.durable.callers import Callers
from flowloom.durable.errors import PoisonRunError, RunExpiredError, RunFailedError, RunStateError
from flowloom.durable.follow import Follower, Told
from flowloom.durable.given import check_state
from flowloom.durable.records import OVER, Changed, Outcome, Row, RunInfo, Status
from flowloom.durable.registry import Registry, not_found
from flowloom.durable.specs import Audience, Spec, message_data
from flowloom.errors import InputValidationError, NotSupportedError, RequestNotFoundError
from flowloom.events import Event
from flowloom.events.parts import answers_calls, content_of
from flowloom.log.claims import without_repeated
from flowloom.log.marks import RUN_ENDED
from flowloom.run_stream import RunStreamMapper
from flowloom.runner import PendingCall, RunResult
from flowloom.runner.message import Message, content_given
from flowloom.runner.pending import pending_in
from flowloom.sessions import Session
from flowloom.sessions.admission import admitted_message, check_message
from flowloom.sessions.leases import Key

if TYPE_CHECKING:
    from flowloom.run_stream import RunStreamEvent

_ERRORS = {"PoisonRunError": PoisonRunError, "RunExpiredError": RunExpiredError}


class Office(Protocol):
    """What a run's handle needs of its client."""

    registry: Registry
    callers: Callers

    async def bring(self, changed: Changed) -> None: ...
    async def withdraw(self, run_id: str) -> None: ...


class SubmittedRun:
    """A run of the fleet: what it says, how it ends, and what may be asked of it, from any process, at any time.

    `RunClient.submit` and `RunClient.attach` give them (`office` is the client, `key` names app, user and session,
    `run_id` the run). `id` is the run's id, which is that of its invocation in the
    log; `user_id` and `session_id` say where that is. Dropping the object, or its process, does nothing to the run.
    """

    def __init__(self, office: Office, key: Key, run_id: str) -> None:
        self.id = run_id
        _, self.user_id, self.session_id = key
        self._office = office
        self._registry = office.registry
        self._key = key
        self.begins = 0
        """How many events the run had before the leg that was begun through this object."""

    def __repr__(self) -> str:
        return f"<SubmittedRun {self.id} of session {self.session_id}>"

    # -- looking ---------------------------------------------------------------------------------------------

    async def info(self) -> RunInfo:
        """What the registry says of it: its status, its worker, what it waits for. Raises `RunNotFoundError`."""
        return RunInfo.of(await self._row())

    async def status(self) -> Status:
        """In what state it is."""
        return (await self._row()).status

    async def has_log(self) -> bool:
        """Whether its session is there still: one that was deleted has taken along what the run has said."""
        return await self._session() is not None

    async def _row(self) -> Row:
        row = await self._registry.find(self.id)
        if row is None:
            raise not_found(self.id)
        return row

    async def _session(self) -> Session | None:
        app, user, session = self._key
        return await self._registry.service.get_session(app_name=app, user_id=user, session_id=session)

    def told(
        self, *, deltas: bool = True, after: int = 0, place: tuple[int, int] = (0, 0)
    ) -> AsyncGenerator[Told, None]:
        """What the run says to its end, or to its next pause, and where each of it stands (see `Told`), with `deltas`
        parts of messages, too. It leaves out the first `after` events of the run, and those before the one of the
        session that `place` names, whose own parts may come once more."""
        callers = self._office.callers
        return Follower(self._registry, callers, self._key, self.id, deltas=deltas, after=after, place=place).events()

    async def events(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """The complete events of the run as its log has them, the user's message first; those behind the first `after`.

        Each comes once, in order, from whichever worker; they end when the run is over, or waits for a person. Raises
        `RunNotFoundError`.
        """
        follower = self.told(deltas=False, after=after)
        try:
            async for told in follower:
                if told.event is not None:
                    yield told.event
        finally:
            await follower.aclose()

    async def follow(self, after: int = 0) -> AsyncGenerator[Event, None]:
        """The events behind the first `after` as they come, with the partial ones between (see `events`)."""
        follower = self.told(after=after)
        try:
            async for told in follower:
                if told.event is not None:
                    yield told.event
        finally:
            await follower.aclose()

    async def raise_for_status(self) -> None:
        """Raise a `RunFailedError` if the run has failed, or reached a limit that raises."""
        info = await self.info()
        error = _error_of(self.id, info.outcome) if info.over and info.outcome is not None else None
        if error is not None:
            raise error

    async def stream(self, after: int | None = None) -> AsyncGenerator[RunStreamEvent, None]:
        """The run as typed events with deltas, to its end or its next pause: what `Runner.run_stream` yields.

        It begins with the leg that was begun through this object (`submit`, `answer`, `resume`), or behind the first
        `after` events of the run. What ends the run is told, and not raised. After a take-over, a message that was
        broken off is completed as `interrupted`, and said anew under another id.
        """
        mapper, begins = RunStreamMapper(), self.begins if after is None else after
        follower = self.told(after=begins)
        ended: Event | None = None
        first = True
        try:
            async for told in follower:
                event = told.event
                if event is None:
                    for shown in mapper.break_off():
                        yield shown
                    continue
                if ended is not None:  # it was tried again
                    for shown in mapper.feed(_without_end(ended)):
                        yield shown
                    ended = None
                if not event.partial:
                    message, first = first and event.author == "user", False
                    if message:
                        continue
                    if RUN_ENDED in (event.custom_metadata or ()):
                        ended = event
                        continue
                for shown in mapper.feed(event):
                    yield shown
        finally:
            await follower.aclose()
        info = await self.info()
        outcome = info.outcome or Outcome(info.status)
        if ended is not None:
            for shown in mapper.feed(ended):
                yield shown
        status = outcome.status if outcome.status in OVER else "paused"
        for shown in mapper.finish(status=status, error=None if ended is not None else _error_of(self.id, outcome)):  # pyright: ignore[reportArgumentType]
            yield shown

    async def result(self) -> RunResult[Any]:
        """What came of the run, when it is over, or waits for a person. It does not raise what ended the run (see
        `RunResult.raise_for_status`): that is a `RunFailedError` with the name of the error in the other process.

        Answers of an agent with an `output_schema` are plain data. Raises `RunNotFoundError`.
        """
        events = [event async for event in self.events(after=self.begins)]
        info = await self.info()
        outcome = info.outcome or Outcome("paused")
        result: RunResult[Any] = RunResult(self.id, outcome.status if info.over else "paused")  # pyright: ignore[reportArgumentType]
        if events and events[0].author == "user":
            del events[0]
        outputs: dict[str, Any] = {}
        if outcome.output_event is not None:
            said = next((event.text for event in events if event.id == outcome.output_event), "null")
            outputs[outcome.output_event] = lambda: _data(said)
        result.take(events, outputs)
        result.usage, result.model_calls, result.tool_calls = (
            Usage(**outcome.usage),
            outcome.model_calls,
            outcome.tool_calls,
        )
        result.error = _error_of(self.id, outcome) if info.over else None
        result.pending = await self._pending_of(info)
        return result

    async def pending(self) -> list[PendingCall]:
        """What the run waits for: requests to people, calls that a client makes. One that was cancelled waits for
        nothing. Raises `RunNotFoundError`."""
        return await self._pending_of(await self.info())

    async def _pending_of(self, info: RunInfo) -> list[PendingCall]:
        session = None if info.status == "cancelled" else await self._session()
        return [] if session is None else pending_in(session.history.ledger(session.events), self.id)

    # -- asking ------------------------------------------------------------------------------------------------

    async def cancel(self, mode: Literal["now", "after_step"] = "now") -> Status:
        """Stop the run: at once, or with `mode="after_step"` when the model's answer and its tool calls are complete.

        One that no worker has is cancelled when this returns, and the log has no event of it; a worker is told at once,
        or with its next beat. One that is over stays as it is. Returns the state in which the run is then: `running` if
        a worker is about to stop it. Raises `RunNotFoundError`.
        """
        changed = await self._asked(sql_runs.cancel, "cancel" if mode == "now" else "cancel_after_step")
        if changed.row.status == "cancelled":
            await self._office.withdraw(self.id)
        return changed.row.status

    async def read_by(self, more: int, spec: Spec | None = None) -> Audience:
        """Note that so many `more` streams of the run are open, or fewer, and how it is to be run for them (`spec`);
        who reads it then. Servers do, for their clients may come back to another one. Raises `RunNotFoundError`."""
        return sql_audience.audience_of((await self._registry.change(sql_audience.count, self.id, more, spec)).row)

    async def desert(self, leg: int) -> Status:
        """Cancel the run if no stream of it is open, and it is in this `leg` still; returns its state, as `cancel`
        does. Raises `RunNotFoundError`."""
        changed = await self._asked(sql_audience.desert, leg)
        if changed.row.status == "cancelled":
            await self._office.withdraw(self.id)
        return changed.row.status

    async def pause(self) -> Status:
        """Let the run go on no further than to its next model call, until `resume`. Returns its state, as `cancel`
        does."""
        return (await self._asked(sql_runs.pause)).row.status

    async def _asked(self, change: Any, *what: Any) -> Changed:
        changed = await self._registry.change(change, self.id, *what)
        await self._office.bring(changed)
        if changed.row.status == "running" and changed.row.wish is not None:
            await self._office.callers.look(changed.row.worker)
        return changed

    async def resume(self, state_delta: dict[str, Any] | None = None) -> None:
        """Go on with a run that was paused; `state_delta` changes the state before. Raises `RunStateError` for one that
        is in another state."""
        await self._next_leg("resume", state_delta, "paused")

    async def retry(self, state_delta: dict[str, Any] | None = None) -> None:
        """Go on with a run that failed, or reached a limit, from its log; `state_delta` changes the state before.
        Raises `RunStateError` for another state."""
        await self._next_leg("retry", state_delta, "failed", "limit")

    async def _next_leg(self, what: str, state_delta: dict[str, Any] | None, *states: str) -> None:
        check_state(state_delta)
        begins = await self._count()
        row = await self._row()
        if row.status not in states:
            raise _wrong_state(row, what, states)
        changed = await self._registry.change(sql_runs.resume, self.id, states, message_data(None, state_delta) or None)
        if changed.row.status in (*states, *OVER):  # another process was quicker
            raise _wrong_state(changed.row, what, states)
        self.begins = begins
        await self._office.bring(changed)

    async def skip(self) -> None:
        """Have `stream` and `result` begin behind what the run has said so far."""
        self.begins = await self._count()

    async def _count(self) -> int:
        session = await self._session()
        return 0 if session is None else sum(event.invocation_id == self.id for event in session.events)

    async def answer(self, *answers: types.Part | Message, state_delta: dict[str, Any] | None = None) -> None:
        """Answer what the run waits for: `answers` are the parts that methods of `PendingCall` make. It goes on then;
        `state_delta` changes the state with them.

        The same answer again changes nothing. Raises `AlreadyAnsweredError` for another one, `RequestNotFoundError` for
        a request that the run has not made, `RunStateError` for a run that is over, `UnreadableAnswerError`.
        """
        given = [[each] if isinstance(each, types.Part) else content_given(each).parts or [] for each in answers]
        message = content_of("user", [part for parts in given for part in parts])
        check_message(message)
        if not answers_calls(message):
            raise InputValidationError(
                "This answers nothing. Give what `approve`, `reject` or `reply` of a `PendingCall` makes; a message is "
                "submitted as a run of its own."
            )
        check_state(state_delta)
        await self._give(message, state_delta)

    async def _give(self, message: types.Content, state_delta: dict[str, Any] | None) -> None:
        while True:
            session = await self._session()
            if session is None:
                raise not_found(self.id)
            ledger = session.history.ledger(session.events)
            refuse_credentials(session.events, message)
            news, _ = without_repeated(ledger, admitted_message(message, ledger))
            begins = sum(event.invocation_id == self.id for event in session.events)
            if news is None:
                self.begins = begins
                return
            row = await self._row()
            if row.status in OVER:
                raise _wrong_state(row, "answer", ("paused", "waiting", "ready", "running"))
            for part in news.parts or ():
                answered = part.function_response
                made = None if answered is None else ledger.call(answered.id or "")
                if answered is not None and (made is None or made.event.invocation_id != self.id):
                    raise RequestNotFoundError(
                        f"Run `{self.id}` has made no request `{answered.id}`. `pending()` says what it waits for.",
                        request_id=answered.id or "",
                    )
            given = Answering(message_data(news, state_delta), len(session.events), self._key)
            changed = await self._registry.change(given.give, self.id)
            if not given.outdated:
                self.begins = begins
                await self._office.bring(changed)
                return
            await asyncio.sleep(0)


def refuse_credentials(events: Sequence[Event], message: types.Content) -> None:
    """Raise `NotSupportedError` if a message answers a request for a credential that is among `events`."""
    if redact_message(message, credential_requests(events, message))[1]:
        raise NotSupportedError(
            "A user's credential does not go by the registry of runs, where it would stay. Give it to a `Runner` of "
            "this store (`run_async` with the answer as the message), or keep it in a credential service that the "
            "workers share. Nothing was stored."
        )


class Answering:
    """An answer on its way into the registry: it is given only if the log has not changed since it was looked at, and
    no other answer to the same waits there."""

    def __init__(self, message: dict[str, Any], seen: int, key: Key) -> None:
        self._message = message
        self._seen = seen
        self._key = key
        self.outdated = False

    def give(self, connection: Any, setting: sql_runs.Setting, run_id: str) -> Changed | None:
        """See `sql_runs.answer`. Raises `AlreadyAnsweredError`."""
        self.outdated = False
        row = sql_runs.locked(connection, run_id, setting)
        if row is None:
            return None
        sql = "SELECT last_seq FROM flowloom_sessions WHERE app_name = ? AND user_id = ? AND session_id = ?"
        found = connection.execute(sql, self._key).fetchone()
        if found is None or found[0] != self._seen or row.status in OVER:
            self.outdated = True
            return Changed(row)
        left = sql_runs.without_waiting(row, self._message)
        return Changed(row) if left is None else sql_runs.answer(connection, setting, run_id, left)


def _without_end(event: Event) -> Event:
    metadata = {name: value for name, value in (event.custom_metadata or {}).items() if name != RUN_ENDED}
    return event.model_copy(update={"custom_metadata": metadata or None})


def _data(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _error_of(run_id: str, outcome: Outcome) -> RunFailedError | None:
    code = outcome.error_code
    if code is None:
        return None
    return _ERRORS.get(code, RunFailedError)(outcome.error_message or code, run_id=run_id, code=code)


def _wrong_state(row: Row, what: str, states: Sequence[str]) -> RunStateError:
    wanted = " or ".join(f"`{each}`" for each in states)
    return RunStateError(
        f"Run `{row.run_id}` is `{row.status}`: to {what} it, it has to be {wanted}.",
        run_id=row.run_id,
        status=row.status,
    )
