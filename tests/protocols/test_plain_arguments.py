"""Arguments that fit at a glance: the full check of their schema finds nothing either."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from flowloom.errors import ToolArgumentsError
from flowloom.protocols.schema import ToolSchema

NAMES = st.sampled_from(["a", "b", "c"])
TYPES = st.sampled_from(["string", "integer", "number", "boolean", "null", "array", "object", ["string", "null"]])
MORE = st.sampled_from([{}, {"title": "T"}, {"default": 1}, {"minimum": 3}, {"enum": [1, "x"]}, {"maxLength": 1}])
PROPERTIES = st.dictionaries(NAMES, st.builds(lambda kind, more: {"type": kind, **more}, TYPES, MORE), max_size=3)
VALUES = st.one_of(st.none(), st.booleans(), st.integers(-9, 9), st.floats(allow_nan=False), st.text(max_size=3))
TOP = st.sampled_from([{}, {"additionalProperties": False}, {"minProperties": 2}, {"description": "d"}])


@given(
    PROPERTIES,
    st.lists(NAMES, unique=True),
    TOP,
    st.dictionaries(st.sampled_from(["a", "b", "c", "d"]), VALUES, max_size=4),
)
def test_what_passes_is_what_the_schema_allows(
    properties: dict[str, Any], required: list[str], top: dict[str, Any], args: dict[str, Any]
) -> None:
    """Whatever the schema and the arguments are."""
    schema = {"type": "object", "properties": properties, "required": required, **top}
    try:
        ToolSchema(schema, "tool").check_arguments(args, "tool")
        passed = True
    except ToolArgumentsError:
        passed = False
    assert passed == Draft202012Validator(schema).is_valid(args)


@pytest.mark.parametrize("value", [True, 1.5, "1", None])
def test_a_number_is_no_other_thing(value: Any) -> None:
    """`true` is no integer, and neither is a text."""
    schema = ToolSchema({"type": "object", "properties": {"count": {"type": "integer"}}}, "tool")
    with pytest.raises(ToolArgumentsError, match="`count`"):
        schema.check_arguments({"count": value}, "tool")
    schema.check_arguments({"count": 1}, "tool")
