"""Function calls in streams: ids, pieces, and arguments by JSON path (spec §16.5, §16.9)."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
from google.genai import types
from stream_parts import Part, args_of, call_part, chunk, partial_arg, parts_of, run, shape

from flowloom.errors import ModelResponseError
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.partial_args import MAX_DEPTH, MAX_GAP

# -- function calls ----------------------------------------------------------------------------------


def test_text_and_calls_keep_their_order() -> None:
    partials, complete = run(chunk(Part(text="a")), chunk(call_part("A")), chunk(call_part("B"), finish="STOP"))
    assert len(partials) == 3
    assert complete.content
    assert shape(complete.content.parts or []) == ["a", "A", "B"]


def test_a_minted_id_is_the_same_on_the_partial_and_on_the_complete_response() -> None:
    partials, complete = run(chunk(call_part("A"), call_part("B")))
    minted = [call.id for call in complete.get_function_calls()]
    assert [call.id for call in partials[0].get_function_calls()] == minted
    assert len(set(minted)) == 2
    assert all(call_id and call_id.startswith("adk-") for call_id in minted)


def test_a_streamed_call_has_one_id_from_its_first_piece_on() -> None:
    partials, complete = run(
        chunk(call_part("f", go_on=True)),
        chunk(call_part(partial=[("$.a", "x")], go_on=True)),
        chunk(call_part()),
        chunk(call_part("g")),
    )
    shown = [call.id for partial in partials for call in partial.get_function_calls()]
    f, g = (call.id for call in complete.get_function_calls())
    assert shown == [f, f, f, g]
    assert f != g


def test_a_models_own_id_is_kept() -> None:
    partials, complete = run(
        chunk(call_part("f", id="7")), chunk(call_part("g", id="8", go_on=True)), chunk(call_part())
    )
    assert [call.id for call in complete.get_function_calls()] == ["7", "8"]
    assert [call.id for call in partials[2].get_function_calls()] == ["8"]


def test_an_id_that_comes_after_the_first_piece_does_not_change_what_was_shown() -> None:
    partials, complete = run(chunk(call_part("f", go_on=True)), chunk(call_part(id="7", partial=[("$.a", "x")])))
    shown = {call.id for partial in partials for call in partial.get_function_calls()}
    assert shown == {complete.get_function_calls()[0].id}


def test_ids_are_minted_by_the_given_function() -> None:
    numbers = itertools.count()
    aggregator = StreamingAggregator(new_id=lambda: str(next(numbers)))
    partial = aggregator.feed(chunk(call_part("f"), call_part("g")))[0]
    assert [call.id for call in partial.get_function_calls()] == ["adk-0", "adk-1"]


def test_a_streamed_calls_arguments_are_put_together() -> None:
    parts = parts_of(
        chunk(call_part("weather", id="1", partial=[("$.location", "New ")], go_on=True)),
        chunk(call_part("weather", id="1", partial=[("$.location", "York"), ("$.unit", "C")]), finish="STOP"),
    )
    assert parts == [call_part("weather", id="1", args={"location": "New York", "unit": "C"})]


def test_a_call_that_starts_without_arguments_waits_for_them() -> None:
    parts = parts_of(
        chunk(call_part("f", id="1", go_on=True, signature=b"s")),
        chunk(call_part(partial=[("$.q", "a ")], go_on=True)),
        chunk(call_part(partial=[("$.q", "b")], go_on=True)),
        chunk(call_part(), finish="STOP"),
    )
    assert parts == [call_part("f", id="1", args={"q": "a b"}, signature=b"s")]


def test_the_complete_call_has_no_traces_of_streaming() -> None:
    call = parts_of(chunk(call_part("f", partial=[("$.a", 1)], go_on=True)), chunk(call_part()))[0].function_call
    assert call is not None
    assert call.partial_args is None
    assert call.will_continue is None


def test_a_nameless_call_after_a_complete_one_is_ignored() -> None:
    parts = parts_of(chunk(call_part("f", partial=[("$.a", 1)])), chunk(call_part(), finish="STOP"))
    assert shape(parts) == ["f"]


@pytest.mark.parametrize("closing", [call_part(go_on=False), call_part(), call_part("f", go_on=False)])
def test_a_piece_that_only_closes_ends_the_pending_call(closing: Part) -> None:
    """What comes after it stands behind the call, and is not part of it."""
    parts = parts_of(
        chunk(call_part("f", partial=[("$.a", 1)], go_on=True)),
        chunk(closing),
        chunk(Part(text="x")),
        chunk(call_part("f")),
    )
    assert shape(parts) == ["f", "x", "f"]


@pytest.mark.parametrize("other", [call_part("g", args={"b": 2}), call_part("g", partial=[("$.b", 2)], go_on=True)])
def test_a_pending_call_ends_when_another_one_starts(other: Part) -> None:
    parts = parts_of(chunk(call_part("f", partial=[("$.a", 1)], go_on=True)), chunk(other))
    assert [(part.function_call.name, part.function_call.args) for part in parts if part.function_call] == [
        ("f", {"a": 1}),
        ("g", {"b": 2}),
    ]


def test_calls_of_one_function_are_told_apart_by_id() -> None:
    parts = parts_of(
        chunk(call_part("f", id="1", partial=[("$.a", "x")], go_on=True)),
        chunk(call_part("f", id="2", partial=[("$.a", "y")], go_on=True)),
    )
    assert parts == [call_part("f", id="1", args={"a": "x"}), call_part("f", id="2", args={"a": "y"})]


def test_a_whole_call_of_the_pending_function_is_a_second_call() -> None:
    parts = parts_of(chunk(call_part("f", partial=[("$.a", 1)], go_on=True)), chunk(call_part("f", args={"a": 2})))
    assert [part.function_call.args for part in parts if part.function_call] == [{"a": 1}, {"a": 2}]


def test_text_in_the_middle_of_a_streamed_call_stands_behind_it() -> None:
    parts = parts_of(
        chunk(Part(text="a")),
        chunk(call_part("f", partial=[("$.q", "x")], go_on=True)),
        chunk(Part(text="b")),
        chunk(call_part(partial=[("$.q", "y")])),
    )
    assert shape(parts) == ["a", "f", "b"]
    assert parts[1].function_call
    assert parts[1].function_call.args == {"q": "xy"}


def test_a_call_still_pending_at_the_end_is_part_of_the_answer() -> None:
    assert args_of(("$.a", "x")) == {"a": "x"}
    parts = parts_of(chunk(call_part("f", partial=[("$.a", "x")], go_on=True)))
    assert parts[0].function_call
    assert parts[0].function_call.args == {"a": "x"}


def test_a_streamed_call_that_never_gets_a_name_is_dropped() -> None:
    assert parts_of(chunk(call_part(partial=[("$.a", "x")], go_on=True)), chunk(Part(text="b"))) == [Part(text="b")]


def test_a_streamed_call_without_arguments_has_empty_ones() -> None:
    parts = parts_of(chunk(call_part("f", go_on=True)), chunk(call_part()))
    assert parts[0].function_call
    assert parts[0].function_call.args == {}


def test_whole_arguments_and_partial_ones_are_combined() -> None:
    parts = parts_of(
        chunk(call_part("f", args={"a": {"b": "x"}, "c": "y"}, go_on=True)),
        chunk(call_part(partial=[("$.a.d", 1), ("$.c", "z")])),
    )
    assert parts[0].function_call
    assert parts[0].function_call.args == {"a": {"b": "x", "d": 1}, "c": "yz"}


def test_whole_arguments_of_a_chunk_are_not_written_to() -> None:
    args = {"a": {"b": [1]}}
    parts_of(chunk(call_part("f", args=args, go_on=True)), chunk(call_part(partial=[("$.a.b[0]", 2)])))
    assert args == {"a": {"b": [1]}}


# -- JSON paths --------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("path", "args"),
    [
        ("$.a", {"a": "v"}),
        ("a", {"a": "v"}),
        (".a", {"a": "v"}),
        ("$.a.b.c", {"a": {"b": {"c": "v"}}}),
        ("items[0].x", {"items": [{"x": "v"}]}),
        ("$.items[2]", {"items": [None, None, "v"]}),
        ("$.grid[0][1]", {"grid": [[None, "v"]]}),
        ("$['a.b']", {"a.b": "v"}),
        ('["a"]', {"a": "v"}),
        ("$[\"a\"]['b'].c", {"a": {"b": {"c": "v"}}}),
        ("$['it\\'s']", {"it's": "v"}),
        ("$['say \"hi\"']", {'say "hi"': "v"}),
        ('$["a\\"b\\\\c\\n\\u00e9"]', {'a"b\\c\né': "v"}),
        ("$['[0]']", {"[0]": "v"}),
        ("$[0]", {"0": "v"}),
        ("$.größe", {"größe": "v"}),
        ("$['']", {"": "v"}),
        ("$ref", {"$ref": "v"}),
        ("$.a[*]", {"a": {"[*]": "v"}}),
        ("$['\\x']", {"\\x": "v"}),
    ],
)
def test_a_value_goes_where_its_path_says(path: str, args: dict[str, Any]) -> None:
    assert args_of((path, "v")) == args


def test_values_of_each_kind_are_set() -> None:
    args = args_of(("$.s", "x"), ("$.i", 3), ("$.f", 2.5), ("$.t", True), ("$.n", None), ("$.e", ""))
    assert args == {"s": "x", "i": 3, "f": 2.5, "t": True, "n": None, "e": ""}
    assert type(args["i"]) is int
    assert args["t"] is True


def test_text_at_one_path_is_joined_even_with_others_between() -> None:
    assert args_of(("$.a", "x"), ("$.b", "1"), ("$.a", ""), ("$.a", "y")) == {"a": "xy", "b": "1"}


def test_what_is_no_text_replaces_what_was_there() -> None:
    assert args_of(("$.a", "x"), ("$.a", 1)) == {"a": 1}
    assert args_of(("$.a", 1), ("$.a", "x")) == {"a": "x"}
    assert args_of(("$.a", "x"), ("$.a", None), ("$.a", "y")) == {"a": "y"}


def test_what_stands_in_a_paths_way_is_replaced() -> None:
    assert args_of(("$.a", "x"), ("$.a.b", 1)) == {"a": {"b": 1}}
    assert args_of(("$.a.b", 1), ("$.a[0]", 2)) == {"a": [2]}


def test_entries_without_path_or_value_are_ignored() -> None:
    part = Part(
        function_call=types.FunctionCall(
            name="f",
            partial_args=[types.PartialArg(string_value="x"), types.PartialArg(json_path="$.a"), partial_arg("$.b", 1)],
        )
    )
    call = parts_of(chunk(part))[0].function_call
    assert call is not None
    assert call.args == {"b": 1}


def test_text_for_the_root_is_the_arguments_as_json() -> None:
    assert args_of(("$", '{"a": '), ("$", "[1]}")) == {"a": [1]}


def test_text_for_the_root_that_is_no_object_is_not_lost() -> None:
    assert args_of(("$", "hello"), ("$.a", 1)) == {"$": "hello", "a": 1}
    assert args_of(("$", "[1]")) == {"$": "[1]"}


def test_a_path_of_absurd_depth_is_an_error() -> None:
    with pytest.raises(ModelResponseError, match="levels deep"):
        args_of(("$" + ".a" * (MAX_DEPTH + 1), 1))


def test_an_absurd_index_is_an_error() -> None:
    with pytest.raises(ModelResponseError, match="may be skipped"):
        args_of((f"$.a[{MAX_GAP + 1}]", 1))
    assert args_of(("$.a[99999999999]", 1)) == {"a": {"99999999999": 1}}
