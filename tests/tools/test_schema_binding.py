"""How a model's arguments become those of a function, and what it is told when they cannot."""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import datetime
import enum
import json
import logging
import uuid
from collections.abc import Callable
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, field_validator
from typing_extensions import TypedDict

from flowloom.errors import ToolArgumentsError
from flowloom.tools.schema import describe_callable
from flowloom.tools.validation import MAX_PROBLEMS


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


def greet(name: str, times: int = 1, loud: bool = False) -> str:
    """Greets somebody."""
    return name


def nothing() -> None:
    """Does nothing and returns nothing."""


def many_types(words: list[str], ratio: float, mode: Literal["fast", "careful"], extra: dict, note: str | None = None):
    """Takes arguments of many types."""


def ship(address: Address, express: bool) -> None:
    """Ships a parcel to an address."""


def numbers(n: int) -> list[int]:
    """Counts."""
    return list(range(n))


def bind(func: Callable[..., Any], **args: Any) -> dict[str, Any]:
    return describe_callable(func).bind(args)


def refusal(func: Callable[..., Any], **args: Any) -> list[str]:
    """The problem lines of the error that these arguments raise."""
    with pytest.raises(ToolArgumentsError) as caught:
        bind(func, **args)
    return str(caught.value).splitlines()[1:]


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


def test_unknown_arguments_are_dropped_and_told_to_the_log(caplog: pytest.LogCaptureFixture) -> None:
    """A model's slip is no reason to refuse a call that can be made."""
    given = {"name": "Ada", "tiems": 2}
    with caplog.at_level(logging.DEBUG, logger="flowloom.tools"):
        assert bind(greet, **given) == {"name": "Ada"}
        assert bind(nothing, **given) == {}
    assert "tiems" in caplog.text
    assert given == {"name": "Ada", "tiems": 2}


def test_unknown_arguments_are_not_told_when_others_are_wrong() -> None:
    assert refusal(greet, tiems=2, loud=[]) == ["- `name`: is missing", "- `loud`: must be a valid boolean; got []"]


def test_undeclared_arguments_reach_a_function_that_takes_any() -> None:
    def f(x: int, **rest: Any) -> None: ...

    assert list(describe_callable(f).parameters["properties"]) == ["x"]
    assert bind(f, x="1", y=2, rest=3) == {"x": 1, "y": 2, "rest": 3}


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
        "- `extra`: is missing",
        "- `note`: must be a valid string; got 3",
    ]


def test_a_missing_value_deep_in_a_recursive_type_is_told_where_it_is() -> None:
    def f(root: Node) -> None: ...

    assert refusal(f, root={"value": 1, "children": [{"children": []}]}) == ["- `root.children[0].value`: is missing"]


def test_a_missing_value_in_a_dict_is_told_where_it_is() -> None:
    def f(homes: dict[str, Address]) -> None: ...

    assert refusal(f, homes={"ada": {"street": "Elm"}}) == ["- `homes.ada.zip`: is missing"]


def test_the_alternatives_of_a_union_are_one_problem() -> None:
    def f(x: int | Address) -> None: ...

    assert refusal(f, x=[1]) == ["- `x`: must be a valid integer, or an object; got [1]"]


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
