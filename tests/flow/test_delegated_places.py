"""Where agents run that are called like functions."""

from __future__ import annotations

import pytest
from kit import Chat, agent, context, event, named_call, result

from flowloom import LlmAgent, ParallelAgent, SequentialAgent
from flowloom.flow.delegation import delegated_context, unresolved_tasks


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


@pytest.mark.parametrize(
    ("mode", "branch", "expected"),
    [
        ("task", None, None),
        ("task", "root.a", "root.a"),
        ("single_turn", None, "helper@c1"),
        ("single_turn", "root.a", "root.a.helper@c1"),
    ],
)
def test_a_task_runs_on_the_branch_of_its_caller(mode: str, branch: str | None, expected: str | None) -> None:
    """In the scope of its call, as a single turn does."""
    root = agent("root", sub_agents=[agent("helper", mode=mode)])
    call = named_call("c1", "helper", goal="help").function_call
    assert call is not None
    below = delegated_context(context(root, branch=branch), call)
    assert (below.branch, below.isolation_scope, below.agent.name) == (expected, "c1", "helper")


@pytest.mark.parametrize(("scope", "expected"), [(None, (["s1"], ["t1", "t2"])), ("t9", ([], ["t3"]))])
def test_an_agent_has_left_open_what_it_has_called_itself_in_its_place(
    scope: str | None, expected: tuple[list[str], list[str]]
) -> None:
    """A task in any invocation, a single turn in this one; not what another agent has called by that name."""
    root = agent("root", sub_agents=[agent("task", mode="task"), agent("single", mode="single_turn")])
    log = [
        event("root", named_call("x1", "else"), invocation_id="here"),
        event("other", named_call("x2", "task"), invocation_id="here"),
        event("root", named_call("t1", "task"), invocation_id="before"),
        event("root", named_call("x3", "single"), invocation_id="before"),
        event("root", named_call("t3", "task"), invocation_id="here", isolation_scope="t9"),
        event("other", named_call("x4", "task"), invocation_id="here", isolation_scope="t9"),
        event("root", named_call("x5", "task"), invocation_id="here"),
        event("user", result("x5", "task", {"result": "done"}), invocation_id="here"),
        event("root", named_call("t2", "task"), named_call("s1", "single"), invocation_id="here"),
    ]
    place = context(root, *log, isolation_scope=scope, invocation_id="here")
    singles, tasks = unresolved_tasks(place)
    assert ([call.id for call in singles], [call.id for call in tasks]) == expected


async def test_an_agent_on_two_branches_calls_on_each_what_it_has_called_there() -> None:
    """A call that it has open on the one branch is not another one's, however late that begins."""
    finish = named_call("f", "finish_task", result="done")
    helper = agent("helper", finish, finish, finish, finish, mode="task")
    call = named_call("c", "helper", request="help")
    root = agent("root", call, call, "ready", "ready", "ready", sub_agents=[helper])
    late = SequentialAgent(name="late", sub_agents=[agent("first", "first"), root])
    events = await Chat(ParallelAgent(name="both", sub_agents=[root, late])).say("go")
    finished = [each.branch for each in events if each.author == "helper" and each.get_function_calls()]
    assert sorted(map(str, finished)) == ["both.late", "both.root"]
