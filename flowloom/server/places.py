"""Where in the tree of agents an event was made, as clients of google-adk's server read it (server spec §5)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from pydantic_core import to_json

from flowloom.agents import BaseAgent, LlmAgent

Places = Mapping[str, bytes]
"""By author, the JSON of the `nodeInfo` of its events; who is not in it has an empty path."""


def places_in(root: BaseAgent) -> dict[str, bytes]:
    """The places of an app's agents: `desk@1/flights@1`; those of workflow agents, and below them, have no path."""
    return {name: to_json({"path": path}) for name, path in _paths(root, "")}


def _paths(agent: BaseAgent, above: str) -> Iterator[tuple[str, str]]:
    if isinstance(agent, LlmAgent):
        path = f"{above}{agent.name}@1"
        yield agent.name, path
        for each in agent.sub_agents:
            yield from _paths(each, f"{path}/")
