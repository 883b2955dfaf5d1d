"""Data checked against schemas that are given as JSON schema or in Gemini's dialect (cases area 24)."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError

from flowloom import ConfigurationError, LlmAgent
from flowloom.errors import ToolArgumentsError
from flowloom.schemas.validator import validator_of
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
        ({"type": "string", "pattern": "^ab"}, ["abc"], ["acb"]),
        ({"type": "number", "minimum": 0, "maximum": 1.5}, [0, 1.5], [-1, 2]),
        ({"type": "integer", "minimum": 1.0}, [1], [0]),
        ({"type": "string", "enum": ["x", "y"]}, ["x"], ["z", 1]),
        ({"const": 3}, [3], [4]),
        ({"anyOf": [{"type": "integer"}, PERSON]}, [1, {"name": "Ada"}], ["x", {}]),
        ({}, [1, None, {"a": []}], []),
        ({"allOf": [PERSON]}, [{"name": "Ada"}], [{}, {"name": 1}, {"name": "Ada", "age": 3}, 1]),
        (
            {"allOf": [{"$ref": "#/$defs/p"}, {"properties": {"age": {"type": "integer"}}}], "$defs": {"p": PERSON}},
            [{"name": "Ada"}, {"name": "Ada", "age": 3}],
            [{"age": 3}, {"name": "Ada", "age": "3"}],
        ),
        (
            {**PERSON, "allOf": [{"properties": {"age": {"type": "integer"}}, "required": ["age"]}]},
            [{"name": "Ada", "age": 3}],
            [{"name": "Ada"}, {"age": 3}, {"name": 1, "age": 3}],
        ),
        (
            {
                "type": "object",
                "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}},
                "anyOf": [{"required": ["a"]}, {"required": ["b"]}],
            },
            [{"a": 1}, {"b": 1}, {"a": 1, "b": 1}],
            [{}, {"a": "x"}, 1],
        ),
        (
            {"anyOf": [{"type": "string"}, {"type": "integer"}], "oneOf": [{"type": "integer"}, {"type": "null"}]},
            [1],
            ["x", None],
        ),
        ({"type": "OBJECT", "anyOf": [{"type": "INTEGER"}, {"type": "STRING"}]}, [1, "x"], [None]),
        ({"type": "integer", "exclusiveMinimum": 0, "exclusiveMaximum": 3}, [1, 2], [0, 3]),
        ({"type": "number", "minimum": 0, "exclusiveMinimum": True}, [0.5], [0]),
        ({"type": "integer", "multipleOf": 5}, [0, 10], [7]),
        ({"type": "number", "multipleOf": 0.1}, [0.3, 7], [0.25]),
        (
            {"type": "array", "prefixItems": [{"type": "integer"}], "items": {"type": "string"}},
            [[], [1], [1, "x"]],
            [["x"], [1, 2]],
        ),
        ({"type": "ARRAY", "items": {"type": "STRING", "maxLength": "2"}, "minItems": "1"}, [["ab"]], [[], ["abc"]]),
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


# -- no schema and no data stop the process -------------------------------------------------------------------------

TREE = {"type": "object", "properties": {"v": {"type": "integer"}, "c": {"type": "array", "items": {"$ref": "#"}}}}


@pytest.mark.parametrize(
    ("schema", "trail"),
    [
        ({"$ref": "#"}, "`#`"),
        ({"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/a"}}}, "`#/$defs/a`"),
        (
            {"$ref": "#/$defs/a", "$defs": {"a": {"$ref": "#/$defs/b"}, "b": {"anyOf": [{"$ref": "#/$defs/a"}]}}},
            "#/$defs/b/anyOf/0",
        ),
        ({"allOf": [{"$ref": "#"}]}, "#/allOf/0"),
        ({"properties": {"x": {"oneOf": [{"type": "null"}, {"$ref": "#/properties/x"}]}}}, "#/properties/x"),
        ({"additionalProperties": {"$ref": "#/additionalProperties"}, "type": "object"}, "#/additionalProperties"),
    ],
)
def test_references_that_go_round_are_refused_when_the_schema_is_given(schema: dict[str, Any], trail: str) -> None:
    """A cycle that does not go into the data is named, through any number of hops and choices."""
    with pytest.raises(ConfigurationError, match="refers back to itself") as caught:
        LlmAgent(name="a", model="gemini-2.5-flash", output_schema=schema)
    assert trail in str(caught.value)


def test_references_may_lead_anywhere_within_the_schema() -> None:
    """JSON pointers of all kinds, with escapes; a tree goes as deep as its data."""
    schema = {"properties": {"a": {"$ref": "#/defs/x~1y%20z/0"}, "b": {"$ref": "#/properties/a"}}, "defs": {}}
    schema["defs"] = {"x/y z": [{"type": "integer"}]}
    assert OutputSchema(schema).validate({"a": 1, "b": 2})
    assert refusal(schema, {"b": "x"}) == ['- `b`: must be a valid number; got "x"']
    data: dict[str, Any] = {"v": 1}
    for _ in range(90):
        data = {"v": 1, "c": [data]}
    assert OutputSchema(TREE).validate(data) is data
    assert refusal(TREE, {"c": [{"c": [{"v": "x"}]}]}) == ['- `c[0].c[0].v`: must be a valid number; got "x"']


@pytest.mark.parametrize(
    "schema",
    [
        {"$ref": "https://example.com/schema.json"},
        {"$ref": "#name"},
        {"$ref": "#/$defs/none"},
        {"$ref": 3},
        {"pattern": r"(a)\1", "type": "string"},
        {"pattern": "(?<=a)b", "type": "string"},
        {"pattern": "(", "type": "string"},
        {"pattern": 3, "type": "string"},
        {"patternProperties": {"(?!a)": {}}},
        {"propertyNames": {"type": "string", "pattern": "(?=a)"}},
        {"allOf": [{"type": "string", "pattern": "(?=a)"}]},
        {"type": "array", "minItems": "many"},
        {"type": "array", "prefixItems": {}},
        {"type": "number", "multipleOf": "2"},
        {"type": "string", "minLength": "long"},
        {"properties": [1]},
        {"items": 3, "type": "array"},
        {"enum": []},
        {"anyOf": {}},
    ],
    ids=str,
)
def test_what_cannot_be_checked_is_refused_when_it_is_given(schema: dict[str, Any]) -> None:
    """References to elsewhere, patterns that need backtracking, and what is no schema."""
    with pytest.raises(ConfigurationError, match="The JSON schema"):
        OutputSchema(schema)


def test_a_pattern_takes_time_in_proportion_to_the_text() -> None:
    """What stops an engine that backtracks for good is told at once; a match may stand anywhere in the text."""
    output = OutputSchema({"type": "string", "pattern": "^(a+)+$"})
    with pytest.raises(ToolArgumentsError, match="match pattern"):
        output.validate("a" * 100_000 + "!")
    assert OutputSchema({"type": "string", "pattern": "b"}).validate("abc") == "abc"


def test_names_of_properties_follow_their_patterns() -> None:
    """`patternProperties` and `propertyNames` are heeded."""
    schema = {"patternProperties": {"^n_": {"type": "integer"}}, "additionalProperties": False}
    assert OutputSchema(schema).validate({"n_a": 1}) == {"n_a": 1}
    assert refusal(schema, {"n_a": "x", "b": 1}) == [
        '- `n_a`: must be a valid number; got "x"',
        "- `b`: is not allowed here; got 1",
    ]
    for names in ({"type": "string", "maxLength": 2}, {"maxLength": 2}):  # they are texts in any case
        assert refusal({"propertyNames": names}, {"abc": 1})[0].startswith("- `abc`")


def test_choices_below_choices_are_each_tried_once() -> None:
    """Objects that fit no choice at any of 60 depths: neither the search nor what it tells is doubled by each."""
    two = {"type": "object", "properties": {"x": {"$ref": "#/$defs/e"}}}
    schema = {"$ref": "#/$defs/e", "$defs": {"e": {"anyOf": [two, {**two, "required": ["x"]}, {"type": "integer"}]}}}
    data: Any = "wrong"
    for _ in range(60):
        data = {"x": data}
    with pytest.raises(ToolArgumentsError, match="must be an object, or a valid number"):
        OutputSchema(schema).validate(data)


def nested(levels: int, key: str) -> Any:
    schema: Any = {"type": "string"}
    for _ in range(levels):
        schema = {"type": "object", "properties": {key: schema}}
    return schema


def test_depth_is_bounded() -> None:
    """Schemas and data that are nested too deep are errors like others."""
    with pytest.raises(ConfigurationError, match="levels deep"):
        OutputSchema(nested(5_000, "x"))
    data: Any = {"v": 1}
    for _ in range(5_000):
        data = {"c": [data]}
    with pytest.raises(ToolArgumentsError, match="nested less deep"):
        OutputSchema(TREE).validate(data)
    chain = {f"d{n}": {"properties": {"x": {"$ref": f"#/$defs/d{n + 1}"}}} for n in range(2_000)}
    assert OutputSchema({"$ref": "#/$defs/d0", "$defs": {**chain, "d2000": {}}}).validate({}) == {}


REFERENCES = st.sampled_from(["#", "#/$defs/a", "#/$defs/b", "#/properties/x", "#/$defs/c"])
SCHEMAS = st.recursive(
    st.one_of(
        st.builds(lambda to: {"$ref": to}, REFERENCES),
        st.builds(lambda kind: {"type": kind}, st.sampled_from(["string", "integer", "null", "boolean", "any"])),
        st.just({"type": "string", "pattern": "(a*)*b"}),
        st.booleans(),
    ),
    lambda inner: st.one_of(
        st.builds(lambda key, each: {key: each}, st.sampled_from(["anyOf", "oneOf", "allOf"]), st.lists(inner)),
        st.builds(lambda x: {"type": "object", "properties": {"x": x}}, inner),
        st.builds(lambda x: {"type": "array", "items": x}, inner),
        st.builds(lambda x: {"patternProperties": {"x*": x}, "additionalProperties": x}, inner),
    ),
    max_leaves=6,
)
DATA = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), st.text("ab", max_size=40)),
    lambda inner: st.one_of(st.lists(inner, max_size=3), st.dictionaries(st.sampled_from("xyz"), inner, max_size=2)),
    max_leaves=10,
)


@given(SCHEMAS, SCHEMAS, SCHEMAS, DATA)
def test_any_schema_is_refused_or_answers(root: Any, a: Any, b: Any, data: Any) -> None:
    """No schema and no data end in anything but a typed error or a yes."""
    schema = {**(root if isinstance(root, dict) else {}), "$defs": {"a": a, "b": b}}
    try:
        output = OutputSchema(schema)
    except ConfigurationError:
        return
    with suppress(ToolArgumentsError):
        assert output.validate(data) is data
