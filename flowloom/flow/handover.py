"""Where control goes and how it comes back: the agent that a transfer names, and the answer of a delegated call."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.protocols import as_llm_agent
from flowloom.errors import AgentNotFoundError, ToolArgumentsError, closest_first, quoted_list
from flowloom.events.event import Event
from flowloom.events.parts import as_object, content_of, response_part
from flowloom.flow.turn import WAITING, Turn
from flowloom.processors.agent_transfer import transfer_targets
from flowloom.processors.output_schema import schema_of
from flowloom.tools.delegation import failure_told


def place_of_target(ctx: InvocationContext, name: str) -> InvocationContext:
    """The place of the agent that `ctx.agent` hands over to.

    Raises `AgentNotFoundError` for one out of reach (decision 5).
    """
    agent = ctx.llm_agent
    targets = [] if agent is None else transfer_targets(agent, ctx.parent)
    for target in targets:
        if target.name != name:
            continue
        if any(child is target for child in ctx.agent.sub_agents):
            return ctx.below(target)
        return ctx.at(target, ctx.lineage[:-1] if target is ctx.parent else ctx.lineage)
    names = quoted_list(closest_first(name, [target.name for target in targets]))
    raise AgentNotFoundError(
        f"Agent `{ctx.agent.name}` cannot hand over to `{name}`. It reaches: {names}. Add it to `sub_agents`, or "
        f"allow the transfer."
    )


def answer_of_task(ctx: InvocationContext, task: types.FunctionCall, turn: Turn) -> Event | None:
    """The event that answers the call of a sub-agent whose turn is over; None if it waits and the call stays open."""
    agent = as_llm_agent(turn.agent)
    assert agent is not None
    inside = (call.parent for call in ctx.run.waiting_calls.values())
    if turn.outcome is WAITING or task.id in inside:
        return None
    output = turn.output
    if agent.mode == "task":
        if output is None and turn.failure is None:
            return None
        told = as_object(output, "output") if turn.failure is None else {"error": turn.failure}
        return _answer(ctx, task, "user", told)
    if output is None:
        failed = turn.last is not None and turn.last.error_code and failure_told(agent, turn.last)
        told = turn.failure or failed or f"Agent `{agent.name}` ended without an answer."
        return _answer(ctx, task, ctx.agent.name, {"error": told})
    if agent.output_schema is None:
        return _answer(ctx, task, ctx.agent.name, {"result": output})
    try:
        return _answer(ctx, task, ctx.agent.name, {"result": schema_of(agent).parse(output)})
    except ToolArgumentsError as error:
        return _answer(ctx, task, ctx.agent.name, {"error": str(error)})


def _answer(ctx: InvocationContext, call: types.FunctionCall, author: str, response: dict[str, Any]) -> Event:
    part = response_part(call.id, call.name, response)
    return ctx.new_event({"author": author, "content": content_of("user", [part])})
