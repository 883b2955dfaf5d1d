"""An agent with code of its own has no flow that could tell how far it got: the log tells only whether it is over."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing

import pytest
from kit import WHERE, Chat, Ran, agent, collect, said

from flowloom import BaseAgent, Event, EventActions, InvocationContext, ParallelAgent

ran = Ran()


class Talker(BaseAgent):
    """Says its lines; a line that names a sub-agent is that agent's to say."""

    lines: list[str]

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        ran.append(self.name)
        for line in self.lines:
            inner = next((each for each in self.sub_agents if each.name == line), None)
            if inner is None:
                yield Event(author=self.name, branch=ctx.branch, content=said(line))
            else:
                async for event in inner.run_async(ctx):
                    yield event


def talker(name: str, *lines: str) -> Talker:
    inner = Talker(name=f"{name}_helper", lines=["I help."])
    return Talker(name=name, lines=list(lines), sub_agents=[inner])


@pytest.mark.parametrize(
    ("first", "again"),
    [
        (["one", "two"], []),
        (["a_helper", "over"], []),
        (["one", "a_helper"], ["a"]),
    ],
)
async def test_it_is_over_if_it_had_the_last_word_and_none_of_those_it_runs(first: list[str], again: list[str]) -> None:
    """Others that ran beside it, and what they run, do not count. Its code begins anew; what that runs goes on."""

    def both() -> ParallelAgent:
        last = agent("last", "done")
        return ParallelAgent(name="both", sub_agents=[talker("a", *first), talker("b", "b_helper", "over"), last])

    done = await Chat(both()).say("go")
    cut = Chat(both())
    sessions = cut.runner.session_service
    session = await sessions.create_session(app_name="app", **WHERE)
    for each in done:
        if each.author != "last":
            await sessions.append_event(session, each)
    ran.clear()
    events = await collect(cut.runner.run_async(**WHERE, invocation_id=done[0].invocation_id))
    assert ran == again
    assert sorted(each.author for each in events) == [*again, "last"]


async def test_what_its_own_events_say_of_a_transfer_hands_over_to_no_agent() -> None:
    """Neither in a run, nor when the run is resumed: only an agent with a flow hands over."""

    class Pointing(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(content=said("go there"), actions=EventActions(transfer_to_agent="child"))
            ran.append(self.name)
            yield Event(content=said("or not"))

    chat = Chat(Pointing(name="root", sub_agents=[agent("child", "never")]))
    stream = chat.runner.run_async(**WHERE, new_message="go")
    async with aclosing(stream):
        first = await anext(stream)
    ran.clear()
    events = await collect(chat.runner.run_async(**WHERE, invocation_id=first.invocation_id))
    assert [each.author for each in events] == ["root"] * len(events)


async def test_what_a_shared_agent_says_counts_for_the_one_that_runs_it() -> None:
    """In another branch it is another's: who had the last word in its own is over."""

    def both() -> ParallelAgent:
        helper = Talker(name="helper", lines=["I help."])
        rows = [Talker(name=name, lines=["helper", "over"], sub_agents=[helper]) for name in ("a", "b")]
        return ParallelAgent(name="both", sub_agents=rows)

    done = await Chat(both()).say("go")
    cut = Chat(both())
    sessions = cut.runner.session_service
    session = await sessions.create_session(app_name="app", **WHERE)
    of_b = [each for each in done if "both.b" in (each.branch or "")]
    for each in [*(each for each in done if each not in of_b), of_b[0]]:
        await sessions.append_event(session, each)
    ran.clear()
    events = await collect(cut.runner.run_async(**WHERE, invocation_id=done[0].invocation_id))
    assert [each.author for each in events if each.author != "helper"] == ["b"]


async def test_those_that_it_runs_one_after_the_other_are_over_each_by_its_own_last_word() -> None:
    """What another one says later, which it does not run, does not count."""

    def row() -> Talker:
        return Talker(name="row", lines=["a", "b", "end"], sub_agents=[talker("a", "one"), talker("b", "two")])

    chat = Chat(row())
    done = await chat.say("go")
    cut = Chat(row())
    session = await cut.runner.session_service.create_session(app_name="app", **WHERE)
    for each in done[:2]:
        await cut.runner.session_service.append_event(session, each)
    ran.clear()
    events = await collect(cut.runner.run_async(**WHERE, invocation_id=done[0].invocation_id))
    assert ([each.text for each in events], ran) == (["end"], ["row"])


async def test_it_is_not_over_if_it_failed_behind_its_last_word() -> None:
    """Its code begins anew, as far as the log can tell."""

    class Fails(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            ran.append(self.name)
            yield Event(author=self.name, content=said("one"))
            if len(ran) == 1:
                raise ValueError("no")
            yield Event(author=self.name, content=said("two"))

    ran.clear()
    chat = Chat(Fails(name="root"))
    with pytest.raises(ValueError, match="no"):
        await chat.say("go")
    begun = (await chat.stored())[0].invocation_id
    assert [each.text for each in await chat.say(None, invocation_id=begun)] == ["one", "two"]
    assert await chat.say(None, invocation_id=begun) == []


async def test_what_its_events_say_of_where_they_are_from_is_kept() -> None:
    """It may pass on those of others; the engine says it of the rest."""

    class Passes(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(author="other", invocation_id="e-9", content=said("theirs"))
            yield Event(content=said("mine"))

    theirs, mine = await Chat(Passes(name="root")).say("go")
    assert (theirs.author, theirs.invocation_id) == ("other", "e-9")
    assert (mine.author, mine.invocation_id) == ("root", mine.invocation_id or "none")
