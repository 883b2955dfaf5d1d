"""`python -m durability.kills STORE`: runs that are killed, looked at by another process, and resumed.

Everything is imported once; each process of a trial is a fork. One line of JSON is printed for each trial. A trial is
told by its number: the place where it dies is drawn from it.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import random
import signal
import sys
import time
import traceback
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any, get_args

from resuming.company import per_branch

from durability.office import Fuse, Kind, Office, fused
from flowloom import Event, Runner, Session, SqliteSessionService
from flowloom.log.marks import REPEATED
from flowloom.sessions.postgres import PostgresSessionService
from flowloom.sessions.sql_schema import PLACES
from flowloom.sessions.sql_service import SqlSessionService

LEASE = 0.25
"""Seconds after which the lease of a process that died is free."""
LATE = 0.05
"""How much later than a run takes a process is killed at most, in seconds: to begin takes its time too."""
FILES = 4
"""On SQLite: over how many files the sessions of the trials are spread."""
KINDS: tuple[Kind, ...] = get_args(Kind)
GIVEN_UP = "interrupted twice"


class Trial:
    """One run and what befalls it. Its methods are called in processes of their own."""

    def __init__(self, store: str, number: int, folder: Path) -> None:
        self.store = store
        self.number = number
        self.who = {"user_id": f"user{number}", "session_id": f"s{number}"}
        self.diary = folder / f"diary{number}"
        self.found = folder / f"found{number}"
        """What the latest process saw before it began."""
        self.report = folder / f"report{number}"
        """What the latest process saw when it had ended."""

    def service(self) -> SqlSessionService:
        if self.store.startswith("postgres"):
            return PostgresSessionService(self.store, max_connections=3)
        return SqliteSessionService(f"{self.store}.{self.number % FILES}")

    def run(self, fuse: Fuse) -> None:
        """Look at what the last process left, begin the run or go on with it, and say what there was and is."""
        asyncio.run(self._run(fuse))

    async def _run(self, fuse: Fuse) -> None:
        service = self.service()
        found = await service.get_session(app_name="app", **self.who)
        self._say(self.found, log=dumped(found), rows=await self._rows(service), diary=self.lines())
        if fuse.number:
            fused(service.database, fuse)
        runner = Runner(
            app_name="app",
            agent=Office(self.diary, fuse).root(),
            session_service=service,
            auto_create_session=True,
            lease_seconds=LEASE,
        )
        how: Any = {"new_message": "Plan a trip."}
        if found is not None and found.events:
            how = {"invocation_id": found.events[0].invocation_id}
        started = time.perf_counter()
        async for _ in runner.run_async(**self.who, **how):
            fuse.passes("event")
        took = time.perf_counter() - started
        log = dumped(await service.get_session(app_name="app", **self.who))
        rows = await self._rows(service)
        await service.close()
        self._say(self.report, log=log, rows=rows, counts=fuse.counts, took=took)

    def _say(self, path: Path, **found: Any) -> None:
        """Write a file that is whole, or not there."""
        part = path.with_suffix(".part")
        part.write_text(json.dumps(found))
        part.replace(path)

    def lines(self) -> list[list[str]]:
        """What the tools have written: process, what, tool, and call."""
        return [line.split() for line in self.diary.read_text().splitlines()] if self.diary.exists() else []

    async def _rows(self, service: SqlSessionService) -> dict[str, Any]:
        """What the tables hold of the session."""
        sql = (
            "SELECT s.last_seq, e.place, e.id FROM flowloom_sessions s LEFT JOIN flowloom_events e ON e.log = s.log "
            "WHERE user_id = ? ORDER BY e.place"
        )
        rows = await service.database.read(
            lambda connection: connection.execute(sql, (self.who["user_id"],)).fetchall()
        )
        return {
            "last": rows[0][0] if rows else 0,
            "seqs": [row[1] % PLACES for row in rows if row[1] is not None],
            "ids": [row[2] for row in rows if row[2] is not None],
        }


def dumped(session: Session | None) -> dict[str, Any]:
    if session is None:
        return {"events": [], "state": {}}
    return {"events": [event.to_wire() for event in session.events], "state": session.state}


# -- in the process that starts the others: no loop, no threads -------------------------------------------------------


def forked(work: Callable[[], None], *, after: float | None = None) -> bool:
    """Do `work` in a process of its own, killed `after` some seconds if that is sooner. Whether it was killed."""
    pid = os.fork()
    if not pid:
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            traceback.print_exc()
        finally:
            sys.stderr.flush()
            os._exit(code)
    if after is not None:
        time.sleep(after)
        os.kill(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    if os.WIFSIGNALED(status):
        return True
    if os.WEXITSTATUS(status):
        raise RuntimeError("a process failed; its traceback is on stderr")
    return False


def die() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


class Undisturbed:
    """A run that nobody killed: what it comes to, and how often it passes each kind of place."""

    def __init__(self, store: str, folder: Path) -> None:
        reports: list[dict[str, Any]] = []
        for number in range(5):  # one of them has the machine for itself
            trial = Trial(store, 1_000_000 + number, folder)
            forked(partial(trial.run, Fuse("time", 1)))
            reports.append(json.loads(trial.report.read_text()))
        self.counts: dict[str, int] = reports[0]["counts"]
        self.took: float = min(report["took"] for report in reports)
        self.story, self.state = story(reports[0]["log"])


def story(log: dict[str, Any]) -> tuple[dict[str, list[str]], dict[str, Any]]:
    return per_branch(Event.model_validate(event) for event in log["events"]), log["state"]


def examine(trial: Trial, usual: Undisturbed, kills: int) -> dict[str, Any]:
    """Kill the run of a trial so often, and let it end. Raises `AssertionError` if something is not as it has to be."""
    rng = random.Random(trial.number)
    places: list[str] = []
    before = 0  # how long the diary was when the latest process began
    finished = set[str]()  # calls whose results were in the log then
    for turn in range(kills + 1):
        kind: Kind = KINDS[(trial.number + turn) % len(KINDS)]
        trial.report.unlink(missing_ok=True)
        fuse, after = Fuse(), None
        if turn < kills and kind == "time":
            after = rng.random() * (usual.took + LATE) + (LEASE if turn else 0.0)
            places.append(f"{after * 1000:.0f} ms")
        elif turn < kills:
            fuse = Fuse(kind, rng.randint(1, usual.counts[kind] >> turn), die)
            places.append(f"{kind} {fuse.number}")
        trial.found.unlink(missing_ok=True)
        killed = forked(partial(trial.run, fuse), after=after)
        if trial.found.exists():
            found = json.loads(trial.found.read_text())
            if turn:
                check_cut_off(found, found["diary"])
            begun = {line[3] for line in found["diary"][before:] if line[1] == "start"}
            assert not finished & begun, "a call with a result was made again"
            before, finished = len(found["diary"]), answered(found["log"])
        if not killed:
            break
    report, lines = json.loads(trial.report.read_text()), trial.lines()
    assert not finished & {line[3] for line in lines[before:] if line[1] == "start"}, "a call with a result, again"
    check_ended(report, lines, usual)
    return {"trial": trial.number, "places": places, "killed": turn}


def ids(event: dict[str, Any], kind: str) -> list[str]:
    return [part[kind]["id"] for part in (event.get("content") or {}).get("parts") or () if kind in part]


def answered(log: dict[str, Any]) -> set[str]:
    """The calls that have results."""
    return {answer for event in log["events"] for answer in ids(event, "functionResponse")}


def check_numbers(found: dict[str, Any]) -> None:
    """The numbers of a log's events run from one without a gap."""
    rows = found["rows"]
    assert rows["seqs"] == list(range(1, rows["last"] + 1)), "the numbers have gaps"
    assert rows["ids"] == [event["id"] for event in found["log"]["events"]]


def check_legal(log: dict[str, Any]) -> set[str]:
    """Each event once, each result after its call and once, the state that of the events; the calls without results."""
    events: Sequence[dict[str, Any]] = log["events"]
    assert len({event["id"] for event in events}) == len(events), "an event is there twice"
    open_calls: dict[str, tuple[str, str]] = {}
    state: dict[str, Any] = {}
    for event in events:
        place = event["author"], event.get("branch") or ""
        for answer in ids(event, "functionResponse"):
            assert open_calls.pop(answer, None) == place, "a result without a call, or a second one"
        calls = ids(event, "functionCall")
        if event.get("content") and not ids(event, "functionResponse"):  # results may come in several events
            mine = [call for call, where in open_calls.items() if where == place]
            assert not mine, "an agent went on while a call of its had no result"
        open_calls.update((call, place) for call in calls)
        state.update((event.get("actions") or {}).get("stateDelta") or {})
    assert state == log["state"], "the state is not that of the events"
    return set(open_calls)


def check_cut_off(found: dict[str, Any], lines: Sequence[Sequence[str]]) -> None:
    """What a process that was killed leaves: no tool has begun whose call is not stored, no result of one not ended."""
    log = found["log"]
    check_numbers(found)
    check_legal(log)
    called = {call for event in log["events"] for call in ids(event, "functionCall")}
    begun = {line[3] for line in lines if line[1] == "start"}
    ended = {line[3] for line in lines if line[1] == "end"}
    own = {
        part["functionResponse"]["id"]
        for event in log["events"]
        for part in (event.get("content") or {}).get("parts") or ()
        if "functionResponse" in part
        and part["functionResponse"]["name"] != "transfer_to_agent"
        and GIVEN_UP not in str(part["functionResponse"]["response"])
    }
    assert begun <= called, "a tool has begun before its call was stored"
    assert own <= ended, "there is a result of a tool that has not ended"
    check_starts(log, lines)


def check_starts(log: dict[str, Any], lines: Sequence[Sequence[str]]) -> None:
    """A tool that is not idempotent has begun once, and once more at most if the log said so before."""
    known = marked(log)
    for call, times in Counter(line[3] for line in lines if line[1:3] == ["start", "book"]).items():
        assert times <= 1 + (call in known), f"{call} was begun {times} times"


def marked(log: dict[str, Any]) -> set[str]:
    """The calls of which an event says that they are made once more."""
    return {c for e in log["events"] for c in ((e.get("actions") or {}).get("agentState") or {}).get(REPEATED, ())}


def check_ended(report: dict[str, Any], lines: Sequence[Sequence[str]], usual: Undisturbed) -> None:
    """What a run that was resumed to its end has to have come to."""
    log = report["log"]
    check_numbers(report)
    assert not check_legal(log), "calls without results"
    check_starts(log, lines)
    if GIVEN_UP in json.dumps(
        log["events"]
    ):  # made twice and killed twice: the model was told, and the story is another
        return
    told, state = story(log)
    assert state == usual.state, f"the state is another: {state} for {usual.state}"
    assert told == usual.story, f"the story is another: {told} for {usual.story}"


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("store", help="a path that the files' names begin with, or a DSN")
    parser.add_argument("folder", type=Path)
    parser.add_argument("--trials", type=int, default=200)
    parser.add_argument("--first", type=int, default=0)
    parser.add_argument("--twice", type=int, default=0, help="how many of them are killed again while they go on")
    parser.add_argument("--at-once", type=int, default=6)
    options = parser.parse_args()
    usual = Undisturbed(options.store, options.folder)
    print(json.dumps({"counts": usual.counts, "took": usual.took}), flush=True)
    gc.collect()
    gc.freeze()
    running: set[int] = set()
    for number in range(options.first, options.first + options.trials):
        if len(running) >= options.at_once:
            running.discard(os.wait()[0])
        pid = os.fork()
        if not pid:
            code = 0
            trial = Trial(options.store, number, options.folder)
            try:
                result = examine(trial, usual, 2 if number < options.first + options.twice else 1)
            except BaseException as error:
                traceback.print_exc()
                result, code = {"trial": number, "failed": f"{type(error).__name__}: {error}"[:2000]}, 1
            os.write(1, (json.dumps(result) + "\n").encode())
            os._exit(code)
        running.add(pid)
    while running:
        running.discard(os.wait()[0])
    return 0


if __name__ == "__main__":
    sys.exit(main())
