"""Tools that OpenAI runs on its own side, in its Responses API."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from flowloom.models.request import LlmRequest
from flowloom.models.server_tools import Asked, Native, asked_of, refusal_by, server_tool_error, taken
from flowloom.providers.sdk_answers import Json

_API = "OpenAI"


def _web_search(options: Mapping[str, Any]) -> Json:
    found: Json = {"type": "web_search"}
    domains = taken(options, ("allowed_domains",))
    if domains:
        found["filters"] = domains
    if (place := options.get("user_location")) is not None:
        found["user_location"] = {"type": "approximate", **place}
    return {**found, **taken(options, ("search_context_size", "external_web_access"))}


def _code(options: Mapping[str, Any]) -> Json:
    return {"type": "code_interpreter", **options, "container": options.get("container") or {"type": "auto"}}


def _file_search(options: Mapping[str, Any]) -> Json:
    return {"type": "file_search", **options}


def _image(options: Mapping[str, Any]) -> Json:
    return {"type": "image_generation", **options}


def _mcp(options: Mapping[str, Any]) -> Json:
    return {"type": "mcp", **options}


_IMAGE = (
    "model size quality background output_format output_compression moderation action input_fidelity input_image_mask "
    "complexity partial_images frame_count frame_duration_ms svg"
)
_MCP = (
    "server_label server_url connector_id tunnel_id server_description require_approval allowed_tools authorization "
    "headers allowed_callers defer_loading"
)
OPENAI_TOOLS: Mapping[str, Native] = {
    "web_search": Native(
        _web_search, frozenset({"allowed_domains", "user_location", "search_context_size", "external_web_access"})
    ),
    "code_execution": Native(_code, frozenset({"container", "allowed_callers"})),
    "file_search": Native(
        _file_search,
        frozenset({"vector_store_ids", "max_num_results", "filters", "ranking_options"}),
        ("vector_store_ids",),
    ),
    "image_generation": Native(_image, frozenset(_IMAGE.split())),
    "remote_mcp": Native(_mcp, frozenset(_MCP.split()), ("server_label", ("server_url", "connector_id", "tunnel_id"))),
}
"""The kinds of tools that OpenAI has: all models that speak its Responses API take them without a date."""
INCLUDED = {"code_execution": "code_interpreter_call.outputs"}
"""What has to be asked for so that it comes."""


def openai_refusal(asked: Asked) -> str | None:
    """Why OpenAI cannot run a tool, and what to do; None if it can."""
    return refusal_by(OPENAI_TOOLS, asked, _API)


def server_tools_body(request: LlmRequest, model: str) -> tuple[list[Json], list[str]]:
    """The entries of a request's tools that OpenAI runs, and what to include. Raises `UnsupportedFeatureError`."""
    tools: list[Json] = []
    included: list[str] = []
    for asked in asked_of(request):
        why = openai_refusal(asked)
        if why is not None:
            raise server_tool_error(model, asked, why)
        if asked.raw is not None:
            tools.append(dict(asked.raw))
            continue
        tools.append(OPENAI_TOOLS[asked.kind].make(asked.options))
        if asked.kind in INCLUDED:
            included.append(INCLUDED[asked.kind])
    return tools, included
