"""Terminals that are closed after the test, and agents in files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from cli.process import Terminal

AGENT = """
import asyncio
import time
from flowloom import FunctionTool, LlmAgent, LongRunningFunctionTool


def count_sheep(number: int) -> dict:
    '''Count sheep.'''
    return {"message": f"Counted {number} sheep."}


def shear_sheep(number: int) -> dict:
    '''Shear wool off.'''
    return {"message": f"Sheared {number}."}


def request_delivery(number: int) -> dict:
    '''Order hay for delivery.'''
    return {"status": "pending"}


def nap(minutes: int) -> str:
    '''Sleep a while.'''
    time.sleep(60)
    return "Awake."


async def watch_wolves(minutes: int) -> str:
    '''Watch for wolves.'''
    await asyncio.sleep(60)
    return "No wolf came."


root_agent = LlmAgent(
    name="shepherd",
    model="gemini-2.5-flash",
    tools=[
        count_sheep,
        FunctionTool(shear_sheep, require_confirmation=True),
        LongRunningFunctionTool(request_delivery),
        nap,
        watch_wolves,
    ],
)
"""


@pytest.fixture
def shepherd(tmp_path: Path) -> Path:
    """A file with an agent that counts, shears (asks first), orders (runs on), sleeps (blocks) and watches (waits)."""
    path = tmp_path / "shepherd.py"
    path.write_text(AGENT)
    return path


@pytest.fixture
def terminal() -> Iterator[Callable[..., Terminal]]:
    """Starts the command on a terminal."""
    opened: list[Terminal] = []

    def start(*args: str | Path, **options: Any) -> Terminal:
        opened.append(Terminal(*args, **options))
        return opened[-1]

    yield start
    for each in opened:
        each.close()
