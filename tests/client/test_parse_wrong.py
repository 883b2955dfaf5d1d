"""`parse_event_sse`: what is no event, and events that are wrong in places."""

from __future__ import annotations

import json
import logging
import re
from typing import Any

import pytest
from stream_kit import frame, grounded, parsed, web, wire

from flowloom.client import create_event_handler, parse_event_sse
from flowloom.errors import EventParseError, EventStreamError

MALFORMED: list[tuple[str, str | bytes, str]] = [
    ("not JSON", "hello", "line 1 column 1"),
    ("a broken object", '{"author": ', "line 1 column 11"),
    ("a broken object in a frame", 'data: {"author"\n\n', "line 1 column 9"),
    ("a second line", '{\n"author": x}', "line 2 column 11"),
    ("something after the object", '{"author": "a"} x', "line 1 column 17"),
    ("two objects", "{}{}", "line 1 column 3"),
    ("single quotes", "{'author': 'a'}", "line 1 column 2"),
    ("a trailing comma", '{"author": "a",}', "line 1 column 16"),
    ("null", "null", ""),
    ("a list", "[1]", ""),
    ("a text", '"x"', ""),
    ("a number", "5", ""),
    ("a boolean", "true", ""),
    ("too deep a list", "[" * 100_000, r"line 1 column \d+"),
    ("too deep an object", '{"a":' * 100_000, r"line 1 column \d+"),
    ("too deep, closed", '{"author":"a","output":' + "[" * 5000 + "]" * 5000 + "}", r"line 1 column \d+"),
    ("a number of too many digits", '{"output": ' + "9" * 5000 + "}", r"line 1 column \d+"),
    ("bytes that are no text", b"\xff\xfe\x00", "line 1 column 1"),
    ("a control character in a text", '{"author": "a\x01"}', r"line 1 column \d+"),
]


@pytest.mark.parametrize(("data", "place"), [m[1:] for m in MALFORMED], ids=[m[0] for m in MALFORMED])
def test_what_is_no_event_is_none_and_one_warning(
    data: str | bytes, place: str, caplog: pytest.LogCaptureFixture
) -> None:
    assert parse_event_sse(data) is None
    assert [(record.name, record.levelno) for record in caplog.records] == [("flowloom.events", logging.WARNING)]
    with pytest.raises(EventParseError) as raised:
        parse_event_sse(data, strict=True)
    assert re.fullmatch(place, raised.value.place)


@pytest.mark.parametrize("given", [None, 5, {"author": "a"}], ids=["nothing", "a number", "an object"])
def test_what_is_neither_text_nor_bytes_is_refused_if_strict(given: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert parse_event_sse(given) is None
    for mode in ("canonical", "legacy", "auto"):
        assert create_event_handler(mode).read(given) == []
        with pytest.raises(EventParseError, match=type(given).__name__):
            create_event_handler(mode, strict=True).read(given)
    with pytest.raises(EventParseError, match=f"bytes or text. It was given a {type(given).__name__}"):
        parse_event_sse(given, strict=True)
    assert all(type(given).__name__ in record.message for record in caplog.records)


WRONG: list[tuple[str, dict[str, Any], str, dict[str, Any]]] = [
    ("content is a text", wire(content="x"), "content", wire()),
    ("content is a list", wire(content=[1]), "content", wire()),
    ("parts is a number", wire(content={"parts": 5}), "content.parts", wire(content={})),
    (
        "a part is a number",
        wire("a", content={"parts": [5, {"text": "ok"}]}),
        "content.parts[0]",
        wire(content={"parts": [{"text": "ok"}]}),
    ),
    (
        "two parts are numbers",
        wire(content={"parts": [5, {"text": "ok"}, 6]}),
        "content.parts[0]",
        wire(content={"parts": [{"text": "ok"}]}),
    ),
    ("a text is an object", wire({"text": {}}), "content.parts[0].text", wire({})),
    ("a call is a text", wire({"functionCall": "x"}), "content.parts[0].functionCall", wire({})),
    (
        "arguments are a text",
        wire({"functionCall": {"name": "x", "args": "y"}}),
        "content.parts[0].functionCall.args",
        wire({"functionCall": {"name": "x"}}),
    ),
    (
        "a result is a list",
        wire({"functionResponse": {"name": "x", "response": [1]}}),
        "content.parts[0].functionResponse.response",
        wire({"functionResponse": {"name": "x"}}),
    ),
    (
        "bytes are a number",
        wire({"inlineData": {"data": 5}}),
        "content.parts[0].inlineData.data",
        wire({"inlineData": {}}),
    ),
    (
        "author is a number",
        wire("x", author=5),
        "author",
        {key: value for key, value in wire("x").items() if key != "author"},
    ),
    ("actions are a list", wire("x", actions=[]), "actions", wire("x")),
    (
        "state is a list",
        wire("x", actions={"stateDelta": [], "escalate": True}),
        "actions.stateDelta",
        wire("x", actions={"escalate": True}),
    ),
    (
        "an artifact's version is a text",
        wire("x", actions={"artifactDelta": {"f": "x"}}),
        "actions.artifactDelta.f",
        wire("x"),
    ),
    (
        "a route is an object",
        wire("x", actions={"route": {}, "escalate": True}),
        "actions.route",
        wire("x", actions={"escalate": True}),
    ),
    (
        "a summary lacks its times",
        wire("x", actions={"compaction": {"compactedContent": {"role": "model", "parts": [{"text": "s"}]}}}),
        "actions.compaction",
        wire("x"),
    ),
    ("a flag is a text", wire("x", partial="maybe"), "partial", wire("x")),
    ("usage is a text", wire("x", usageMetadata="none"), "usageMetadata", wire("x")),
    (
        "a count is a text",
        wire("x", usageMetadata={"totalTokenCount": "many"}),
        "usageMetadata.totalTokenCount",
        wire("x", usageMetadata={}),
    ),
    ("ids are a text", wire("x", longRunningToolIds="c"), "longRunningToolIds", wire("x")),
    (
        "sources are a text",
        wire("x", groundingMetadata={"groundingChunks": "a"}),
        "groundingMetadata.groundingChunks",
        wire("x", groundingMetadata={}),
    ),
    ("a finish reason is a number", wire("x", finishReason=5), "finishReason", wire("x")),
    ("wrong beside unknown", wire({"text": 5, "brandNew": 1}), "content.parts[0].text", wire({"brandNew": 1})),
]


@pytest.mark.parametrize(("data", "place", "rest"), [w[1:] for w in WRONG], ids=[w[0] for w in WRONG])
def test_values_of_a_wrong_type_are_left_out_with_one_warning(
    data: dict[str, Any], place: str, rest: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert parsed(data).event.to_wire() == parsed(rest).event.to_wire()
    assert len(caplog.records) == 1
    assert place in caplog.text


@pytest.mark.parametrize(("data", "place"), [w[1:3] for w in WRONG], ids=[w[0] for w in WRONG])
@pytest.mark.parametrize("validate", [False, True], ids=["read", "validated"])
def test_strict_says_which_value_is_of_a_wrong_type(data: dict[str, Any], place: str, validate: bool) -> None:
    with pytest.raises(EventParseError) as raised:
        parse_event_sse(json.dumps(data), validate=validate, strict=True)
    assert raised.value.place == place


@pytest.mark.parametrize("data", [w[1] for w in WRONG], ids=[w[0] for w in WRONG])
def test_what_validation_refuses_is_none_and_one_warning(
    data: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    assert parse_event_sse(json.dumps(data), validate=True) is None
    assert len(caplog.records) == 1


@pytest.mark.parametrize("beside", [{"author": 5}, {"content": {"parts": 5}}, {"actions": {"stateDelta": []}}], ids=str)
@pytest.mark.parametrize("validate", [False, True], ids=["read", "validated"])
def test_a_wrong_value_beside_a_wrong_enum_is_left_out_too(beside: dict[str, Any], validate: bool) -> None:
    """google-genai fails on an enum that is no text without saying where, and hides what else is wrong."""
    data = {**wire("x"), "finishReason": 5, **beside}
    left = parsed(data).event
    assert left.finish_reason is None
    assert left.timestamp == wire("x")["timestamp"]
    with pytest.raises(EventParseError, match="The data is not an event"):
        parse_event_sse(json.dumps(data), validate=validate, strict=True)


def test_of_very_many_wrong_values_nothing_else_is_lost(caplog: pytest.LogCaptureFixture) -> None:
    data = wire(*({"text": "a", "codeExecutionResult": {"outcome": number}} for number in range(40)), author="a")
    left = parsed(data).event
    assert (left.author, left.text) == ("a", "a" * 40)
    assert caplog.text.count("codeExecutionResult.outcome") == 40
    with pytest.raises(EventParseError, match=r"parts\[0\]\.codeExecutionResult\.outcome"):
        parse_event_sse(json.dumps(data), strict=True)


@pytest.mark.parametrize("time_given", ["yesterday", {}, 1e30, True, 1767323045250, float("nan"), float("inf")])
def test_a_time_that_is_none_is_now(time_given: Any, caplog: pytest.LogCaptureFixture) -> None:
    assert parsed(wire("x", timestamp=time_given)).event.timestamp > 1.7e9
    assert "timestamp" in caplog.text


TOLERATED: list[tuple[str, str | bytes, str]] = [
    ("half of a surrogate pair", '{"content": {"parts": [{"text": "a\\ud83d"}]}}', "a\ufffd"),
    ("the other half", '{"content": {"parts": [{"text": "\\uDE00b"}]}}', "\ufffdb"),
    ("a whole pair", '{"content": {"parts": [{"text": "\\ud83d\\ude00"}]}}', "😀"),
    ("half of a pair, not escaped", '{"content": {"parts": [{"text": "a\ud83d"}]}}', "a\ufffd\ufffd\ufffd"),
    ("bytes that are not UTF-8", b'{"content": {"parts": [{"text": "a\xff"}]}}', "a\ufffd"),
]


@pytest.mark.parametrize(("data", "text"), [t[1:] for t in TOLERATED], ids=[t[0] for t in TOLERATED])
def test_text_that_cannot_be_encoded_is_mended(data: str | bytes, text: str) -> None:
    found = parsed(data)
    assert found.text_content == text
    found.event.model_dump_json()


def test_numbers_that_are_too_large_are_kept_as_they_are() -> None:
    state = parsed('{"author": "a", "actions": {"stateDelta": {"n": 123456789012345678901234567890, "x": 1e999}}}')
    assert state.event.actions.state_delta == {"n": 123456789012345678901234567890, "x": float("inf")}


def test_of_several_events_the_first_is_taken(caplog: pytest.LogCaptureFixture) -> None:
    stream = frame(wire("a")) + frame(wire("b"))
    assert parsed(stream).text_content == "a"
    assert "EventStreamReader" in caplog.text
    with pytest.raises(EventParseError, match="EventStreamReader"):
        parse_event_sse(stream, strict=True)


@pytest.mark.parametrize("given_data", [None, 5, object(), ["x"]], ids=lambda data: type(data).__name__)
def test_what_is_neither_text_nor_bytes_is_none(given_data: Any) -> None:
    assert parse_event_sse(given_data) is None


def test_an_error_can_be_raised() -> None:
    error = parsed({"error": "boom"}).error
    assert error is not None
    with pytest.raises(EventStreamError, match="boom"):
        raise error


def test_what_is_extracted_is_extracted_once() -> None:
    found = parsed(grounded(web("http://a", "A")))
    assert found.function_calls is found.function_calls
    assert found.sources is found.sources


def test_events_share_nothing() -> None:
    """What a reader makes of one payload is that event's alone."""
    first, second = parsed({"author": "a"}), parsed({"author": "a"})
    first.event.actions.state_delta["x"] = 1
    assert second.event.actions.state_delta == {}
    assert first.event.id != second.event.id
