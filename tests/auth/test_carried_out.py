"""An answer to a request for a credential is carried out once, with all that people have said about the call."""

from __future__ import annotations

from typing import Any

import pytest
from auth.desk import API_KEY, ASKED, Calendar, Desk, asked, asker, consent, given, oauth
from auth.oauth_server import OAuthServer
from auth.test_forged import answers, asks, called
from kit import agent, collect, context, event, named_call, pending, result, story

from flowloom import AuthCredential, AuthenticatedFunctionTool, CallbackContext, LlmRequest, ToolContext
from flowloom.events.requests import CONFIRMATION_CALL
from flowloom.log.marks import REPEATED
from flowloom.processors.auth import auth
from flowloom.testing import call

DAY = call("read_calendar", day="monday")
KEY: dict[str, Any] = {"authType": "apiKey", "apiKey": "k-123456"}


async def test_an_answer_is_carried_out_once_in_a_run_and_a_later_one_by_itself() -> None:
    """Also while the results of the first are not in the log."""
    calendar = Calendar()
    root = agent("root", "ok", tools=[calendar.tool(API_KEY)])
    ctx = context(root, *called(), asks(), *called("c2"), asks("r2", "c2"), answers("r1"))
    ctx.tools = root.tools
    for message, ran in (("m1", "c1"), ("m2", "c2")):
        ctx.session.events[-1].id = message
        made = auth(ctx, LlmRequest.empty(None))
        assert made is not None
        assert [each.id for event_ in await collect(made) for each in event_.get_function_responses()] == [ran]
        assert auth(ctx, LlmRequest.empty(None)) is None
        ctx.session.events.append(answers("r2"))


async def test_one_id_for_two_requests_runs_neither_whatever_came_between() -> None:
    """Neither the same request once more nor another agent's hides the one that was different."""
    calendar = Calendar()
    root = agent("root", "ok", tools=[calendar.tool(API_KEY)])
    different = asks(credentialKey="other")
    for between in ([asks()], [asks(author="intruder")], [asks(), asks(author="intruder"), asks()]):
        log = [*called(), different, *between, asks(), answers("r1")]
        assert (await root.flow.assemble(context(root, *log))).events == []
    assert calendar.seen == []


async def test_a_call_that_asks_again_leaves_the_request_to_the_others_that_wait_for_it() -> None:
    calendar = Calendar()
    root = agent("root", "ok", tools=[calendar.tool(API_KEY)])
    both = {"requested_auth_configs": {"c1": API_KEY.to_wire(), "c2": API_KEY.to_wire()}}
    waits = {"result": "waiting"}
    log = [
        event("root", *(named_call(each, "read_calendar", day="monday") for each in ("c1", "c2"))),
        event("root", *(result(each, "read_calendar", waits) for each in ("c1", "c2")), actions=both),
        asks(),
        event(
            "root",
            result("c1", "read_calendar", waits),
            actions={"requested_auth_configs": {"c1": API_KEY.to_wire()}},
        ),
        answers("r1"),
    ]
    (made,) = (await root.flow.assemble(context(root, *log))).events
    assert [each.id for each in made.get_function_responses()] == ["c2"]


@pytest.mark.parametrize("approved", [True, False])
async def test_what_a_person_has_decided_about_the_call_holds_when_the_credential_is_there(approved: bool) -> None:
    """Where the credential was not kept meanwhile, the call asks for it again, and for nothing else."""
    calendar, desk = Calendar(), Desk()
    root = asker([calendar.tool(API_KEY, require_confirmation=True)], DAY, "done")
    first, chat = desk.chat(root), Desk(desk.sessions).chat(root)
    (request,) = asked(await first.say("what is on?"))
    (question,) = pending(await first.answer(given(request, **KEY)))
    assert question.name == CONFIRMATION_CALL
    decided = {"confirmed": approved, "editedArgs": {"day": "friday"}}
    (again,) = pending(await chat.answer(result(question.id, CONFIRMATION_CALL, decided)))
    assert again.name == ASKED
    line, last = story(await chat.answer(given(again, **KEY)))
    assert ("friday: dentist" in line, "rejected" in line, last) == (approved, not approved, "root: done")
    assert len(calendar.seen) == approved


async def test_what_a_person_has_said_to_the_call_is_there_when_the_credential_is() -> None:
    """The question is not asked again."""
    got: list[Any] = []

    async def book(tool_context: ToolContext) -> str:
        """Book."""
        when = tool_context.request_input("When?")
        credential = await tool_context.load_credential(API_KEY)
        if credential is None:
            tool_context.request_credential(API_KEY)
            return "waiting"
        got.append((when, credential.api_key))
        return "booked"

    chat = Desk().chat(asker([book], call("book"), "done"))
    (question,) = pending(await chat.say("book"))
    (request,) = asked(await chat.answer(result(question.id, question.name or "", {"result": "today"})))
    assert story(await chat.answer(given(request, **KEY))) == ["root: book -> {'result': 'booked'}", "root: done"]
    assert got == [("today", "k-123456")]


@pytest.mark.parametrize("idempotent", [True, False])
async def test_a_call_that_was_cut_off_when_its_credential_was_there_is_made_again(idempotent: bool) -> None:
    """By the run that resumes the invocation; one whose tool is not idempotent is made no third time."""
    calendar, desk = Calendar(), Desk()
    tool = calendar.tool(API_KEY, idempotent=idempotent)
    chat = desk.chat(asker([tool], DAY, "done"))
    (request,) = asked(await chat.say("what is on?"))
    await chat.answer(given(request, **KEY))
    log = await chat.stored()
    del log[next(at for at, each in enumerate(log) if each.author == "user" and each.get_function_responses()) + 1 :]
    for attempt in (1, 2):
        again = desk.chat(asker([tool], "done"), session_id=f"again {attempt}")
        session = await desk.sessions.create_session(app_name="app", user_id="ann", session_id=again.session_id)
        for each in log:
            await desk.sessions.append_event(session, each)
        events = await again.say(None, invocation_id=log[0].invocation_id)
        log += [each for each in events if (each.actions.agent_state or {}).get(REPEATED)]
        assert len(log) - len(session.events) == (attempt == 1 and not idempotent)
        assert ("interrupted twice" in story(events)[0]) == (attempt == 2 and not idempotent)
        assert events[-1].text == "done"
    assert len(calendar.seen) == 1 + (2 if idempotent else 1)


def noticed(callback_context: CallbackContext) -> None:
    callback_context.state["turns"] = callback_context.state.get("turns", 0) + 1


async def test_the_same_answer_again_is_carried_out_if_no_run_has_done_it() -> None:
    """The run was cut off behind the answer, or behind what a callback changed before the agent began."""
    calendar, desk = Calendar(), Desk()
    root = agent("root", DAY, "done", tools=[calendar.tool(API_KEY)], before_agent_callback=noticed)
    chat = desk.chat(root)
    (request,) = asked(await chat.say("what is on?"))
    events = await chat.answer(given(request, **KEY))
    log = await chat.stored()
    for left in (0, 1):
        again = desk.chat(agent("root", "done", tools=root.tools, before_agent_callback=noticed), f"again {left}")
        session = await desk.sessions.create_session(app_name="app", user_id="ann", session_id=again.session_id)
        for each in log[: len(log) - len(events) + left]:
            await desk.sessions.append_event(session, each)
        assert [each.text for each in await again.answer(given(request, **KEY))][-1:] == ["done"]
    assert len(calendar.seen) == 3


@pytest.mark.parametrize("name", ["clerk", "nobody"])
async def test_a_call_that_hands_over_when_its_credential_is_there_reaches_only_who_is_there(name: str) -> None:
    def hand_over(tool_context: ToolContext, credential: AuthCredential) -> str:
        """Hand over."""
        tool_context.actions.transfer_to_agent = name
        return "handed over"

    tool = AuthenticatedFunctionTool(hand_over, auth_config=API_KEY)
    root = agent("root", call("hand_over"), "Still me.", tools=[tool], sub_agents=[agent("clerk", "Here.")])
    chat = Desk().chat(root)
    (request,) = asked(await chat.say("go"))
    told, last = story(await chat.answer(given(request, **KEY)))
    assert last == ("clerk: Here." if name == "clerk" else "root: Still me.")
    assert ("cannot hand over to `nobody`" in told) == (name == "nobody")


async def test_what_was_exchanged_for_a_function_that_cannot_await_is_kept_for_the_users_next_session(
    server: OAuthServer,
) -> None:
    config = oauth(server)

    def read(tool_context: ToolContext) -> str:
        """Read."""
        if tool_context.get_auth_response(config) is None:
            tool_context.request_credential(config)
            return "asked"
        return "read"

    calendar, desk = Calendar(), Desk()
    chat = desk.chat(asker([read], call("read"), "done"))
    (request,) = asked(await chat.say("read"))
    assert story(await chat.answer(consent(server, request)))[0] == "root: read -> {'result': 'read'}"
    later = desk.chat(asker([calendar.tool(config)], DAY, "done"), session_id="s2")
    assert asked(await later.say("what is on?")) == []
    assert calendar.tokens[0] in server.issued


@pytest.mark.parametrize(("call_id", "name"), [("r1", "read_calendar"), ("", ASKED), (None, ASKED)])
async def test_what_does_not_answer_the_request_by_its_name_and_id_is_no_answer(call_id: str | None, name: str) -> None:
    calendar = Calendar()
    root = agent("root", "ok", tools=[calendar.tool(API_KEY)])
    log = [*called(), asks(), event("user", result(call_id, name, KEY))]
    assert (await root.flow.assemble(context(root, *log))).events == []
    assert calendar.seen == []
