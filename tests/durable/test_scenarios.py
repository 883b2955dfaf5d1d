"""The reference scenarios through a fleet: the trace is the one that the same runs leave in process."""

from __future__ import annotations

import json
import sys
from collections.abc import AsyncGenerator
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HERE = Path(__file__).parent.parent
if str(HERE) not in sys.path:
    sys.path.append(str(HERE))

from conformance import compare, driver, engine  # noqa: E402

from durable.fleet import Followed, opened  # noqa: E402
from flowloom import Event, RunConfig, Runner  # noqa: E402
from flowloom.durable import DbosCourier, RunClient, RunFailedError, Worker  # noqa: E402

SCENARIOS = sorted((HERE / "conformance" / "scenarios").glob("*.json"))
SCENARIOS.remove(HERE / "conformance" / "scenarios" / "stop-after-partial.json")  # a run goes on that is not followed
FEW = {"sqlite": SCENARIOS[::16], "postgres": SCENARIOS[5::40], "dbos": SCENARIOS[7::80]}
"""What `make test` runs through each kind of fleet; `make soak` runs them all."""
RUNS = [
    pytest.param(kind, path, id=f"{kind}-{path.stem}", marks=() if path in few else pytest.mark.soak)
    for kind, few in FEW.items()
    for path in SCENARIOS
]


class FleetRunner:
    """A runner of which each run is submitted to a worker of its own."""

    def __init__(self, runner: Runner[Any], followed: Followed, dsn: str | None) -> None:
        self._runner = runner
        self._followed = followed
        self._dsn = dsn
        """Where DBOS brings the runs; None for the store's own courier."""

    async def run_async(self, **arguments: Any) -> AsyncGenerator[Event, None]:
        """`Runner.run_async` by way of the registry."""
        runner = self._runner
        arguments["run_config"] = arguments.get("run_config") or RunConfig()
        couriers = [DbosCourier(self._dsn) if self._dsn else None for _ in range(2)]
        async with (
            Worker(runner, courier=couriers[0]) as self._followed.worker,
            RunClient(runner.app_name, runner.session_service, courier=couriers[1]) as client,
        ):
            async for event in client.run_async(**arguments):
                yield event

    async def close(self) -> None:
        """As the runner."""
        await self._runner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)


@pytest.mark.parametrize(("kind", "path"), RUNS)
def test_a_scenario_gives_its_trace_by_a_fleet(
    kind: str, path: Path, tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    """Events, models' requests, callbacks and state, whatever process runs it, and whatever brings the run there."""
    where = str(tmp_path / "fleet.db") if kind == "sqlite" else request.getfixturevalue("postgres_dsn")

    def make(app_name: str, agent: Any, session_service: Any, artifact_service: Any, plugins: Any) -> Any:
        given = {"session_service": session_service, "artifact_service": artifact_service}
        followed = Followed()
        given["plugins"] = [*(plugins or ()), *([followed] if "stream" in path.stem else ())] or None
        return FleetRunner(Runner(app_name=app_name, agent=agent, **given), followed, where if kind == "dbos" else None)

    def family(error: Exception) -> str:
        limit = isinstance(error, RunFailedError) and error.code == "LlmCallsLimitExceededError"
        return "llm_calls_limit" if limit else "error"

    store = partial(opened, where)
    names = {**vars(engine), "make_runner": make, "InMemorySessionService": store, "error_family": family}
    case = json.loads(path.read_text(encoding="utf-8"))
    trace = driver.run_scenario(SimpleNamespace(**names), case["scenario"])
    verdict, differences = compare.compare(case["scenario"], {"trace": case["expected"]}, trace)
    assert verdict.startswith("pass"), json.dumps(differences, indent=1)[:4000]
