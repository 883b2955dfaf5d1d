"""Secrets in every place where a protocol or a provider takes one: whatever is kept, told or shown holds none.

Each place gets a secret of its own, and the other side proves that it came. Then they are looked for, as they are and
in base64, in events that were yielded and stored, in log records at DEBUG, in spans, in errors with their causes, in
the snapshot of each request, in a cassette, and in what objects say of themselves. Services of tools also answer
with errors that quote what they were sent.
"""

from __future__ import annotations

import base64
import json
import logging
import sys
import traceback
from collections.abc import Callable, Coroutine
from pathlib import Path
from typing import Any

import httpx
import httpx2
import pytest
from auth.oauth_server import CLIENT, CLIENT_SECRET, OAuthServer
from joserfc.jwk import ECKey
from kit import Chat
from mcp import Client
from mcp.client.streamable_http import streamable_http_client
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from protocols.a2a.a2a_peer import Talk, peer
from protocols.a2a.a2a_peer import served as app_served
from protocols.mcp.http_servers import served
from protocols.mcp.mcp_kit import Raw
from protocols.openapi.service import Received, Reply, Service, get, serving

from flowloom import (
    AnthropicModel,
    AuthCredential,
    Gemini,
    InMemoryRunner,
    LlmAgent,
    McpToolset,
    OpenAIModel,
    RemoteA2aAgent,
)
from flowloom.asgi import Principal
from flowloom.auth import AuthScheme
from flowloom.inspection import RequestView, write_sections
from flowloom.protocols.a2a import to_a2a
from flowloom.protocols.ag_ui import to_ag_ui
from flowloom.protocols.mcp import StreamableHTTPConnectionParams, to_mcp_server
from flowloom.server.serving import bound_socket
from flowloom.testing import RecordingModel, ScriptedModel, call, capture_run

OTHER_SIDE = ("a2a.server", "uvicorn", "sse_starlette", "asyncio", "mcp.server")
"""Loggers and spans of the services of these tests, which run in this process."""


class Sweep:
    """All that was kept, told or shown, and the secrets that must not be in it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.cassette = folder / "cassette.jsonl"
        self.texts: dict[str, list[str]] = {}
        self.secrets: dict[str, str] = {}

    def secret(self, place: str) -> str:
        """A secret for a place: 20 characters or more."""
        return self.secrets.setdefault(place, f"s3cret/{place.replace(' ', '-')}/+0123456789")

    def keep(self, where: str, *told: Any) -> None:
        self.texts.setdefault(where, []).extend(map(str, told))

    async def run(self, root: Any, *shown: Any) -> None:
        """One turn of an agent, of which all is kept, whatever comes of it."""
        chat = Chat(root)
        with capture_run() as captured:
            try:
                for event in await chat.say("go"):
                    self.keep("yielded events", event.model_dump_json(), repr(event))
            except Exception as error:
                self.keep("errors", repr(error), *traceback.format_exception(error))
        session = await chat.runner.session_service.get_session(app_name="app", user_id="ann", session_id="s1")
        if session is not None:
            self.keep("stored events", session.model_dump_json())
        for request in captured.requests:
            self.keep("snapshots", write_sections(RequestView(request).sections), repr(request))
        self.keep("reprs", *map(repr, shown), repr(root))
        await chat.runner.close()

    def asks(self, *answers: Any, tools: list[Any]) -> LlmAgent:
        model = RecordingModel(ScriptedModel(answers), self.cassette, "record")
        return LlmAgent(name="desk", model=model, tools=tools)

    def found(self) -> list[tuple[str, str]]:
        """Where a secret is found, and which."""
        cassette = self.cassette.read_text() if self.cassette.exists() else ""
        return [
            (where, place)
            for where, told in {**self.texts, "cassette": [cassette]}.items()
            for place, secret in self.secrets.items()
            for form in (secret, base64.b64encode(secret.encode()).decode().rstrip("="), json.dumps(secret)[1:-1])
            if any(form in text for text in told)
        ]


# -- the places --------------------------------------------------------------------------------------------------------


async def mcp_over_http(sweep: Sweep) -> None:
    """Headers of the program and of the provider, a key in the address, and each kind of credential."""
    own, provided, key = (sweep.secret(f"mcp {place}") for place in ("header", "provider", "address"))
    kinds: dict[str, dict[str, Any]] = {
        "bearer": {
            "authType": "http",
            "http": {"scheme": "bearer", "credentials": {"token": sweep.secret("mcp bearer")}},
        },
        "key": {"authType": "apiKey", "apiKey": sweep.secret("mcp key")},
        "token": {"authType": "oauth2", "oauth2": {"accessToken": sweep.secret("mcp token")}},
        "basic": {
            "authType": "http",
            "http": {"scheme": "basic", "credentials": {"username": "ann", "password": sweep.secret("mcp password")}},
        },
    }
    for credential in kinds.values():
        for told in ({}, {"status": 500}, {"status": 401}):
            with served(says="ok", **told) as http:
                params = StreamableHTTPConnectionParams(f"{http.url}?key={key}", headers={"X-Own": own})
                tools = McpToolset(
                    connection_params=params,
                    auth_credential=AuthCredential.model_validate(credential),
                    header_provider=lambda _: {"X-Provided": provided},
                )
                await sweep.run(sweep.asks(call("who"), "ok", tools=[tools]), tools, params, tools.status())
                received = http.requests[0]
                assert (received["headers"]["x-own"], received["headers"]["x-provided"]) == (own, provided)
                assert key in received["path"]
                assert {"authorization", "x-api-key"} & {*received["headers"]}


async def mcp_over_stdio(sweep: Sweep) -> None:
    """A variable of the server's environment, which the server quotes on stderr and in errors."""
    key = sweep.secret("mcp variable")
    for told in ({}, {"exit_at_start": 3, "stderr": f"bad key {key}"}, {"listing_error": f"bad key {key}"}):
        raw = Raw(sweep.folder, **told)
        tools = raw.toolset(env={"API_KEY": key})
        await sweep.run(sweep.asks(call("echo", text="a"), call("crash"), "ok", tools=[tools]), tools, tools.status())
        assert raw.noted()[0]["env"]["API_KEY"] == key
        await tools.close()


async def mcp_oauth(sweep: Sweep) -> None:
    """A client's secret, its key and what it signs, and the token that it got."""
    token, secret = sweep.secret("mcp granted token"), sweep.secret("mcp client secret")
    own = {"authType": "oauth2", "oauth2": {"clientId": "robot", "clientSecret": secret}}
    alone = {"type": "oauth2", "flows": {"clientCredentials": {}}}
    key = ECKey.generate_key("P-256").as_pem(private=True).decode()
    sweep.secrets["mcp private key"] = key.splitlines()[1]
    signing = {"authType": "oauth2", "oauth2": {"clientId": "robot", "privateKey": key}}
    proofs: list[tuple[str, dict[str, Any]]] = [
        ("client_secret_post", own),
        ("client_secret_basic", own),
        ("private_key_jwt", signing),
    ]
    for method, credential in proofs:
        methods = [method]
        with served(token=token, tokens=[token], server={"token_endpoint_auth_methods_supported": methods}) as http:
            http.challenges["challenge"] = "47DEQpj8HBSa-_TImW-5JCeuQeRkm5NMpJWZG3hSuFU"  # of no verifier
            params = StreamableHTTPConnectionParams(http.url)
            tools = McpToolset(connection_params=params, auth_scheme=alone, auth_credential=credential)
            await sweep.run(sweep.asks("ok", tools=[tools]), tools, tools.status())
            assert http.token_of(http.requests[-1]["headers"]) == token
            (asked,) = [each["body"] for each in http.requests if each["path"] == "/token"]
            sweep.secrets[f"mcp assertion of {method}"] = asked.get("client_assertion", secret)


async def mcp_cross_app(sweep: Sweep) -> None:
    """A user's id token, the client's secret at the identity provider, its word, and the token that it got."""
    token, secret = sweep.secret("mcp vouched token"), sweep.secret("mcp client secret")
    own = {"authType": "oauth2", "oauth2": {"clientId": "robot", "clientSecret": secret}}
    user = {"clientId": CLIENT, "clientSecret": CLIENT_SECRET, "idToken": sweep.secret("id token")}
    sweep.secrets["secret at the provider"] = CLIENT_SECRET
    grants = ("urn:ietf:params:oauth:grant-type:jwt-bearer",)
    for refuses in (None, "invalid_grant"):  # whose description quotes the request
        with OAuthServer() as provider, served(token=token, tokens=[token], grants=grants) as http:
            provider.refuses = refuses
            signing_in = {
                "authScheme": {"type": "openIdConnect", "token_endpoint": f"{provider.url}/token"},
                "rawAuthCredential": {"authType": "openIdConnect", "oauth2": user},
            }
            tools = McpToolset(
                connection_params=StreamableHTTPConnectionParams(http.url),
                auth_credential=own,
                identity_provider=signing_in,
            )
            await sweep.run(sweep.asks("ok", tools=[tools]), tools, tools.status())
            assert provider.grants() == ["urn:ietf:params:oauth:grant-type:token-exchange"]
            if refuses is None:
                sweep.secrets["word of the provider"] = provider.issued[-1]
                assert http.token_of(http.requests[-1]["headers"]) == token


async def openapi(sweep: Sweep) -> None:
    """Every scheme of a document, a header provider, and a client's secret; the service quotes what it is sent."""
    schemes: dict[str, Any] = {
        "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
        "query": {"type": "apiKey", "in": "query", "name": "key"},
        "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
        "basic": {"type": "http", "scheme": "basic"},
        "bearer": {"type": "http", "scheme": "bearer"},
    }
    with serving() as service:
        for name in schemes:
            secret, own = sweep.secret(f"openapi {name}"), sweep.secret("openapi provider")
            for status in (200, 401, 500):

                def quoting(received: Received, status: int = status) -> Reply:
                    return Reply({"quoted": str(received)} if status != 200 else {"ok": True}, status)

                service.answer = quoting
                tools = service.toolset(
                    {"/x": get(security=[{name: []}])},
                    document={"components": {"securitySchemes": schemes}},
                    credentials={name: f"ann:{secret}" if name == "basic" else secret},
                    header_provider=lambda _, own=own: {"X-Own": own},
                )
                await sweep.run(sweep.asks(call("op"), "ok", tools=[tools]), tools, tools.status())
                assert service.last.header("X-Own") == own
        await _openapi_client(sweep, service)


async def _openapi_client(sweep: Sweep, service: Service) -> None:
    token, secret = sweep.secret("openapi granted token"), sweep.secret("openapi client secret")

    def answer(received: Received) -> Reply:
        if received.path == "/token":
            return Reply({"access_token": token, "token_type": "Bearer", "expires_in": 3600})
        return Reply({"ok": True})

    service.answer = answer
    flows = {"clientCredentials": {"tokenUrl": f"{service.url}/token", "scopes": {}}}
    own = {"authType": "oauth2", "oauth2": {"clientId": "robot", "clientSecret": secret}}
    tools = service.toolset(
        {"/x": get(security=[{"o": []}])},
        document={"components": {"securitySchemes": {"o": {"type": "oauth2", "flows": flows}}}},
        credentials={"o": AuthCredential.model_validate(own)},
    )
    await sweep.run(sweep.asks(call("op"), "ok", tools=[tools]), tools, tools.status())
    assert service.last.header("Authorization") == f"Bearer {token}"


async def a2a_client(sweep: Sweep) -> None:
    """A header of the provider and a key of the program, sent to a remote agent that quotes them, and fails then."""
    provided, key = sweep.secret("a2a provider"), sweep.secret("a2a key")

    async def script(talk: Talk) -> None:
        if other.heard[2:]:
            raise RuntimeError(f"broken: {other.headers}")
        if other.heard[1:]:
            await talk.begin()
            await talk.status("failed", f"bad key: {other.headers}")
        else:
            await talk.answer(f"ok: {other.headers}")

    scheme = AuthScheme(type="apiKey", **{"in": "header"}, name="X-Api-Key")
    credential = AuthCredential.model_validate({"authType": "apiKey", "apiKey": key})
    async with peer(script) as other:
        for _ in range(3):
            agent = RemoteA2aAgent(
                "weather",
                other.url,
                auth_scheme=scheme,
                auth_credential=credential,
                header_provider=lambda _: {"X-Provided": provided},
            )
            await sweep.run(agent)
    assert {(each["x-provided"], each["x-api-key"]) for each in other.headers} == {(provided, key)}


A2A_MESSAGE = {"role": "ROLE_USER", "messageId": "1", "parts": [{"text": "Hi"}]}
A2A_REQUEST = {"jsonrpc": "2.0", "id": 1, "method": "SendMessage", "params": {"message": A2A_MESSAGE}}
AG_UI_REQUEST: dict[str, Any] = {
    "threadId": "t",
    "runId": "r",
    "messages": [{"id": "1", "role": "user", "content": "Hi"}],
    "tools": [],
    "context": [],
    "state": None,
    "forwardedProps": {},
}


async def serving_tokens(sweep: Sweep) -> None:
    """The token by which a caller of ours shows who it is, over A2A and AG-UI; a wrong one too."""
    for place in ("a2a caller", "ag-ui caller"):
        token = sweep.secret(place)

        async def auth(scope: Any, token: str = token) -> Principal | None:
            given = dict(scope["headers"]).get(b"authorization", b"").decode()
            return Principal("ann") if given == f"Bearer {token}" else None

        agent = sweep.asks("Hi.", tools=[])
        runner = InMemoryRunner(agent, app_name="app")
        bound = bound_socket("127.0.0.1", 0)
        port = bound.getsockname()[1]
        a2a = "a2a" in place
        app: Any = to_a2a(agent, port=port, runner=runner, auth=auth) if a2a else to_ag_ui(runner, auth=auth)
        async with app_served(app, bound), httpx.AsyncClient() as http:
            for given in (f"{token}-wrong", token):
                headers = {"A2A-Version": "1.0", "Authorization": f"Bearer {given}"}
                body = A2A_REQUEST if a2a else AG_UI_REQUEST
                answer = await http.post(f"http://127.0.0.1:{port}/", json=body, headers=headers)
                sweep.keep("answers", answer.text)
            assert answer.status_code == 200, answer.text
        for user in ("ann", "user"):
            listed = await runner.session_service.list_sessions(app_name="app", user_id=user)
            sweep.keep("stored events", *(each.model_dump_json() for each in listed.sessions))
        await runner.close()


async def mcp_serving_tokens(sweep: Sweep) -> None:
    """The token by which a caller shows our MCP server who it is; a wrong one, and a call that fails."""
    token = sweep.secret("mcp caller")

    async def auth(scope: Any) -> Principal | None:
        given = dict(scope["headers"]).get(b"authorization", b"").decode()
        return Principal("ann") if given == f"Bearer {token}" else None

    def fail() -> None:
        """Fail."""
        raise ValueError("broken")

    agent = sweep.asks("Hi.", tools=[])
    runner = InMemoryRunner(agent, app_name="app")
    bound = bound_socket("127.0.0.1", 0)
    url = f"http://127.0.0.1:{bound.getsockname()[1]}/mcp"
    server = to_mcp_server(agent, tools=[fail], runner=runner, auth=auth)
    async with app_served(server.streamable_http_app(), bound):
        async with httpx.AsyncClient() as http:
            refused = await http.post(url, json={}, headers={"Authorization": f"Bearer {token}-wrong"})
            assert refused.status_code == 401
            sweep.keep("answers", refused.text)
        async with (
            httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as http2,
            Client(streamable_http_client(url, http_client=http2), mode="legacy") as client,
        ):
            sweep.keep("answers", await client.list_tools())
            for name, arguments in (("desk", {"request": "go"}), ("fail", {})):
                sweep.keep("answers", await client.call_tool(name, arguments))
        assert "Hi." in str(sweep.texts["answers"])
        listed = await runner.session_service.list_sessions(app_name="app", user_id="ann")
        for each in listed.sessions:
            found = await runner.session_service.get_session(app_name="app", user_id="ann", session_id=each.id)
            sweep.keep("stored events", found and found.model_dump_json())
        assert "Hi." in str(sweep.texts["stored events"])
    sweep.keep("reprs", repr(server), repr(runner))
    await runner.close()


async def provider_keys(sweep: Sweep) -> None:
    """The keys of three providers, which refuse them and quote them, at once or in a stream; what they say is in a
    cassette, too."""
    with serving() as service:
        for name, kind in (("openai", OpenAIModel), ("anthropic", AnthropicModel), ("gemini", Gemini)):
            key = sweep.secret(f"{name} key")

            for status in (401, 200):

                def answer(received: Received, status: int = status) -> Reply:
                    return Reply({"error": {"message": f"bad: {received}", "type": "auth", "code": 401}}, status)

                service.answer = answer
                own = {} if kind is Gemini else {"headers": {"X-Own": sweep.secret(f"{name} header")}}
                model: Any = kind(model=f"{name}-model", api_key=key, base_url=service.url, **own)
                recorded = RecordingModel(model, sweep.cassette, "record")
                await sweep.run(LlmAgent(name="desk", model=recorded), model, recorded)
                assert key in str(service.last.headers)
                await model.aclose()


PLACES: tuple[Callable[[Sweep], Coroutine[Any, Any, None]], ...] = (
    mcp_over_http,
    mcp_over_stdio,
    mcp_oauth,
    mcp_cross_app,
    openapi,
    a2a_client,
    serving_tokens,
    mcp_serving_tokens,
    provider_keys,
)


@pytest.mark.parametrize("place", PLACES, ids=lambda each: each.__name__)
async def test_no_secret_is_kept_told_or_shown(
    place: Callable[[Sweep], Coroutine[Any, Any, None]],
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Not as it is, and not in base64."""
    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    if "mcp" in sys.modules or place.__name__.startswith("mcp"):
        monkeypatch.setattr("mcp.shared._otel._tracer", provider.get_tracer("mcp-python-sdk"))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    caplog.set_level(logging.DEBUG)
    caplog.set_level(logging.DEBUG, logger="flowloom")  # the command line sets its level
    (tmp_path / "raw").mkdir()
    sweep = Sweep(tmp_path / "raw")
    await place(sweep)
    ours = [record for record in caplog.records if not record.name.startswith(OTHER_SIDE)]
    sweep.keep("logs", *(f"{record.getMessage()} {record.__dict__}" for record in ours))
    spans = [span for span in exporter.get_finished_spans() if not span.name.startswith(OTHER_SIDE)]
    sweep.keep("spans", *(span.to_json() for span in spans))
    assert sweep.found() == []
    assert len(sweep.secrets) >= 1
    assert sweep.texts["logs"]
