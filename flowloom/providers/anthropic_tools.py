"""Tools that Anthropic runs on its own side: their dated versions, and the models that these go with."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from flowloom.errors import quoted_list
from flowloom.models.request import LlmRequest
from flowloom.models.server_tools import Asked, Native, asked_of, refusal_by, server_tool_error, taken
from flowloom.providers.anthropic_models import version_of
from flowloom.providers.sdk_answers import Json

MCP_BETA = "mcp-client-2025-11-20"
"""The header that remote MCP servers need."""
_API = "Anthropic"


@dataclass(frozen=True, slots=True)
class AnthropicTool(Native):
    """A tool of Anthropic's, with its `versions`, the newest first, and the oldest model that takes each; `newer` are
    the options that the newest alone has."""

    versions: tuple[tuple[str, tuple[int, int]], ...] = ()
    newer: frozenset[str] = frozenset()

    def version_for(self, model: str) -> str:
        """The newest version for a model; the newest of all for one whose name tells no version."""
        version = version_of(model)
        return next(
            (name for name, since in self.versions if version is None or version >= since), self.versions[-1][0]
        )


def _fields(*names: str) -> Callable[[Mapping[str, Any]], Json]:
    def make(options: Mapping[str, Any]) -> Json:
        found = taken(options, names)
        if "user_location" in found:
            found["user_location"] = {"type": "approximate", **found["user_location"]}
        if isinstance(found.get("citations"), bool):
            found["citations"] = {"enabled": found["citations"]}
        return found

    return make


def _tool(versions: tuple[tuple[str, tuple[int, int]], ...], *options: str, newer: str = "") -> AnthropicTool:
    known = (*options, *newer.split())
    return AnthropicTool(_fields(*known), frozenset(known), versions=versions, newer=frozenset(newer.split()))


_DOMAINS = ("max_uses", "allowed_domains", "blocked_domains", "allowed_callers")
ANTHROPIC_TOOLS: Mapping[str, AnthropicTool] = {
    "web_search": _tool(
        (("web_search_20260318", (4, 6)), ("web_search_20250305", (0, 0))),
        *_DOMAINS,
        "user_location",
        newer="response_inclusion",
    ),
    "web_fetch": _tool(
        (("web_fetch_20260318", (4, 6)), ("web_fetch_20250910", (0, 0))),
        *_DOMAINS,
        "citations",
        "max_content_tokens",
        "url_sources",
        newer="use_cache response_inclusion",
    ),
    "code_execution": _tool(
        (("code_execution_20260521", (4, 5)), ("code_execution_20250825", (0, 0))), "allowed_callers"
    ),
    "remote_mcp": AnthropicTool(
        _fields(),
        frozenset({"server_url", "server_label", "authorization", "allowed_tools"}),
        ("server_url", "server_label"),
    ),
}
"""The kinds of tools that Anthropic has."""


def anthropic_refusal(asked: Asked, model: str) -> str | None:
    """Why Anthropic cannot run a tool for a model, and what to do; None if it can."""
    why, row = refusal_by(ANTHROPIC_TOOLS, asked, _API), ANTHROPIC_TOOLS.get(asked.kind)
    if why is not None or row is None or asked.raw is not None or not row.versions:
        return why
    version, newest = row.version_for(model), row.versions[0][0]
    late = [] if version == newest else sorted(asked.options.keys() & row.newer)
    return f"is `{version}` for that model, without {quoted_list(late)}: `{newest}` has that" if late else None


def server_tools_body(request: LlmRequest, model: str) -> tuple[list[Json], list[Json]]:
    """The entries of a request's tools that Anthropic runs, and its MCP servers. Raises `UnsupportedFeatureError`."""
    tools: list[Json] = []
    servers: list[Json] = []
    for asked in asked_of(request):
        why = anthropic_refusal(asked, model)
        if why is not None:
            raise server_tool_error(model, asked, why)
        if asked.raw is not None:
            tools.append(dict(asked.raw))
        elif asked.kind == "remote_mcp":
            servers.append(_mcp_server(asked.options))
            tools.append(_mcp_tools(asked.options))
        else:
            row = ANTHROPIC_TOOLS[asked.kind]
            tools.append({"type": row.version_for(model), "name": asked.kind, **row.make(asked.options)})
    return tools, servers


def _mcp_server(options: Mapping[str, Any]) -> Json:
    token = options.get("authorization")
    server: Json = {"type": "url", "url": options["server_url"], "name": options["server_label"]}
    return {**server, "authorization_token": token} if token else server


def _mcp_tools(options: Mapping[str, Any]) -> Json:
    entry: Json = {"type": "mcp_toolset", "mcp_server_name": options["server_label"]}
    allowed: list[str] | None = options.get("allowed_tools")
    if allowed is None:
        return entry
    return {**entry, "default_config": {"enabled": False}, "configs": {name: {"enabled": True} for name in allowed}}
