"""Events as stores keep them: read fast, and as they are read anywhere else."""

from __future__ import annotations

import gc
import json
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from flowloom import Event, EventActions
from flowloom.errors import JsonDataError, StorageError
from flowloom.events.event_json import read_event
from flowloom.sessions.codec import decode_event, decode_events, decode_value, encode_event, encode_value

texts = st.text(max_size=20)
data = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=5,
)
objects = st.dictionaries(texts, data, max_size=3)
counts = st.none() | st.integers(0, 10**6)
parts = st.one_of(
    st.builds(types.Part, text=texts, thought=st.none() | st.booleans()),
    st.builds(types.Part, text=texts, thought_signature=st.none() | st.binary(max_size=5)),
    st.builds(types.Part, function_call=st.builds(types.FunctionCall, id=texts, name=texts, args=objects)),
    st.builds(types.Part, function_call=st.builds(types.FunctionCall, name=texts, args=st.none() | objects)),
    st.builds(
        types.Part,
        function_response=st.builds(types.FunctionResponse, id=st.none() | texts, name=texts, response=objects),
    ),
    st.builds(types.Part, inline_data=st.builds(types.Blob, data=st.binary(max_size=5), mime_type=st.just("a/b"))),
)
usages = st.none() | st.builds(
    types.GenerateContentResponseUsageMetadata,
    prompt_token_count=counts,
    candidates_token_count=counts,
    thoughts_token_count=counts,
    total_token_count=counts,
    traffic_type=st.none() | st.sampled_from(types.TrafficType),
)
often: dict[str, Any] = {
    "id": texts,
    "invocation_id": texts,
    "author": texts,
    "timestamp": st.floats(0, 2e9),
    "usage_metadata": usages,
    "finish_reason": st.none() | st.sampled_from(types.FinishReason),
    "model_version": st.none() | texts,
    "branch": st.none() | texts,
    "isolation_scope": st.none() | texts,
    "long_running_tool_ids": st.none() | st.lists(texts, max_size=2),
}
common = st.builds(
    Event,
    content=st.builds(types.Content, role=texts, parts=st.lists(parts, max_size=3)),
    actions=st.builds(EventActions, state_delta=objects),
    **often,
)
"""Of the shapes that are read fast."""
events = common | st.builds(
    Event,
    content=st.none() | st.builds(types.Content, role=st.none() | texts, parts=st.none() | st.lists(parts, max_size=3)),
    actions=st.builds(
        EventActions,
        state_delta=objects,
        artifact_delta=st.dictionaries(texts, st.integers(0, 9), max_size=2),
        escalate=st.none() | st.booleans(),
        transfer_to_agent=st.none() | texts,
    ),
    error_code=st.none() | texts,
    custom_metadata=st.none() | objects,
    **often,
)


def inside(value: Any) -> Any:
    """All that a value is made of: fields, which of them were given, what came beside them, at any depth."""
    if isinstance(value, BaseModel):
        fields = {name: inside(each) for name, each in vars(value).items()}
        return (
            type(value),
            fields,
            sorted(value.__pydantic_fields_set__),
            value.__pydantic_extra__,
            value.__pydantic_private__,
        )
    if isinstance(value, list):
        return [inside(each) for each in value]
    if isinstance(value, dict):
        return {key: inside(each) for key, each in value.items()}
    return (type(value), value)


@given(events)
def test_events_are_read_as_anywhere_else(event: Event) -> None:
    """The fast reader and the one for all events make the same of what is stored."""
    text = encode_event(event)
    assert inside(decode_event(text)) == inside(read_event(json.loads(text))[0])


@given(st.floats(1e-9, 1e10) | st.floats(1.7e9, 1.9e9) | st.integers(0, 4 * 10**15).map(lambda number: number / 1e6))
def test_times_are_read_as_anywhere_else(time: float) -> None:
    """To the microsecond, whatever more the text has."""
    stored = json.loads(
        encode_event(Event(author="a", invocation_id="i", content=types.Content(role="user", parts=[])))
    )
    stored["timestamp"] = time
    assert decode_event(json.dumps(stored)).timestamp == read_event(stored)[0].timestamp


@given(events)
def test_events_come_back_as_they_were(event: Event) -> None:
    assert decode_event(encode_event(event)).to_wire() == event.to_wire()


@given(data)
def test_values_of_state_come_back_as_they_were(value: Any) -> None:
    assert decode_value(encode_value(value)) == value


@pytest.mark.parametrize("name", ["unheardOf", "content", "usageMetadata", "actions"])
def test_what_a_later_release_wrote_is_kept(name: str) -> None:
    """An unknown field, at the top or below, survives being read and written."""
    stored = json.loads(
        encode_event(Event(author="a", content=types.Content(role="model", parts=[types.Part(text="x")])))
    )
    stored[name] = {**stored.get(name, {}), "unheardOf": {"a": [1]}}
    assert json.loads(encode_event(decode_event(json.dumps(stored))))[name]["unheardOf"] == {"a": [1]}


def test_half_a_surrogate_pair_is_replaced() -> None:
    """It has no encoding; the rest of the event is kept."""
    event = Event(author="a", content=types.Content(role="model", parts=[types.Part(text="x\ud800y")]))
    assert decode_event(encode_event(event)).text == "x\ufffdy"
    assert decode_value(encode_value({"a": "x\ud800y"})) == {"a": "x\ufffdy"}


def test_what_json_cannot_hold_is_stored_by_its_repr() -> None:
    event = Event(author="a", actions=EventActions(state_delta={"a": 1j}))
    assert decode_event(encode_event(event)).actions.state_delta == {"a": "1j"}
    assert decode_value(encode_value({"a": 1j})) == {"a": "1j"}


@pytest.mark.parametrize("text", ["", "{", "[]", "1", '{"content": 3, "id": {}'])
def test_a_text_that_is_no_event_is_an_error(text: str) -> None:
    with pytest.raises(StorageError, match="cannot be read"):
        decode_event(text)


@pytest.mark.parametrize("frozen", [False, True])
def test_what_was_read_is_not_looked_through_as_young_objects_are(frozen: bool) -> None:
    """Unless the program keeps objects frozen, which stay so."""
    rows = [(encode_event(Event(author="a")),)] * 600
    if not frozen:
        gc.unfreeze()
        gc.collect()
    try:
        before = gc.get_freeze_count()
        events = decode_events(rows)
        old = {id(each) for each in gc.get_objects(generation=2)}
        assert frozen or all(id(event) in old for event in events)
        assert gc.get_freeze_count() == before
    finally:
        gc.freeze()  # as the tests began


@pytest.mark.parametrize("on", [True, False])
def test_the_collector_is_left_as_it_was(on: bool) -> None:
    """Reading many events holds it off, whatever comes of it."""
    rows = [(encode_event(Event(author="a")),)] * 600
    was = gc.isenabled()
    try:
        (gc.enable if on else gc.disable)()
        assert len(decode_events(rows)) == 600
        assert gc.isenabled() is on
        with pytest.raises(StorageError):
            decode_events([*rows, ("{",)])
        assert gc.isenabled() is on
    finally:
        (gc.enable if was else gc.disable)()


def test_an_event_that_json_cannot_hold_is_a_typed_error() -> None:
    """The error names the event; nothing of it is written."""
    loop: dict[str, Any] = {}
    loop["me"] = loop
    with pytest.raises(JsonDataError, match="Event `e1` of `ann`"):
        encode_event(Event(id="e1", author="ann", custom_metadata=loop))
    with pytest.raises(JsonDataError):
        encode_value(loop)
