"""What something costs in steps of the interpreter, which other work on the machine does not change."""

from __future__ import annotations

import sys
from collections.abc import Awaitable, Callable
from typing import Any

TURNS = 10


async def steps(work: Callable[[int], Awaitable[Any]]) -> float:
    """How many steps a turn takes, with all that the event loop does meanwhile; as many turns go before."""
    for number in range(TURNS):
        await work(number)
    count = 0

    def trace(frame: Any, event: str, _: Any) -> Any:
        nonlocal count
        frame.f_trace_opcodes, frame.f_trace_lines = True, False
        count += event == "opcode"
        return trace

    before = sys.gettrace()
    sys.settrace(trace)
    try:
        for number in range(TURNS, 2 * TURNS):
            await work(number)
    finally:
        sys.settrace(before)
    return count / TURNS
