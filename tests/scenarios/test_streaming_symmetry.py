"""A run with streaming ends in the same history and state as one without, and no event of concurrent runs is lost."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st
from kit import STREAMED, Chat, FrozenEffects, agent, hand_to, text

from flowloom import Event, InMemoryRunner, LlmAgent, ParallelAgent, SequentialAgent, ToolContext
from flowloom.testing import ScriptedModel, call


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


def tree(kind: str, steps: list[Any], answer: str) -> Any:
    """An agent of a kind that takes these steps and then answers; each part of an answer may be cut into chunks."""

    def worker(name: str) -> LlmAgent:
        model = ScriptedModel([*steps, answer], stream_chunks=True)
        return LlmAgent(name=name, model=model, tools=[note, fails], output_key=f"{name}_said")

    if kind == "single":
        return worker("root")
    if kind == "sequence":
        return SequentialAgent(name="row", sub_agents=[worker("a"), worker("b")])
    helper = worker("helper")
    return agent("root", hand_to("helper"), sub_agents=[helper])


def seen(events: list[Event]) -> list[Any]:
    """What the log says, ids left out."""
    names: dict[str, str] = {}
    told: list[Any] = []
    for event in events:
        wire = event.to_wire()
        for key in ("id", "timestamp", "invocationId"):
            wire.pop(key, None)
        for part in wire.get("content", {}).get("parts", ()):
            for kind in ("functionCall", "functionResponse"):
                if kind in part:
                    part[kind]["id"] = names.setdefault(part[kind]["id"], f"call_{len(names)}")
        told.append(wire)
    return told


@settings(max_examples=60, deadline=None)
@given(kind=st.sampled_from(["single", "sequence", "transfer"]), steps=st.lists(STEPS, max_size=3), answer=WORDS)
def test_a_streamed_run_ends_in_the_same_history_and_state(kind: str, steps: list[Any], answer: str) -> None:
    """For any tools, thoughts, errors and transfers."""

    async def both() -> list[tuple[Any, Any]]:
        ends: list[tuple[Any, Any]] = []
        for config in (None, STREAMED):
            chat = Chat(tree(kind, steps, answer), config=config, effects=FrozenEffects())
            await chat.say("go")
            ends.append((seen(await chat.stored()), await chat.state()))
        return ends

    plain, streamed = asyncio.run(both())
    assert plain == streamed


@settings(max_examples=40, deadline=None)
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
