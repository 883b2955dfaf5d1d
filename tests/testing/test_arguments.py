"""Arguments and values made up from schemas: the smallest that fit, and the same ones each time."""

from __future__ import annotations

import datetime
import decimal
import enum
import inspect
import json
import uuid
from typing import Annotated, Any, Literal

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, Field, JsonValue, create_model

from flowloom import FunctionTool
from flowloom.testing.arguments import SchemaValueError, arguments_for, value_for
from flowloom.tools.output import OutputSchema
from flowloom.tools.schema import describe_callable


class Seat(enum.Enum):
    AISLE = "aisle"
    WINDOW = "window"


class Passenger(BaseModel):
    name: str
    age: int = Field(ge=18)
    seat: Seat | None = None


class Person(BaseModel):
    name: str
    friends: list[Person] = []
    boss: Person | None


class Root(BaseModel):
    left: Branch


class Branch(BaseModel):
    root: Root | Passenger


class Tree(BaseModel):
    children: list[Tree]


class Endless(BaseModel):
    next: Endless


def object_of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties, "required": list(properties)}


# -- what is taken -----------------------------------------------------------------------------------

TAKEN: list[tuple[str, Any, JsonValue]] = [
    ("a constant", {"const": 3}, 3),
    ("the first of an enum", {"type": "string", "enum": ["b", "a"]}, "b"),
    ("a number that Gemini's enum writes as text", {"type": "INTEGER", "enum": ["7", "8"]}, 7),
    ("a value of an enum before null", {"enum": [None, "x"]}, "x"),
    ("the default", {"type": "integer", "default": 5}, 5),
    ("the enum before the default", {"enum": ["a", "b"], "default": "b"}, "a"),
    ("no default of another type", {"type": "integer", "default": True}, 0),
    ("no default that does not fit", {"type": "integer", "minimum": 3, "default": 1}, 3),
    ("the example", {"type": "string", "example": "Rome"}, "Rome"),
    ("the first of the examples", {"type": "string", "examples": ["Oslo", "Rome"]}, "Oslo"),
    ("the default before the examples", {"type": "string", "examples": ["Oslo"], "default": "Rome"}, "Rome"),
    ("the first alternative", {"anyOf": [{"type": "integer"}, {"type": "string"}]}, 0),
    ("an alternative before null", {"anyOf": [{"type": "null"}, {"type": "boolean"}]}, False),
    ("the first of which one must fit", {"oneOf": [{"type": "null"}, {"type": "integer"}]}, 0),
    ("the first alternative that works", {"anyOf": [{"type": "string", "maxLength": -1}, {"type": "integer"}]}, 0),
    ("alternatives within what is said beside them", {"minimum": 4, "anyOf": [{"type": "integer"}]}, 4),
    ("a type before null", {"type": ["null", "integer"]}, 0),
    ("null where nothing else may be", {"type": "null"}, None),
    ("null where the type has no value", {"type": "STRING", "maxLength": -1, "nullable": True}, None),
    ("a type in capitals", {"type": "BOOLEAN"}, False),
    ("the text of a value that may be anything", {}, "value"),
    ("an object without a type", {"properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 0}),
    ("a number without a type", {"minimum": 2.5}, 2.5),
    ("JSON in a text", {"type": "string", "contentSchema": object_of(a={"type": "integer"})}, '{"a": 0}'),
]


@pytest.mark.parametrize(("schema", "value"), [each[1:] for each in TAKEN], ids=[each[0] for each in TAKEN])
def test_a_value_is(schema: Any, value: JsonValue) -> None:
    """What the schema names is taken as it stands, and the first of what may be."""
    assert value_for(schema) == value
    assert type(value_for(schema)) is type(value)


def test_all_of_several_schemas_hold_together() -> None:
    """`allOf` narrows: ranges, types, enums, properties, patterns."""
    parts = [
        {"type": ["number", "string"], "minimum": 2, "multipleOf": 4},
        {"type": "integer", "maximum": 60, "multipleOf": 6, "exclusiveMinimum": 12},
    ]
    assert value_for({"allOf": parts}) == 24
    assert value_for({"allOf": [{"enum": ["a", "b", "c"]}, {"enum": ["c", "b"]}]}) == "b"
    halves = [object_of(a={"type": "integer", "minimum": 3}), object_of(b={"type": "boolean"})]
    assert value_for({"allOf": halves}) == {"a": 3, "b": False}
    assert value_for({"type": "string", "allOf": [{"pattern": "^ab"}, {"pattern": "b$"}]}) == "ab"
    either = {"allOf": [{"anyOf": [{"type": "string"}, {"type": "integer"}]}, {"anyOf": [{"type": "integer"}]}]}
    assert value_for(either) == 0


NARROWED: list[tuple[list[dict[str, Any]], JsonValue]] = [
    ([{"type": "integer"}, {"type": "number"}], 0),
    ([{"type": "number"}, {"type": "integer"}], 0),
    ([{"type": "integer", "minimum": 5}, {"minimum": 2}], 5),
    ([{"type": "integer", "maximum": -5}, {"maximum": -2}], -5),
    ([{"items": {"minimum": 3}}, {"type": "array", "items": {"type": "integer"}, "minItems": 1}], [3]),
    ([{"uniqueItems": True, "minItems": 2}, {"items": {"type": "integer"}, "uniqueItems": False}], [0, 1]),
    ([{"properties": {"a": {"minimum": 2}}}, object_of(a={"type": "integer"})], {"a": 2}),
]


@pytest.mark.parametrize(("parts", "value"), NARROWED)
def test_the_narrower_of_two_schemas_counts(parts: list[dict[str, Any]], value: JsonValue) -> None:
    """Wherever it stands."""
    made = value_for({"allOf": parts})
    assert made == value
    assert type(made) is type(value)
    assert value_for({"allOf": parts[::-1]}) == value


def test_null_has_to_be_allowed_by_all() -> None:
    with pytest.raises(SchemaValueError):
        value_for({"allOf": [{"nullable": False}, {"type": "string", "maxLength": -1, "nullable": True}]})


def test_references_are_followed_wherever_they_lead() -> None:
    """Into definitions of either dialect, into other places of the document, with escapes; what is beside counts."""
    definitions = {"Day": {"type": "integer", "minimum": 1}}
    assert value_for({"$ref": "#/$defs/Day", "$defs": definitions}) == 1
    assert value_for({"$ref": "#/$defs/Day", "minimum": 5, "$defs": definitions}) == 5
    assert value_for({"$ref": "#/definitions/a~1b", "definitions": {"a/b": {"type": "boolean"}}}) is False
    same = {"$ref": "#/properties/from"}
    route = {"properties": {"from": {"enum": ["here"]}, "to": same}, "required": ["from", "to"]}
    assert value_for(route) == {"from": "here", "to": "here"}
    assert value_for({"type": "array", "prefixItems": [{"type": "integer"}, {"$ref": "#/prefixItems/0"}]}) == [0, 0]
    wanted = types.Schema(ref="#/defs/Day", defs={"Day": types.Schema(type=types.Type.INTEGER, minimum=1)})
    assert value_for(wanted) == 1


def test_a_text_is_the_name_of_its_property() -> None:
    """So that arguments that were mixed up can be told apart."""
    schema = object_of(city={"type": "string"}, tags={"type": "array", "items": {"type": "string"}, "minItems": 1})
    assert value_for(schema) == {"city": "city", "tags": ["tags"]}


# -- objects and arrays --------------------------------------------------------------------------------


def test_an_object_has_its_required_properties_or_all() -> None:
    """All of them, and an item in each array, with `optional`."""
    assert value_for(Passenger) == {"name": "name", "age": 18}
    assert value_for(Passenger, optional=True) == {"name": "name", "age": 18, "seat": "aisle"}
    assert value_for(list[int]) == []
    assert value_for(list[int], optional=True) == [0]
    assert value_for(dict[str, int]) == {}
    assert value_for(dict[str, int], optional=True) == {"key": 0}


def test_an_object_has_as_many_properties_as_it_must() -> None:
    """Those that have names first."""
    named = {"a": {"type": "integer"}, "b": {"type": "integer"}}
    schema = {"type": "object", "properties": named, "minProperties": 3, "additionalProperties": {"type": "boolean"}}
    assert value_for(schema) == {"a": 0, "b": 0, "key": False}
    assert value_for({**schema, "minProperties": 1}) == {"a": 0}
    keys = {"type": "object", "minProperties": 2, "propertyNames": {"enum": ["x", "y"]}}
    assert value_for(keys) == {"x": "x", "y": "y"}
    with pytest.raises(SchemaValueError, match=r"`value\.key`"):
        value_for({**keys, "minProperties": 3})
    assert value_for({"type": "object", "required": ["free"]}) == {"free": "free"}


def test_an_array_has_as_many_items_as_it_must() -> None:
    """Items in their places first; different ones where they must be."""
    first = [{"type": "integer"}, {"type": "string"}]
    assert value_for({"type": "array", "prefixItems": first}) == [0, "value"]
    assert value_for({"type": "array", "items": first}) == [0, "value"]
    assert value_for({"type": "array", "prefixItems": first, "maxItems": 1}) == [0]
    more = {"type": "array", "prefixItems": first, "items": {"type": "boolean"}, "minItems": 3}
    assert value_for(more) == [0, "value", False]
    assert value_for(Annotated[set[int], Field(min_length=3)]) == [0, 1, 2]
    twice = {"type": "array", "items": {"enum": ["a", "a", "b"]}, "minItems": 2, "uniqueItems": True}
    assert value_for(twice) == ["a", "b"]
    below = {"type": "array", "items": {"type": "integer", "maximum": 1}, "minItems": 3, "uniqueItems": True}
    assert value_for(below) == [0, 1, -1]
    assert value_for(Annotated[set[Seat], Field(min_length=2)]) == ["aisle", "window"]
    with pytest.raises(SchemaValueError, match=r"`value\[0\]`"):
        value_for(Annotated[set[bool], Field(min_length=3)])
    with pytest.raises(SchemaValueError, match="at least 3, but at most 2"):
        value_for({"type": "array", "minItems": 3, "maxItems": 2})


def test_recursion_ends_where_the_schema_lets_it() -> None:
    """In a property that may be left out, in null, in an empty list, in another alternative."""
    assert value_for(Person) == {"name": "name", "boss": None}
    assert value_for(Person, optional=True) == {"name": "name", "friends": [], "boss": None}
    assert value_for(Root) == {"left": {"root": {"name": "name", "age": 18}}}
    assert value_for(Tree, optional=True) == {"children": []}
    assert value_for({"type": "object", "additionalProperties": {"$ref": "#"}}, optional=True) == {"key": {}}
    deep: Any = {"type": "object", "properties": {"down": {"$ref": "#"}}, "minProperties": 0}
    assert value_for(deep, optional=True) == {"down": {}}


def test_what_need_not_be_there_is_left_out_deep_inside() -> None:
    """Below the fourth object."""
    schema: dict[str, Any] = {"type": "integer"}
    for _ in range(6):
        schema = {"type": "object", "properties": {"d": schema}}
    assert value_for(schema, optional=True) == {"d": {"d": {"d": {"d": {}}}}}


@pytest.mark.parametrize(
    "schema",
    [
        {"enum": 5},
        {"anyOf": 5},
        {"anyOf": [5]},
        {"type": "array", "items": 5, "minItems": 1},
        {"type": "array", "minItems": "few"},
        {"type": "object", "properties": ["a"], "required": ["a"]},
        {"type": "object", "required": 5},
        {"type": "number", "minimum": "much"},
        {"type": "string", "minLength": None},
    ],
    ids=str,
)
def test_a_keyword_of_another_form_is_no_crash(schema: Any) -> None:
    """Servers of tools write such schemas; the error says of which value."""
    with pytest.raises(SchemaValueError, match="`value`"):
        value_for(schema)


def test_a_schema_that_never_ends_is_refused() -> None:
    """With the place where it comes back to itself."""
    with pytest.raises(SchemaValueError, match=r"`value.next`.*contains itself"):
        value_for(Endless)
    with pytest.raises(SchemaValueError, match="contains itself"):
        value_for({"$ref": "#"})
    with pytest.raises(SchemaValueError, match="length"):
        value_for({"anyOf": [{"$ref": "#"}, {"type": "string", "maxLength": -1}]})


# -- numbers -------------------------------------------------------------------------------------------

NUMBERS: list[tuple[dict[str, Any], int | float]] = [
    ({"type": "integer", "minimum": 3}, 3),
    ({"type": "integer", "maximum": -2}, -2),
    ({"type": "integer", "minimum": -2, "maximum": 2}, 0),
    ({"type": "integer", "exclusiveMinimum": 3}, 4),
    ({"type": "integer", "exclusiveMaximum": -3}, -4),
    ({"type": "integer", "minimum": 3, "exclusiveMinimum": True}, 4),
    ({"type": "integer", "minimum": 2.5}, 3),
    ({"type": "integer", "minimum": 1, "multipleOf": 5}, 5),
    ({"type": "integer", "minimum": 1, "multipleOf": 1.5}, 3),
    ({"type": "number"}, 0.0),
    ({"type": "number", "exclusiveMinimum": 0}, 1.0),
    ({"type": "number", "exclusiveMinimum": 0, "exclusiveMaximum": 1}, 0.5),
    ({"type": "number", "exclusiveMinimum": 0, "maximum": 0.25}, 0.25),
    ({"type": "number", "minimum": 0.1, "multipleOf": 0.25}, 0.25),
]


@pytest.mark.parametrize(("schema", "number"), NUMBERS)
def test_a_number_is_the_nearest_to_0(schema: dict[str, Any], number: float) -> None:
    """Within its bounds, and a multiple of what it must be."""
    made = value_for(schema)
    assert made == number
    assert type(made) is type(number)


def test_a_number_that_cannot_be_is_refused() -> None:
    with pytest.raises(SchemaValueError, match=r"`value.seats`: no number is in its bounds"):
        value_for(object_of(seats={"type": "integer", "exclusiveMinimum": 1, "exclusiveMaximum": 2}))


@pytest.mark.parametrize(
    "schema",
    [
        {"type": "whatever"},
        {"type": "integer", "enum": ["x"]},
        {"$ref": "#/$defs/Missing"},
        object_of(a=False),
        {"allOf": [{"type": "string"}, {"type": "integer"}]},
        slice,
        3,
    ],
)
def test_what_cannot_be_is_refused(schema: Any) -> None:
    with pytest.raises(SchemaValueError):
        value_for(schema)


# -- declarations --------------------------------------------------------------------------------------


def test_arguments_come_from_whichever_schema_a_declaration_has() -> None:
    """Gemini's, JSON schema, or none."""
    days = types.Schema(type=types.Type.INTEGER, minimum=1)
    parameters = types.Schema(type=types.Type.OBJECT, properties={"days": days}, required=["days"])
    assert arguments_for(types.FunctionDeclaration(name="f", parameters=parameters)) == {"days": 1}
    json_schema = object_of(days={"type": "integer", "minimum": 2})
    assert arguments_for(types.FunctionDeclaration(name="f", parameters_json_schema=json_schema)) == {"days": 2}
    assert arguments_for(types.FunctionDeclaration(name="f")) == {}
    with pytest.raises(SchemaValueError, match="no object"):
        arguments_for(types.FunctionDeclaration(name="f", parameters_json_schema={"type": "string"}))


# -- laws ------------------------------------------------------------------------------------------------

SCALARS: list[Any] = [
    str,
    int,
    float,
    bool,
    type(None),
    decimal.Decimal,
    datetime.date,
    datetime.datetime,
    datetime.time,
    datetime.timedelta,
    uuid.UUID,
    Seat,
    Literal["a", 2, True],
    bytes,
    Passenger,
    Person,
    Any,
    JsonValue,
    AnyUrl,
    tuple[int, str],
    Annotated[str, Field(pattern=r"^[A-Z]{3}-\d+$")],
]
BOUNDS = st.integers(-50, 50)


def numbers() -> st.SearchStrategy[Any]:
    """Numbers with bounds that leave room, and steps."""

    def bounded(kind: Any, low: int, room: int, open_ends: bool, step: int | None) -> Any:
        names = ("gt", "lt") if open_ends else ("ge", "le")
        room = max(room, 2 * (step or 1))
        return Annotated[kind, Field(**{names[0]: low, names[1]: low + room}, multiple_of=step)]

    steps = st.one_of(st.none(), st.integers(1, 7))
    return st.builds(bounded, st.sampled_from([int, float]), BOUNDS, st.integers(2, 40), st.booleans(), steps)


def texts() -> st.SearchStrategy[Any]:
    return st.builds(
        lambda low, room: Annotated[str, Field(min_length=low, max_length=low + room)],
        st.integers(0, 12),
        st.integers(0, 12),
    )


def holding(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    return st.one_of(
        inner.map(lambda each: each | None),
        st.builds(lambda each, low: Annotated[list[each], Field(min_length=low)], inner, st.integers(0, 3)),
        st.builds(lambda each, low: Annotated[dict[str, each], Field(min_length=low)], inner, st.integers(0, 3)),
        st.lists(inner, min_size=1, max_size=3).map(lambda each: tuple[tuple(each)]),
        st.lists(st.tuples(inner, st.booleans()), max_size=3).map(model_of),
    )


def model_of(fields: list[tuple[Any, bool]]) -> type[BaseModel]:
    """A model of these fields; those that are not required have null for a default."""
    named = {f"f{n}": (kind, ...) if required else (kind | None, None) for n, (kind, required) in enumerate(fields)}
    return create_model("Made", **named)  # type: ignore[call-overload]


TYPES = st.recursive(st.one_of(st.sampled_from([*SCALARS]), numbers(), texts()), holding, max_leaves=6)


@given(fields=st.lists(st.tuples(TYPES, st.booleans()), max_size=4), optional=st.booleans())
def test_what_is_made_up_for_a_model_is_valid(fields: list[tuple[Any, bool]], optional: bool) -> None:
    """For any model, with its required fields or with all; and it is the same each time."""
    made = model_of(fields)
    value = value_for(made, optional=optional)
    made.model_validate_json(json.dumps(value))
    assert value_for(made, optional=optional) == value


@given(kinds=st.lists(st.tuples(TYPES, st.booleans()), max_size=4), optional=st.booleans())
def test_a_function_takes_the_arguments_made_up_for_it(kinds: list[tuple[Any, bool]], optional: bool) -> None:
    """For any signature."""

    def function(**_: Any) -> None:
        """Do it."""

    function.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(
                f"p{number}",
                inspect.Parameter.KEYWORD_ONLY,
                annotation=kind if required else kind | None,
                default=inspect.Parameter.empty if required else None,
            )
            for number, (kind, required) in enumerate(kinds)
        ]
    )
    declaration = FunctionTool(function).declaration
    assert declaration is not None
    arguments = arguments_for(declaration, optional=optional)
    bound = describe_callable(function).bind(arguments)
    assert {f"p{number}" for number, (_, required) in enumerate(kinds) if required} <= bound.keys()
    assert set(arguments) == set(bound)


def json_schemas() -> st.SearchStrategy[dict[str, Any]]:
    """Schemas of flowloom's own dialect, which types and names may be written in either way."""
    plain = st.one_of(
        st.builds(
            lambda low, room: {"type": "string", "minLength": low, "maxLength": low + room}, *[st.integers(0, 9)] * 2
        ),
        st.builds(
            lambda low, room: {"type": "INTEGER", "minimum": low, "maximum": low + room}, BOUNDS, st.integers(0, 9)
        ),
        st.builds(lambda low: {"type": "number", "minimum": low}, BOUNDS),
        st.sampled_from([{"type": "boolean"}, {"type": "null"}, {"enum": ["a", "b"]}, {"type": ["null", "string"]}]),
    )

    def around(inner: st.SearchStrategy[dict[str, Any]]) -> st.SearchStrategy[dict[str, Any]]:
        names = st.lists(st.sampled_from(["a", "b", "c"]), unique=True)
        return st.one_of(
            st.builds(
                lambda held, needed: {"type": "object", "properties": held, "required": needed},
                st.dictionaries(st.sampled_from(["a", "b", "c"]), inner),
                names,
            ),
            st.builds(lambda held, low: {"type": "array", "items": held, "minItems": low}, inner, st.integers(0, 2)),
            st.lists(inner, min_size=1, max_size=3).map(lambda held: {"anyOf": held}),
            inner.map(lambda held: {**held, "nullable": True}),
        )

    return st.recursive(plain, around, max_leaves=6)


@given(schema=json_schemas(), optional=st.booleans())
def test_what_is_made_up_for_a_json_schema_is_valid(schema: dict[str, Any], optional: bool) -> None:
    OutputSchema(schema).validate(value_for(schema, optional=optional))
