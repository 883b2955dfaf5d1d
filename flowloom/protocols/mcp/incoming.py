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
from mcp_types import methods
from mcp_types.version import LATEST_HANDSHAKE_VERSION
from pydantic import ValidationError

_log = logging.getLogger("flowloom.mcp")
_OPTIONAL = frozenset(("outputSchema", "annotations", "icons", "_meta", "title", "execution"))
"""What a tool may be without."""
_NAMED = ("properties", "$defs", "definitions", "patternProperties")
_AROUND = {"resultType": "complete", "ttlMs": 0, "cacheScope": "private"}
"""What stands beside the tools of a list, in one version or another."""


class Repaired:
    """A stream of messages, `inner`: every tool of its lists can be read, and `hide` takes secrets out of its errors.

    `version` gives that of the protocol which was agreed on. `on_end` is called when it has ended.
    """

    def __init__(
        self, inner: Any, hide: Callable[[str], str], version: Callable[[], str | None], on_end: Callable[[], object]
    ) -> None:
        self._inner, self._hide, self._version, self._on_end = inner, hide, version, on_end

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
                version = self._version() or LATEST_HANDSHAKE_VERSION
                found = (_readable(tool, version) for tool in cast(list[Any], tools))
                message.result["tools"] = [tool for tool in found if tool is not None]
        elif isinstance(message, types.JSONRPCError):
            message.error.message = self._hide(message.error.message)
        return item


def _readable(tool: Any, version: str) -> dict[str, Any] | None:
    """A tool as the protocol of that `version` describes it, or None."""
    given = dict(cast(dict[str, Any], tool)) if isinstance(tool, dict) else {}
    name = given.get("name")
    if not isinstance(name, str) or not name:
        _log.warning("A server lists a tool without a name; it is left out.")
        return None
    schema = given["inputSchema"] = _object_schema(given.get("inputSchema"))
    wrong = _wrong(given, version) if schema is not None else {"inputSchema"}
    if "inputSchema" in wrong:
        _log.warning("The tool %r has an input schema that is no object's: any arguments are taken.", name)
        given["inputSchema"] = {"type": "object"}
        wrong = _wrong(given, version)
    if wrong - _OPTIONAL:
        _log.warning("The tool %r is not described as the protocol asks; it is left out.", name)
        return None
    if wrong:
        _log.warning("The tool %r is not described as the protocol asks; left out: %s.", name, ", ".join(sorted(wrong)))
    return {key: value for key, value in given.items() if key not in wrong}


def _object_schema(given: Any) -> dict[str, Any] | None:
    """The schema of an object as many servers mean it: without a type, or with an empty list for an empty object; None
    for one of anything else."""
    if not isinstance(given, dict):
        return None
    schema = cast(dict[str, Any], given)
    kind: Any = schema.get("type", "object")
    if kind != "object" and not (isinstance(kind, list) and "object" in kind):
        return None
    kept = {key: value for key, value in schema.items() if key not in _NAMED or value not in ([], None)}
    return kept if kept.get("type") == "object" else {"type": "object"} | kept | {"type": "object"}


def _wrong(tool: dict[str, Any], version: str) -> set[str]:
    """What of a tool cannot be read."""
    found: set[str] = set()
    try:
        types.Tool.model_validate(tool, by_name=False)
        methods.validate_server_result("tools/list", version, {**_AROUND, "tools": [tool]})
    except ValidationError as error:
        places = [each["loc"][2:] if each["loc"][0] == "tools" else each["loc"] for each in error.errors()]
        found = {str(place[0]) for place in places}
    return found
