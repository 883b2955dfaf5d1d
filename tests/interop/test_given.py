"""What the converters are given in the place of something else is refused by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from google.ai import generativelanguage
from google.genai import types
from kit import user

from flowloom import Event, InputValidationError, LlmRequest, LlmResponse
from flowloom.client import EventStore, ParsedEvent, create_event_handler
from flowloom.errors import EventParseError, ModelResponseError
from flowloom.interop import (
    contents_to_messages,
    from_legacy,
    request_from_proto,
    request_to_json,
    request_to_proto,
    response_from_proto,
    response_to_json,
    response_to_proto,
    to_legacy,
)

NONE_OF_ALL: list[Any] = [None, 5, "text", b"bytes", {}, [], object(), types.Part(text="Hi")]
WRITERS: list[tuple[Callable[[Any], object], str]] = [
    (request_to_json, "`request_to_json` writes an `LlmRequest`"),
    (request_to_proto, "`request_to_proto` writes an `LlmRequest`"),
    (response_to_json, "`response_to_json` writes an `LlmResponse`"),
    (response_to_proto, "`response_to_proto` writes an `LlmResponse`"),
    (to_legacy, "A `ParsedEvent` is made of an `Event`"),
    (ParsedEvent, "A `ParsedEvent` is made of an `Event`"),
    (EventStore().add, "A `ParsedEvent` is made of an `Event`"),
    (create_event_handler("canonical").write, "A `ParsedEvent` is made of an `Event`"),
    (create_event_handler("legacy").write, "A `ParsedEvent` is made of an `Event`"),
]


@pytest.mark.parametrize(("write", "told"), WRITERS)
def test_what_is_written_is_named_if_it_is_another_thing(write: Callable[[Any], object], told: str) -> None:
    for given in NONE_OF_ALL:
        with pytest.raises(InputValidationError, match=rf"^{told}.* It was given a {type(given).__name__}\.$"):
            write(given)


def test_a_request_is_no_response_and_a_response_no_request() -> None:
    for write, given in ((request_to_json, LlmResponse()), (response_to_json, LlmRequest(contents=[]))):
        with pytest.raises(InputValidationError, match=f"It was given a {type(given).__name__}"):
            write(given)  # type: ignore[operator]


@pytest.mark.parametrize(
    "given", [None, 5, "text", b"bytes", {}, object(), user("Hi")], ids=lambda it: type(it).__name__
)
def test_a_conversation_is_a_list_of_contents(given: Any) -> None:
    told = f"reads a list of `types.Content`s. It was given a {type(given).__name__}"
    with pytest.raises(InputValidationError, match=told):
        contents_to_messages(given)


@pytest.mark.parametrize("wrong", [None, 5, "text", {"rol": "user"}, types.Part(text="Hi"), Event(author="a")])
def test_what_is_no_content_in_a_conversation_is_named_by_its_place(wrong: Any) -> None:
    with pytest.raises(InputValidationError, match=rf"`contents\[1\]` is a {type(wrong).__name__}"):
        contents_to_messages([user("Hi"), wrong])


def test_a_content_as_data_is_one() -> None:
    data: Any = {"role": "user", "parts": [{"text": "Hi"}]}
    assert contents_to_messages([data]) == [{"role": "user", "content": "Hi"}]


@pytest.mark.parametrize(
    "given", [None, 5, {"type": "message", "data": {"text": "Hi"}}, Event(author="a")], ids=lambda it: type(it).__name__
)
def test_the_legacy_form_is_a_list_of_objects(given: Any) -> None:
    with pytest.raises(EventParseError, match=f"reads a list of objects .* It was given a {type(given).__name__}"):
        from_legacy(given)


@pytest.mark.parametrize(
    ("read", "error", "kind"),
    [
        (request_from_proto, InputValidationError, "GenerateContentRequest"),
        (response_from_proto, ModelResponseError, "GenerateContentResponse"),
    ],
)
def test_a_message_of_another_kind_is_named(read: Callable[[Any], object], error: type[Exception], kind: str) -> None:
    other = {"GenerateContentRequest", "GenerateContentResponse"} - {kind}
    message: Any = getattr(generativelanguage, other.pop())()
    for given in [*NONE_OF_ALL, message, type(message).pb(message)]:
        with pytest.raises(error, match=f"a message `{kind}` is expected, not "):
            read(given)


def test_a_store_is_given_a_list_of_events() -> None:
    for given in (None, 5, Event(author="a")):
        with pytest.raises(InputValidationError, match=f"a list of events. It was given a {type(given).__name__}"):
            EventStore().extend(given)  # type: ignore[arg-type]
