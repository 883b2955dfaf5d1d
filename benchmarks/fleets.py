"""`python -m benchmarks.fleets [STORE]`: what it costs to run by a fleet (durable design, section 12).

The same three-tool run in process and through the store courier, in one process, and, on SQLite, brought by DBOS alone;
claims with few and with many runs waiting; what an idle worker asks of its database; how far behind a follower's deltas
are; how long a dead worker's run waits for the next one. STORE is a PostgreSQL URL or
the path of a SQLite file that does not exist; a temporary file without one. Ratios are what counts on a busy machine.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import statistics
import tempfile
import time
from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

from dbos import DBOS

from flowloom import BaseLlm, LlmAgent, LlmRequest, LlmResponse, Runner, SqliteSessionService
from flowloom.durable import RunClient, Worker
from flowloom.durable.sql_submit import Submission
from flowloom.events.parts import call_part, content_of, text_part
from flowloom.sessions import PostgresSessionService
from flowloom.sessions.sql_service import SqlSessionService

APP = "bench"
MESSAGE: dict[str, Any] = {"role": "user", "parts": [{"text": "Go."}]}


class ThreeTools(BaseLlm):
    """Calls a tool three times, or as often as is said, and answers."""

    model: str = "three-tools"
    tools: int = 3

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        done = 0
        for content in llm_request.contents:
            for part in content.parts or ():
                done = 0 if part.text and content.role == "user" else done + (part.function_response is not None)
        if done < self.tools:
            yield LlmResponse(content=content_of("model", [call_part(None, "add", {"a": done, "b": 1})]))
        elif stream:
            for word in ("All ", "done."):
                yield LlmResponse(content=content_of("model", [text_part(word)]), partial=True)
        if done >= self.tools:
            yield LlmResponse(content=content_of("model", [text_part("All done.")]))


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def opened(store: str) -> SqlSessionService:
    return PostgresSessionService(store) if store.startswith("postgres") else SqliteSessionService(store)


async def cost(work: Callable[[int], Awaitable[Any]], count: int, at_once: int = 8) -> tuple[float, float]:
    """Milliseconds of processor time and of waiting for each of so many works."""
    began, used = time.perf_counter(), time.process_time()
    for first in range(0, count, at_once):
        await asyncio.gather(*(work(number) for number in range(first, min(first + at_once, count))))
    return (time.process_time() - used) * 1000 / count, (time.perf_counter() - began) * 1000 / count


async def runs(store: str, count: int, rounds: int) -> dict[str, Any]:
    """Runs in process and by the fleet, in turns."""
    service = opened(store)
    agent = LlmAgent(name="agent", model=ThreeTools(), tools=[add])
    runner = Runner(app_name=APP, agent=agent, session_service=service, auto_create_session=True)
    found: dict[str, list[tuple[float, float]]] = {"in process": [], "fleet": []}
    number = 0
    async with Worker(runner), RunClient(APP, service) as client:

        async def here(each: int) -> None:
            await runner.run_to_result(user_id=f"u{each}", session_id=f"h{number}-{each}", new_message="Go.")

        async def there(each: int) -> None:
            run = await client.submit("Go.", user_id=f"u{each}", session_id=f"t{number}-{each}")
            ids.append(run.id)

        async def fleet(each: int) -> None:
            await there(each)

        for number in range(rounds + 1):
            ids: list[str] = []
            gc.collect()  # what one has left is not to be collected in the time of the other
            one = await cost(here, count)
            gc.collect()
            began, used = time.perf_counter(), time.process_time()
            await cost(fleet, count)
            for run_id in ids:
                while (row := await client.registry.find(run_id)) and row.status != "final":  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            two = (time.process_time() - used) * 1000 / count, (time.perf_counter() - began) * 1000 / count
            if number:
                found["in process"].append(one)
                found["fleet"].append(two)
        latencies: list[float] = []
        for each in range(30):
            began = time.perf_counter()
            run = await client.submit("Go.", user_id="idle", session_id=f"idle{each}")
            await run.result()
            latencies.append((time.perf_counter() - began) * 1000)
            await asyncio.sleep(0.02)
    await service.close()
    told: dict[str, Any] = {
        name: {
            "processor_ms": statistics.median(each[0] for each in some),
            "wall_ms": statistics.median(each[1] for each in some),
        }
        for name, some in found.items()
    }
    ratios = [two[0] / one[0] for one, two in zip(found["in process"], found["fleet"], strict=True)]
    told["processor ratio"] = statistics.median(ratios)
    told["idle submit to result ms"] = statistics.median(latencies)
    return told


async def dbos_alone(folder: Path, count: int, rounds: int, tools: int) -> dict[str, float]:
    """Runs a second, in SQLite, in turns: brought by a queue of DBOS that knows nothing of the registry, and by the
    fleet. Either is handed 32 runs at once, which call so many tools."""
    service = SqliteSessionService(folder / f"alone{tools}.db")
    agent = LlmAgent(name="agent", model=ThreeTools(tools=tools), tools=[add])
    runner = Runner(app_name=APP, agent=agent, session_service=service, auto_create_session=True)
    found: list[tuple[float, float]] = []
    for number in range(rounds + 1):
        work = by_dbos(runner, f"sqlite:///{folder / 'dbos.db'}", number, count)
        alone = await asyncio.to_thread(asyncio.run, work)  # a loop of its own, whose threads DBOS ends with itself
        async with Worker(runner), RunClient(APP, service) as client:
            began = time.perf_counter()
            made = [client.submit("Go.", user_id=f"u{each}", session_id=f"f{number}-{each}") for each in range(count)]
            for run in await in_groups(made):
                while (row := await client.registry.find(run.id)) and row.status != "final":  # noqa: ASYNC110
                    await asyncio.sleep(0.005)
            fleet = count / (time.perf_counter() - began)
        if number:  # the first one warms up
            found.append((alone, fleet))
    await service.close()
    return {
        "DBOS alone": statistics.median(alone for alone, _ in found),
        "fleet": statistics.median(fleet for _, fleet in found),
        "ratio": statistics.median(fleet / alone for alone, fleet in found),
        "asked": 3.0,
    }


async def in_groups(works: Sequence[Awaitable[Any]], most: int = 32) -> list[Any]:
    """What works give of which so many are done at once."""
    groups = [works[first : first + most] for first in range(0, len(works), most)]
    return [found for group in groups for found in await asyncio.gather(*group)]


async def by_dbos(runner: Runner[Any], url: str, number: int, count: int) -> float:
    """Runs a second that a queue of DBOS brings."""

    async def one(session_id: str) -> None:
        await runner.run_to_result(user_id="u", session_id=session_id, new_message="Go.")

    DBOS(config={"name": APP, "system_database_url": url, "log_level": "ERROR"})
    work = DBOS.workflow(name=f"one{id(runner)}-{number}")(one)
    await asyncio.to_thread(DBOS.launch)
    await DBOS.register_queue_async("runs", worker_concurrency=32, polling_interval_sec=0.1)
    await DBOS.enqueue_workflow_async("runs", work, f"first{number}")
    began = time.perf_counter()
    handles = await in_groups([DBOS.enqueue_workflow_async("runs", work, f"d{number}-{each}") for each in range(count)])
    await asyncio.gather(*(handle.get_result(polling_interval_sec=0.05) for handle in handles))
    alone = count / (time.perf_counter() - began)
    await asyncio.to_thread(DBOS.destroy)
    return alone


async def take_over(store: str, rounds: int = 5) -> dict[str, float]:
    """Seconds from the last beat of a worker until another one has ended its run; asked: `dead_after`, a beat and
    half a second more."""
    service, times = opened(store), list[float]()
    agent = LlmAgent(name="agent", model=ThreeTools(), tools=[add])
    runner = Runner(app_name=APP, agent=agent, session_service=service)
    beats: dict[str, Any] = {"heartbeat": 0.5, "dead_after": 2.0}
    async with RunClient(APP, service) as client:
        for number in range(rounds):
            dead = Worker(runner, **beats).row(f"dead{number}")
            run = await client.submit("Go.", user_id="ann", session_id=f"over{number}")
            await client.registry.register(dead)
            began = time.perf_counter()
            await client.registry.claim(APP, dead.worker, [""], 1, [run.id])
            async with Worker(runner, **beats):
                await run.result()
            times.append(time.perf_counter() - began)
    await service.close()
    return {"median": statistics.median(times), "most": max(times), "asked": 3.0}


async def claims(store: str) -> dict[str, float]:
    """Milliseconds of a claim with so many waiting behind it."""
    service, told = opened(store), dict[str, float]()
    async with RunClient(APP, service) as client:
        registry, total = client.registry, 0
        runner = Runner(app_name=APP, agent=LlmAgent(name="agent", model=ThreeTools()), session_service=service)
        worker = Worker(runner, heartbeat=100, dead_after=1000)
        await registry.prepare()
        await registry.register(worker.row("claims"))
        for most in (100, 100_000):
            await registry.write(lambda c, most=most, total=total: fill(c, total, most), "fill")
            total = most
            for number in range(20):
                await registry.submit(Submission(f"{most}-{number}", (APP, f"c{most}-{number}", "s"), MESSAGE, {}))
            times: list[float] = []
            for _ in range(20):
                began = time.perf_counter()
                claimed, _ = await registry.claim(APP, "claims", [""], 1, None)
                times.append((time.perf_counter() - began) * 1000)
                assert claimed
            told[f"{most} waiting"] = statistics.median(times)
        await registry.leave("claims")
    await service.close()
    return told


def fill(connection: Any, first: int, last: int) -> None:
    """Runs that wait behind another one of their session, which runs."""
    sql = (
        "INSERT INTO flowloom_runs (run_id, app_name, user_id, session_id, shard, status, priority, due, rank, awaits, "
        "labels, leg, attempts, takeovers, spec, created) VALUES (?, ?, ?, 's', 0, ?, 0, 0, 0, 'session', '', 1, 0, 0, "
        "'{}', 0)"
    )
    rows = [(f"w{n}", APP, f"user{n // 100}", "waiting" if n % 100 else "running") for n in range(first, last)]
    connection.executemany(sql, rows)


async def idle(store: str, seconds: float) -> float:
    """The transactions of an idle worker in a second, on PostgreSQL."""
    service = opened(store)
    sql = "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = current_database()"
    runner = Runner(app_name=APP, agent=LlmAgent(name="agent", model=ThreeTools()), session_service=service)
    watch = opened(store)

    async def count() -> int:
        await asyncio.sleep(1.1)  # the server tells of them late
        return await watch.database.read(lambda c: c.execute(sql).fetchone()[0])

    async with Worker(runner):
        await asyncio.sleep(1)
        first = await count()
        await asyncio.sleep(seconds)
        last = await count()
    await service.close()
    await watch.close()
    return (last - first - 1) / (seconds + 1.1)


async def deltas(store: str, count: int) -> dict[str, float]:
    """Milliseconds from a part of a message, as the model gives it, to its follower."""
    service, lags = opened(store), list[float]()

    class Talking(BaseLlm):
        model: str = "talking"

        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            await asyncio.sleep(0.5)
            for _ in range(count):
                text = f"{time.perf_counter()} "
                yield LlmResponse(content=content_of("model", [text_part(text)]), partial=True)
                await asyncio.sleep(0.005)
            yield LlmResponse(content=content_of("model", [text_part("Done.")]))

    runner = Runner(app_name=APP, agent=LlmAgent(name="agent", model=Talking()), session_service=service)
    async with Worker(runner), RunClient(APP, service) as client:
        run = await client.submit("Go.", user_id="ann", session_id="deltas")
        async for event in run.follow():
            if event.partial:
                lags.append((time.perf_counter() - float(event.text)) * 1000)
    await service.close()
    lags.sort()
    return {"median": statistics.median(lags), "p95": lags[int(len(lags) * 0.95)], "count": len(lags)}


async def measured(store: str, count: int, rounds: int) -> dict[str, Any]:
    """All figures of a store."""
    told: dict[str, Any] = {"runs": await runs(store, count, rounds), "deltas ms": await deltas(store, 100)}
    if store.startswith("postgres"):
        told["idle transactions/s"] = await idle(store, 15)
    else:
        for tools in (3, 0):
            told[f"runs/s, {tools} tools"] = await dbos_alone(Path(store).parent, count * 2, rounds, tools)
    told["take-over s"] = await take_over(store)
    told["claim ms"] = await claims(store)
    return told


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", nargs="?")
    parser.add_argument("--runs", type=int, default=64)
    parser.add_argument("--rounds", type=int, default=7)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        store = options.store or str(Path(folder) / "fleet.db")
        print(json.dumps(asyncio.run(measured(store, options.runs, options.rounds)), indent=2))


if __name__ == "__main__":
    main()
