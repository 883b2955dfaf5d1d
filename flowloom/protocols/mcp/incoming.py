"""Messages of a server as the SDK takes them: one tool that is not well described does not take the list away."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Any, Self, cast

import mcp_types as types
from mcp.shared.message import SessionMessage
from pydantic import ValidationError

_log = logging.getLogger("flowloom.mcp")


class Repaired:
    """A stream of messages, `inner`, with lists of tools whose every tool can be read."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    @property
    def last_context(self) -> Any:
        """The context in which the latest message was received, where the transport knows it."""
        return getattr(self._inner, "last_context", None)

    async def receive(self) -> SessionMessage | Exception:
        return _repaired(await self._inner.receive())

    async def aclose(self) -> None:
        await self._inner.aclose()

    def __aiter__(self) -> Repaired:
        return self

    async def __anext__(self) -> SessionMessage | Exception:
        return _repaired(await self._inner.__anext__())

    async def __aenter__(self) -> Self:
        await self._inner.__aenter__()
        return self

    async def __aexit__(
        self, exc_type: type[BaseException] | None, exc_val: BaseException | None, exc_tb: TracebackType | None
    ) -> bool | None:
        return await self._inner.__aexit__(exc_type, exc_val, exc_tb)


def _repaired(item: SessionMessage | Exception) -> SessionMessage | Exception:
    if isinstance(item, SessionMessage) and isinstance(item.message, types.JSONRPCResponse):
        result = item.message.result
        tools = result.get("tools")
        if isinstance(tools, list):
            result["tools"] = [tool for tool in map(_readable, cast(list[Any], tools)) if tool is not None]
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
