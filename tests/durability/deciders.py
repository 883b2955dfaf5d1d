"""`python -m durability.deciders STORE DIARY`: processes that give one answer to one request of a store at once.

Everything is imported once; each process is a fork with a service of its own. What the tool does is written to a diary.
"""

from __future__ import annotations

import asyncio
import gc
import json
import os
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from waiting.desk import by_turn

from durability.writers import fork, service_of
from flowloom import FunctionTool, Runner
from flowloom.errors import AlreadyAnsweredError
from flowloom.runner.pending import PendingCall, answers, pending_calls
from flowloom.testing import call

WHERE = {"user_id": "ann", "session_id": "s1"}
AT_ONCE = 4


async def give(store: str, diary: Path, decide: Callable[[PendingCall], Any] | None) -> str:
    """What a run comes to that is given a decision, or that asks for one."""

    async def pay(amount: int) -> str:
        """Pay."""
        with diary.open("a") as file:
            file.write(f"paid {amount}\n")
        await asyncio.sleep(0.02)  # the others come meanwhile
        return "paid"

    service = service_of(store)
    root = by_turn("root", call("pay", amount=5), "Paid.", tools=[FunctionTool(pay, require_confirmation=True)])
    runner = Runner(app_name="app", agent=root, session_service=service, auto_create_session=True, concurrency="allow")
    message: Any = "Pay."
    if decide is not None:
        session = await service.get_session(app_name="app", **WHERE)
        assert session is not None
        asked = next(event for event in session.events if event.long_running_tool_ids)
        (pending,) = pending_calls(session.events[: session.events.index(asked) + 1])
        message = answers(decide(pending))
    try:
        result = await runner.run_to_result(**WHERE, new_message=message)
        return result.text or f"{result.status}, {len(result.events)} events"
    except AlreadyAnsweredError:
        return "refused"
    finally:
        await service.close()


def at_once(count: int, work: Callable[[], Any]) -> list[str]:
    """What processes have come to that began together."""
    ready, gate = os.pipe()
    heard, say = os.pipe()

    async def report() -> None:
        os.write(say, f"{await work()}\n".encode())

    pids = [fork(report, ready) for _ in range(count)]
    os.write(gate, b"x" * count)
    assert not any(os.waitpid(pid, 0)[1] for pid in pids)
    os.close(say)
    with os.fdopen(heard) as file:
        return sorted(file.read().splitlines())


def main() -> None:
    store, diary = sys.argv[1], Path(sys.argv[2])
    gc.freeze()
    found = [
        at_once(1, lambda: give(store, diary, None)),
        at_once(AT_ONCE, lambda: give(store, diary, lambda it: it.approve())),
        at_once(1, lambda: give(store, diary, lambda it: it.approve())),
        at_once(1, lambda: give(store, diary, lambda it: it.reject("no"))),
    ]
    print(json.dumps({"found": found, "diary": diary.read_text().split("\n")[:-1]}))


if __name__ == "__main__":
    main()
