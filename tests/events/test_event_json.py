"""Events as JSON: ADK's wire form, what other writers wrote, and what this release does not know (cases, area 23)."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from google.genai import types
from hypothesis import given
from hypothesis import strategies as st
from kit import event, named_call, said, text
from pydantic import ValidationError

from flowloom import Event, EventActions, LlmResponse
from flowloom.events.event_json import read_event


def read(**fields: Any) -> Event:
    return Event.model_validate({"author": "root", "invocationId": "i", "id": "e", "timestamp": 1.0, **fields})


def test_the_names_are_adks() -> None:
    """Key set pinned: camelCase, nulls left out."""
    full = Event(
        author="root",
        invocation_id="i",
        content=said("x"),
        actions=EventActions(state_delta={"a": 1}, transfer_to_agent="b", skip_summarization=True),
        long_running_tool_ids=["c"],
        branch="a.b",
        isolation_scope="t",
        error_code="E",
        usage_metadata=types.GenerateContentResponseUsageMetadata(total_token_count=1),
    )
    wire = full.to_wire()
    assert set(wire) == {
        "author",
        "invocationId",
        "content",
        "actions",
        "longRunningToolIds",
        "branch",
        "isolationScope",
        "errorCode",
        "usageMetadata",
        "id",
        "timestamp",
    }
    assert set(wire["actions"]) >= {"stateDelta", "transferToAgent", "skipSummarization"}


def test_an_empty_event_has_five_keys() -> None:
    assert set(Event(author="a").to_wire()) == {"actions", "author", "id", "invocationId", "timestamp"}


def test_bytes_are_base64_and_come_back() -> None:
    blob = types.Part(inline_data=types.Blob(data=b"\xfb\xff\x00", mime_type="x/y"))
    wire = event("root", blob, types.Part(text="t", thought_signature=b"\x01")).to_wire()
    back = Event.model_validate(wire)
    assert back.content is not None
    assert back.content.parts is not None
    assert back.content.parts[0].inline_data == blob.inline_data
    assert back.content.parts[1].thought_signature == b"\x01"


def test_round_trip() -> None:
    given = event("root", "words", named_call("c1", "use", a=[1, {"b": None}]), branch="x", timestamp=12.5)
    assert Event.model_validate_json(given.model_dump_json(by_alias=True, exclude_none=True)) == given


def test_unknown_fields_survive_at_any_depth() -> None:
    """Decision 25: what a newer release wrote is not lost."""
    wire: dict[str, Any] = {
        "author": "root",
        "invocationId": "i",
        "id": "e",
        "timestamp": 1.0,
        "brandNew": {"x": 1},
        "actions": {"stateDelta": {}, "newAction": [1]},
        "content": {"role": "model", "parts": [{"text": "a", "newPart": {"y": 2}}], "newContent": True},
        "usageMetadata": {"totalTokenCount": 1, "newCount": 9},
    }
    again = Event.model_validate(wire).to_wire()
    assert again["brandNew"] == {"x": 1}
    assert again["actions"]["newAction"] == [1]
    assert again["content"]["parts"][0] == {"text": "a", "newPart": {"y": 2}}
    assert again["content"]["newContent"] is True
    assert again["usageMetadata"]["newCount"] == 9


def test_an_unknown_field_takes_no_place_of_one_that_is_spelled_nearly_like_it() -> None:
    """Names in another case are those of known fields only where there is none of that very name."""
    wire = {"author": "root", "content": {"role": "model", "parts": [{"text": "a", "Text": "b"}]}}
    assert Event.model_validate(wire).to_wire()["content"] == wire["content"]


def test_unknown_fields_are_left_out_of_copies_that_no_longer_hold_what_they_were_in() -> None:
    call: dict[str, Any] = {"name": "use", "args": {}, "newKind": 1}
    event = Event.model_validate({"author": "root", "content": {"parts": [{"functionCall": call}, {"text": "b"}]}})
    assert event.to_wire()["content"]["parts"][0]["functionCall"]["newKind"] == 1
    for parts in ([types.Part(text="c")], []):
        copied = event.model_copy(update={"content": types.Content(parts=parts)})
        assert "newKind" not in copied.model_dump_json()


MOMENT = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC).timestamp()
TIMES: list[tuple[str, Any, float]] = [
    ("RFC3339", "2026-01-02T03:04:05Z", MOMENT),
    ("RFC3339 with an offset", "2026-01-02T04:04:05+01:00", MOMENT),
    ("ms", "2026-01-02T03:04:05.250Z", MOMENT + 0.25),
    ("int", 7, 7.0),
    ("fraction", 7.25, 7.25),
    ("exponent", 1e9, 1e9),
    ("0", 0, 0.0),
    ("negative", -5.5, -5.5),
    ("null", None, 0.0),
]


@pytest.mark.parametrize(("value", "seconds"), [t[1:] for t in TIMES], ids=[t[0] for t in TIMES])
def test_times_that_are_read(value: Any, seconds: float) -> None:
    assert read(timestamp=value).timestamp == seconds


@pytest.mark.parametrize("value", ["yesterday", {"seconds": 1}, 1e30, MOMENT * 1000, True, "nan"])
def test_times_that_are_none(value: Any) -> None:
    """Invalid, objects, huge, millis | error."""
    with pytest.raises(ValidationError):
        read(timestamp=value)


def test_an_absent_time_is_now() -> None:
    assert Event.model_validate({"author": "a"}).timestamp > MOMENT - 1e9


def test_what_adk_go_wrote_under_gos_names_is_read() -> None:
    """Legacy Go-cased names."""
    old = Event.model_validate(
        {
            "ID": "e1",
            "InvocationID": "i1",
            "Author": "root",
            "Branch": "a.b",
            "LongRunningToolIDs": ["c1"],
            "Content": {"role": "model", "parts": [{"text": "x"}]},
            "Actions": {"stateDelta": {"k": 1}},
            "NodeInfo": None,
        }
    )
    assert (old.id, old.invocation_id, old.author, old.branch) == ("e1", "i1", "root", "a.b")
    assert (old.text, old.long_running_tool_ids, old.actions.state_delta) == ("x", ["c1"], {"k": 1})


@pytest.mark.parametrize("name", ["invocation_id", "invocationId", "InvocationID", "Invocation_Id", "INVOCATION_ID"])
def test_a_name_is_read_in_any_case(name: str) -> None:
    """Validation takes the names of fields in the cases that the reader of stored events does."""
    data = {"author": "root", name: "inv", "timestamp": 1.0}
    assert Event.model_validate(data).invocation_id == read_event(data)[0].invocation_id == "inv"


def test_names_in_another_case_are_read_beside_what_is_not_known() -> None:
    """An unknown field makes no difference to the others."""
    data = {"author": "root", "content": {"parts": [{"text": "a", "brandNew": 1}]}, "actions": {"StateDelta": {"k": 1}}}
    event, left_out = read_event(data)
    assert (event.actions.state_delta, left_out) == ({"k": 1}, {})
    assert event.to_wire()["content"] == data["content"]


def test_what_is_unknown_in_citations_survives_under_the_name_that_they_are_written_with() -> None:
    """The Gemini API calls `citationSources` what google-genai writes as `citations`."""
    data = {"author": "root", "citationMetadata": {"citationSources": [{"uri": "u", "brandNew": 1}]}}
    for made in (read_event(data)[0], Event.model_validate(data)):
        assert made.to_wire()["citationMetadata"] == {"citations": [{"uri": "u", "brandNew": 1}]}


def test_nulls_stand_for_what_is_empty() -> None:
    """Empty nodeInfo -> none; null actions, and nulls in them -> empty ones."""
    for actions in (None, {"stateDelta": None, "transferToAgent": None}):
        empty = read(nodeInfo={}, actions=actions, content=None)
        assert empty.node_info is None
        assert empty.actions == EventActions()


def test_adk_1_writes_a_set_of_ids() -> None:
    assert read(longRunningToolIds={"b", "a"}).long_running_tool_ids == ["a", "b"]


def test_an_error_object_is_never_in_json() -> None:
    response = LlmResponse(error_code="E", error=ValueError("secret"))
    assert "secret" not in response.model_dump_json()
    assert set(response.to_wire()) == {"errorCode"}


def test_ids_and_times_are_made_and_actions_are_the_events_own() -> None:
    """Defaults: id, time, non-nil deltas."""
    first, second = Event(author="a"), Event(author="a")
    assert first.id != second.id
    assert (first.actions.state_delta, first.actions.artifact_delta) == ({}, {})
    assert first.actions is not second.actions


PARTS = {
    "text": text("x"),
    "FC": named_call("c", "x"),
    "FR": types.Part(function_response=types.FunctionResponse(id="c", name="x", response={})),
    "trailing code result": types.Part(
        code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1")
    ),
}
FINALS: list[tuple[str, Event, bool]] = [
    ("skipSummarization", event("a", PARTS["FR"], actions={"skip_summarization": True}), True),
    ("LRO ids", event("a", PARTS["FC"], long_running_tool_ids=["c"]), True),
    ("FC", event("a", PARTS["FC"]), False),
    ("FR", event("a", PARTS["FR"]), False),
    ("partial", event("a", PARTS["text"], partial=True), False),
    ("trailing code result", event("a", PARTS["text"], PARTS["trailing code result"]), False),
    ("text", event("a", PARTS["text"]), True),
    ("text after a code result", event("a", PARTS["trailing code result"], PARTS["text"]), True),
    ("error", event("a", error_code="E"), True),
]


@pytest.mark.parametrize(("given_event", "final"), [f[1:] for f in FINALS], ids=[f[0] for f in FINALS])
def test_what_ends_a_turn(given_event: Event, final: bool) -> None:
    assert given_event.is_final_response() is final


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)


@given(state=st.dictionaries(st.text(), JSON, max_size=4), args=st.dictionaries(st.text(min_size=1), JSON, max_size=3))
def test_any_state_and_arguments_come_back(state: dict[str, Any], args: dict[str, Any]) -> None:
    call = types.Part(function_call=types.FunctionCall(id="c", name="x", args=args))
    given = event("root", call, actions={"state_delta": state}, timestamp=1.0)
    back = Event.model_validate_json(given.model_dump_json(by_alias=True))
    assert back.actions.state_delta == state
    assert back.get_function_calls()[0].args == args
