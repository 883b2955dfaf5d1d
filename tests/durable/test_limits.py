"""Limits of runs across the fleet: no place is lost, none is free while a run waits for it, none is taken twice."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from typing import Any

import psycopg
import pytest

from durable.fleet import APP, WHO, client_of, opened, where, worker_of
from flowloom import LlmAgent, Runner
from flowloom.context import Context
from flowloom.durable import ConcurrencyLimit, ModelLimit, RunClient, RunInfo, SubmittedRun, Worker
from flowloom.errors import ConfigurationError, StorageError
from flowloom.models import BaseLlm
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing import call
from flowloom.testing.scripted import response_of
from flowloom.testing.suites.courier_place import until

__all__ = ["where"]
SOON = 60.0
BOB: dict[str, Any] = {"user_id": "bob", "session_id": "b1"}
ONE_OF_APP = [ConcurrencyLimit("app", most=1)]
LONG_SWEEP: dict[str, Any] = {"sweep": 60.0}
"""So that nothing is made good by a look from time to time."""


async def publish(service: SqlSessionService, limits: Sequence[ConcurrencyLimit]) -> None:
    """The app has these limits, and no worker as yet."""
    async with worker_of(service, [], limits=limits):
        pass


async def status_of(run: SubmittedRun) -> str:
    return (await asyncio.wait_for(run.result(), SOON)).status


def of_whom(run: RunInfo) -> Any:
    """A number, which is none of the limit's own, or an error."""
    if run.user_id == "bob":
        raise ValueError("no one knows Bob")
    return run.priority


async def test_what_a_limit_cannot_be_asked_of_keeps_no_run_waiting(
    where: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Its function has failed for a run: that counts with others of the kind, and all come to their ends."""
    service = opened(where)
    limits = [ConcurrencyLimit(of_whom, most=1)]
    async with worker_of(service, ["Hi."] * 4, limits=limits), client_of(service) as client:
        runs = [await client.submit("Go.", **who) for who in (BOB, WHO, BOB, WHO)]
        assert [await status_of(run) for run in runs] == ["final"] * 4
    assert "of_whom" in caplog.text
    await service.close()


def test_limits_that_are_none_are_refused(tmp_path: Any) -> None:
    """Where they are given."""
    for most in ("2", 1.5, True, 0):
        with pytest.raises(ConfigurationError, match="at least one run"):
            ConcurrencyLimit("user", most)
    for given in ({"concurrent": "2"}, {"concurrent": 1.5}, {"per_minute": "9"}, {"tokens_per_minute": 0}):
        with pytest.raises(ConfigurationError, match="of at least 1"):
            ModelLimit("m", **given)
    with pytest.raises(ConfigurationError, match="`limits` are"):
        RunClient(APP, opened(str(tmp_path / "a.db")), limits=["user"])  # type: ignore[list-item]


@pytest.mark.parametrize("what", ["cancel", "pause"])
async def test_who_stops_a_run_need_not_know_the_limits(where: str, what: str) -> None:
    """The place of a run that was ready is free: for the next one that waits for it, and for the run itself."""
    service = opened(where)
    await publish(service, ONE_OF_APP)
    async with client_of(service, limits=ONE_OF_APP) as knowing, client_of(service) as client:
        first = await knowing.submit("Go.", **WHO)
        waiting = await knowing.submit("Go.", **BOB)
        assert [(await run.info()).status for run in (first, waiting)] == ["ready", "waiting"]
        await getattr(await client.attach(first.id), what)()
        async with worker_of(service, ["Hi."] * 2, limits=ONE_OF_APP, **LONG_SWEEP):
            assert await status_of(waiting) == "final"
            if what == "pause":
                await first.resume()
                assert await status_of(first) == "final"
    await service.close()


class Calling(BaseLlm):
    """A model that calls `work` once in each run."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        answered = any(part.function_response for part in llm_request.contents[-1].parts or ())
        yield response_of("Done." if answered else call("work"))


class Crowd:
    """A worker whose runs last until the user's are let go, and how many were at work at once."""

    def __init__(self, service: SqlSessionService, limits: Sequence[ConcurrencyLimit]) -> None:
        self.free: dict[str, asyncio.Event] = {}
        self.working: list[str] = []
        self.most = 0

        async def work(context: Context) -> str:
            """Work."""
            user = context.session.user_id
            self.working.append(user)
            self.most = max(self.most, len(self.working))
            await self.free.setdefault(user, asyncio.Event()).wait()
            self.working.remove(user)
            return "done"

        agent = LlmAgent(name="agent", model=Calling(model="calling"), tools=[work])
        runner = Runner(app_name=APP, agent=agent, session_service=service)
        options: dict[str, Any] = {"heartbeat": 0.05, "dead_after": 2.0, "drain": 5.0}
        self.worker = Worker(runner, limits=limits, **options, **LONG_SWEEP)

    def let_go(self, *users: str) -> None:
        for user in users:
            self.free.setdefault(user, asyncio.Event()).set()


async def submitted(client: RunClient, user: str, number: int = 1) -> SubmittedRun:
    return await client.submit("Go.", user_id=user, session_id=f"{user}-{number}")


async def test_a_place_that_is_free_is_taken_by_whoever_can(where: str) -> None:
    """However many runs wait before that one that are held up by another limit."""
    service, limits = opened(where), [ConcurrencyLimit("app", most=2), ConcurrencyLimit("user", most=1)]
    crowd = Crowd(service, limits)
    async with crowd.worker, client_of(service, limits=limits) as client:
        held = [await submitted(client, "ann"), await submitted(client, "bob")]
        await until(lambda: len(crowd.working) == 2)
        held += [await submitted(client, "ann", number) for number in range(2, 12)]
        last = await submitted(client, "cy")
        crowd.let_go("bob", "cy")
        assert await status_of(last) == "final"
        assert crowd.working == ["ann"]
        crowd.let_go("ann")
        assert {await status_of(run) for run in held} == {"final"}
        assert crowd.most == 2
    await service.close()


async def test_runs_that_are_woken_and_cancelled_pass_the_place_on(where: str) -> None:
    """Those that were to have the place of a run that is over, and are over before a worker looks at them."""
    service = opened(where)
    await publish(service, ONE_OF_APP)
    async with client_of(service, limits=ONE_OF_APP) as client:
        first, *others = [await submitted(client, f"user-{number}") for number in range(10)]
        await first.cancel()  # which wakes some of the others
        for run in others[:-1]:
            await run.cancel()
        async with worker_of(service, ["Hi."], limits=ONE_OF_APP, **LONG_SWEEP):
            assert await status_of(others[-1]) == "final"
    await service.close()


@pytest.mark.parametrize("how", ["resume", "next of its session"])
async def test_a_client_that_does_not_know_the_limits_exceeds_none(where: str, how: str) -> None:
    """A run that goes on because of it, or is the next of its session, waits for a place like any other."""
    service = opened(where)
    crowd = Crowd(service, ONE_OF_APP)
    await publish(service, ONE_OF_APP)
    async with client_of(service) as client, client_of(service, limits=ONE_OF_APP) as knowing:
        first, after = await submitted(knowing, "ann"), await submitted(knowing, "ann")
        if how == "resume":
            await first.pause()
        other = await submitted(knowing, "bob")
        going = [after, other]
        if how == "resume":
            await (await client.attach(first.id)).resume()
            going.append(first)
        else:
            await (await client.attach(first.id)).cancel()
        async with crowd.worker:
            await until(lambda: len(crowd.working) == 1)
            crowd.let_go("ann", "bob")
            assert {await status_of(run) for run in going} == {"final"}
            assert crowd.most == 1
    await service.close()


async def test_a_run_that_was_woken_keeps_its_place_in_its_session(where: str) -> None:
    """One that is submitted before a worker looks at it comes after it."""
    service = opened(where)
    await publish(service, ONE_OF_APP)
    async with client_of(service, limits=ONE_OF_APP) as client:
        first, before = await submitted(client, "bob"), await submitted(client, "ann")
        await first.cancel()
        after = await submitted(client, "ann")
        async with worker_of(service, ["One.", "Two."], limits=ONE_OF_APP, **LONG_SWEEP):
            assert [await status_of(run) for run in (before, after)] == ["final"] * 2
            assert [(await run.result()).text for run in (before, after)] == ["One.", "Two."]
    await service.close()


async def test_places_that_no_run_has_are_free_when_limits_change(where: str) -> None:
    """Those of runs that ended at workers without limits, when they have the limits again."""
    service = opened(where)
    await publish(service, ONE_OF_APP)
    async with client_of(service, limits=ONE_OF_APP) as client:
        run = await submitted(client, "ann")
        async with worker_of(service, ["Hi."]):
            assert await status_of(run) == "final"
        later = await submitted(client, "bob")
        async with worker_of(service, ["Hi."], limits=ONE_OF_APP, **LONG_SWEEP):
            assert await status_of(later) == "final"
    await service.close()


async def places(client: RunClient) -> int:
    return await client.registry.read(lambda c: c.execute("SELECT COUNT(*) FROM flowloom_slots").fetchone()[0])


async def test_a_model_call_that_is_cancelled_while_it_takes_its_place_leaves_none(postgres_dsn: str) -> None:
    """What it has begun to take is given back after it was taken."""
    service = opened(postgres_dsn)
    async with client_of(service) as client, worker_of(service, ["Hi."], limits=[ModelLimit("*", concurrent=1)]):
        with (
            psycopg.connect(postgres_dsn) as locking,
            psycopg.connect(postgres_dsn, autocommit=True) as looking,
        ):
            locking.execute("LOCK TABLE flowloom_slots IN SHARE MODE")
            run = await client.submit("Go.", **WHO)
            waiting = "SELECT count(*) FROM pg_locks WHERE NOT granted"
            await until(lambda: looking.execute(waiting).fetchone() != (0,))
            await run.cancel()
            await asyncio.sleep(0.3)
            locking.rollback()
        assert await status_of(run) == "cancelled"
        end = asyncio.get_running_loop().time() + SOON
        while await places(client):
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.02)
    await service.close()


@pytest.mark.parametrize("what", ["take", "_give_back"])
async def test_a_model_call_outlasts_a_registry_that_is_away(where: str, what: str) -> None:
    """No run fails because of it, and the place comes back as soon as the registry does."""
    service, other = opened(where), opened(where)
    real, failed = service.database.write, list[str]()

    async def write(work: Any, **options: Any) -> Any:
        name = getattr(getattr(work, "func", work), "__qualname__", "")
        if name.rpartition(".")[2] == what and len(failed) < 2:
            failed.append(name)
            raise StorageError("The database is away.")
        return await real(work, **options)

    service.database.write = write
    async with worker_of(service, ["Hi."], limits=[ModelLimit("*", concurrent=1)]), client_of(other) as client:
        run = await client.submit("Go.", **WHO)
        assert await status_of(run) == "final"
        assert failed
        end = asyncio.get_running_loop().time() + SOON
        while await places(client):
            assert asyncio.get_running_loop().time() < end
            await asyncio.sleep(0.02)
    await service.close()
    await other.close()
