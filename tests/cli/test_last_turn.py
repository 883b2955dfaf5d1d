"""Whether the last turn of a conversation came to its end."""

from __future__ import annotations

from collections.abc import Callable

import kit
import pytest

from flowloom import (
    BaseAgent,
    FunctionTool,
    InMemoryRunner,
    LlmAgent,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    Session,
    exit_loop,
)
from flowloom.cli.last_turn import cut_off
from flowloom.testing import call


def look(place: str) -> str:
    """Look somewhere."""
    return "nothing"


def one(name: str = "one") -> LlmAgent:
    return kit.agent(name, call("look", place="here"), "Nothing.", tools=[look])


def handing_over() -> LlmAgent:
    return kit.agent(
        "root", kit.hand_to("steps"), sub_agents=[SequentialAgent(name="steps", sub_agents=[one(), two()])]
    )


def two() -> LlmAgent:
    return one("two")


def looping() -> LoopAgent:
    writer = kit.agent("writer", "First.", "Second.")
    critic = kit.agent("critic", "Not yet.", call("exit_loop"), tools=[exit_loop])
    return LoopAgent(name="loop", sub_agents=[writer, critic])


TREES: dict[str, Callable[[], BaseAgent]] = {
    "an agent": one,
    "a sequence": lambda: SequentialAgent(name="steps", sub_agents=[one(), two()]),
    "side by side": lambda: ParallelAgent(name="both", sub_agents=[one(), two()]),
    "a loop with rounds": lambda: LoopAgent(
        name="loop", max_iterations=2, sub_agents=[kit.agent("writer", "First.", "Second.")]
    ),
    "a loop with an exit": looping,
    "a hand-over to a sequence": handing_over,
    "a sequence in a sequence": lambda: SequentialAgent(
        name="all", sub_agents=[ParallelAgent(name="both", sub_agents=[one(), two()]), kit.agent("last", "Done.")]
    ),
}


async def log_of(agent: BaseAgent) -> Session:
    async with InMemoryRunner(agent, app_name="app") as runner:
        await runner.run_debug("Look.", user_id="ann", session_id="s", quiet=True)
        session = await runner.session_service.get_session(app_name="app", user_id="ann", session_id="s")
    assert session is not None
    return session


@pytest.mark.parametrize("tree", TREES.values(), ids=TREES)
async def test_a_turn_ends_with_its_last_event(tree: Callable[[], BaseAgent]) -> None:
    """After each event before it, the turn was cut off."""
    agent = tree()
    session = await log_of(agent)
    invocation_id = session.events[0].invocation_id
    assert cut_off(agent, session) is None
    for count in range(1, len(session.events)):
        part = Session(id="s", app_name="app", user_id="ann", events=session.events[:count])
        assert cut_off(agent, part) == invocation_id, f"after {kit.story(part.events)}"


async def test_a_turn_that_waits_was_not_cut_off() -> None:
    """Nor was one beside it that has ended."""
    asking = kit.agent("asking", call("look", place="here"), tools=[FunctionTool(look, require_confirmation=True)])
    agent = ParallelAgent(name="both", sub_agents=[asking, kit.agent("other", "Done.")])
    assert cut_off(agent, await log_of(agent)) is None


def test_nothing_was_cut_off_of_an_empty_session() -> None:
    assert cut_off(one(), Session(id="s")) is None


async def test_a_rewound_turn_was_not_cut_off() -> None:
    """What counts is the turn before it."""
    agent = kit.agent("one", "Hello.", "Again.")
    async with InMemoryRunner(agent, app_name="app") as runner:
        await runner.run_debug(["Hi.", "And?"], user_id="ann", session_id="s", quiet=True)
        session = await runner.session_service.get_session(app_name="app", user_id="ann", session_id="s")
        assert session is not None
        latest = session.events[-1].invocation_id
        await runner.session_service.rewind(session, before_invocation_id=latest)
    assert cut_off(agent, session) is None


async def test_a_summary_hides_no_turn_that_was_cut_off() -> None:
    session = await log_of(agent := one())
    invocation_id = session.events[0].invocation_id
    compaction = {"compaction": {"startTimestamp": 0, "endTimestamp": 1, "compactedContent": {"parts": []}}}
    session.events[2:] = [kit.event("compaction", actions=compaction, invocation_id="e-other")]
    assert cut_off(agent, session) == invocation_id


async def test_a_turn_whose_listener_left_in_mid_answer_was_cut_off() -> None:
    """What was streamed is kept, and the turn may be resumed; one that was cancelled is over."""
    root = LlmAgent(name="root", model=kit.model("a long answer", stream_chunks=True))
    chat = kit.Chat(root, config=kit.STREAMED)
    run = chat.runner.run_async(**kit.WHERE, new_message="go", run_config=kit.STREAMED)
    await anext(run)
    await run.aclose()
    session = await chat.session()
    assert session.events[-1].text == "a long a"
    assert cut_off(root, session) == session.events[-1].invocation_id
