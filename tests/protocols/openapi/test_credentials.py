"""Credentials: six places, alternatives and sets of them, users who are asked, and secrets that are nowhere."""

from __future__ import annotations

import base64
import json
import logging
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from auth.desk import Desk, asked, asker, consent, given
from auth.oauth_server import BACK, CLIENT, CLIENT_SECRET, OAuthServer
from kit import result
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once
from protocols.openapi.service import BOTH, Received, Reply, Service, get
from protocols.openapi.service import call as call_tool

from flowloom import AuthCredential, AuthCredentialTypes, OAuth2Auth, OpenAPIToolset
from flowloom.auth import AuthScheme, HttpAuth, HttpCredentials
from flowloom.errors import CredentialError, ToolsetError
from flowloom.protocols import targets
from flowloom.testing import call

SCHEMES: dict[str, Any] = {
    "header": {"type": "apiKey", "in": "header", "name": "X-Key"},
    "query": {"type": "apiKey", "in": "query", "name": "api key"},
    "cookie": {"type": "apiKey", "in": "cookie", "name": "sid"},
    "basic": {"type": "http", "scheme": "basic"},
    "bearer": {"type": "http", "scheme": "bearer"},
    "oauth": {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://a.example/token", "scopes": {}}}},
    "tls": {"type": "mutualTLS"},
}
BASIC = f"Basic {base64.b64encode(b'ann:pw:1').decode()}"


def toolset_of(service: Service, security: Any, credentials: Any = None, **options: Any) -> OpenAPIToolset:
    """A toolset of one operation with this security; `scheme` adds to the schemes of the document."""
    schemes = SCHEMES | options.pop("schemes", {})
    document = {"components": {"securitySchemes": schemes}}
    return service.toolset({"/x": get(security=security)}, document=document, credentials=credentials, **options)


@pytest.fixture
def oauth_server() -> Iterator[OAuthServer]:
    with OAuthServer() as running:
        yield running


@BOTH
@pytest.mark.parametrize(
    ("name", "credential", "wire"),
    [
        ("header", "k=1", {"X-Key": "k=1"}),
        ("query", "k=1&", {"target": "/x?api%20key=k%3D1%26"}),
        ("cookie", "k;1", {"Cookie": "sid=k%3B1"}),
        ("basic", "ann:pw:1", {"Authorization": BASIC}),
        ("bearer", "tok", {"Authorization": "Bearer tok"}),
        ("oauth", "tok", {"Authorization": "Bearer tok"}),
        ("tls", None, {}),
    ],
)
async def test_a_credential_goes_where_its_scheme_says(service: Service, name: str, credential: Any, wire: Any) -> None:
    """Key in header, query and cookie, user and password, token, and what the connection itself meets."""
    toolset = toolset_of(service, [{name: []}], {name: credential} if credential else None)
    assert await call_tool(toolset) == {"ok": True}
    assert service.last.target == wire.get("target", "/x")
    found = {key: service.last.header(key) for key in ("X-Key", "Cookie", "Authorization")}
    assert {key: value for key, value in found.items() if value} == {k: v for k, v in wire.items() if k != "target"}
    await toolset.close()


async def test_a_credential_that_is_none_is_an_error_without_it(service: Service) -> None:
    """It names the scheme; fields of one are one."""
    toolset = toolset_of(service, [{"header": []}], {"header": {"auth_type": "apiKey", "api_key": "k=1"}})
    assert await call_tool(toolset) == {"ok": True}
    assert service.last.header("X-Key") == "k=1"
    await toolset.close()
    for wrong in (["very-secret"], {"api_key": "very-secret", "auth_type": "none"}):
        toolset = toolset_of(service, [{"header": []}], {"header": wrong})
        with pytest.raises(ToolsetError, match="no `AuthCredential`") as refused:
            await toolset.get_tools()
        assert "very-secret" not in str(refused.value)
        await toolset.close()


async def test_credentials_may_be_objects(service: Service) -> None:
    """As google-adk's, with further headers."""
    http = HttpAuth(scheme="basic", credentials=HttpCredentials(username="ann", password="pw:1"))
    http.additional_headers = {"X-More": "m"}
    credential = AuthCredential(auth_type=AuthCredentialTypes.HTTP, http=http)
    toolset = toolset_of(service, [{"basic": []}], {"basic": credential})
    await call_tool(toolset)
    assert (service.last.header("authorization"), service.last.header("x-more")) == (BASIC, "m")
    await toolset.close()


@BOTH
@pytest.mark.parametrize(
    ("security", "credentials", "sent"),
    [
        ([{"header": []}, {"bearer": []}], {"bearer": "t", "header": "k"}, {"X-Key": "k"}),
        ([{"header": []}, {"bearer": []}], {"bearer": "t"}, {"Authorization": "Bearer t"}),
        ([{"header": [], "bearer": []}], {"bearer": "t", "header": "k"}, {"X-Key": "k", "Authorization": "Bearer t"}),
        ([{"header": [], "bearer": []}, {"cookie": []}], {"header": "k", "cookie": "c"}, {"Cookie": "sid=c"}),
        ([{"header": []}, {}], {"bearer": "t"}, {}),
        ([], {"header": "k"}, {}),
        ([{"unknown": []}, {"header": []}], {"header": "k"}, {"X-Key": "k"}),
    ],
)
async def test_the_first_alternative_that_all_credentials_are_there_for(
    service: Service, security: Any, credentials: Any, sent: Any
) -> None:
    """An OR of ANDs; an empty one needs none, and an operation may need none at all."""
    toolset = toolset_of(service, security, credentials)
    await call_tool(toolset)
    found = {key: service.last.header(key) for key in ("X-Key", "Cookie", "Authorization")}
    assert {key: value for key, value in found.items() if value} == sent
    await toolset.close()


@BOTH
async def test_the_documents_security_counts_for_operations_without_their_own(service: Service) -> None:
    """And an operation's own in its place."""
    document = {"components": {"securitySchemes": SCHEMES}, "security": [{"header": []}]}
    paths = {"/x": get(), "/y": get(operationId="open", security=[])}
    toolset = service.toolset(paths, document=document, credentials={"header": "k"})
    for name, key in (("op", "k"), ("open", None)):
        await call_tool(toolset, name)
        assert service.last.header("x-key") == key
    await toolset.close()


async def test_a_scheme_may_be_given_for_all(service: Service) -> None:
    """`auth_scheme` counts in place of the document's; a credential alone is for whatever scheme there is."""
    scheme = AuthScheme(type_="apiKey", in_="query", name="q")
    credential = AuthCredential(auth_type=AuthCredentialTypes.API_KEY, api_key="k")
    toolset = toolset_of(service, [{"header": []}], auth_scheme=scheme, auth_credential=credential)
    await call_tool(toolset)
    assert (service.last.target, service.last.header("x-key")) == ("/x?q=k", None)
    await toolset.close()
    toolset = toolset_of(service, [{"bearer": []}], auth_credential=credential)
    await call_tool(toolset)
    assert service.last.header("authorization") == "Bearer k"
    await toolset.close()


async def test_a_credential_without_a_scheme_is_an_error_that_names_those_there_are(service: Service) -> None:
    """Mistyped, say."""
    with pytest.raises(ToolsetError, match=r"`heder`, but the document.s security schemes are: `header`"):
        await toolset_of(service, [], {"heder": "k"}).get_tools()


async def test_without_a_run_a_missing_credential_is_an_error(service: Service) -> None:
    """It says which are needed."""
    with pytest.raises(CredentialError, match="`header` or `bearer` and `cookie`"):
        await call_tool(toolset_of(service, [{"header": []}, {"bearer": [], "cookie": []}]))
    assert service.received == []


async def test_a_user_is_asked_for_a_key_that_the_program_does_not_have(service: Service) -> None:
    """The call waits, is made once the key is there, and the next run asks no more."""
    toolset = toolset_of(service, [{"header": []}])
    desk = Desk()
    chat = desk.chat(asker([toolset], call("op"), "done", call("op"), "again"))
    (request,) = asked(await chat.say("go"))
    assert service.received == []
    await chat.answer(given(request, authType="apiKey", apiKey="k-of-ann-1234567"))
    assert service.last.header("x-key") == "k-of-ann-1234567"
    events = await chat.say("more")
    assert asked(events) == []
    assert len(service.received) == 2
    await chat.runner.close()


class TestOAuth:
    """Through `flowloom.auth`: asked for, waited for, refreshed."""

    def toolset(self, service: Service, server: OAuthServer, flow: str = "authorizationCode") -> OpenAPIToolset:
        urls = {
            "authorizationUrl": f"{server.url}/authorize",
            "tokenUrl": f"{server.url}/token",
            "scopes": {"read": ""},
        }
        client = OAuth2Auth(client_id=CLIENT, client_secret=CLIENT_SECRET, redirect_uri=BACK)
        credential = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=client)
        schemes = {"o": {"type": "oauth2", "flows": {flow: urls}}}
        return toolset_of(service, [{"o": ["read"]}], {"o": credential}, schemes=schemes)

    async def test_a_user_consents_and_a_refused_token_is_refreshed_once(
        self, service: Service, oauth_server: OAuthServer, caplog: pytest.LogCaptureFixture
    ) -> None:
        """On 401 with `invalid_token` the call is made once more, with the new token, which is kept. Code, tokens and
        the client's secret are in no event and no log record."""
        caplog.set_level(logging.DEBUG)
        good: list[str] = []

        def answer(request: Received) -> Reply:
            token = (request.header("authorization") or "").removeprefix("Bearer ")
            if token in good:
                return Reply({"day": "sunny"})
            return Reply({"no": token}, 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})

        service.answer = answer
        toolset = self.toolset(service, oauth_server)
        chat = Desk().chat(asker([toolset], call("op"), "done", call("op"), "again", call("op"), "asked"))
        (request,) = asked(await chat.say("go"))
        answered = consent(oauth_server, request)
        oauth_server.lifetime = 3600
        service.answer = lambda _: Reply({"day": "rainy"})
        await chat.answer(answered)
        assert oauth_server.grants() == ["authorization_code"]
        first = service.last.header("authorization")
        service.answer = lambda r: Reply({"day": "sunny"}) if r.header("authorization") != first else answer(r)
        events = await chat.say("more")
        assert events[1].get_function_responses()[0].response == {"day": "sunny"}
        assert oauth_server.grants() == ["authorization_code", "refresh_token"]
        assert len(service.received) == 3
        service.answer = answer  # takes none any more
        oauth_server.refuses = "invalid_grant"
        assert asked(await chat.say("once more"))  # asked again
        kept = caplog.text + json.dumps([event.model_dump(mode="json") for event in await chat.stored()])
        assert len(oauth_server.secrets()) > 4
        assert not [secret for secret in oauth_server.secrets() if secret in kept]
        await chat.runner.close()

    async def test_a_refused_token_is_refreshed_beside_a_key_of_the_user(
        self, service: Service, oauth_server: OAuthServer
    ) -> None:
        """Of credentials that have to be there together, one may be the program's and one the user's."""
        urls = {"tokenUrl": f"{oauth_server.url}/token", "scopes": {}}
        client = OAuth2Auth(client_id=CLIENT, client_secret=CLIENT_SECRET)
        credential = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=client)
        schemes = {
            "o": {"type": "oauth2", "flows": {"clientCredentials": urls}},
            "k": {"type": "apiKey", "in": "header", "name": "X-Key"},
        }
        toolset = toolset_of(service, [{"o": [], "k": []}], {"o": credential}, schemes=schemes)
        refused = Reply({}, 401, {"WWW-Authenticate": 'Bearer error="invalid_token"'})
        chat = Desk().chat(asker([toolset], call("op"), "done", call("op"), "again"))
        (request,) = asked(await chat.say("go"))
        await chat.answer(given(request, authType="apiKey", apiKey="k-of-ann-1234567"))
        first = service.last.header("authorization")
        service.answer = lambda r: refused if r.header("authorization") == first else Reply({"day": "sunny"})
        events = await chat.say("more")
        assert events[1].get_function_responses()[0].response == {"day": "sunny"}
        assert service.last.header("x-key") == "k-of-ann-1234567"
        await chat.runner.close()

    async def test_a_client_gets_a_token_of_its_own(self, service: Service, oauth_server: OAuthServer) -> None:
        """Nobody is asked; another 401 is an answer like any."""
        service.answer = lambda _: Reply({}, 401, {"WWW-Authenticate": 'Bearer error="insufficient_scope"'})
        chat = Desk().chat(asker([self.toolset(service, oauth_server, "clientCredentials")], call("op"), "done"))
        events = await chat.say("go")
        assert asked(events) == []
        assert events[1].get_function_responses()[0].response["status"] == 401
        assert oauth_server.grants() == ["client_credentials"]
        assert len(service.received) == 1
        await chat.runner.close()

    async def test_a_documents_token_address_is_no_way_to_private_hosts(
        self, service: Service, oauth_server: OAuthServer
    ) -> None:
        """The client's secret is sent nowhere that is not public, by flows or by discovery."""
        client = OAuth2Auth(client_id=CLIENT, client_secret=CLIENT_SECRET, redirect_uri=BACK)
        credential = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=client)
        flows = {"clientCredentials": {"tokenUrl": f"{oauth_server.url}/token", "scopes": {}}}
        openid = f"{oauth_server.url}/.well-known/openid-configuration"
        for scheme in ({"type": "oauth2", "flows": flows}, {"type": "openIdConnect", "openIdConnectUrl": openid}):
            toolset = toolset_of(
                service, [{"o": []}], {"o": credential}, schemes={"o": scheme}, allow_private_network_access=False
            )
            chat = Desk().chat(asker([toolset], call("op"), "done"))
            events = await chat.say("go")
            assert "not reached" in events[1].get_function_responses()[0].response["error"]
            await chat.runner.close()
        assert oauth_server.requests == []

    @pytest.mark.parametrize("kind", ["token", "description"])
    async def test_a_token_request_goes_to_the_address_that_was_checked(
        self, service: Service, monkeypatch: pytest.MonkeyPatch, kind: str
    ) -> None:
        """A resolver that names a public host once, and this machine the next time, leads no request here."""
        monkeypatch.setattr(targets, "refusal_of", lambda address: None if str(address) == "127.0.0.2" else "local")
        with resolving(monkeypatch, "login.example", ["127.0.0.2", "127.0.0.1"]) as (port, reached):
            flows = {"clientCredentials": {"tokenUrl": f"https://login.example:{port}/token", "scopes": {}}}
            scheme: Any = {"type": "oauth2", "flows": flows}
            if kind == "description":
                scheme = {"type": "openIdConnect", "openIdConnectUrl": f"https://login.example:{port}/openid"}
            toolset = self.refusing(service, scheme)
            chat = Desk().chat(asker([toolset], call("op"), "done"))
            events = await chat.say("go")
            assert "error" in (events[1].get_function_responses()[0].response or {})
            await chat.runner.close()
        assert reached == ["127.0.0.2"]

    async def test_a_user_is_not_sent_where_tokens_could_not_be_had(
        self, service: Service, oauth_server: OAuthServer
    ) -> None:
        """What a document names as the token's address is checked before the user is asked for consent."""
        urls = {"authorizationUrl": "https://login.example/", "tokenUrl": f"{oauth_server.url}/token", "scopes": {}}
        toolset = self.refusing(service, {"type": "oauth2", "flows": {"authorizationCode": urls}})
        chat = Desk().chat(asker([toolset], call("op"), "done"))
        events = await chat.say("go")
        assert asked(events) == []
        assert "not reached" in events[1].get_function_responses()[0].response["error"]
        await chat.runner.close()

    async def test_a_redirect_of_a_token_request_is_not_followed(
        self, service: Service, oauth_server: OAuthServer
    ) -> None:
        """The request holds the client's secret: it goes to the address in the document, and no further."""
        service.replies = [Reply(status=307, headers={"Location": f"{oauth_server.url}/token"})]
        flows = {"clientCredentials": {"tokenUrl": f"{service.url}/token", "scopes": {}}}
        scheme = {"type": "oauth2", "flows": flows}
        toolset = self.refusing(service, scheme, allow_private_network_access=True)
        chat = Desk().chat(asker([toolset], call("op"), "done"))
        events = await chat.say("go")
        assert "no usable answer" in events[1].get_function_responses()[0].response["error"]
        assert [each.path for each in service.received] == ["/token"]
        assert oauth_server.requests == []
        await chat.runner.close()

    def refusing(self, service: Service, scheme: Any, **options: Any) -> OpenAPIToolset:
        """A toolset with a client of its own for this scheme, which reaches public hosts only."""
        client = OAuth2Auth(client_id=CLIENT, client_secret=CLIENT_SECRET, redirect_uri=BACK)
        credential = AuthCredential(auth_type=AuthCredentialTypes.OAUTH2, oauth2=client)
        options = {"allow_private_network_access": False} | options
        return toolset_of(service, [{"o": []}], {"o": credential}, schemes={"o": scheme}, **options)


@contextmanager
def resolving(monkeypatch: pytest.MonkeyPatch, name: str, answers: list[str]) -> Iterator[tuple[int, list[str]]]:
    """A port of 127.0.0.1 and 127.0.0.2, and which of them were connected to, while a resolver gives these `answers`
    for `name` in turn, the last again and again."""
    original, reached, listening = socket.getaddrinfo, list[str](), list[socket.socket]()

    def getaddrinfo(host: Any, port: Any, *args: Any, **options: Any) -> list[Any]:
        if host not in (name, name.encode()):
            return original(host, port, *args, **options)
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        return [(socket.AF_INET, socket.SOCK_STREAM, 6, "", (answer, int(port or 0)))]

    def serve(server: socket.socket) -> None:
        while True:
            try:
                connection, _ = server.accept()
            except OSError:
                return
            reached.append(server.getsockname()[0])
            connection.close()

    listening.append(socket.create_server(("127.0.0.1", 0)))
    port = listening[0].getsockname()[1]
    listening.append(socket.create_server(("127.0.0.2", port)))
    threads = [threading.Thread(target=serve, args=(each,)) for each in listening]
    monkeypatch.setattr(socket, "getaddrinfo", getaddrinfo)
    for thread in threads:
        thread.start()
    try:
        yield port, reached
    finally:
        monkeypatch.undo()
        for each in listening:
            each.shutdown(socket.SHUT_RDWR)
            each.close()
        for thread in threads:
            thread.join()


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    yield exporter
    monkeypatch.undo()


async def test_secrets_are_in_no_event_log_span_or_error(
    service: Service, spans: InMemorySpanExporter, caplog: pytest.LogCaptureFixture
) -> None:
    """One of 20 characters in every place; also when the service quotes it in an error."""
    caplog.set_level(logging.DEBUG)
    names = ["header", "query", "cookie", "basic", "bearer"]
    secrets = {name: f"secret-{name:_<6}-{'x' * 6}" for name in names} | {"own": "secret-of-the-program"}
    credentials = {name: f"ann:{secrets[name]}" if name == "basic" else secrets[name] for name in names}
    for reply in (Reply({"ok": 1}), Reply(status=401), None):
        service.answer = lambda r, reply=reply: reply or Reply({"quoted": str(r.headers) + r.target}, 403)
        for name in names:
            provider = {"header_provider": lambda _: {"X-Own": secrets["own"]}}
            toolset = toolset_of(service, [{name: []}], {name: credentials[name]}, **provider)
            chat = Desk().chat(asker([toolset], call("op"), "done"))
            told = json.dumps([event.model_dump(mode="json") for event in await chat.say("go")])
            told += json.dumps([event.model_dump(mode="json") for event in await chat.stored()])
            told += repr(toolset) + repr((await toolset.get_tools())[0]) + str(toolset.status())
            assert not [each for each in secrets.values() if each in told]
            assert base64.b64encode(credentials["basic"].encode()).decode() not in told
            sent = str(service.last)
            assert secrets["own"] in sent
            await chat.runner.close()
    seen = caplog.text + "".join(span.to_json() for span in spans.get_finished_spans())
    assert not [each for each in secrets.values() if each in seen]


async def test_a_call_has_a_span_with_the_route_and_sends_its_trace(
    service: Service, spans: InMemorySpanExporter
) -> None:
    """Method, template and status; no address with values. Without recording there is no header."""
    toolset = service.toolset({"/x/{id}": get({"name": "id", "in": "path", "required": True, "schema": {}})})
    await call_tool(toolset, id="private")
    (span,) = [each for each in spans.get_finished_spans() if each.name == "GET /x/{id}"]
    attributes = dict(span.attributes or {})
    assert attributes == {
        "http.request.method": "GET",
        "http.route": "/x/{id}",
        "server.address": "127.0.0.1",
        "server.port": service.port,
        "http.response.status_code": 200,
    }
    assert f"{span.context.trace_id:032x}" in (service.last.header("traceparent") or "")
    await toolset.close()


async def test_a_header_that_cannot_be_sent_is_not_quoted(service: Service) -> None:
    """One of the program's own with a line end, which may be a secret."""
    toolset = service.toolset({"/x": get()}, header_provider=lambda _: {"X-Own": "secret-of\r\nthe-program"})
    chat = Desk().chat(asker([toolset], call("op"), "done"))
    told = (await chat.say("go"))[1].get_function_responses()[0].response["error"]
    assert "cannot be written" in told
    assert "secret" not in told
    assert service.received == []
    await chat.runner.close()


async def test_headers_of_the_program_go_with_each_request(service: Service) -> None:
    """By the run that it is made in, from a function that may be async; a model's header does not stand in for one."""

    async def provider(context: Any) -> dict[str, str]:
        return {"X-User": context.user_id, "X-P": "program"}

    parameter = {"name": "X-P", "in": "header", "schema": {"type": "string"}}
    toolset = service.toolset({"/x": get(parameter)}, header_provider=provider)
    chat = Desk().chat(asker([toolset], call("op", x_p="model"), "done"))
    await chat.say("go")
    assert service.last.header("x-user") == "ann"
    assert [value for name, value in service.last.headers if name.lower() == "x-p"] == ["program"]
    await chat.runner.close()


@pytest.mark.parametrize(
    ("required", "asks"), [(True, "rw"), ("unsafe", "w"), (False, ""), (lambda **a: "p" in a, "r")]
)
async def test_a_person_may_have_to_approve(service: Service, required: Any, asks: str) -> None:
    """All, what changes something, or what a predicate says; nothing is sent before."""
    paths = {
        "/r": get({"name": "p", "in": "query", "schema": {}}, operationId="r"),
        "/w": {"post": {"operationId": "w"}},
    }
    toolset = service.toolset(paths, require_confirmation=required)
    for name in "rw":
        service.received.clear()
        chat = Desk().chat(asker([toolset], call(name, **({"p": 1} if name == "r" else {})), "done"))
        events = await chat.say("go")
        waits = [each for each in events[-1].get_function_calls() if each.name == "adk_request_confirmation"]
        assert bool(waits) == (name in asks)
        assert len(service.received) == (name not in asks)
        if waits:
            await chat.answer(result(waits[0].id, waits[0].name, {"confirmed": True}))
            assert len(service.received) == 1
    await toolset.close()
