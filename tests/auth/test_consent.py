"""Whole stories of a tool that needs a user's credential: asked, answered, run once, not asked again."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from auth.desk import API_KEY, Calendar, Desk, answered, asked, asker, auth_uri, consent, given, oauth, openid
from auth.oauth_server import OAuthServer
from kit import agent, open_calls, requests_of, result, shown, story

from flowloom import LlmAgent, ToolContext
from flowloom.testing import call

DAY = call("read_calendar", day="monday")


def reader(calendar: Calendar, config: Any, *answers: Any) -> LlmAgent:
    return asker([calendar.tool(config)], *(answers or (DAY, "The dentist.")))


async def test_a_tool_without_a_credential_asks_and_the_run_pauses(server: OAuthServer) -> None:
    """Order: the call, its pending result, the request; the model is not called again."""
    calendar = Calendar()
    root = reader(calendar, oauth(server))
    events = await Desk().chat(root).say("what is on?")
    assert [len(each.get_function_calls()) for each in events] == [1, 0, 1]
    assert len(requests_of(root)) == 1
    assert calendar.seen == []
    assert open_calls(events) == set()
    (request,) = asked(events)
    assert (events[-1].author, events[-1].content and events[-1].content.role) == ("root", "user")
    assert request.id is not None
    assert request.id.startswith("adk-")
    assert set(request.args or {}) == {"functionCallId", "authConfig"}


async def test_the_answer_to_another_runner_lets_the_tool_run_once(server: OAuthServer) -> None:
    """Ask here, answer there, and the next run needs no asking."""
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    (request,) = asked(await desk.chat(reader(calendar, config)).say("what is on?"))
    second = desk.chat(reader(calendar, config, "The dentist."))
    events = await second.answer(consent(server, request))
    assert story(events) == ["root: read_calendar -> {'result': 'monday: dentist'}", "root: The dentist."]
    third = desk.chat(reader(calendar, config), session_id="s2")
    assert asked(await third.say("and again?")) == []
    assert len(calendar.seen) == 2
    assert len(set(calendar.tokens)) == 1
    assert server.grants() == ["authorization_code"]


async def test_the_model_sees_one_result_and_no_request(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    root = reader(calendar, config)
    chat = desk.chat(root)
    (request,) = asked(await chat.say("what is on?"))
    await chat.answer(consent(server, request))
    assert shown(requests_of(root)[-1])[1:] == [
        "model: read_calendar()",
        "user: read_calendar -> {'result': 'monday: dentist'}",
    ]


@pytest.mark.parametrize("client", [{"code_challenge_method": "S256"}, {"client_secret": None}, {}])
async def test_pkce_is_used_where_it_is_asked_for_or_there_is_no_secret(
    server: OAuthServer, client: dict[str, Any]
) -> None:
    server.public = "client_secret" in client
    calendar, desk, config = Calendar(), Desk(), oauth(server, **client)
    (request,) = asked(await desk.chat(reader(calendar, config)).say("what is on?"))
    assert ("code_challenge=" in auth_uri(request)) == bool(client)
    await desk.chat(reader(calendar, config, "ok")).answer(consent(server, request))
    assert len(calendar.seen) == 1
    assert len(server.verifiers) == bool(client)


async def test_an_openid_server_is_found_by_its_discovery_document(server: OAuthServer) -> None:
    """Addresses, PKCE and the client's way to prove itself as the document says; nonce and audience are checked."""
    server.document = {
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": ["client_secret_post"],
    }
    calendar, desk, config = Calendar(), Desk(), openid(server)
    (request,) = asked(await desk.chat(reader(calendar, config)).say("what is on?"))
    assert "scope=openid" in auth_uri(request)
    await desk.chat(reader(calendar, config, "ok")).answer(consent(server, request))
    assert calendar.seen[0].oauth2 is not None
    assert calendar.seen[0].oauth2.id_token in server.issued
    assert len(server.verifiers) == 1
    assert not [seen for seen in server.requests if seen.header("authorization")]


@pytest.mark.parametrize("claims", [{"nonce": "another"}, {"aud": "somebody"}, {"iss": "http://elsewhere"}])
async def test_an_id_token_for_somebody_else_is_refused(server: OAuthServer, claims: dict[str, str]) -> None:
    server.document = {"claims": claims}
    calendar, desk, config = Calendar(), Desk(), openid(server)
    chat = desk.chat(reader(calendar, config))
    (request,) = asked(await chat.say("what is on?"))
    (line, _) = story(await chat.answer(consent(server, request)))
    assert "not made for this request" in line
    assert calendar.seen == []


async def test_a_client_program_may_choose_where_users_come_back(server: OAuthServer) -> None:
    """Without a redirect_uri of the tool's, the one in the answer counts, as ADK's clients add it to the address."""
    calendar, desk, config = Calendar(), Desk(), oauth(server, redirect_uri=None)
    chat = desk.chat(reader(calendar, config))
    (request,) = asked(await chat.say("what is on?"))
    back = server.visit(auth_uri(request) + "&redirect_uri=http%3A%2F%2F127.0.0.1%3A2%2Fmine")
    await chat.answer(answered(request, authResponseUri=back, redirectUri="http://127.0.0.1:2/mine"))
    assert len(calendar.seen) == 1


async def test_a_code_or_tokens_may_be_given_instead_of_the_address(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    chat = desk.chat(reader(calendar, config, DAY, "one", DAY, "two"))
    (request,) = asked(await chat.say("what is on?"))
    back = server.visit(auth_uri(request))
    code = back.partition("code=")[2].partition("&")[0]
    await chat.answer(answered(request, authCode=code))
    other = desk.chat(reader(calendar, config), session_id="s2", credential_service=None)
    (request,) = asked(await other.say("what is on?"))
    await other.answer(answered(request, accessToken="from-elsewhere"))
    assert calendar.tokens == [server.issued[1], "from-elsewhere"]


async def test_the_same_answer_again_does_nothing(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    chat = desk.chat(reader(calendar, config, DAY, "one"))
    (request,) = asked(await chat.say("what is on?"))
    answer = consent(server, request)
    await chat.answer(answer)
    assert await chat.answer(answer) == []
    assert len(calendar.seen) == 1
    assert server.grants() == ["authorization_code"]


async def test_an_answer_to_no_request_does_nothing(server: OAuthServer) -> None:
    """An id that was never given, and one that a request of another session has."""
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    (elsewhere,) = asked(await desk.chat(reader(calendar, config), session_id="other").say("what is on?"))
    chat = desk.chat(reader(calendar, config, DAY, "forged"))
    (mine,) = asked(await chat.say("what is on?"))
    answer = consent(server, elsewhere)
    assert story(await chat.answer(answer)) == ["root: forged"]
    forged = consent(server, mine)
    assert forged.function_response is not None
    forged.function_response.id = "adk-never"
    chat.runner = desk.chat(reader(calendar, config, "forged again")).runner
    assert story(await chat.answer(forged)) == ["root: forged again"]
    assert calendar.seen == []
    assert server.grants() == []


async def test_a_wrong_state_is_refused(server: OAuthServer) -> None:
    """The code of another request does not get in, whoever brings it."""
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    (elsewhere,) = asked(await desk.chat(reader(calendar, config), session_id="other").say("what is on?"))
    chat = desk.chat(reader(calendar, config))
    (mine,) = asked(await chat.say("what is on?"))
    (line, _) = story(await chat.answer(answered(mine, authResponseUri=server.visit(auth_uri(elsewhere)))))
    assert "belongs to another request" in line
    assert calendar.seen == []
    assert server.grants() == []


async def test_a_refusal_is_the_models_to_see_and_can_be_asked_again(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    chat = desk.chat(reader(calendar, config, DAY, DAY, "The dentist."))
    (request,) = asked(await chat.say("what is on?"))
    events = await chat.answer(consent(server, request, deny=True))
    assert "gave no access" in story(events)[0]
    (again,) = asked(events)
    assert again.id != request.id
    assert story(await chat.answer(consent(server, again)))[-1] == "root: The dentist."
    assert len(calendar.seen) == 1


@pytest.mark.parametrize("response", [{}, {"exchangedAuthCredential": {}}, {"response": "not json"}, {"x": [1]}])
async def test_an_answer_without_a_credential_is_a_refusal(server: OAuthServer, response: dict[str, Any]) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    chat = desk.chat(reader(calendar, config))
    (request,) = asked(await chat.say("what is on?"))
    events = await chat.answer(result(request.id, "adk_request_credential", response))
    assert "gave no access" in story(events)[0]


async def test_a_failed_exchange_is_the_models_to_see_without_a_secret(server: OAuthServer) -> None:
    """The server's error code is told; what else it said quotes the request."""
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    chat = desk.chat(reader(calendar, config))
    (request,) = asked(await chat.say("what is on?"))
    server.refuses = "invalid_grant"
    (line, _) = story(await chat.answer(consent(server, request)))
    assert "`invalid_grant`" in line
    assert not any(secret in line for secret in server.secrets())
    assert calendar.seen == []


async def test_a_server_that_talks_nonsense_fails_the_call_only(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    chat = desk.chat(reader(calendar, config))
    (request,) = asked(await chat.say("what is on?"))
    server.garbled = True
    (line, _) = story(await chat.answer(consent(server, request)))
    assert "no usable answer" in line
    assert not any(secret in line for secret in server.secrets())


async def test_a_server_that_says_nothing_is_waited_for_as_long_as_the_tool_may_take(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    root = asker([calendar.tool(config, timeout=0.5)], DAY, "It takes too long.")
    chat = desk.chat(root)
    (request,) = asked(await chat.say("what is on?"))
    answer = consent(server, request)
    server.silent = True
    (line, last) = story(await chat.answer(answer))
    assert "no result within 0.5 seconds" in line
    assert last == "root: It takes too long."
    assert await asyncio.to_thread(server.client_left.wait, 60)


async def test_two_tools_ask_at_once_and_one_is_answered(server: OAuthServer) -> None:
    """Each has its own request; the other's goes on waiting."""
    calendar, desk = Calendar(), Desk()
    tools = [
        calendar.tool(oauth(server), "mine"),
        calendar.tool(oauth(server).model_copy(update={"credential_key": "hers"}), "hers"),
    ]
    root = asker(tools, [call("mine", day="monday"), call("hers", day="friday")], "half", "both")
    chat = desk.chat(root)
    first, second = asked(await chat.say("what is on?"))
    assert story(await chat.answer(consent(server, second))) == [
        "root: hers -> {'result': 'friday: dentist'}",
        "root: half",
    ]
    assert story(await chat.answer(consent(server, first))) == [
        "root: mine -> {'result': 'monday: dentist'}",
        "root: both",
    ]
    assert len(set(calendar.tokens)) == 2


async def test_calls_that_need_the_same_credential_share_one_request(server: OAuthServer) -> None:
    """Asked once, exchanged once, and every call runs once."""
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    root = reader(calendar, config, [DAY, call("read_calendar", day="friday")], "both")
    chat = desk.chat(root)
    (request,) = asked(await chat.say("what is on?"))
    events = await chat.answer(consent(server, request))
    assert story(events) == [
        "root: read_calendar -> {'result': 'monday: dentist'}",
        "root: read_calendar -> {'result': 'friday: dentist'}",
        "root: both",
    ]
    assert server.grants() == ["authorization_code"]


async def test_an_api_key_is_asked_for_and_kept() -> None:
    calendar, desk = Calendar(), Desk()
    chat = desk.chat(reader(calendar, API_KEY, DAY, "one", DAY, "two"))
    (request,) = asked(await chat.say("what is on?"))
    await chat.answer(given(request, authType="apiKey", apiKey="k-123456"))
    await chat.say("again")
    assert [each.api_key for each in calendar.seen] == ["k-123456", "k-123456"]


async def test_a_request_that_somebody_else_made_is_not_carried_out(server: OAuthServer) -> None:
    """Another agent's request is no business of this one's, which has a tool of the same name."""
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    chat = desk.chat(agent("helper", DAY, tools=[calendar.tool(config)]))
    (request,) = asked(await chat.say("what is on?"))
    other = desk.chat(reader(calendar, config, "not mine"))
    assert story(await other.answer(consent(server, request))) == ["root: not mine"]
    assert calendar.seen == []


async def test_an_answer_lost_with_its_process_is_asked_for_again(server: OAuthServer) -> None:
    """What is stored of an answer says only that there was one."""
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    (request,) = asked(await desk.chat(reader(calendar, config)).say("what is on?"))
    chat = desk.chat(reader(calendar, config, "The dentist."))
    (again,) = asked(await chat.answer(result(request.id, "adk_request_credential", {"status": "received"})))
    assert again.id != request.id
    assert story(await chat.answer(consent(server, again)))[-1] == "root: The dentist."
    assert len(calendar.seen) == 1


async def test_a_function_asks_by_itself(server: OAuthServer) -> None:
    """`load_credential`, else `request_credential`: in a tool that is a plain function."""
    config, tokens = oauth(server), list[Any]()

    async def read_calendar(day: str, tool_context: ToolContext) -> str:
        """Read the calendar."""
        credential = await tool_context.load_credential(config)
        if credential is None:
            tool_context.request_credential(config)
            return "asked"
        tokens.append(credential.oauth2 and credential.oauth2.access_token)
        return day

    desk = Desk()
    (request,) = asked(await desk.chat(asker([read_calendar], DAY)).say("what is on?"))
    await desk.chat(asker([read_calendar], "ok", DAY, "ok")).answer(consent(server, request))
    await desk.chat(asker([read_calendar], DAY, "ok")).say("again")
    assert tokens == [server.issued[1]] * 2


@pytest.mark.parametrize("blocking", [True, False], ids=["in a thread", "in the event loop"])
async def test_a_function_that_cannot_await_gets_the_response(server: OAuthServer, blocking: bool) -> None:
    """`get_auth_response` exchanges the code while the caller waits; what came of it is kept."""
    config, tokens = oauth(server), list[Any]()

    def read(tool_context: ToolContext) -> str:
        credential = tool_context.get_auth_response(config)
        if credential is None:
            tool_context.request_credential(config)
            return "asked"
        tokens.append(credential.oauth2 and credential.oauth2.access_token)
        return "read"

    def blocked(tool_context: ToolContext) -> str:
        """Read."""
        return read(tool_context)

    async def awaited(tool_context: ToolContext) -> str:
        """Read."""
        return read(tool_context)

    calendar, desk = Calendar(), Desk()
    tool = blocked if blocking else awaited
    root = asker([tool, calendar.tool(config)], call(tool.__name__), DAY, "ok")
    chat = desk.chat(root)
    (request,) = asked(await chat.say("what is on?"))
    await chat.answer(consent(server, request))
    assert tokens == calendar.tokens == [server.issued[1]]
