"""Model calls within the limits of the fleet: at the call, and not at the run (durable design, section 8).

A call takes one of the places that there are at once, a row of `flowloom_slots`, and gives it back when it ends; the
places of a worker that dies come free when it is buried. What is allowed in a minute is spread over it, and taken by
workers in shares (see `rates`).
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import AsyncIterator, Callable, Sequence
from functools import partial
from typing import Any, TypeVar

from flowloom.context.protocols import Effects, RunnableTool
from flowloom.durable import metrics
from flowloom.durable.beats import Beats
from flowloom.durable.limits import ModelLimit
from flowloom.durable.rates import LONGEST, Rate, draw, lock
from flowloom.durable.registry import Registry
from flowloom.durable.sql_runs import is_alive
from flowloom.errors import StorageError
from flowloom.events.ids import new_id
from flowloom.events.response import LlmResponse
from flowloom.models import BaseLlm, LlmRequest
from flowloom.sessions.leases import uptime
from flowloom.sql import Connection

_log = logging.getLogger("flowloom.durable")
T = TypeVar("T")
_LOOKS = 0.05
"""Seconds between two looks for a place, more or less; in a process one call looks, and the others are behind it."""


class _Drawn:
    """A rate, its `place` among those of the fleet, and whether a call is about to take a share of it."""

    def __init__(self, place: str, per_minute: float) -> None:
        self.place = place
        self.rate = Rate(per_minute)
        self.drawing = asyncio.Lock()


class LimitedEffects:
    """The effects of a worker whose model calls keep to `limits`; all else is as `inner` does it.

    `registry` has the places, `beats` are those of the worker that takes them.
    """

    def __init__(self, inner: Effects, registry: Registry, limits: Sequence[ModelLimit], beats: Beats) -> None:
        self._inner = inner
        self._registry = registry
        self._limits = tuple(limits)
        self._beats = beats
        self._first = {limit: asyncio.Lock() for limit in self._limits}
        self._freed = {limit: asyncio.Event() for limit in self._limits}
        self._late: list[tuple[Callable[[Connection], object], str]] = []
        """What calls gave back while the registry could not be reached, each with its place."""
        beats.also.append(self._make_good)
        self._calls, self._tokens = dict[ModelLimit, _Drawn](), dict[ModelLimit, _Drawn]()
        for limit in self._limits:
            if limit.per_minute is not None:
                self._calls[limit] = _Drawn(f"{limit.model}\x1fcalls", limit.per_minute)
            if limit.tokens_per_minute is not None:
                self._tokens[limit] = _Drawn(f"{limit.model}\x1ftokens", limit.tokens_per_minute)

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
            await asyncio.shield(self._leave(limits, call, tokens))

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
        if limit in self._tokens:
            await self._enter_tokens(self._tokens[limit], waits)
        if limit in self._calls:  # last, as the time that it gives is for now
            await self._enter_call(self._calls[limit], waits)

    async def _enter_call(self, drawn: _Drawn, waits: Callable[[], None]) -> None:
        """Wait for the time of a call: one of the worker's share, or else of the next one."""
        while True:
            begins = drawn.rate.take()
            if begins is None:
                async with drawn.drawing:
                    begins = drawn.rate.take()  # another call may have brought a share meanwhile
                    if begins is None:
                        begins = await self._draw(drawn, used=1)
            await _until(begins, waits)
            if not drawn.rate.is_late(begins):
                return

    async def _enter_tokens(self, drawn: _Drawn, waits: Callable[[], None]) -> None:
        """Wait until the worker may use tokens; how many it will be is known when the call is over."""
        begins = drawn.rate.ready()
        if begins is None:
            async with drawn.drawing:
                begins = drawn.rate.ready()
                if begins is None:
                    begins = await self._draw(drawn, used=0)
        await _until(begins, waits)

    async def _draw(self, drawn: _Drawn, used: int) -> float:
        """Take a share, of which so many units are `used` at once, or these alone; when they are to be used."""
        rate, heartbeat, asked = drawn.rate, self._beats.heartbeat, uptime()
        share = rate.share(heartbeat, self._beats.workers)
        saved = min(heartbeat, LONGEST) if share else 0.0
        wait = await self._put_off(drawn.place, max(share, used) * rate.each, saved)
        if share > used:
            rate.add(share - used, wait + used * rate.each, asked)
        return uptime() + wait

    async def _taken(self, limit: ModelLimit, call: str) -> bool:
        worker, dialect = self._beats.name, self._registry.setting.dialect
        place, most = f"model\x1f{limit.model}", limit.concurrent or 1

        def take(connection: Connection) -> bool:
            if not is_alive(connection, dialect, worker):  # buried: a place that it took now would not come free
                return False
            lock(connection, dialect, place)
            rows = connection.execute("SELECT number FROM flowloom_slots WHERE place = ?", (place,)).fetchall()
            taken = {row[0] for row in rows}
            number = next((each for each in range(most) if each not in taken), None)
            if number is not None:
                sql = "INSERT INTO flowloom_slots (place, number, run_id, worker) VALUES (?, ?, ?, ?)"
                connection.execute(sql, (place, number, call, worker))
            return number is not None

        return await self._written(take, place)

    async def _put_off(self, place: str, seconds: float, saved: float = 0.0) -> float:
        """See `draw`."""
        dialect = self._registry.setting.dialect
        work = partial(draw, dialect=dialect, place=place, seconds=seconds, saved=saved)
        return await self._written(work, place)

    async def _written(self, work: Callable[[Connection], T], place: str) -> T:
        """Write as soon as the registry can be reached: a call waits for it as for its place."""
        while True:
            try:
                return await self._registry.write(work, ("slot", place), durable=False)
            except StorageError:
                await asyncio.sleep(self._beats.heartbeat / 4)

    async def _leave(self, limits: Sequence[ModelLimit], call: str, tokens: int) -> None:
        """Give back the places of a call, and count what it took."""
        for limit in limits:
            if limit.concurrent is not None:  # in the lane of what takes it: what was begun before it is done before
                await self._tell(partial(_give_back, call), f"model\x1f{limit.model}")
                self._freed[limit].set()
            drawn = self._tokens.get(limit)
            if drawn is not None and (owed := drawn.rate.spend(tokens)):
                work = partial(draw, dialect=self._registry.setting.dialect, place=drawn.place, seconds=owed)
                await self._tell(work, drawn.place)

    async def _tell(self, work: Callable[[Connection], object], place: str) -> None:
        """Write, or do it with a beat that reaches the registry."""
        try:
            await self._registry.write(work, ("slot", place), durable=False)
        except StorageError as error:
            self._late.append((work, place))
            _log.warning("What a model call has used is told when the registry can be reached: %s", error)

    async def _make_good(self) -> None:
        late, self._late = self._late, []
        for work, place in late:
            await self._tell(work, place)

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


def _give_back(call: str, connection: Connection) -> None:
    connection.execute("DELETE FROM flowloom_slots WHERE run_id = ?", (call,))


async def _until(moment: float, waits: Callable[[], None]) -> None:
    """Wait until a time by `uptime`; `waits` tells of it."""
    wait = moment - uptime()
    if wait > 0:
        waits()
        await asyncio.sleep(wait)
