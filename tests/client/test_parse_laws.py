"""`parse_event_sse`: what holds for all payloads, and what reading them costs."""

from __future__ import annotations

import contextlib
import copy
import gc
import json
import logging
import time
import tracemalloc
from collections.abc import Callable
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kit import examples
from stream_kit import TYPICAL, json_values, look_at, parsed, wire, wires

from flowloom import Event
from flowloom.client import parse_event_sse
from flowloom.errors import EventParseError


@given(data=wires)
def test_reading_gives_what_validation_gives(data: dict[str, Any]) -> None:
    text = json.dumps(data)
    read = parsed(text, strict=True).event
    assert read == parsed(text, validate=True, strict=True).event
    assert read == Event.model_validate_json(text)
    assert read.to_wire() == Event.model_validate_json(text).to_wire()


@given(data=wires)
def test_an_event_that_is_written_and_read_is_the_same(data: dict[str, Any]) -> None:
    event = Event.model_validate(data)
    assert parsed(event.model_dump_json(by_alias=True, exclude_none=True)).event == event


anything = json_values | st.sampled_from([float("nan"), 10**400, "\ud800", [[]], {"": {}}, -0.0])


@st.composite
def damaged(draw: st.DrawFn) -> dict[str, Any]:
    """An event with values of any type in places that mean something."""
    data = json.loads(json.dumps(draw(wires)))
    for _ in range(draw(st.integers(1, 3))):
        node: Any = data
        while isinstance(node, dict | list) and node:
            key = draw(st.sampled_from(sorted(node) if isinstance(node, dict) else range(len(node))))
            if draw(st.booleans()) or not isinstance(node[key], dict | list) or not node[key]:
                node[key] = copy.deepcopy(draw(anything))  # later damage changes it, and not what others draw
                break
            node = node[key]
    return data


payloads = st.one_of(
    st.binary(max_size=60),
    st.text(max_size=60),
    st.text(st.characters(), max_size=20),
    damaged().map(json.dumps),
    json_values.map(json.dumps),
    st.builds(lambda data, cut: json.dumps(data)[:cut], wires, st.integers(0, 400)),
    st.builds(lambda prefix, text: prefix + text, st.sampled_from(["data:", "event: error\ndata:", ":"]), st.text()),
)


@settings(max_examples=examples(600))
@given(data=payloads, validate=st.booleans())
def test_nothing_that_comes_breaks_the_caller(data: str | bytes, validate: bool) -> None:
    found = parse_event_sse(data, validate=validate)
    if found is not None:
        look_at(found)
        found.event.to_wire()
    with contextlib.suppress(EventParseError):
        parse_event_sse(data, validate=validate, strict=True)


# -- cost ------------------------------------------------------------------------------------------


def times_as_long(run: Callable[[], Any], than: Callable[[], Any]) -> float:
    """How many times as long `run` takes, both at their best among turns that they take."""
    best = [float("inf"), float("inf")]
    for _ in range(40):
        for number, each in enumerate((run, than)):
            start = time.process_time()
            for _ in range(60):
                each()
            best[number] = min(best[number], time.process_time() - start)
    return best[0] / best[1]


def test_parsing_and_extraction_cost_a_few_times_what_json_costs() -> None:
    """The aim is 50 µs for a typical event, where `json.loads` takes 3 to 5 µs: said as a ratio, 12."""
    text = json.dumps(TYPICAL)
    assert times_as_long(lambda: look_at_content(text), lambda: json.loads(text)) < 12


def look_at_content(text: str) -> None:
    found = parse_event_sse(text)
    assert found is not None
    _ = found.text_content, found.thought_content, found.function_calls, found.function_responses
    _ = found.sources, found.is_final_response, found.transfer_to_agent, found.error


def test_parsing_leaves_nothing_behind() -> None:
    """Neither good payloads nor bad ones, each of them different."""

    def round_of(number: int) -> None:
        for i in range(300):
            parse_event_sse(json.dumps(wire(f"text {number} {i}", author=f"a{number}{i}", finishReason="STOP")))
            parse_event_sse(f"broken {number} {i}")

    logging.getLogger("flowloom.events").setLevel(logging.CRITICAL)
    try:
        round_of(0)
        gc.collect()
        tracemalloc.start()
        before = tracemalloc.get_traced_memory()[0]
        round_of(1)
        gc.collect()
        assert tracemalloc.get_traced_memory()[0] - before < 50_000
    finally:
        tracemalloc.stop()
        logging.getLogger("flowloom.events").setLevel(logging.NOTSET)
