"""Event handlers: the canonical and the legacy form, and the way from one to the other."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import examples
from stream_kit import json_objects, json_values, look_at, parsed, wire, wires, words

from flowloom import ConfigurationError, Event
from flowloom.client import EventStreamReader, ParsedEvent, create_event_handler
from flowloom.errors import EventParseError
from flowloom.interop.legacy import LegacyEvent, from_legacy, to_legacy

MODES = ["canonical", "legacy", "auto"]


def bare(data: dict[str, Any]) -> list[LegacyEvent]:
    """What older clients show of an event."""
    return to_legacy(Event.model_validate(data), full=False)


def read(kind: str, data: Any, mode: Any = "auto") -> ParsedEvent:
    (event,) = create_event_handler(mode).read(json.dumps({"type": kind, "data": data}))
    return event


# -- laws ------------------------------------------------------------------------------------------


@settings(max_examples=examples(300))
@given(data=wires)
def test_canonical_to_legacy_and_back_loses_nothing(data: dict[str, Any]) -> None:
    event = Event.model_validate(data)
    (back,) = from_legacy(json.loads(json.dumps(to_legacy(event))), strict=True)
    assert back.event.to_wire() == event.to_wire()


@given(data=st.lists(wires, max_size=4, unique_by=lambda data: data["id"]))
@pytest.mark.parametrize("mode", MODES)
def test_what_a_handler_writes_it_reads(mode: Any, data: list[dict[str, Any]]) -> None:
    """A whole stream, through its payloads."""
    events = [Event.model_validate(each) for each in data]
    handler = create_event_handler(mode, strict=True)
    payloads = [payload for event in events for payload in handler.write(event)]
    back = [event for payload in payloads for event in handler.read(payload)] + handler.close()
    assert [each.event.to_wire() for each in back] == [event.to_wire() for event in events]


def legacy(kind: str, data: Any) -> st.SearchStrategy[dict[str, Any]]:
    return st.fixed_dictionaries({"type": st.just(kind), "data": data})


links = st.fixed_dictionaries({"url": words.filter(bool), "title": words.filter(bool)})
named = {"id": words, "name": words}
shown = st.one_of(
    legacy(
        "message", st.fixed_dictionaries({"text": words}, optional={"author": words.filter(lambda a: a != "agent")})
    ),
    legacy("delta", st.fixed_dictionaries({"text": words})),
    legacy("thought", st.fixed_dictionaries({"text": words})),
    legacy("tool_call", st.fixed_dictionaries({**named, "args": json_objects})),
    legacy("tool_result", st.fixed_dictionaries({**named, "result": json_objects})),
    legacy("transfer", st.fixed_dictionaries({"agent": words})),
    legacy(
        "sources", st.lists(links, min_size=1, max_size=3, unique_by=lambda s: s["url"]).map(lambda s: {"sources": s})
    ),
    legacy("error", st.fixed_dictionaries({"message": words.filter(bool)}, optional={"code": words.filter(bool)})),
    legacy("done", st.just({})),
    legacy("something_else", json_values),
)


@given(given_objects=st.lists(shown, max_size=5))
def test_legacy_to_canonical_and_back_loses_nothing_that_is_shown(given_objects: list[dict[str, Any]]) -> None:
    events = from_legacy(given_objects, strict=True)
    assert [each for event in events for each in to_legacy(event, full=False)] == given_objects


KINDS = "message delta thought tool_call tool_result transfer sources error done metadata part event"
KEYS = "text id name args result agent sources event part fields author code"
payloads = st.one_of(
    shown.map(json.dumps),
    st.builds(lambda kind, data: json.dumps({"type": kind, "data": data}), words, json_values),
    st.builds(
        lambda kind, data: json.dumps({"type": kind, "data": data}),
        st.sampled_from(KINDS.split()),
        json_values | st.dictionaries(st.sampled_from(KEYS.split()), json_values),
    ),
    st.binary(max_size=20),
    wires.map(json.dumps),
)


@settings(max_examples=examples(400))
@given(given_payloads=st.lists(payloads, max_size=4), mode=st.sampled_from(MODES))
def test_nothing_that_comes_breaks_a_handler(given_payloads: list[str | bytes], mode: Any) -> None:
    handler = create_event_handler(mode)
    events = [event for payload in given_payloads for event in handler.read(payload)] + handler.close()
    for event in events:
        look_at(event)
        handler.write(event)


# -- the table -------------------------------------------------------------------------------------

WRITTEN: list[tuple[str, dict[str, Any], list[dict[str, Any]]]] = [
    ("text", wire("hi", author="agent"), [{"type": "message", "data": {"text": "hi"}}]),
    ("an author", wire("hi"), [{"type": "message", "data": {"text": "hi", "author": "root"}}]),
    ("partial text", wire("hi", author="agent", partial=True), [{"type": "delta", "data": {"text": "hi"}}]),
    (
        "a thought",
        wire({"text": "hm", "thought": True}, author="agent"),
        [{"type": "thought", "data": {"text": "hm"}}],
    ),
    (
        "a call",
        wire({"functionCall": {"id": "c", "name": "add", "args": {"a": 1}}}, author="agent"),
        [{"type": "tool_call", "data": {"id": "c", "name": "add", "args": {"a": 1}}}],
    ),
    (
        "a result",
        wire({"functionResponse": {"id": "c", "name": "add", "response": {"sum": 1}}}, author="agent"),
        [{"type": "tool_result", "data": {"id": "c", "name": "add", "result": {"sum": 1}}}],
    ),
    (
        "a transfer",
        wire(author="agent", actions={"transferToAgent": "b"}),
        [{"type": "transfer", "data": {"agent": "b"}}],
    ),
    (
        "sources",
        wire(author="agent", groundingMetadata={"groundingChunks": [{"web": {"uri": "u", "title": "t"}}]}),
        [{"type": "sources", "data": {"sources": [{"url": "u", "title": "t"}]}}],
    ),
    (
        "a page that was read",
        wire(
            author="agent",
            urlContextMetadata={
                "urlMetadata": [
                    {"retrievedUrl": "u", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_SUCCESS"},
                    {"retrievedUrl": "v", "urlRetrievalStatus": "URL_RETRIEVAL_STATUS_ERROR"},
                ]
            },
        ),
        [{"type": "sources", "data": {"sources": [{"url": "u", "title": "u"}]}}],
    ),
    (
        "an error",
        wire(author="agent", errorCode="E", errorMessage="no"),
        [{"type": "error", "data": {"code": "E", "message": "no"}}],
    ),
    (
        "several things",
        wire("a", {"functionCall": {"name": "x"}}, author="agent"),
        [{"type": "message", "data": {"text": "a"}}, {"type": "tool_call", "data": {"name": "x"}}],
    ),
    ("what older clients do not show", wire({"inlineData": {"data": "AQ=="}}, turnComplete=True), []),
]


@pytest.mark.parametrize(("data", "objects"), [w[1:] for w in WRITTEN], ids=[w[0] for w in WRITTEN])
def test_what_older_clients_are_shown(data: dict[str, Any], objects: list[dict[str, Any]]) -> None:
    assert bare(data) == objects


@pytest.mark.parametrize("given_text", ["[DONE]", '{"error":"boom","error_details":{"a":1}}'])
@pytest.mark.parametrize("mode", MODES)
def test_ends_and_errors_go_through_both_forms(given_text: str, mode: Any) -> None:
    event = parsed(given_text)
    handler = create_event_handler(mode)
    (back,) = [each for payload in handler.write(event) for each in handler.read(payload)]
    assert back.kind == event.kind
    assert str(back.error) == str(event.error)
    assert event.error is None or (back.error is not None and back.error.details == event.error.details)


READ: list[tuple[str, str, Any, dict[str, Any]]] = [
    ("text alone", "message", "hi", wire("hi")),
    ("a delta", "delta", {"text": "hi"}, wire("hi", partial=True)),
    (
        "a result that is no object",
        "tool_result",
        {"id": "c", "result": 5},
        wire(content={"role": "user", "parts": [{"functionResponse": {"id": "c", "response": {"result": 5}}}]}),
    ),
    (
        "sources",
        "sources",
        {"sources": [{"url": "u"}, {"url": "v", "title": "V"}, 5]},
        wire(
            groundingMetadata={
                "groundingChunks": [{"web": {"uri": "u", "title": "u"}}, {"web": {"uri": "v", "title": "V"}}]
            }
        ),
    ),
    (
        "usage",
        "metadata",
        {"fields": {"usageMetadata": {"totalTokenCount": 3}}},
        wire(usageMetadata={"totalTokenCount": 3}),
    ),
    ("a part", "part", {"part": {"fileData": {"fileUri": "u"}}}, wire({"fileData": {"fileUri": "u"}})),
]


@pytest.mark.parametrize(("kind", "data", "expected"), [r[1:] for r in READ], ids=[r[0] for r in READ])
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_what_older_servers_write_is_read(kind: str, data: Any, expected: dict[str, Any], mode: Any) -> None:
    mine = read(kind, data, mode).event.to_wire()
    given_ids = ("id", "timestamp", "invocationId")
    wanted = {**Event.model_validate(expected).to_wire(), "author": "agent"}
    assert {k: v for k, v in mine.items() if k not in given_ids} == {
        k: v for k, v in wanted.items() if k not in given_ids
    }


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("text_delta", {"text": "hi"}),
        ("function_call", {"name": "x"}),
        ("handoff", {"agent": "b"}),
        ("message", {"content": "hi"}),
        ("transfer", {"to": "b"}),
        ("sources", ["u"]),
        ("metadata", {"usageMetadata": {"totalTokenCount": 3}}),
    ],
)
@pytest.mark.parametrize("mode", ["legacy", "auto"])
def test_a_form_that_the_legacy_form_does_not_have_is_kept_as_it_came(kind: str, data: Any, mode: Any) -> None:
    """No type and no field has a second name; what is not known is kept, and not guessed at."""
    event = read(kind, data, mode)
    assert event.event.content is None
    assert event.event.custom_metadata == {"legacy": {"type": kind, "data": data}}


@pytest.mark.parametrize("given", [{"type": "hm"}, {"type": "message"}, {"type": "done"}])
def test_what_holds_nothing_of_an_event_belongs_to_none(given: dict[str, Any]) -> None:
    """Also if it says that it does."""
    (event,) = create_event_handler("legacy").read(json.dumps(given | {"data": {"event": {"id": "e", "more": True}}}))
    assert event.event.content is None


def test_the_fields_of_a_call_have_one_name_each() -> None:
    (called,) = read("tool_call", {"call_id": "c", "name": "x", "arguments": {"a": 1}}).function_calls
    assert (called.id, called.name, called.args) == (None, "x", None)


@pytest.mark.parametrize("objects", ["text", [3], [None], [["type", "data"]]])
def test_what_is_no_object_is_refused(objects: Any) -> None:
    with pytest.raises(EventParseError, match='"type" and "data"'):
        from_legacy(objects)


def test_data_stands_under_data() -> None:
    with pytest.raises(EventParseError, match='"type" and "data"'):
        create_event_handler("legacy", strict=True).read('{"type": "message", "text": "hi"}')


def test_a_done_and_an_error_of_older_servers() -> None:
    """An end has no data."""
    (done,) = create_event_handler().read('{"type": "done"}')
    assert done.kind == "done"
    assert read("done", {}).kind == "done"
    failed = read("error", "boom")
    assert (failed.kind, str(failed.error)) == ("error", "boom")


# -- handlers --------------------------------------------------------------------------------------


def test_an_event_of_several_objects_comes_when_the_last_one_is_there() -> None:
    first, second, last = create_event_handler("legacy").write(Event.model_validate(wire("a", "b", turnComplete=True)))
    handler = create_event_handler("legacy")
    assert handler.read(first) == handler.read(second) == []
    (event,) = handler.read(last)
    assert event.text_content == "ab"


def test_an_event_whose_last_objects_are_missing_comes_at_the_end() -> None:
    first, *_ = create_event_handler("legacy").write(Event.model_validate(wire("a", "b")))
    handler = create_event_handler("legacy")
    assert handler.read(first) == []
    assert [each.text_content for each in handler.close()] == ["a"]
    assert handler.close() == []


@pytest.mark.parametrize("following", ['{"type": "delta", "data": "c"}', json.dumps(wire("c")), "[DONE]"])
def test_an_event_whose_last_objects_are_missing_comes_before_the_next_one(following: str) -> None:
    first, *_ = create_event_handler("legacy").write(Event.model_validate(wire("a", "b")))
    handler = create_event_handler()
    handler.read(first)
    before, after = handler.read(following)
    assert before.text_content == "a"
    assert after.kind == "done" or after.text_content == "c"


def test_auto_reads_both_forms_and_writes_the_one_that_came_last() -> None:
    handler = create_event_handler("auto")
    event = Event.model_validate(wire("hi"))
    canonical = handler.write(event)
    handler.read('{"type": "delta", "data": "c"}')
    in_legacy = handler.write(event)
    handler.read(json.dumps(wire("c")))
    assert handler.write(event) == canonical
    assert json.loads(canonical[0])["author"] == "root"
    assert json.loads(in_legacy[0])["type"] == "message"


def test_an_event_with_a_type_is_an_event() -> None:
    (event,) = create_event_handler("auto").read(json.dumps(wire("hi", type="message", data={"text": "no"})))
    assert event.text_content == "hi"


def test_an_unknown_mode_is_refused() -> None:
    with pytest.raises(ConfigurationError, match="`canonical`, `legacy` and `auto`"):
        create_event_handler("older")  # type: ignore[arg-type]


@pytest.mark.parametrize("mode", MODES)
def test_strict_handlers_raise(mode: Any) -> None:
    with pytest.raises(EventParseError):
        create_event_handler(mode, strict=True).read("{broken")


def test_a_strict_legacy_handler_refuses_the_canonical_form() -> None:
    with pytest.raises(EventParseError, match="legacy form"):
        create_event_handler("legacy", strict=True).read(json.dumps(wire("hi")))


def test_validation_is_passed_on(caplog: pytest.LogCaptureFixture) -> None:
    """An event that is wrong in one place: read without it, or refused."""
    wrong = json.dumps({"type": "message", "data": {"text": 5}})
    assert len(create_event_handler("auto").read(wrong)) == 1
    assert create_event_handler("auto", validate=True).read(wrong) == []
    assert len(caplog.records) == 2


def test_a_legacy_stream_through_the_reader() -> None:
    objects = [{"type": "delta", "data": "he"}, {"type": "delta", "data": "llo"}, {"type": "message", "data": "hello"}]
    stream = "".join(f"data: {json.dumps(each)}\n\n" for each in objects) + "data: [DONE]\n\n"
    events = list(EventStreamReader(stream).events())
    assert [(each.text_content, bool(each.event.partial)) for each in events] == [
        ("he", True),
        ("llo", True),
        ("hello", False),
        ("", False),
    ]
