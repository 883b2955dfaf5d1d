"""`Pool`: the connections of a toolset, one for each event loop and identity (protocols spec §1, Pool and Break).

It loads the SDK with the first connection, in a thread.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar
from weakref import WeakKeyDictionary

from flowloom.context.ending import all_ended
from flowloom.protocols.loading import in_thread
from flowloom.protocols.mcp.calls import OpenCall
from flowloom.protocols.mcp.errors import McpTransportError
from flowloom.protocols.mcp.host import Host
from flowloom.protocols.mcp.parameters import ConnectionParams
from flowloom.protocols.mcp.watching import Watch
from flowloom.protocols.spans import protocol_span

if TYPE_CHECKING:
    from flowloom.protocols.mcp.connection import Connection, Era

_log = logging.getLogger("flowloom.mcp")
T = TypeVar("T")
IDLE_SECONDS = 900.0
"""After how many seconds without use a connection is closed."""
FIRST_PAUSE, LONGEST_PAUSE = 0.1, 5.0
"""How many seconds pass between a failure to connect and the next try; it doubles with each."""


class Entry:
    """What is known of one identity in one event loop: its connection, and the latest listing over it."""

    def __init__(self) -> None:
        self.connection: Connection | None = None
        self.opening: asyncio.Task[Connection] | None = None
        self.leaving: set[Connection] = set()
        """Connections that broke, whose processes are still ending."""
        self.used_at = 0.0
        self.idle_timer: asyncio.TimerHandle | None = None
        self.failures = 0
        self.may_try_at = 0.0
        self.stale: set[str] = {"tools", "resources", "prompts"}
        """Which lists have to be asked for anew."""
        self.listing: Any = None
        """What the toolset keeps of the latest listing of tools."""
        self.resources: list[Any] | None = None
        self.watch = Watch()
        self.listing_task: asyncio.Task[Any] | None = None
        self.parked: dict[tuple[tuple[str, str, str], str], OpenCall] = {}
        """Calls whose runs are paused, by session and call id."""


def pause_after(failures: int) -> float:
    """How many seconds pass before the next try to connect, after a failure that had `failures` before it."""
    return min(FIRST_PAUSE * 2.0 ** min(failures, 10), LONGEST_PAUSE)


class Pool:
    """The connections to the server of `params`, as `host` needs them; at most `most` in a loop, None for any."""

    def __init__(self, params: ConnectionParams, host: Host, most: int | None) -> None:
        self.params = params
        self.reconnects = 0
        self.last_error: str | None = None
        self._host, self._most = host, most
        self._loops: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[str, Entry]] = WeakKeyDictionary()
        self._era: Era | None = None
        self._plain = params.identity({})
        """The identity without headers of provider and credential, as most toolsets have it."""

    def entry(self, headers: Mapping[str, str]) -> Entry:
        """What is known of the identity that `headers` give, in the loop that runs."""
        entries = self._loops.get(asyncio.get_running_loop())
        if entries is None:
            entries = self._loops[asyncio.get_running_loop()] = {}
        identity = self.params.identity(headers) if headers else self._plain
        entry = entries.get(identity)
        if entry is None:
            entry = entries[identity] = Entry()
        return entry

    def entries(self) -> list[Entry]:
        """All that is known."""
        return [entry for entries in [*self._loops.values()] for entry in [*entries.values()]]

    @property
    def is_connected(self) -> bool:
        """Whether there is a connection now."""
        return any(entry.connection is not None for entry in self.entries())

    @property
    def era_is_modern(self) -> bool:
        """Whether the server is known to speak 2026-07-28 or later."""
        return self._era is not None and self._era.known not in (None, "legacy")

    async def connection(self, headers: Mapping[str, str]) -> Connection:
        """The connection of an identity; a first one is opened once for all who want it. Raises `McpTransportError`."""
        entry = self.entry(headers)
        loop = asyncio.get_running_loop()
        entry.used_at = loop.time()
        made = entry.connection
        if made is not None and made.is_open:
            return made
        if made is not None:
            self._broke(entry, made)
        if entry.opening is None:
            entry.opening = loop.create_task(self._opened(entry, dict(headers)))
            entry.opening.add_done_callback(lambda task: task.cancelled() or task.exception())
        return await asyncio.shield(entry.opening)

    async def reading(self, headers: Mapping[str, str], ask: Callable[[Connection], Awaitable[T]]) -> T:
        """What `ask` reads over the connection of an identity.

        It is asked once more, over a new connection, if the one that there was turns out to be over: reading twice does
        no harm. Raises what `ask` raises.
        """
        entry = self.entry(headers)
        known = entry.connection
        connection = await self.connection(headers)
        try:
            return await ask(connection)
        except McpTransportError as error:
            if error.status == 404:  # the server no longer knows the session
                await self.drop(entry)
            elif connection is not known or connection.is_open:
                raise
        return await ask(await self.connection(headers))

    async def _opened(self, entry: Entry, headers: dict[str, str]) -> Connection:
        loop = asyncio.get_running_loop()
        try:
            sdk: Any = await in_thread(_load) if self._era is None else import_module(_MODULE)
            era: Era = self._era or sdk.Era()
            self._era = era
            if (pause := entry.may_try_at - loop.time()) > 0:
                await asyncio.sleep(pause)
            await self._make_room(entry)
            made: Connection = sdk.Connection(
                self.params,
                headers,
                self._host,
                era,
                on_change=entry.stale.add,
                on_update=entry.watch.updated,
                on_end=partial(self._ended, entry),
            )
            attributes = {"mcp.method": "initialize", "server.address": self.params.address}
            with protocol_span("mcp.connect", attributes) as span:
                try:
                    await made.open()
                except McpTransportError:
                    era.known = None  # the server may have changed: the next try asks it again
                    raise
                if span is not None:
                    span.set_attributes(made.described)
            entry.failures = 0
            entry.connection = made
            entry.stale |= {"tools", "resources", "prompts"}
            self._watch(entry, loop)
            return made
        except McpTransportError as error:
            self.last_error = str(error)
            entry.may_try_at = loop.time() + pause_after(entry.failures)
            entry.failures += 1
            raise
        finally:
            entry.opening = None

    async def _make_room(self, wanted: Entry) -> None:
        """Close the connection that was used least lately, if there may be no further one."""
        if self._most is None:
            return
        entries = [each for each in self._loops[asyncio.get_running_loop()].values() if each.connection is not None]
        free = sorted((each for each in entries if not self._at_work(each)), key=lambda each: each.used_at)
        for each in free[: max(0, len(entries) - self._most + 1)]:
            await self._forget(each)

    @staticmethod
    def _at_work(entry: Entry) -> bool:
        return entry.connection is not None and bool(entry.connection.calls)

    def _watch(self, entry: Entry, loop: asyncio.AbstractEventLoop) -> None:
        """Close the connection once it was idle for long."""

        def look() -> None:
            left = entry.used_at + IDLE_SECONDS - loop.time()
            if left <= 0 and not self._at_work(entry):
                task = loop.create_task(self._forget(entry))
                task.add_done_callback(lambda done: done.cancelled() or done.exception())
            else:
                entry.idle_timer = loop.call_later(max(left, IDLE_SECONDS / 10), look)

        entry.idle_timer = loop.call_later(IDLE_SECONDS, look)

    async def _forget(self, entry: Entry) -> None:
        """Close a connection that is not used, and keep nothing of its identity: users come and go."""
        entries = self._loops[asyncio.get_running_loop()]
        for identity in [identity for identity, each in entries.items() if each is entry and entry.opening is None]:
            del entries[identity]
        await self.drop(entry)

    async def drop(self, entry: Entry) -> None:
        """Close the connection of an identity, if it has one; the next use opens another."""
        made, entry.connection = self._taken(entry), None
        if made is not None:
            await made.close()

    def _ended(self, entry: Entry, ended: Connection) -> None:
        """A connection is over, whyever."""
        if entry.connection is ended:
            self._broke(entry, ended)
        entry.leaving.discard(ended)
        if ended.broken:
            self.last_error = ended.broken
            _log.info("The connection to %s is over: %s.", self.params.address, ended.broken)

    @staticmethod
    def _taken(entry: Entry) -> Connection | None:
        """The connection of an identity, which is watched no more."""
        if entry.idle_timer is not None:
            entry.idle_timer.cancel()
            entry.idle_timer = None
        return entry.connection

    def _broke(self, entry: Entry, made: Connection) -> None:
        self._taken(entry)
        entry.connection = None
        entry.leaving.add(made)
        self.reconnects += 1

    async def close(self) -> None:
        """Close all connections, those of other event loops too, as far as these run."""
        await self._for_all(self._closed)
        here = asyncio.get_running_loop()
        for loop in [*self._loops]:
            if loop is here or not loop.is_running():
                self._loops.pop(loop, None)

    async def tell_roots(self) -> None:
        """Tell connected servers that the folders have changed that they may know of."""
        await self._for_all(self._roots_told)

    async def _roots_told(self, entry: Entry) -> None:
        made = entry.connection
        if made is None or not made.is_open:
            return
        if made.knows_of_roots:
            await made.tell_roots()
        elif not made.calls:  # it was offered none: the next use connects anew
            await self.drop(entry)

    async def _for_all(self, work: Callable[[Entry], Coroutine[Any, Any, None]]) -> None:
        """Do something for each identity, in its own event loop."""
        here = asyncio.get_running_loop()
        for loop, entries in [*self._loops.items()]:
            for entry in [*entries.values()]:
                if loop is here:
                    await work(entry)
                elif loop.is_running():
                    await asyncio.wrap_future(asyncio.run_coroutine_threadsafe(work(entry), loop))

    async def _closed(self, entry: Entry) -> None:
        for task in (entry.opening, entry.listing_task):
            if task is not None:
                task.cancel()
                await all_ended((task,))
        made = entry.connection
        calls = [] if made is None else [*made.calls]
        for call in calls:
            await call.ended()
        entry.parked.clear()
        await self.drop(entry)
        for left in [*entry.leaving]:
            await left.close()


_MODULE = "flowloom.protocols.mcp.connection"


def _load() -> Any:
    """Load the SDK, and what checks schemas; it takes seconds."""
    import_module("flowloom.protocols.mcp.tool_calls")
    return import_module(_MODULE)
