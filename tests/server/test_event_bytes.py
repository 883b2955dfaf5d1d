"""Events as bytes: written from their fields, and the same as their types write them (server spec §5)."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types

from flowloom import Event, EventActions
from flowloom.events import LlmResponse
from flowloom.events.actions import EventCompaction, InputRequest, ToolConfirmation
from flowloom.events.event import NodeInfo
from flowloom.server.wire import event_json
from flowloom.testing import call


def event(*parts: types.Part, **fields: Any) -> Event:
    """An event of these parts."""
    return Event(author="desk", content=types.Content(role="model", parts=list(parts)), **fields)


class Odd:
    """What JSON has no form for."""

    def __repr__(self) -> str:
        return "an odd thing"


class OwnEvent(Event):
    """An event with a field of its own."""

    mood: str = "calm"


EVENTS = {
    "nothing": Event(),
    "a chunk": event(types.Part(text="one \u2028 word")).model_copy(update={"partial": True}),
    "a thought": event(types.Part(text="hm", thought=True, thought_signature=b"\xff\xfe\x00")),
    "a call": event(call("clock", city="Rome", none=None, deep={"none": None, "list": [None, 1]})),
    "bytes": event(types.Part(inline_data=types.Blob(data=b"\x89PNG\xff\xfe", mime_type="image/png"))),
    "an error": Event(error_code="X", error_message="y", error=ValueError("not told"), interrupted=True),
    "usage": Event(usage_metadata=types.GenerateContentResponseUsageMetadata(prompt_token_count=3)),
    "a reason": Event(finish_reason=types.FinishReason.MAX_TOKENS, turn_complete=False),
    "numbers": Event(avg_logprobs=float("nan"), custom_metadata={"inf": float("inf"), "big": 2**70, "none": None}),
    "odd data": Event(custom_metadata={"odd": Odd(), "bytes": b"\xff\xfe", "set": {1}, "deep": {3: "three"}}),
    "actions": Event(
        actions=EventActions(
            state_delta={"none": None, "odd": Odd(), "nan": float("nan")},
            artifact_delta={"note.txt": 0},
            requested_tool_confirmations={"c1": ToolConfirmation(hint="?", payload={"none": None})},
            requested_inputs={"c2": InputRequest(message="not told")},
            compaction=EventCompaction(
                start_timestamp=1, end_timestamp=2, compacted_content=types.Content(parts=[types.Part(text="short")])
            ),
            transfer_to_agent="flights",
            skip_summarization=True,
        )
    ),
    "a place": Event(node_info=NodeInfo(path="desk@1"), long_running_tool_ids=["c1"], branch="a.b"),
    "unknown fields": Event.model_validate({"author": "desk", "newField": {"deep": None}, "actions": {"newAction": 1}}),
    "unknown below": Event.model_validate({"content": {"role": "model", "parts": [{"text": "x", "newPart": 1}]}}),
    "of a response": Event.carrying(
        LlmResponse(content=types.Content(parts=[types.Part(text="x")])),
        {"id": "e1", "timestamp": 1.5, "actions": EventActions(), "author": "desk", "invocation_id": "i"},
    ),
    "of a class of its own": OwnEvent(author="desk"),
}


@pytest.mark.parametrize("told", EVENTS.values(), ids=EVENTS)
def test_an_event_is_told_as_its_type_writes_it(told: Event) -> None:
    """Byte for byte, but for what google-adk's clients refuse."""
    written = told.model_dump_json(
        by_alias=True, exclude_none=True, exclude={"actions": {"requested_inputs"}}, fallback=repr
    ).encode()
    if told.node_info is None:
        written = written[:-1] + b',"nodeInfo":{"path":""}}'
    assert event_json(told) == written
