"""A real server for each module of tests: uvicorn on loopback, at a port that was free, with one scripted agent."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from server.serving import Running, desk, serving

from flowloom.server import app_of


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A development server of the agent `desk`, in memory; `server.client` is an httpx client of it."""
    with serving(app_of(desk())) as running:
        yield running
