"""Where control goes and how it comes back: the agent that a transfer names, and the answer of a delegated call."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.protocols import AnyLlmAgent, as_llm_agent
from flowloom.errors import AgentNotFoundError, ToolArgumentsError, closest_first, quoted_list
from flowloom.events.parts import as_object
from flowloom.flow.turn import WAITING, Turn
from flowloom.processors.agent_transfer import transfer_targets
from flowloom.processors.output_schema import schema_of
from flowloom.tools.delegation import failure_told


def place_of_target(ctx: InvocationContext, name: str) -> InvocationContext:
    """The place of the agent that `ctx.agent` hands over to.

    Raises `AgentNotFoundError` for one out of reach (decision 5).
    """
    assert ctx.llm_agent is not None
    targets = transfer_targets(ctx.llm_agent, ctx.parent)
    target = targets.get(name)
    if target is None:
        names = quoted_list(closest_first(name, targets))
        raise AgentNotFoundError(
            f"Agent `{ctx.agent.name}` cannot hand over to `{name}`. It reaches: {names}. Add it to `sub_agents`, or "
            f"allow the transfer."
        )
    if any(child is target for child in ctx.agent.sub_agents):
        return ctx.below(target)
    return ctx.at(target, ctx.lineage[:-1] if target is ctx.parent else ctx.lineage)


def response_of_task(ctx: InvocationContext, task: types.FunctionCall, turn: Turn) -> dict[str, Any] | None:
    """What answers the call of a sub-agent whose turn is over: what a `task` agent has finished with, or what a
    `single_turn` agent has said last. None if it waits, or has more to say to the user: the call stays open."""
    agent = as_llm_agent(turn.agent)
    assert agent is not None
    inside = (call.parent for call in ctx.run.waiting_calls.values())
    if turn.outcome is WAITING or task.id in inside:
        return None
    if agent.mode != "task":
        return _response_of_single_turn(agent, turn)
    if turn.failure is not None:
        return {"error": turn.failure}
    return None if turn.output is None else as_object(turn.output, "output")


def _response_of_single_turn(agent: AnyLlmAgent, turn: Turn) -> dict[str, Any]:
    """What a `single_turn` agent has said last, of the form of its output schema, if it has one."""
    if turn.output is None:
        failed = turn.last is not None and turn.last.error_code and failure_told(agent, turn.last)
        return {"error": turn.failure or failed or f"Agent `{agent.name}` ended without an answer."}
    if agent.output_schema is None or not isinstance(turn.output, str):
        return as_object(turn.output, "result")
    try:
        return {"result": schema_of(agent).parse(turn.output)}
    except ToolArgumentsError as error:
        return {"error": str(error)}
