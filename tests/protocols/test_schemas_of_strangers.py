"""Schemas of strangers cannot stop the process: how often a part of the data is looked at has a limit."""

from __future__ import annotations

import time
from typing import Any

import pytest

from flowloom.errors import ToolArgumentsError
from flowloom.protocols.schema import MOST_LOOKS, ToolSchema


def doubled(keyword: str, levels: int) -> dict[str, Any]:
    """An object whose property `x` is looked at twice as often with each level."""
    found: dict[str, Any] = {"a0": {"type": "string"}}
    for level in range(1, levels + 1):
        below: Any = {"$ref": f"#/$defs/a{level - 1}"}
        found[f"a{level}"] = {
            "all": {"allOf": [below, below]},
            "any": {"not": {"anyOf": [{"not": below}, {"not": below}]}},
            "if": {"if": below, "then": below},
            "unevaluated": {"allOf": [below, below], "unevaluatedProperties": False},
            "dependent": {"dependentSchemas": {"x": below}, "allOf": [below]},
        }[keyword]
    return {"type": "object", "properties": {"x": {"$ref": f"#/$defs/a{levels}"}}, "$defs": found}


@pytest.mark.parametrize("keyword", ["all", "any", "if", "unevaluated", "dependent"])
def test_a_schema_that_looks_at_its_data_without_end_is_not_used(
    keyword: str, caplog: pytest.LogCaptureFixture
) -> None:
    """Forty levels would take a year: any arguments are taken, and a warning says so."""
    began = time.process_time()
    schema = ToolSchema(doubled(keyword, 40), "deep")
    schema.check_arguments({"x": "y"}, "deep")
    assert time.process_time() - began < 1
    assert (schema.usable, schema.declared) == (False, {"type": "object"})
    assert f"more than {MOST_LOOKS} times" in caplog.text


def test_a_schema_within_the_limit_is_used() -> None:
    """Also one that is large, refers to itself in the data, and has many alternatives."""
    node: dict[str, Any] = {"type": "object", "properties": {"below": {"type": "array", "items": {"$ref": "#"}}}}
    kinds: list[Any] = [{"type": "object", "properties": {f"k{n}": {"type": "integer"}}} for n in range(500)]
    node["properties"]["kind"] = {"anyOf": kinds}
    schema = ToolSchema(node, "tree")
    assert schema.usable
    schema.check_arguments({"below": [{"below": []}] * 100, "kind": {"k1": 1}}, "tree")
    with pytest.raises(ToolArgumentsError, match="below"):
        schema.check_arguments({"below": [{"below": 3}]}, "tree")


def test_a_schema_that_refers_to_itself_in_place_is_still_told_from_a_deep_one() -> None:
    """What leads back to itself without going into the data is counted once."""
    schema = ToolSchema({"type": "object", "properties": {"x": {"anyOf": [{"type": "string"}, {"$ref": "#"}]}}}, "t")
    assert schema.usable
    schema.check_arguments({"x": {"x": "y"}}, "t")
