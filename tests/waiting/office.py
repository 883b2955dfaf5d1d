"""A desk that may restart before every answer: another process with agents of its own, and a log of JSON."""

from __future__ import annotations

from typing import Any

from flowloom import LlmAgent
from flowloom.testing import call
from waiting.desk import Desk, World, by_turn

HAND_TO = "transfer_to_agent"


class Office(Desk):
    """A desk that may restart before every answer."""

    restarts = False

    async def answer(self, *parts: Any) -> Any:
        if self.restarts:
            await self.restart()
        return await super().answer(*parts)


def payer(world: World, name: str, amount: int, *after: Any, **fields: Any) -> LlmAgent:
    return by_turn(name, call("pay", amount=amount), *(after or (f"{name} paid.",)), tools=[world.paying], **fields)


async def approve_all(it: Desk) -> list[Any]:
    return await it.answer(*(each.approve() for each in await it.waiting() if each.kind == "confirmation"))
