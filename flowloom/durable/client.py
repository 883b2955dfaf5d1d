"""`RunClient`: submits runs to the fleet, and finds them again (durable design, section 4)."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncGenerator, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Literal, Self, Unpack

from google.genai import types

from flowloom.context import RunConfig
from flowloom.durable.callers import Callers
from flowloom.durable.courier import Courier, not_offered
from flowloom.durable.given import (
    check_labels,
    check_priority,
    check_settings,
    check_state,
    check_states,
    check_times,
)
from flowloom.durable.limits import Limit, concurrency_limits
from flowloom.durable.records import OVER, Changed, RunInfo, Status, WorkerInfo
from flowloom.durable.registry import Registry, not_found
from flowloom.durable.retrying import RetryPolicy
from flowloom.durable.schedules import Schedule, ScheduleInfo
from flowloom.durable.specs import Audience, Spec, message_data
from flowloom.durable.sql_submit import Submission
from flowloom.durable.store_courier import StoreCourier
from flowloom.durable.submitted import SubmittedRun, refuse_credentials
from flowloom.durable.tracing import submitting
from flowloom.errors import ConfigurationError, FlowloomError, InputValidationError, StorageError
from flowloom.events import Event
from flowloom.events.ids import new_id
from flowloom.events.parts import answers_calls
from flowloom.runner import RunArguments, RunResult
from flowloom.runner.message import Message, content_of_message
from flowloom.sessions import BaseSessionService, Session
from flowloom.sessions.admission import check_texts

if TYPE_CHECKING:
    from flowloom.run_stream import RunStreamEvent


MOST_LISTED = 1_000_000
_NOT_OVER: Sequence[Status] = ("waiting", "ready", "running", "paused")


class Schedules:
    """The schedules of an app (`app_name`), in the `registry`; its workers, which `callers` reach, keep to them.

    Needs the extra `schedules`, here and at the workers.
    """

    def __init__(self, registry: Registry, callers: Callers, app_name: str) -> None:
        self._registry = registry
        self._callers = callers
        self._app_name = app_name

    async def put(self, schedule: Schedule) -> float:
        """Keep a schedule, in the place of one of its name; returns when it is due first, in seconds since the
        epoch."""
        due = await self._registry.put_schedule(self._app_name, schedule)
        with contextlib.suppress(StorageError):  # it is kept, whoever hears of it
            await self._callers.ring()
        return due

    async def list(self) -> Sequence[ScheduleInfo]:
        """All of them, by name."""
        return await self._registry.schedules(self._app_name)

    async def delete(self, name: str) -> bool:
        """Forget the schedule `name`; whether there was one. Runs that it has submitted stay."""
        return await self._registry.delete_schedule(self._app_name, name)


class RunClient:
    """Submits runs of the app `app_name` to the workers that share the store `session_service`, in SQLite or
    PostgreSQL.

    `courier` is to be of the workers' kind; without one, the workers of this machine are rung, and others look by
    themselves. With `auto_create_session`, a session that is not there is made. `submit` raises `QueueFullError` when
    `max_waiting` runs of the app wait, or `max_waiting_per_user` of the user; None for no bound. `limits` may be those
    of the workers, which spares them the admission of runs.

    It trusts its caller: who may see whose runs is decided by the program that has it. Close it (`async with`, or
    `close`); the store is closed by whoever made it. Raises `ConfigurationError` for a store in memory.
    """

    def __init__(
        self,
        app_name: str,
        session_service: BaseSessionService,
        *,
        courier: Courier | None = None,
        auto_create_session: bool = True,
        max_waiting: int | None = None,
        max_waiting_per_user: int | None = None,
        limits: Sequence[Limit] = (),
    ) -> None:
        if not app_name:
            raise ConfigurationError("A client needs the name of the app whose runs it submits.")
        self.app_name = app_name
        self.session_service = session_service
        self.registry = Registry(session_service, concurrency_limits(limits))
        self.callers = Callers(self.registry, app_name)
        self.schedules = Schedules(self.registry, self.callers, app_name)
        """The schedules of the app: `put`, `list` and `delete`."""
        self._courier: Courier = courier or StoreCourier(session_service, app_name)
        self._makes_session = auto_create_session
        self._most = max_waiting, max_waiting_per_user

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Hang up. Runs go on; closing twice is fine."""
        await self.callers.close()
        await self._courier.close()

    async def bring(self, changed: Changed) -> None:
        """Have the runs brought to workers that are ready because of what has `changed`, and those looked at that were
        woken: by the sweep of a worker, if not at once."""
        if changed.ready:
            try:
                await self._courier.offer(changed.ready)
            except Exception as error:
                not_offered(changed.ready, error)
        if changed.woken:
            with contextlib.suppress(StorageError):  # it is done, whoever hears of it
                await self.callers.ring()

    async def withdraw(self, run_id: str) -> None:
        """The run `run_id` was cancelled and need not be brought."""
        await self._courier.withdraw(run_id)

    # -- runs ----------------------------------------------------------------------------------------------

    async def submit(
        self,
        message: Message,
        *,
        user_id: str,
        session_id: str,
        run_id: str | None = None,
        priority: int = 0,
        delay: float | None = None,
        at: float | None = None,
        retry: RetryPolicy | None = None,
        expires: float | None = None,
        run_config: RunConfig | None = None,
        state_delta: dict[str, Any] | None = None,
        labels: Sequence[str] = (),
    ) -> SubmittedRun:
        """Have the fleet answer `message` in the session `session_id` of the user `user_id`; the run is durable when
        this returns.

        `run_id`: by default a new one; if there is a run of that id in the session, it is returned, and nothing is
        submitted. Runs of higher `priority` come first; each minute of waiting counts as one step. It begins `delay`
        seconds from now, or `at` a time (seconds since the epoch), and is cancelled if it has not begun `expires`
        seconds from now. `retry` says whether it goes on after a failure. `labels`: what a worker must have to be given
        it. `run_config` and `state_delta` are those of `Runner.run_async`.

        Raises `InputValidationError` for a message that is none, and for answers (see `answer`), `QueueFullError`,
        `AlreadyExistsError` for the id of another session's run, `SessionNotFoundError` unless sessions are made,
        `JsonDataError`, `ConfigurationError`, `StorageError`.
        """
        content = content_of_message(message)
        if answers_calls(content):
            raise InputValidationError("This answers requests of a run. Give it to the run: `answer(run_id, message)`.")
        return await self._submitted(
            content,
            state_delta,
            Spec(run_config, retry),
            *(user_id, session_id, run_id, priority, delay, at, expires, labels),
        )

    async def _submitted(
        self,
        content: types.Content | None,
        state_delta: dict[str, Any] | None,
        spec: Spec,
        user_id: str,
        session_id: str,
        run_id: str | None,
        priority: int = 0,
        delay: float | None = None,
        at: float | None = None,
        expires: float | None = None,
        labels: Sequence[str] = (),
        most: int | None = None,
    ) -> SubmittedRun:
        if not user_id or not session_id:
            raise InputValidationError("A run needs a user id and a session id; one of them is empty.")
        check_texts(user_id=user_id, session_id=session_id, run_id=run_id or "")
        check_times(delay=delay, at=at, expires=expires)
        check_priority(priority)
        check_labels(labels)
        check_settings(spec.run_config, spec.retry)
        check_state(state_delta)
        if delay is not None and at is not None:
            raise InputValidationError("A run begins after a `delay` or `at` a time. Give one of them.")
        if (delay or 0) < 0 or (expires is not None and expires <= 0):
            raise InputValidationError("A `delay` is no less than 0 seconds, and a run `expires` in more than 0.")
        run_id = run_id or "e-" + new_id()
        with submitting(self.app_name, run_id) as carried:
            given = Submission(
                run_id=run_id,
                key=(self.app_name, user_id, session_id),
                message=message_data(content, state_delta) or None,
                spec=replace(spec, trace=carried).to_dict(),
                priority=priority,
                delay=delay or 0.0,
                at=at,
                expires=expires,
                labels=tuple(labels),
                makes_session=self._makes_session,
                max_waiting=self._most[0],
                max_waiting_of_user=self._most[1],
                max_of_session=most,
            )
            changed = await self.registry.submit(given)
            await self.bring(changed)
        return SubmittedRun(self, changed.row.key, changed.row.run_id)

    async def attach(self, run_id: str) -> SubmittedRun:
        """The run `run_id`, whoever has submitted it. Raises `RunNotFoundError`."""
        row = await self.registry.find(run_id)
        if row is None or row.app_name != self.app_name:
            raise not_found(run_id)
        return SubmittedRun(self, row.key, run_id)

    async def list(
        self,
        status: Status | Sequence[Status] = (),
        user_id: str | None = None,
        session_id: str | None = None,
        since: float | None = None,
        limit: int = 1000,
    ) -> list[RunInfo]:
        """The runs of the app, the latest first, at most `limit`: those in a `status` or one of several, of a
        `user_id`, of a `session_id`, submitted `since` a time (seconds since the epoch). Raises `InputValidationError`
        for a status, a time or a `limit` that is none.
        """
        if type(limit) is not int or not 1 <= limit <= MOST_LISTED:
            raise InputValidationError(f"A `limit` is from 1 to {MOST_LISTED}, not {limit!r:.60}.")
        states: Sequence[str] = (status,) if isinstance(status, str) else status
        check_states(states)
        check_times(since=since)
        rows = await self.registry.listed(self.app_name, states, user_id, session_id, since, limit)
        return [RunInfo.of(row) for row in rows]

    async def line(self, user_id: str, session_id: str) -> Sequence[tuple[RunInfo, int]]:
        """The runs of the session `session_id` of the user `user_id` that are not over, in the order of submission;
        with each that waits, how many come before it: of the session, or of the app if it waits for a worker."""
        rows = await self.registry.listed(self.app_name, _NOT_OVER, user_id, session_id, None, 1000)
        waits = ("waiting", "ready")
        return [
            (RunInfo.of(row), await self.registry.ahead(row) if row.status in waits else 0) for row in reversed(rows)
        ]

    async def retry(self, run_id: str) -> SubmittedRun:
        """Go on with the run `run_id`, which failed or reached a limit. Raises `RunStateError`, `RunNotFoundError`."""
        run = await self.attach(run_id)
        await run.retry()
        return run

    async def cancel(self, run_id: str, mode: Literal["now", "after_step"] = "now") -> Status:
        """Stop the run `run_id` (see `SubmittedRun.cancel`, also for `mode`)."""
        return await (await self.attach(run_id)).cancel(mode)

    async def answer(self, run_id: str, *answers: types.Part | Message) -> SubmittedRun:
        """Give the run `run_id` what it waits for: `answers` as `SubmittedRun.answer` takes them."""
        run = await self.attach(run_id)
        await run.answer(*answers)
        return run

    async def workers(self) -> list[WorkerInfo]:
        """The workers of the app that the registry knows."""
        rows, moment = await self.registry.workers(self.app_name)
        return [WorkerInfo.of(row, moment) for row in rows]

    # -- as a runner -----------------------------------------------------------------------------------------

    async def run_async(
        self, *, yield_user_message: bool = False, **arguments: Unpack[RunArguments]
    ) -> AsyncGenerator[Event, None]:
        """`Runner.run_async` by the fleet: submits a run, or answers one, and yields its events, partial ones too.

        `arguments` are those of `RunArguments`: a message of function responses answers the run that called;
        `invocation_id` without a message goes on with a run. With `yield_user_message` the message's event comes first.
        Closing the generator leaves the run going on. Raises what `submit` and `answer` raise, and `RunFailedError` for
        what ended the run.
        """
        run = await self.begin(arguments)
        follower = run.follow(run.begins)
        first = not yield_user_message
        try:
            async for event in follower:
                if not event.partial and first:  # the log has it with the first answer, whose parts may be quicker
                    first = False
                    if event.author == "user":
                        continue
                yield event
        finally:
            await follower.aclose()
        await run.raise_for_status()

    async def run_stream(self, **arguments: Unpack[RunArguments]) -> AsyncGenerator[RunStreamEvent, None]:
        """The same as typed events (see `Runner.run_stream`); what ends the run is told, and not raised. `arguments`
        are those of `RunArguments`."""
        run = await self.begin(arguments)
        stream = run.stream()
        try:
            async for event in stream:
                yield event
        finally:
            await stream.aclose()

    async def run_to_result(self, **arguments: Unpack[RunArguments]) -> RunResult[Any]:
        """The same, and what came of it (see `Runner.run_to_result`); it raises what ended the run. `arguments` are
        those of `RunArguments`."""
        run = await self.begin(arguments)
        return (await run.result()).raise_for_status()

    async def begin(
        self, arguments: RunArguments, *, audience: Audience | None = None, most: int | None = None
    ) -> SubmittedRun:
        """The run that these arguments begin or go on with: `begins` is how many events it had before.

        A server says for which `audience` it is, and `most`: how many runs of the session may go on or wait, with this
        one. Raises what `submit` and `answer` raise, and `SessionBusyError` if there are as many already.
        """
        message, run_id = arguments.get("new_message"), arguments.get("invocation_id")
        user_id, session_id = arguments["user_id"], arguments["session_id"]
        content = None if message is None else content_of_message(message)
        spec, state_delta = Spec(arguments.get("run_config"), audience=audience), arguments.get("state_delta")
        if content is None and run_id is None:
            raise InputValidationError("A run of the fleet begins with a message, or goes on by its `invocation_id`.")
        if content is not None and not answers_calls(content):
            found = None if run_id is None else await self.registry.find(run_id)
            if found is not None and found.status in (*OVER, "paused"):  # as a runner does: what follows is a run anew
                run_id = None
            return await self._submitted(content, state_delta, spec, user_id, session_id, run_id, most=most)
        session = await self.session_service.get_session(app_name=self.app_name, user_id=user_id, session_id=session_id)
        if run_id is None and session is not None:
            run_id = _asking(session, content)
        row = None if run_id is None else await self.registry.find(run_id)
        if row is not None and row.key != (self.app_name, user_id, session_id):
            raise not_found(row.run_id)
        events = [] if session is None else session.events
        if row is None:  # it has run without the fleet, or so long ago that the registry has forgotten it
            if content is not None:
                refuse_credentials(events, content)
            begins = sum(event.invocation_id == run_id for event in events)
            if content is None and not begins:
                raise not_found(run_id or "")
            run = await self._submitted(content, state_delta, spec, user_id, session_id, run_id, most=most)
            run.begins = begins
            return run
        await self.registry.check_session(row.key, most)
        run = SubmittedRun(self, row.key, row.run_id)
        await self._go_on(run, content, state_delta, None if audience is None else spec)
        return run

    async def _go_on(
        self,
        run: SubmittedRun,
        content: types.Content | None,
        state_delta: dict[str, Any] | None,
        spec: Spec | None,
    ) -> None:
        """Have a run go on with answers, or from where it stands."""
        if spec is not None:
            await run.read_by(1, spec)
        try:
            if content is not None:
                await run.answer(content, state_delta=state_delta)
                return
            status = await run.status()
            if status == "paused" or (state_delta and status not in ("failed", "limit")):
                await run.resume(state_delta)
            elif status in ("failed", "limit"):
                await run.retry(state_delta)
            else:
                await run.skip()
        except FlowloomError:
            if spec is not None:
                await run.read_by(-1)
            raise


def _asking(session: Session, content: types.Content | None) -> str | None:
    """The invocation that has asked for what a message answers."""
    ledger = session.history.ledger(session.events)
    parts = () if content is None else content.parts or ()
    answers = [part.function_response for part in parts if part.function_response is not None]
    asked = [made for answer in answers if (made := ledger.ever(answer.id)) is not None]
    return asked[0].event.invocation_id if asked else None
