"""A real server for each module of tests: uvicorn on loopback, at a port that was free, with one scripted agent."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from server.serving import Running, desk, serving
from server.talker import go_on

from flowloom.server import app_of


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A development server of the agent `desk`, in memory; `server.client` is an httpx client of it."""
    with serving(app_of(desk())) as running:
        yield running


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Answers that are held up (see `talker`) go on when this is set."""
    go_on.clear()
    yield go_on
    go_on.set()
