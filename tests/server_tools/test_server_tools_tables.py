"""The tables of tools that providers run, beside the types of the SDKs that are installed (protocols spec §8)."""

from __future__ import annotations

import re
import typing
from collections.abc import Collection
from importlib.metadata import version
from typing import Any

import anthropic.types as anthropic_types
import pytest
from google.genai import types
from openai.types.responses import FileSearchToolParam, WebSearchToolParam, tool_param

from flowloom.models.gemini_tools import GEMINI_TOOLS
from flowloom.models.server_tools import Asked, Native
from flowloom.providers.anthropic_tools import ANTHROPIC_TOOLS, anthropic_refusal
from flowloom.providers.openai_tools import OPENAI_TOOLS, openai_refusal

TRIED = {"anthropic": (2, 12), "openai": (3, 54), "google-genai": (3, 4)}
"""The releases of the SDKs whose types the tables say wholly; later ones may know more."""
OF_ANY_TOOL = {"type", "name", "cache_control", "defer_loading", "strict"}
"""Fields that are no options of a tool: what it is called, and how it is declared."""


def is_tried(sdk: str) -> bool:
    """Whether the installed release of an SDK is none after the one that was tried."""
    return tuple(map(int, version(sdk).split(".")[:2])) <= TRIED[sdk]


def is_all(sdk: str, ours: Collection[str], theirs: Collection[str]) -> bool:
    """Whether our names are those of an SDK: of a later release than was tried, whether it knows them."""
    return {*ours} == {*theirs} if is_tried(sdk) else {*ours} <= {*theirs}


def anthropic_versions(kind: str) -> dict[str, set[str]]:
    """The versions of a tool that the SDK has types for, with their options."""
    found: dict[str, set[str]] = {}
    for name in dir(anthropic_types):
        shape: Any = getattr(anthropic_types, name)
        if re.fullmatch(r"(WebSearch|WebFetch|CodeExecution)Tool\d+Param", name):
            hints = typing.get_type_hints(shape)
            (dated,) = typing.get_args(hints["type"])
            if dated.startswith(kind):
                found[dated] = hints.keys() - OF_ANY_TOOL
    return found


@pytest.mark.parametrize("kind", ["web_search", "web_fetch", "code_execution"])
def test_anthropics_newest_version_is_the_newest_of_the_sdk(kind: str) -> None:
    """And all that are named are there."""
    named = [name for name, _ in ANTHROPIC_TOOLS[kind].versions]
    known = anthropic_versions(kind)
    assert {*named} <= known.keys()
    assert named[0] == max(known) or not is_tried("anthropic")


@pytest.mark.parametrize("kind", ["web_search", "web_fetch", "code_execution"])
def test_each_version_of_anthropics_is_given_the_options_that_it_has(kind: str) -> None:
    """All that the newest has can be said; to a model whose version lacks one, it is refused before the call."""
    row, known = ANTHROPIC_TOOLS[kind], anthropic_versions(kind)
    assert is_all("anthropic", row.options, known[row.versions[0][0]])
    for model in ("claude-opus-5-5", "claude-haiku-4-5", "claude-sonnet-4-5-20250929", "claude-opus-4-1", "claude-x"):
        dated = row.version_for(model)
        for option in row.options:
            why = anthropic_refusal(Asked(kind, {option: "x"}, "here"), model)
            assert (why is None) == (option in known[dated]), (model, option)
            assert why is None or f"`{option}`" in why


@pytest.mark.parametrize(
    ("kind", "model", "dated"),
    [
        ("code_execution", "claude-haiku-4-5", "code_execution_20260521"),
        ("code_execution", "claude-opus-4-1", "code_execution_20250825"),
        ("web_search", "claude-sonnet-4-5", "web_search_20250305"),
        ("web_search", "claude-opus-4-6", "web_search_20260318"),
        ("web_search", "claude-mythos-preview", "web_search_20260318"),
    ],
)
def test_a_model_is_given_the_newest_version_that_it_takes(kind: str, model: str, dated: str) -> None:
    """Code runs in the newest way from Claude 4.5 on; results are filtered by code from 4.6 on."""
    assert ANTHROPIC_TOOLS[kind].version_for(model) == dated


OPENAI: dict[str, Any] = {
    "web_search": WebSearchToolParam,
    "code_execution": tool_param.CodeInterpreter,
    "file_search": FileSearchToolParam,
    "image_generation": tool_param.ImageGeneration,
    "remote_mcp": tool_param.Mcp,
}


@pytest.mark.parametrize("kind", OPENAI)
def test_what_openais_sdk_knows_can_be_said(kind: str) -> None:
    """Each option of its types is one of ours; domains stand in `filters`."""
    known = typing.get_type_hints(OPENAI[kind]).keys() - {"type"}
    if kind == "web_search":
        known = known - {"filters"} | {"allowed_domains"}
    assert is_all("openai", OPENAI_TOOLS[kind].options, known)


@pytest.mark.parametrize("place", ["server_url", "connector_id", "tunnel_id"])
def test_a_remote_server_of_openais_is_at_one_of_three_places(place: str) -> None:
    """An address, one of OpenAI's own connectors, or a tunnel; without any it is refused."""
    assert openai_refusal(Asked("remote_mcp", {"server_label": "a", place: "b"}, "here")) is None
    assert "`server_url`" in (openai_refusal(Asked("remote_mcp", {"server_label": "a"}, "here")) or "")


GEMINI: dict[str, Any] = {
    "web_search": types.GoogleSearch,
    "web_fetch": types.UrlContext,
    "code_execution": types.ToolCodeExecution,
    "file_search": types.FileSearch,
    "google_maps": types.GoogleMaps,
    "enterprise_web_search": types.EnterpriseWebSearch,
}
FIELDS = {"web_search": "google_search", "web_fetch": "url_context"}


@pytest.mark.parametrize("kind", GEMINI)
def test_what_google_genai_knows_can_be_said(kind: str) -> None:
    """Each field of its types is an option of ours, under the word that all providers share, and goes to that field."""
    row = GEMINI_TOOLS[kind]
    fields = {name.replace("exclude_domains", "blocked_domains"): name for name in GEMINI[kind].model_fields}
    assert is_all("google-genai", row.options, fields)
    for option in row.options:
        assert row.make({option: "x"}) == {FIELDS.get(kind, kind): {fields[option]: "x"}}


def test_a_remote_server_of_geminis_has_the_settings_of_its_transport() -> None:
    """Its address, headers, and how long it is waited for."""
    own = {"name": "server_label"}
    fields = {*types.StreamableHttpTransport.model_fields, *types.McpServer.model_fields} - {
        "streamable_http_transport"
    }
    named = {own.get(name, "server_url" if name == "url" else name) for name in fields} | {"authorization"}
    assert is_all("google-genai", GEMINI_TOOLS["remote_mcp"].options, named)


def test_every_kind_has_a_row_for_each_option_that_it_needs() -> None:
    """What is required is an option."""
    rows: list[Native] = [*ANTHROPIC_TOOLS.values(), *OPENAI_TOOLS.values(), *GEMINI_TOOLS.values()]
    needed = [(row, {each} if isinstance(each, str) else {*each}) for row in rows for each in row.required]
    assert all(names <= row.options for row, names in needed)
