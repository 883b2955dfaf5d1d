"""The keys of effects: the same in every run, whatever is the quickest, and one for each thing that is done."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from journal import Journal
from kit import Chat, agent, call

from flowloom import (
    AgentTool,
    BaseAgent,
    Context,
    FunctionTool,
    InMemoryRunner,
    LimitExceededError,
    Limits,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    RunConfig,
)


def flaky(name: str, failures: int) -> FunctionTool:
    """A tool that fails some times, tries itself again, and makes an id of its own."""
    left = [failures]

    async def work(tool_context: Context) -> str:
        """Work."""
        if left[0]:
            left[0] -= 1
            raise ValueError(name)
        return tool_context.invocation_context.effects.new_id(tool_context.inside)

    work.__name__ = name
    return FunctionTool(work, retries=failures)


async def test_each_attempt_of_a_tool_call_has_a_key() -> None:
    effects = Journal()
    await Chat(agent("root", call("work"), "done", tools=[flaky("work", 2)]), effects=effects).say("go")
    assert [key for key in effects.given if key.startswith("root/0/tool/") and "/root" not in key] == [
        "root/0/tool/0",
        "root/0/tool/0/1",
        "root/0/tool/0/2",
    ]


async def test_a_try_that_a_wrapper_asks_for_has_a_key_too() -> None:
    effects = Journal()

    async def twice(call_next: Any, tool_context: Context, **_: Any) -> Any:
        await call_next()
        return await call_next()

    root = agent("root", call("work"), "done", tools=[flaky("work", 0)], around_tool=twice)
    await Chat(root, effects=effects).say("go")
    assert {"root/0/tool/0", "root/0/tool/0/1"} <= effects.given.keys()


async def test_what_a_call_does_itself_is_keyed_below_it() -> None:
    """Pauses between tries and ids, of several calls at once."""
    effects = Journal()
    tools = [flaky("one", 1), flaky("two", 0)]
    await Chat(agent("root", [call("one"), call("two")], "done", tools=tools), effects=effects).say("go")
    assert {"root/0/tool/0/root/0/sleep/0", "root/0/tool/0/1/root/0/id/0", "root/0/tool/1/root/0/id/0"} <= (
        effects.given.keys()
    )


async def test_the_invocation_s_own_id_is_an_effect() -> None:
    effects = Journal()
    events = await Chat(agent("root", "done"), effects=effects).say("go")
    assert {event.invocation_id for event in events} == {"e-<root/0/id/0>"}


@pytest.mark.parametrize("limits", [Limits(seconds=10.0), Limits(agents={"root": Limits(seconds=10.0)})])
async def test_the_time_of_a_limit_is_that_of_the_effects(limits: Limits) -> None:
    effects = Journal()

    def wait() -> str:
        """Wait."""
        effects.clock += 60.0
        return "late"

    root = agent("root", call("wait"), "done", tools=[wait])
    with pytest.raises(LimitExceededError, match="seconds"):
        await Chat(root, effects=effects, config=RunConfig(limits=limits)).say("go")


def office() -> LlmAgent | ParallelAgent:
    """Branches at once, calls at once, agents as tools, and tools that fail at first."""

    def member(name: str) -> LlmAgent:
        expert = agent("expert", call("two"), f"{name} knows", tools=[flaky("two", 1)])
        tools = [flaky("one", 2), flaky("three", 0), AgentTool(expert)]
        asked = [call("one"), call("expert", request="?"), call("three")]
        return agent(name, asked, call("three"), f"{name} is done", tools=tools)

    return ParallelAgent(name="office", sub_agents=[member("left"), member("right")])


def rounds() -> LoopAgent:
    """Branches again and again, whose calls wait for a person before the others of their step."""

    def member(name: str) -> LlmAgent:
        gated = FunctionTool(flaky("gated", 0).func, require_confirmation=True)
        tools = [gated, flaky("free", 1)]
        asked = [call("free"), call("gated")]
        return agent(name, asked, "first", asked, "second", tools=tools)

    team = ParallelAgent(name="team", sub_agents=[member("left"), member("right")])
    return LoopAgent(name="rounds", sub_agents=[team], max_iterations=2)


def desk() -> LlmAgent:
    """Agents that are called for a single turn, two by one answer, beside a tool."""
    clerk = agent("clerk", call("one"), "clerk is done", mode="single_turn", tools=[flaky("one", 1)])
    typist = agent("typist", call("two"), "typist is done", mode="single_turn", tools=[flaky("two", 0)])
    asked = [call("clerk", request="x"), call("three"), call("typist", request="y")]
    return agent("desk", asked, "done", sub_agents=[clerk, typist], tools=[flaky("three", 1)])


@pytest.mark.parametrize("tree", [office, rounds, desk])
async def test_keys_and_values_do_not_depend_on_what_is_the_quickest(tree: Callable[[], BaseAgent]) -> None:
    """A run whose models and tools end in another order asks for the same effects, and is given the same."""
    runs: list[tuple[dict[str, Any], dict[str, Any]]] = []
    for order in range(4):
        effects = Journal(order)
        runner = InMemoryRunner(tree(), effects=effects, confirm=lambda _: True)
        result = await runner.run_to_result(user_id="u", session_id="s", new_message="go")
        stored = {event.id: event.to_wire() for event in result.events}
        runs.append((effects.given, stored))
    assert len({tuple(given) for given, _ in runs}) > 1, "the order was always the same"
    for given, stored in runs[1:]:
        assert given == runs[0][0]
        assert stored == runs[0][1]


async def test_calls_that_a_resumed_step_makes_first_share_no_key_with_its_answer_s() -> None:
    """A call that a person has approved runs in the step in which the model is asked again, which calls tools, too."""
    effects = Journal()
    gated = FunctionTool(flaky("gated", 0).func, require_confirmation=True)
    root = agent("root", call("gated"), call("free"), "done", tools=[gated, flaky("free", 0)])
    runner = InMemoryRunner(root, effects=effects, confirm=lambda _: True)
    result = await runner.run_to_result(user_id="u", session_id="s", new_message="go")
    assert result.text == "done"
    assert {"root/1/tool/0", "root/1/tool/1"} <= effects.given.keys()


async def test_the_turns_of_an_invocation_share_no_key_when_their_time_is_limited() -> None:
    """The time of all turns together begins with the first one, and is asked for once."""
    effects = Journal()
    gated = FunctionTool(flaky("gated", 0).func, require_confirmation=True)
    root = agent("root", call("gated"), "done", tools=[gated])
    runner = InMemoryRunner(root, effects=effects, confirm=lambda _: True)
    limited = RunConfig(limits=Limits(seconds=60.0))
    result = await runner.run_to_result(user_id="u", session_id="s", new_message="go", run_config=limited)
    assert result.text == "done"
