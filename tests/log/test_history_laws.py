"""The incremental history is the from-scratch one, for any log, at any time (spec §9, contract of the house)."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import event, examples, named_call, result, text

from flowloom import Event, EventActions
from flowloom.events import EventCompaction
from flowloom.log import Viewer
from flowloom.log.history import History, project

AUTHORS = st.sampled_from(["user", "root", "root", "helper"])
IDS = st.sampled_from(["c1", "c2", "c3", "adk-4", None])
NAMES = st.sampled_from(["note", "note", "adk_request_confirmation", "transfer_to_agent"])
BRANCHES = st.sampled_from([None, None, "side.a", "side.b", "side.a.x"])
SCOPES = st.sampled_from([None, None, None, "c1"])


@st.composite
def parts(draw: st.DrawFn) -> types.Part:
    kind = draw(st.sampled_from(["text", "empty", "thought", "call", "call", "response", "response", "blob"]))
    if kind == "call":
        call = types.FunctionCall(id=draw(IDS), name=draw(NAMES), args={"n": draw(st.integers(0, 3))})
        return types.Part(function_call=call)
    if kind == "response":
        return result(draw(IDS), draw(NAMES), {"n": draw(st.integers(0, 3))})
    if kind == "blob":
        return types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    return text("" if kind == "empty" else draw(st.sampled_from(["a", "b"])), thought=kind == "thought" or None)


@st.composite
def events(draw: st.DrawFn, number: int) -> Event:
    author = draw(AUTHORS)
    fields: dict[str, Any] = {
        "author": author,
        "invocation_id": f"i{number // 3}",
        "timestamp": float(number),
        "branch": draw(BRANCHES),
        "isolation_scope": draw(SCOPES),
    }
    kind = draw(st.integers(0, 19))
    if kind == 0:
        fields["actions"] = EventActions(rewind_before_invocation_id=f"i{draw(st.integers(0, 4))}")
        return Event(**fields)
    if kind == 1:
        first = draw(st.integers(0, number))
        summary = types.Content(role="model", parts=[text("in short")])
        compaction = EventCompaction(
            start_timestamp=first, end_timestamp=draw(st.integers(first, number)), compacted_content=summary
        )
        return Event(**fields | {"actions": EventActions(compaction=compaction)})
    if kind == 2:
        heard = types.Transcription(text=draw(st.sampled_from(["hello", "you"])))
        return Event(**fields, **{draw(st.sampled_from(["input_transcription", "output_transcription"])): heard})
    if kind == 3:
        return Event(**fields)
    said = draw(st.lists(parts(), min_size=1, max_size=3))
    if author == "user":
        said = [part for part in said if part.function_call is None] or [text("go on")]
    ids = [part.function_call.id for part in said if part.function_call is not None and part.function_call.id]
    if author == "root" and ids and draw(st.booleans()):
        fields["long_running_tool_ids"] = ids[:1]
    responds = any(part.function_response is not None for part in said)
    role = "user" if author == "user" or responds else "model"
    return Event(**fields, content=types.Content(role=role, parts=said))


@st.composite
def logs(draw: st.DrawFn) -> list[Event]:
    return [draw(events(number)) for number in range(draw(st.integers(0, 12)))]


VIEWERS = st.builds(
    Viewer,
    agent=st.just("root"),
    branch=st.sampled_from([None, "side.a"]),
    isolation_scope=st.sampled_from([None, None, "c1"]),
    current_turn_only=st.booleans(),
    keeps_call_ids=st.booleans(),
    foreign_thoughts=st.booleans(),
)


@settings(max_examples=examples(400), deadline=None)
@given(log=logs(), viewer=VIEWERS, steps=st.lists(st.integers(1, 4), max_size=12))
def test_the_history_as_it_grows_is_the_one_built_at_once(log: list[Event], viewer: Viewer, steps: list[int]) -> None:
    """Looking at a log after any of its events changes nothing about what is seen later."""
    history, seen = History(), 0
    for step in [*steps, len(log)]:
        seen = min(len(log), seen + step)
        grown, whole = history.contents(log[:seen], viewer), project(log[:seen], viewer)
        assert grown.contents == whole.contents
        assert grown.special == whole.special
        assert grown.orphans == whole.orphans


CALLS = [named_call("c1", "look"), named_call("c2", "look")]
RESULTS = [result("c1", "look", {}), result("c2", "look", {})]
ANY = [
    event("user", "words"),
    event("root", types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))),
    event("root", CALLS[0]),
    event("root", CALLS[0], long_running_tool_ids=["c1"]),
    event("root", "words", *CALLS, long_running_tool_ids=["c2"]),
    event("user", RESULTS[0], "words"),
    event("user", *RESULTS),
    event("user", *reversed(RESULTS)),
    event("helper", CALLS[0]),
]


@pytest.mark.parametrize("current_turn_only", [False, True])
def test_any_three_events_are_shown_alike_however_they_come(current_turn_only: bool) -> None:
    """At once, or one after the other."""
    viewer = Viewer("root", current_turn_only=current_turn_only)
    for log in product(ANY, repeat=3):
        once, by_one = History(), History()
        for seen in (1, 2):
            by_one.contents(log[:seen], viewer)
        for history in (once, by_one):
            assert history.contents(log, viewer).contents == project(log, viewer).contents


@settings(max_examples=examples(200), deadline=None)
@given(log=logs(), viewer=VIEWERS)
def test_what_a_model_is_shown_has_every_call_answered_right_behind_it(log: list[Event], viewer: Viewer) -> None:
    """Each response stands behind the content that called; a call without one waits for a long-running tool."""
    waiting = {call_id for event in log for call_id in event.long_running_tool_ids or ()}
    shown = project(log, viewer._replace(keeps_call_ids=True)).contents
    called: set[str] = set()
    for content in shown:
        answered = [part.function_response.id for part in content.parts or () if part.function_response is not None]
        answers = {call_id for call_id in answered if call_id}
        assert answers <= called
        assert called - answers <= waiting
        asked = [part.function_call.id for part in content.parts or () if part.function_call is not None]
        called = {call_id for call_id in asked if call_id}


@settings(max_examples=examples(100), deadline=None)
@given(log=logs(), viewer=VIEWERS)
def test_looking_changes_no_event(log: list[Event], viewer: Viewer) -> None:
    """The history belongs to the session: what is shown is made beside it."""
    before = [event.to_wire() for event in log]
    History().contents(log, viewer)
    assert [event.to_wire() for event in log] == before
