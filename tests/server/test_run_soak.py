"""Clients that come, go, cancel and come back at random: nothing stays behind, and histories are legal."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import os
import random
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from server.serving import Running, eventually, serving
from server.talker import body, data_of, run, runs_of, settled, stream, talker

from benchmarks.engines import FLOWLOOM, Installed
from benchmarks.server import load, served
from flowloom import SqliteSessionService
from flowloom.server import app_of

SAYINGS = ("say 5", "pace 20", "hang 3", "tool wait", "tool save", "tool book", "fail", "hello")
DISTURBANCES = 1000


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Running]:
    """A server whose sessions are in a file."""
    app = app_of(talker(), keep_alive=0.02)
    app.state.served.sessions = SqliteSessionService(str(tmp_path / "sessions.db"))
    with serving(app) as running:
        yield running


def disturb(server: Running, session: str, seed: int) -> None:
    """One client that does not stay to the end."""
    chance = random.Random(seed)
    path = chance.choice(("/run_sse", "/run_sse", "/run_sse?resume_grace=0.2", "/apps/desk/run"))
    given = body(session, chance.choice(SAYINGS), streaming=chance.random() < 0.7)
    with stream(server, path, given) as chunks:
        if chunks.status != 200:
            assert chunks.status == 409
            return
        seen = ""
        try:
            for _ in range(chance.randrange(8)):
                seen += next(chunks).decode()
        except StopIteration:
            return
        if chance.random() < 0.3:
            assert server.client.post(f"{server.sessions()}/{session}/cancel").status_code == 200
    ids = [line.removeprefix("id: ") for line in seen.split("\n") if line.startswith("id: ")]
    if ids and chance.random() < 0.5:  # it comes back
        time.sleep(chance.random() * 0.05)
        follow = f"{server.sessions()}/{session}/runs/{ids[-1].rpartition(':')[0]}/events"
        with stream(server, follow, Last_Event_ID=ids[-1]) as chunks:
            assert chunks.status in (200, 404)
            for _, chunk in zip(range(chance.randrange(5)), chunks, strict=False):
                data_of(chunk.decode())


def open_files(server: Running) -> int:
    """How many files and sockets the process has open, without what the client and the store keep to use again."""
    server.client.close()
    server.__post_init__()
    gc.collect()
    found = 0
    for each in os.listdir("/proc/self/fd"):
        with contextlib.suppress(FileNotFoundError):  # the listing itself
            found += "sessions.db" not in os.readlink(f"/proc/self/fd/{each}")
    return found


def threads() -> set[str]:
    """The threads of the process, without those of the store."""
    return {each.name for each in threading.enumerate() if not each.name.startswith("flowloom-sqlite")}


def left(server: Running) -> list[str]:
    """The server's tasks of runs and their clients."""

    async def names() -> list[str]:
        return [task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("flowloom")]

    return server.call(names())


def check_legal(events: list[dict[str, Any]], waiting: set[str]) -> None:
    """Every call has one answer, or waits for one; every answer has its call before it."""
    calls: set[str] = set()
    answers: set[str] = set()
    for event in events:
        for part in event.get("content", {}).get("parts", []):
            if "functionCall" in part:
                calls.add(part["functionCall"]["id"])
            if "functionResponse" in part:
                assert part["functionResponse"]["id"] in calls
                answers.add(part["functionResponse"]["id"])
    assert calls - answers <= waiting


@pytest.mark.soak
@pytest.mark.timeout(600)
@pytest.mark.skipif(not hasattr(os, "sched_setaffinity"), reason="looks at a process on one processor in /proc")
def test_many_streams_do_not_grow_the_memory() -> None:
    """500 of 20 events a second, for 30 s: what is kept of them has its bound, and nothing else stays but what an
    answer has said so far: of each of its pieces a reference, 1 MiB in 10 s."""
    with served(Installed(FLOWLOOM, sys.executable)) as alone:
        _, growth, come = asyncio.run(load(alone, 30))
    assert come > 0.1
    assert growth < 3  # MiB in 10 s


@pytest.mark.soak
@pytest.mark.skipif(not os.path.isdir("/proc/self/fd"), reason="counts files in /proc")
def test_a_thousand_disturbances_leave_nothing(server: Running) -> None:
    """No run, task, thread or file stays open, and every session is legal and goes on."""
    sessions = [server.new_session() for _ in range(20)]
    for session in sessions:
        run(server, session)
    before = open_files(server), threads()
    with ThreadPoolExecutor(8) as clients:
        work = [
            clients.submit(disturb, server, sessions[number % len(sessions)], number) for number in range(DISTURBANCES)
        ]
        for each in work:
            each.result(60)
    for session in sessions:
        settled(server, session)
    eventually(lambda: not left(server))
    eventually(lambda: open_files(server) <= before[0])
    assert threads() <= before[1]
    for session in sessions:
        paused = runs_of(server, session)
        assert {each["status"] for each in paused} <= {"paused"}
        waiting = {call["id"] for each in paused for call in each["pending"]}
        events = settled(server, session)
        originals = {
            part["functionCall"]["args"]["originalFunctionCall"]["id"]
            for event in events
            for part in event.get("content", {}).get("parts", [])
            if part.get("functionCall", {}).get("id") in waiting
        }
        check_legal(events, waiting | originals)
        assert run(server, session)[-1]["content"]["parts"][0]["text"] == "You said: hello"
