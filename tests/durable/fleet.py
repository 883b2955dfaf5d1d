"""What the tests of fleets share: an app with tools, stores of both kinds, and workers in this process."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from flowloom import LlmAgent, Runner, SqliteSessionService
from flowloom.durable import RunClient, Worker
from flowloom.plugins import BasePlugin
from flowloom.sessions.postgres import PostgresSessionService
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing import ScriptedModel, call

QUICK: dict[str, Any] = {"heartbeat": 0.05, "dead_after": 1.0, "drain": 5.0, "sweep": 0.2}
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


class Followed(BasePlugin):
    """Has the models of a worker wait for who follows the run: of a message that is complete, no parts are seen."""

    worker: Worker | None = None

    def __init__(self) -> None:
        super().__init__("followed")

    async def before_model_callback(self, *, callback_context: Any, **_: Any) -> None:
        topic = self.worker and self.worker.channel._topics.get(callback_context.invocation_id)
        for _ in range(500):
            if not topic or topic.followers:
                return
            await asyncio.sleep(0.01)
