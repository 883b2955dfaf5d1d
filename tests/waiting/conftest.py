"""The world of the tests, and the office in which each story is told: in one process, and with restarts."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from flowloom import BaseAgent
from waiting.desk import World
from waiting.office import Office


@pytest.fixture
def world() -> World:
    return World()


@pytest.fixture(params=[False, True], ids=["in one process", "restarted"])
def office(request: pytest.FixtureRequest) -> Callable[[Callable[[], BaseAgent]], Office]:
    def build(root: Callable[[], BaseAgent]) -> Office:
        it = Office(root)
        it.restarts = request.param
        return it

    return build
