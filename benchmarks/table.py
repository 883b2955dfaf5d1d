"""The lines of the table: turns on all engines, and fresh processes."""

from __future__ import annotations

import os
import subprocess
import time

from benchmarks import script
from benchmarks.cases import Case, Startup
from benchmarks.engines import FLOWLOOM, ROOT, Installed
from benchmarks.results import Row
from benchmarks.rounds import Fleet, Plan, Worker, WorkerError, cell_of


def run_case(case: Case, fleet: Fleet, plan: Plan) -> Row:
    """All rounds of one line. In each, every engine is asked once, the bare loop first."""
    if case.unit == "MiB":
        return run_memory(case, fleet)
    values: dict[str, list[float]] = {}
    for _ in plan.each_round():
        bare: float | None = None
        for engine in fleet.engines:
            if case.case not in engine.spec.cases:
                continue
            base = bare
            if case.base_size is not None:
                base = _turn(fleet, engine, case, case.base_size, plan)
            us = _turn(fleet, engine, case, case.size, plan)
            bare = us if engine.spec.module == "bare" else bare
            if us is not None and (base is not None or not case.unit.startswith("×")):
                values.setdefault(engine.name, []).append(in_unit(case.unit, us, base))
    fleet.forget()
    return Row(case.title, case.unit, case.aim, {name: cell_of(found) for name, found in values.items()})


def run_unobserved(case: Case, engines: tuple[Installed, Installed], plan: Plan, notes: list[str]) -> Row:
    """The second engine beside the first, in many short rounds with the order changed from one to the next."""
    values: list[float] = []
    with Fleet(list(engines), notes) as fleet:
        for number in plan.each_round(4 * plan.rounds):
            found: dict[str, float] = {}
            for engine in engines if number % 2 else reversed(engines):
                us = _turn(fleet, engine, case, case.size, plan)
                if us is not None:
                    found[engine.name] = us
            if len(found) == len(engines):
                values.append(found[engines[1].name] / found[engines[0].name])
    return Row(case.title, case.unit, case.aim, {engines[1].name: cell_of(values)} if values else {})


def _turn(fleet: Fleet, engine: Installed, case: Case, size: int, plan: Plan) -> float | None:
    found = fleet.ask(engine, case.title, "turns", case=case.case, size=size, seconds=plan.seconds)
    return None if found is None else found["us"]


def in_unit(unit: str, us: float, base: float | None) -> float:
    """A measurement as its line shows it."""
    if unit == "ms":
        return us / 1000
    if unit == "runs/s":
        return script.RUNS / (us / 1e6)
    assert base is not None
    return us / base


def run_memory(case: Case, fleet: Fleet) -> Row:
    """Each engine once, in a process of its own: the highest mark of a process is reached once."""
    row = Row(case.title, case.unit, case.aim)
    for engine in fleet.engines:
        if case.case not in engine.spec.cases:
            continue
        worker = Worker(engine)
        try:
            row.cells[engine.name] = cell_of([worker.ask("growth", case=case.case, size=case.size)["mib"]])
        except WorkerError as error:
            fleet.notes.append(f"{engine.name}, {case.title}: {error}")
        worker.close()
    return row


def seconds_of(arguments: list[str], python: str) -> float:
    """How long a fresh interpreter takes, with bytecode at hand as in an installed package."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    started = time.perf_counter()
    subprocess.run([python, *arguments], cwd=ROOT, env=environment, check=True, capture_output=True)
    return time.perf_counter() - started


def run_startup(line: Startup, engines: list[Installed], plan: Plan, notes: list[str]) -> Row:
    """One line about fresh processes. The time of an interpreter that does nothing is taken off."""
    values: dict[str, list[float]] = {}
    for number in plan.each_round():
        for engine in engines:
            arguments = _arguments(line, engine)
            if arguments is None or any(note.startswith(f"{engine.name}, {line.title}") for note in notes):
                continue
            try:
                found = _startup(line, arguments, engine.python)
            except subprocess.CalledProcessError as error:
                notes.append(f"{engine.name}, {line.title}: {error.stderr.decode()[-300:]}")
                continue
            if number or plan.rounds == 1:  # the first one writes the bytecode
                values.setdefault(engine.name, []).append(found)
    return Row(line.title, line.unit, line.aim, {name: cell_of(found) for name, found in values.items()})


def _arguments(line: Startup, engine: Installed) -> list[str] | None:
    """What the interpreter is given; None if the line is not about this engine."""
    if line.kind == "code":
        return ["-c", line.code] if engine.spec is FLOWLOOM else None
    if line.kind == "imports":
        return ["-c", engine.spec.imports] if engine.spec.imports else None
    return ["-m", "benchmarks.worker", engine.spec.module, "--once"]


def _startup(line: Startup, arguments: list[str], python: str) -> float:
    empty = seconds_of(["-c", "pass"], python)
    taken = seconds_of(arguments, python) - empty
    if line.unit == "ms":
        return taken * 1000
    return taken / (seconds_of(["-c", line.base], python) - empty)
