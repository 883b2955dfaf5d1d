"""What a worker does all the time goes on after any error, and ends when it is told to, at whatever moment."""

from __future__ import annotations

import asyncio
import json
import logging
import socket
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from durable.fleet import WHO, client_of, opened, step, steps, where, worker_of
from flowloom import BaseLlm, LlmAgent, LlmRequest, LlmResponse, Runner
from flowloom.durable import StoreCourier, Worker
from flowloom.durable.channel import path_of
from flowloom.durable.courier import Deliver, Free
from flowloom.events.parts import content_of, text_part
from flowloom.sessions.leases import uptime
from flowloom.testing.suites.courier_place import until

__all__ = ["where"]
WRONG = [OSError("no route"), TimeoutError("too slow"), RuntimeError("can't start new thread")]


def failing_once(real: Callable[..., Awaitable[Any]], error: Exception, told: list[Exception]) -> Callable[..., Any]:
    """The same, which fails the first time."""

    async def fails(*args: Any, **options: Any) -> Any:
        if not told:
            told.append(error)
            raise error
        return await real(*args, **options)

    return fails


class Broken(StoreCourier):
    """It fails the first times that it is asked for something, with what no courier should."""

    errors = 2

    def _fail(self) -> None:
        self.errors -= 1
        if self.errors >= 0:
            raise ConnectionResetError("the peer has gone")

    async def offer(self, run_ids: Sequence[str]) -> None:
        self._fail()
        await super().offer(run_ids)

    async def serve(self, handle: Deliver, free: Free) -> None:
        self._fail()
        await super().serve(handle, free)


class Returning(StoreCourier):
    """It brings what is there, and thinks that this was all."""

    served = 0

    async def serve(self, handle: Deliver, free: Free) -> None:
        self.served += 1
        await handle()


@pytest.mark.parametrize("wrong", WRONG, ids=lambda error: type(error).__name__)
async def test_a_beat_that_fails_in_any_way_is_not_the_last(
    where: str, wrong: Exception, caplog: pytest.LogCaptureFixture
) -> None:
    """The worker stays who it is, beats again, and says what has happened."""
    service = opened(where)
    async with worker_of(service, steps(1), heartbeat=0.02) as worker:
        name, told = worker.name, list[Exception]()
        worker.registry.beat = failing_once(worker.registry.beat, wrong, told)
        await until(lambda: bool(told))
        renewed = worker.beats.renewed
        await until(lambda: worker.beats.renewed > renewed)
        assert worker.name == name
    assert [record.exc_info[1] for record in caplog.records if record.exc_info] == [wrong]
    await service.close()


@pytest.mark.parametrize("wrong", WRONG, ids=lambda error: type(error).__name__)
async def test_a_worker_keeps_house_after_any_error(where: str, wrong: Exception) -> None:
    """Runs whose time comes later are admitted."""
    service = opened(where)
    async with worker_of(service, steps(1), heartbeat=0.02) as worker, client_of(service) as client:
        told = list[Exception]()
        worker.registry.promote = failing_once(worker.registry.promote, wrong, told)
        await until(lambda: bool(told))
        run = await client.submit("Go.", **WHO, delay=0.05)
        assert (await asyncio.wait_for(run.result(), 60)).status == "final"
    await service.close()


async def test_a_worker_listens_again_after_any_error(postgres_dsn: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is said to it from other machines reaches it then."""
    service = opened(postgres_dsn)
    real, times = type(service.database).notices, [0]

    async def broken(self: Any, channel: str) -> AsyncGenerator[str, None]:
        times[0] += 1
        if times[0] == 1:
            raise OSError("no route")
        async for each in real(self, channel):
            yield each

    monkeypatch.setattr(type(service.database), "notices", broken)
    async with worker_of(service, steps(1)):
        await until(lambda: times[0] == 2)
    await service.close()


async def test_a_courier_that_fails_in_any_way_is_asked_again(where: str) -> None:
    """It serves again after a while, and its runs are brought."""
    service = opened(where)
    async with worker_of(service, steps(1), courier=Broken(service, "travel", poll=0.1)), client_of(service) as client:
        run = await client.submit("Go.", **WHO)
        assert (await asyncio.wait_for(run.result(), 60)).status == "final"
    await service.close()


async def test_a_courier_that_fails_makes_no_submission_fail(where: str) -> None:
    """The run is in the registry, and the sweep of a worker offers it."""
    service = opened(where)
    async with worker_of(service, steps(1)), client_of(service, courier=Broken(service, "travel")) as client:
        run = await client.submit("Go.", **WHO)
        assert (await asyncio.wait_for(run.result(), 60)).status == "final"
    await service.close()


async def test_a_courier_that_returns_is_asked_again_in_a_while(where: str) -> None:
    """And keeps the worker's loop from nothing meanwhile."""
    service = opened(where)
    courier = Returning(service, "travel")
    async with worker_of(service, steps(1), courier=courier) as worker, client_of(service) as client:
        run = await client.submit("Go.", **WHO)
        assert (await asyncio.wait_for(run.result(), 60)).status == "final"
        served, began = courier.served, uptime()
        await asyncio.sleep(0.05)
        assert courier.served <= served + 2 + (uptime() - began) / (worker.beats.heartbeat / 2)
    await service.close()


@pytest.mark.parametrize("turns", range(8))
async def test_a_worker_ends_though_it_is_rung_at_that_moment(tmp_path: Path, turns: int) -> None:
    """However many turns of the loop the ring came before: what waits for rings is cancelled all the same."""
    service = opened(str(tmp_path / "fleet.db"))
    async with asyncio.timeout(60):
        async with worker_of(service, steps(1), heartbeat=20.0, dead_after=60.0, sweep=20.0) as worker:
            await asyncio.sleep(0.02)
            worker._ring()
            worker._look()
            for _ in range(turns):
                await asyncio.sleep(0)
    await service.close()


async def test_a_worker_ends_though_a_follower_reads_nothing(tmp_path: Path) -> None:
    """A client that was stopped keeps no worker from ending."""

    class Talking(BaseLlm):
        model: str = "talking"

        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            for _ in range(40):
                yield LlmResponse(content=content_of("model", [text_part("word " * 20_000)]), partial=True)
                await asyncio.sleep(0.001)
            yield LlmResponse(content=content_of("model", [text_part("Done.")]))

    service = opened(str(tmp_path / "fleet.db"))
    runner = Runner(
        app_name="travel", agent=LlmAgent(name="agent", model=Talking(), tools=[step]), session_service=service
    )
    with socket.socket(socket.AF_UNIX) as follower:
        async with asyncio.timeout(60), client_of(service) as client, Worker(runner) as worker:
            path = path_of(worker.channel.address)
            assert path is not None
            follower.connect(path)
            run = await client.submit("Go.", **WHO)
            await until(lambda: run.id in worker.channel._topics)
            said = {"token": worker.channel.token, "do": "follow", "run": run.id, "deltas": True}
            follower.sendall(json.dumps(said).encode() + b"\n")
            await run.result()
    await service.close()


async def test_a_caller_that_says_anything_disturbs_no_worker(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """It is hung up on, and nothing is logged of it."""
    service = opened(str(tmp_path / "fleet.db"))
    async with worker_of(service, steps(1)) as worker:
        path = path_of(worker.channel.address)
        assert path is not None
        for said in (b"\xff\n", b"[1]\n", b'{"token": "\xc3\xa9"}\n', b"[" * 100_000 + b"\n", b'{"token": 3}\n'):
            reader, writer = await asyncio.open_unix_connection(path)
            writer.write(said)
            assert await asyncio.wait_for(reader.read(), 60) == b""
            writer.close()
    assert [record for record in caplog.records if record.levelno >= logging.ERROR] == []
    await service.close()
