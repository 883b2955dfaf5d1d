"""Resources of a server: listed, read, and loaded by the model through a tool (protocols spec §1, Resources)."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import TYPE_CHECKING, Any, cast

from google.genai import types

from flowloom.context import Context
from flowloom.errors import ToolError, closest_first, quoted_list
from flowloom.models.request import LlmRequest
from flowloom.protocols.results import within_limit
from flowloom.protocols.words import cleaned
from flowloom.tools.base_tool import BaseTool

if TYPE_CHECKING:
    from flowloom.protocols.mcp.tool_host import ToolHost

LOAD_RESOURCE = "load_mcp_resource"
MAX_NAMED = 100
"""How many resources are named to the model."""


async def listed_resources(host: ToolHost, headers: Mapping[str, str]) -> list[Any]:
    """The resources of a server, as it lists them; asked for again after it told of a change."""
    connection = await host.pool.connection(headers)
    entry = host.pool.entry(headers)
    if entry.resources is None or "resources" in entry.stale:
        entry.stale.discard("resources")
        capabilities = connection.session.server_capabilities
        if capabilities is not None and not capabilities.resources:
            entry.resources = []
        else:
            entry.resources, _ = await host.pool.reading(headers, lambda made: made.listed("resources"))
    return entry.resources


async def listed_templates(host: ToolHost, headers: Mapping[str, str]) -> list[Any]:
    """The templates of addresses that a server offers."""
    found, _ = await host.pool.reading(headers, lambda made: made.listed("resource_templates"))
    return found


async def address_of(host: ToolHost, headers: Mapping[str, str], name_or_uri: str) -> str:
    """The address of the resource of that name or address. Raises `ToolError` for an unknown name."""
    if "://" in name_or_uri:
        return name_or_uri
    resources = await listed_resources(host, headers)
    found = [each for each in resources if each.name == name_or_uri]
    if not found:
        names = closest_first(name_or_uri, [each.name for each in resources])
        told = quoted_list(names[:MAX_NAMED])
        raise ToolError(f"{host.address} has no resource `{name_or_uri}`. It has: {told}.")
    return str(found[0].uri)


async def read(host: ToolHost, headers: Mapping[str, str], uri: str) -> list[Any]:
    """The contents of the resource at the address `uri`."""
    mcp: Any = import_module("mcp_types")
    asked = mcp.ReadResourceRequest(params=mcp.ReadResourceRequestParams(uri=uri))
    timeout = host.connection_params.timeout
    answer: Any = await host.pool.reading(
        headers, lambda made: made.request(asked, mcp.ReadResourceResult, timeout=timeout)
    )
    return cast(list[Any], answer.contents)


class LoadMcpResourceTool(BaseTool):
    """Lets the model read resources of a server by name; which there are is told in the request.

    `host` is the toolset, `name` what the tool is called.
    """

    def __init__(self, host: ToolHost, name: str) -> None:
        super().__init__(name=name, description=f"Read resources of {host.address} by name or address.")
        self.toolset = host

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters_json_schema={
                "type": "object",
                "properties": {"resource_names": {"type": "array", "items": {"type": "string"}}},
                "required": ["resource_names"],
            },
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """The texts of the resources named in `args`; their files are put beside the result."""
        content: Any = import_module("flowloom.protocols.mcp.content")
        headers = await self.toolset.headers(tool_context)
        texts: list[str] = []
        watch, (session, _) = self.toolset.pool.entry(headers).watch, self.toolset.place_of(tool_context)
        for name in map(str, cast(list[Any], args.get("resource_names") or [])):
            uri = await address_of(self.toolset, headers, name)
            await watch.follow(await self.toolset.pool.connection(headers), session, uri, cleaned(name))
            found = await read(self.toolset, headers, uri)
            texts += [await content.resource_told(each, tool_context, self.name) for each in found]
        text = "\n\n".join(texts)
        return await within_limit({"result": text}, self.toolset.max_result_bytes, tool_context, self.name)

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        llm_request.append_tools([self])
        headers = await self.toolset.headers(tool_context)
        names = [f"`{cleaned(each.name)}`" for each in (await listed_resources(self.toolset, headers))[:MAX_NAMED]]
        if names:
            llm_request.append_instructions(
                [f"Resources that `{self.name}` can read: {', '.join(names)}. Call it before you say what is in them."]
            )
        connection = await self.toolset.pool.connection(headers)
        session, _ = self.toolset.place_of(tool_context)
        changed = await self.toolset.pool.entry(headers).watch.changed(connection, session)
        if changed:
            llm_request.append_instructions(
                [f"Resources that have changed since they were read: {quoted_list(changed)}. Read them again."]
            )
