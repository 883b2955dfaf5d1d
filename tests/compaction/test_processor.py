"""Summaries in the middle of a run."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from google.genai import types
from journal import Journal
from kit import Chat, context, declared_names, event, model, requests_of, text

from compaction.logs import ALL, Gate, Tally, asked, config, shown_words, turns, words
from flowloom import BaseAgent, Event, EventsCompactionConfig, LlmAgent, LlmRequest, LlmResponse
from flowloom.flow import Flow
from flowloom.processors import REQUEST_PROCESSORS
from flowloom.processors.compaction import Compaction
from flowloom.testing import call


def look(at: int) -> str:
    """Look."""
    return f"seen {at}"


def compacting(*answers: Any, config: EventsCompactionConfig, **fields: Any) -> LlmAgent:
    flow = Flow(REQUEST_PROCESSORS).with_processor(Compaction(config), before="contents")
    return LlmAgent(name="root", model=model(*answers), tools=[look], flow=flow, **fields)


def counted(part: types.Part, tokens: int) -> LlmResponse:
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=tokens)
    return LlmResponse(content=types.Content(role="model", parts=[part]), usage_metadata=usage)


def shown(request: LlmRequest) -> list[str]:
    kinds = {"call": "?", "result": "!"}
    found: list[str] = []
    for content in request.contents:
        for part in content.parts or ():
            if part.function_call is not None:
                found.append(f"{(part.function_call.args or {})['at']}{kinds['call']}")
            elif part.function_response is not None:
                found.append(f"{(part.function_response.response or {})['result']}{kinds['result']}")
            else:
                found.append(part.text or "")
    return found


async def test_the_prompt_is_made_shorter_when_it_gets_too_long() -> None:
    tally = Tally()
    config = EventsCompactionConfig(summarizer=tally, token_threshold=100, event_retention_size=2)
    answers = [counted(call("look", at=1), 10), counted(call("look", at=2), 100), text("done")]
    agent = compacting(*answers, config=config)
    chat = Chat(agent)
    events = await chat.say("go")
    assert [each.actions.compaction is not None for each in events] == [False, False, False, False, True, False]
    assert len(tally.asked) == 1
    last = shown(requests_of(agent)[-1])
    assert last[0] == "go"
    assert last[1].startswith("<adk-")
    assert last[2:] == ["2?", "seen 2!"]
    assert [each.id for each in await chat.stored()][-6:] == [each.id for each in events]


async def test_earlier_turns_go_first_and_the_latest_input_stays() -> None:
    tally = Tally()
    config = EventsCompactionConfig(summarizer=tally, event_threshold=5, event_retention_size=0)
    agent = compacting("one", "two", "three", config=config)
    chat = Chat(agent)
    for message in ("first", "second", "third"):
        await chat.say(message)
    assert [words(events) for events in tally.asked] == [["first", "one", "second", "two"]]
    assert shown(requests_of(agent)[-1]) == ["<first one second two>", "third"]


async def test_a_failed_summary_lets_the_run_go_on_and_is_not_tried_again() -> None:
    class Broken(Tally):
        async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
            self.asked.append(events)
            raise RuntimeError("no")

    broken = Broken()
    config = EventsCompactionConfig(summarizer=broken, event_threshold=1, event_retention_size=0)
    agent = compacting("one", call("look", at=1), call("look", at=2), "two", config=config)
    chat = Chat(agent)
    await chat.say("first")
    events = await chat.say("second")
    assert events[-1].text == "two"
    assert len(broken.asked) == 1


async def test_the_agents_own_model_writes_the_summary_if_nobody_else_is_named() -> None:
    config = EventsCompactionConfig(event_threshold=3, event_retention_size=0)
    agent = compacting("a long answer", "in short", "two", config=config)
    chat = Chat(agent)
    await chat.say("first")
    await chat.say("second")
    assert shown(requests_of(agent)[-1]) == ["in short", "second"]
    assert declared_names(requests_of(agent)[1]) == []


async def test_an_agent_that_sees_its_turn_only_has_only_that_summarised() -> None:
    tally = Tally()
    config = EventsCompactionConfig(summarizer=tally, event_threshold=4, event_retention_size=0)
    agent = compacting("one " * 50, call("look", at=1), "two", config=config, include_contents="none")
    chat = Chat(agent)
    await chat.say("first")
    await chat.say("second")
    last = shown(requests_of(agent)[-1])
    assert [last[0], last[1][:5], len(last)] == ["second", "<adk-", 2]
    assert len(tally.asked) == 1


@pytest.mark.parametrize(("mode", "told"), [("single_turn", "a3"), ("task", "u0 a0 u1 a1 u2 a2")])
async def test_for_an_agent_that_is_called_for_one_turn_no_earlier_ones_are_summarised(mode: Any, told: str) -> None:
    """A task is shown all of its place; the latest input stays as it is."""
    given = config(**ALL)
    made = Compaction(given)(context(compacting(config=given, mode=mode), *turns(4)), LlmRequest.empty("m"))
    assert made is not None
    await made
    assert asked(given) == [told.split()]


async def test_nothing_to_do_costs_no_await() -> None:
    config = EventsCompactionConfig(summarizer=Tally(), token_threshold=1000, event_retention_size=2)
    agent = compacting(config=config)
    assert Compaction(config)(context(agent, *turns(2)), LlmRequest.empty("m")) is None


async def test_explaining_a_request_summarises_nothing() -> None:
    tally = Tally()
    config = EventsCompactionConfig(summarizer=tally, event_threshold=1, event_retention_size=0)
    agent = compacting(config=config)
    assembly = await agent.flow.assemble(context(agent, *turns(2)))
    assert shown_words(assembly.request.contents) == ["u0", "a0", "u1", "a1"]
    assert tally.asked == []


async def test_two_agents_at_once_summarise_the_same_only_once() -> None:
    gate = Gate()
    config = EventsCompactionConfig(summarizer=gate, event_threshold=1, event_retention_size=0)
    compaction, ctx = Compaction(config), context(compacting(config=config), *turns(2))
    first = compaction(ctx, LlmRequest.empty("m"))
    assert first is not None
    writing = asyncio.ensure_future(first)
    await gate.asked_for.wait()
    assert compaction(ctx, LlmRequest.empty("m")) is None
    gate.open.set()
    assert await writing is not None


async def test_another_session_is_summarised_at_the_same_time() -> None:
    gate = Gate()
    config = EventsCompactionConfig(summarizer=gate, event_threshold=1, event_retention_size=0)
    compaction, agent = Compaction(config), compacting(config=config)
    one, other = context(agent, *turns(2)), context(agent, *turns(2))
    other.run.session.id = "s2"
    first = compaction(one, LlmRequest.empty("m"))
    assert first is not None
    writing = asyncio.ensure_future(first)
    await gate.asked_for.wait()
    second = compaction(other, LlmRequest.empty("m"))
    gate.open.set()
    assert second is not None
    assert await writing is not None
    assert await second is not None


async def test_what_has_grown_is_summarised_again() -> None:
    given = config(**ALL)
    compaction = Compaction(given)
    for count in (2, 4):
        made = compaction(context(compacting(config=given), *turns(count)), LlmRequest.empty("m"))
        assert made is not None
        assert await made is not None


async def test_turns_are_not_counted_in_a_run() -> None:
    """They are when it is over; and an agent without a model has nothing to be shortened."""
    ctx = context(compacting(config=config(compaction_interval=1)), *turns(3))
    assert Compaction(config(compaction_interval=1))(ctx, LlmRequest.empty("m")) is None
    plain = context(BaseAgent(name="plain"), *turns(3))
    assert Compaction(config(**ALL))(plain, LlmRequest.empty("m")) is None


def test_a_processor_says_what_it_is() -> None:
    """Without its settings, which may hold a model."""
    assert repr(Compaction(config(**ALL))) == "Compaction(...)"


@pytest.mark.parametrize(("age", "is_old"), [(10, True), (2_000, False)])
async def test_an_old_event_is_looked_for_in_a_run(age: int, is_old: bool) -> None:
    """By the clock of the run, whose effects give the summary its id and its time."""
    effects = Journal()
    ctx = context(compacting(config=config(max_age_seconds=age)), *turns(3), effects=effects)
    made = Compaction(config(max_age_seconds=age, compaction_interval=50))(ctx, LlmRequest.empty("m"))
    assert (made is not None) is is_old
    if made is not None:
        effects.clock = 2_000.0
        ctx.run.steps[ctx.path] = 1
        summary = await made
        assert summary is not None
        assert (summary.id, summary.timestamp) == ("<root/1/id/0>", 2_000.0)


async def test_a_prompt_is_as_long_as_the_agents_own_last_one() -> None:
    """What another agent was told is no measure of it."""
    long = types.GenerateContentResponseUsageMetadata(prompt_token_count=5_000)
    for author, is_long in (("root", True), ("helper", False)):
        log = [*turns(2), event(author, "ok", usage_metadata=long, invocation_id="i1")]
        ctx = context(compacting(config=config(**ALL)), *log)
        made = Compaction(config(token_threshold=1_000, event_retention_size=0))(ctx, LlmRequest.empty("m"))
        assert (made is not None) is is_long
        if made is not None:
            await made


@pytest.mark.parametrize("place", [{}, {"branch": "a.b"}, {"isolation_scope": "c1"}])
async def test_a_summary_stands_where_the_agent_does_and_in_its_run(place: dict[str, str]) -> None:
    """What others say elsewhere is none of it."""
    elsewhere = turns(4, branch="x") if place else turns(4, isolation_scope="c9")
    ctx = context(compacting(config=config(**ALL)), *elsewhere, *turns(2, start=5, **place), **place)
    given = config(**ALL)
    made = Compaction(given)(ctx, LlmRequest.empty("m"))
    assert made is not None
    event = await made
    assert event is not None
    assert event.invocation_id == ctx.invocation_id
    assert (event.branch, event.isolation_scope) == (place.get("branch"), place.get("isolation_scope"))
    assert asked(given) == [["u5", "a5"]]
