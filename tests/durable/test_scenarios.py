"""The reference scenarios through a fleet: the trace is the one that the same runs leave in process."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import AsyncGenerator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

HERE = Path(__file__).parent.parent
if str(HERE) not in sys.path:
    sys.path.append(str(HERE))

from conformance import compare, driver, engine  # noqa: E402

from flowloom import Event, RunConfig, Runner, SqliteSessionService  # noqa: E402
from flowloom.durable import RunClient, RunFailedError, Worker  # noqa: E402
from flowloom.plugins import BasePlugin  # noqa: E402

SCENARIOS = sorted((HERE / "conformance" / "scenarios").glob("*.json"))
SCENARIOS.remove(HERE / "conformance" / "scenarios" / "stop-after-partial.json")  # a run goes on that is not followed
SOME = SCENARIOS if os.environ.get("FLOWLOOM_LONG") else SCENARIOS[::12]
"""Each twelfth by `make test`, all by `make soak`."""


class Slow(BasePlugin):
    """Lets the follower of a run come before its first delta, as models do."""

    def __init__(self) -> None:
        super().__init__("slow")

    async def before_model_callback(self, **_: Any) -> None:
        await asyncio.sleep(0.1)


class FleetRunner:
    """A runner of which each run is submitted to a worker of its own."""

    def __init__(self, runner: Runner[Any]) -> None:
        self._runner = runner

    async def run_async(self, **arguments: Any) -> AsyncGenerator[Event, None]:
        """`Runner.run_async` by way of the registry."""
        runner = self._runner
        arguments["run_config"] = arguments.get("run_config") or RunConfig()
        async with Worker(runner), RunClient(runner.app_name, runner.session_service) as client:
            async for event in client.run_async(**arguments):
                yield event

    async def close(self) -> None:
        """As the runner."""
        await self._runner.close()

    def __getattr__(self, name: str) -> Any:
        return getattr(self._runner, name)


@pytest.mark.parametrize("path", SOME, ids=lambda path: path.stem)
def test_a_scenario_gives_its_trace_by_a_fleet(path: Path, tmp_path: Path) -> None:
    """Events, models' requests, callbacks and state, whatever process runs it."""
    services: list[SqliteSessionService] = []

    def make(app_name: str, agent: Any, session_service: Any, artifact_service: Any, plugins: Any) -> Any:
        given = {"session_service": session_service, "artifact_service": artifact_service}
        slow = [*(plugins or ()), *([Slow()] if "stream" in path.stem else ())]
        return FleetRunner(Runner(app_name=app_name, agent=agent, plugins=slow or None, **given))

    def store() -> SqliteSessionService:
        services.append(SqliteSessionService(tmp_path / f"{len(services)}.db"))
        return services[-1]

    def family(error: Exception) -> str:
        limit = isinstance(error, RunFailedError) and error.code == "LlmCallsLimitExceededError"
        return "llm_calls_limit" if limit else "error"

    names = {**vars(engine), "make_runner": make, "InMemorySessionService": store, "error_family": family}
    case = json.loads(path.read_text(encoding="utf-8"))
    trace = driver.run_scenario(SimpleNamespace(**names), case["scenario"])
    verdict, differences = compare.compare(case["scenario"], {"trace": case["expected"]}, trace)
    assert verdict.startswith("pass"), json.dumps(differences, indent=1)[:4000]
