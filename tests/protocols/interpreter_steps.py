"""What something costs in steps of the interpreter, which other work on the machine does not change."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

TURNS = 10


async def steps(work: Callable[[int], Awaitable[Any]]) -> int:
    """How many steps a turn takes, with all that the event loop does meanwhile; as many turns go before.

    The least of all turns: what arrives late or in pieces wakes the loop once more, and garbage of others is collected.
    """
    for number in range(TURNS):
        await work(number)
    counts: list[int] = []

    def trace(frame: Any, event: str, _: Any) -> Any:
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        counts[-1] += event == "opcode"
        return trace

    before = sys.gettrace()
    for number in range(TURNS, 2 * TURNS):
        counts.append(0)
        sys.settrace(trace)
        try:
            await work(number)
        finally:
            sys.settrace(before)
    return min(counts)
