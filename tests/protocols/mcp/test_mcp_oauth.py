"""Servers that send users to an authorization server: who is asked, for what, and how a client proves itself."""

from __future__ import annotations

import base64
import hashlib
import socket
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from http_servers import Http, served
from joserfc import jwt
from joserfc.jwk import ECKey
from kit import Chat
from mcp_kit import asks

from flowloom import (
    InMemoryCredentialService,
    InMemorySessionService,
    McpToolset,
    PendingCall,
    Runner,
    pending_calls,
)
from flowloom.errors import ConfigurationError, ToolError, ToolsetError
from flowloom.protocols.mcp import StreamableHTTPConnectionParams
from flowloom.protocols.mcp.discovery import discovered
from flowloom.protocols.targets import Kinds
from flowloom.testing import call

NO_VERIFIER = base64.urlsafe_b64encode(hashlib.sha256(b"").digest()).decode().rstrip("=")
ALONE = {"type": "oauth2", "flows": {"clientCredentials": {}}}
TOKEN = "token-of-ann-1234567890"
NARROW, WIDE = "token-to-read-1234567890", "token-to-write-1234567890"


def toolset(http: Http, **options: Any) -> McpToolset:
    return McpToolset(connection_params=StreamableHTTPConnectionParams(http.url), **options)


def chat_with(tools: McpToolset, *answers: Any) -> Chat:
    services: Any = {"session_service": InMemorySessionService(), "credential_service": InMemoryCredentialService()}
    runner: Any = Runner(agent=asks(tools, *answers), app_name="app", auto_create_session=True, **services)
    return Chat(runner=runner)


async def waiting(chat: Chat) -> PendingCall:
    (pending,) = pending_calls(await chat.stored())
    return pending


def asked_for(pending: PendingCall) -> dict[str, str]:
    """What the authorization server is asked by the link."""
    return {name: values[0] for name, values in parse_qs(urlsplit(pending.authorization_url or "").query).items()}


async def consented(http: Http, chat: Chat, pending: PendingCall) -> list[Any]:
    """The user follows the link and comes back."""
    asked = asked_for(pending)
    http.challenges["challenge"] = asked["code_challenge"]
    return await chat.answer(pending.consent(f"{asked['redirect_uri']}?code=abc&state={asked['state']}"))


def results(events: list[Any]) -> list[Any]:
    return [each.response for event in events for each in event.get_function_responses()]


async def test_the_model_is_told_that_access_was_given() -> None:
    """The tool that stands for a server's tools says so, and they are there."""
    with served(token=TOKEN) as http:
        chat = chat_with(toolset(http), call("mcp_sign_in"), call("who"), "ok")
        await chat.say("go")
        told, answer = results(await consented(http, chat, await waiting(chat)))
        assert told == {"result": "Access was given: the tools are there now."}
        assert answer == {"result": TOKEN}
        await chat.runner.close()


async def test_a_user_whose_token_is_no_longer_taken_is_asked_again_once() -> None:
    """Without a refresh token there is no other way; a server that refuses the new one, too, gets an error result."""
    with served(token=TOKEN, tokens=[TOKEN, TOKEN]) as http:
        chat = chat_with(toolset(http), call("mcp_sign_in"), call("who"), "ok")
        await chat.say("go")
        pending = await waiting(chat)
        http.told["after"] = 1
        await consented(http, chat, pending)
        told = results(await consented(http, chat, await waiting(chat)))
        assert "HTTP 401" in told[0]["error"]
        assert pending_calls(await chat.stored()) == []
        await chat.runner.close()


async def test_a_client_that_asks_for_itself_gets_another_token_when_one_is_refused() -> None:
    """No user is there to be asked: the call is made with the new one."""
    own = {"authType": "oauth2", "oauth2": {"clientId": "robot", "clientSecret": "secret-of-the-robot"}}
    with served(token=TOKEN, tokens=[TOKEN, WIDE], grants=("client_credentials",)) as http:

        async def replaced(**_: Any) -> None:
            http.told["token"] = WIDE

        tools = toolset(http, auth_scheme=ALONE, auth_credential=own)
        chat = chat_with(tools, call("who"), call("who"), "ok")
        chat.runner.agent.after_tool_callback = replaced
        assert results(await chat.say("go")) == [{"result": TOKEN}, {"result": WIDE}]
        await chat.runner.close()


async def test_a_scope_that_is_missing_is_asked_for_with_those_that_were_given() -> None:
    """403 `insufficient_scope`: the user is asked once, for the union, and the call is made with the new token."""
    with served(token=NARROW, wide=WIDE, tokens=[NARROW, WIDE]) as http:
        chat = chat_with(toolset(http), call("mcp_sign_in"), call("who"), "ok")
        await chat.say("go")
        first = await waiting(chat)
        assert asked_for(first)["scope"] == "read"
        await consented(http, chat, first)
        second = await waiting(chat)
        assert asked_for(second)["scope"].split() == ["read", "write"]
        events = await consented(http, chat, second)
        assert results(events)[-1] == {"result": WIDE}
        assert len([each for each in http.requests if each["path"] == "/register"]) == 1
        await chat.runner.close()


async def test_a_scope_is_asked_for_only_once() -> None:
    """A server that still refuses gets an error result, and the user is not asked for ever."""
    with served(token=NARROW, wide="never-given", tokens=[NARROW, NARROW]) as http:
        chat = chat_with(toolset(http), call("mcp_sign_in"), call("who"), "ok")
        await chat.say("go")
        for _ in range(2):
            events = await consented(http, chat, await waiting(chat))
        assert "HTTP 403" in results(events)[-1]["error"]
        assert pending_calls(await chat.stored()) == []
        await chat.runner.close()


@pytest.mark.parametrize("methods", [["client_secret_basic"], ["client_secret_post"], ["none", "client_secret_post"]])
async def test_a_client_proves_itself_as_the_server_takes_it(methods: list[str]) -> None:
    """By a header, in the body, or by PKCE alone; it says so when it is registered."""
    secret = {} if "none" in methods else {"client_secret": "secret-of-the-client"}
    tells = {"token_endpoint_auth_methods_supported": methods}
    with served(token="token-of-ann-1234567890", server=tells, client=secret) as http:
        chat = chat_with(toolset(http), call("mcp_sign_in"), call("who"), "ok")
        await chat.say("go")
        events = await consented(http, chat, await waiting(chat))
        assert results(events)[-1] == {"result": "token-of-ann-1234567890"}
        (registered,) = [each for each in http.requests if each["path"] == "/register"]
        (exchanged,) = [each for each in http.requests if each["path"] == "/token"]
        assert registered["body"]["token_endpoint_auth_method"] == methods[0]
        header = base64.b64encode(b"client-1:secret-of-the-client").decode()
        assert (exchanged["headers"].get("authorization") == f"Basic {header}") == (methods[0] == "client_secret_basic")
        assert ("client_secret" in exchanged["body"]) == (methods[0] == "client_secret_post")
        await chat.runner.close()


async def test_an_older_server_is_its_own_authorization_server() -> None:
    """Protocol 2025-03-26: it describes no protected resource."""
    with served(token="token-of-ann-1234567890", older=True) as http:
        chat = chat_with(toolset(http), call("mcp_sign_in"), call("who"), "ok")
        await chat.say("go")
        assert (await waiting(chat)).authorization_url.startswith(http.url.removesuffix("mcp") + "authorize?")  # type: ignore[union-attr]
        events = await consented(http, chat, await waiting(chat))
        assert results(events)[-1] == {"result": "token-of-ann-1234567890"}
        await chat.runner.close()


@pytest.mark.parametrize(
    ("told", "why"),
    [
        ({"resource": {"authorization_servers": ["https://10.0.0.7"]}}, "`10.0.0.7` is not reached: it is a private"),
        ({"resource": {"authorization_servers": ["https://169.254.169.254"]}}, "it is a link-local address"),
        ({"server": {"token_endpoint": "https://192.168.1.1/token"}}, "`192.168.1.1` is not reached"),
        ({"server": {"registration_endpoint": "https://[fd00::1]/register"}}, "`fd00::1` is not reached"),
        ({"server": {"token_endpoint": "http://example.com/token"}}, "has to begin with https"),
        ({"server": {"authorization_endpoint": "javascript:alert(1)"}}, "has to begin with https"),
        ({"server": {"issuer": "https://other.example"}}, "names another one as itself"),
        ({"server": {"code_challenge_methods_supported": ["plain"]}}, "offers no PKCE with S256"),
        ({"resource": {"resource": "https://other.example/mcp"}}, "describes another one as itself"),
    ],
)
async def test_addresses_of_an_authorization_server_lead_nowhere_else(told: dict[str, Any], why: str) -> None:
    """A server of this machine may name one of this machine, and no other address that is not public; the error of the
    run says so, and the user is not asked."""
    with served(token="x", **told) as http:
        chat = Chat(asks(toolset(http), "ok"))
        with pytest.raises(ToolsetError) as caught:
            await chat.say("go")
        assert why in str(caught.value)
        assert http.url in str(caught.value)
        await chat.runner.close()


async def test_a_public_server_leads_to_no_address_of_this_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """Here it is reached by a name that counts as public: the one of this machine that it names is not asked."""

    async def nothing_private(host: str, port: int) -> Kinds:
        return frozenset()

    with served(token="x") as http:
        monkeypatch.setattr("flowloom.protocols.mcp.discovery.kinds_at", nothing_private)
        with pytest.raises(ToolError, match=r"leads to a place that is not asked.*`127\.0\.0\.1` is not reached"):
            await discovered(StreamableHTTPConnectionParams(http.url), "Bearer", None, None)
        assert http.requests == []


async def test_a_client_may_ask_for_itself() -> None:
    """With the flow `client_credentials` no user is asked: the server names who gives the token."""
    own = {"authType": "oauth2", "oauth2": {"clientId": "robot", "clientSecret": "secret-of-the-robot"}}
    with served(token="token-of-ann-1234567890", server={"token_endpoint_auth_methods_supported": []}) as http:
        http.challenges["challenge"] = NO_VERIFIER
        chat = chat_with(toolset(http, auth_scheme=ALONE, auth_credential=own), call("who"), "ok")
        assert results(await chat.say("go")) == [{"result": "token-of-ann-1234567890"}]
        (exchanged,) = [each["body"] for each in http.requests if each["path"] == "/token"]
        assert exchanged["grant_type"] == "client_credentials"
        assert (exchanged["resource"], exchanged["scope"]) == (http.url, "read")
        await chat.runner.close()


async def test_a_client_may_ask_for_itself_with_a_key() -> None:
    """It sends no secret: what it signs is for the issuer that the server's description names, and no PKCE is asked."""
    key = ECKey.generate_key("P-256")
    own = {"authType": "oauth2", "oauth2": {"clientId": "robot", "privateKey": key.as_pem(private=True).decode()}}
    tells = {"token_endpoint_auth_methods_supported": ["private_key_jwt"], "authorization_endpoint": None}
    with served(token="token-of-ann-1234567890", server=tells) as http:
        http.challenges["challenge"] = NO_VERIFIER
        chat = chat_with(toolset(http, auth_scheme=ALONE, auth_credential=own), call("who"), "ok")
        assert results(await chat.say("go")) == [{"result": "token-of-ann-1234567890"}]
        (exchanged,) = [each["body"] for each in http.requests if each["path"] == "/token"]
        signed = jwt.decode(exchanged["client_assertion"], key, algorithms=["ES256"])
        assert (signed.claims["sub"], signed.claims["aud"]) == ("robot", http.url.removesuffix("/mcp"))
        assert exchanged["grant_type"] == "client_credentials"
        assert "client_secret" not in exchanged
        await chat.runner.close()


@pytest.mark.parametrize("own", [{"privateKey": "key"}, {"clientSecret": "secret"}])
def test_a_client_that_asks_for_itself_is_known_by_its_id(own: dict[str, str]) -> None:
    """It cannot be registered there and then."""
    params = StreamableHTTPConnectionParams("http://127.0.0.1:1/mcp")
    with pytest.raises(ConfigurationError, match="give its `client_id`"):
        McpToolset(connection_params=params, auth_scheme=ALONE, auth_credential={"authType": "oauth2", "oauth2": own})


async def test_a_token_request_goes_to_the_address_that_was_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    """A name that leads to this machine, as the server does, and elsewhere the next time, is not connected to there."""
    answers, asked, original = ["127.0.0.1", "10.0.0.1"], list[str](), socket.getaddrinfo

    def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> list[Any]:
        if host not in ("login.example", b"login.example"):
            return original(host, port, *args, **options)
        asked.append(answers.pop(0) if len(answers) > 1 else answers[0])
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (asked[-1], int(port or 0)))]

    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    own = {"authType": "oauth2", "oauth2": {"clientId": "robot", "clientSecret": "s"}}
    with served(token=TOKEN, server={"token_endpoint": "https://login.example/token"}) as http:
        tools = toolset(http, auth_scheme=ALONE, auth_credential=own)
        with pytest.raises(ToolsetError, match=r"`login\.example` is not reached: it is a private address"):
            await chat_with(tools, "ok").say("go")
        await tools.close()
    assert asked == ["127.0.0.1", "10.0.0.1"]
