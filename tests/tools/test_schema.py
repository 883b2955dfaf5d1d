from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import enum
import functools
import json
import re
import uuid
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple, Optional, Union

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, field_validator
from typing_extensions import TypedDict

from flowloom.errors import ToolArgumentsError, ToolSignatureError
from flowloom.tools.schema import describe_callable
from flowloom.tools.validation import MAX_PROBLEMS

if TYPE_CHECKING:
    from somewhere import CallbackContext, ToolContext, Unheard


class Address(BaseModel):
    street: str
    zip: int


class Color(enum.Enum):
    RED = "red"
    BLUE = "blue"


@dataclasses.dataclass
class Point:
    x: int
    y: int = 0


class Options(TypedDict, total=False):
    depth: int


class Node(BaseModel):
    value: int
    children: list[Node] = []


class Opaque:
    """A class that pydantic knows nothing of."""


def parameters(func: Callable[..., Any], **options: Any) -> dict[str, Any]:
    return describe_callable(func, **options).parameters


def properties(func: Callable[..., Any], **options: Any) -> dict[str, Any]:
    return parameters(func, **options)["properties"]


def bind(func: Callable[..., Any], **args: Any) -> dict[str, Any]:
    return describe_callable(func).bind(args)


def refusal(func: Callable[..., Any], **args: Any) -> list[str]:
    """The problem lines of the error that these arguments raise."""
    with pytest.raises(ToolArgumentsError) as caught:
        bind(func, **args)
    return str(caught.value).splitlines()[1:]


# -- declarations ------------------------------------------------------------------------------


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


def test_a_recursive_type_stays_a_definition() -> None:
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
        ({1: 2}, {}),
    ],
)
def test_defaults_that_json_can_say_are_shown(default: object, shown: dict[str, Any]) -> None:
    def f(x=default): ...

    assert properties(f) == {"x": shown}


def test_a_parameter_without_annotation_takes_anything() -> None:
    def f(x): ...

    assert parameters(f) == {"type": "object", "properties": {"x": {}}, "required": ["x"]}
    assert bind(f, x=[1, {"a": None}]) == {"x": [1, {"a": None}]}


@pytest.mark.parametrize("name", ["json", "schema", "copy", "model_config", "_private", "__dunder__", "return_"])
def test_a_parameter_may_have_any_name(name: str) -> None:
    namespace: dict[str, Any] = {}
    exec(f"def f({name}: int): ...", namespace)
    assert properties(namespace["f"]) == {name: {"type": "integer"}}
    assert bind(namespace["f"], **{name: 1}) == {name: 1}


def test_a_google_genai_type_can_be_a_parameter() -> None:
    def f(part: types.Part) -> None: ...

    assert bind(f, part={"text": "hello"}) == {"part": types.Part(text="hello")}


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


# -- what is called ----------------------------------------------------------------------------


class Shop:
    """A shop.

    Args:
        name: What it is called.
    """

    class Item(BaseModel):
        name: str

    def __init__(self, name: str) -> None:
        self.name = name

    def list(self) -> None:
        """Named like a type that annotations use."""

    def buy(self, item: Item, notes: list[str]) -> str:
        """Buy something."""
        return item.name

    @classmethod
    def open(cls, name: str) -> Shop:
        """Open a shop."""
        return cls(name)

    @staticmethod
    def count(goods: list[str]) -> int:
        """Count goods."""
        return len(goods)

    async def __call__(self, order: str) -> str:
        """Take an order.

        Args:
            order: What is wanted.
        """
        return order


def test_a_bound_method_has_no_self() -> None:
    schema = describe_callable(Shop("x").buy)
    assert (schema.name, schema.description) == ("buy", "Buy something.")
    assert list(schema.parameters["properties"]) == ["item", "notes"]


def test_a_method_sees_the_classes_nested_in_its_own() -> None:
    shop = Shop("x")
    assert shop.buy(**bind(shop.buy, item={"name": "tea"}, notes=[])) == "tea"


@pytest.mark.parametrize("func", [Shop.open, Shop("x").open])
def test_a_class_method_has_no_cls(func: Callable[..., Any]) -> None:
    assert list(properties(func)) == ["name"]


@pytest.mark.parametrize("func", [Shop.count, Shop.__dict__["count"]], ids=["taken", "raw"])
def test_a_static_method_is_a_function(func: Callable[..., Any]) -> None:
    schema = describe_callable(func)
    assert (schema.name, schema.description) == ("count", "Count goods.")
    assert list(schema.parameters["properties"]) == ["goods"]


def test_a_callable_object_is_described_by_its_call() -> None:
    schema = describe_callable(Shop("x"))
    assert (schema.name, schema.description) == ("Shop", "Take an order.")
    assert schema.parameters["properties"] == {"order": {"type": "string", "description": "What is wanted."}}
    assert schema.is_async


def test_a_class_is_described_by_its_constructor() -> None:
    schema = describe_callable(Shop)
    assert (schema.name, schema.description) == ("Shop", "A shop.")
    assert schema.parameters["properties"] == {"name": {"type": "string", "description": "What it is called."}}


class Pair(NamedTuple):
    left: int
    right: Color = Color.RED


@pytest.mark.parametrize(
    ("cls", "args", "made"),
    [
        (Point, {"x": "1"}, Point(1)),
        (Address, {"street": "Elm", "zip": 1}, Address(street="Elm", zip=1)),
        (Pair, {"left": 1, "right": "blue"}, Pair(1, Color.BLUE)),
    ],
)
def test_classes_of_data_are_callables_too(cls: type, args: dict[str, Any], made: object) -> None:
    assert cls(**bind(cls, **args)) == made


def test_the_signature_that_a_dataclass_writes_is_no_description() -> None:
    assert describe_callable(Point).description == ""


def test_what_a_partial_fixes_is_neither_shown_nor_taken() -> None:
    func = functools.partial(functools.partial(greet, loud=True), times=2)
    schema = describe_callable(func)
    assert (schema.name, schema.description) == ("greet", "Greets somebody.")
    assert list(schema.parameters["properties"]) == ["name"]
    assert refusal(func, name="Ada", loud=False) == ["- `loud`: is not a parameter; the parameters are: `name`"]


def test_what_a_partial_gives_by_position_is_gone() -> None:
    assert list(properties(functools.partial(greet, "Ada"))) == ["times", "loud"]


def test_a_wrapped_function_is_described_by_what_it_wraps() -> None:
    @functools.wraps(many_types)
    async def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    schema = describe_callable(wrapper)
    assert schema.parameters == parameters(many_types)
    assert schema.is_async


def test_a_cached_function_works() -> None:
    @functools.lru_cache
    def f(color: Color) -> str:
        """Name it."""
        return color.value

    assert describe_callable(f).description == "Name it."
    assert f(**bind(f, color="red")) == "red"


def test_a_built_in_method_with_a_signature_works() -> None:
    text = "a b c"
    assert text.split(**bind(text.split, sep=" ", maxsplit=1)) == ["a", "b c"]


def test_a_lambda_is_named_without_brackets() -> None:
    assert describe_callable(lambda amount: amount > 100).name == "lambda"


async def coroutine() -> None: ...


async def async_generator() -> Any:
    yield 1


def generator() -> Iterator[int]:
    yield 1


@pytest.mark.parametrize(
    ("func", "flags"),
    [
        (nothing, (False, False, False)),
        (coroutine, (True, False, False)),
        (async_generator, (False, True, False)),
        (generator, (False, False, True)),
        (functools.partial(coroutine), (True, False, False)),
        (functools.partial(Shop("x")), (True, False, False)),
        (Shop, (False, False, False)),
    ],
)
def test_the_kind_of_function_is_known(func: Callable[..., Any], flags: tuple[bool, bool, bool]) -> None:
    schema = describe_callable(func)
    assert (schema.is_async, schema.is_async_generator, schema.is_generator) == flags


# -- annotations -------------------------------------------------------------------------------


def test_a_class_local_to_the_enclosing_function_is_found() -> None:
    class Local(BaseModel):
        size: int

    def f(x: Local, y: list[Local] | None = None) -> None: ...

    assert bind(f, x={"size": 1}, y=[{"size": 2}]) == {"x": Local(size=1), "y": [Local(size=2)]}


def test_a_class_local_to_a_function_further_out_is_found() -> None:
    class Outer(BaseModel):
        size: int

    def inner() -> dict[str, Any]:
        class Inner(BaseModel):
            width: int

        def f(x: Outer, y: Inner) -> None: ...

        return bind(f, x={"size": 1}, y={"width": 2})

    assert inner()["x"] == Outer(size=1)


def test_a_class_in_the_closure_is_found_after_its_function_returned() -> None:
    def make() -> Callable[..., Any]:
        class Local(BaseModel):
            size: int

        def f(x: Local) -> bool:
            return isinstance(x, Local)

        return f

    f = make()
    assert f(**bind(f, x={"size": 1}))


def test_a_name_that_is_assigned_later_does_not_matter() -> None:
    def f(x: int) -> int:
        return x + later

    assert list(properties(f)) == ["x"]
    later = 1
    assert f(1) == 2


def test_an_alias_is_the_name_that_the_model_uses() -> None:
    def f(count: Annotated[int, Field(alias="n")]) -> None: ...

    assert list(properties(f)) == ["n"]
    assert bind(f, n="1") == {"count": 1}


def test_an_unresolvable_return_annotation_does_not_matter() -> None:
    def f(x: int) -> Unheard: ...

    assert list(properties(f)) == ["x"]


def test_a_default_of_none_lets_the_model_say_null() -> None:
    def f(x: int = None, y: Annotated[int, Field(gt=0)] = None) -> None: ...  # noqa: RUF013

    assert bind(f, x=None, y=None) == {"x": None, "y": None}
    assert refusal(f, y=0) == ["- `y`: must be greater than 0; got 0"]


def test_a_field_as_default_describes_and_gives_its_default() -> None:
    def f(x: int = Field(description="Needed."), y: list[int] = Field(default_factory=list)) -> None: ...  # noqa: B008

    assert parameters(f)["required"] == ["x"]
    assert properties(f)["x"] == {"type": "integer", "description": "Needed."}
    assert bind(f, x=1) == {"x": 1, "y": []}


def test_the_functions_default_wins_over_that_of_a_field() -> None:
    def f(x: Annotated[int, Field(default=1)] = 2, y: Annotated[int, Field(default=3)] = 4) -> tuple[int, int]:
        return x, y

    assert f(**bind(f, y=5)) == (2, 5)
    assert properties(f)["x"]["default"] == 2


# -- the context parameter ---------------------------------------------------------------------


class Context:
    """Stands for the engine's."""


def with_text(tool_context: ToolContext) -> None: ...
def with_other_name(ctx: ToolContext) -> None: ...
def with_callback_context(c: CallbackContext) -> None: ...
def with_class(c: Context) -> None: ...
def with_optional(c: ToolContext | None = None) -> None: ...
def with_old_optional(c: Optional[ToolContext] = None) -> None: ...  # noqa: UP045
def with_union(c: Union[ToolContext, None] = None) -> None: ...  # noqa: UP007
def with_module(c: somewhere.ToolContext) -> None: ...  # noqa: F821
def with_annotated(c: Annotated[Context, "x"]) -> None: ...
def without_annotation(tool_context): ...
def with_any(tool_context: Any) -> None: ...
def with_keyword_only(*, c: ToolContext) -> None: ...
def with_text_inside_a_type(c=None) -> None: ...


with_text_inside_a_type.__annotations__["c"] = Optional["ToolContext"]


@pytest.mark.parametrize(
    "func",
    [
        with_text,
        with_other_name,
        with_callback_context,
        with_class,
        with_optional,
        with_old_optional,
        with_union,
        with_module,
        with_annotated,
        without_annotation,
        with_any,
        with_keyword_only,
        with_text_inside_a_type,
    ],
)
def test_the_context_parameter_is_known_and_hidden(func: Callable[..., Any]) -> None:
    schema = describe_callable(func)
    assert schema.context_parameter in ("c", "ctx", "tool_context")
    assert schema.parameters == {"type": "object", "properties": {}}


def test_a_model_cannot_give_the_context() -> None:
    (line,) = refusal(get_state, key="k", tool_context={})
    assert line == "- `tool_context`: is not a parameter; the parameters are: `key`"


def test_a_model_cannot_give_the_context_to_a_function_that_takes_anything() -> None:
    def f(tool_context: ToolContext, **anything: Any) -> None: ...

    assert refusal(f, tool_context=1, x=2)


def test_a_parameter_named_context_is_an_ordinary_one() -> None:
    def f(context: str) -> None: ...

    schema = describe_callable(f)
    assert schema.context_parameter is None
    assert list(schema.parameters["properties"]) == ["context"]


def test_a_model_of_the_users_that_is_named_context_is_an_argument() -> None:
    class Context(BaseModel):
        topic: str

    def f(x: Context) -> None: ...

    assert bind(f, x={"topic": "tea"}) == {"x": Context(topic="tea")}


def test_a_list_of_contexts_is_not_the_context() -> None:
    def f(x: list[ToolContext]) -> None: ...

    with pytest.raises(ToolSignatureError):
        describe_callable(f)


def test_skipped_parameters_are_neither_shown_nor_taken_nor_looked_at() -> None:
    def f(x: int, stream: Unheard = None) -> None: ...

    assert list(properties(f, skip=["stream"])) == ["x"]
    with pytest.raises(ToolArgumentsError, match="`stream`"):
        describe_callable(f, skip={"stream"}).bind({"x": 1, "stream": 2})


# -- signatures that are refused ---------------------------------------------------------------


def of_star(*items: int) -> None: ...
def of_position(x: int, /) -> None: ...
def of_opaque(fine: int, x: Opaque, also_fine: str = "") -> None: ...
def of_opaque_extra(**x: Opaque) -> None: ...
def of_function(x: Callable[[int], int]) -> None: ...
def of_unheard(x: Unheard) -> None: ...
def of_nonsense(x: 5) -> None: ...
def of_nonsense_default(x: 5 = None) -> None: ...
def of_broken(x: "1 +") -> None: ...  # noqa: F722
def of_pair(x=None) -> None: ...
def of_two(x: int, a: ToolContext, b: CallbackContext) -> None: ...


of_pair.__annotations__["x"] = (int, str)


@pytest.mark.parametrize(
    ("func", "parts"),
    [
        (of_star, ["of_star", "*items: 'int'", "Take a list"]),
        (of_position, ["of_position", "x: 'int'", "Drop the `/`"]),
        (of_opaque, ["of_opaque", "x: 'Opaque'", "pydantic cannot describe", "Use one that it can"]),
        (of_opaque_extra, ["of_opaque_extra", "**x: 'Opaque'", "Use one that it can"]),
        (of_function, ["of_function", "x: 'Callable[[int], int]'", "Use one that it can"]),
        (of_unheard, ["of_unheard", "x: 'Unheard'", "cannot be resolved", "Import the name"]),
        (of_nonsense, ["of_nonsense", "x: '5'", "Use one that it can"]),
        (of_nonsense_default, ["of_nonsense_default", "x: '5'", "Use one that it can"]),
        (of_pair, ["of_pair", "x: (<class 'int'>, <class 'str'>)", "no type"]),
        (of_broken, ["of_broken", "1 +", "cannot be resolved"]),
        (of_two, ["of_two", "b: 'CallbackContext'", "`a`", "Keep one"]),
        (Shop.buy, ["buy", "self", "method of an instance"]),
        (dict, ["dict", "Wrap it in a function"]),
        (3, ["int", "Wrap it in a function"]),
    ],
    ids=lambda value: getattr(value, "__name__", None),
)
def test_a_signature_that_cannot_be_offered_is_refused_with_the_remedy(func: Any, parts: list[str]) -> None:
    with pytest.raises(ToolSignatureError) as caught:
        describe_callable(func)
    message = str(caught.value)
    assert [part for part in parts if part not in message] == []
    assert "\n" not in message


# -- binding -----------------------------------------------------------------------------------


def test_what_the_model_left_out_is_left_out() -> None:
    assert bind(greet, name="Ada") == {"name": "Ada"}


@pytest.mark.parametrize(
    ("hint", "given", "bound"),
    [
        (int, "3", 3),
        (int, 3.0, 3),
        (float, 3, 3.0),
        (bool, "true", True),
        (Address, {"street": "Elm", "zip": "7"}, Address(street="Elm", zip=7)),
        (list[Address], [{"street": "Elm", "zip": 7}], [Address(street="Elm", zip=7)]),
        (Point, {"x": 1}, Point(1, 0)),
        (Options, {"depth": "2"}, {"depth": 2}),
        (Color, "blue", Color.BLUE),
        (Literal["a", "b"], "a", "a"),
        (int | None, None, None),
        (int | list[int], [1], [1]),
        (dict[str, Color], {"x": "red"}, {"x": Color.RED}),
        (tuple[int, str], [1, "a"], (1, "a")),
        (set[int], [1, 1], {1}),
        (datetime.datetime, "2024-05-01T10:00:00Z", datetime.datetime(2024, 5, 1, 10, tzinfo=datetime.UTC)),
        (datetime.date, "2024-05-01", datetime.date(2024, 5, 1)),
        (uuid.UUID, "12345678123456781234567812345678", uuid.UUID(int=0x12345678123456781234567812345678)),
        (Node, {"value": 1, "children": [{"value": 2}]}, Node(value=1, children=[Node(value=2)])),
    ],
    ids=str,
)
def test_arguments_are_converted_to_the_annotated_types(hint: Any, given: object, bound: object) -> None:
    def f(x) -> None: ...

    f.__annotations__["x"] = hint
    result = bind(f, x=given)["x"]
    assert result == bound
    assert type(result) is type(bound)


def test_a_strict_model_reads_json_as_json() -> None:
    class Meeting(BaseModel):
        model_config = ConfigDict(strict=True)
        day: datetime.date
        hours: tuple[int, int]

    def f(x: Meeting) -> None: ...

    assert bind(f, x={"day": "2024-05-01", "hours": [9, 10]})["x"].hours == (9, 10)
    assert refusal(f, x={"day": "2024-05-01", "hours": [9, "10"]}) == [
        '- `x.hours[1]`: must be a valid integer; got "10"'
    ]


def test_undeclared_arguments_reach_a_function_that_takes_any() -> None:
    def f(x: int, **rest: Any) -> None: ...

    assert list(properties(f)) == ["x"]
    assert bind(f, x="1", y=2, rest=3) == {"x": 1, "y": 2, "rest": 3}


def test_undeclared_arguments_are_converted_too() -> None:
    def f(**scores: int) -> None: ...

    assert bind(f, ada="3") == {"ada": 3}
    assert refusal(f, ada="three") == ['- `ada`: must be a valid integer; got "three"']


def test_arguments_may_be_python_objects_already() -> None:
    address = Address(street="Elm", zip=1)
    assert bind(ship, address=address, express=True) == {"address": address, "express": True}


# -- arguments that are refused ----------------------------------------------------------------


def test_an_error_names_the_function_and_has_a_line_for_each_problem() -> None:
    with pytest.raises(ToolArgumentsError) as caught:
        bind(many_types, words=["a", 1], ratio="half", mode="slow", note=3)
    assert str(caught.value).splitlines() == [
        "The arguments do not fit the parameters of `many_types`:",
        "- `words[1]`: must be a valid string; got 1",
        '- `ratio`: must be a valid number; got "half"',
        "- `mode`: must be 'fast' or 'careful'; got \"slow\"",
        "- `extra`: is missing (object)",
        "- `note`: must be a valid string; got 3",
    ]


def test_a_missing_argument_is_told_with_its_type() -> None:
    def f(a: int, b: Literal["x", "y"], c: int | str, d: Address, e: Any) -> None: ...

    assert refusal(f, d={"street": "Elm"}) == [
        "- `a`: is missing (integer)",
        '- `b`: is missing (one of "x", "y")',
        "- `c`: is missing (integer or string)",
        "- `d.zip`: is missing (integer)",
        "- `e`: is missing",
    ]


def test_a_missing_value_deep_in_a_recursive_type_is_told_with_its_type() -> None:
    def f(root: Node) -> None: ...

    assert refusal(f, root={"value": 1, "children": [{"children": []}]}) == [
        "- `root.children[0].value`: is missing (integer)"
    ]


def test_a_missing_value_in_a_dict_is_told_where_it_is() -> None:
    def f(homes: dict[str, Address]) -> None: ...

    assert refusal(f, homes={"ada": {"street": "Elm"}}) == ["- `homes.ada.zip`: is missing"]


def test_the_alternatives_of_a_union_are_one_problem() -> None:
    def f(x: int | Address) -> None: ...

    assert refusal(f, x=[1]) == ["- `x`: must be a valid integer, or an object; got [1]"]


def test_an_unknown_argument_is_told_with_the_parameters_closest_first() -> None:
    assert refusal(greet, name="Ada", tiems=2) == [
        "- `tiems`: is not a parameter; the parameters are: `times`, `loud`, `name`"
    ]


def test_unknown_and_wrong_arguments_are_told_together() -> None:
    assert len(refusal(greet, tiems=2, loud="maybe")) == 3


def test_an_unknown_argument_of_a_function_without_parameters_is_refused() -> None:
    assert refusal(nothing, x=1) == ["- `x`: is not a parameter; the parameters are: none"]


def test_an_unknown_key_of_a_closed_model_is_refused_where_it_is() -> None:
    class Closed(BaseModel):
        model_config = ConfigDict(extra="forbid")
        a: int

    def f(x: list[Closed]) -> None: ...

    assert refusal(f, x=[{"a": 1, "b": 2}]) == ["- `x[0].b`: is not allowed here; got 2"]


def test_a_validators_own_words_are_told() -> None:
    class Even(BaseModel):
        n: int

        @field_validator("n")
        @classmethod
        def check(cls, n: int) -> int:
            if n % 2:
                raise ValueError("odd numbers are not for us")
            return n

    def f(x: Even) -> None: ...

    assert refusal(f, x={"n": 3}) == ["- `x.n`: odd numbers are not for us; got 3"]


def test_long_values_are_shortened() -> None:
    (line,) = refusal(numbers, n="x" * 1000)
    assert len(line) < 120


def test_values_that_are_no_json_are_told_too() -> None:
    assert "object at" in refusal(numbers, n=Opaque())[0]


def test_a_flood_of_problems_is_cut_short() -> None:
    def f(x: list[int]) -> None: ...

    lines = refusal(f, x=["a"] * 50)
    assert len(lines) == MAX_PROBLEMS + 1
    assert lines[-1] == "- and 30 more"


def test_arguments_that_are_no_object_are_refused() -> None:
    with pytest.raises(ToolArgumentsError, match="`arguments`: must be an object"):
        describe_callable(nothing).bind([])


# -- laws --------------------------------------------------------------------------------------

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)


def typed(
    a: int,
    b: str,
    c: list[bool],
    d: dict[str, float],
    e: Literal["x", "y"] = "x",
    f: int | None = 7,
    g: Any = None,
    **rest: Any,
) -> tuple[object, ...]:
    return a, b, c, d, e, f, g, rest


TYPED = describe_callable(typed)
TYPED_ARGS = st.fixed_dictionaries(
    {
        "a": st.integers(),
        "b": st.text(max_size=8),
        "c": st.lists(st.booleans(), max_size=3),
        "d": st.dictionaries(st.text(max_size=4), st.floats(allow_nan=False), max_size=3),
    },
    optional={"e": st.sampled_from(["x", "y"]), "f": st.none() | st.integers(), "g": JSON, "other": JSON},
)


@given(TYPED_ARGS)
def test_a_call_with_bound_arguments_is_the_call_itself(args: dict[str, Any]) -> None:
    """Arguments that have the annotated types already are not changed by binding."""
    assert typed(**TYPED.bind(args)) == typed(**args)


@given(st.dictionaries(st.sampled_from("abcdefghz"), JSON, max_size=9))
def test_binding_never_changes_the_arguments_and_never_lets_bad_ones_through(args: dict[str, Any]) -> None:
    """Whatever a model says, it is either bound to a legal call or refused with the one error for that."""
    before = copy.deepcopy(args)
    with contextlib.suppress(ToolArgumentsError):
        bound = TYPED.bind(args)
        assert bound.keys() == args.keys()
        a, b, c, d, e, f, _, _ = typed(**bound)
        assert isinstance(a, int)
        assert isinstance(b, str)
        assert isinstance(c, list)
        assert isinstance(d, dict)
        assert e in ("x", "y")
        assert f is None or isinstance(f, int)
    assert args == before


class Visit(BaseModel):
    at: datetime.datetime
    address: Address
    color: Color | None = None
    ids: set[int] = set()


VISITS = st.builds(
    Visit,
    at=st.datetimes(timezones=st.just(datetime.UTC)),
    address=st.builds(Address, street=st.text(max_size=8), zip=st.integers()),
    color=st.none() | st.sampled_from(Color),
    ids=st.sets(st.integers(), max_size=3),
)


def plan(visits: list[Visit], best: Visit | None = None) -> tuple[object, ...]:
    return visits, best


PLAN = describe_callable(plan)


@given(st.lists(VISITS, max_size=3), st.none() | VISITS)
def test_objects_survive_the_way_through_json(visits: list[Visit], best: Visit | None) -> None:
    """`bind(json of values)` gives the values back."""
    args = {
        "visits": [json.loads(visit.model_dump_json()) for visit in visits],
        "best": best and json.loads(best.model_dump_json()),
    }
    assert plan(**PLAN.bind(args)) == plan(visits, best)


@given(st.text(max_size=300))
def test_any_docstring_can_be_read(text: str) -> None:
    def f(x: int) -> None: ...

    f.__doc__ = text
    assert not re.search(r"\n\s*\n\s*\n", describe_callable(f).description)
