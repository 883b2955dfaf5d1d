"""The tools of all engines, as plain functions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable


async def add(a: int, b: int) -> dict[str, int]:
    """Add two numbers."""
    return {"sum": a + b}


def plus(a: int, b: int) -> dict[str, int]:
    """Add two numbers at once."""
    return {"sum": a + b}


async def wait(seconds: float) -> dict[str, float]:
    """Wait without blocking."""
    await asyncio.sleep(seconds)
    return {"waited": seconds}


def block(seconds: float) -> dict[str, float]:
    """Wait and block."""
    time.sleep(seconds)
    return {"blocked": seconds}


def several(count: int) -> list[Callable[..., Awaitable[dict[str, int]]]]:
    """As many tools as wanted, each under a name of its own."""
    return [_numbered(number) for number in range(count)]


def _numbered(number: int) -> Callable[..., Awaitable[dict[str, int]]]:
    async def tool(a: int, b: int) -> dict[str, int]:
        return {"sum": a + b + number}

    tool.__name__ = tool.__qualname__ = f"add_{number}"
    tool.__doc__ = f"Add two numbers, and {number}."
    return tool
