"""Changes between trees, and the law that all changes of all processors rebuild the request."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.genai import types
from hierarchies import HIERARCHIES, STATE
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import event, examples, hand_to, named_call, result, said, text, user

from flowloom import LlmRequest, explain
from flowloom.errors import PipelineError
from flowloom.inspection.changes import apply, changes_between
from flowloom.inspection.tree import Blocks, Fields, blocks_of, empty_tree, request_of, tree_of
from inspection.requests import asked

PART = st.one_of(
    st.text(max_size=12).map(text),
    st.binary(max_size=4).map(lambda data: types.Part(inline_data=types.Blob(data=data, mime_type="image/png"))),
    st.just(named_call("adk-1", "add", a=1, b=2)),
    st.just(result("adk-1", "add", {"result": [1, {"two": None}]})),
    st.just(types.Part(file_data=types.FileData(file_uri="files/a", mime_type="text/plain", display_name="a.txt"))),
    st.just(hand_to("other")),
    st.text(min_size=1, max_size=5).map(lambda value: text(value, thought=True, thought_signature=b"sig")),
)
PARTS = st.lists(PART, min_size=1, max_size=3)
MESSAGE = st.lists(PART.filter(lambda part: part.function_call is None), min_size=1, max_size=3)
EVENT = st.tuples(st.sampled_from(["user", "root", "billing", "leaf"]), PARTS).map(
    lambda said: event(said[0], *said[1])
)
VALUE: Any = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=4) | st.binary(max_size=3),
    lambda below: st.lists(below, max_size=4) | st.dictionaries(st.text("ab.c[]", max_size=3), below, max_size=3),
    max_leaves=12,
)
FUNCTION = st.sampled_from("abc").map(lambda name: types.FunctionDeclaration(name=name, description=name * 2))
TOOL = st.builds(lambda given: types.Tool(function_declarations=given), st.lists(FUNCTION, max_size=3)) | st.just(
    types.Tool(google_search=types.GoogleSearch())
)
CONFIG = st.builds(
    types.GenerateContentConfig,
    system_instruction=st.none() | st.sampled_from(["", "one", "one\n\ntwo", "zero\n\none\n\ntwo"]),
    temperature=st.none() | st.sampled_from([0.0, 1.0]),
    tools=st.none() | st.lists(TOOL, max_size=3),
    labels=st.none() | st.dictionaries(st.sampled_from("ab"), st.text(max_size=2)),
)
REQUEST = st.builds(
    LlmRequest,
    model=st.none() | st.just("m"),
    contents=st.lists(PARTS.map(lambda parts: user(*parts)) | PARTS.map(lambda parts: said(*parts)), max_size=4),
    config=CONFIG,
)


@settings(max_examples=examples(150))
@given(name=st.sampled_from(sorted(HIERARCHIES)), history=st.lists(EVENT, max_size=6), message=MESSAGE)
def test_the_changes_of_all_processors_rebuild_the_request(name: str, history: list[Any], message: Any) -> None:
    """Applied in order to an empty request, over random agents and histories."""
    case = HIERARCHIES[name]
    root = case.build(asked([]))
    assembly = asyncio.run(explain(root, user(*message), history=history, state={**STATE, "noted": ""}))
    tree = empty_tree()
    for step in assembly.steps:
        tree = apply(tree, step.changes)
    assert request_of(tree) == assembly.request.model_copy(update={"contents": list(assembly.request.contents)})
    assert apply(empty_tree(), assembly.changes) == tree


@given(VALUE, VALUE)
def test_the_changes_between_two_values_make_the_second_of_the_first(old: Any, new: Any) -> None:
    changes = changes_between(old, new)
    assert apply(_copy(old), changes) == new
    assert bool(changes) == (_copy(old) != new or _types(old) != _types(new))


@settings(max_examples=examples(200))
@given(REQUEST, REQUEST)
def test_the_changes_between_two_requests_make_the_second_of_the_first(old: LlmRequest, new: LlmRequest) -> None:
    before, after = tree_of(old), tree_of(new)
    assert request_of(apply(tree_of(old), changes_between(before, after))) == new
    assert changes_between(before, before) == []


@given(REQUEST)
def test_a_tree_makes_the_request_it_was_made_of(request: LlmRequest) -> None:
    """Equal, and sharing nothing that could be changed."""
    made = request_of(tree_of(request))
    assert made == request
    made.contents.append(user("more"))
    assert made != request


@given(st.lists(st.text("ab\n", max_size=4), max_size=4), st.text("ab\n", max_size=12))
def test_blocks_joined_are_the_text(known: list[str], whole: str) -> None:
    assert str(blocks_of(whole, known)) == whole


def test_a_block_is_what_somebody_has_added() -> None:
    """Blank lines within it do not divide it, and what stood there before keeps its place."""
    known = blocks_of("first\n\nstill first")
    assert blocks_of("first\n\nstill first\n\nsecond", known) == ["first\n\nstill first", "second"]
    assert blocks_of("zero\n\nfirst\n\nstill first", known) == ["zero", "first\n\nstill first"]
    assert blocks_of("other", known) == ["other"]


def test_paths_are_those_of_a_request() -> None:
    """Declarations go by their names, all else by fields and places."""
    file = types.Part(file_data=types.FileData(file_uri="f", mime_type="text/plain", display_name="a.txt"))
    old = LlmRequest(contents=[user("hi", file)])
    new = LlmRequest(
        contents=[user("hi", file.model_copy(deep=True))], config=types.GenerateContentConfig(temperature=1)
    )
    new.contents[0].parts[1].file_data.display_name = None  # type: ignore[index, union-attr]
    new.append_instructions(["Be kind."])
    declared = types.FunctionDeclaration(name="transfer_to_agent")
    new.config.tools = [types.Tool(function_declarations=[declared])]
    changes = {
        change.path: (change.kind, change.before, change.after)
        for change in changes_between(tree_of(old), tree_of(new))
    }
    assert changes == {
        "contents[0].parts[1].file_data.display_name": ("removed", "a.txt", None),
        "config.temperature": ("added", None, 1.0),
        "config.system_instruction[0]": ("added", None, "Be kind."),
        "config.tools[0].function_declarations[transfer_to_agent]": (
            "added",
            None,
            Fields(types.FunctionDeclaration, {"name": "transfer_to_agent"}),
        ),
    }


async def test_a_request_can_be_had_as_each_processor_left_it() -> None:
    assembly = await explain(HIERARCHIES["coordinator"].build(asked([])), "Hello.")
    assert assembly.request_after("instructions").config.system_instruction == "Find the right one."
    assert assembly.request_after("identity").contents == []
    assert assembly.request_after("file_uploads") == assembly.request
    with pytest.raises(PipelineError, match="No processor `contens`"):
        assembly.request_after("contens")


def _copy(value: Any) -> Any:
    if isinstance(value, list):
        return [_copy(item) for item in value]
    return {key: _copy(item) for key, item in value.items()} if isinstance(value, dict) else value


def _types(value: Any) -> Any:
    """The shape of a value: `1` and `True` are equal, but not the same."""
    if isinstance(value, list):
        return [_types(item) for item in value]
    return {key: _types(item) for key, item in value.items()} if isinstance(value, dict) else type(value)


def test_blocks_read_as_the_text_that_they_are() -> None:
    assert str(Blocks(["a", "b"])) == "a\n\nb"
