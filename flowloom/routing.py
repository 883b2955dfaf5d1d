"""Which agent answers a message, and what the message answers (spec §18.4 to §18.6)."""

from __future__ import annotations

from collections.abc import Sequence

from google.genai import types

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.events import Event
from flowloom.flow.delegation import delegates_of

Place = tuple[BaseAgent, tuple[BaseAgent, ...]]
"""An agent, and the agents above it, root first."""


def answered_calls(events: Sequence[Event], message: types.Content | None) -> list[Event]:
    """The events whose calls a message answers, in the order of its answers; the latest, for an id used twice."""
    ids = [p.function_response.id for p in (message and message.parts) or () if p.function_response is not None]
    wanted = {call_id for call_id in ids if call_id}
    found: dict[str, Event] = {}
    for event in reversed(events):
        if not wanted:
            break
        for call in event.get_function_calls():
            if call.id in wanted:
                wanted.discard(call.id)
                found[call.id] = event
    return [found[call_id] for call_id in ids if call_id in found]


def find_agent_to_run(root: BaseAgent, events: Sequence[Event], answered: Sequence[Event]) -> Place:
    """Which agent goes on (spec §18.6).

    A root that is no LLM agent, or that has a task sub-agent, always runs. Otherwise the agent whose call is
    answered, or the workflow it belongs to; else the latest agent that spoke and may be handed over to from
    anywhere; else the root.
    """
    top: Place = (root, ())
    if not isinstance(root, LlmAgent):
        return top
    if any(isinstance(c, LlmAgent) and c.mode == "task" for c in delegates_of(root).values()):
        return top
    for event in answered[:1]:
        place = place_of(root, event.author)
        if place is not None:
            return _workflow_above(place)
    for event in reversed(events):
        if event.author == "user":
            continue
        if event.author == root.name:
            return top
        place = place_of(root, event.author)
        if place is not None and _transferable(place):
            return place
    return top


def place_of(root: BaseAgent, name: str) -> Place | None:
    """The first agent of that name in the tree, and the agents above it."""
    todo: list[Place] = [(root, ())]
    while todo:
        agent, above = todo.pop()
        if agent.name == name:
            return agent, above
        todo.extend((child, (*above, agent)) for child in reversed(agent.sub_agents))
    return None


def _workflow_above(place: Place) -> Place:
    """The uppermost agent on the way that runs its members itself: it has to go on after its member (decision 28)."""
    agent, above = place
    for depth, ancestor in enumerate(above):
        if not isinstance(ancestor, LlmAgent):
            return ancestor, above[:depth]
    if isinstance(agent, LlmAgent) and agent.mode in ("task", "single_turn"):
        return above[-1], above[:-1]  # a delegated agent goes on below the one that called it
    return place


def _transferable(place: Place) -> bool:
    """Whether an agent can be handed over to across the tree: it and all above it are LLM agents that hand back."""
    agent, above = place
    return all(
        isinstance(each, LlmAgent) and not each.disallow_transfer_to_parent and each.mode not in ("task", "single_turn")
        for each in (*above, agent)
    )
