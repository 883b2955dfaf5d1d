"""`parse_event_sse`: every payload that a server may write, and those that none should."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from google.genai import types
from stream_kit import TYPICAL, grounded, parsed, web, wire

from flowloom.client import ParsedEvent, parse_event_sse
from flowloom.errors import EventStreamError
from flowloom.interop.parsed import Source

CALL = {"functionCall": {"id": "c1", "name": "add", "args": {"a": 1}}}
RESULT = {"functionResponse": {"id": "c1", "name": "add", "response": {"sum": 3}}}
THOUGHT = {"text": "hm", "thought": True}


Look = Callable[[ParsedEvent], Any]
READ: list[tuple[str, dict[str, Any], Look, Any]] = [
    ("text", wire("hello"), lambda p: p.text_content, "hello"),
    ("texts are joined", wire("hel", "lo"), lambda p: p.text_content, "hello"),
    ("thoughts are no text", wire(THOUGHT, "hello"), lambda p: p.text_content, "hello"),
    ("thoughts", wire(THOUGHT, "hello"), lambda p: p.thought_content, "hm"),
    ("no content", wire(), lambda p: p.text_content, ""),
    ("content without parts", wire(content={"role": "model"}), lambda p: p.text_content, ""),
    ("null content, as adk-go", wire(content=None), lambda p: p.event.content, None),
    ("null parts", wire(content={"role": "model", "parts": None}), lambda p: p.text_content, ""),
    ("calls", wire(CALL), lambda p: [(c.id, c.name, c.args) for c in p.function_calls], [("c1", "add", {"a": 1})]),
    ("parallel calls", wire(CALL, CALL), lambda p: len(p.function_calls), 2),
    ("a call without arguments", wire({"functionCall": {"name": "x"}}), lambda p: p.function_calls[0].args, None),
    ("results", wire(RESULT), lambda p: [r.response for r in p.function_responses], [{"sum": 3}]),
    ("text beside calls", wire("a", CALL, "b"), lambda p: p.text_content, "ab"),
    ("snake case", {"author": "a", "invocation_id": "i", "error_code": "E"}, lambda p: p.event.invocation_id, "i"),
    (
        "snake case below",
        {"content": {"parts": [{"function_call": {"name": "x"}}]}},
        lambda p: len(p.function_calls),
        1,
    ),
    ("Go's names", {"ID": "e", "InvocationID": "i", "Author": "a"}, lambda p: p.event.invocation_id, "i"),
    ("Go's content", {"Author": "a", "Content": {"parts": [{"text": "x"}]}}, lambda p: p.text_content, "x"),
    ("Go's ids", {"Author": "a", "LongRunningToolIDs": ["c"]}, lambda p: p.event.long_running_tool_ids, ["c"]),
    (
        "Go's actions",
        {"Author": "a", "Actions": {"stateDelta": {"k": 1}}},
        lambda p: p.event.actions.state_delta,
        {"k": 1},
    ),
    ("null metadata, as adk-go", wire("x", usageMetadata=None, groundingMetadata=None), lambda p: p.sources, []),
    ("null deltas, as adk-go", wire(actions={"stateDelta": None}), lambda p: p.event.actions.state_delta, {}),
    ("null actions", wire(actions=None), lambda p: p.event.actions.artifact_delta, {}),
    ("null author", {"author": None, "content": None}, lambda p: p.event.author, ""),
    ("empty nodeInfo", wire(nodeInfo={}), lambda p: p.event.node_info, None),
    ("empty values in nodeInfo", wire(nodeInfo={"path": ""}), lambda p: p.event.node_info, None),
    ("nodeInfo", wire(nodeInfo={"path": "a/b"}), lambda p: p.event.node_info.path, "a/b"),
    ("partial", wire("x", partial=True), lambda p: p.event.partial, True),
    ("a time of RFC 3339", wire(timestamp="1970-01-01T00:00:02Z"), lambda p: p.event.timestamp, 2.0),
    ("a time of an int", wire(timestamp=7), lambda p: p.event.timestamp, 7.0),
    ("a time of null", wire(timestamp=None), lambda p: p.event.timestamp, 0.0),
    ("usage", TYPICAL, lambda p: p.event.usage_metadata.total_token_count, 132),
    (
        "64-bit numbers as text",
        wire(usageMetadata={"totalTokenCount": "9"}),
        lambda p: p.event.usage_metadata.total_token_count,
        9,
    ),
    (
        "bytes",
        wire({"inlineData": {"mimeType": "x/y", "data": "-_8="}}),
        lambda p: p.event.content.parts[0].inline_data.data,
        b"\xfb\xff",
    ),
    (
        "a signature",
        wire({"text": "x", "thoughtSignature": "AQ"}),
        lambda p: p.event.content.parts[0].thought_signature,
        b"\x01",
    ),
    ("a finish reason", wire("x", finishReason="STOP"), lambda p: p.event.finish_reason, types.FinishReason.STOP),
    (
        "an unknown finish reason",
        wire("x", finishReason="BRAND_NEW"),
        lambda p: str(p.event.finish_reason.value),
        "BRAND_NEW",
    ),
    ("unknown fields", wire("x", brandNew=[1]), lambda p: p.event.to_wire()["brandNew"], [1]),
    (
        "unknown fields below",
        wire({"text": "x", "brandNew": 1}),
        lambda p: p.event.to_wire()["content"]["parts"][0]["brandNew"],
        1,
    ),
    ("unknown actions", wire(actions={"brandNew": 1}), lambda p: p.event.to_wire()["actions"]["brandNew"], 1),
    (
        "confirmations",
        wire(actions={"requestedToolConfirmations": {"c": {"hint": "h"}}}),
        lambda p: p.event.actions.requested_tool_confirmations["c"].hint,
        "h",
    ),
    ("a transfer", wire(actions={"transferToAgent": "b"}), lambda p: p.transfer_to_agent, "b"),
    ("no transfer", wire("x"), lambda p: p.transfer_to_agent, None),
    ("final: text", wire("x"), lambda p: p.is_final_response, True),
    ("final: partial", wire("x", partial=True), lambda p: p.is_final_response, False),
    ("final: call", wire(CALL), lambda p: p.is_final_response, False),
    ("final: long-running call", wire(CALL, longRunningToolIds=["c1"]), lambda p: p.is_final_response, True),
    ("final: result", wire(RESULT), lambda p: p.is_final_response, False),
    (
        "final: result, no summary",
        wire(RESULT, actions={"skipSummarization": True}),
        lambda p: p.is_final_response,
        True,
    ),
    ("final: error", wire(errorCode="SAFETY"), lambda p: p.is_final_response, True),
    (
        "sources",
        grounded(web("http://a", "A"), web("http://b", "B")),
        lambda p: p.sources,
        [Source("http://a", "A"), Source("http://b", "B")],
    ),
    (
        "sources: each once",
        grounded(web("http://a", "A"), web("http://a", "B")),
        lambda p: p.sources,
        [Source("http://a", "A")],
    ),
    (
        "sources: domain as title",
        grounded(web("http://a", domain="a.org")),
        lambda p: p.sources,
        [Source("http://a", "a.org")],
    ),
    ("sources: address as title", grounded(web("http://a")), lambda p: p.sources, [Source("http://a", "http://a")]),
    ("sources: no address", grounded(web(None, "A"), {}), lambda p: p.sources, []),
    (
        "sources: retrieved",
        grounded({"retrievedContext": {"uri": "gs://x", "title": "X"}}),
        lambda p: p.sources,
        [Source("gs://x", "X")],
    ),
    (
        "sources: maps",
        grounded({"maps": {"uri": "http://m", "title": "M"}}),
        lambda p: p.sources,
        [Source("http://m", "M")],
    ),
    (
        "sources: image",
        grounded({"image": {"sourceUri": "http://i", "domain": "i"}}),
        lambda p: p.sources,
        [Source("http://i", "i")],
    ),
    ("sources: none", wire("x", groundingMetadata={}), lambda p: p.sources, []),
    (
        "an error event",
        wire(errorCode="SAFETY", errorMessage="no"),
        lambda p: (p.kind, p.error.code, str(p.error)),
        ("event", "SAFETY", "no"),
    ),
    ("an error event without a message", wire(errorCode="SAFETY"), lambda p: str(p.error), "SAFETY"),
    ("no error", wire("x"), lambda p: p.error, None),
    (
        "an event with an error's text",
        wire("x", error="boom"),
        lambda p: (p.kind, p.error.code, str(p.error)),
        ("event", "ERROR", "boom"),
    ),
    ("a null error", wire("x", error=None), lambda p: p.error, None),
    (
        "an error object of google-adk",
        {"error": "ValueError: no", "error_details": {"error_type": "ValueError"}},
        lambda p: (p.kind, str(p.error), p.error.details),
        ("error", "ValueError: no", {"error_type": "ValueError"}),
    ),
    (
        "an error object of Google",
        {"error": {"code": 429, "message": "slow down"}},
        lambda p: (p.kind, p.error.code, str(p.error)),
        ("error", "429", "slow down"),
    ),
    ("an error object without a message", {"error": {}}, lambda p: p.kind, "error"),
    (
        "an error object's event",
        {"error": "boom"},
        lambda p: (p.event.error_code, p.event.error_message, p.event.id),
        ("ERROR", "boom", ""),
    ),
    ("an empty object", {}, lambda p: (p.kind, p.event.author), ("event", "")),
    ("an unknown object", {"foo": 1}, lambda p: p.event.to_wire()["foo"], 1),
    ("what came", wire("x"), lambda p: p.raw, wire("x")),
]


@pytest.mark.parametrize(("data", "look", "expected"), [r[1:] for r in READ], ids=[r[0] for r in READ])
@pytest.mark.parametrize("validate", [False, True], ids=["read", "validated"])
def test_what_is_read(data: dict[str, Any], look: Look, expected: Any, validate: bool) -> None:
    """Validation makes no difference for events that are right; and they are right in strict terms."""
    assert look(parsed(data, validate=validate)) == expected
    assert look(parsed(data, validate=validate, strict=True)) == expected


HELLO = json.dumps(wire("hello"))
FRAMES: list[tuple[str, str | bytes]] = [
    ("text", HELLO),
    ("bytes", HELLO.encode()),
    ("spaces around", f" \n{HELLO}\r\n"),
    ("a byte order mark", f"\ufeff{HELLO}"),
    ("a data prefix", f"data: {HELLO}"),
    ("a data prefix without a space", f"data:{HELLO}"),
    ("a whole frame", f"data: {HELLO}\n\n"),
    ("a frame with CRLF", f"data: {HELLO}\r\n\r\n"),
    ("a frame with all fields", f": c\nid: 1\nretry: 5\nevent: message\ndata: {HELLO}\n\n"),
    ("several data lines", "".join(f"data: {line}\n" for line in json.dumps(wire("hello"), indent=1).split("\n"))),
    ("indented JSON", json.dumps(wire("hello"), indent=2)),
    ("a byte order mark before a frame", f"\ufeffdata: {HELLO}\n\n"),
]


@pytest.mark.parametrize("data", [f[1] for f in FRAMES], ids=[f[0] for f in FRAMES])
def test_payloads_lines_and_frames_are_taken(data: str | bytes) -> None:
    assert parsed(data, strict=True).text_content == "hello"


NOTHING: list[tuple[str, str | bytes]] = [
    ("empty", ""),
    ("empty bytes", b""),
    ("spaces", " \r\n\t"),
    ("a comment", ": ping"),
    ("a comment's frame", ": ping\n\n"),
    ("a comment without text", b":"),
    ("empty data", "data:"),
    ("empty data's frame", "data: \n\n"),
    ("a name alone", "event: ping\n\n"),
    ("an id alone", "id: 1\n\n"),
    ("retry alone", "retry: 100\n\n"),
    ("a byte order mark alone", "\ufeff"),
]


@pytest.mark.parametrize("data", [n[1] for n in NOTHING], ids=[n[0] for n in NOTHING])
def test_what_says_nothing_is_none(data: str | bytes, caplog: pytest.LogCaptureFixture) -> None:
    """Without a warning, and strict or not."""
    assert parse_event_sse(data) is None
    assert parse_event_sse(data, strict=True) is None
    assert not caplog.records


@pytest.mark.parametrize("data", ["[DONE]", b"[DONE]", "data: [DONE]\n\n", b"data:[DONE]", " [DONE] \n"])
def test_the_mark_of_the_end(data: str | bytes) -> None:
    end = parsed(data, strict=True)
    assert end.kind == "done"
    assert not end.is_final_response
    assert end.text_content == ""
    assert end.error is None


ERRORS: list[tuple[str, bytes, str]] = [
    ("adk-go", b'event: error\ndata: {"error":"msg"}\n\n', "msg"),
    ("text", b"event: error\ndata: it broke\n\n", "it broke"),
    ("nothing", b"event: error\ndata:\n\n", "The server reported an error without a message."),
    ("a number", b"event: error\ndata: 5\n\n", "5"),
    ("a message", b'event: error\ndata: {"message":"msg"}\n\n', "msg"),
    ("FastAPI", b'event: error\ndata: {"detail":"msg"}\n\n', "msg"),
    ("an event", b'event: error\ndata: {"author":"a","errorCode":"E","errorMessage":"msg"}\n\n', "msg"),
    ("broken JSON", b'event: error\ndata: {"error":\n\n', '{"error":'),
]


@pytest.mark.parametrize(("data", "message"), [e[1:] for e in ERRORS], ids=[e[0] for e in ERRORS])
def test_error_frames_are_typed(data: bytes, message: str) -> None:
    failed = parsed(data, strict=True)
    assert failed.kind == "error"
    assert isinstance(failed.error, EventStreamError)
    assert str(failed.error) == message
    assert failed.event.error_message == message
