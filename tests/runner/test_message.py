"""What a user's message may be given as."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, requests_of

from flowloom import BasePlugin, Event, InMemoryRunner, InputValidationError, RunConfig
from flowloom.errors import FlowloomError
from flowloom.runner.message import content_of_message

IMAGE = types.Part(inline_data=types.Blob(data=b"png", mime_type="image/png"))


@pytest.mark.parametrize(
    ("message", "parts"),
    [
        ("hi", [types.Part(text="hi")]),
        (IMAGE, [IMAGE]),
        (["What is it?", IMAGE], [types.Part(text="What is it?"), IMAGE]),
        (("one", "two"), [types.Part(text="one"), types.Part(text="two")]),
        ([{"text": "one"}, IMAGE], [types.Part(text="one"), IMAGE]),
        ({"text": "one"}, [types.Part(text="one")]),
        ({"parts": [{"text": "one"}]}, [types.Part(text="one")]),
        (types.Content(parts=[IMAGE]), [IMAGE]),
    ],
)
def test_a_message_is_a_content_or_what_it_is_made_of(message: Any, parts: list[types.Part]) -> None:
    content = content_of_message(message)
    assert (content.role, content.parts) == ("user", parts)


WRONG_ENUM = {"code_execution_result": {"outcome": 5}}
WRONG = [
    3,
    [3],
    ["a", 3],
    {"txt": "a"},
    {},
    [],
    None,
    [types.Content(parts=[IMAGE])],
    WRONG_ENUM,
    {"parts": [WRONG_ENUM]},
]


@pytest.mark.parametrize("wrong", WRONG)
def test_anything_else_is_refused(wrong: Any) -> None:
    with pytest.raises(InputValidationError):
        content_of_message(wrong)


@pytest.mark.parametrize("wrong", [types.Blob(data=b"x"), types.File(uri="gs://x"), Event(author="user"), "x" * 9999])
def test_a_message_of_another_kind_is_said_to_be_none(wrong: Any) -> None:
    """In few words, however large it is."""
    with pytest.raises(InputValidationError, match="is no message") as caught:
        content_of_message([[wrong]] if isinstance(wrong, str) else wrong)
    assert len(str(caught.value)) < 300


CALL = types.Part.from_function_call(name="pay", args={"amount": 3})


@pytest.mark.parametrize("message", [CALL, ["Pay.", CALL], types.Content(role="model", parts=[CALL])])
def test_a_message_that_calls_a_function_is_refused(message: Any) -> None:
    """Only models call: nothing would give its result, without which providers refuse a request."""
    with pytest.raises(InputValidationError, match=r"Part \d of the message calls the function `pay`"):
        content_of_message(message)


class Calling(BasePlugin):
    """Has the user's message call a function."""

    async def on_user_message_callback(self, **_: Any) -> types.Content:
        return types.Content(role="user", parts=[CALL])


async def test_a_message_of_a_plugin_does_not_call_either() -> None:
    """It is not stored, and no model is asked."""
    chat = Chat(root := agent("root", "ok"), plugins=[Calling(name="calling")])
    with pytest.raises(InputValidationError, match="calls the function `pay`"):
        await chat.say("Hi")
    assert not requests_of(root)
    assert not [each for each in await chat.stored() if each.get_function_calls()]


async def test_the_model_is_shown_texts_and_files_in_order() -> None:
    root = agent("root", "a cat")
    await Chat(root).say(["What is it?", IMAGE])
    assert requests_of(root)[0].contents[0].parts == [types.Part(text="What is it?"), IMAGE]


NO_DECISION = types.Part.from_function_response(name="adk_request_confirmation", response={"response": "perhaps"})


@pytest.mark.parametrize("arguments", [{"new_message": []}, {"new_message": NO_DECISION}, {"run_config": {}}])
async def test_what_cannot_begin_is_told_where_a_run_tells_of_errors(arguments: Any) -> None:
    """When its events are iterated, and not before."""
    events = InMemoryRunner(agent("root")).run_async(user_id="ann", session_id="s1", **arguments)
    with pytest.raises(FlowloomError):
        await anext(events)


MARKS = ["client_executed_calls", "agent_ended", "agent_tool_call_id", "run_ended", "unfit_output"]
MARKS += ["a2a:context_id", "a2a:task_id", "a2a:login"]


@pytest.mark.parametrize("mark", MARKS)
async def test_what_the_engine_marks_events_with_no_caller_puts_on_those_of_a_run(mark: str) -> None:
    """They say who executes a call, how a run has ended, and which task of another service waits: `custom_metadata` may
    not claim that, whether or not this process has a remote agent."""
    config = RunConfig(custom_metadata={mark: "limit", "trace": 1})
    events = InMemoryRunner(agent("root")).run_async(
        user_id="ann", session_id="s1", new_message="Hi", run_config=config
    )
    with pytest.raises(InputValidationError, match=f"`custom_metadata` has `{mark}`"):
        await anext(events)
