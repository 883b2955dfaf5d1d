"""The assembled requests of every example and of the main hierarchies, one file each, beside this module."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hierarchies import HIERARCHIES
from inspection.requests import asked

from flowloom import BaseAgent, LlmAgent, explain
from flowloom.cli.loading import load_app

EXAMPLES = Path(__file__).parents[2] / "examples"


def agents_of(example: str) -> list[BaseAgent]:
    """The root and every agent below it that a model speaks for."""
    todo, found = [load_app(EXAMPLES / example).agent], list[BaseAgent]()
    while todo:
        agent = todo.pop(0)
        todo.extend(agent.sub_agents)
        found += [agent] if isinstance(agent, LlmAgent) else []
    return found


@pytest.mark.parametrize("name", HIERARCHIES)
async def test_the_request_of_a_hierarchy(name: str, request_snapshot: Any) -> None:
    case = HIERARCHIES[name]
    assembly = await explain(case.build(asked([])), case.message, history=case.history(), state=case.state)
    assert assembly == request_snapshot


@pytest.mark.parametrize("example", sorted(path.parent.name for path in EXAMPLES.glob("*/agent.py")))
async def test_the_requests_of_an_example(example: str, request_snapshot: Any) -> None:
    for agent in agents_of(example):
        assembly = await explain(agent, "What can you do?", state={"draft": "A draft.", "review": "A review."})
        assert assembly == request_snapshot(name=agent.name)


async def test_the_changes_of_each_processor(request_snapshot: Any) -> None:
    """The chain, for a hierarchy in which nearly all of them have something to do."""
    case = HIERARCHIES["edited"]
    assembly = await explain(case.build(asked([])), case.message, history=case.history())
    assert assembly.steps == request_snapshot
