"""`Changes`: what a server tells of its lists and resources, in either era. It loads the SDK."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Any

import mcp_types as types
from mcp.client.session import ClientSession
from mcp.client.subscriptions import ResourcesListChanged, ResourceUpdated, listen
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from flowloom.protocols.mcp.parameters import ConnectionParams

_log = logging.getLogger("flowloom.mcp")


class Changes:
    """What the server of `params` tells over one connection: `on_change` is given the lists that have changed,
    `on_update` the addresses of resources that have.

    Servers of the newer era tell it in a stream that the connection asks for, which one task hears at a time.
    """

    def __init__(
        self, params: ConnectionParams, on_change: Callable[[str], object], on_update: Callable[[str], object]
    ) -> None:
        self._params, self._on_change, self._on_update = params, on_change, on_update
        self._subscribed: list[str] = []
        self._hearing: asyncio.Task[None] | None = None

    async def heard(self, message: Any) -> None:
        """Take a message of a server of the older era."""
        if isinstance(message, types.ToolListChangedNotification):
            self._on_change("tools")
        elif isinstance(message, types.ResourceUpdatedNotification):
            self._on_update(str(message.params.uri))
        elif isinstance(message, types.ResourceListChangedNotification):
            self._on_change("resources")
        elif isinstance(message, types.PromptListChangedNotification):
            self._on_change("prompts")

    def hear(self, session: ClientSession) -> asyncio.Event:
        """Hear the stream of the newer era, as far as the server of `session` promises to tell anything.

        Returns what is set when it has begun, or will not.
        """
        began = asyncio.Event()
        promised = session.server_capabilities or types.ServerCapabilities()
        tools = bool(promised.tools and promised.tools.list_changed)
        resources = bool(promised.resources and promised.resources.list_changed)
        if session.protocol_version not in MODERN_PROTOCOL_VERSIONS or not (tools or resources or self._subscribed):
            began.set()
            return began

        async def heard() -> None:
            try:
                async with listen(
                    session,
                    tools_list_changed=tools,
                    resources_list_changed=resources,
                    resource_subscriptions=[*self._subscribed],
                ) as changes:
                    began.set()
                    async for change in changes:
                        if isinstance(change, ResourceUpdated):
                            self._on_update(change.uri)
                        else:
                            self._on_change("resources" if isinstance(change, ResourcesListChanged) else "tools")
            except Exception as error:
                _log.debug("%s no longer tells of changes: %s", self._params.address, type(error).__name__)
            finally:
                began.set()
            for kind in ("tools", "resources"):  # what was missed is not known
                self._on_change(kind)
            for uri in self._subscribed:
                self._on_update(uri)

        self._hearing = asyncio.get_running_loop().create_task(heard())
        return began

    async def hear_of(self, session: ClientSession, uri: str) -> None:
        """Hear of changes of the resource at `uri`, too: what hears so far ends when the new stream has begun."""
        self._subscribed.append(uri)
        before, began = self._hearing, self.hear(session)
        try:
            async with asyncio.timeout(self._params.timeout):
                await began.wait()
        except TimeoutError:
            pass  # it may begin yet
        finally:
            await _stopped(before)

    async def end(self) -> None:
        """Hear no more."""
        await _stopped(self._hearing)


async def _stopped(task: asyncio.Task[None] | None) -> None:
    if task is not None:
        task.cancel()
        await asyncio.wait({task})
