"""The agent_transfer processor: whom the agent may hand over to (spec §11)."""

from __future__ import annotations

from collections.abc import Awaitable, Iterable, Mapping, Sequence
from typing import Any

from flowloom.context import InvocationContext
from flowloom.context.protocols import AnyAgent, AnyLlmAgent, as_llm_agent
from flowloom.errors import closest_first, quoted_list
from flowloom.models.request import LlmRequest, ToolBlock
from flowloom.tools.transfer import TRANSFER_TOOL, TransferToAgentTool


def agent_transfer(ctx: InvocationContext, request: LlmRequest) -> Awaitable[None] | None:
    """The transfer tool, and who can be reached with it.

    Reads: the agent's place in the tree; names, descriptions and modes of its neighbours.
    Writes: `tools_dict`, `config.tools`, `config.system_instruction`.
    Must come after: instructions and identity; before tool_declarations, so that this tool is declared first.
    """
    agent = ctx.llm_agent
    if agent is None or agent.mode in ("task", "single_turn"):
        return None
    parent = ctx.parent
    targets = transfer_targets(agent, parent)
    if targets:
        block, instruction, late = agent.derive("transfer", _offer, targets, parent)
        if late:
            return _look_up(ctx, agent, request, late)
        request.append_tools(block)
        request.append_instructions(instruction)
    return None


def those_late(agents: Iterable[Any]) -> tuple[Any, ...]:
    """Those of some agents that have to look up what they are for, before a model is told of them."""
    return tuple(agent for agent in agents if hasattr(agent, "look_up_description"))


def _offer(targets: Mapping[str, AnyAgent], parent: AnyAgent | None) -> tuple[ToolBlock, str, tuple[Any, ...]]:
    """The tool, the instruction, and those who look up what they are for."""
    above = parent if any(target is parent for target in targets.values()) else None
    return ToolBlock([TransferToAgentTool([*targets])]), _instruction(targets, above), those_late(targets.values())


async def _look_up(ctx: InvocationContext, agent: AnyLlmAgent, request: LlmRequest, late: tuple[Any, ...]) -> None:
    """The same, when those who have to have looked up what they are for."""
    for each in late:
        await each.look_up_description(ctx)
    block, instruction, _ = _offer(transfer_targets(agent, ctx.parent), ctx.parent)
    request.append_tools(block)
    request.append_instructions(instruction)


def transfer_targets(agent: AnyLlmAgent, parent: AnyAgent | None) -> Mapping[str, AnyAgent]:
    """Whom `agent` may hand over to, below `parent`, by name (spec §11.3): sub-agents, parent, peers, in that order.

    Agents that are delegated to (`task`, `single_turn`) are called and not handed over to. A parent that is no
    LLM agent runs its children itself: neither it nor they can be reached.
    """
    children = agent.sub_agents
    if parent is None and not children:
        return {}
    peers = () if parent is None else (*parent.sub_agents,)
    return agent.derive("targets", _targets_of, agent, (*children,), parent, peers)


def _targets_of(
    agent: AnyLlmAgent, children: Sequence[AnyAgent], parent: AnyAgent | None, peers: Sequence[AnyAgent]
) -> Mapping[str, AnyAgent]:
    found = [child for child in children if _takes_over(child)]
    above = as_llm_agent(parent)
    if above is not None and not agent.disallow_transfer_to_parent:
        found.append(above)
    if above is not None and not agent.disallow_transfer_to_peers:
        found.extend(peer for peer in peers if peer is not agent and _takes_over(peer))
    targets: dict[str, AnyAgent] = {}
    for target in found:
        targets.setdefault(target.name, target)
    return targets


def transfer_problem(ctx: InvocationContext, name: str) -> str | None:
    """What is wrong with handing over to `name` from here; None if it can be done (decision 5)."""
    agent = ctx.llm_agent
    targets = None if agent is None else transfer_targets(agent, ctx.parent)
    if targets and name in targets:
        return None
    reachable = quoted_list(closest_first(name, targets or ()))
    return f"Agent `{ctx.agent.name}` cannot hand over to `{name}`. It can reach: {reachable}."


def _takes_over(agent: AnyAgent) -> bool:
    llm_agent = as_llm_agent(agent)
    return llm_agent is None or llm_agent.mode not in ("task", "single_turn")


def _instruction(targets: Mapping[str, AnyAgent], parent: AnyAgent | None) -> str:
    lines = ["Other agents that you can hand the conversation over to:"]
    lines += [f"- {name}: {each.description}" if each.description else f"- {name}" for name, each in targets.items()]
    names = quoted_list(sorted(targets))
    lines.append(
        f"\nIf you are the best one to answer, answer. If another agent fits better by its description, call "
        f"`{TRANSFER_TOOL}` with its name and write nothing else.\n"
        f"The only names that `{TRANSFER_TOOL}` takes: {names}."
    )
    if parent is not None:
        lines.append(f"If neither you nor any of them fits, hand over to `{parent.name}`.")
    return "\n".join(lines)
