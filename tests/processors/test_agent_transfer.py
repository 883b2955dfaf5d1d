"""Whom an agent may hand over to, and how the model is told (cases area 16: processor, declaration)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from kit import agent, context, declarations, declared_names, system_text

from flowloom import (
    BaseAgent,
    Context,
    Event,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
)
from flowloom.errors import ToolArgumentsError
from flowloom.processors import agent_transfer, tool_declarations, tools
from flowloom.processors.agent_transfer import transfer_problem
from flowloom.tools import TransferToAgentTool


class Custom(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(author=self.name)


def built(asked: Any) -> LlmRequest:
    request = LlmRequest()
    assert agent_transfer(context(asked), request) is None
    return request


def targets(request: LlmRequest) -> list[str]:
    """The enum of the declared transfer tool; empty if none is declared."""
    declared = declarations(request)
    if not declared:
        return []
    assert [d.name for d in declared] == ["transfer_to_agent"]
    assert declared[0].parameters is not None
    assert declared[0].parameters.required == ["agent_name"]
    assert declared[0].parameters.properties is not None
    assert declared[0].parameters.properties.keys() == {"agent_name"}
    return declared[0].parameters.properties["agent_name"].enum or []


def family(**fields: Any) -> tuple[LlmAgent, LlmAgent]:
    """The agent in question, with a parent `parent`, a peer `peer` and sub-agents `one` (LLM) and `two` (custom)."""
    child = LlmAgent(
        name="current", sub_agents=[LlmAgent(name="one", description="First."), Custom(name="two")], **fields
    )
    parent = LlmAgent(
        name="parent", description="On top.", sub_agents=[child, LlmAgent(name="peer", description="Beside.")]
    )
    return child, parent


@pytest.mark.parametrize("solo", [LlmAgent(name="solo"), Custom(name="solo")])
def test_an_agent_on_its_own_is_told_of_nobody(solo: BaseAgent) -> None:
    """Solo LLM agent / non-LLM agent | request unchanged."""
    assert built(solo) == LlmRequest()


def test_below_an_llm_parent_only_the_parent_is_a_target_and_mentioned() -> None:
    child = LlmAgent(name="current")
    _ = LlmAgent(name="parent", description="On top.", sub_agents=[child])
    request = built(child)
    assert targets(request) == ["parent"]
    assert "parent" in system_text(request)
    assert "On top." in system_text(request)


def test_parent_and_peer_are_targets() -> None:
    child = LlmAgent(name="current")
    _ = LlmAgent(name="parent", sub_agents=[child, LlmAgent(name="peer")])
    assert targets(built(child)) == ["parent", "peer"]


def test_sub_agents_of_every_kind_are_targets() -> None:
    top = LlmAgent(name="current", sub_agents=[LlmAgent(name="one"), Custom(name="two")])
    assert targets(built(top)) == ["one", "two"]


def test_sub_agents_that_are_no_llm_agents_are_targets() -> None:
    top = LlmAgent(name="current", sub_agents=[Custom(name="one"), LoopAgent(name="two")])
    assert targets(built(top)) == ["one", "two"]


def test_all_three_kinds_come_in_order() -> None:
    child, _ = family()
    request = built(child)
    assert targets(request) == ["one", "two", "parent", "peer"]
    for words in ("First.", "On top.", "Beside."):
        assert words in system_text(request)


def test_without_the_way_to_the_parent_it_is_neither_target_nor_mentioned() -> None:
    """Disallow parent | sub-agents only; parent not mentioned. (Peers are a matter of their own flag.)"""
    child, _ = family(disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)
    request = built(child)
    assert targets(request) == ["one", "two"]
    assert "parent" not in system_text(request)
    assert "On top." not in system_text(request)


def test_the_way_to_peers_is_open_when_only_that_to_the_parent_is_closed() -> None:
    child, _ = family(disallow_transfer_to_parent=True)
    request = built(child)
    assert targets(request) == ["one", "two", "peer"]
    assert "`parent`" not in system_text(request)


def test_without_the_way_to_peers_parent_and_sub_agents_remain() -> None:
    child, _ = family(disallow_transfer_to_peers=True)
    request = built(child)
    assert targets(request) == ["one", "two", "parent"]
    assert "peer" not in system_text(request)


def test_with_both_ways_closed_and_no_sub_agents_nothing_is_added() -> None:
    child = LlmAgent(name="current", disallow_transfer_to_parent=True, disallow_transfer_to_peers=True)
    _ = LlmAgent(name="parent", sub_agents=[child, LlmAgent(name="peer")])
    assert built(child) == LlmRequest()


@pytest.mark.parametrize("kind", [ParallelAgent, SequentialAgent, LoopAgent, Custom])
def test_a_parent_that_runs_its_children_itself_is_no_target_nor_are_they(kind: type[BaseAgent]) -> None:
    """Parallel or sequential parent | nothing (no parent, no peers)."""
    child = LlmAgent(name="current")
    _ = kind(name="parent", sub_agents=[child, LlmAgent(name="peer")])
    assert built(child) == LlmRequest()


def test_a_sequence_is_a_target_and_its_members_are_not() -> None:
    row = SequentialAgent(name="row", sub_agents=[LlmAgent(name="inner")])
    request = built(LlmAgent(name="current", sub_agents=[row]))
    assert targets(request) == ["row"]
    assert "inner" not in system_text(request)


@pytest.mark.parametrize("mode", ["task", "single_turn"])
def test_delegated_children_and_peers_are_no_targets(mode: Any) -> None:
    child = LlmAgent(name="current", sub_agents=[LlmAgent(name="called", mode=mode)])
    _ = LlmAgent(name="parent", sub_agents=[child, LlmAgent(name="called2", mode=mode), LlmAgent(name="peer")])
    assert targets(built(child)) == ["parent", "peer"]


@pytest.mark.parametrize("mode", ["task", "single_turn"])
def test_a_delegated_agent_hands_over_to_nobody(mode: Any) -> None:
    """Current agent in task / single_turn | neither instruction text nor tool."""
    child, _ = family(mode=mode)
    assert built(child) == LlmRequest()


def test_an_agent_is_never_suggested_to_itself() -> None:
    child, _ = family()
    request = built(child)
    assert "current" not in targets(request)
    assert "current" not in system_text(request)


def test_the_names_that_the_tool_takes_are_listed_sorted() -> None:
    top = LlmAgent(name="current", sub_agents=[LlmAgent(name=name) for name in ("zoe", "adam", "mia")])
    text = system_text(built(top))
    assert text.rindex("`adam`") < text.rindex("`mia`") < text.rindex("`zoe`")


def test_descriptions_reach_the_model_as_plain_text() -> None:
    top = LlmAgent(name="current", sub_agents=[LlmAgent(name="one", description='<b>"A" & B</b>')])
    assert '<b>"A" & B</b>' in system_text(built(top))


def test_beside_ordinary_tools_there_is_one_group_of_declarations() -> None:
    """Declaration | after a normal tool | one group with two declarations; transfer uses plain parameters."""

    def add(a: int, b: int) -> int:
        """Add."""
        return a + b

    top = agent("current", sub_agents=[LlmAgent(name="one")], tools=[add])
    ctx, request = context(top), LlmRequest()
    assert tools(ctx, request) is None
    assert agent_transfer(ctx, request) is None
    assert tool_declarations(ctx, request) is None
    assert len(request.config.tools or ()) == 1
    assert declared_names(request) == ["transfer_to_agent", "add"]
    assert declarations(request)[0].parameters is not None
    assert declarations(request)[0].parameters_json_schema is None


async def transferred(args: dict[str, Any]) -> Context:
    tool_context = Context(context(LlmAgent(name="a")), function_call_id="c1")
    await TransferToAgentTool(["billing", "support"]).run_async(args=args, tool_context=tool_context)
    return tool_context


async def test_a_valid_name_sets_the_action() -> None:
    assert (await transferred({"agent_name": "support"})).actions.transfer_to_agent == "support"


@pytest.mark.parametrize("args", [{}, {"agent_name": None}, {"agent_name": 3}, {"agent_name": ""}, {"name": "support"}])
async def test_a_name_that_is_missing_null_no_text_or_empty_is_an_error(args: dict[str, Any]) -> None:
    with pytest.raises(ToolArgumentsError, match="agent_name"):
        await transferred(args)


async def test_decision_05_an_unknown_name_is_an_error_with_the_closest_name_first() -> None:
    with pytest.raises(ToolArgumentsError, match=r"`suport`.*`support`, `billing`"):
        await transferred({"agent_name": "suport"})


def test_one_agent_below_two_parents_has_the_targets_of_the_run_it_is_in() -> None:
    """Decision 35: its place in a tree belongs to the run."""
    shared = LlmAgent(name="shared")
    first = LlmAgent(name="first", sub_agents=[shared])
    second = LlmAgent(name="second", sub_agents=[shared, LlmAgent(name="other")])
    for parent, expected in ((first, ["first"]), (second, ["second", "other"]), (first, ["first"])):
        request = LlmRequest()
        agent_transfer(context(parent).below(shared), request)
        assert targets(request) == expected


def test_the_model_is_told_what_each_target_is_for_and_whom_to_turn_to_last() -> None:
    """Without a description, by its name; without a parent that can be reached, of no last resort."""
    child, parent = family()
    first, *lines = system_text(built(child)).splitlines()
    assert first == "Other agents that you can hand the conversation over to:"
    assert lines[:4] == ["- one: First.", "- two", "- parent: On top.", "- peer: Beside."]
    assert lines[-1] == f"If neither you nor any of them fits, hand over to `{parent.name}`."
    alone, _ = family(disallow_transfer_to_parent=True)
    assert "neither you" not in system_text(built(alone))


async def test_what_a_target_is_for_may_be_looked_up_first() -> None:
    """As of an agent on another server, whose card is fetched before its first turn."""

    class Remote(Custom):
        async def look_up_description(self, ctx: InvocationContext) -> None:
            self.description = f"Looked up for {ctx.agent.name}."

    asked = LlmAgent(name="current", sub_agents=[Remote(name="far"), LlmAgent(name="near", description="Here.")])
    parent = LlmAgent(name="parent", sub_agents=[asked])
    request = LlmRequest()
    looking_up = agent_transfer(context(asked), request)
    assert (targets(request), system_text(request)) == ([], "")
    assert looking_up is not None
    await looking_up
    assert targets(request) == ["far", "near", parent.name]
    assert system_text(request).splitlines()[1:3] == ["- far: Looked up for current.", "- near: Here."]
    assert system_text(request).endswith(f"hand over to `{parent.name}`.")


def test_what_is_wrong_with_a_handover_names_those_that_can_be_reached() -> None:
    """An agent without a model reaches none."""
    child, _ = family()
    assert transfer_problem(context(child), "two") is None
    told = transfer_problem(context(child), "tow")
    assert told == "Agent `current` cannot hand over to `tow`. It can reach: `two`, `one`, `parent`, `peer`."
    told = transfer_problem(context(Custom(name="plain")), "two")
    assert told is not None
    assert told.startswith("Agent `plain` cannot hand over to `two`.")


def test_the_offer_changes_with_the_agents_around() -> None:
    """Below, beside and above."""
    child = LlmAgent(name="current")
    parent = LlmAgent(name="parent", sub_agents=[child])
    assert targets(built(child)) == ["parent"]
    child.sub_agents.append(LlmAgent(name="below"))
    assert targets(built(child)) == ["below", "parent"]
    parent.sub_agents.append(LlmAgent(name="beside"))
    assert targets(built(child)) == ["below", "parent", "beside"]
    child.sub_agents.clear()
    parent.sub_agents.pop()
    assert targets(built(child)) == ["parent"]
    request, other = LlmRequest(), LlmAgent(name="other")
    other.sub_agents.append(child)
    assert agent_transfer(context(child, lineage=(other,)), request) is None
    assert targets(request) == ["other"]
