"""Tools that Gemini runs on its own side, as google-genai writes them (protocols spec §8)."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from google.genai import types

from flowloom.errors import quoted_list
from flowloom.events.wire import replace
from flowloom.models.base_llm import Backend
from flowloom.models.model_names import gemini_version
from flowloom.models.request import LlmRequest
from flowloom.models.server_tools import (
    BESIDE,
    Asked,
    Native,
    asked_of,
    functions_in,
    refusal_by,
    server_tool_error,
    taken,
)


@dataclass(frozen=True, slots=True, eq=False, repr=False)
class GeminiTool(Native):
    """A tool of Gemini's: the oldest models that have it, and the only backend, if there is but one."""

    since: tuple[int, int] = (2, 0)
    backend: Backend | None = None


def _plain(field: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """The JSON of a tool whose options are the provider's own."""

    def make(options: Mapping[str, Any]) -> dict[str, Any]:
        return {field: dict(options)}

    return make


def _search(field: str) -> Callable[[Mapping[str, Any]], dict[str, Any]]:
    """The same, with the domains that Google excludes under the word that all providers share."""

    def make(options: Mapping[str, Any]) -> dict[str, Any]:
        return {field: {"exclude_domains" if key == "blocked_domains" else key: options[key] for key in options}}

    return make


def _mcp(options: Mapping[str, Any]) -> dict[str, Any]:
    headers = dict(options.get("headers") or {})
    if options.get("authorization"):
        headers["Authorization"] = f"Bearer {options['authorization']}"
    transport = {"url": options["server_url"], **({"headers": headers} if headers else {}), **taken(options, _TIMES)}
    named = {"name": options["server_label"]} if options.get("server_label") else {}
    return {"mcp_servers": [{**named, "streamable_http_transport": transport}]}


_TIMES = ("timeout", "sse_read_timeout", "terminate_on_close")
_SEARCH = frozenset({"blocked_domains", "blocking_confidence", "time_range_filter", "search_types"})
GEMINI_TOOLS: Mapping[str, GeminiTool] = {
    "web_search": GeminiTool(_search("google_search"), _SEARCH),
    "web_fetch": GeminiTool(_plain("url_context")),
    "code_execution": GeminiTool(_plain("code_execution")),
    "file_search": GeminiTool(
        _plain("file_search"),
        frozenset({"file_search_store_names", "top_k", "metadata_filter"}),
        ("file_search_store_names",),
        since=(2, 5),
        backend="gemini_api",
    ),
    "remote_mcp": GeminiTool(
        _mcp,
        frozenset({"server_label", "server_url", "headers", "authorization", *_TIMES}),
        ("server_url",),
        since=(2, 5),
        backend="gemini_api",
    ),
    "google_maps": GeminiTool(_plain("google_maps"), frozenset({"auth_config", "enable_widget", "grounding_types"})),
    "enterprise_web_search": GeminiTool(
        _search("enterprise_web_search"), frozenset({"blocked_domains", "blocking_confidence"}), backend="vertex_ai"
    ),
}
"""The kinds of tools, with the Gemini models that have them."""

MIXES = (3, 0)
"""From this version on, a model calls functions beside the tools that Google runs."""
_BACKENDS = {"gemini_api": "the Gemini API", "vertex_ai": "Vertex AI"}
_OWN = ("retrieval", "computer_use", "google_search_retrieval", "parallel_ai_search", "exa_ai_search")
"""What google-genai has a type for, and other providers have not: it is sent as it is."""


def gemini_refusal(asked: Asked, functions: Sequence[str], model: str, backend: Backend) -> str | None:
    """Why a Gemini model cannot run a tool beside these functions, and what to do; None if it can.

    Of a model whose name tells no version nothing is known: it is asked.
    """
    version = gemini_version(model)
    if asked.kind not in _OWN:
        why = refusal_by(GEMINI_TOOLS, asked, "Gemini")
        if why is not None:
            return why
        row = GEMINI_TOOLS.get(asked.kind)
        if row is not None and row.backend not in (None, backend):
            return f"is there on {_BACKENDS[row.backend]} alone, and this request goes to {_BACKENDS[backend]}"
        if row is not None and version is not None and version < row.since:
            major, minor = row.since
            return f"is for Gemini models from version {major}.{minor} on. Choose one of those"
    if functions and version is not None and version < MIXES:
        return (
            f"cannot stand beside functions ({quoted_list(functions)}) before Gemini {MIXES[0]}. Choose a newer model, "
            f"give the tool to an agent of its own (`GoogleSearchTool(bypass_multi_tools_limit=True)` does so, "
            f"`AgentTool` for other tools), or give a function in its place: `native_or(function)`"
        )
    return None


def with_server_tools(config: types.GenerateContentConfig, request: LlmRequest, model: str, backend: Backend) -> None:
    """Write the tools of a request that Google runs into its own `config`. Raises `UnsupportedFeatureError`."""
    asked = asked_of(request)
    if not asked:
        return
    functions = functions_in(request)
    for each in asked:
        why = gemini_refusal(each, functions, model, backend)
        if why is not None:
            raise server_tool_error(model, each, why)
    groups: list[Any] = [*(config.tools or ())]  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
    for each in asked:
        if not each.place.startswith(BESIDE):
            continue
        made = each.raw if each.raw is not None else GEMINI_TOOLS[each.kind].make(each.options)
        groups.append(types.Tool.model_validate(made))
    config.tools = groups
    if functions and backend == "gemini_api":
        given: Any = config.tool_config
        tool_config = types.ToolConfig.model_validate(given) if isinstance(given, dict) else given or types.ToolConfig()
        config.tool_config = replace(tool_config, include_server_side_tool_invocations=True)
