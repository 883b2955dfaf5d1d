"""Every scenario in conformance/scenarios gives its expected trace (conformance/README.md)."""

import json
import sys
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.append(str(HERE))

from conformance import compare, driver, engine  # noqa: E402
from journal import Journal  # noqa: E402

SHOWN = 12
"""How many differences of one trace a failure tells about."""

SCENARIOS = sorted((HERE / "conformance" / "scenarios").glob("*.json"))


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_gives_the_expected_trace(path: Path) -> None:
    case = json.loads(path.read_text(encoding="utf-8"))
    trace = driver.run_scenario(engine, case["scenario"])
    verdict, differences = compare.compare(case["scenario"], {"trace": case["expected"]}, trace)
    if not verdict.startswith("pass"):
        pytest.fail(_told(differences), pytrace=False)


@pytest.mark.parametrize("path", SCENARIOS, ids=lambda path: path.stem)
def test_scenario_asks_for_the_same_effects_in_another_order_of_scheduling(path: Path) -> None:
    """Keys and values of all effects, and the trace, do not depend on which model, tool or append is the quicker."""
    case = json.loads(path.read_text(encoding="utf-8"))
    journals = [Journal(order) for order in range(2)]
    for effects in journals:
        trace = driver.run_scenario(_engine_with(effects), case["scenario"])
        verdict, differences = compare.compare(case["scenario"], {"trace": case["expected"]}, trace)
        if not verdict.startswith("pass"):
            pytest.fail(_told(differences), pytrace=False)
    assert journals[1].given == journals[0].given


def _engine_with(effects: Journal) -> Any:
    """The engine with recorded effects: an invocation for each turn, and a store that lets others go first, too."""

    class Recorded(engine.Runner):
        turns = 0

        def run_async(self, **message: Any) -> Any:
            effects.invocation = f"{self.turns}:"
            self.turns += 1
            return super().run_async(**message)

    class Store(engine.InMemorySessionService):
        async def append_event(self, session: Any, event: Any) -> Any:
            await effects.wait_turn((event.author, event.id))
            return await super().append_event(session, event)

    def make_runner(app_name: str, agent: Any, session_service: Any, artifact_service: Any, plugins: Any) -> Any:
        services = {"session_service": session_service, "artifact_service": artifact_service}
        return Recorded(app_name=app_name, agent=agent, plugins=plugins or None, effects=effects, **services)

    return SimpleNamespace(**{**vars(engine), "make_runner": make_runner, "InMemorySessionService": Store})


def test_there_are_scenarios_of_every_area() -> None:
    areas = {path.stem.split("-")[0] for path in SCENARIOS}
    assert areas >= {
        "agenttool",
        "basic",
        "callback",
        "confirm",
        "contents",
        "flow",
        "instr",
        "longrun",
        "model",
        "output",
        "plugin",
        "state",
        "stream",
        "tool",
        "transfer",
    }


def test_a_difference_is_told_readably() -> None:
    told = _told([("turns.0.events.#", 2, 3), ("turns.0.error", None, {"family": "error"})])
    assert told == (
        "2 differences from the expected trace:\n"
        "  turns.0.events.#\n    expected: 2\n    got:      3\n"
        '  turns.0.error\n    expected: null\n    got:      {"family": "error"}'
    )


def _told(differences: list[tuple[str, object, object]]) -> str:
    lines = [f"{len(differences)} difference{'s' * (len(differences) != 1)} from the expected trace:"]
    for where, want, have in differences[:SHOWN]:
        lines += [
            f"  {where}",
            f"    expected: {compare.short(want, 300)}",
            f"    got:      {compare.short(have, 300)}",
        ]
    if len(differences) > SHOWN:
        lines.append(f"  … and {len(differences) - SHOWN} more")
    return "\n".join(lines)
