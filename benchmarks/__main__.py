"""`python -m benchmarks`: what flowloom costs, beside a bare loop and, on request, beside google-adk.

Each engine runs in a process of its own. Rounds are interleaved, and a ratio is taken between two engines inside one
round: the machine may be shared, and absolute times mean little. The median of the rounds is reported.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import time
import venv
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
PEER_HOME = ROOT / ".bench" / "google-adk"
MARKS = ("<!-- benchmarks -->", "<!-- /benchmarks -->")


@dataclass(frozen=True)
class Case:
    """One line of the table: what is run, what it is divided by, and what is aimed at."""

    title: str
    case: str
    target: float
    size: int = 0
    turns: int = 100
    unit: str = "× bare loop"
    base_size: int | None = None
    """The size of the same engine's run that a ratio is taken to; None for the bare loop."""
    peer_turns: int | None = None


CASES = (
    Case("a text turn", "text", 4, turns=200),
    Case("a model step with a tool call", "tool", 4, turns=100),
    Case("a streamed turn of 200 chunks", "stream", 2, turns=4),
    Case("a transfer to another agent", "transfer", 4, turns=100),
    Case("a turn at 1,000 turns of history", "history", 1.5, 1000, 60, "× one at 10", 10, peer_turns=3),
    Case("a turn in a tree of 50 agents", "tree", 1.3, 50, 100, "× a single agent", 1, peer_turns=20),
    Case("a turn over 200 tool results of 20 KB", "big", 2, 200, 20, "ms", peer_turns=1),
    Case("20 concurrent async tools of 20 ms", "async_tools", 25, turns=2, unit="ms"),
    Case("8 blocking tools of 50 ms", "blocking_tools", 70, turns=2, unit="ms"),
    Case("500 concurrent runs with a tool call", "concurrent", 2000, turns=1, unit="runs/s"),
    Case("memory of 500 concurrent runs", "concurrent", 80, turns=1, unit="MiB"),
)
IMPORTS = {
    "`import flowloom`": ("import flowloom", "pass", 20, "ms"),
    "all that a first agent needs": (
        "from flowloom import InMemoryRunner, LlmAgent\n"
        "InMemoryRunner(LlmAgent(name='a', model='gemini-2.5-flash', instruction='Help.'))",
        "from google.genai import types",
        1.1,
        "× genai types",
    ),
}


@dataclass
class Result:
    """What was measured for one line."""

    title: str
    unit: str
    target: float
    flowloom: float
    spread: tuple[float, float]
    peer: float | None = None

    @property
    def met(self) -> bool:
        return self.flowloom >= self.target if self.unit == "runs/s" else self.flowloom <= self.target


class Worker:
    """An engine in its process."""

    def __init__(self, package: str, python: str) -> None:
        command = [python, "-m", "benchmarks.worker", package]
        self._process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def measure(self, case: str, size: int, turns: int) -> dict[str, float]:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps({"case": case, "size": size, "turns": turns}), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise SystemExit(f"The worker for {case} died; its error stands above.")
        return json.loads(answer)

    def close(self) -> None:
        self._process.communicate()


def in_unit(case: Case, mine: dict[str, float], base: float | None) -> float:
    """A measurement as its line shows it."""
    if case.unit == "ms":
        return mine["us"] / 1000
    if case.unit == "runs/s":
        return 500 / (mine["us"] / 1e6)
    if case.unit == "MiB":
        return mine["mib"]
    assert base is not None
    return mine["us"] / base


def run_case(case: Case, rounds: int, share: float, python: str, peer: str | None) -> Result:
    """All rounds of one line, each engine in a fresh process."""
    bare = Worker("bare", python) if case.unit == "× bare loop" else None
    own = Worker("flowloom", python)
    other = Worker("google-adk", peer) if peer else None
    turns = max(1, round(case.turns * share))
    peer_turns = max(1, round((case.peer_turns or case.turns / 10) * share))
    own_ratios: list[float] = []
    peer_ratios: list[float] = []
    if case.unit == "MiB":
        rounds = 1  # the highest mark of a process is reached once
    for _ in range(rounds):
        base = bare.measure(case.case, case.size, turns)["us"] if bare is not None else None
        for worker, count, ratios in ((own, turns, own_ratios), (other, peer_turns, peer_ratios)):
            if worker is None:
                continue
            if case.base_size is not None:
                base = worker.measure(case.case, case.base_size, count)["us"]
            ratios.append(in_unit(case, worker.measure(case.case, case.size, count), base))
    for worker in (bare, own, other):
        if worker is not None:
            worker.close()
    spread = (min(own_ratios), max(own_ratios))
    theirs = statistics.median(peer_ratios) if peer_ratios else None
    return Result(case.title, case.unit, case.target, statistics.median(own_ratios), spread, theirs)


def seconds_of(code: str, python: str) -> float:
    """How long a fresh interpreter takes for some code, with bytecode at hand as in an installed package."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    subprocess.run([python, "-c", code], cwd=ROOT, env=environment, check=True)
    return time.perf_counter() - started


def run_imports(rounds: int, python: str) -> list[Result]:
    """Start-up times, each in fresh interpreters, beyond that of the interpreter itself."""
    results: list[Result] = []
    for title, (code, base, target, unit) in IMPORTS.items():
        measured: list[float] = []
        seconds_of(code, python)  # writes the bytecode
        for _ in range(rounds):
            empty, first, second = seconds_of("pass", python), seconds_of(base, python), seconds_of(code, python)
            measured.append((second - first) * 1000 if unit == "ms" else (second - empty) / (first - empty))
        spread = (min(measured), max(measured))
        results.append(Result(title, unit, target, statistics.median(measured), spread))
    return results


def peer_python() -> str:
    """google-adk in an environment of its own, made once."""
    python = PEER_HOME / "bin" / "python"
    if not python.exists():
        venv.create(PEER_HOME, with_pip=True)
        subprocess.run([python, "-m", "pip", "install", "--quiet", "google-adk"], check=True)
    return str(python)


def version_of(package: str, python: str) -> str:
    code = f"import importlib.metadata as m; print(m.version({package!r}))"
    return subprocess.run([python, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def shown(value: float | None) -> str:
    return (
        "" if value is None else f"{value:,.0f}" if value >= 100 else f"{value:.1f}" if value >= 10 else f"{value:.2f}"
    )


def table(results: list[Result], peer: str | None) -> str:
    """The results in Markdown."""
    lines = [
        f"| | flowloom | aim |{' google-adk ' + peer + ' |' if peer else ''}",
        "|---|---|---|" + "---|" * bool(peer),
    ]
    for result in results:
        aim = "≥" if result.unit == "runs/s" else "≤"
        line = f"| {result.title} | {shown(result.flowloom)} {result.unit} | {aim} {result.target:,g} |"
        lines.append(line + (f" {shown(result.peer)} |" if peer else ""))
    return "\n".join(lines)


def write_into(path: Path, text: str) -> None:
    page = path.read_text()
    before, rest = page.split(MARKS[0], 1)
    after = rest.split(MARKS[1], 1)[1]
    path.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}")


def main() -> None:
    options = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    options.add_argument("--quick", action="store_true", help="fewer and shorter rounds, under a minute")
    options.add_argument("--peer", action="store_true", help="google-adk beside it, installed under .bench")
    options.add_argument("--write", type=Path, help="put the table between the marks of a Markdown file")
    options.add_argument("--json", type=Path, help="write the results as JSON")
    options.add_argument("--gate", action="store_true", help="exit with 1 if an aim is missed")
    options.add_argument("--only", help="only lines whose title holds this")
    args = options.parse_args()
    rounds, share = (5, 0.3) if args.quick else (15, 1.0)
    peer = peer_python() if args.peer else None
    results: list[Result] = []
    for case in CASES:
        if not args.only or args.only in case.title:
            results.append(run_case(case, rounds, share, sys.executable, peer))
            print(f"{results[-1].title}: {shown(results[-1].flowloom)} {results[-1].unit}", flush=True)
    if not args.only:
        results += run_imports(rounds, sys.executable)
    text = table(results, version_of("google-adk", peer) if peer else None)
    print(f"\n{text}")
    if args.write:
        write_into(args.write, text)
    if args.json:
        data: list[dict[str, Any]] = [asdict(result) for result in results]
        args.json.write_text(json.dumps(data, indent=2) + "\n")
    if args.gate and not all(result.met for result in results):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
