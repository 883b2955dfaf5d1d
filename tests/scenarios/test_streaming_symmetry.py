"""A run with streaming ends in the same history and state as one without, and no event of concurrent runs is lost."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kit import STREAMED, Chat, agent, examples, hand_to, text

from flowloom import InMemoryRunner, LlmAgent, ParallelAgent, SequentialAgent, ToolContext
from flowloom.testing import ScriptedModel, assert_symmetric, call


def note(words: str, tool_context: ToolContext) -> dict[str, str]:
    """Keep some words."""
    tool_context.state["notes"] = [*tool_context.state.get("notes", []), words]
    return {"kept": words}


def fails() -> None:
    """Fail."""
    raise ValueError("no")


WORDS = st.sampled_from(["one two three", "ein Satz mit Umlauten: äöü", "🙂 and more", "x"])
STEPS = st.one_of(
    st.builds(lambda words: [call("note", words=words)], WORDS),
    st.builds(lambda words, plan: [text(plan, thought=True), text(words), call("note", words=words)], WORDS, WORDS),
    st.just([call("fails"), call("note", words="kept")]),
    st.just([call("unknown")]),
)


def tree(kind: str) -> Any:
    """An agent of a kind, for a script that is shared by all of it."""

    def worker(name: str) -> LlmAgent:
        return LlmAgent(name=name, model=ScriptedModel([]), tools=[note, fails], output_key=f"{name}_said")

    if kind == "single":
        return worker("root")
    if kind == "sequence":
        return SequentialAgent(name="row", sub_agents=[worker("a"), worker("b")])
    return agent("root", sub_agents=[worker("helper")])


@settings(max_examples=examples(60), deadline=None)
@given(kind=st.sampled_from(["single", "sequence", "transfer"]), steps=st.lists(STEPS, max_size=3), answer=WORDS)
def test_a_streamed_run_ends_in_the_same_history_and_state(kind: str, steps: list[Any], answer: str) -> None:
    """For any tools, thoughts, errors and transfers."""
    turn = [*steps, answer]
    scripts = {"single": turn, "sequence": turn * 2, "transfer": [hand_to("helper"), *turn]}
    events = asyncio.run(assert_symmetric(tree(kind), scripts[kind], chunk_sizes=(1, 8)))
    assert events[-1].text == answer


@settings(max_examples=examples(40), deadline=None)
@given(runs=st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=4), min_size=2, max_size=4))
def test_no_interleaving_of_runs_on_one_session_loses_an_event(runs: list[list[int]]) -> None:
    """Each run waits as it likes before its steps; all that was yielded is stored, once, in each run's order."""

    async def together() -> tuple[list[list[str]], list[str]]:
        pauses = iter([pause for run in runs for pause in run])

        async def pause(words: str) -> str:
            """Wait a little."""
            for _ in range(next(pauses, 0)):
                await asyncio.sleep(0)
            return words

        def answers(number: int) -> ScriptedModel:
            return ScriptedModel([*(call("pause", words="w") for _ in runs[number]), "done"])

        runner = InMemoryRunner(agent("root"), app_name="app")
        chats = [
            Chat(LlmAgent(name=f"agent_{n}", model=answers(n), tools=[pause]), session_id="s1")
            for n in range(len(runs))
        ]
        for chat in chats:
            chat.runner.session_service = runner.session_service
        yielded = await asyncio.gather(*(chat.say("go") for chat in chats))
        stored = await chats[0].stored()
        return [[event.id for event in events] for events in yielded], [event.id for event in stored]

    yielded, stored = asyncio.run(together())
    assert len(stored) == len(set(stored))
    for ids in yielded:
        assert [each for each in stored if each in set(ids)] == ids


async def test_parallel_branches_lose_no_event_while_streaming() -> None:
    """Every complete event of every branch is in the session, in its branch's order."""
    members = [agent(f"m{n}", call("note", words=str(n)), f"done {n}", tools=[note]) for n in range(5)]
    chat = Chat(ParallelAgent(name="side", sub_agents=members), config=STREAMED)
    events = [event for event in await chat.say("go") if not event.partial]
    assert [event.id for event in (await chat.stored())[1:]] == [event.id for event in events]
    assert len(events) == 15
