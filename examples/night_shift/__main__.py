"""The night, told as it happens: `python -m examples.night_shift`. It needs no key, no network and no server; `--store
postgresql://...` has it on PostgreSQL."""

import argparse
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from . import ledger

AGENT = Path(__file__).parent
FLOWLOOM = [sys.executable, "-m", "flowloom"]
PATIENCE = 60.0


class Fleet:
    """Two workers of a store, and the commands that a person would type."""

    def __init__(self, store: str) -> None:
        self.store = store
        self._began = time.monotonic()
        self.workers: dict[str, subprocess.Popen[str]] = {}

    def tell(self, text: str) -> None:
        """Say what happens, and when."""
        print(f"{time.monotonic() - self._began:5.1f} s  {text}", flush=True)

    def start(self) -> str:
        """Start a worker; returns its name once it serves."""
        options = ["--heartbeat", "0.3", "--dead-after", "1", "--drain", "5", "--json"]
        process = subprocess.Popen(
            [*FLOWLOOM, "worker", str(AGENT), "--store", self.store, *options],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        self.workers[str(process.pid)] = process
        assert process.stdout is not None
        line = process.stdout.readline()
        if not line:
            raise RuntimeError("A worker did not start.")
        del self.workers[str(process.pid)]
        name: str = json.loads(line)["worker"]
        self.workers[name] = process
        return name

    def command(self, *args: str) -> Any:
        """Run `flowloom` with these arguments; what it prints as data."""
        done = subprocess.run(
            [*FLOWLOOM, *args, "--store", self.store, "--json"], capture_output=True, text=True, check=False
        )
        if done.returncode:
            raise RuntimeError(done.stderr)
        return json.loads(done.stdout)

    def run_when(self, run_id: str, wanted: Callable[[dict[str, Any]], bool]) -> dict[str, Any]:
        """The run, once it is as wanted."""
        end = time.monotonic() + PATIENCE
        while time.monotonic() < end:
            run: dict[str, Any] = self.command("runs", "show", run_id)
            if wanted(run):
                return run
        raise RuntimeError(f"Run {run_id} did not come so far in {PATIENCE:g} seconds.")

    def close(self) -> None:
        """End the workers that live; they drain."""
        for process in self.workers.values():
            process.terminate()
        for process in self.workers.values():
            process.communicate(timeout=PATIENCE)


def night(fleet: Fleet) -> None:
    """One run, two workers, a kill, and an approval."""
    first, second = fleet.start(), fleet.start()
    fleet.tell(f"Two workers serve: {first} and {second}.")
    run_id = fleet.command("runs", "submit", "Count the shelves.", "--app", AGENT.name, "--user", "ann")["run_id"]
    fleet.tell(f"Run {run_id} is submitted; from now on it is on the disk.")
    end = time.monotonic() + PATIENCE
    while len(ledger.notes()) < 2:
        if time.monotonic() > end:
            raise RuntimeError(f"No worker has counted a shelf in {PATIENCE:g} seconds.")
        time.sleep(0.02)
    busy, _, about = ledger.notes()[-1]
    os.kill(busy, signal.SIGKILL)
    [victim] = [name for name, process in fleet.workers.items() if process.pid == busy]
    fleet.tell(f"{victim} has it, and is about {about}. It is killed: kill -9.")
    fleet.workers.pop(victim).communicate()
    run = fleet.run_when(run_id, lambda run: run.get("worker") not in (None, victim) or run["status"] == "paused")
    other = first if victim == second else second
    fleet.tell(f"{other} has taken it over, and goes on from the log.")
    run = fleet.run_when(run_id, lambda run: run["status"] == "paused" and bool(run["pending"]))
    [asked] = run["pending"]
    fleet.tell(f"The run waits for a person: {asked['name']}({asked['args']['boxes']}). No worker holds it.")
    fleet.tell(f"The person types: flowloom runs answer {run_id} --approve")
    fleet.command("runs", "answer", run_id, "--approve")
    fleet.run_when(run_id, lambda run: run["status"] == "final")
    fleet.tell("The run is final. Its log:")
    attached = subprocess.run(
        [*FLOWLOOM, "runs", "attach", run_id, "--store", fleet.store], capture_output=True, text=True, check=True
    )
    print(attached.stdout, end="")
    told(fleet)


def told(fleet: Fleet) -> None:
    """What the world has seen of it."""
    begun = [key for _, key, _ in ledger.notes()]
    again = [about for number, (_, key, about) in enumerate(ledger.notes()) if key in begun[:number]]
    fleet.tell(f"Begun twice, with the same idempotency key: {', '.join(again) or 'nothing'}.")
    fleet.tell(f"Payments: {len(ledger.payments())}, of {ledger.payments()[0]} boxes.")


def main() -> None:
    """The night, on a store of its own unless one is named."""
    parser = argparse.ArgumentParser(prog="night_shift", description="Two workers, one of which is killed.")
    parser.add_argument("--store", metavar="DSN", help="by default a SQLite file that is deleted in the end")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="night-shift-") as folder:
        os.environ["NIGHT_LEDGER"] = str(Path(folder) / "ledger.db")
        fleet = Fleet(given.store or str(Path(folder) / "fleet.db"))
        try:
            night(fleet)
        finally:
            fleet.close()
    fleet.tell("The other worker has drained and ended.")


if __name__ == "__main__":
    main()
