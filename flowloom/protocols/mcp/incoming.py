"""Messages of a server as the SDK takes them.

One tool that is not well described does not take the list away, and no error repeats a secret of ours.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from types import TracebackType
from typing import Any, Self, cast

import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_log = logging.getLogger("flowloom.mcp")


class Repaired:
    """A stream of messages, `inner`: every tool of its lists can be read, and `hide` takes secrets out of its errors.

    `on_end` is called when it has ended.
    """

    def __init__(self, inner: Any, hide: Callable[[str], str], on_end: Callable[[], object]) -> None:
        self._inner, self._hide, self._on_end = inner, hide, on_end

    @property
    def last_context(self) -> Any:
        """The context in which the latest message was received, where the transport knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return self._repaired(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Repaired:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        try:
            return self._repaired(await self._inner.__anext__())
        except StopAsyncIteration:
            self._on_end()
            raise

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)

    def _repaired(self, item: SessionMessage | Exception) -> SessionMessage | Exception:
        message = item.message if isinstance(item, SessionMessage) else None
        if isinstance(message, types.JSONRPCResponse):
            tools = message.result.get("tools")
            if isinstance(tools, list):
                message.result["tools"] = [tool for tool in map(_readable, cast(list[Any], tools)) if tool is not None]
        elif isinstance(message, types.JSONRPCError):
            message.error.message = self._hide(message.error.message)
        return item


def _readable(tool: Any) -> dict[str, Any] | None:
    """A tool as the protocol describes it, or None."""
    given = cast(dict[str, Any], tool) if isinstance(tool, dict) else {}
    name = given.get("name")
    if not isinstance(name, str) or not name:
        _log.warning("A server lists a tool without a name; it is left out.")
        return None
    schema = given.get("inputSchema")
    if not isinstance(schema, dict) or cast(dict[str, Any], schema).get("type") != "object":
        _log.warning("The tool %r has an input schema that is no object's: any arguments are taken.", name)
        given = {**given, "inputSchema": {"type": "object"}}
    for optional in ("", "outputSchema", "annotations", "icons", "_meta", "title", "execution"):
        given = {key: value for key, value in given.items() if key != optional}
        try:
            types.Tool.model_validate(given, by_name=False)
        except ValidationError:
            continue
        return given
    _log.warning("The tool %r is not described as the protocol asks; it is left out.", name)
    return None
