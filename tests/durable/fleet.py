"""What the tests of fleets share: an app with tools, stores of both kinds, and workers in this process."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flowloom import LlmAgent, Runner, SqliteSessionService
from flowloom.durable import RunClient, Worker
from flowloom.sessions.postgres import PostgresSessionService
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing import ScriptedModel, call

QUICK: dict[str, Any] = {"heartbeat": 0.05, "dead_after": 0.3, "drain": 5.0, "sweep": 0.2}
WHO = {"user_id": "ann", "session_id": "s1"}
APP = "travel"


@pytest.fixture(params=["sqlite", "postgres"])
def where(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """A store of each kind, which several services may open."""
    return str(tmp_path / "fleet.db") if request.param == "sqlite" else request.getfixturevalue("postgres_dsn")


def opened(where: str) -> SqlSessionService:
    """A service of a store; the caller closes it."""
    if where.startswith("postgres"):
        return PostgresSessionService(where, max_connections=4)
    return SqliteSessionService(where)


async def step(number: int) -> str:
    """Take a step."""
    return f"did {number}"


def steps(count: int) -> list[Any]:
    """What a model says that takes so many steps."""
    return [*(call("step", number=number) for number in range(1, count + 1)), "Done."]


def runner_of(service: SqlSessionService, answers: Sequence[Any], *tools: Any, **options: Any) -> Runner[Any]:
    """A runner whose model says these."""
    agent = LlmAgent(name="agent", model=ScriptedModel(list(answers)), tools=[step, *tools])
    return Runner(app_name=APP, agent=agent, session_service=service, **options)


def worker_of(service: SqlSessionService, answers: Sequence[Any], *tools: Any, **options: Any) -> Worker:
    """A worker with such a runner, and beats that are quick."""
    return Worker(runner_of(service, answers, *tools), **{**QUICK, **options})


def client_of(service: SqlSessionService, **options: Any) -> RunClient:
    return RunClient(APP, service, **options)
