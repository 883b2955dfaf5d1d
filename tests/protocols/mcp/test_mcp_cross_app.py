"""Cross-app access: an organisation's identity provider gives its word for a user, and the server asks them nothing."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from auth.oauth_server import BACK, CLIENT, CLIENT_SECRET, OAuthServer
from http_servers import Http, served
from kit import Chat
from mcp_kit import asks

from flowloom import (
    AuthConfig,
    InMemoryCredentialService,
    InMemorySessionService,
    McpToolset,
    PendingCall,
    Runner,
    pending_calls,
)
from flowloom.errors import ConfigurationError, ToolsetError
from flowloom.protocols.mcp import StdioConnectionParams, StreamableHTTPConnectionParams
from flowloom.testing import call

JWT_BEARER = "urn:ietf:params:oauth:grant-type:jwt-bearer"
OWN = {"authType": "oauth2", "oauth2": {"clientId": "desk", "clientSecret": "secret-of-the-desk"}}
TOKEN, LATER = "token-of-ann-1234567890", "token-of-ann-later-1234567890"


@pytest.fixture
def provider() -> Iterator[OAuthServer]:
    """The organisation's identity provider, on a port of its own."""
    with OAuthServer() as running:
        yield running


def sign_in(provider: OAuthServer, **own: Any) -> AuthConfig:
    """Where users sign in."""
    scheme = {"type": "openIdConnect", "openIdConnectUrl": f"{provider.url}/.well-known/openid-configuration"}
    client = {"clientId": CLIENT, "clientSecret": CLIENT_SECRET, "redirectUri": BACK} | own
    raw = {"authType": "openIdConnect", "oauth2": client}
    return AuthConfig.model_validate({"authScheme": scheme, "rawAuthCredential": raw})


class Desk:
    """One user, their sessions and credentials."""

    def __init__(self, provider: OAuthServer, **own: Any) -> None:
        self.provider, self.own = provider, own
        self.services: dict[str, Any] = {
            "session_service": InMemorySessionService(),
            "credential_service": InMemoryCredentialService(),
        }
        self.chats: list[Chat] = []

    def chat(self, http: Http, *answers: Any, **options: Any) -> Chat:
        tools = McpToolset(
            connection_params=StreamableHTTPConnectionParams(http.url),
            identity_provider=sign_in(self.provider, **self.own),
            **{"auth_credential": OWN, **options},
        )
        runner: Any = Runner(agent=asks(tools, *answers), app_name="app", auto_create_session=True, **self.services)
        self.chats.append(Chat(runner=runner, session_id=f"s{len(self.chats)}"))
        return self.chats[-1]

    async def signed_in(self, http: Http, *answers: Any) -> list[Any]:
        """The results of a conversation in which the user signs in."""
        chat = self.chat(http, call("mcp_sign_in"), *answers)
        await chat.say("go")
        return await self.goes_on(chat)

    async def goes_on(self, chat: Chat) -> list[Any]:
        (pending,) = pending_calls(await chat.stored())
        return results(await chat.answer(self.consent(pending)))

    def consent(self, pending: PendingCall) -> Any:
        assert pending.authorization_url is not None
        assert pending.authorization_url.startswith(f"{self.provider.url}/authorize?")
        return pending.consent(self.provider.visit(pending.authorization_url))

    async def close(self) -> None:
        for chat in self.chats:
            await chat.runner.close()


def results(events: list[Any]) -> list[Any]:
    return [each.response for event in events for each in event.get_function_responses()]


def token_requests(http: Http) -> list[dict[str, Any]]:
    return [each["body"] for each in http.requests if each["path"] == "/token"]


def service(**told: Any) -> Any:
    return served(**{"token": TOKEN, "grants": (JWT_BEARER,), **told})


async def test_a_user_signs_in_at_the_provider_and_nowhere_else(provider: OAuthServer) -> None:
    """The id token is exchanged for the provider's word, and that for a token of the server."""
    desk = Desk(provider)
    with service() as http:
        assert (await desk.signed_in(http, call("who"), "ok"))[-1] == {"result": TOKEN}
        (word,) = provider.words
        assert word["requested_token_type"] == "urn:ietf:params:oauth:token-type:id-jag"
        assert word["subject_token_type"] == "urn:ietf:params:oauth:token-type:id_token"
        assert word["subject_token"].count(".") == 2
        assert (word["audience"], word["resource"]) == (http.url.removesuffix("/mcp"), http.url)
        (asked,) = token_requests(http)
        assert (asked["grant_type"], asked["assertion"]) == (JWT_BEARER, provider.issued[-1])
        assert [each["path"] for each in http.requests if each["path"] in ("/authorize", "/register")] == []
        await desk.close()


async def test_one_sign_in_opens_all_servers(provider: OAuthServer) -> None:
    """Another server gets a word of its own; a server that was asked before has its token still."""
    desk = Desk(provider)
    with service() as http, service() as other:
        await desk.signed_in(http, call("who"), "ok")
        for place in (other, http):
            assert results(await desk.chat(place, call("who"), "ok").say("go")) == [{"result": TOKEN}]
        assert [each["resource"] for each in provider.words] == [http.url, other.url]
        assert len(token_requests(http)) == 1
        await desk.close()


async def test_an_id_token_that_the_program_has_is_enough(provider: OAuthServer) -> None:
    """Of a user who has signed in to it: nothing is asked."""
    desk = Desk(provider, idToken="a.b.c")
    with service() as http:
        assert results(await desk.chat(http, call("who"), "ok").say("go")) == [{"result": TOKEN}]
        assert provider.words[0]["subject_token"] == "a.b.c"
        await desk.close()


async def test_a_token_that_is_no_longer_taken_is_got_anew(provider: OAuthServer) -> None:
    """The provider gives its word once more, and the call is made; the user is not asked."""
    desk = Desk(provider)
    with service(tokens=[TOKEN, LATER]) as http:
        await desk.signed_in(http, call("who"), "ok")
        chat = desk.chat(http, call("who"), call("who"), "ok")
        http.told["token"] = LATER
        assert results(await chat.say("go")) == [{"result": LATER}] * 2
        await desk.close()


@pytest.mark.parametrize("own", [{}, {"idToken": "a.b.c"}])
async def test_a_sign_in_that_has_expired_is_asked_for_again(provider: OAuthServer, own: dict[str, str]) -> None:
    """Unless it was the program's, who then has to know."""
    desk = Desk(provider, **own)
    with service(tokens=[TOKEN, LATER]) as http:
        if own:
            provider.stale.add("a.b.c")
            with pytest.raises(ToolsetError, match=r"identity provider refused to give a token \(`invalid_request`\)"):
                await desk.chat(http, "ok").say("go")
            return
        await desk.signed_in(http, call("who"), "ok")
        provider.stale |= {each for each in provider.issued if each.count(".") == 2}
        http.told["token"] = LATER
        assert (await desk.signed_in(http, call("who"), "ok"))[-1] == {"result": LATER}
        await desk.close()


async def test_a_user_whom_the_provider_does_not_let_in_is_not_asked_again(provider: OAuthServer) -> None:
    """Its policy stands: the error names who refused, and why."""
    desk = Desk(provider)
    with service() as http:
        chat = desk.chat(http, call("mcp_sign_in"), "ok", "ok")
        await chat.say("go")
        answer = desk.consent(pending_calls(await chat.stored())[0])
        provider.word = {"error": "access_denied"}
        told = results(await chat.answer(answer))
        assert "identity provider refused to give a token (`access_denied`)" in str(told)
        with pytest.raises(ToolsetError, match="access_denied"):
            await desk.chat(http, "ok").say("go")
        assert token_requests(http) == []
        await desk.close()


async def test_another_token_than_the_word_is_not_passed_on(provider: OAuthServer) -> None:
    """An access token of the provider would open its own doors."""
    desk = Desk(provider, idToken="a.b.c")
    provider.word = {"issued_token_type": "urn:ietf:params:oauth:token-type:access_token"}
    with service() as http:
        with pytest.raises(ToolsetError, match="gave another token than was asked for"):
            await desk.chat(http, "ok").say("go")
        assert token_requests(http) == []
        await desk.close()


async def test_a_server_that_does_not_take_the_word_says_so(provider: OAuthServer) -> None:
    """Another sign-in would not change that, so none is asked for."""
    desk = Desk(provider, idToken="a.b.c")
    with service(grants=()) as http:
        with pytest.raises(ToolsetError, match=r"does not take the word .* \(`invalid_grant`\)"):
            await desk.chat(http, "ok").say("go")
        await desk.close()


async def test_an_issuer_that_the_program_names_is_the_one_that_is_asked(provider: OAuthServer) -> None:
    """What the server says of its authorization server is not even read: no secret goes where a server points to."""
    desk = Desk(provider, idToken="a.b.c")
    with service() as http, service(resource={"authorization_servers": ["https://thief.example"]}) as other:
        scheme = {"type": "oauth2", "issuer_url": http.url.removesuffix("/mcp")}
        assert results(await desk.chat(other, call("who"), "ok", auth_scheme=scheme).say("go")) == [{"result": TOKEN}]
        assert (provider.words[0]["audience"], provider.words[0]["resource"]) == (scheme["issuer_url"], other.url)
        assert len(token_requests(http)) == 1
        assert {each["path"] for each in other.requests} == {"/mcp"}
        await desk.close()


@pytest.mark.parametrize("own", [{}, {"idToken": "a.b.c"}])
async def test_a_missing_scope_is_got_without_the_user(provider: OAuthServer, own: dict[str, str]) -> None:
    """403 `insufficient_scope`: the provider is asked for its word on the union, by the sign-in that there is."""
    desk = Desk(provider, **own)
    with service(tokens=[TOKEN, LATER], wide=LATER) as http:
        if own:
            assert results(await desk.chat(http, call("who"), "ok").say("go")) == [{"result": LATER}]
        else:
            assert (await desk.signed_in(http, call("who"), "ok"))[-1] == {"result": LATER}
        assert [each["scope"] for each in token_requests(http)] == ["read", "read write"]
        assert [each["scope"] for each in provider.words] == ["read", "read write"]
        await desk.close()


def test_what_is_missing_is_said_when_the_toolset_is_made(provider: OAuthServer) -> None:
    """Both servers know the client, and a process has no authorization server."""
    params = StreamableHTTPConnectionParams("http://127.0.0.1:1/mcp")
    with pytest.raises(ConfigurationError, match="give its `client_id` in `auth_credential"):
        McpToolset(connection_params=params, identity_provider=sign_in(provider))
    scheme = {"type": "oauth2", "issuer_url": "https://issuer.example"}
    nameless = sign_in(provider, clientId=None)
    with pytest.raises(ConfigurationError, match="give the identity provider's `client_id`"):
        McpToolset(connection_params=params, auth_scheme=scheme, auth_credential=OWN, identity_provider=nameless)
    same = sign_in(provider).model_copy(update={"credential_key": "one"})
    with pytest.raises(ConfigurationError, match="give them different ones"):
        McpToolset(
            connection_params=params,
            auth_scheme=scheme,
            auth_credential=OWN,
            identity_provider=same,
            credential_key="one",
        )
    process = StdioConnectionParams({"command": "true"})
    with pytest.raises(ConfigurationError, match="A stdio server is shown no credential"):
        McpToolset(connection_params=process, identity_provider=sign_in(provider))
