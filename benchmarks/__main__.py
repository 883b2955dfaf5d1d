"""`python -m benchmarks`: what flowloom costs, beside a bare loop and, on request, beside other frameworks.

Each engine runs in a process of its own. Rounds are interleaved, and a ratio is taken between two engines inside one
round: the machine may be shared, and absolute times mean little. The median of the rounds is reported.
"""

from __future__ import annotations

import argparse
import os
import platform
from importlib import import_module
from pathlib import Path

from benchmarks import adapters, answers, elsewhere, remote_turns, report, rest_calls
from benchmarks.cases import CASES, STARTUPS, UNOBSERVED
from benchmarks.curves import run_curves
from benchmarks.engines import BARE, CUT, FLOWLOOM, PEERS, install, install_all
from benchmarks.results import Results, Row
from benchmarks.rounds import Fleet, Plan
from benchmarks.server import run_server
from benchmarks.table import run_case, run_startup, run_unobserved

FULL = Plan(rounds=15, seconds=0.05, limit=15)
QUICK = Plan(rounds=5, seconds=0.02, limit=3)


def options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="benchmarks", description=__doc__)
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, under a minute")
    parser.add_argument("--peers", action="store_true", help="other frameworks beside it, installed under .bench")
    parser.add_argument("--rounds", type=int, help="how many rounds at most")
    parser.add_argument("--only", default="", help="only lines and curves whose title holds this")
    parser.add_argument("--write", type=Path, help="put the table between the marks of a Markdown file")
    parser.add_argument("--json", type=Path, help="write the results as JSON")
    parser.add_argument("--docs", type=Path, help="write results.json, results.md and SVG pictures into a folder")
    parser.add_argument("--load", type=Path, help="measure nothing, take the results from a JSON file")
    parser.add_argument("--gate", action="store_true", help="exit with 1 if an aim is missed")
    return parser.parse_args()


def measured(args: argparse.Namespace) -> Results:
    """Everything that was asked for, measured now."""
    plan = QUICK if args.quick else FULL
    plan = Plan(args.rounds or plan.rounds, plan.seconds, plan.limit)
    engines, notes = install_all((BARE, FLOWLOOM, *(PEERS if args.peers else ())))
    headings = {engine.name: engine.heading for engine in engines}
    results = Results(platform.python_version(), os.cpu_count() or 1, plan.rounds, headings, notes=notes)
    with Fleet(engines, results.notes) as fleet:
        for case in CASES:
            if args.only in case.title:
                results.rows.append(said(run_case(case, fleet, plan)))
        if args.only in UNOBSERVED.title:
            pair = install(CUT), install(FLOWLOOM)
            results.rows.append(said(run_unobserved(UNOBSERVED, pair, plan, results.notes)))
        for pair in adapters.PAIRS:
            if args.only in adapters.title_of(pair):
                results.rows.append(said(adapters.run_adapter(pair, plan)))
        for reading in answers.READINGS:
            if args.only in answers.title_of(reading):
                results.rows.append(said(answers.run_reading(reading, plan)))
        if args.only in elsewhere.TITLE:
            results.rows.append(said(elsewhere.run_elsewhere(plan, peers=args.peers, notes=results.notes)))
        if args.only in rest_calls.TITLE:
            results.rows.append(said(rest_calls.run_rest_calls(plan)))
        if args.only in remote_turns.TITLE:
            results.rows.append(said(remote_turns.run_remote_turns(plan)))
        for row in run_server(engines, plan, args.only, results.notes):
            results.rows.append(said(row))
        for line in STARTUPS:
            if args.only in line.title:
                results.rows.append(said(run_startup(line, engines, plan, results.notes)))
        results.curves = run_curves(fleet, plan, min(plan.rounds, 2 if args.quick else 5), args.only)
    return results


def said(row: Row) -> Row:
    """A line that is done, told while the others run."""
    own = row.cells.get("flowloom")
    print(f"{row.title}: {report.shown(own.value if own is not None else None)} {row.unit}", flush=True)
    return row


def main() -> None:
    args = options()
    # now, so that a missing matplotlib is told before anything is measured
    plots = import_module("benchmarks.plots") if args.docs else None
    results = measured(args) if args.load is None else Results.load(args.load)
    text = report.table(results)
    print("", text, *results.notes, sep="\n")
    if args.write:
        report.write_into(args.write, text)
    if args.json:
        results.save(args.json)
    if plots is not None:
        args.docs.mkdir(parents=True, exist_ok=True)
        results.save(args.docs / "results.json")
        (args.docs / "results.md").write_text(report.page(results), encoding="utf-8")
        plots.write_all(results, args.docs)
    if args.gate and not all(row.met() for row in results.rows):
        raise SystemExit(1)


if __name__ == "__main__":
    main()
