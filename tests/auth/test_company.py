"""Credentials together with approvals, agents as tools, parallel branches and runs that were cut off."""

from __future__ import annotations

from typing import Any

import pytest
from auth.desk import ASKED, Calendar, Desk, asked, asker, consent, oauth
from auth.oauth_server import OAuthServer
from kit import agent, approve, collect, pending, result, story

from flowloom import (
    AgentTool,
    Event,
    FunctionTool,
    InMemoryCredentialService,
    ParallelAgent,
    SequentialAgent,
    ToolContext,
)
from flowloom.testing import call

DAY = call("read_calendar", day="monday")


@pytest.mark.parametrize("service", [True, False], ids=["kept", "not kept"])
async def test_what_a_person_has_approved_is_not_asked_again_for_a_credential(
    server: OAuthServer, service: bool
) -> None:
    """Approved with other arguments, then a credential is asked for: the call runs once, as it was approved."""
    config, paid = oauth(server), list[Any]()

    async def pay(amount: int, tool_context: ToolContext) -> str:
        """Pay."""
        if await tool_context.load_credential(config) is None:
            tool_context.request_credential(config)
            return "asked"
        paid.append(amount)
        return "paid"

    desk = Desk()
    root = asker([FunctionTool(pay, require_confirmation=True)], call("pay", amount=1000), "done")
    chat = desk.chat(root, credential_service=desk.credentials if service else None)
    (approval,) = pending(await chat.say("pay"))
    answer = approve(approval)
    assert answer.function_response is not None
    assert answer.function_response.response is not None
    answer.function_response.response["editedArgs"] = {"amount": 10}
    (request,) = pending(await chat.answer(answer))
    assert request.name == ASKED
    assert story(await chat.answer(consent(server, request)))[-1] == "root: done"
    assert paid == [10]


async def test_an_agent_that_runs_as_a_tool_is_answered(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    helper = agent("helper", DAY, "The dentist.", tools=[calendar.tool(config)])
    chat = desk.chat(agent("root", call("helper", request="what is on?"), "all", tools=[AgentTool(helper)]))
    (request,) = asked(await chat.say("what is on?"))
    events = await chat.answer(consent(server, request))
    assert story(events)[-2:] == ["root: helper -> {'result': 'The dentist.'}", "root: all"]
    assert len(calendar.seen) == 1


async def test_parallel_branches_ask_each_for_their_own(server: OAuthServer) -> None:
    """One is answered after the other; none runs twice."""
    left, right, desk = Calendar(), Calendar(), Desk()
    members = [
        agent("left", DAY, "left done", tools=[left.tool(oauth(server))]),
        agent("right", DAY, "right done", tools=[right.tool(oauth(server, client_id="calendar-app", prompt="login"))]),
    ]
    chat = desk.chat(ParallelAgent(name="both", sub_agents=members))  # type: ignore[arg-type]
    requests = asked(await chat.say("what is on?"))
    assert len(requests) == 2
    for request in requests:
        await chat.answer(consent(server, request))
    assert (len(left.seen), len(right.seen)) == (1, 1)


async def test_a_sequence_goes_on_where_it_waited(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    first = agent("first", DAY, "The dentist.", tools=[calendar.tool(config)])
    chat = desk.chat(SequentialAgent(name="line", sub_agents=[first, agent("second", "Noted.")]))  # type: ignore[arg-type]
    (request,) = asked(await chat.say("what is on?"))
    assert story(await chat.answer(consent(server, request)))[-2:] == ["first: The dentist.", "second: Noted."]


async def cut_off(server: OAuthServer, desk: Desk, calendar: Calendar) -> tuple[str, Any]:
    """An invocation whose process died when the user's answer was stored, and nothing else; and that answer."""
    config = oauth(server)
    chat = desk.chat(asker([calendar.tool(config)], DAY))
    (request,) = asked(await chat.say("what is on?"))
    session = await chat.session()
    stored = Event(
        author="user",
        invocation_id=session.events[-1].invocation_id,
        content={"role": "user", "parts": [result(request.id, ASKED, {"status": "received"})]},  # type: ignore[arg-type]
    )
    await desk.sessions.append_event(session, stored)
    return stored.invocation_id, consent(server, request)


async def test_a_run_that_died_with_the_answer_asks_again(server: OAuthServer) -> None:
    """The answer was in memory only: what is stored of it is no secret, and no use."""
    calendar, desk = Calendar(), Desk()
    invocation_id, _ = await cut_off(server, desk, calendar)
    chat = desk.chat(asker([calendar.tool(oauth(server))], "The dentist."))
    resumed = chat.runner.run_async(user_id="ann", session_id="s1", invocation_id=invocation_id)
    (again,) = asked(await collect(resumed))
    assert story(await chat.answer(consent(server, again)))[-1] == "root: The dentist."
    assert len(calendar.seen) == 1


async def test_the_answer_may_also_be_given_again(server: OAuthServer) -> None:
    """As long as it was not used, it is still good for its request."""
    calendar, desk = Calendar(), Desk()
    _, answer = await cut_off(server, desk, calendar)
    chat = desk.chat(asker([calendar.tool(oauth(server))], "The dentist."))
    assert story(await chat.answer(answer))[-1] == "root: The dentist."
    assert len(calendar.seen) == 1


async def test_a_run_that_died_after_the_exchange_needs_no_asking(server: OAuthServer) -> None:
    calendar, desk = Calendar(), Desk(credentials=InMemoryCredentialService())
    invocation_id, answer = await cut_off(server, desk, calendar)
    await desk.chat(asker([calendar.tool(oauth(server))], "The dentist.")).answer(answer)
    calendar.seen.clear()
    other = desk.chat(asker([calendar.tool(oauth(server))], "The dentist."), session_id="s2")
    other.runner.session_service = await _only_until_the_answer(desk, invocation_id)
    resumed = other.runner.run_async(user_id="ann", session_id="s1", invocation_id=invocation_id)
    assert asked(await collect(resumed)) == []
    assert len(calendar.seen) == 1


async def _only_until_the_answer(desk: Desk, invocation_id: str) -> Any:
    """A store as it was right after the answer was stored."""
    session = await desk.sessions.get_session(app_name="app", user_id="ann", session_id="s1")
    assert session is not None
    other = Desk().sessions
    copy = await other.create_session(app_name="app", user_id="ann", session_id="s1")
    for event in session.events:
        await other.append_event(copy, event)
        if event.author == "user" and event.get_function_responses():
            break
    return other
