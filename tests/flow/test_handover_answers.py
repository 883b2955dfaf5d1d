"""Where a transfer leads to, and what answers the call of a `single_turn` sub-agent."""

from __future__ import annotations

from typing import Any

import pytest
from kit import Chat, agent, context, named_call, said
from pydantic import BaseModel

from flowloom import Flow, InvocationContext, LlmAgent, LlmRequest, LlmResponse
from flowloom.errors import AgentNotFoundError, Halt
from flowloom.flow.handover import place_of_target
from flowloom.testing import call


class City(BaseModel):
    name: str


def tree() -> tuple[LlmAgent, tuple[LlmAgent, ...]]:
    """An agent with two above its parent, and those above it."""
    here = agent("here", sub_agents=[agent("below")])
    parent = agent("parent", sub_agents=[here, agent("beside")])
    higher = agent("higher", sub_agents=[parent])
    return here, (agent("top", sub_agents=[higher]), higher, parent)


@pytest.mark.parametrize(
    ("name", "above"),
    [
        ("below", ["top", "higher", "parent", "here"]),
        ("beside", ["top", "higher", "parent"]),
        ("parent", ["top", "higher"]),
    ],
)
def test_an_agent_that_is_handed_over_to_stands_where_it_is_in_the_tree(name: str, above: list[str]) -> None:
    """Below this one, beside it, or above it."""
    here, lineage = tree()
    place = place_of_target(context(here, lineage=lineage), name)
    assert (place.agent.name, [each.name for each in place.lineage]) == (name, above)


def test_an_agent_out_of_reach_is_named_with_those_in_reach_the_closest_first() -> None:
    """A transfer to it may come from a processor, too, which no tool has looked at."""
    here, lineage = tree()
    with pytest.raises(
        AgentNotFoundError, match=r"Agent `here` cannot hand over to `besides`\. It reaches: `beside`, "
    ) as e:
        place_of_target(context(here, lineage=lineage), "besides")
    for name in ("`below`", "`parent`", "`sub_agents`", "allow the transfer"):
        assert name in str(e.value)


async def answered(helper: LlmAgent) -> Any:
    """What the call of an agent is answered with."""
    root = agent("root", named_call("c1", "helper", request="help"), "done", sub_agents=[helper])
    events = await Chat(root).say("go")
    found = [(each.id, each.name, each.response) for event in events for each in event.get_function_responses()]
    [(call_id, name, response)] = [each for each in found if each[1] == "helper"]
    assert (call_id, name) == ("c1", "helper")
    return response


def halts(ctx: InvocationContext, request: LlmRequest) -> None:
    raise Halt


FAILED = LlmResponse(error_code="SAFETY", error_message="not this")


@pytest.mark.parametrize(
    ("answers", "fields", "response"),
    [
        (["Rome"], {}, {"result": "Rome"}),
        ([[call("look"), "Wait."], "Rome"], {"tools": [lambda: "seen"]}, {"result": "Rome"}),
        ([said()], {}, "without saying or calling anything"),
        ([], {"flow": Flow([halts], [])}, {"error": "Agent `helper` ended without an answer."}),
        (['{"name": "Rome"}'], {"output_schema": City}, {"result": {"name": "Rome"}}),
        (['{"name": 3}', '{"name": "Rome"}'], {"output_schema": City}, {"result": {"name": "Rome"}}),
        ([FAILED], {}, "SAFETY"),
        (['{"name": 3}'], {"output_schema": City, "output_retries": 0}, "output schema"),
    ],
    ids=["text", "last", "nothing", "halted", "schema", "mended", "failed", "unfit"],
)
async def test_what_a_single_turn_says_last_answers_its_call(answers: Any, fields: Any, response: Any) -> None:
    """In the form of its schema; or why there is none."""
    for tool in fields.get("tools", ()):
        tool.__name__ = "look"
    found = await answered(agent("helper", *answers, mode="single_turn", **fields))
    if isinstance(response, str):
        assert [*found] == ["error"]
        assert response in found["error"]
    else:
        assert found == response
