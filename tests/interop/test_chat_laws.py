"""Chat messages and contents: neither loses anything on the way through the other."""

from __future__ import annotations

import asyncio
import json
from typing import Any

from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from interop import chat_strategies as any_

from flowloom.interop import (
    AgentResponse,
    LlmService,
    LLMServiceOptions,
    ServiceModel,
    contents_to_messages,
    is_valid_chat_message,
    messages_to_contents,
)


def spelled(value: Any) -> str:
    """A value as it is written: 1, 1.0 and true are not the same, and neither are other orders."""
    return repr(value)


def without_memory(contents: list[types.Content]) -> list[types.Content]:
    """The contents as another process reads them."""
    return [types.Content.model_validate_json(each.model_dump_json()) for each in contents]


@given(any_.messages)
def test_messages_come_back_from_contents_as_they_were(messages: Any) -> None:
    before = spelled(messages)
    contents = messages_to_contents(messages)
    assert len(contents) == len(messages)
    assert spelled(contents_to_messages(contents)) == before
    assert spelled(messages) == before


@given(any_.contents)
def test_contents_come_back_from_messages_as_they_were(contents: Any) -> None:
    before = spelled([each.model_dump() for each in contents])
    again = messages_to_contents(contents_to_messages(contents))
    assert spelled([each.model_dump() for each in again]) == before
    assert spelled([each.model_dump() for each in contents]) == before


@given(any_.contents)
def test_messages_made_of_contents_are_valid(contents: Any) -> None:
    assert all(map(is_valid_chat_message, contents_to_messages(contents)))


@given(any_.messages)
def test_valid_messages_are_what_conversion_takes(messages: Any) -> None:
    assert all(map(is_valid_chat_message, messages))


@given(any_.messages)
def test_what_messages_say_does_not_hang_on_what_they_remember(messages: Any) -> None:
    """Contents that forgot their messages, and messages that forgot their contents, say the same again and again."""
    once = json.loads(json.dumps(contents_to_messages(without_memory_of(messages))))
    twice = json.loads(json.dumps(contents_to_messages(without_memory_of(once))))
    assert spelled(twice) == spelled(once)


def without_memory_of(messages: Any) -> list[types.Content]:
    return [types.Content(role=each.role, parts=each.parts) for each in messages_to_contents(messages)]


plain_args = st.dictionaries(st.sampled_from("ab"), st.integers() | st.text(max_size=5) | st.booleans(), max_size=2)


@st.composite
def plain_contents(draw: st.DrawFn) -> list[types.Content]:
    """A conversation that chat messages can carry by themselves: each call has an id and a result."""
    contents: list[types.Content] = []
    for turn in range(draw(st.integers(0, 3))):
        asked = [types.Part(text=draw(any_.texts)), *draw(st.lists(pictures, max_size=2))]
        contents.append(types.Content(role="user", parts=asked))
        args = draw(st.lists(plain_args, max_size=3))
        calls = [types.FunctionCall(id=f"{turn}-{n}", name="weather", args=each) for n, each in enumerate(args)]
        said = [types.Part(text=draw(any_.texts)), *(types.Part(function_call=call) for call in calls)]
        contents.append(types.Content(role="model", parts=said))
        for call in draw(st.permutations(calls)):
            response = types.FunctionResponse(id=call.id, name=call.name, response=draw(plain_args))
            contents.append(types.Content(role="user", parts=[types.Part(function_response=response)]))
    return contents


pictures = st.builds(
    types.Part, inline_data=st.builds(types.Blob, data=any_.data, mime_type=st.sampled_from(["image/png", "audio/wav"]))
)


@given(plain_contents())
def test_a_plain_conversation_survives_json(contents: Any) -> None:
    """What needs no memory comes back from the bare JSON of the messages."""
    bare = json.loads(json.dumps(contents_to_messages(contents)))
    assert without_memory(messages_to_contents(bare)) == contents


class Listener:
    """A service that remembers what it was asked."""

    def __init__(self) -> None:
        self.asked: Any = None

    async def run_llm(self, options: LLMServiceOptions) -> AgentResponse:
        self.asked = options
        return AgentResponse("Hi.")


FUNCTION = {"name": "weather", "description": "The weather.", "parameters": {"type": "object", "properties": {}}}
SCHEMA = {"name": "answer", "schema": {"type": "object"}, "strict": False}
OPTIONS = st.fixed_dictionaries(
    {},
    optional={
        "temperature": st.floats(0, 2),
        "top_p": st.floats(0, 1),
        "max_tokens": st.integers(1, 9),
        "stop": st.lists(any_.texts, min_size=1, max_size=2),
        "seed": st.integers(0, 9),
        "presence_penalty": st.floats(-2, 2),
        "frequency_penalty": st.floats(-2, 2),
        "model": st.just("m"),
        "reasoning_effort": st.sampled_from(["none", "low", "medium", "high"]),
        "tools": st.just([{"type": "function", "function": FUNCTION}]),
        "response_format": st.sampled_from(
            [
                {"type": "json_object"},
                {
                    "type": "json_schema",
                    "json_schema": {"name": "answer", "schema": {"type": "object"}, "strict": False},
                },
            ]
        ),
    },
)
CHOICES = st.sampled_from(["auto", "none", "required", {"type": "function", "function": {"name": "weather"}}])
SPELLED = [
    {"role": "system", "content": "Be brief."},
    {"role": "user", "content": "Hello.", "name": "ann"},
    {
        "role": "assistant",
        "content": None,
        "tool_calls": [
            {"id": "a", "type": "function", "function": {"name": "weather", "arguments": '{"city":  "Rome"}'}},
            {"id": "b", "type": "function", "function": {"name": "weather", "arguments": '{"city": '}},
        ],
    },
    {"role": "tool", "tool_call_id": "b", "content": "It rains."},
    {"role": "tool", "tool_call_id": "a", "content": '{ "sky": "blue" }'},
    {"role": "user", "content": "And?"},
]


@given(OPTIONS, CHOICES)
def test_options_come_through_a_model_as_they_were(options: Any, choice: Any) -> None:
    """A service behind a model behind a service is asked what the outer one was, to the letter."""
    given_ = {"messages": SPELLED, **options, **({"tool_choice": choice} if "tools" in options else {})}
    listener = Listener()
    with asyncio.Runner() as runner:
        runner.run(LlmService(ServiceModel(listener)).run_llm(given_))  # type: ignore[arg-type]
    assert listener.asked == given_
