"""Model calls within the limits of the fleet: at the call, and not at the run (durable design, section 8).

A call takes one of the places that there are at once, a row of `flowloom_slots`, and gives it back when it ends; the
places of a worker that dies come free when it is buried. What is allowed in a minute is spread over it: a row of
`flowloom_rates` says when the next call may begin, which each call, or the tokens that it took, puts off.
"""

from __future__ import annotations

import asyncio
import logging
import random
import zlib
from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any

from flowloom.context.protocols import Effects, RunnableTool
from flowloom.durable import metrics
from flowloom.durable.limits import ModelLimit
from flowloom.durable.registry import Registry
from flowloom.durable.sql_runs import is_alive
from flowloom.errors import StorageError
from flowloom.events.ids import new_id
from flowloom.events.response import LlmResponse
from flowloom.models import BaseLlm, LlmRequest
from flowloom.sessions.leases import uptime
from flowloom.sessions.sql_workers import now
from flowloom.sql import Connection, Dialect

_log = logging.getLogger("flowloom.durable")
_LOOKS = 0.05
"""Seconds between two looks for a place, more or less; in a process one call looks, and the others are behind it."""
_LOCKS = 1_801_545  # a class of PostgreSQL's advisory locks; any number will do


class LimitedEffects:
    """The effects of a worker whose model calls keep to `limits`; all else is as `inner` does it.

    `registry` has the places, `worker` tells the name of the worker that takes them.
    """

    def __init__(
        self, inner: Effects, registry: Registry, limits: Sequence[ModelLimit], worker: Callable[[], str]
    ) -> None:
        self._inner = inner
        self._registry = registry
        self._limits = tuple(limits)
        self._worker = worker
        self._first = {limit: asyncio.Lock() for limit in self._limits}
        self._freed = {limit: asyncio.Event() for limit in self._limits}

    def call_model(self, ctx: Any, model: BaseLlm, request: LlmRequest, stream: bool) -> AsyncIterator[LlmResponse]:
        """See `Effects.call_model`."""
        about = [limit for limit in self._limits if limit.is_about(model.model)]
        if not about:
            return self._inner.call_model(ctx, model, request, stream)
        return self._limited(ctx, model, request, stream, about)

    async def _limited(
        self, ctx: Any, model: BaseLlm, request: LlmRequest, stream: bool, limits: Sequence[ModelLimit]
    ) -> AsyncIterator[LlmResponse]:
        call, tokens, told = new_id(), 0, False

        def waits() -> None:
            nonlocal told
            for observer in () if told else ctx.run.observers:
                observer.model_waits(ctx, model)
            told = True

        try:
            began = uptime()
            for limit in limits:
                await self._enter(limit, call, waits)
            metrics.waited(model.model, uptime() - began)
            responses = self._inner.call_model(ctx, model, request, stream)
            try:
                async for response in responses:
                    usage = response.usage_metadata
                    if usage is not None:
                        tokens = max(tokens, usage.total_token_count or 0)
                    yield response
            finally:  # who has what it wants leaves the stream: it is over before its place is another one's
                close = getattr(responses, "aclose", None)
                if close is not None:
                    await close()
        finally:
            for limit in limits:
                await asyncio.shield(self._leave(limit, call, tokens))

    async def _enter(self, limit: ModelLimit, call: str, waits: Callable[[], None]) -> None:
        """Wait for a place of a call, and for its time; `waits` tells of it."""
        if limit.concurrent is not None:
            if self._first[limit].locked():
                waits()
            async with self._first[limit]:
                while not await self._taken(limit, call):
                    waits()
                    self._freed[limit].clear()
                    pause = _LOOKS * (0.5 + random.random())
                    waiting = asyncio.ensure_future(self._freed[limit].wait())
                    await asyncio.wait({waiting}, timeout=pause)
                    waiting.cancel()
        for per_minute, what in ((limit.per_minute, "calls"), (limit.tokens_per_minute, "tokens")):
            if per_minute is not None:
                cost = 60.0 / per_minute if what == "calls" else 0.0
                wait = await self._put_off(f"{limit.model}\x1f{what}", cost)
                if wait > 0:
                    waits()
                    await asyncio.sleep(wait)

    async def _taken(self, limit: ModelLimit, call: str) -> bool:
        worker, dialect = self._worker(), self._registry.setting.dialect
        place, most = f"model\x1f{limit.model}", limit.concurrent or 1

        def take(connection: Connection) -> bool:
            if not is_alive(connection, dialect, worker):  # buried: a place that it took now would not come free
                return False
            _lock(connection, dialect, place)
            rows = connection.execute("SELECT number FROM flowloom_slots WHERE place = ?", (place,)).fetchall()
            taken = {row[0] for row in rows}
            number = next((each for each in range(most) if each not in taken), None)
            if number is not None:
                sql = "INSERT INTO flowloom_slots (place, number, run_id, worker) VALUES (?, ?, ?, ?)"
                connection.execute(sql, (place, number, call, worker))
            return number is not None

        return await self._registry.write(take, ("slot", place), durable=False)

    async def _put_off(self, place: str, cost: float) -> float:
        """Put off the next call by some seconds; for how many seconds this one has to wait."""
        dialect = self._registry.setting.dialect

        def put_off(connection: Connection) -> float:
            _lock(connection, dialect, place)
            row = connection.execute("SELECT next FROM flowloom_rates WHERE place = ?", (place,)).fetchone()
            moment = now(connection, dialect)
            begins = moment if row is None else max(row[0], moment)
            if cost:
                sql = (
                    "INSERT INTO flowloom_rates (place, next) VALUES (?, ?) "
                    "ON CONFLICT (place) DO UPDATE SET next = excluded.next"
                )
                connection.execute(sql, (place, begins + cost))
            return begins - moment

        return await self._registry.write(put_off, ("slot", place), durable=False)

    async def _leave(self, limit: ModelLimit, call: str, tokens: int) -> None:
        """Give back the place of a call, and count what it took."""
        try:
            if limit.concurrent is not None:
                sql = "DELETE FROM flowloom_slots WHERE run_id = ?"
                await self._registry.write(lambda c: c.execute(sql, (call,)), ("slot", call), durable=False)
                self._freed[limit].set()
            if limit.tokens_per_minute is not None and tokens:
                await self._put_off(f"{limit.model}\x1ftokens", tokens * 60.0 / limit.tokens_per_minute)
        except StorageError as error:  # it comes free when the worker ends
            _log.warning("The place of a call of `%s` could not be given back: %s", limit.model, error)

    async def call_tool(self, ctx: Any, tool: RunnableTool, args: dict[str, Any], context: Any) -> Any:
        """See `Effects.call_tool`."""
        return await self._inner.call_tool(ctx, tool, args, context)

    def now(self, ctx: Any) -> float:
        """See `Effects.now`."""
        return self._inner.now(ctx)

    def new_id(self, ctx: Any) -> str:
        """See `Effects.new_id`."""
        return self._inner.new_id(ctx)

    async def sleep(self, ctx: Any, seconds: float) -> None:
        """See `Effects.sleep`."""
        await self._inner.sleep(ctx, seconds)


def _lock(connection: Connection, dialect: Dialect, place: str) -> None:
    if dialect == "postgres":
        number = zlib.crc32(place.encode()) - (1 << 31)
        connection.execute("SELECT pg_advisory_xact_lock(?, ?)", (_LOCKS, number))
