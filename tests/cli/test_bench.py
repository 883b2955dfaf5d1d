"""`flowloom bench` as a person or a pipeline runs it."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from cli.process import flowloom

AGENT = """
from flowloom import LlmAgent

def add(a: int, b: int) -> int:
    "Add."
    return a + b

helper = LlmAgent(name="helper", description="Helps.")
fields = {"tools": [add], "sub_agents": [helper]}
root_agent = LlmAgent(name="adder", model="gemini-2.5-flash", instruction="In {city}.", **fields)
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "adder.py").write_text(AGENT, encoding="utf-8")
    (tmp_path / "other.json").write_text("{}", encoding="utf-8")
    return tmp_path


def bench(folder: Path, *options: str, fresh: bool = False) -> subprocess.CompletedProcess[str]:
    """Run the command on a small agent, which needs no key."""
    return flowloom("bench", "adder.py", "--repeat", "5", "--state", "city=Rome", *options, cwd=folder, fresh=fresh)


def test_it_prints_a_table_with_a_row_for_each_processor(folder: Path) -> None:
    done = bench(folder, fresh=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Agent `adder`, 5 turns: ")
    rows = [line.split()[0] for line in done.stdout.splitlines()[2:]]
    assert rows[:2] == ["basic", "tools"]
    assert "contents" in rows


def test_past_a_budget_it_exits_with_one_and_says_which(folder: Path) -> None:
    done = bench(folder, "--max-us", "contents=0.001", "--max-us", "basic=1000000", "--max-us", "turn=1000000")
    assert done.returncode == 1
    assert "contents takes " in done.stderr
    assert "basic" not in done.stderr


def test_within_its_budgets_it_exits_with_zero(folder: Path) -> None:
    assert bench(folder, "--max-us", "contents=1000000").returncode == 0


def test_a_stored_profile_is_held_against_the_next(folder: Path) -> None:
    assert bench(folder, "--save", "before.json").returncode == 0
    fine = bench(folder, "--baseline", "before.json", "--max-ratio", "contents=100000")
    assert fine.returncode == 0
    assert "Beside the stored profile" in fine.stdout
    stored = json.loads((folder / "before.json").read_text(encoding="utf-8"))
    for each in stored["processors"]:
        each["median"] /= 1e6
    (folder / "faster.json").write_text(json.dumps(stored), encoding="utf-8")
    slower = bench(folder, "--baseline", "faster.json", "--max-ratio", "contents=2")
    assert slower.returncode == 1
    assert "contents costs " in slower.stderr


def test_as_data_it_is_json(folder: Path) -> None:
    bench(folder, "--save", "before.json")
    data = json.loads(bench(folder, "--json", "--baseline", "before.json").stdout)
    assert {each["name"] for each in data["processors"]} >= {"basic", "contents"}
    assert set(data["ratios"]) == {each["name"] for each in data["processors"]}


def test_a_sub_agent_and_a_history_can_be_chosen(folder: Path) -> None:
    done = bench(folder, "--agent", "helper", "--turns", "30")
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("Agent `helper`")


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (["--max-us", "contents"], "sets no budget"),
        (["--max-us", "content=1"], "`contents`"),
        (["--max-ratio", "contents=1"], "--baseline"),
        (["--baseline", "nowhere.json"], "cannot be read"),
        (["--baseline", "adder.py"], "`adder.py` holds no profile"),
        (["--baseline", "other.json"], "`other.json` holds no profile"),
        (["--agent", "helpr"], "`helper`"),
        (["--save", "no/such/folder.json"], "cannot be saved"),
    ],
)
def test_options_that_cannot_be_used_exit_with_two(folder: Path, options: list[str], said: str) -> None:
    done = bench(folder, *options)
    assert done.returncode == 2
    assert said in done.stderr
    assert "Traceback" not in done.stderr


def test_what_the_agent_raises_is_told_without_a_traceback(folder: Path) -> None:
    done = flowloom("bench", "adder.py", cwd=folder)
    assert done.returncode == 1
    assert "MissingVariableError" in done.stderr
    assert "Traceback" not in done.stderr
