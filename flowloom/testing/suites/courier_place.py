"""Where the rules of couriers are tried: a store, workers in processes of their own, and how runs are told."""

from __future__ import annotations

import asyncio
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from collections import Counter
from collections.abc import AsyncGenerator, Awaitable, Sequence
from contextlib import asynccontextmanager, closing
from pathlib import Path
from typing import Any

from flowloom.durable import Courier, RunClient, SubmittedRun
from flowloom.durable.courier import Deliver, Free
from flowloom.events import Event
from flowloom.runner import RunResult

SECONDS = 180.0
"""How long a run may take until a test gives up."""


class Crew:
    """Workers in processes of their own."""

    def __init__(self, suite: type) -> None:
        name = f"{suite.__module__}:{suite.__qualname__}"
        program = "from flowloom.testing.suites.courier_crew import main; main()"
        command = [sys.executable, "-c", program, name]
        env = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self._process = subprocess.Popen(command, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        self.pids: list[int] = []

    def start(self, place: Place, **options: Any) -> int:
        """One more worker, with these options; its process id."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        said = {"store": place.store, "diary": str(place.diary), **options}
        self._process.stdin.write(json.dumps(said) + "\n")
        self._process.stdin.flush()
        pid = int(self._process.stdout.readline())
        self.pids.append(pid)
        return pid

    def kill(self, pid: int, number: int = signal.SIGKILL) -> None:
        """Send a worker a signal."""
        if number == signal.SIGKILL:
            self.pids.remove(pid)
        os.kill(pid, number)

    def end(self) -> None:
        """Kill all workers."""
        for pid in list(self.pids):
            try:
                self.kill(pid)
            except ProcessLookupError:
                continue

    def close(self) -> None:
        """End the process that has them."""
        self.end()
        assert self._process.stdin is not None
        self._process.stdin.close()
        self._process.wait(20)
        assert self._process.stdout is not None
        self._process.stdout.close()


class Place:
    """A store, and the diary of what tools have done."""

    def __init__(self, store: str, folder: Path) -> None:
        self.store = store
        self.diary = folder / "diary"
        self.diary.touch()

    def lines(self) -> list[list[str]]:
        """What the tools have written: what, key, run, process."""
        return [line.split() for line in self.diary.read_text().splitlines()]

    def has_begun(self, run: SubmittedRun) -> bool:
        """Whether a tool of a run has begun."""
        return any(line[2] == run.id for line in self.lines())

    def note_death(self, pid: int) -> None:
        """Write down that a process is about to be killed."""
        with self.diary.open("ab", buffering=0) as file:
            file.write(f"died - - {pid}\n".encode())

    def check_keys(self, runs: Sequence[SubmittedRun]) -> int:
        """Each call of the runs has been made under one key; how many were begun again."""
        begun = Counter(line[1] for line in self.lines() if line[0] == "begin")
        ids = {run.id for run in runs}
        assert {key.partition("/")[0] for key in begun} <= ids, "A tool has run for a run that was not submitted."
        return sum(begun.values()) - len(begun)

    async def check_calls(self, run: SubmittedRun) -> None:
        """Each call that is in the log of a run was made under its own key, and no other one was made."""
        begun = {line[1] for line in self.lines() if line[0] == "begin" and line[2] == run.id}
        calls = {f"{run.id}/{call.id}" async for event in run.events() for call in event.get_function_calls()}
        assert begun == calls, "A call was made under two keys, or one that the log does not know."


class Unreliable:
    """A courier that loses, doubles and delays what it is given."""

    def __init__(self, courier: Courier) -> None:
        self._courier = courier
        self._chance = random.Random(7)
        self._late: set[asyncio.Task[None]] = set()

    async def offer(self, run_ids: Sequence[str]) -> None:
        for run_id in run_ids:
            fate = self._chance.randrange(4)
            if fate == 1:
                await self._courier.offer([run_id, run_id])
            elif fate == 2:
                task = asyncio.create_task(self._offer_late(run_id))
                self._late.add(task)
                task.add_done_callback(self._late.discard)
            elif fate == 3:
                await self._courier.offer([run_id])

    async def _offer_late(self, run_id: str) -> None:
        await asyncio.sleep(0.05)
        await self._courier.offer([run_id])

    async def serve(self, handle: Deliver, free: Free) -> None:
        async def twice(run_ids: Sequence[str] | None = None) -> Sequence[Awaitable[None]]:
            begun = list(await handle(run_ids))
            if run_ids is not None:
                begun += await handle(run_ids)
            return begun

        await self._courier.serve(twice, free)

    async def withdraw(self, run_id: str) -> None:
        await self._courier.withdraw(run_id)

    async def check(self) -> None:
        await self._courier.check()

    async def close(self) -> None:
        for task in list(self._late):
            task.cancel()
        await self._courier.close()


# -- what the rules are told in ------------------------------------------------------------------------------


async def submitted(client: RunClient, number: int, *, steps: int) -> SubmittedRun:
    """A run of some steps in the session of that number."""
    return await client.submit(f"steps {steps}", user_id=f"user{number}", session_id=f"s{number}")


async def ended(run: SubmittedRun) -> RunResult[Any]:
    """Wait for the end of a run, or until it waits itself."""
    try:
        async with asyncio.timeout(SECONDS):
            return await run.result()
    except TimeoutError:
        state = (await run.info()).status
        lost = ", and was brought to no worker" if state == "ready" else ""
        raise AssertionError(
            f"Run {run.id} neither ended nor paused within {SECONDS:g} seconds: it is `{state}`{lost}."
        ) from None


async def all_final(runs: Sequence[SubmittedRun]) -> None:
    """Wait for the end of the runs, which have to be final."""
    for run in runs:
        result = await ended(run)
        assert result.status == "final", f"Run {run.id} ended as {result.status}: {result.error!r}."


async def story(run: SubmittedRun) -> list[Any]:
    """What happened in a run, ids and times left out."""
    return [told(event) async for event in run.events()]


def told(event: Event) -> list[Any]:
    """An event without ids and times."""
    calls = [[call.name, call.args] for call in event.get_function_calls()]
    return [event.author, event.text, calls, [answer.response for answer in event.get_function_responses()]]


def quiet(steps: int, run: SubmittedRun) -> list[Any]:
    """What happens in a run of some steps that is not disturbed."""
    said = f"steps {steps}"
    between = [
        each
        for number in range(1, steps + 1)
        for each in (
            ["crew", "", [["step", {"number": number}]], []],
            ["crew", "", [], [{"result": f"did {number}"}]],
        )
    ]
    return [["user", said, [], []], *between, ["crew", f"Done: {said}", [], []]]


class Following:
    """Follows a run as clients do: from its beginning, twice at once, or from the middle, by the `number`."""

    def __init__(self, run: SubmittedRun, number: int) -> None:
        self._run = run
        self._firsts = ([0], [0, 0], [3])[number % 3]

    async def lags(self) -> list[float]:
        """How many seconds after it was made each event came; all of them came, once and in order."""
        told = await asyncio.gather(*(self._from(first) for first in self._firsts))
        wanted = [event.id async for event in self._run.events()]
        for first, seen in zip(self._firsts, told, strict=True):
            assert [event.id for event, _ in seen] == wanted[first:], (
                "A follower has not seen each event once, in order."
            )
        return [lag for seen in told for _, lag in seen]

    async def _from(self, first: int) -> list[tuple[Event, float]]:
        if first:  # when the run has come so far
            count = 0
            async for _ in self._run.events():
                count += 1
                if count == first:
                    break
        return [(event, time.time() - event.timestamp) async for event in self._run.events(first)]


async def stopped(crew: Crew, place: Place, pid: int) -> None:
    """Stop a worker, and not while it writes to a SQLite file, which would lock that for all."""
    while True:
        crew.kill(pid, signal.SIGSTOP)
        if place.store.startswith("postgres"):
            return
        try:
            with closing(sqlite3.connect(place.store, timeout=1.0)) as connection:
                connection.execute("BEGIN IMMEDIATE").connection.rollback()
        except sqlite3.OperationalError:
            crew.kill(pid, signal.SIGCONT)
            await asyncio.sleep(0.02)
        else:
            return


async def legal(run: SubmittedRun) -> None:
    """Each call of a run has one result."""
    calls, answers = Counter[str | None](), Counter[str | None]()
    async for event in run.events():
        calls.update(call.id for call in event.get_function_calls())
        answers.update(answer.id for answer in event.get_function_responses())
    assert calls == answers, "A call has no result, or a result no call."


@asynccontextmanager
async def killing(crew: Crew, place: Place, kills: int, pace: float) -> AsyncGenerator[list[int]]:
    """Three workers, of which one after the other is killed and replaced, with `pace` seconds between at most."""
    chance, killed = random.Random(kills), list[int]()
    pids = [crew.start(place) for _ in range(3)]

    async def kill() -> None:
        for _ in range(kills):
            await asyncio.sleep(pace * (0.15 + 0.85 * chance.random()))
            pid = pids.pop(chance.randrange(3))
            crew.kill(pid)
            killed.append(pid)
            pids.append(crew.start(place))

    task = asyncio.create_task(kill())
    try:
        yield killed
        await task
    finally:
        task.cancel()
        crew.end()


async def until(check: Any) -> None:
    """Wait until that is so."""
    end = time.monotonic() + SECONDS
    while not check():
        assert time.monotonic() < end, "What was waited for did not happen."
        await asyncio.sleep(0.005)


async def until_async(check: Any, otherwise: str = "What was waited for did not happen.") -> None:
    """The same for a coroutine function; a failure says what is `otherwise`."""
    end = time.monotonic() + SECONDS
    while not await check():
        assert time.monotonic() < end, otherwise
        await asyncio.sleep(0.01)


async def has_workers(client: RunClient, count: int) -> bool:
    """Whether so many workers are there."""
    return len(await client.workers()) >= count


async def began(run: SubmittedRun, pid: int) -> None:
    """Wait until the worker of a process has a run."""

    async def has() -> bool:
        info = await run.info()
        return info.status == "running" and f"-{pid}-" in (info.worker or "")

    await until_async(has, f"Run {run.id} was not brought to a worker that lives.")


async def most_at_once(client: RunClient) -> int:
    """How many runs were ready or running at once, until this is cancelled."""
    most = 0
    try:
        while True:
            most = max(most, len(await client.list(status=("ready", "running"))))
            await asyncio.sleep(0.005)
    except asyncio.CancelledError:
        return most


async def places_taken(client: RunClient) -> int:
    """How many places of limits are taken."""
    return await client.registry.read(lambda c: c.execute("SELECT COUNT(*) FROM flowloom_slots").fetchone()[0])


def calls_at_once(lines: Sequence[Sequence[str]]) -> int:
    """How many model calls were under way at once, by the lines of a diary; those of the dead are over."""
    active, most, dead = Counter[str](), 0, set[str]()
    for what, _, _, pid in lines:
        if pid in dead:
            continue
        if what == "asks":
            active[pid] += 1
        elif what == "told":
            active[pid] -= 1
        elif what == "died":
            dead.add(pid)
            del active[pid]
        most = max(most, active.total())
    return most
