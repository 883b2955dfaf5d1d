"""Servers at an address: sessions, statuses, users, credentials."""

from __future__ import annotations

import logging
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from http_servers import Http, served
from kit import Chat
from mcp_kit import asks, result_of

from flowloom import (
    InMemoryCredentialService,
    InMemoryRunner,
    InMemorySessionService,
    McpToolset,
    Runner,
    pending_calls,
)
from flowloom.auth import AuthCredential
from flowloom.errors import ConfigurationError, ToolsetError
from flowloom.protocols.mcp import StdioConnectionParams, StreamableHTTPConnectionParams
from flowloom.testing import call

SECRET = "s3cret-0123456789-abc"


def toolset(http: Http, **options: Any) -> McpToolset:
    headers = options.pop("headers", None)
    return McpToolset(connection_params=StreamableHTTPConnectionParams(http.url, headers=headers), **options)


async def test_a_tool_is_called_over_http_and_the_session_is_ended() -> None:
    """The session is deleted when the toolset is closed."""
    with served() as http:
        assert await result_of(toolset(http), "who") == {"result": "nobody"}
        assert [each["verb"] for each in http.requests][-1] == "DELETE"
        assert http.requests[-1]["headers"]["mcp-session-id"] == "session-0"


async def test_a_session_that_the_server_forgot_is_begun_anew() -> None:
    """HTTP 404: the call is made again over a new one."""
    with served() as http:
        chat = Chat(asks(toolset(http), call("who"), "ok", call("who"), "ok"))
        await chat.say("go")
        http.sessions.clear()
        events = await chat.say("again")
        assert events[1].get_function_responses()[0].response == {"result": "nobody"}
        assert len(http.received("initialize")) == 2
        await chat.runner.close()


async def test_a_session_that_the_server_forgot_before_a_listing_is_begun_anew() -> None:
    """The run that lists does not notice."""
    with served(forgetful=True) as http:
        chat = Chat(asks(toolset(http), "ok", call("who"), "ok"))
        await chat.say("go")
        http.sessions.clear()
        events = await chat.say("again")
        assert events[1].get_function_responses()[0].response == {"result": "nobody"}
        assert len(http.received("initialize")) == 2
        await chat.runner.close()


async def test_a_busy_server_is_asked_again() -> None:
    """429 with `Retry-After`: the call was certainly not carried out."""
    with served(busy=1) as http:
        assert await result_of(toolset(http), "who") == {"result": "nobody"}
        assert len(http.received("tools/call")) == 2


@pytest.mark.parametrize("status", [401, 403, 500, 503])
async def test_a_server_that_refuses_is_an_error_with_the_status(status: int) -> None:
    """And with its address."""
    with served(status=status) as http:
        chat = Chat(asks(toolset(http), "ok"))
        with pytest.raises(ToolsetError, match=rf"{http.url} is not available: HTTP {status}"):
            await chat.say("go")
        await chat.runner.close()


async def test_two_users_with_different_headers_share_nothing() -> None:
    """Each has a session of its own; one user's runs share one."""
    with served() as http:

        async def headers(context: Any) -> dict[str, str]:
            return {"X-User": context.user_id}

        tools = toolset(http, header_provider=headers)
        runner = InMemoryRunner(asks(tools, call("who"), "ok", call("who"), "ok", call("who"), "ok"), app_name="app")
        for user in ("ann", "bob", "ann"):
            stream = runner.run_async(user_id=user, session_id="s1", new_message="go")
            events = [event async for event in stream]
            assert events[1].get_function_responses()[0].response == {"result": user}
        assert len(http.received("initialize")) == 2
        by_session = {
            each["headers"]["mcp-session-id"]: each["headers"]["x-user"] for each in http.received("tools/call")
        }
        assert by_session == {"session-0": "ann", "session-1": "bob"}
        await runner.close()


async def test_at_most_so_many_connections_are_open() -> None:
    """The one that was used least lately is closed."""
    with served() as http:
        tools = toolset(http, header_provider=lambda context: {"X-User": context.user_id}, max_connections=1)
        runner = InMemoryRunner(asks(tools, "ok", "ok"), app_name="app")
        for user in ("ann", "bob"):
            async for _ in runner.run_async(user_id=user, session_id="s1", new_message="go"):
                pass
        assert [each["verb"] for each in http.requests].count("DELETE") == 1
        await runner.close()


BEARER = {"authType": "http", "http": {"scheme": "bearer", "credentials": {"token": SECRET}}}
BASIC = {"authType": "http", "http": {"scheme": "basic", "credentials": {"username": "a", "password": "b"}}}
KEY = {"authType": "apiKey", "apiKey": SECRET}
TOKEN = {"authType": "oauth2", "oauth2": {"accessToken": SECRET}}


@pytest.mark.parametrize(
    ("scheme", "credential", "header", "value"),
    [
        (None, BEARER, "authorization", f"Bearer {SECRET}"),
        (None, BASIC, "authorization", "Basic YTpi"),
        ({"type": "apiKey", "in": "header", "name": "X-Key"}, KEY, "x-key", SECRET),
        (None, TOKEN, "authorization", f"Bearer {SECRET}"),
    ],
)
async def test_a_credential_goes_as_a_header(scheme: Any, credential: Any, header: str, value: str) -> None:
    """With every request."""
    with served() as http:
        own = AuthCredential.model_validate(credential)
        await result_of(toolset(http, auth_scheme=scheme, auth_credential=own), "who")
        assert {each["headers"].get(header) for each in http.requests} == {value}


def test_what_cannot_be_shown_is_an_error_at_once() -> None:
    """A process takes its environment, and no server an API key in the address."""
    with pytest.raises(ConfigurationError, match="by `env`"):
        McpToolset(connection_params=StdioConnectionParams({"command": "x"}), auth_credential=KEY)
    params = StreamableHTTPConnectionParams("https://host/mcp")
    scheme = {"type": "apiKey", "in": "query", "name": "key"}
    with pytest.raises(ConfigurationError, match="in a header"):
        McpToolset(connection_params=params, auth_scheme=scheme, auth_credential=KEY)


async def test_a_secret_is_in_no_log_event_or_error(caplog: pytest.LogCaptureFixture) -> None:
    """Not at DEBUG either: in a header, in a provider's, in a credential and in the address."""
    own = {"authType": "apiKey", "apiKey": SECRET}
    caplog.set_level(logging.DEBUG)
    for status in (None, 500):
        with served(**({} if status is None else {"status": status})) as http:
            url = f"{http.url}?key={SECRET}"
            tools = McpToolset(
                connection_params=StreamableHTTPConnectionParams(url, headers={"X-A": SECRET}),
                header_provider=lambda _: {"X-B": SECRET},
                auth_credential=own,
            )
            chat = Chat(asks(tools, call("who"), "ok"))
            try:
                told = str(await chat.say("go"))
            except ToolsetError as error:
                told = f"{error!r} {error}"
            await chat.runner.close()
            assert SECRET not in told + repr(tools) + repr(tools.connection_params) + str(tools.status())
    assert SECRET not in caplog.text


async def test_a_server_that_wants_oauth_is_signed_in_to(caplog: pytest.LogCaptureFixture) -> None:
    """Its 401 leads to the authorization server: the user is asked once, with PKCE and `resource`, and the tools are
    there; the token is kept for the next session."""
    caplog.set_level(logging.DEBUG)
    with served(token="token-of-ann-1234567890") as http:
        agent = asks(toolset(http), call("mcp_sign_in"), call("who"), "ok", call("who"), "ok")
        services: Any = {"session_service": InMemorySessionService(), "credential_service": InMemoryCredentialService()}
        runner: Any = Runner(agent=agent, app_name="app", auto_create_session=True, **services)
        chat = Chat(runner=runner)
        await chat.say("go")
        (pending,) = pending_calls(await chat.stored())
        asked = {name: values[0] for name, values in parse_qs(urlsplit(pending.authorization_url or "").query).items()}
        assert (asked["client_id"], asked["resource"], asked["scope"]) == ("client-1", http.url, "read")
        assert asked["code_challenge_method"] == "S256"
        http.challenges["challenge"] = asked["code_challenge"]
        back = f"{asked['redirect_uri']}?code=abc&state={asked['state']}"
        events = await chat.answer(pending.consent(back))
        results = [each.response for event in events for each in event.get_function_responses()]
        assert results[-1] == {"result": "token-of-ann-1234567890"}  # what this server says is its own affair
        (exchanged,) = [each["body"] for each in http.requests if each["path"] == "/token"]
        assert exchanged["resource"] == http.url
        again = Chat(runner=runner, session_id="s2")
        events = await again.say("go")
        assert events[1].get_function_responses()[0].response == {"result": "token-of-ann-1234567890"}
        await runner.close()
    assert "token-of-ann-1234567890" not in caplog.text.replace("'result'", "")


async def test_a_server_that_says_no_way_is_an_error() -> None:
    """Without anybody to ask it names status and server."""
    with served(token="x", mute=True) as http:
        chat = Chat(asks(toolset(http), "ok"))
        with pytest.raises(ToolsetError, match="HTTP 401"):
            await chat.say("go")
        await chat.runner.close()
