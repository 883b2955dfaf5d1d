"""What an agent's final answer is, and where it is kept (spec §13.4, decision 18)."""

from __future__ import annotations

from typing import Any

from flowloom.context.protocols import AnyLlmAgent
from flowloom.errors import ToolArgumentsError
from flowloom.events.event import Event
from flowloom.events.wire import shallow_copy
from flowloom.processors.output_schema import schema_of


def write_output(agent: AnyLlmAgent, event: Event) -> Event:
    """The event with the agent's output key in its state delta, if it is the agent's final text."""
    if event.author != agent.name or not event.is_final_response():
        return event
    text = event.text
    if not text.strip():
        return event
    assert agent.output_key is not None
    new = shallow_copy(event)
    actions = shallow_copy(event.actions)
    actions.__dict__["state_delta"] = {**event.actions.state_delta, agent.output_key: parsed_output(agent, text)}
    new.__dict__["actions"] = actions
    return new


def parsed_output(agent: AnyLlmAgent, text: str) -> Any:
    """The final text; as data, if the agent has an output schema that it fits."""
    if agent.output_schema is None:
        return text
    try:
        return schema_of(agent).parse(text)
    except ToolArgumentsError:
        return text
