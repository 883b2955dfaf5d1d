"""`RunStreamMapper`: what holds for all events, and what a delta costs."""

from __future__ import annotations

import json
import time
from collections import defaultdict
from collections.abc import Iterable, Sequence
from itertools import groupby
from typing import Any

import kit
from google.genai import types
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import examples
from random_events import any_event, statuses
from run_stream_kit import call_piece, mapped, piece, thought, whole

from flowloom import Event
from flowloom.events.parts import call_piece as json_piece
from flowloom.events.parts import content_of, text_part
from flowloom.events.wire import make
from flowloom.run_stream import (
    AgentFinished,
    AgentStarted,
    ConfirmationRequested,
    CredentialRequested,
    InputRequested,
    MessageCompleted,
    RunFinished,
    RunStarted,
    RunStreamEvent,
    RunStreamMapper,
    TextDelta,
    ThoughtDelta,
    ToolCallArgumentsCompleted,
    ToolCallArgumentsDelta,
    ToolCallFinished,
    ToolCallProgress,
    ToolCallStarted,
    run_stream_of,
)

# -- any events ------------------------------------------------------------------------------------


def check_runs(stream: Sequence[RunStreamEvent]) -> list[list[RunStreamEvent]]:
    """Runs begin and end, and nothing lies between them. Returns what is in each."""
    runs: list[list[RunStreamEvent]] = []
    running = False
    for event in stream:
        assert running is not isinstance(event, RunStarted)
        if isinstance(event, RunStarted):
            running = True
            runs.append([])
        elif isinstance(event, RunFinished):
            running = False
        else:
            runs[-1].append(event)
    assert not running
    return runs


def check_agents(run: Sequence[RunStreamEvent], seen: set[str]) -> None:
    active: dict[str, AgentStarted] = {}
    for event in run:
        if isinstance(event, AgentStarted):
            assert event.agent_id not in seen
            seen.add(event.agent_id)
            assert event.parent_id is None or event.parent_id in active
            active[event.agent_id] = event
        elif isinstance(event, AgentFinished):
            assert active.pop(event.agent_id).agent == event.agent
            assert all(each.parent_id != event.agent_id for each in active.values())
        elif isinstance(event, TextDelta | ThoughtDelta) and event.author not in ("user", ""):
            assert any(
                (each.agent, each.branch, each.parent_call_id) == (event.author, event.branch, event.parent_call_id)
                for each in active.values()
            )
    assert not active


def check_messages(run: Sequence[RunStreamEvent], seen: set[str]) -> None:
    texts: dict[str, str] = defaultdict(str)
    thoughts: dict[str, str] = defaultdict(str)
    for event in run:
        if isinstance(event, TextDelta | ThoughtDelta):
            assert event.message_id not in seen
            assert event.text
            (texts if isinstance(event, TextDelta) else thoughts)[event.message_id] += event.text
        elif isinstance(event, MessageCompleted):
            assert event.message_id not in seen
            seen.add(event.message_id)
            for shown, complete in (
                (texts.pop(event.message_id, ""), event.text),
                (thoughts.pop(event.message_id, ""), event.thoughts),
            ):
                assert shown == complete or (not event.interrupted and not complete.startswith(shown))
    assert not texts
    assert not thoughts


def check_calls(stream: Sequence[RunStreamEvent]) -> None:
    """A call starts once, has its arguments at most once, and finishes at most once; what waits may stay open."""
    started: set[str] = set()
    complete: set[str] = set()
    finished: set[str] = set()
    for event in stream:
        if isinstance(event, ToolCallStarted):
            assert event.call_id not in started
            started.add(event.call_id)
        elif isinstance(event, ToolCallArgumentsDelta | ToolCallArgumentsCompleted):
            assert event.call_id in started - complete - finished
            if isinstance(event, ToolCallArgumentsCompleted):
                complete.add(event.call_id)
        elif isinstance(event, ToolCallProgress | ToolCallFinished):
            assert event.call_id in started - finished
            if isinstance(event, ToolCallFinished):
                finished.add(event.call_id)


@settings(max_examples=examples(400), deadline=None)
@given(events=st.lists(any_event, max_size=14), status=statuses)
def test_whatever_comes_the_stream_is_well_formed(events: list[Event], status: Any) -> None:
    stream = mapped(events, status)
    messages: set[str] = set()
    agents: set[str] = set()
    for run in check_runs(stream):
        check_agents(run, agents)
        check_messages(run, messages)
    check_calls(stream)
    asked = [
        e.request_id for e in stream if isinstance(e, ConfirmationRequested | InputRequested | CredentialRequested)
    ]
    assert len(asked) == len(set(asked))
    assert stream == mapped(events, status), "the mapping depends on nothing but the events"
    for event in stream:
        data = json.loads(json.dumps(event.to_dict()))
        assert data["type"] == event.type
        assert not any("_" in key or value is None for key, value in data.items())


# -- runs as engines make them ---------------------------------------------------------------------


@st.composite
def answers(draw: st.DrawFn, agent: str, number: int, **place: Any) -> tuple[list[Event], list[Event]]:
    """An answer of a model and the results of its calls: as a live run shows them, and as they are stored."""
    said: list[types.Part] = []
    pieces: list[types.Part] = []
    for index, kind in enumerate(draw(st.lists(st.sampled_from(["text", "thought", "call"]), min_size=1, max_size=4))):
        if kind == "call":
            call_id = f"{agent}-{number}-{index}"
            said.append(kit.named_call(call_id, "look", city="Rome"))
            if draw(st.booleans()):
                pieces.append(said[-1])
            else:
                pieces += [
                    call_piece(call_id, "look"),
                    call_piece(call_id, None, {"json_path": "$", "string_value": "{"}),
                ]
            continue
        make = thought if kind == "thought" else kit.text
        text = draw(st.text("ab ", min_size=1, max_size=6))
        cut = draw(st.integers(0, len(text)))
        said.append(make(text))
        pieces += [make(each) for each in (text[:cut], text[cut:]) if each]
    streamed = draw(st.integers(0, len(pieces)))
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=number)
    complete = whole(agent, *said, id=f"{agent}-{number}", usage_metadata=usage, **place)
    stored = [complete]
    results = [kit.result(p.function_call.id, "look", {"deg": 1}) for p in said if p.function_call is not None]
    if results:
        changed = {"state_delta": {"k": number}} if draw(st.booleans()) else {}
        if draw(st.integers(0, 3)) == 0:
            changed["transfer_to_agent"] = draw(st.sampled_from(["a", "b"]))
        stored.append(whole(agent, *results, id=f"{agent}-{number}-results", actions=changed, **place))
    partial = [piece(agent, each, id=f"{agent}-{number}-p{n}", **place) for n, each in enumerate(pieces[:streamed])]
    return [*partial, *stored], stored


@st.composite
def runs(draw: st.DrawFn, **place: Any) -> tuple[list[Event], list[Event]]:
    live: list[Event] = []
    stored: list[Event] = []
    for number in range(draw(st.integers(1, 4))):
        more, kept = draw(answers(draw(st.sampled_from(["a", "b"])), number, **place))
        live += more
        stored += kept
    return live, stored


def plain(stream: Iterable[RunStreamEvent]) -> list[Any]:
    """The stream with deltas joined, without pieces of arguments, and with ids by number."""
    ids: dict[str, int] = {}
    kept: list[Any] = []
    for key, group in groupby(
        (event for event in stream if not isinstance(event, ToolCallArgumentsDelta)),
        lambda e: (e.type, e.message_id) if isinstance(e, TextDelta | ThoughtDelta) else id(e),
    ):
        events = [event.to_dict() for event in group]
        data = events[0]
        if isinstance(key, tuple):
            data["text"] = "".join(event["text"] for event in events)
        for name in ("messageId", "agentId", "parentId"):
            if name in data:
                data[name] = ids.setdefault(data[name], len(ids))
        kept.append(data)
    return kept


@settings(max_examples=examples(200), deadline=None)
@given(run=runs())
def test_stored_events_say_the_same_as_the_live_run(run: tuple[list[Event], list[Event]]) -> None:
    live, stored = run
    assert plain(run_stream_of(live)) == plain(run_stream_of(stored))


@settings(max_examples=examples(100), deadline=None)
@given(data=st.data())
def test_interleaved_branches_say_what_each_says_alone(data: st.DataObject) -> None:
    alone = {branch: data.draw(runs(branch=branch)) for branch in ("p.x", "p.y", "p.z")}
    queues = [list(live) for live, _ in alone.values()]
    mixed: list[Event] = []
    while left := [queue for queue in queues if queue]:
        mixed.append(data.draw(st.sampled_from(left)).pop(0))
    stream = list(run_stream_of(mixed))
    for branch, (_, stored) in alone.items():
        said = [e for e in stream if isinstance(e, MessageCompleted | TextDelta | ThoughtDelta) and e.branch == branch]
        texts = [e.text for e in said if isinstance(e, MessageCompleted)]
        assert texts == [e.text for e in stored if any(part.text for part in kit_parts(e))]
        shown = "".join(e.text for e in said if isinstance(e, TextDelta))
        assert shown == "".join(e.text for e in stored), "each character once"


def kit_parts(event: Event) -> list[types.Part]:
    return (event.content.parts if event.content is not None else None) or []


# -- cost ------------------------------------------------------------------------------------------

DELTAS = 10_000


def deltas(part: types.Part, *branches: str | None) -> list[Event]:
    content = content_of("model", [part])
    fields = {"content": content, "partial": True, "author": "a", "invocation_id": "i1"}
    return [make(Event, **{**fields, "branch": branches[n % len(branches)]}) for n in range(DELTAS)]


def times_its_delta(events: list[Event]) -> float:
    """How many times as long feeding takes as making a delta for each event, the least there is to do; at best."""
    found: list[float] = []
    for _ in range(7):
        mapper = RunStreamMapper()
        start = time.thread_time()
        for event in events:
            mapper.feed(event)
        fed = time.thread_time()
        for event in events:
            TextDelta(message_id=event.id, text="word ", author="a", branch=event.branch)
        found.append((fed - start) / (time.thread_time() - fed))
    return min(found)


def test_a_delta_costs_little_more_than_to_make_it() -> None:
    assert times_its_delta(deltas(text_part("word "), None)) < 3


def test_a_delta_costs_no_more_in_one_of_many_branches() -> None:
    assert times_its_delta(deltas(text_part("word "), *(f"p.{n}" for n in range(50)))) < 3


def test_a_piece_of_arguments_costs_little_more_than_a_delta() -> None:
    assert times_its_delta(deltas(json_piece("c1", "look", '{"city":', more=True), None)) < 6


def test_the_cost_of_a_delta_does_not_grow_with_the_message() -> None:
    events = deltas(text_part("word " * 40), None)
    mapper = RunStreamMapper()
    times: list[float] = []
    for start in range(0, DELTAS, 1000):
        began = time.thread_time()
        for event in events[start : start + 1000]:
            mapper.feed(event)
        times.append(time.thread_time() - began)
    assert min(times[5:]) < 3 * min(times[:5])
