"""Data checked against schemas that are given as JSON schema or in Gemini's dialect (cases area 24)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types
from pydantic import BaseModel, ValidationError

from flowloom import ConfigurationError, ToolArgumentsError
from flowloom.tools.json_schema import validator_of
from flowloom.tools.output import OutputSchema

PERSON = {
    "type": "object",
    "properties": {"name": {"type": "string"}, "tags": {"type": "array", "items": {"type": "string"}}},
    "required": ["name"],
}


class Node(BaseModel):
    value: int
    children: list[Node] = []


def refusal(schema: Any, data: Any) -> list[str]:
    """The problem lines of the error that this data raises."""
    with pytest.raises(ToolArgumentsError) as caught:
        OutputSchema(schema).validate(data)
    return str(caught.value).splitlines()[1:]


@pytest.mark.parametrize(
    ("schema", "fitting", "wrong"),
    [
        ({"type": "string"}, ["", "x"], [1, None, ["x"]]),
        ({"type": "STRING"}, ["x"], [1]),
        ({"type": "integer"}, [3, 3.0, -1], ["3", 3.5, True, None]),
        ({"type": "number"}, [3, 3.5], ["3", False]),
        ({"type": "boolean"}, [True], ["true", 1]),
        ({"type": "null"}, [None], [0, ""]),
        ({"type": ["string", "null"]}, ["x", None], [1]),
        ({"type": "STRING", "nullable": True}, ["x", None], [1]),
        ({"type": "array", "items": {"type": "integer"}, "minItems": 1, "maxItems": 2}, [[1], [1, 2]], [[], [1, 2, 3]]),
        ({"type": "array"}, [[], [1, "x"]], [{}, "x"]),
        ({"type": "object"}, [{}, {"any": 1}], [[], "x"]),
        (PERSON, [{"name": "Ada"}, {"name": "Ada", "tags": ["x"]}], [{}, {"name": 1}, {"name": "Ada", "tags": [1]}]),
        ({"type": "object", "additionalProperties": {"type": "integer"}}, [{}, {"a": 1}], [{"a": "x"}]),
        ({**PERSON, "additionalProperties": True}, [{"name": "Ada", "age": 3}], [{"age": 3}]),
        ({"type": "object", "required": ["a"]}, [{"a": None}], [{}]),
        ({"type": "string", "minLength": 2, "maxLength": 3}, ["ab", "abc"], ["a", "abcd"]),
        ({"type": "string", "pattern": "^a(?=b)"}, ["abc"], ["acb"]),
        ({"type": "number", "minimum": 0, "maximum": 1.5}, [0, 1.5], [-1, 2]),
        ({"type": "integer", "minimum": 1.0}, [1], [0]),
        ({"type": "string", "enum": ["x", "y"]}, ["x"], ["z", 1]),
        ({"const": 3}, [3], [4]),
        ({"anyOf": [{"type": "integer"}, PERSON]}, [1, {"name": "Ada"}], ["x", {}]),
        ({}, [1, None, {"a": []}], []),
    ],
    ids=str,
)
def test_data_that_fits_comes_back_as_it_is_and_other_data_is_refused(
    schema: dict[str, Any], fitting: list[Any], wrong: list[Any]
) -> None:
    """Match and mismatch per type, nested and bounded; nothing is converted."""
    output = OutputSchema(schema)
    for data in fitting:
        assert output.validate(data) is data
    for data in wrong:
        with pytest.raises(ToolArgumentsError):
            output.validate(data)


def test_each_problem_is_told_with_its_place() -> None:
    """Missing, of the wrong type, and not part of the schema."""
    assert refusal(PERSON, {"tags": ["a", 1], "age": 3}) == [
        "- `name`: is missing",
        "- `tags[1]`: must be a valid string; got 1",
        "- `age`: is not allowed here; got 3",
    ]


def test_definitions_may_contain_themselves() -> None:
    """The JSON schema of a recursive model checks what the model checks."""
    schema = Node.model_json_schema()
    data = {"value": 1, "children": [{"value": 2, "children": []}]}
    assert OutputSchema(schema).validate(data) == data
    assert refusal(schema, {"value": 1, "children": [{"value": "x"}]})[0].startswith("- `children[0].value`")


def test_bounds_of_a_gemini_schema_are_declared_and_checked() -> None:
    """What a `types.Schema` says is JSON schema in its standard spelling."""
    schema = types.Schema(
        type=types.Type.ARRAY,
        min_items=1,
        items=types.Schema(
            any_of=[types.Schema(type=types.Type.INTEGER, minimum=1), types.Schema(type=types.Type.NULL)]
        ),
    )
    assert OutputSchema(schema).json_schema["minItems"] == 1
    assert OutputSchema(schema).validate([1, None]) == [1, None]
    assert refusal(schema, []) != []
    assert refusal(schema, [0]) != []


@pytest.mark.parametrize("schema", [{"type": "date"}, {"type": "array", "items": {"type": "strin"}}, object()])
def test_a_schema_that_cannot_be_read_is_refused_when_it_is_given(schema: Any) -> None:
    """An unknown type, at any depth, and what is no schema at all."""
    with pytest.raises(ConfigurationError):
        OutputSchema(schema)


@pytest.mark.parametrize(
    ("schema", "data"),
    [
        ({"type": "integer"}, "3"),
        ({"type": "boolean"}, "yes"),
        ({"type": "number"}, "NaN"),
        ({"type": "string"}, 3),
        ({"type": ["null", "integer"]}, "3"),
        ({"anyOf": [{"type": "boolean"}, {"type": "integer"}]}, "1"),
        ({"type": "array", "items": {"type": "integer"}}, ["3"]),
    ],
)
def test_text_is_no_number_and_no_truth(schema: dict[str, Any], data: Any) -> None:
    """Nothing is converted, as Python objects or as JSON."""
    validator = validator_of(schema)
    with pytest.raises(ValidationError):
        validator.validate_python(data)
    with pytest.raises(ValidationError):
        validator.validate_json(json.dumps(data))
