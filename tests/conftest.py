"""Settings that all tests share, and the PostgreSQL server of those that need one."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator

import pytest
from hypothesis import settings
from kit import examples
from postgres_server import PostgresServer, running_server

# the same examples on every machine: a failure that one run shows, the next one shows too
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=examples(100))
settings.load_profile("fixed")

pytest_plugins = ["pytester"]


def pytest_collection_finish() -> None:
    """What was collected stays until the end: a test that collects garbage has not to go through it again."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A real server on loopback, shared by all processes of the run. A run without one fails; it does not skip."""
    base = tmp_path_factory.getbasetemp()
    with running_server((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "postgres") as server:
        yield server


@pytest.fixture
def postgres_dsn(postgres_server: PostgresServer) -> Iterator[str]:
    """The DSN of an empty database of the test's own."""
    with postgres_server.database() as dsn:
        yield dsn
