"""The curves of the processors: what is built for them, and what a pass measures."""

from __future__ import annotations

import pytest

from benchmarks.cases import PROCESSORS, Growth
from benchmarks.passes import ALL, NEW_EVENTS, measure
from benchmarks.peers.flowloom import NAMES
from benchmarks.processors import Sizes, contents, instruction, measure_all, place, session
from flowloom.flow.pipeline import name_of
from flowloom.processors import REQUEST_PROCESSORS


@pytest.mark.parametrize("growth", PROCESSORS, ids=lambda growth: growth.axis)
async def test_every_axis_runs_every_processor(growth: Growth) -> None:
    """Once at the smallest size of each curve."""
    found = await measure_all("flowloom", growth.axis, growth.sizes[0], 0)
    in_use = ["planning, in use", "code_execution, in use", "output_schema, in use"]
    assert list(found["rows"]) == [*map(name_of, REQUEST_PROCESSORS), ALL, *in_use]
    assert all(set(kinds) == {"cold", "warm", "new"} for kinds in found["rows"].values())
    assert found["rows"][ALL]["warm"] > 0


async def test_a_processor_in_use_does_more() -> None:
    """A planner's instruction is written where there is a planner."""
    rows = (await measure_all("flowloom", "history", 200, 0))["rows"]
    assert rows["planning, in use"]["warm"] > rows["planning"]["warm"]


async def test_the_session_has_as_many_events_as_asked_for() -> None:
    _, made = await session(NAMES, Sizes(history=7))
    assert len(made.events) == 7
    assert made.events[-1].author == "user"


async def test_one_new_event_is_one_new_event() -> None:
    measured = place("flowloom", "history", 10)
    await measure(measured, 0)
    assert len(measured.session.events) == 10 + NEW_EVENTS  # type: ignore[attr-defined]


def test_a_history_holds_the_payloads_that_grow() -> None:
    found = [part for _, content in contents(Sizes(result=5000, inline=7000)) for part in content.parts or ()]
    assert [len(part.inline_data.data or b"") for part in found if part.inline_data] == [7000]
    results = [part.function_response.response for part in found if part.function_response]
    assert results == [{"page": "x" * 5000}]


@pytest.mark.parametrize(("placeholders", "characters"), [(1, 200), (10, 1000), (100, 5000)])
def test_an_instruction_has_its_length_and_placeholders(placeholders: int, characters: int) -> None:
    text = instruction(placeholders, characters)
    assert text.count("{key_") == placeholders
    assert characters - placeholders <= len(text) <= characters
