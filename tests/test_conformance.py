"""Every scenario in conformance/scenarios gives its expected trace (conformance/README.md)."""

import json
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
if str(HERE) not in sys.path:
    sys.path.append(str(HERE))

from conformance import compare, driver, engine  # noqa: E402

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
