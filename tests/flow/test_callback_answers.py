"""What callbacks around models, tools and agents may answer, and what is said about other answers."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, said

from flowloom import BasePlugin, FlowloomError, LlmResponse
from flowloom.errors import CallbackError
from flowloom.testing import call


def work() -> str:
    """Work."""
    return "worked"


@pytest.mark.parametrize("hook", ["before_tool_callback", "after_tool_callback"])
@pytest.mark.parametrize(
    ("answer", "response"),
    [({}, {}), ({"a": 1}, {"a": 1}), ("text", {"result": "text"}), (False, {"result": False}), ([], {"result": []})],
)
async def test_whatever_is_not_none_is_a_tools_result(hook: str, answer: Any, response: dict[str, Any]) -> None:
    """An empty or false answer is an answer; what is no object is wrapped like the tool's own."""
    root = agent("root", call("work"), "ok", tools=[work], **{hook: lambda **_: answer})
    events = await Chat(root).say("go")
    assert events[1].get_function_responses()[0].response == response


@pytest.mark.parametrize("hook", ["before_agent_callback", "after_agent_callback"])
async def test_content_may_be_a_dict_for_an_agent_callback(hook: str) -> None:
    """Decision 25: a dict is accepted by its structure."""
    content = {"role": "model", "parts": [{"text": "as a dict"}]}
    assert (await Chat(agent("root", "hi", **{hook: lambda **_: content})).say("go"))[-1].text == "as a dict"


WRONG: list[tuple[str, Any, Any]] = [
    ("before_model_callback", "hi", "text"),
    ("before_model_callback", "hi", said("no response")),
    ("after_model_callback", "hi", "text"),
    ("on_model_error_callback", ConnectionError("down"), "text"),
    ("before_agent_callback", "hi", "text"),
    ("after_agent_callback", "hi", 7),
    ("before_agent_callback", "hi", types.Part(text="no content")),
    ("after_agent_callback", "hi", LlmResponse(content=said("no content"))),
]


@pytest.mark.parametrize(("hook", "model", "answer"), WRONG)
async def test_an_answer_of_another_type_is_an_error_that_names_agent_and_callback(
    hook: str, model: Any, answer: Any
) -> None:
    """Errors name the agent and the callback, and say what was wrong."""
    root = agent("root", model, **{hook: lambda **_: answer})
    with pytest.raises(FlowloomError) as raised:
        await Chat(root).say("go")
    told = str(raised.value)
    assert "`root`" in told
    assert f"`{hook.removesuffix('_callback')}`" in told
    assert type(answer).__name__ in told


@pytest.mark.parametrize("hook", ["before_run", "on_user_message"])
@pytest.mark.parametrize("answer", ["text", types.Part(text="no content"), LlmResponse(content=said("no content"))])
async def test_a_plugin_that_answers_no_content_is_told_so(hook: str, answer: Any) -> None:
    """Nothing of it is stored."""

    async def wrong(**_: Any) -> Any:
        return answer

    plugin = BasePlugin("wrong")
    setattr(plugin, f"{hook}_callback", wrong)
    with pytest.raises(CallbackError, match=f"`{hook}` of agent `root` answered {type(answer).__name__}"):
        await Chat(agent("root", "hi"), plugins=[plugin]).say("go")
