"""What a model's name tells (spec §10.1, §10.2)."""

from __future__ import annotations

import pytest

from flowloom.models import model_names


@pytest.mark.parametrize(
    ("name", "base"),
    [
        ("gemini-2.5-flash", "gemini-2.5-flash"),
        ("models/Gemini-2.5-Flash", "gemini-2.5-flash"),
        ("projects/p/locations/l/publishers/google/models/gemini-2.0-pro", "gemini-2.0-pro"),
        ("", ""),
    ],
)
def test_only_what_follows_the_last_slash_counts(name: str, base: str) -> None:
    assert model_names.base_name(name) == base


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemini-1.5-pro", True),
        ("GEMINI-flash-latest", True),
        ("projects/p/locations/l/publishers/google/models/gemini-2.0", True),
        ("gemini", False),
        ("my-gemini-2.0", False),
        ("gpt-5", False),
        ("projects/p/locations/l/endpoints/123", False),
    ],
)
def test_a_gemini_model_is_known_by_its_prefix(name: str, expected: bool) -> None:
    assert model_names.is_gemini(name) is expected


@pytest.mark.parametrize(
    ("name", "version"),
    [
        ("gemini-1.0-pro", (1, 0)),
        ("gemini-1.5-flash-002", (1, 5)),
        ("gemini-2", (2, 0)),
        ("gemini-2.5-flash-lite", (2, 5)),
        ("models/gemini-3-flash-preview", (3, 0)),
        ("gemini-3.1-pro-preview", (3, 1)),
        ("gemini-10.12-x", (10, 12)),
        ("gemini-flash-latest", None),
        ("gemma-3-27b", None),
    ],
)
def test_the_version_is_read_from_behind_the_prefix(name: str, version: tuple[int, int] | None) -> None:
    assert model_names.gemini_version(name) == version


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("gemini-1.0-pro", True),
        ("gemini-1.5-flash", True),
        ("gemini-2", True),
        ("publishers/google/models/gemini-2.0-flash", True),
        ("gemini-2.5-pro", True),
        ("gemini-2.6", False),
        ("gemini-3-pro", False),
        ("models/gemini-3.1-pro-preview", False),
        ("gemini-flash-latest", False),
        ("claude-2.0", False),
    ],
)
def test_up_to_2_5_includes_2_5_and_nothing_without_a_version(name: str, expected: bool) -> None:
    assert model_names.is_gemini_up_to(name, (2, 5)) is expected


@pytest.mark.parametrize(
    ("name", "expected"),
    [("gemini-1.5-pro", False), ("gemini-2", True), ("gemini-2.0-flash", True), ("gemini-3.1", True), ("o3", False)],
)
def test_from_2_0_includes_2_0_and_nothing_else_than_gemini(name: str, expected: bool) -> None:
    assert model_names.is_gemini_from(name, (2, 0)) is expected


@pytest.mark.parametrize(
    ("name", "backend", "native"),
    [
        ("gemini-2.0-flash", "vertex_ai", True),
        ("gemini-3.0-pro", "vertex_ai", True),
        ("gemini-1.5-pro", "vertex_ai", False),
        ("gemini-2.0-flash", "gemini_api", False),
        ("gemini-3.0-pro", "gemini_api", False),
        ("gemini-2.5-pro", None, False),
        ("claude-opus", "vertex_ai", False),
    ],
)
def test_schema_and_tools_go_together_on_vertex_from_gemini_2_0(
    name: str, backend: model_names.Backend | None, native: bool
) -> None:
    assert model_names.supports_schema_with_tools(name, backend) is native


@pytest.mark.parametrize(
    ("name", "backend", "needed"),
    [
        ("gemini-2.0-flash", "vertex_ai", False),
        ("gemini-2.0-flash", "gemini_api", True),
        ("gemini-3.0-pro", "gemini_api", True),
        ("gemini-3.0-pro", "vertex_ai", False),
        ("gemini-2.5-pro", None, True),
        ("gemini-1.5-pro", "vertex_ai", True),
        ("gpt-5", "gemini_api", False),
        ("gpt-5", None, False),
    ],
)
def test_a_schema_tool_is_needed_by_gemini_models_without_native_support_only(
    name: str, backend: model_names.Backend | None, needed: bool
) -> None:
    assert model_names.needs_schema_tool(name, backend) is needed
