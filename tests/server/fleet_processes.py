"""Workers and servers of a fleet in processes of their own, which share a store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Generator, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import httpx
from server.serving import PATIENCE, Running, eventually
from server.talker import runs_of, stored, talker

from flowloom.artifacts.files import FileArtifactService
from flowloom.durable import DbosCourier, RunClient
from flowloom.server import app_of

_TESTS = Path(__file__).parent.parent
_WORKER = """
import asyncio, sys
from flowloom import Runner
from flowloom.artifacts.files import FileArtifactService
from flowloom.durable import DbosCourier, Worker
from durable.fleet import Followed
from server.fleet_processes import store
from server.talker import talker

async def main(where, files, courier):
    service, followed = store(where), Followed()
    runner = Runner(
        app_name="desk", agent=talker(), session_service=service, artifact_service=FileArtifactService(files),
        plugins=[followed],
    )
    brings = DbosCourier(where, queue="desk") if courier == "dbos" else None
    followed.worker = Worker(runner, courier=brings, heartbeat=0.1, dead_after=1.0, sweep=0.5, drain=5)
    await followed.worker.run(lambda: print("up", flush=True))
    await service.close()

asyncio.run(main(*sys.argv[1:]))
"""
_SERVER = """
import json, sys
from flowloom.server.serving import run_server
from server.fleet_processes import fleet_app

where, files, courier, settings = sys.argv[1:]
app = fleet_app(where, files, courier, **{"port": 0, **json.loads(settings)})
run_server(app, app.state.served.settings)
"""


def store(where: str) -> Any:
    """The sessions of a URL or a file."""
    if where.startswith("postgres"):
        from flowloom.sessions.postgres import PostgresSessionService

        return PostgresSessionService(where, max_connections=4)
    from flowloom import SqliteSessionService

    return SqliteSessionService(where)


def fleet_app(where: str, files: Path, courier: str = "store", **settings: Any) -> Any:
    """A server of the app `desk`, whose code is here for what is shown of it, and whose runs the workers run."""
    brings = DbosCourier(where, queue="desk") if courier == "dbos" else None
    client = RunClient("desk", store(where), courier=brings, auto_create_session=False)
    return app_of(talker(), fleet=client, artifact_service_uri=FileArtifactService(files), **settings)


@contextmanager
def _process(program: str, *arguments: str) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A process, and the first line that it says."""
    path = os.pathsep.join([str(_TESTS), str(_TESTS.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", program, *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as made:
        try:
            assert made.stdout is not None
            said = made.stdout.readline()
            assert said, "It has said nothing."
            yield made, said.split()[-1]
        finally:
            made.kill()


@contextmanager
def a_worker(where: str, files: Path, courier: str = "store") -> Iterator[subprocess.Popen[str]]:
    """A worker of the app `desk`, which does what it is told."""
    with _process(_WORKER, where, str(files), courier) as (made, said):
        assert said == "up"
        yield made


@contextmanager
def a_server(
    where: str, files: Path, courier: str = "store", **settings: Any
) -> Iterator[tuple[subprocess.Popen[str], Running]]:
    """A server of the app, whose runs the workers run, and what reaches it."""
    with _process(_SERVER, where, str(files), courier, json.dumps(settings)) as (made, url):
        running = Running.__new__(Running)
        running.url = url
        running.client = httpx.Client(base_url=url, timeout=PATIENCE, trust_env=False)
        try:
            yield made, running
        finally:
            running.client.close()


def over(server: Running, session: str) -> list[dict[str, Any]]:
    """The events of a session, when no run of it goes on."""
    eventually(lambda: all(each["status"] == "paused" for each in runs_of(server, session)))
    return stored(server, session)


def ids_of(seen: str) -> list[str]:
    """The ids of the frames."""
    return [line.removeprefix("id: ") for line in seen.split("\n") if line.startswith("id: ")]
