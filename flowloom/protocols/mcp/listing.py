"""The tools of a server as the agent gets them, made once for each listing. It loads the SDK and `jsonschema`."""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from flowloom.errors import DuplicateToolError
from flowloom.protocols.mcp.tool import McpTool
from flowloom.protocols.names import is_reserved, tool_names, warn_of_missing
from flowloom.protocols.schema import ToolSchema
from flowloom.protocols.spans import protocol_span
from flowloom.protocols.words import cleaned

if TYPE_CHECKING:
    from flowloom.protocols.mcp.connection import Connection
    from flowloom.protocols.mcp.tool_host import ToolHost

_log = logging.getLogger("flowloom.mcp")


class Listing:
    """What a server has listed: its tools, `plain` and with the toolset's prefix (`prefixed`)."""

    def __init__(self, raw: list[Any], toolset: ToolHost, kept_until: float | None) -> None:
        self.at = asyncio.get_running_loop().time()
        self.kept_until = kept_until
        """Until when it holds, in the loop's time, if the server does not tell of changes; None for no longer."""
        prefix = toolset.tool_name_prefix
        self.plain = _tools_of(raw, toolset, None)
        self.prefixed = _tools_of(raw, toolset, prefix) if prefix else self.plain
        known = {name for tool in self.plain for name in (tool.name, tool.raw_mcp_tool.name)}
        warn_of_missing(toolset.tool_filter, known, toolset.address, _log)
        changes: dict[str, str] = {} if toolset.pins is None else toolset.pins.changes(raw)
        for tool in (*self.plain, *self.prefixed):
            tool.withheld = changes.get(tool.raw_mcp_tool.name)
        if changes:
            _log.warning("%s presents %d tools otherwise than before: withheld.", toolset.address, len(changes))


async def list_tools(connection: Connection, toolset: ToolHost) -> Listing:
    """Ask a server for its tools, all pages. Raises `McpTransportError`, `McpProtocolError`, `DuplicateToolError`."""
    attributes = {"mcp.method": "tools/list", "server.address": toolset.address, **connection.described}
    with protocol_span("tools/list", attributes) as span:
        capabilities = connection.session.server_capabilities
        tools, ttl = ([], None) if capabilities and not capabilities.tools else await connection.listed("tools")
        if span is not None:
            span.set_attribute("mcp.tools", len(tools))
    kept: float | None = None
    if capabilities and capabilities.tools and capabilities.tools.list_changed:
        kept = float("inf")
    lifetime = toolset.tool_list_cache_ttl_seconds if toolset.tool_list_cache_ttl_seconds is not None else ttl
    if lifetime is not None:
        kept = asyncio.get_running_loop().time() + lifetime
    return Listing(tools, toolset, kept)


def _tools_of(raw: list[Any], toolset: ToolHost, prefix: str | None) -> list[McpTool]:
    originals: dict[str, Any] = {}
    for each in raw:
        if each.name in originals:
            raise DuplicateToolError(
                f"The server at {toolset.address} lists two tools named `{cleaned(each.name)}`. Its owner has to mend "
                f"that; `tool_filter` cannot tell them apart."
            )
        originals[each.name] = each
    names = tool_names(originals, prefix)
    made: list[McpTool] = []
    for original, each in originals.items():
        name = names[original]
        if is_reserved(name):
            _log.warning("The tool `%s` of %s is left out: only the engine has that name.", name, toolset.address)
            continue
        if cleaned(original) != original or cleaned(each.description or "") != (each.description or ""):
            _log.warning("Tool `%s` of %s had invisible characters in its name or description.", name, toolset.address)
        schema = ToolSchema(each.input_schema, name)
        output = ToolSchema(each.output_schema, name) if each.output_schema else None
        if output is not None and not output.usable:
            output = None
        made.append(McpTool(each, name, toolset, schema, output))
    return made
