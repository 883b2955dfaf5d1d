"""Tools that are known by their declaration only: a run of one is the developer's to see."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, open_calls, requests_of, story

from flowloom import LlmAgent, explain
from flowloom.errors import NotSupportedError, PlaceholderError, UnsupportedFeatureError
from flowloom.interop import request_from_json
from flowloom.testing import call
from flowloom.tools.placeholder import PlaceholderTool

BODY = {
    "contents": [{"role": "user", "parts": [{"text": "hi"}]}],
    "tools": [{"functionDeclarations": [{"name": "search", "description": "Finds."}, {"name": "book"}]}],
}


def tools() -> list[PlaceholderTool]:
    return list(request_from_json(BODY).tools_dict.values())


def searcher(*answers: Any, **fields: Any) -> LlmAgent:
    return agent("root", *answers, tools=tools(), **fields)


def test_a_request_that_was_read_has_a_placeholder_for_each_declared_function() -> None:
    request = request_from_json(BODY)
    assert list(request.tools_dict) == ["search", "book"]
    tool = request.tools_dict["search"]
    assert isinstance(tool, PlaceholderTool)
    assert (tool.name, tool.description) == ("search", "Finds.")
    assert tool.declaration is request.config.tools[0].function_declarations[0]  # type: ignore[index, union-attr]


def test_placeholders_are_equal_by_their_declaration() -> None:
    declared = types.FunctionDeclaration(name="f")
    assert PlaceholderTool(declared) == PlaceholderTool(types.FunctionDeclaration(name="f"))
    assert PlaceholderTool(declared) != PlaceholderTool(types.FunctionDeclaration(name="g"))
    assert request_from_json(BODY) == request_from_json(BODY)


async def test_placeholders_are_declared_to_the_model_like_real_tools() -> None:
    assembly = await explain(searcher("ok"), "hi")
    [group] = assembly.request.config.tools or []
    assert [declared.name for declared in group.function_declarations] == ["search", "book"]  # type: ignore[union-attr]


async def test_running_one_says_which_it_is_and_what_to_do() -> None:
    chat = Chat(searcher(call("search", q="x")))
    with pytest.raises(PlaceholderError, match=r"`search` cannot be run.*`request_from_json\(..., tools=") as caught:
        await chat.say("hi")
    assert caught.value.tool == "search"
    assert isinstance(caught.value, NotSupportedError)
    assert not isinstance(caught.value, UnsupportedFeatureError)


@pytest.mark.parametrize("calls", [[call("search")], [call("search"), call("book")]])
async def test_the_model_is_not_asked_again_about_a_call_that_nobody_could_run(calls: list[types.Part]) -> None:
    """Whatever the agent does with errors of tools: the run ends, and its history stays legal."""
    root = searcher(calls, "never said")
    chat = Chat(root)
    with pytest.raises(PlaceholderError):
        await chat.say("hi")
    assert len(requests_of(root)) == 1
    stored = await chat.stored()
    assert not open_calls(stored)
    assert "only its declaration is here" in "".join(story(stored))


async def test_a_callback_can_answer_for_the_tool() -> None:
    """What a recording says, for example."""
    root = searcher(call("search"), "found", before_tool_callback=lambda **_: {"result": "recorded"})
    assert story(await Chat(root).say("hi"))[-2:] == ["root: search -> {'result': 'recorded'}", "root: found"]
