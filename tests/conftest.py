"""Settings that all tests share, and the PostgreSQL server of those that need one."""

from __future__ import annotations

import gc
import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings
from kit import examples
from postgres_server import PostgresServer, empty, running_server

# the same examples on every machine: a failure that one run shows, the next one shows too
settings.register_profile("fixed", derandomize=True, deadline=None, max_examples=examples(100))
settings.load_profile("fixed")

# a shell that starts a program in the background has it ignore Ctrl-C, and so all that the program starts
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)

# pytest keeps much and loses little: to look for garbage as often as usual takes a seventh of the time
gc.set_threshold(20_000, 20, 20)

pytest_plugins = ["pytester", *(["ledger_check"] if os.environ.get("FLOWLOOM_LEDGER") else [])]


def pytest_pycollect_makeitem(collector: pytest.Collector, obj: object) -> list[pytest.Item] | None:
    """What is left out is not made first: the suites of `make soak` have as many cases as all else together."""
    marks: list[pytest.Mark] = getattr(obj, "pytestmark", [])
    left_out = "not soak" in collector.config.option.markexpr and any(mark.name == "soak" for mark in marks)
    return [] if left_out else None


@pytest.fixture(scope="module", autouse=True)
def _what_stays_is_not_looked_through_again(request: pytest.FixtureRequest) -> Iterator[None]:
    """Tests and loaded modules stay until the end: a test that collects garbage has not to go through them.

    Only where tests collect: to ask whether objects are frozen, as the package does, takes the longer the more are.
    """
    if not hasattr(request.module, "gc"):
        yield
        return
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.hookimpl(trylast=True)
def pytest_sessionfinish() -> None:
    """What is left is looked through once, for what was never closed: pytest would do it five times."""
    gc.collect()
    gc.freeze()


@pytest.fixture(scope="session")
def postgres_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgresServer]:
    """A real server on loopback, shared by all processes of the run. A run without one fails; it does not skip."""
    base = tmp_path_factory.getbasetemp()
    with running_server((base.parent if "PYTEST_XDIST_WORKER" in os.environ else base) / "postgres") as server:
        yield server


@pytest.fixture(scope="session")
def postgres_database(postgres_server: PostgresServer) -> Iterator[str]:
    """The DSN of a database that this process alone uses."""
    with postgres_server.database() as dsn:
        yield dsn


@pytest.fixture
def postgres_dsn(postgres_database: str) -> Iterator[str]:
    """The DSN of an empty database of the test's own. To empty one takes a hundredth of the time to make one."""
    yield postgres_database
    empty(postgres_database)
