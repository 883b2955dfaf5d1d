"""The sub-agents that a coordinator calls like functions: where they run, and what answers their calls (spec §17.9)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.protocols import AnyAgent, AnyLlmAgent, as_llm_agent
from flowloom.errors import ToolArgumentsError
from flowloom.events.event import Event
from flowloom.events.parts import as_object
from flowloom.flow.turn import WAITING, Turn
from flowloom.processors.output_schema import schema_of
from flowloom.tools.delegation import failure_told, task_result

_MODES = ("task", "single_turn")


def delegates_of(agent: AnyAgent) -> dict[str, AnyAgent]:
    """The sub-agents that are called like functions, by name."""
    children = agent.sub_agents
    return agent.derive("delegates", _delegates_among, (*children,)) if children else {}


def _delegates_among(agents: Sequence[AnyAgent]) -> dict[str, AnyAgent]:
    called = (agent for agent in map(as_llm_agent, agents) if agent is not None and agent.mode in _MODES)
    return {agent.name: agent for agent in called}


def is_single_turn(agent: AnyAgent, call: types.FunctionCall) -> bool:
    """Whether a call is for a `single_turn` sub-agent."""
    called = as_llm_agent(delegates_of(agent).get(call.name or ""))
    return called is not None and called.mode == "single_turn"


def unresolved_tasks(ctx: InvocationContext) -> tuple[list[types.FunctionCall], list[types.FunctionCall]]:
    """The calls that this agent has made of sub-agents, and that have no answer: those of `single_turn` agents, and
    those of `task` agents."""
    singles: list[types.FunctionCall] = []
    tasks: list[types.FunctionCall] = []
    if not (names := delegates_of(ctx.agent)):
        return singles, tasks
    here = ctx.place[:3]
    for made in ctx.run.ledger.unanswered():
        child = as_llm_agent(names.get(made.name))
        if child is None or made.place[:3] != here:
            continue
        # a task goes on over many messages; a single turn belongs to its invocation, which is resumed as such
        if child.mode == "task":
            tasks.append(made.call)
        elif made.event.invocation_id == ctx.invocation_id:
            singles.append(made.call)
    return singles, tasks


def delegated_context(ctx: InvocationContext, call: types.FunctionCall) -> InvocationContext:
    """Where the called sub-agent runs: in the scope of its call; a `single_turn` one on a branch of its own."""
    child = delegates_of(ctx.agent)[call.name or ""]
    below = ctx.below(child)
    below.isolation_scope = call.id
    below.resumed = ctx.resumed
    if is_single_turn(ctx.agent, call):
        leaf = f"{child.name}@{call.id}"
        below.branch = f"{ctx.branch}.{leaf}" if ctx.branch else leaf
    return below


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


def ends_turn(event: Event) -> bool:
    """Whether an event is the last of its agent's turn: a final response, or the result of a task."""
    return event.is_final_response() or task_result(event) is not None
