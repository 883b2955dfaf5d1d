"""What a model is told about a function."""

from __future__ import annotations

import datetime
import enum
import json
import re
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any, Literal, Optional

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from flowloom.tools.schema import describe_callable

if TYPE_CHECKING:
    from flowloom import ToolContext


class Address(BaseModel):
    street: str
    zip: int


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


class Node(BaseModel):
    value: int
    children: list[Node] = []


def parameters(func: Callable[..., Any]) -> dict[str, Any]:
    return describe_callable(func).parameters


def properties(func: Callable[..., Any]) -> dict[str, Any]:
    return parameters(func)["properties"]


def many_types(
    words: list[str],
    ratio: float,
    mode: Literal["fast", "careful"],
    extra: dict,
    note: Optional[str] = None,  # noqa: UP045
) -> dict[str, Any]:
    """Takes arguments of many types."""
    return {}


def greet(name: str, times: int = 1, loud: bool = False) -> str:
    """Greets somebody."""
    return name


def nothing() -> None:
    """Does nothing and returns nothing."""


def echo(text: str) -> dict[str, str]:
    """Returns the text it is given."""
    return {"echoed": text}


def ship(address: Address, express: bool) -> dict[str, Any]:
    """Ships a parcel to an address."""
    return {}


def numbers(n: int) -> list[int]:
    """Counts."""
    return list(range(n))


def get_state(key: str, tool_context: ToolContext) -> dict[str, Any]:
    """Reads a session state key."""
    return {}


def normalised(schema: dict[str, Any]) -> dict[str, Any]:
    """What the scenarios compare of a schema: types, properties, what is required, items and enums."""
    choices = [normalised(choice) for choice in schema.get("anyOf", ()) if choice.get("type") != "null"]
    if len(choices) == 1:
        return choices[0]
    shown: dict[str, Any] = {"type": schema["type"]}
    if schema.get("properties"):
        shown["properties"] = {name: normalised(value) for name, value in schema["properties"].items()}
    for key in ("required", "enum"):
        if schema.get(key):
            shown[key] = sorted(schema[key])
    if schema.get("items"):
        shown["items"] = normalised(schema["items"])
    return shown


STRING, INTEGER = {"type": "string"}, {"type": "integer"}


@pytest.mark.parametrize(
    ("func", "required", "declared"),
    [
        (echo, ["text"], {"text": STRING}),
        (get_state, ["key"], {"key": STRING}),
        (greet, ["name"], {"name": STRING, "times": INTEGER, "loud": {"type": "boolean"}}),
        (
            many_types,
            ["extra", "mode", "ratio", "words"],
            {
                "words": {"type": "array", "items": STRING},
                "ratio": {"type": "number"},
                "mode": {"type": "string", "enum": ["careful", "fast"]},
                "extra": {"type": "object"},
                "note": STRING,
            },
        ),
        (nothing, [], {}),
        (numbers, ["n"], {"n": INTEGER}),
        (
            ship,
            ["address", "express"],
            {
                "address": {
                    "type": "object",
                    "properties": {"street": STRING, "zip": INTEGER},
                    "required": ["street", "zip"],
                },
                "express": {"type": "boolean"},
            },
        ),
    ],
    ids=lambda value: getattr(value, "__name__", ""),
)
def test_the_toolbox_is_declared_as_the_scenarios_say(
    func: Callable[..., Any], required: list[str], declared: dict[str, Any]
) -> None:
    expected: dict[str, Any] = {"type": "object"}
    if declared:
        expected |= {"properties": declared, "required": required}
    schema = describe_callable(func)
    assert schema.name == func.__name__
    assert schema.description == func.__doc__
    assert normalised(schema.parameters) == expected


def test_properties_are_in_the_order_of_the_parameters() -> None:
    assert list(properties(many_types)) == ["words", "ratio", "mode", "extra", "note"]


def test_only_parameters_without_a_default_are_required() -> None:
    assert parameters(greet)["required"] == ["name"]


def test_a_function_without_parameters_takes_an_empty_object() -> None:
    assert parameters(nothing) == {"type": "object", "properties": {}}


def test_no_titles_are_shown_but_a_property_may_be_named_title() -> None:
    class Book(BaseModel):
        title: str
        default: int = 0

    def add(book: Book, title: str) -> None: ...

    assert properties(add) == {
        "book": {
            "type": "object",
            "properties": {"title": {"type": "string"}, "default": {"type": "integer", "default": 0}},
            "required": ["title"],
        },
        "title": {"type": "string"},
    }


def test_definitions_are_put_in_their_places() -> None:
    assert "$" not in json.dumps(parameters(ship))


def test_a_recursive_type_refers_to_its_definition() -> None:
    def plant(root: Node, address: Address) -> None: ...

    shown = parameters(plant)
    assert shown["properties"]["root"] == {"$ref": "#/$defs/Node"}
    assert list(shown["$defs"]) == ["Node"]
    assert shown["$defs"]["Node"]["properties"]["children"]["items"] == {"$ref": "#/$defs/Node"}


def test_the_members_of_a_tagged_union_are_shown_without_dangling_references() -> None:
    class Cat(BaseModel):
        kind: Literal["cat"]

    class Dog(BaseModel):
        kind: Literal["dog"]

    def adopt(pet: Annotated[Cat | Dog, Field(discriminator="kind")]) -> None: ...

    shown = properties(adopt)["pet"]
    assert [choice["properties"]["kind"]["enum"] for choice in shown["oneOf"]] == [["cat"], ["dog"]]
    assert "$" not in json.dumps(shown)


@pytest.mark.parametrize(
    ("default", "shown"),
    [
        (3, {"default": 3}),
        ("x", {"default": "x"}),
        (False, {"default": False}),
        ([1, "a"], {"default": [1, "a"]}),
        ((), {"default": []}),
        ({"a": 1.5}, {"default": {"a": 1.5}}),
        (Color.RED, {"default": "red"}),
        (None, {}),
        (float("inf"), {}),
        (datetime.UTC, {}),
        (object(), {}),
    ],
)
def test_defaults_that_json_can_say_are_shown(default: object, shown: dict[str, Any]) -> None:
    def f(x=default): ...

    assert properties(f) == {"x": shown}


def test_a_parameter_without_annotation_takes_anything() -> None:
    def f(x): ...

    assert parameters(f) == {"type": "object", "properties": {"x": {}}, "required": ["x"]}


@pytest.mark.parametrize("name", ["json", "schema", "copy", "model_config", "_private", "__dunder__", "return_"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f({name}: int): ...", namespace)
    schema = describe_callable(namespace["f"])
    assert schema.parameters["properties"] == {name: {"type": "integer"}}
    assert schema.bind({name: 1}) == {name: 1}


# -- names and descriptions --------------------------------------------------------------------


def test_name_and_description_can_be_given() -> None:
    schema = describe_callable(echo, name="say", description="Says it.")
    assert (schema.name, schema.description) == ("say", "Says it.")


def test_an_empty_description_can_be_given() -> None:
    assert describe_callable(echo, description="").description == ""


def test_field_descriptions_are_shown() -> None:
    def f(x: Annotated[int, Field(description="The size in cm.", gt=0)]) -> None: ...

    assert properties(f) == {"x": {"type": "integer", "description": "The size in cm.", "exclusiveMinimum": 0}}


def test_a_text_beside_the_type_is_its_description() -> None:
    def f(x: Annotated[int, "The size in cm."]) -> None: ...

    assert properties(f) == {"x": {"type": "integer", "description": "The size in cm."}}


def test_google_style_docstrings_describe_parameters() -> None:
    def f(city: str, days: int, unit: str, *, when: str) -> None:
        """Tell the weather.

        It may be wrong.

        Args:
            city: The city,
                with its country.
            days (int, optional): How many
              days: at most 7.

            unit (Literal["C", "F"]):
                Celsius or Fahrenheit.

        Keyword Args:
            when: The first day.
            unknown: Not a parameter.

        Returns:
            A report.
        """

    schema = describe_callable(f)
    assert schema.description == "Tell the weather.\n\nIt may be wrong.\n\nReturns:\n    A report."
    assert {name: shown["description"] for name, shown in schema.parameters["properties"].items()} == {
        "city": "The city, with its country.",
        "days": "How many days: at most 7.",
        "unit": "Celsius or Fahrenheit.",
        "when": "The first day.",
    }


def test_rest_docstrings_describe_parameters() -> None:
    def f(city: str, days: int) -> None:
        """Tell the weather.

        :param city: The city,
            with its country.
        :type city: str
        :param int days: How many days.
        :returns: A report.
        """

    schema = describe_callable(f)
    assert schema.description == "Tell the weather.\n\n:returns: A report."
    assert properties(f)["city"]["description"] == "The city, with its country."
    assert properties(f)["days"]["description"] == "How many days."


def test_numpy_docstrings_describe_parameters() -> None:
    """The sections of parameters go to them; what else is written stays the description."""

    def f(city: str, x: int, y: int, when: str) -> None:
        """Tell the weather.

        It may be wrong.

        Parameters
        ----------
        city : str
            The city,
            with its country.
        x, y : int, optional
            Where in it.

        Other Parameters
        ----------------
        when
            The first day.

        Returns
        -------
        str
            A report.
        """

    schema = describe_callable(f)
    assert schema.description == "Tell the weather.\n\nIt may be wrong.\n\nReturns\n-------\nstr\n    A report."
    assert {name: shown["description"] for name, shown in schema.parameters["properties"].items()} == {
        "city": "The city, with its country.",
        "x": "Where in it.",
        "y": "Where in it.",
        "when": "The first day.",
    }


def test_epydoc_docstrings_describe_parameters() -> None:
    def f(city: str, days: int) -> None:
        """Tell the weather.

        @param city: The city,
            with its country.
        @type city: str
        @param days: How many days.
        @return: A report.
        """

    assert describe_callable(f).description == "Tell the weather.\n\n@return: A report."
    assert properties(f)["city"]["description"] == "The city, with its country."
    assert properties(f)["days"]["description"] == "How many days."


def test_a_field_description_wins_over_the_docstring() -> None:
    def f(x: Annotated[int, Field(description="From the field.")]) -> None:
        """Do it.

        Args:
            x: From the docstring.
        """

    assert properties(f)["x"]["description"] == "From the field."


def test_a_parameters_description_wins_over_that_of_its_type() -> None:
    class Told(BaseModel):
        """What the type says."""

    def f(x: Told, y: Told) -> None:
        """Do it.

        Args:
            x: What the function says.
        """

    assert properties(f)["x"]["description"] == "What the function says."
    assert properties(f)["y"]["description"] == "What the type says."


def test_a_function_without_a_docstring_has_an_empty_description() -> None:
    def f() -> None: ...

    assert describe_callable(f).description == ""


LINES = [
    "",
    "Do it.",
    "Parameters",
    "Returns",
    "----------",
    "-------",
    "x : int",
    "    The number.",
    "  x",
    ":param x: It.",
]


@given(st.text(max_size=300) | st.lists(st.sampled_from(LINES), max_size=12).map("\n".join))
def test_any_docstring_can_be_read(text: str) -> None:
    def f(x: int) -> None: ...

    f.__doc__ = text
    assert not re.search(r"\n\s*\n\s*\n", describe_callable(f).description)
