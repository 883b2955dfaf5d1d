"""`Journal`: effects that are written down, under their keys, in a run whose order of scheduling is chosen."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Any
from zlib import crc32

from flowloom import Context, InvocationContext, LlmResponse
from flowloom.context import DirectEffects

WAITS = 7


class Journal(DirectEffects):
    """Effects that depend on nothing but their keys, and what each of them gave. Tools and models wait their turn.

    What waits longer than another in an even `order` waits shorter in the odd one after it. `invocation` comes before
    the keys; set it when an invocation begins, if the journal is of several.
    """

    def __init__(self, order: int = 0, invocation: str = "") -> None:
        self.order = order
        self.invocation = invocation
        self.given: dict[str, Any] = {}
        self.clock = 1_000.0

    def _give(self, key: object, value: Any) -> Any:
        named = f"{self.invocation}{key}"
        assert named not in self.given, f"two effects share the key {named}"
        self.given[named] = value
        return value

    async def wait_turn(self, key: object) -> None:
        """Let others go first: which ones depends on the key and on the order of this run."""
        round_, mirrored = divmod(self.order, 2)
        waits = crc32(f"{round_}{key}".encode()) % WAITS
        for _ in range(WAITS - 1 - waits if mirrored else waits):
            await asyncio.sleep(0)

    async def call_model(self, ctx: InvocationContext, *args: Any) -> AsyncIterator[LlmResponse]:  # type: ignore[override]
        key = ctx.effect_key("model")
        await self.wait_turn(key)
        said: list[Any] = []
        try:
            async for response in super().call_model(ctx, *args):
                said.append(response.to_wire())
                yield response
        finally:
            self._give(key, said)

    async def call_tool(self, ctx: InvocationContext, tool: Any, args: dict[str, Any], context: Context) -> Any:
        key = ctx.effect_key("tool", context.call_index)
        await self.wait_turn(key)
        try:
            return self._give(key, await super().call_tool(ctx, tool, args, context))
        except Exception as error:
            self._give(key, repr(error))
            raise

    def now(self, ctx: InvocationContext) -> float:
        return self._give(ctx.effect_key("now"), self.clock)

    def new_id(self, ctx: InvocationContext) -> str:
        key = ctx.effect_key("id")
        return self._give(key, f"<{self.invocation}{key}>")

    async def sleep(self, ctx: InvocationContext, seconds: float) -> None:
        key = ctx.effect_key("sleep")
        await self.wait_turn(key)
        self._give(key, seconds)
