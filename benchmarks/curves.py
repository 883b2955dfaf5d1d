"""The curves: whole turns on all engines, processors alone, sessions."""

from __future__ import annotations

import statistics
from collections import defaultdict
from typing import Any

from benchmarks.cases import PROCESSORS, SESSIONS, TURNS, Growth
from benchmarks.engines import BARE, FLOWLOOM, Installed
from benchmarks.results import Curve, Line, Point
from benchmarks.rounds import Fleet, Plan

ADK = ("google_adk", "google_adk_tuned")
_Found = dict[tuple[str, str, str], dict[int, list[Point]]]
"""Points of all rounds by engine, name and kind, and by size."""


def turn_curve(growth: Growth, fleet: Fleet, plan: Plan, rounds: int) -> Curve:
    """A whole turn on every engine, beside a text turn of the bare loop in the same round."""
    found: _Found = defaultdict(lambda: defaultdict(list))
    bare = next(engine for engine in fleet.engines if engine.spec is BARE)
    for _ in plan.each_round(rounds):
        for size in growth.sizes:
            base = fleet.ask(bare, growth.title, "turns", case="text", size=0, seconds=plan.seconds)
            for engine in fleet.engines:
                if engine is bare or growth.axis not in engine.spec.cases or base is None:
                    continue
                taken = fleet.ask(engine, growth.title, "turns", case=growth.axis, size=size, seconds=plan.seconds)
                if taken is not None:
                    point = Point(taken["us"], taken["us"] / base["us"])
                    found[engine.name, engine.name, "turn"][size].append(point)
    fleet.forget()
    return _curve(growth, "× a text turn of the bare loop", found)


def processor_curve(growth: Growth, fleet: Fleet, plan: Plan, rounds: int) -> Curve:
    """Every default request processor alone, in passes over all of them (see `benchmarks.passes`)."""
    found: _Found = defaultdict(lambda: defaultdict(list))
    for _ in plan.each_round(rounds):
        for size in growth.sizes:
            for engine in fleet.engines:
                if engine.spec is FLOWLOOM or (growth.peers and engine.spec.module == ADK[0]):
                    arguments = {"axis": growth.axis, "size": size, "seconds": plan.seconds}
                    taken = fleet.ask(engine, growth.title, "processors", **arguments)
                    _take(found, engine, size, taken)
    return _curve(growth, "× making one content", found)


def session_curve(growth: Growth, fleet: Fleet, plan: Plan, rounds: int) -> Curve:
    """`append_event` and `get_session` of the services in memory."""
    found: _Found = defaultdict(lambda: defaultdict(list))
    for _ in plan.each_round(rounds):
        for size in growth.sizes:
            for engine in fleet.engines:
                if engine.spec is FLOWLOOM or engine.spec.module in ADK:
                    _take(found, engine, size, fleet.ask(engine, growth.title, "sessions", size=size, repeat=10))
    return _curve(growth, "× making one content", found)


def _take(found: _Found, engine: Installed, size: int, taken: dict[str, Any] | None) -> None:
    if taken is None:
        return
    for name, kinds in taken["rows"].items():
        for kind, us in kinds.items():
            found[engine.name, name, kind][size].append(Point(us, us / taken["yardstick"]))


def _curve(growth: Growth, unit: str, found: _Found) -> Curve:
    """The medians of the rounds."""
    curve = Curve(growth.key, growth.title, growth.label, unit, list(growth.sizes))
    for (engine, name, kind), by_size in found.items():
        points = [_median(by_size[size]) if by_size[size] else None for size in growth.sizes]
        curve.lines.append(Line(engine, name, kind, points))
    return curve


def _median(points: list[Point]) -> Point:
    us, ratio = (statistics.median(values) for values in zip(*((p.us, p.ratio) for p in points), strict=True))
    return Point(round(us, 3), round(ratio, 4))


def run_curves(fleet: Fleet, plan: Plan, rounds: int, only: str = "") -> list[Curve]:
    """All curves whose title holds `only`."""
    curves: list[Curve] = []
    for measure, several in ((turn_curve, TURNS), (processor_curve, PROCESSORS), (session_curve, (SESSIONS,))):
        for growth in several:
            if only in growth.title:
                curves.append(measure(growth, fleet, plan, rounds))
                print(f"{growth.title}: {len(curves[-1].lines)} lines", flush=True)
    return curves
