"""Ids of function calls: each names one call, whatever models give (decision 16)."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, event, model, named_call, requests_of, said

from flowloom import AgentTool, FunctionTool, LlmAgent, LlmResponse, ParallelAgent, RunConfig
from flowloom.testing import call

BOTH_WAYS = pytest.mark.parametrize("config", [None, STREAMED], ids=["unary", "stream"])
SAME = [named_call("x", "look", at=place) for place in ("a", "b", "b")]


def look(at: str = "") -> str:
    """Look."""
    return f"saw {at}"


def ids_of(events: list[Any]) -> list[list[str | None]]:
    """Of each complete event with calls, their ids."""
    return [[each.id for each in e.get_function_calls()] for e in events if not e.partial and e.get_function_calls()]


def results_of(events: list[Any]) -> dict[str | None, Any]:
    return {each.id: each.response for e in events for each in e.get_function_responses()}


@BOTH_WAYS
async def test_calls_that_share_an_id_are_all_run_and_answered(config: RunConfig | None) -> None:
    """The first call keeps the id, the others get ids of their own; partial events, the whole and the results agree."""
    root = LlmAgent(name="root", model=model(SAME, "ok", stream_chunks=True), tools=[look])
    events = await Chat(root, config=config).say("go")
    [[first, *others]] = ids_of(events)
    assert first == "x"
    assert len({first, *others}) == 3
    assert all(other and other.startswith("adk-") for other in others)
    answers = results_of(events)
    assert [answers[each]["result"] for each in (first, *others)] == ["saw a", "saw b", "saw b"]
    if config is not None:
        assert [each.id for e in events if e.partial for each in e.get_function_calls()] == [first, *others]


async def test_calls_that_share_an_id_are_approved_one_by_one() -> None:
    """A decision about one call is none about another that the model gave the same id."""
    ran: list[str] = []

    def drop(table: str) -> str:
        """Drop."""
        ran.append(table)
        return "dropped"

    calls = [named_call("x", "drop", table=name) for name in ("a", "b", "c")]
    chat = Chat(agent("root", calls, "ok", "ok", "ok", tools=[FunctionTool(drop, require_confirmation=True)]))
    events = await chat.say("go")
    requests = events[-1].get_function_calls()
    originals = [each.args["originalFunctionCall"] for each in requests]
    assert [each["args"]["table"] for each in originals] == ["a", "b", "c"]
    assert len({each["id"] for each in originals}) == 3
    for request, approved in zip(requests, (False, True, True), strict=True):
        answer = types.FunctionResponse(id=request.id, name=request.name, response={"confirmed": approved})
        await chat.answer(types.Part(function_response=answer))
    assert ran == ["b", "c"]


@BOTH_WAYS
async def test_an_id_of_an_earlier_answer_is_not_given_again(config: RunConfig | None) -> None:
    """A call whose id the session has already, from whatever turn, is a new call under an id of its own."""
    one = named_call("x", "look", at="a")
    root = LlmAgent(name="root", model=model(one, one, "ok", one, "ok", stream_chunks=True), tools=[look])
    chat = Chat(root, config=config)
    await chat.say("go")
    await chat.say("again")
    stored = await chat.stored()
    [[first], [second], [third]] = ids_of(stored)
    assert first == "x"
    assert len({first, second, third}) == 3
    assert set(results_of(stored)) == {first, second, third}


async def test_the_id_of_a_pending_request_is_not_to_be_had() -> None:
    """A model that calls under the id of a request for approval, or one that is reserved, gets another id."""
    chat = Chat(agent("root", call("look", at="a"), tools=[FunctionTool(look, require_confirmation=True)]))
    pending = (await chat.say("go"))[-1].get_function_calls()[0].id
    assert pending is not None
    forged = [named_call(pending, "look", at="b"), named_call("adk-input-1", "look", at="c")]
    chat.runner.agent.model = model(forged, "ok")  # type: ignore[attr-defined]
    events = await chat.say("more")
    [made, _] = ids_of(events)
    assert not {pending, "adk-input-1"} & set(made)
    assert len(set(made)) == 2


async def test_agents_side_by_side_and_agents_as_tools_share_no_ids() -> None:
    """An id that another agent's call has is not given again, be it under way at the same time or run as a tool."""
    inner = agent("inner", named_call("x", "look", at="in"), "ok", tools=[look])
    members = [agent(name, named_call("x", "look", at=name), "ok", tools=[look]) for name in ("one", "two")]
    events = await Chat(ParallelAgent(name="both", sub_agents=members)).say("go")
    made = [call_id for ids in ids_of(events) for call_id in ids]
    assert len(set(made)) == len(made) == 2
    outer = agent("outer", named_call("x", "inner", request="go"), "ok", tools=[AgentTool(inner)])
    await Chat(outer).say("go")
    [asked] = [p.function_call for c in requests_of(inner)[1].contents for p in c.parts or () if p.function_call]
    assert asked.id != "x"


async def test_what_a_callback_makes_of_an_answer_keeps_its_ids() -> None:
    """The ids that an after-model callback was shown are the ids of its answer, unless it gives one twice."""

    def twice(llm_response: LlmResponse, **_: Any) -> LlmResponse | None:
        calls = [part for part in llm_response.content.parts if part.function_call is not None]
        return LlmResponse(content=said(*calls, calls[-1])) if calls else None

    shown = [named_call("x", "look", at="a"), call("look", at="b")]
    events = await Chat(agent("root", shown, "ok", tools=[look], after_model_callback=twice)).say("go")
    [[first, second, third]] = ids_of(events)
    assert first == "x"
    assert None not in (second, third)
    assert len({first, second, third}) == len(results_of(events)) == 3


async def test_a_streamed_call_keeps_the_id_that_it_was_given() -> None:
    """The pieces of one call are one call, also under an id that the session has already."""

    def piece(**fields: Any) -> LlmResponse:
        part = types.Part(function_call=types.FunctionCall(id="x", **fields))
        return LlmResponse(content=said(part), partial=True)

    pieces = [
        piece(name="look", will_continue=True),
        piece(partial_args=[types.PartialArg(json_path="$.at", string_value="a")], will_continue=True),
        piece(name="look", args={"at": "a"}),
        LlmResponse(content=said(named_call("x", "look", at="a"))),
    ]
    chat = Chat(agent("root", list(pieces), "ok", list(pieces), "ok", tools=[look]), config=STREAMED)
    for expected in (True, False):
        events = await chat.say("go")
        shown = {each.id for e in events for each in e.get_function_calls()}
        assert len(shown) == 1
        assert ("x" in shown) is expected


async def test_calls_of_an_imported_log_are_known() -> None:
    """What was in the session before the run counts, whoever wrote it."""
    chat = Chat(agent("root", named_call("old", "look"), "ok", tools=[look]))
    session = await chat.runner.session_service.create_session(app_name="app", user_id="ann", session_id="s1")
    await chat.runner.session_service.append_event(session, event("other", named_call("old", "look")))
    [_, [given]] = ids_of([*(await chat.stored()), *(await chat.say("go"))])
    assert given != "old"
