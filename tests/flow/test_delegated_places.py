"""Where agents run that are called like functions."""

from __future__ import annotations

import pytest
from kit import Chat, agent, named_call

from flowloom import LlmAgent, ParallelAgent


def caller(name: str, *answers: object, **fields: object) -> LlmAgent:
    """An agent that calls `helper`, which answers in a single turn."""
    helper = agent("helper", "helped", mode="single_turn")
    return agent(name, named_call("c1", "helper", request="help"), *answers, sub_agents=[helper], **fields)  # type: ignore[arg-type]


@pytest.mark.parametrize("above", ["", "both.root."])
async def test_a_single_turn_runs_in_the_scope_of_its_call_on_a_branch_below(above: str) -> None:
    """Below that of its caller, if it has one."""
    root = caller("root", "done")
    chat = Chat(ParallelAgent(name="both", sub_agents=[root]) if above else root)
    [said] = [each for each in await chat.say("go") if each.author == "helper" and each.text]
    assert (said.branch, said.isolation_scope) == (f"{above}helper@c1", "c1")


async def test_an_agent_that_is_added_later_can_be_called() -> None:
    """The agents below one are looked at anew."""
    root = caller("root", "done", named_call("c2", "other", request="help"), "done again")
    chat = Chat(root)
    await chat.say("go")
    root.sub_agents.append(agent("other", "helped too", mode="single_turn"))
    events = await chat.say("go on")
    assert [each.text for each in events if each.author == "other"] == ["helped too"]
    assert [answer.response for each in events for answer in each.get_function_responses()] == [
        {"result": "helped too"}
    ]
