"""Which values are chat messages and tool calls, and what is said of those that are not."""

from __future__ import annotations

from typing import Any

import pytest

from flowloom import InputValidationError
from flowloom.errors import ChatMessageError
from flowloom.interop import is_valid_chat_message, is_valid_tool_call
from flowloom.interop.chat_messages import validated_messages

CALL: dict[str, Any] = {"id": "c1", "type": "function", "function": {"name": "weather", "arguments": "{}"}}
VALID: dict[str, dict[str, Any]] = {
    "user": {"role": "user", "content": "Hello."},
    "empty text": {"role": "user", "content": ""},
    "null": {"role": "user", "content": None},
    "name": {"role": "user", "content": "Hello.", "name": "ann"},
    "unknown keys": {"role": "user", "content": "Hello.", "cache_control": {"type": "ephemeral"}},
    "system": {"role": "system", "content": "Be brief."},
    "developer": {"role": "developer", "content": [{"type": "text", "text": "Be brief."}]},
    "assistant without content": {"role": "assistant", "tool_calls": [CALL]},
    "assistant that says nothing": {"role": "assistant"},
    "several calls": {"role": "assistant", "content": None, "tool_calls": [CALL, {**CALL, "id": "c2"}]},
    "no calls": {"role": "assistant", "content": "Hello.", "tool_calls": []},
    "null calls": {"role": "assistant", "content": "Hello.", "tool_calls": None},
    "refusal": {"role": "assistant", "content": None, "refusal": "No."},
    "older call": {"role": "assistant", "content": None, "function_call": CALL["function"]},
    "tool": {"role": "tool", "content": "21", "tool_call_id": "c1"},
    "function": {"role": "function", "content": "21", "name": "weather"},
    "image": {"role": "user", "content": [{"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}]},
    "audio": {"role": "user", "content": [{"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}]},
    "file": {"role": "user", "content": [{"type": "file", "file": {"file_id": "file-1"}}]},
}
INVALID: dict[str, tuple[Any, str]] = {
    "no dict": ("Hello.", "a message is a dict with `role` and `content`, not text"),
    "no role": ({"content": "Hello."}, "it has no `role`"),
    "role of another type": ({"role": 1, "content": ""}, "`role` is a number, not text"),
    "unknown role": ({"role": "asistant", "content": ""}, "`asistant` is no role that is known; there are `assistant`"),
    "no content": ({"role": "user"}, "a message of the role `user` has to have `content`"),
    "content of another type": ({"role": "user", "content": 5}, "`content` is a number; it is text, a list of parts"),
    "part that is text": (
        {"role": "user", "content": ["Hello."]},
        "`content[0]` is text, and not a dict",
    ),
    "unknown part": (
        {"role": "user", "content": [{"type": "smell"}]},
        "`content[0]` has the type 'smell'",
    ),
    "part without its text": ({"role": "user", "content": [{"type": "text"}]}, "`content[0]` has no text in `text`"),
    "image without address": (
        {"role": "user", "content": [{"type": "image_url", "image_url": {}}]},
        "has no text in `image_url.url`",
    ),
    "image as text": (
        {"role": "user", "content": [{"type": "image_url", "image_url": "https://example.com"}]},
        "has no object in `image_url`",
    ),
    "file without data": (
        {"role": "user", "content": [{"type": "file", "file": {"filename": "a"}}]},
        "has neither `file.file_data` nor `file.file_id`",
    ),
    "file of another type": (
        {"role": "user", "content": [{"type": "file", "file": {"file_id": 1}}]},
        "has no text in `file.file_id`",
    ),
    "name of another type": ({"role": "user", "content": "", "name": 1}, "`name` is a number, not text"),
    "calls by the user": ({"role": "user", "content": "", "tool_calls": [CALL]}, "only the assistant does"),
    "calls that are no list": ({"role": "assistant", "tool_calls": CALL}, "`tool_calls` is an object, not a list"),
    "call without id": (
        {"role": "assistant", "tool_calls": [CALL, {**CALL, "id": None}]},
        "`tool_calls[1]` has no text in `id`",
    ),
    "older call without name": ({"role": "assistant", "function_call": {}}, "`function_call` has no `name`"),
    "result without id": ({"role": "tool", "content": ""}, "has to have `tool_call_id`"),
    "id without result": ({"role": "user", "content": "", "tool_call_id": "c1"}, "only `tool` answers a call"),
    "older result without name": ({"role": "function", "content": ""}, "has to have `name`"),
}
NO_CALLS: dict[str, tuple[Any, str]] = {
    "no dict": ("weather", "is text, and not a dict"),
    "no id": ({**CALL, "id": None}, "has no text in `id`"),
    "another type": ({**CALL, "type": "custom"}, "has the type 'custom'; only 'function' is known"),
    "no function": ({"id": "c1", "type": "function"}, "has a `function` that is null"),
    "no name": ({**CALL, "function": {"arguments": "{}"}}, "has a `function` that has no `name`"),
    "empty name": ({**CALL, "function": {"name": "", "arguments": "{}"}}, "has a `function` that has no `name`"),
    "arguments as object": (
        {**CALL, "function": {"name": "weather", "arguments": {}}},
        "has a `function` that has an object as `arguments`; they are JSON text",
    ),
}


@pytest.mark.parametrize("case", VALID)
def test_a_message_of_the_wire_form_is_valid(case: str) -> None:
    assert is_valid_chat_message(VALID[case])


@pytest.mark.parametrize("case", INVALID)
def test_a_message_that_breaks_the_form_is_not_valid(case: str) -> None:
    assert not is_valid_chat_message(INVALID[case][0])


@pytest.mark.parametrize("case", INVALID)
def test_the_error_names_the_message_and_the_reason(case: str) -> None:
    message, reason = INVALID[case]
    with pytest.raises(ChatMessageError) as caught:
        validated_messages([*VALID.values(), message])
    assert str(caught.value).startswith(f"`messages[{len(VALID)}]` is not usable: ")
    assert reason in str(caught.value)
    assert caught.value.index == len(VALID)


def test_a_valid_conversation_is_given_back_as_it_is() -> None:
    given = list(VALID.values())
    assert all(one is other for one, other in zip(validated_messages(given), given, strict=True))


@pytest.mark.parametrize("given", [None, 5, "Hello.", {"role": "user", "content": "Hello."}])
def test_what_is_no_list_is_no_conversation(given: Any) -> None:
    with pytest.raises(ChatMessageError, match="A conversation is a list of chat messages, not ") as caught:
        validated_messages(given)
    assert caught.value.index is None
    assert isinstance(caught.value, InputValidationError)


@pytest.mark.parametrize("arguments", ["{}", "", "not JSON"])
def test_a_tool_call_may_have_any_text_as_arguments(arguments: str) -> None:
    assert is_valid_tool_call({**CALL, "function": {"name": "weather", "arguments": arguments}})


@pytest.mark.parametrize("case", NO_CALLS)
def test_a_tool_call_that_breaks_the_form_is_not_valid(case: str) -> None:
    call, reason = NO_CALLS[case]
    assert not is_valid_tool_call(call)
    with pytest.raises(ChatMessageError) as caught:
        validated_messages([{"role": "assistant", "tool_calls": [call]}])
    assert f"`tool_calls[0]` {reason}" in str(caught.value)
