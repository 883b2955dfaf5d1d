"""The cases of the benchmarks, on the engines that need nothing installed."""

from __future__ import annotations

import pytest

from benchmarks import script
from benchmarks.engines import BARE, FLOWLOOM
from benchmarks.peers import bare, flowloom
from benchmarks.peers.engine import Engine
from benchmarks.worker import Tasks, checked

ENGINES = [
    pytest.param(spec.module, case, id=f"{spec.name}, {case}")
    for spec in (BARE, FLOWLOOM)
    for case in sorted(spec.cases)
]
MODULES = {"bare": bare, "flowloom": flowloom}


@pytest.fixture(autouse=True)
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    """Few runs at once, and tools that hardly wait."""
    monkeypatch.setattr(script, "RUNS", 3)
    for case, name in (("async_tools", "wait"), ("blocking_tools", "block")):
        calls = [script.Call(name, {"seconds": 0.001})] * len(script.CALLS[case])
        monkeypatch.setitem(script.CALLS, case, calls)


def made(module: str, case: str) -> Engine:
    return MODULES[module].engine(case, 3)


@pytest.mark.parametrize(("module", "case"), ENGINES)
async def test_a_turn_ends_as_the_script_says(module: str, case: str) -> None:
    engine = made(module, case)
    await engine.start()
    assert [await engine.turn(), await engine.turn()] == [script.expected(case)] * 2


@pytest.mark.parametrize(("module", "case"), ENGINES)
async def test_a_conversation_can_be_begun_anew(module: str, case: str) -> None:
    engine = made(module, case)
    for _ in range(2):
        await engine.start()
        assert await engine.turn() == script.expected(case)


def test_the_model_notices_lost_results() -> None:
    """An engine that runs some of the calls only is no fast engine."""
    with pytest.raises(RuntimeError, match="asked for 20 calls and was shown 19 results"):
        script.answer("async_tools", 19)


def test_a_turn_that_ends_otherwise_is_no_measurement() -> None:
    with pytest.raises(RuntimeError, match="`transfer` ended with 'It is done"):
        checked("transfer", script.DONE)


async def test_a_measurement_says_what_one_turn_takes() -> None:
    tasks = Tasks("flowloom")
    found = await tasks.turns("text", 0, seconds=0.001)
    assert 1 < found["us"] < 1e6
    assert found["turns"] >= 1
    assert list(tasks.engines) == [("text", 0)]


async def test_a_line_that_is_done_is_forgotten() -> None:
    tasks = Tasks("bare")
    await tasks.turns("text", 0, seconds=0.0001)
    await tasks.forget()
    assert tasks.engines == {}


async def test_sessions_are_timed_for_both_operations() -> None:
    found = await Tasks("flowloom").sessions(5, 3)
    assert list(found["rows"]) == ["append_event", "get_session"]
    assert all(row["warm"] > 0 for row in found["rows"].values())
    assert found["yardstick"] > 0
