"""`Leg`: a run, or the part of it between two pauses, at a worker."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Any, Protocol, TypeVar

from flowloom.durable import metrics, tracing
from flowloom.durable.channel import Channel
from flowloom.durable.records import Outcome, Row, Wish
from flowloom.durable.registry import Registry
from flowloom.durable.specs import Audience, Spec, message_of
from flowloom.durable.sql_runs import Claimed, Ended, drop_message
from flowloom.durable.sql_submit import EXPIRED
from flowloom.errors import (
    AlreadyAnsweredError,
    FlowloomError,
    LimitExceededError,
    RunLostError,
    StorageError,
    error_text,
)
from flowloom.events.parts import answers_calls
from flowloom.runner import RunHandle, Runner, RunResult
from flowloom.runner.rounds import Rounds
from flowloom.sessions.leases import Fence
from flowloom.sessions.service import session_not_found

_log = logging.getLogger("flowloom.durable")
T = TypeVar("T")
_SHORTEST, _LONGEST = 0.05, 2.0
"""Seconds between two tries to tell the registry what has become of a leg, while it cannot be reached."""


class Holder(Protocol):
    """What a leg needs of its worker."""

    registry: Registry
    channel: Channel
    max_takeovers: int

    def runner_for(self, audience: Audience | None) -> Runner[Any]:
        """What runs it, for those who read it."""
        ...

    def fence_of(self, claimed: Claimed) -> Fence: ...
    @property
    def gives_up(self) -> bool:
        """Whether there is no time left to wait for the registry."""
        ...


class Leg:
    """What a worker does with a run that it has claimed, to the end of it or to its next pause."""

    def __init__(self, worker: Holder, claimed: Claimed) -> None:
        self._worker = worker
        self._registry = worker.registry
        self.row: Row = claimed.row
        self._held = claimed.held
        self.fence = worker.fence_of(claimed)
        self._handle: RunHandle[Any] | None = None
        self._wish: Wish | None = claimed.row.wish
        """What was asked of it, which may have been while a worker had it that is dead."""
        self._handed_over = False
        """Whether the worker ends, and another one is to go on."""
        self._dropped = False

    # -- what is asked of it -----------------------------------------------------------------------------

    def wish(self, wish: Wish) -> None:
        """Do what was asked for; the same again changes nothing."""
        if self._wish in (wish, "cancel"):
            return
        self._wish = wish
        if self._handle is not None:
            _tell(self._handle, wish)

    def hand_over(self) -> None:
        """End after the step that is under way, for another worker to go on."""
        self._handed_over = True
        if self._handle is not None and self._wish is None:
            self._handle.pause()

    def drop(self) -> None:
        """The run is another worker's: end at once, and store nothing."""
        self._dropped = True
        self.fence.lose()
        if self._handle is not None:
            self._handle.cancel()

    # -- the leg -----------------------------------------------------------------------------------------

    async def run(self) -> Ended | None:
        """Run it, and note in the registry what has become of it; None if the run is another worker's now."""
        outcome = self._refusal()
        if outcome is not None:
            return await self._noted(partial(self._registry.finish, self.row, outcome))
        try:
            spec = Spec.loads(self.row.spec)
            message, state_delta = message_of(self.row.message)
        except FlowloomError as error:
            return await self._noted(partial(self._registry.finish, self.row, failure(error)))
        with tracing.leg(self.row, self.fence.owner, spec.trace) as span:
            result = await self._result_of(spec, message, state_delta)
            span.ended(_outcome_of(result))
        error = result.error
        if self.fence.abandoned:  # the store has failed it
            return await self._noted(partial(self._registry.hand_back, self.row))
        if self._dropped or isinstance(error, RunLostError):  # what was dropped may have ended as cancelled
            return None
        if result.status == "paused" and self._handed_over and not result.pending and self._wish is None:
            return await self._noted(partial(self._registry.hand_back, self.row))
        return await self._noted(self._settling(spec, result))

    async def _result_of(self, spec: Spec, message: Any, state_delta: dict[str, Any]) -> RunResult[Any]:
        """What comes of it; answers that another process has given meanwhile, by the log alone, are left out."""
        result = await self._result(spec, message, state_delta)
        if isinstance(result.error, AlreadyAnsweredError) and message is not None and self.row.leg > 1:
            await self._worker.registry.write(partial(_drop, self.row), ("run", self.row.run_id))
            result = await self._result(spec, None, {})
        return result

    def _refusal(self) -> Outcome | None:
        """What becomes of a run that is not to be begun."""
        row, most = self.row, self._worker.max_takeovers
        if row.takeovers > most:
            return Outcome(
                "failed",
                error_code="PoisonRunError",
                error_message=f"{row.takeovers} workers have died while they had the run, and no more than {most} are "
                f"given it. `flowloom runs retry {row.run_id}` goes on with it once the cause is mended.",
            )
        if row.expires is not None and row.started is not None and row.started > row.expires:
            return EXPIRED
        if self._held is None:
            return failure(session_not_found(*row.key))
        return None

    async def _result(self, spec: Spec, message: Any, state_delta: dict[str, Any]) -> RunResult[Any]:
        row, worker = self.row, self._worker
        names: dict[str, Any] = {"user_id": row.user_id, "session_id": row.session_id}
        service = self._registry.service
        if row.message is not None:
            self.fence.along = partial(_drop, row)
        begins = row.leg == 1 or message is None or not answers_calls(message)
        rounds = Rounds(
            worker.runner_for(spec.audience),
            **names,
            invocation_id=row.run_id if begins else None,
            new_message=message,
            state_delta=state_delta or None,
            run_config=spec.run_config,
            lease=service.hold_lease(app_name=row.app_name, **names, fence=self.fence),
        )
        rounds.stream_models()
        handle = self._handle = RunHandle[Any](rounds)
        if self._wish is not None:  # a run that was cut off has calls to close: so it begins, and takes no step
            _tell(handle, "pause" if self._wish == "pause" else "cancel_after_step")
        elif self._handed_over:
            handle.pause()
        try:
            async for event in handle:
                worker.channel.tell(row.run_id, event, len(rounds.session.events))
        except Exception:
            pass
        return await handle.result()

    def _settling(self, spec: Spec, result: RunResult[Any]) -> Callable[[], Awaitable[Ended | None]]:
        """How to note what has come of it."""
        error, outcome = result.error, _outcome_of(result)
        if result.status == "failed" and error is not None and spec.retry is not None:
            failures = max(self.row.attempts - self.row.takeovers, 1)
            wait = spec.retry.wait(failures, error)
            if wait is not None:
                _log.warning(
                    "Run `%s` has failed %d times, and goes on in %g seconds: %s",
                    *(self.row.run_id, failures, wait, error_text(error)),
                )
                metrics.retried(self.row.app_name)
                return partial(self._registry.try_again, self.row, wait, outcome)
        return partial(self._registry.finish, self.row, outcome)

    async def _noted(self, note: Callable[[], Awaitable[T]]) -> T | None:
        """Tell the registry, as soon as it can be reached; None if the worker ends before that."""
        pause = _SHORTEST
        while True:
            try:
                return await note()
            except StorageError as error:
                if self._worker.gives_up:
                    _log.warning("What has become of run `%s` could not be noted: %s", self.row.run_id, error)
                    return None
            await asyncio.sleep(pause * (0.5 + random.random()))
            pause = min(pause * 2, _LONGEST)


def _drop(row: Row, connection: Any) -> None:
    drop_message(connection, row)


def _tell(handle: RunHandle[Any], wish: Wish) -> None:
    if wish == "pause":
        handle.pause()
    else:
        handle.cancel("now" if wish == "cancel" else "after_step")


def failure(error: Exception) -> Outcome:
    """The outcome of a run that could not be run."""
    return Outcome("failed", error_code=type(error).__name__, error_message=error_text(error))


def _outcome_of(result: RunResult[Any]) -> Outcome:
    error = result.error
    usage = {name: value for name, value in _counts(result.usage).items() if value}
    status = result.status
    if status == "failed" and isinstance(error, LimitExceededError):
        status = "limit"
    output = next((e.id for e in reversed(result.events) if e.is_final_response() and e.text.strip()), None)
    return Outcome(
        status,
        usage,
        result.model_calls,
        result.tool_calls,
        None if error is None else type(error).__name__,
        None if error is None else error_text(error),
        output if result.output is not None else None,
    )


def _counts(usage: Any) -> dict[str, int]:
    return {name: value for name in usage.__dataclass_fields__ if isinstance(value := getattr(usage, name), int)}
