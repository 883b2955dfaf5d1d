"""Tokens that expire, tokens for the client itself, and where credentials are kept."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from auth.desk import Calendar, Desk, asked, asker, consent, given, oauth, openid
from auth.oauth_server import CLIENT, CLIENT_SECRET, OAuthServer
from kit import approve, context, pending, story

from flowloom import (
    AuthConfig,
    AuthCredential,
    AuthCredentialTypes,
    AuthenticatedFunctionTool,
    Context,
    InMemoryCredentialService,
    OAuth2Auth,
    ToolContext,
)
from flowloom.auth import BaseCredentialService
from flowloom.testing import call

DAY = call("read_calendar", day="monday")


class _Where:
    """A session's names, as far as a credential service looks."""

    def __init__(self, user_id: str = "ann") -> None:
        self.session: Any = type("Names", (), {"app_name": "app", "user_id": user_id})()


async def kept(desk: Desk, config: AuthConfig, **tokens: Any) -> None:
    """Put tokens where an earlier run would have left them."""
    oauth2 = OAuth2Auth(client_id=CLIENT, **tokens)
    credential = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=oauth2)
    await desk.credentials.save_credential(config.with_exchanged(credential), _Where())


async def given_before(server: OAuthServer, desk: Desk, config: AuthConfig, calendar: Calendar) -> None:
    """A run in which the user gave access."""
    chat = desk.chat(asker([calendar.tool(config)], DAY, "ok"), session_id="before")
    (request,) = asked(await chat.say("what is on?"))
    await chat.answer(consent(server, request))


@pytest.fixture
def short(server: OAuthServer) -> OAuthServer:
    """A server whose tokens expire at once."""
    server.lifetime = 10
    return server


async def test_a_token_that_has_expired_is_refreshed_before_the_tool_runs(short: OAuthServer) -> None:
    """The refresh token that came with it is used up, and the new one kept."""
    calendar, desk, config = Calendar(), Desk(), oauth(short)
    await given_before(short, desk, config, calendar)
    chat = desk.chat(asker([calendar.tool(config)], DAY, "ok", DAY, "ok"))
    await chat.say("again")
    assert asked(await chat.say("and again")) == []
    assert short.grants() == ["authorization_code", "refresh_token", "refresh_token"]
    assert len(set(calendar.tokens)) == 3


async def test_a_token_that_is_good_is_used_as_it_is(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    await given_before(server, desk, config, calendar)
    await desk.chat(asker([calendar.tool(config)], DAY, "ok")).say("again")
    assert server.grants() == ["authorization_code"]


async def test_calls_at_once_refresh_once(short: OAuthServer) -> None:
    """Over all calls and runs of the process: a refresh token works a single time."""
    calendar, desk, config = Calendar(), Desk(), oauth(short)
    await given_before(short, desk, config, calendar)
    short.lifetime = 3600
    calls = [call("read_calendar", day=str(n)) for n in range(3)]
    chats = [desk.chat(asker([calendar.tool(config)], calls, "ok"), session_id=f"s{n}") for n in range(4)]
    results = await asyncio.gather(*(chat.say("again") for chat in chats))
    assert [asked(events) for events in results] == [[], [], [], []]
    assert short.grants() == ["authorization_code", "refresh_token"]
    assert len(calendar.seen) == 1 + 12


async def test_a_refused_refresh_token_is_asked_for_anew(short: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(short)
    await kept(desk, config, access_token="old", refresh_token="revoked", expires_at=1)
    (request,) = asked(await desk.chat(asker([calendar.tool(config)], DAY)).say("what is on?"))
    await desk.chat(asker([calendar.tool(config)], "ok")).answer(consent(short, request))
    assert len(calendar.seen) == 1


async def test_an_expired_token_that_cannot_be_refreshed_is_asked_for_anew(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    await kept(desk, config, access_token="old", expires_at=1)
    assert len(asked(await desk.chat(asker([calendar.tool(config)], DAY)).say("what is on?"))) == 1
    assert server.grants() == []


async def test_a_server_that_fails_to_refresh_fails_the_call_only(short: OAuthServer) -> None:
    """Nobody is asked for a consent that is there: it may work the next time."""
    calendar, desk, config = Calendar(), Desk(), oauth(short)
    await given_before(short, desk, config, calendar)
    chat = desk.chat(asker([calendar.tool(config)], DAY, "failed", DAY, "ok"))
    short.garbled = True
    assert "no usable answer" in story(await chat.say("again"))[1]
    short.garbled = False
    await chat.say("again")
    assert len(calendar.seen) == 2


async def test_a_token_that_another_process_has_refreshed_is_taken(short: OAuthServer) -> None:
    """The refresh token that this one knew is refused; what is kept meanwhile is good."""

    class Shared(InMemoryCredentialService):
        async def load_credential(self, auth_config: AuthConfig, callback_context: Any) -> AuthCredential | None:
            found = await super().load_credential(auth_config, callback_context)
            if found is not None and found.oauth2 is not None and found.oauth2.access_token == "old":
                await kept(desk, auth_config, access_token="new", expires_at=2**40)
            return found

    calendar, desk, config = Calendar(), Desk(credentials=Shared()), oauth(short)
    await kept(desk, config, access_token="old", refresh_token="used up", expires_at=1)
    await desk.chat(asker([calendar.tool(config)], DAY, "ok")).say("what is on?")
    assert calendar.tokens == ["new"]


async def test_a_client_gets_tokens_of_its_own_without_asking_anybody(server: OAuthServer) -> None:
    flow = {"tokenUrl": f"{server.url}/token", "scopes": {"read": ""}}
    scheme: Any = {"type": "oauth2", "flows": {"clientCredentials": flow}}
    client = OAuth2Auth(client_id=CLIENT, client_secret=CLIENT_SECRET)
    raw = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=client)
    config = AuthConfig(auth_scheme=scheme, raw_auth_credential=raw)
    calendar, desk = Calendar(), Desk()
    chat = desk.chat(asker([calendar.tool(config)], DAY, "ok", DAY, "ok"))
    await chat.say("what is on?")
    await chat.say("what is on?")
    assert calendar.tokens == [server.issued[0]] * 2
    assert server.grants() == ["client_credentials"]


async def test_a_credential_that_is_the_tools_own_is_given_as_it_is() -> None:
    scheme: Any = {"type": "http", "scheme": "bearer"}
    own: Any = {"authType": "http", "http": {"scheme": "bearer", "credentials": {"token": "tok-123456"}}}
    calendar = Calendar()
    config = AuthConfig(auth_scheme=scheme, raw_auth_credential=own)
    await Desk().chat(asker([calendar.tool(config)], DAY, "ok")).say("what is on?")
    http = calendar.seen[0].http
    assert http is not None
    assert http.credentials.token == "tok-123456"


async def test_a_runner_without_a_service_keeps_credentials_while_it_lives(server: OAuthServer) -> None:
    calendar, desk, config = Calendar(), Desk(), oauth(server, client_secret=None)
    server.public = True
    chat = desk.chat(asker([calendar.tool(config)], DAY, DAY, "ok", DAY, "ok"), credential_service=None)
    (request,) = asked(await chat.say("what is on?"))
    assert asked(await chat.answer(consent(server, request))) == []
    assert len(calendar.seen) == 2
    assert asked(await chat.say("again")) == []
    assert len(calendar.seen) == 3


async def test_each_user_has_credentials_of_their_own(server: OAuthServer) -> None:
    service, config = InMemoryCredentialService(), oauth(server)
    await kept(Desk(credentials=service), config, access_token="hers")
    assert await service.load_credential(config, _Where("ann")) is not None
    assert await service.load_credential(config, _Where("bob")) is None
    await service.save_credential(config.with_exchanged(None), _Where("ann"))
    assert await service.load_credential(config, _Where("ann")) is None


async def test_a_service_of_ones_own_needs_two_methods(server: OAuthServer) -> None:
    """With the same secret in two processes, either answers what the other asked."""
    stored: dict[str, dict[str, Any]] = {}

    class Stored(BaseCredentialService):
        request_secret = b"the same in every process, 32 b."

        async def load_credential(self, auth_config: AuthConfig, callback_context: Any) -> AuthCredential | None:
            found = stored.get(auth_config.credential_key)
            return None if found is None else AuthCredential.model_validate(found)

        async def save_credential(self, auth_config: AuthConfig, callback_context: Any) -> None:
            assert auth_config.exchanged_auth_credential is not None
            stored[auth_config.credential_key] = auth_config.exchanged_auth_credential.to_wire()

    server.public = True
    calendar, desk, config = Calendar(), Desk(), oauth(server, client_secret=None)
    first = desk.chat(asker([calendar.tool(config)], DAY), credential_service=Stored())
    (request,) = asked(await first.say("what is on?"))
    second = desk.chat(asker([calendar.tool(config)], "ok"), credential_service=Stored())
    await second.answer(consent(server, request))
    third = desk.chat(asker([calendar.tool(config)], DAY, "ok"), credential_service=Stored())
    await third.say("again")
    assert calendar.tokens == [server.issued[1]] * 2


async def test_another_process_without_the_secret_asks_again(server: OAuthServer) -> None:
    """The server refuses a code whose PKCE verifier is another one."""
    server.public = True
    calendar, desk, config = Calendar(), Desk(), oauth(server, client_secret=None)
    (request,) = asked(await desk.chat(asker([calendar.tool(config)], DAY)).say("what is on?"))
    desk.credentials = InMemoryCredentialService()
    chat = desk.chat(asker([calendar.tool(config)], DAY, "ok"))
    events = await chat.answer(consent(server, request))
    assert "`invalid_grant`" in story(events)[0]
    (again,) = asked(events)
    await chat.answer(consent(server, again))
    assert len(calendar.seen) == 1


async def test_a_person_approves_a_call_that_has_its_credential(server: OAuthServer) -> None:
    """First access, then approval, then the call, once."""
    calendar, desk, config = Calendar(), Desk(), oauth(server)
    chat = desk.chat(asker([calendar.tool(config, require_confirmation=True)], DAY, "ok"))
    (request,) = asked(await chat.say("what is on?"))
    (approval,) = pending(await chat.answer(consent(server, request)))
    assert calendar.seen == []
    assert story(await chat.answer(approve(approval)))[-1] == "root: ok"
    assert len(calendar.seen) == 1


async def test_nobody_is_asked_for_a_call_that_cannot_run(server: OAuthServer) -> None:
    """Arguments that do not fit go back to the model at once."""
    calendar = Calendar()
    chat = Desk().chat(asker([calendar.tool(oauth(server))], call("read_calendar"), "ok"))
    events = await chat.say("what is on?")
    assert asked(events) == []
    assert "day" in story(events)[1]


async def test_a_tool_may_save_a_credential_itself(server: OAuthServer) -> None:
    config = oauth(server)

    async def sign_in(tool_context: ToolContext) -> str:
        """Sign in."""
        mine = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=OAuth2Auth(access_token="mine"))
        await tool_context.save_credential(config.with_exchanged(mine))
        return "ok"

    calendar, desk = Calendar(), Desk()
    chat = desk.chat(asker([sign_in, calendar.tool(config)], call("sign_in"), DAY, "ok"))
    await chat.say("sign in")
    assert calendar.tokens == ["mine"]


async def test_the_model_is_told_what_the_tool_says_about_waiting(server: OAuthServer) -> None:
    tool = Calendar().tool(oauth(server), response_for_auth_required={"status": "waiting for ann"})
    events = await Desk().chat(asker([tool], DAY)).say("what is on?")
    assert story(events)[1] == "root: read_calendar -> {'status': 'waiting for ann'}"


def test_a_blocking_function_without_the_parameter_is_only_guarded(server: OAuthServer) -> None:
    def plain(day: str) -> str:
        """Plain."""
        return day

    tool = AuthenticatedFunctionTool(plain, auth_config=openid(server))
    declared = tool.declaration
    assert declared is not None
    assert declared.parameters_json_schema == {
        "type": "object",
        "properties": {"day": {"type": "string"}},
        "required": ["day"],
    }


async def test_the_credential_is_not_the_models_to_give(server: OAuthServer) -> None:
    """It is not declared, and an argument of that name is dropped."""
    calendar = Calendar()
    tool = calendar.tool(oauth(server))
    assert tool.declaration is not None
    assert list(tool.declaration.parameters_json_schema["properties"]) == ["day"]  # type: ignore[index]
    chat = Desk().chat(asker([tool], call("read_calendar", day="monday", credential={"authType": "http"})))
    assert len(asked(await chat.say("what is on?"))) == 1


async def test_nobody_is_asked_for_a_call_that_lacks_an_argument(server: OAuthServer) -> None:
    """The model is told at once; the result is the error, as of any function."""
    tool = Calendar().tool(oauth(server))
    given = await tool.run_async(args={}, tool_context=Context(context(asker([tool])), function_call_id="c1"))
    assert "`day`: is missing" in given["error"]
    events = await Desk().chat(asker([tool], call("read_calendar"), "ok")).say("what is on?")
    assert asked(events) == []
    assert events[1].get_function_responses()[0].response == given


async def test_an_http_password_is_asked_for(server: OAuthServer) -> None:
    config = AuthConfig(auth_scheme={"type": "http", "scheme": "basic"})  # type: ignore[arg-type]
    calendar = Calendar()
    chat = Desk().chat(asker([calendar.tool(config)], DAY, "ok"))
    (request,) = asked(await chat.say("what is on?"))
    http = {"scheme": "basic", "credentials": {"username": "ann", "password": "pw-123456"}}
    await chat.answer(given(request, authType="http", http=http))
    assert calendar.seen[0].http is not None
    assert calendar.seen[0].http.credentials.password == "pw-123456"
