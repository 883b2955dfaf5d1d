"""`python -m durability.writers STORE`: processes that write to sessions of one store, each with a service of its own.

Everything is imported once; each writer is a fork. They begin together, when all are there.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import signal
import sys
import time
import traceback
from collections import Counter
from typing import Any, Literal

from resuming.company import ByTurn

from flowloom import Event, EventActions, LlmAgent, Runner, SqliteSessionService
from flowloom.events.parts import content_of, text_part
from flowloom.sessions.postgres import PostgresSessionService
from flowloom.sessions.sql_schema import PLACES
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing import call

LEASE = 30.0
"""Seconds. Longer than a busy machine keeps one of many processes waiting, so that none loses its session by that."""
WHO = {"app_name": "app", "user_id": "ann"}


def service_of(store: str) -> SqlSessionService:
    if store.startswith("postgres"):
        return PostgresSessionService(store, max_connections=2)
    return SqliteSessionService(store)


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


class Asking(ByTurn):
    """Calls the tool when the last content is the user's, and answers when it has the result."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> Any:
        latest = llm_request.contents[-1].parts[-1]
        self.answers = ["It is two."] if latest.function_response is not None else [call("add", a=1, b=1)]
        async for response in super().generate_content_async(llm_request, stream):
            yield response


async def write(store: str, session_id: str, writer: int, events: int, turns: int, concurrency: Any) -> None:
    """Append some events and run some turns, one after another."""
    service = service_of(store)
    runner = Runner(
        app_name="app",
        agent=LlmAgent(name="adder", model=Asking(), tools=[add]),
        session_service=service,
        concurrency=concurrency,
        lease_seconds=LEASE,
    )
    session = await service.get_session(**WHO, session_id=session_id)
    assert session is not None
    for number in range(events):
        await service.append_event(session, note(writer, number))
    for number in range(turns):
        text = ""
        async for event in runner.run_async(
            user_id="ann", session_id=session_id, new_message=f"Turn {writer}.{number}"
        ):
            text = event.text or text
        assert text == "It is two.", text
    await service.close()


def note(writer: int, number: int) -> Event:
    return Event(
        author="user",
        invocation_id=f"note-{writer}-{number}",
        content=content_of("user", [text_part(f"note {writer}.{number}")]),
        actions=EventActions(state_delta={f"of:{writer}": number, "user:latest": writer}),
    )


async def hold(store: str, session_id: str, wake: int) -> None:
    """Run a turn whose tool never ends."""

    def add(a: int, b: int) -> int:
        os.write(wake, b"x")
        time.sleep(600)
        return a + b

    runner = Runner(
        app_name="app",
        agent=LlmAgent(name="adder", model=Asking(), tools=[add]),
        session_service=service_of(store),
        lease_seconds=LEASE,
    )
    async for _ in runner.run_async(user_id="ann", session_id=session_id, new_message="held"):
        pass


async def check(
    store: str, session_id: str, writers: int, events: int, turns: int, *, queued: bool, held: bool
) -> None:
    """No event is lost, none is there twice, no number is left out; turns that queued are not mixed."""
    service = service_of(store)
    session = await service.get_session(**WHO, session_id=session_id)
    assert session is not None
    sql = (
        "SELECT s.last_seq, e.place FROM flowloom_sessions s JOIN flowloom_events e ON e.log = s.log "
        "WHERE session_id = ? ORDER BY e.place"
    )
    rows = await service.database.read(lambda connection: connection.execute(sql, (session_id,)).fetchall())
    await service.close()
    assert [row[1] % PLACES for row in rows] == list(range(1, rows[0][0] + 1)), "the numbers have gaps"
    assert len(rows) == len(session.events) == writers * (events + 4 * turns) + 2 * held, (
        len(rows),
        len(session.events),
    )
    assert len({event.id for event in session.events}) == len(rows), "an event is there twice"
    texts = Counter(event.text for event in session.events if event.author == "user")
    assert set(texts.values()) == {1}
    for writer in range(writers):
        assert {f"note {writer}.{number}" for number in range(events)} <= set(texts), "an event is lost"
        assert {f"Turn {writer}.{number}" for number in range(turns)} <= set(texts), "a message is lost"
        if events:
            assert session.state[f"of:{writer}"] == events - 1
    order = [event.invocation_id for event in session.events if not event.invocation_id.startswith("note-")]
    for invocation in set(order) - {event.invocation_id for event in session.events if event.text == "held"}:
        own = [event for event in session.events if event.invocation_id == invocation]
        kinds = [(e.author, bool(e.get_function_calls()), bool(e.get_function_responses())) for e in own]
        legal = [("user", False, False), ("adder", True, False), ("adder", False, True), ("adder", False, False)]
        assert kinds == legal, kinds
        if queued:
            first = order.index(invocation)
            assert order[first : first + 4] == [invocation] * 4, "two runs were mixed"


def fork(work: Any, gate: int) -> int:
    """Run a coroutine function in a process of its own, once the gate opens."""
    pid = os.fork()
    if pid:
        return pid
    code = 1
    try:
        os.read(gate, 1)
        asyncio.run(work())
        code = 0
    except BaseException:
        traceback.print_exc()
    finally:
        sys.stderr.flush()
        os._exit(code)


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("store")
    parser.add_argument("--writers", type=int, default=8)
    parser.add_argument("--sessions", type=int, default=1)
    parser.add_argument("--events", type=int, default=10)
    parser.add_argument("--turns", type=int, default=2)
    parser.add_argument("--concurrency", default="queue")
    parser.add_argument("--held", action="store_true", help="one more process has the lease when it is killed")
    options = parser.parse_args()
    concurrency: Literal["queue", "allow"] = options.concurrency

    async def make() -> None:
        service = service_of(options.store)
        for number in range(options.sessions):
            await service.create_session(**WHO, session_id=f"s{number}")
        await service.close()

    def run_alone(work: Any) -> int:
        ready, gate = os.pipe()
        os.write(gate, b"x")
        return os.waitpid(fork(work, ready), 0)[1]

    failed = run_alone(make)
    gc.freeze()
    ready, gate = os.pipe()
    started = time.perf_counter()
    pids = [
        fork(
            lambda writer=writer: write(
                options.store,
                f"s{writer % options.sessions}",
                writer // options.sessions,
                options.events,
                options.turns,
                concurrency,
            ),
            ready,
        )
        for writer in range(options.writers * options.sessions)
    ]
    if options.held:
        heard, wake = os.pipe()
        own_ready, own_gate = os.pipe()
        holder = fork(lambda: hold(options.store, "s0", wake), own_ready)
        os.write(own_gate, b"x")
        os.read(heard, 1)
        os.write(gate, b"x" * len(pids))
        time.sleep(0.3)
        os.kill(holder, signal.SIGKILL)
        os.waitpid(holder, 0)
        started = time.perf_counter()
    else:
        os.write(gate, b"x" * len(pids))
    failed += sum(os.waitpid(pid, 0)[1] != 0 for pid in pids)
    took = time.perf_counter() - started
    for number in range(options.sessions):
        failed += run_alone(
            lambda number=number: check(
                options.store,
                f"s{number}",
                options.writers,
                options.events,
                options.turns,
                queued=concurrency == "queue",
                held=options.held and not number,
            )
        )
    print(json.dumps({"failed": failed, "seconds": took}), flush=True)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
