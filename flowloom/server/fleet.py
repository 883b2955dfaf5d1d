"""`FleetRuns`: runs that the workers of a fleet run, and that any process of the server may be asked for (durable
design, section 4).

Such a run outlives the process that has submitted it: the registry says what is under way, and where each event stands
in the stream is the same for all who follow it.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Callable, Coroutine, Sequence
from contextlib import suppress
from typing import Any

from flowloom.durable import QueueFullError, RunClient, RunFailedError, RunNotFoundError, RunStateError, SubmittedRun
from flowloom.durable.records import RunInfo, Status
from flowloom.durable.registry import Registry
from flowloom.durable.specs import Audience
from flowloom.errors import AlreadyExistsError, ConfigurationError, FlowloomError, NotSupportedError, StorageError
from flowloom.events import Event
from flowloom.runner.runner import RunArguments
from flowloom.server.failures import refusal_of, shutting_down
from flowloom.server.frames import Frame, Place
from flowloom.server.places import Places
from flowloom.server.problems import ProblemError
from flowloom.server.runs import ENDING_SECONDS, MOST_QUEUED, Listed, Runs
from flowloom.server.served_run import FrameReader, Key, Reader, ServedRun, answered_calls
from flowloom.server.settings import ServerSettings
from flowloom.sessions import BaseSessionService, Session

_log = logging.getLogger("flowloom.server")
_SHORTEST, _LONGEST = 0.02, 0.5
"""Seconds between two looks at a run that is to end, or at a store that does not answer."""
_UNDER_WAY: Sequence[Status] = ("waiting", "ready", "running")
MakeClient = Callable[[str], RunClient]


class Fleet:
    """The workers that share the store `sessions`, by the clients that reach them: `make` gives the one of an app.

    Raises `ConfigurationError` for a store that no worker can share.
    """

    def __init__(self, sessions: BaseSessionService, make: MakeClient | None = None) -> None:
        try:
            self._registry = Registry(sessions)
        except ConfigurationError as error:
            raise ConfigurationError(
                f"A fleet has its runs and sessions in a store that its workers share, and "
                f"`{type(sessions).__name__}` is none. Give `--session_service_uri sqlite:///FILE` or "
                f"`postgresql://USER@HOST/DATABASE` (in a program: `session_service_uri`), the one of the workers."
            ) from error
        self._make: MakeClient = make or (lambda app_name: RunClient(app_name, sessions, auto_create_session=False))
        self._clients: dict[str, RunClient] = {}

    def client(self, app_name: str) -> RunClient:
        """The client of an app."""
        known = self._clients.get(app_name)
        if known is None:
            known = self._clients[app_name] = self._make(app_name)
        return known

    async def app_names(self) -> set[str]:
        """The apps that have sessions or workers in the store."""
        return await self._registry.app_names()

    async def workers(self) -> int:
        """How many workers are alive, as far as the registry knows."""
        rows, now = await self._registry.workers()
        return sum(row.beat + row.patience > now for row in rows)

    def runs(self, settings: ServerSettings, check: Callable[[str], Coroutine[Any, Any, None]]) -> FleetRuns:
        """The runs of the fleet, as a server with these `settings` has them (see `FleetRuns`, for `check`, too)."""
        return FleetRuns(settings, self, check)

    async def close(self) -> None:
        """Hang up; runs go on."""
        for client in self._clients.values():
            await client.close()
        self._clients.clear()


class FleetRun:
    """The `RunSource` of a `run` that workers run: without its first `after` events, or from `place` on."""

    def __init__(self, run: SubmittedRun, after: int, place: Place) -> None:
        self.run = run
        self._after = after
        self.place: tuple[int, int] = place
        """See `RunSource.place`."""
        self._failed: Event | None = None
        """The last event that tells of an error."""

    async def events(self) -> AsyncGenerator[Event, None]:
        """See `RunSource.events`. A store that does not answer is asked again."""
        pause = _SHORTEST
        while True:
            begins = self._after if self.place == (0, 0) else 0
            told = self.run.told(after=begins, place=self.place)
            try:
                async for each in told:
                    pause = _SHORTEST
                    if each.event is not None:
                        self.place = each.stored, each.since
                        if each.event.error_code is not None:
                            self._failed = each.event
                        yield each.event
                break
            except StorageError as error:
                _log.warning("Run `%s` is followed further when its store is back: %s", self.run.id, error)
            finally:
                await told.aclose()
            await asyncio.sleep(pause)
            pause = min(pause * 2, _LONGEST)
        self._raise_for(await self.run.info())

    def _raise_for(self, info: RunInfo) -> None:
        outcome = info.outcome
        if not info.over or outcome is None or outcome.error_code is None:
            return
        told, code, text = self._failed, outcome.error_code, outcome.error_message
        if told is not None and told.error_code is not None:  # as the worker tells it to those who ask
            code, text = told.error_code, told.error_message
        raise RunFailedError(text or code, run_id=self.run.id, code=code)

    def cancel(self) -> None:
        """See `RunSource.cancel`: the run goes on, and its reader's task is cancelled."""


class FollowedRun(ServedRun):
    """A run that goes on elsewhere, as one client reads it, behind `given`: when that has gone, it is not followed."""

    def __init__(
        self, fleet_run: FleetRun, given: Place, audience: Audience, on_left: Callable[[FollowedRun], None], **more: Any
    ) -> None:
        super().__init__(fleet_run, grace=0.0, share=lambda: 0, **more)
        self.run = fleet_run.run
        self.invocation_id = fleet_run.run.id
        self.audience = audience
        self._given = given
        self._on_left = on_left
        self.begun.set()

    def cancel(self, why: ProblemError | None = None) -> None:
        """Follow it no more; `why` is told by the last frame."""
        self._why = self._why or why
        if self._task is not None:
            self._task.cancel()

    def left(self, reader: Reader) -> None:
        """The client has gone."""
        self._readers.discard(reader)
        if not self.over:
            self.cancel()
            self._on_left(self)

    def _add(self, frame: Frame) -> None:
        if frame.place > self._given or self._why is not None:
            self._given = frame.place
            super()._add(frame)

    def _end_place(self) -> Place:
        """That of the last frame, if the server ends the stream: who comes back with it misses nothing."""
        return max(self._given, Place(0, 0)) if self._why is not None else super()._end_place()


class FleetRuns(Runs):
    """The runs of a `fleet`; `check` raises `ProblemError` for an app that it does not have."""

    def __init__(
        self, settings: ServerSettings, fleet: Fleet, check: Callable[[str], Coroutine[Any, Any, None]]
    ) -> None:
        super().__init__(settings)
        self._fleet = fleet
        self._check = check
        self._open: dict[Key, list[FollowedRun]] = {}
        self._notes: set[asyncio.Task[None]] = set()
        """What is noted of readers that have gone."""

    async def check(self, app_name: str) -> None:
        """See `Runs.check`."""
        await self._check(app_name)

    async def begin(
        self, key: Key, arguments: RunArguments, *, places: Places, grace: float | None = None, split: bool = True
    ) -> ServedRun:
        """See `Runs.begin`: the run is durable when this returns. It waits in the registry if it has to."""
        if self.stopping:
            raise shutting_down()
        audience = Audience(self.settings.dev, self.settings.resume_grace if grace is None else grace)
        most = 1 if self.settings.on_busy == "reject" else 1 + MOST_QUEUED
        try:
            run = await self._fleet.client(key[0]).begin(arguments, audience=audience, most=most)
        except FlowloomError as error:
            raise _refusal(error) or error from error
        answered = answered_calls(arguments.get("new_message"))
        source = FleetRun(run, run.begins, Place(0, 0))
        return self._followed(key, source, Place(-1, 0), audience, answered=answered, places=places, split=split)

    def _followed(self, key: Key, source: FleetRun, given: Place, audience: Audience, **more: Any) -> FollowedRun:
        def over(run: ServedRun) -> None:
            self._over(key, run)

        def left(run: FollowedRun) -> None:
            self._note(self._desert(run))

        followed = FollowedRun(source, given, audience, left, dev=self.settings.dev, on_over=over, **more)
        self._open.setdefault(key, []).append(followed)
        followed.start()
        return followed

    def _over(self, key: Key, run: ServedRun) -> None:
        streams = self._open[key]
        streams.remove(run)  # pyright: ignore[reportArgumentType]
        if not streams:
            del self._open[key]

    def of(self, key: Key) -> list[ServedRun]:
        """See `Runs.of`: those that are followed here."""
        return list(self._open.get(key, ()))

    async def sessions_of(self, app_name: str, user_id: str) -> set[str]:
        """See `Runs.sessions_of`: whichever process has begun them."""
        return {info.session_id for info in await self._fleet.client(app_name).list(_UNDER_WAY, user_id)}

    async def listed(self, key: Key) -> list[Listed]:
        """See `Runs.listed`: whichever process has begun them."""
        found = await self._fleet.client(key[0]).line(key[1], key[2])
        return [
            Listed(info.run_id, "paused")
            if info.status == "paused"
            else Listed(info.run_id, "running")
            if info.status == "running"
            else Listed(info.run_id, "waiting", "worker" if info.status == "ready" else info.awaits, ahead)
            for info, ahead in found
        ]

    async def follow(
        self, session: Session, invocation_id: str, place: Place | None, places: Places
    ) -> FrameReader | None:
        """See `Runs.follow`: whichever process has begun it. What is not kept any more the log has."""
        key = (session.app_name, session.user_id, session.id)
        try:
            run = await self._fleet.client(key[0]).attach(invocation_id)
            if (run.user_id, run.session_id) != key[1:] or await run.status() not in _UNDER_WAY:
                return None
            audience = await run.read_by(1)
        except RunNotFoundError:
            return None
        asked = {call_id for event in session.events for call_id in event.long_running_tool_ids or ()}
        source = FleetRun(run, 0, place or Place(0, 0))
        given = Place(-1, 0) if place is None else place
        return self._followed(key, source, given, audience, answered=asked, places=places, split=True).read()

    async def cancel(self, key: Key, *, all_of_them: bool = False) -> bool:
        """See `Runs.cancel`: whichever process has begun it, and whichever worker has it. What waits for a person is
        one of all of them."""
        client = self._fleet.client(key[0])
        found = [info for info, _ in await client.line(key[1], key[2]) if all_of_them or info.status in _UNDER_WAY]
        runs = [await client.attach(info.run_id) for info in (found if all_of_them else found[:1])]
        for run in reversed(runs):
            await run.cancel()
        with suppress(TimeoutError):
            async with asyncio.timeout(ENDING_SECONDS):
                await asyncio.gather(*map(_over, runs), *(each.ended.wait() for each in self.of(key) if all_of_them))
        return bool(runs)

    # -- readers that go -----------------------------------------------------------------------------------

    def _note(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work, name="flowloom fleet readers")
        self._notes.add(task)
        task.add_done_callback(self._notes.discard)

    async def _desert(self, left: FollowedRun) -> None:
        """A client has gone: its run is cancelled after the grace, unless one reads it then, wherever."""
        run = left.run
        try:
            leg = (await run.info()).leg
            if not (await run.read_by(-1)).readers:
                await asyncio.sleep(left.audience.grace)
                await run.desert(leg)
        except FlowloomError as error:
            _log.warning("Run `%s` goes on, though its client has gone: %s", run.id, error)

    # -- the end ---------------------------------------------------------------------------------------------

    async def close(self, grace: float) -> None:
        """See `Runs.close`: the runs go on."""
        self.stopping = True
        streams = [each for some in self._open.values() for each in some]
        await self._ended(streams, grace)
        left = [each for each in streams if not each.over]
        self.abort()
        for task in self._notes:
            task.cancel()
        for each in left:
            with suppress(FlowloomError):
                await each.run.read_by(-1)
        await self._ended(streams, ENDING_SECONDS)
        await self._sent()

    def abort(self) -> None:
        """See `Runs.abort`: the runs go on."""
        for each in [each for some in self._open.values() for each in some]:
            each.cancel(_going_on())


async def _over(run: SubmittedRun) -> None:
    """Wait until a run is over."""
    pause = _SHORTEST
    with suppress(RunNotFoundError):
        while not (await run.info()).over:
            await asyncio.sleep(pause)
            pause = min(pause * 1.5, _LONGEST)


def _going_on() -> ProblemError:
    told = "The server is shutting down. The run goes on: follow it with the id of the last frame as `Last-Event-ID`."
    return ProblemError(503, "shutting_down", told, headers={"Retry-After": "1"})


def _refusal(error: FlowloomError) -> ProblemError | None:
    """What is answered when the fleet does not take a run."""
    if isinstance(error, QueueFullError):
        return ProblemError(503, "queue_full", str(error), headers={"Retry-After": f"{error.retry_after:g}"})
    for kind, status, code in _REFUSED:
        if isinstance(error, kind):
            return ProblemError(status, code, str(error))
    return refusal_of(error)


_REFUSED: Sequence[tuple[type[FlowloomError], int, str]] = (
    (RunNotFoundError, 404, "invocation_not_found"),
    (RunStateError, 409, "run_state"),
    (AlreadyExistsError, 409, "invocation_exists"),
    (NotSupportedError, 501, "not_supported"),
    (StorageError, 503, "not_ready"),
)
