"""Which callables can be tools, and how their parameters are read."""

from __future__ import annotations

import dataclasses
import enum
import functools
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, Optional, Union

import pytest
from google.genai import types
from pydantic import BaseModel, Field

from flowloom import Context, ReadonlyContext
from flowloom.errors import ToolArgumentsError, ToolSignatureError
from flowloom.tools.schema import describe_callable

if TYPE_CHECKING:
    from somewhere import Unheard

    from flowloom import CallbackContext, ToolContext


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


class Opaque:
    """A class that pydantic knows nothing of."""


def greet(name: str, times: int = 1, loud: bool = False) -> str:
    """Greets somebody."""
    return name


def nothing() -> None:
    """Does nothing and returns nothing."""


def parameters(func: Callable[..., Any]) -> dict[str, Any]:
    return describe_callable(func).parameters


def properties(func: Callable[..., Any]) -> dict[str, Any]:
    return parameters(func)["properties"]


def bind(func: Callable[..., Any], **args: Any) -> dict[str, Any]:
    return describe_callable(func).bind(args)


class Shop:
    """A shop.

    Args:
        name: What it is called.
    """

    def __init__(self, name: str) -> None:
        self.name = name

    def buy(self, item: str, notes: list[str]) -> str:
        """Buy something."""
        return item

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


class Scale:
    """Weighs goods."""

    def __call__(self, goods: str) -> int:
        return len(goods)


def test_an_object_is_described_by_its_class_where_its_call_is_not() -> None:
    assert describe_callable(Scale()).description == "Weighs goods."


def test_a_bound_method_has_no_self() -> None:
    schema = describe_callable(Shop("x").buy)
    assert (schema.name, schema.description) == ("buy", "Buy something.")
    assert list(schema.parameters["properties"]) == ["item", "notes"]


@pytest.mark.parametrize("func", [Shop.open, Shop("x").open])
def test_a_class_method_has_no_cls(func: Callable[..., Any]) -> None:
    assert list(properties(func)) == ["name"]


def test_a_static_method_is_a_function() -> None:
    schema = describe_callable(Shop.count)
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


def test_what_a_partial_fixes_is_neither_shown_nor_taken() -> None:
    func = functools.partial(functools.partial(greet, loud=True), times=2)
    schema = describe_callable(func)
    assert (schema.name, schema.description) == ("greet", "Greets somebody.")
    assert list(schema.parameters["properties"]) == ["name"]
    assert schema.bind({"name": "Ada", "loud": False}) == {"name": "Ada"}


def test_what_a_partial_gives_by_position_is_gone() -> None:
    assert list(properties(functools.partial(greet, "Ada"))) == ["times", "loud"]


def test_a_wrapped_function_is_described_by_what_it_wraps() -> None:
    @functools.wraps(greet)
    async def wrapper(*args: Any, **kwargs: Any) -> Any: ...

    schema = describe_callable(wrapper)
    assert schema.parameters == parameters(greet)
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
    with pytest.raises(ToolArgumentsError, match="`y`: must be greater than 0; got 0"):
        bind(f, y=0)


def test_a_field_as_default_describes_and_gives_its_default() -> None:
    def f(x: int = Field(description="Needed."), y: list[int] = Field(default_factory=list)) -> None: ...  # noqa: B008

    assert parameters(f)["required"] == ["x"]
    assert properties(f)["x"] == {"type": "integer", "description": "Needed."}
    assert bind(f, x=1) == {"x": 1, "y": []}


# -- the context parameter ---------------------------------------------------------------------


def with_text(tool_context: ToolContext) -> None: ...
def with_other_name(ctx: ToolContext) -> None: ...
def with_callback_context(c: CallbackContext) -> None: ...
def with_class(c: Context) -> None: ...
def with_optional(c: ToolContext | None = None) -> None: ...
def with_old_optional(c: Optional[ToolContext] = None) -> None: ...  # noqa: UP045
def with_union(c: Union[ToolContext, None] = None) -> None: ...  # noqa: UP007
def with_annotated(c: Annotated[Context, "x"]) -> None: ...
def without_annotation(tool_context): ...
def with_readonly(c: ReadonlyContext) -> None: ...
def with_any(tool_context: Any) -> None: ...
def with_keyword_only(*, c: ToolContext) -> None: ...


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
        with_annotated,
        without_annotation,
        with_any,
        with_keyword_only,
        with_readonly,
    ],
)
def test_the_context_parameter_is_known_and_hidden(func: Callable[..., Any]) -> None:
    schema = describe_callable(func)
    assert schema.context_parameter in ("c", "ctx", "tool_context")
    assert schema.parameters == {"type": "object", "properties": {}}


def test_a_model_cannot_give_the_context() -> None:
    def closed(tool_context: ToolContext, key: str) -> None: ...
    def open_(tool_context: ToolContext, **anything: Any) -> None: ...

    assert bind(closed, key="k", tool_context={}) == {"key": "k"}
    assert bind(open_, key="k", tool_context={}) == {"key": "k"}


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


# -- signatures that are refused ---------------------------------------------------------------


def of_star(*items: int) -> None: ...
def of_position(x: int, /) -> None: ...
def of_opaque(fine: int, x: Opaque, also_fine: str = "") -> None: ...
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
        (of_star, ["of_star", "*items: 'int'", "names its arguments"]),
        (of_position, ["of_position", "x: 'int'", "positional-only", "Drop"]),
        (of_opaque, ["of_opaque", "x: 'Opaque'", "pydantic cannot describe", "Use one that it can"]),
        (of_function, ["of_function", "x: 'Callable[[int], int]'", "Use one that it can"]),
        (of_unheard, ["of_unheard", "x: 'Unheard'", "cannot be resolved", "Import the name"]),
        (of_nonsense, ["of_nonsense", "x: '5'"]),
        (of_nonsense_default, ["of_nonsense_default", "x: '5'"]),
        (of_pair, ["of_pair", "x: (<class 'int'>, <class 'str'>)"]),
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


def test_a_google_genai_type_can_be_a_parameter() -> None:
    def f(part: types.Part) -> None: ...

    assert bind(f, part={"text": "hello"}) == {"part": types.Part(text="hello")}
