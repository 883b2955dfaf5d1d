"""What the worker asks of an engine."""

from __future__ import annotations

from typing import Protocol


class Engine(Protocol):
    """One case on one framework."""

    batch: int
    """How many turns are counted before the worker starts another conversation."""

    async def start(self) -> None:
        """Begin a conversation, with its history. The worker does not count this time."""
        ...

    async def turn(self) -> str:
        """One user message; returns the last text of the answer, which the worker checks."""
        ...
