"""The lines about adapters: an SDK and the adapter on it read the same answer."""

from __future__ import annotations

import pytest

from benchmarks.adapters import AIM, PAIRS, Answering, Pair, read, run_adapter, text
from benchmarks.answers import READINGS, Reading, run_reading
from benchmarks.rounds import Plan

pytestmark = pytest.mark.soak
TRIES = 5
"""After how many other work on the machine is no excuse."""


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
async def test_both_read_what_was_written(pair: Pair) -> None:
    with Answering(pair.frames) as url:
        model = pair.adapter(url)
        assert [await pair.sdk(url), await read(model)] == [text()] * 2
        await model.aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: pair.name)
def test_a_chunk_costs_an_adapter_half_of_what_it_costs_its_sdk(pair: Pair) -> None:
    """At most: adapters take the answer unread, and read the wire themselves."""
    plan = Plan(rounds=3, seconds=0.05, limit=5)
    assert any(run_adapter(pair, plan).cells["flowloom"].value < AIM for _ in range(TRIES))


@pytest.mark.parametrize("reading", READINGS, ids=lambda reading: reading.name)
def test_a_whole_answer_costs_an_adapter_half_of_what_its_sdk_makes_of_it(reading: Reading) -> None:
    plan = Plan(rounds=5, seconds=0.05, limit=5)
    assert any(run_reading(reading, plan).cells["flowloom"].low < AIM for _ in range(TRIES))
