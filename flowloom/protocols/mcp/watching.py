"""`Watch`: which resources the model has read, and whether they have changed since (protocols spec §1, Resources)."""

from __future__ import annotations

import logging
from collections import OrderedDict
from typing import TYPE_CHECKING

from flowloom.errors import ToolError

if TYPE_CHECKING:
    from flowloom.protocols.mcp.connection import Connection

_log = logging.getLogger("flowloom.mcp")
MAX_WATCHED = 100
"""How many resources a server is asked to tell of."""
MAX_SESSIONS = 1000
"""Of how many sessions it is known what they have read; those that read least lately are forgotten."""
Session = tuple[str, str, str]


class Watch:
    """The resources that the sessions of one identity have read. The server is asked to tell when they change."""

    def __init__(self) -> None:
        self._changes: dict[str, int] = {}
        """How often each resource that is watched has changed, by address."""
        self._read: OrderedDict[Session, dict[str, tuple[str, int]]] = OrderedDict()
        """What each session has read: by which name, and when in the count of its changes."""
        self._connection: Connection | None = None

    def updated(self, uri: str) -> None:
        """The server says that the resource at `uri` has changed, which may be a part of one that is watched."""
        for watched in self._changes:
            if uri == watched or uri.startswith(f"{watched.rstrip('/')}/"):
                self._changes[watched] += 1

    async def follow(self, connection: Connection, session: Session, uri: str, name: str) -> None:
        """The `session` is about to read the resource at `uri`, which it calls `name`."""
        if uri not in self._changes and len(self._changes) < MAX_WATCHED and await _subscribed(connection, uri):
            self._changes[uri] = 0
            self._connection = self._connection or connection
        if uri not in self._changes:
            return
        self._read.setdefault(session, {})[uri] = name, self._changes[uri]
        self._read.move_to_end(session)
        if len(self._read) > MAX_SESSIONS:
            self._read.popitem(last=False)

    async def changed(self, connection: Connection, session: Session) -> list[str]:
        """The names of what the `session` has read and is out of date. Over a new `connection` all may be."""
        read = self._read.get(session)
        if not read:
            return []
        if self._connection is not connection:
            self._connection = connection
            for uri in self._changes:
                self._changes[uri] += 1
                await _subscribed(connection, uri)
        return [name for uri, (name, count) in read.items() if count < self._changes[uri]]


async def _subscribed(connection: Connection, uri: str) -> bool:
    """Whether the server will tell of changes of the resource at `uri`."""
    try:
        return await connection.subscribe(uri)
    except ToolError as error:
        _log.debug("%s does not tell of changes of a resource: %s", connection.params.address, error)
        return False
