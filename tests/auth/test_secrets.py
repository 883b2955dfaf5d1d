"""No secret is written down anywhere: not in events, state, logs, spans, errors or reprs."""

from __future__ import annotations

import json
import logging
import traceback
from collections.abc import Iterator
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from auth.desk import API_KEY, ASKED, Calendar, Desk, asked, asker, auth_uri, consent, given, oauth, openid
from auth.oauth_server import CLIENT_SECRET, OAuthServer
from google.genai import types
from kit import agent, event, result, user
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.util._once import Once

from flowloom import (
    AgentTool,
    AuthConfig,
    AuthCredential,
    BasePlugin,
    Event,
    InMemorySessionService,
    OAuth2Auth,
    RunConfig,
    SqliteSessionService,
    StreamingMode,
    pending_calls,
)
from flowloom.auth import HttpAuth, HttpCredentials, redact_message
from flowloom.errors import AlreadyAnsweredError
from flowloom.sessions import GetSessionConfig
from flowloom.telemetry import reread_settings
from flowloom.telemetry.content import CAPTURE_VARIABLE
from flowloom.testing import call

DAY = call("read_calendar", day="monday")
PASSWORD = "pw-hunter-2-long"


@pytest.fixture
def spans(monkeypatch: pytest.MonkeyPatch) -> Iterator[InMemorySpanExporter]:
    """What is recorded with content capture on."""
    exporter = InMemorySpanExporter()
    provider = TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    monkeypatch.setattr(trace, "_TRACER_PROVIDER_SET_ONCE", Once())
    monkeypatch.setenv(CAPTURE_VARIABLE, "true")
    reread_settings()
    yield exporter
    monkeypatch.undo()
    reread_settings()


class Watcher(BasePlugin):
    """Writes down all that a plugin is shown of a message and of events."""

    def __init__(self) -> None:
        super().__init__(name="watcher")
        self.seen: list[str] = []

    async def on_user_message_callback(self, *, invocation_context: Any, user_message: types.Content) -> None:
        self.seen += [repr(user_message), repr(invocation_context.run)]

    async def on_event_callback(self, *, invocation_context: Any, event: Event) -> None:
        self.seen += [repr(event), repr(invocation_context.user_content), repr(invocation_context.run)]


@pytest.mark.parametrize("kind", ["code", "public client", "openid", "refused", "wrong state", "garbled", "refresh"])
async def test_a_whole_story_leaves_no_secret_behind(
    server: OAuthServer, caplog: pytest.LogCaptureFixture, spans: InMemorySpanExporter, kind: str
) -> None:
    """Client secret, codes, PKCE verifiers and all tokens are looked for wherever something is kept or shown."""
    caplog.set_level(logging.DEBUG)
    server.public = kind == "public client"
    config = openid(server) if kind == "openid" else oauth(server, **({"client_secret": None} if server.public else {}))
    if kind == "refresh":
        server.lifetime = 5
    calendar, desk, watcher = Calendar(), Desk(), Watcher()
    streamed = RunConfig(streaming_mode=StreamingMode.SSE)
    chat = desk.chat(asker([calendar.tool(config)], DAY, "ok", DAY, "ok"), plugins=[watcher])
    chat.config = streamed
    shown = await chat.say("what is on?")
    (request,) = asked(shown)
    answer = consent(server, request)
    if kind == "refused":
        server.refuses = "invalid_grant"
    server.garbled = kind == "garbled"
    if kind == "wrong state":
        assert answer.function_response is not None
        uri = answer.function_response.response["exchangedAuthCredential"]["oauth2"]  # type: ignore[index]
        uri["authResponseUri"] = uri["authResponseUri"].replace("state=", "state=x")
    shown += await chat.say(user(answer), yield_user_message=True)
    shown += await chat.say("again")
    session = await chat.session()
    exported = "\n".join(span.to_json() for span in spans.get_finished_spans())
    places = {
        "stored events": "\n".join(json.dumps(event.to_wire()) + repr(event) for event in session.events),
        "yielded events": "\n".join(json.dumps(event.to_wire()) for event in shown),
        "state": repr(session.state),
        "logs": caplog.text + "".join(str(record.__dict__) for record in caplog.records),
        "spans": exported,
        "plugins": "\n".join(watcher.seen),
        "reprs": repr([config, calendar.seen, desk.credentials, calendar.tool(config), vars(calendar)]),
    }
    secrets = server.secrets() - ({CLIENT_SECRET} if server.public else set())
    assert len(secrets) >= 2
    found = [(place, secret) for place, text in places.items() for secret in secrets if secret in text]
    assert found == []
    assert "read_calendar" in exported


async def test_a_key_and_a_password_leave_nothing_behind(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    http: Any = {"type": "http", "scheme": "basic"}
    calendar, desk = Calendar(), Desk()
    tools = [calendar.tool(API_KEY, "by_key"), calendar.tool(AuthConfig(auth_scheme=http), "by_password")]
    chat = desk.chat(asker(tools, [call("by_key", day="monday"), call("by_password", day="friday")], "ok"))
    key, password = asked(await chat.say("what is on?"))
    basic = {"scheme": "basic", "credentials": {"username": "ann", "password": PASSWORD}}
    await chat.answer(
        result(key.id, "adk_request_credential", {"response": json.dumps({"authType": "apiKey", "apiKey": PASSWORD})}),
        given(password, authType="http", http=basic),
    )
    assert len(calendar.seen) == 2
    assert PASSWORD not in json.dumps([event.to_wire() for event in await chat.stored()])
    assert PASSWORD not in caplog.text + repr(calendar.seen) + repr(desk.credentials)


async def test_the_request_holds_what_a_client_needs_and_no_secret(server: OAuthServer) -> None:
    """Neither the client secret nor the PKCE verifier; the address names the challenge, state and scopes."""
    config = oauth(server, code_challenge_method="S256", code_verifier="verifier-of-the-tool-itself-0123456789abcdef")
    (request,) = asked(await Desk().chat(asker([Calendar().tool(config)], DAY)).say("what is on?"))
    auth_config = (request.args or {})["authConfig"]
    assert AuthConfig.model_validate(auth_config).credential_key == config.credential_key
    assert set(auth_config["rawAuthCredential"]["oauth2"]) == {
        "clientId",
        "redirectUri",
        "codeChallengeMethod",
        "tokenEndpointAuthMethod",
    }
    query = parse_qs(urlsplit(auth_uri(request)).query)
    oauth2 = auth_config["exchangedAuthCredential"]["oauth2"]
    assert query["state"] == [oauth2["state"]]
    assert query["scope"] == ["read"]
    assert query["code_challenge_method"] == ["S256"]
    assert "verifier-of-the-tool" not in json.dumps(request.args)
    assert CLIENT_SECRET not in json.dumps(request.args)


def test_what_a_message_says_besides_is_kept() -> None:
    """Answers go, whatever they hold; texts and other function responses stay as they are."""
    answer = result("r1", "adk_request_credential", {"unknown": {"deep": ["tok-1"]}})
    other = result("r2", "adk_request_confirmation", {"confirmed": True})
    message = user("please", answer, other)
    redacted, answers = redact_message(message)
    assert "tok-1" not in redacted.model_dump_json()
    assert "tok-1" not in repr(answers)
    assert [(each.request_id, each.response) for each in answers] == [("r1", {"unknown": {"deep": ["tok-1"]}})]
    assert redacted.parts is not None
    assert [part.text for part in redacted.parts] == ["please", None, None]
    assert redacted.parts[2] is other
    assert message.parts is not None
    assert message.parts[1].function_response is answer.function_response


def test_a_message_without_answers_is_the_same_object() -> None:
    message = user("hello", result("r2", "adk_request_confirmation", {"confirmed": True}))
    assert redact_message(message) == (message, [])
    assert redact_message(message)[0] is message


def test_what_was_redacted_is_no_answer() -> None:
    """A stored message that comes in again brings nothing."""
    once, _ = redact_message(user(result("r1", "adk_request_credential", {"a": "b"})))
    again, answers = redact_message(once)
    assert (again, answers) == (once, [])


@pytest.mark.parametrize(
    "model",
    [
        AuthCredential.model_validate({"authType": "apiKey", "apiKey": PASSWORD}),
        AuthCredential.model_validate({"authType": "oauth2", "surprise": PASSWORD}),
        HttpCredentials(username="ann", password=PASSWORD, token=PASSWORD),
        HttpAuth(scheme="bearer", additional_headers={"x": PASSWORD}),
        OAuth2Auth(**dict.fromkeys(OAuth2Auth.secrets, PASSWORD)),  # type: ignore[arg-type]
    ],
    ids=["key", "unknown field", "http", "headers", "oauth2"],
)
def test_a_repr_hides_values(model: Any) -> None:
    assert PASSWORD not in f"{model!r} {model!s} {[model]}"
    assert PASSWORD in json.dumps(model.to_wire())


def test_a_validation_error_does_not_quote() -> None:
    with pytest.raises(ValueError, match="authType") as caught:
        AuthCredential.model_validate({"authType": PASSWORD, "apiKey": [PASSWORD]})
    assert PASSWORD not in "".join(traceback.format_exception(caught.value))


# -- answers under another name ----------------------------------------------------------------------------------------

FORMS: list[dict[str, Any]] = [
    {"exchangedAuthCredential": {"authType": "apiKey", "apiKey": PASSWORD}},
    {"exchanged_auth_credential": {"auth_type": "apiKey", "api_key": PASSWORD}, "raw": PASSWORD},
    {"response": json.dumps({"authType": "apiKey", "apiKey": PASSWORD})},
    {"editedArgs": {"apiKey": PASSWORD}, "confirmed": True},
]


def everything(chat: Any, stored: list[Event], spans: InMemorySpanExporter, caplog: Any, watcher: Watcher) -> str:
    """All that a run has written down somewhere."""
    exported = "\n".join(span.to_json() for span in spans.get_finished_spans())
    logged = caplog.text + "".join(str(record.__dict__) for record in caplog.records)
    return "\n".join([exported, logged, *watcher.seen, *(json.dumps(e.to_wire()) + repr(e) for e in stored)])


@pytest.mark.parametrize("name", [None, "read_calendar"])
@pytest.mark.parametrize("form", FORMS, ids=["camel", "snake", "text", "edited"])
async def test_an_answer_by_its_id_leaves_nothing_behind(
    name: str | None, form: dict[str, Any], caplog: Any, spans: InMemorySpanExporter
) -> None:
    """The id says what it answers: once, again, when it is too late, and in another invocation."""
    caplog.set_level(logging.DEBUG)
    calendar, watcher = Calendar(), Watcher()
    chat = Desk().chat(asker([calendar.tool(API_KEY)], DAY, *["ok"] * 4), plugins=[watcher])
    (request,) = asked(await chat.say("what is on?"))
    await chat.say("Hm?")
    for _ in range(3):
        await chat.answer(result(request.id, name, form))  # type: ignore[arg-type]
    assert PASSWORD not in everything(chat, await chat.stored(), spans, caplog, watcher)
    given_key = form is not FORMS[3]
    assert [each.api_key for each in calendar.seen] == ([PASSWORD] if given_key else [])


async def test_two_credentials_for_one_request_are_refused() -> None:
    """In one message; neither is used or told, and the same one twice is one."""
    calendar = Calendar()
    chat = Desk().chat(asker([calendar.tool(API_KEY)], DAY, "ok"))
    (request,) = asked(await chat.say("what is on?"))
    keys = ({"authType": "apiKey", "apiKey": key} for key in (PASSWORD, "another"))
    one, other = (result(request.id, ASKED, {"exchangedAuthCredential": key}) for key in keys)
    with pytest.raises(AlreadyAnsweredError, match=f"`{request.id}` for a credential twice") as caught:
        await chat.answer(one, other)
    assert PASSWORD not in str(caught.value)
    assert calendar.seen == []
    await chat.answer(one, one)
    assert [each.api_key for each in calendar.seen] == [PASSWORD]


async def test_an_answer_to_an_agent_that_runs_as_a_tool_leaves_nothing_behind(
    caplog: Any, spans: InMemorySpanExporter
) -> None:
    """The request is the inner agent's, at any depth, also when only a part of the log is loaded."""
    caplog.set_level(logging.DEBUG)
    calendar, watcher = Calendar(), Watcher()
    inner = AgentTool(agent("inner", DAY, "inner", tools=[calendar.tool(API_KEY)]))
    chat = Desk().chat(asker([inner], call("inner", request="Look."), "ok", "ok"), plugins=[watcher])
    await chat.say("what is on?")
    (request,) = [each for each in pending_calls(await chat.stored()) if each.kind == "credential"]
    config = RunConfig(get_session_config=GetSessionConfig(num_recent_events=1))
    await chat.say(user(result(request.id, None, FORMS[0])), run_config=config)  # type: ignore[arg-type]
    await chat.answer(result(request.id, None, FORMS[0]))  # type: ignore[arg-type]
    assert PASSWORD not in everything(chat, await chat.stored(), spans, caplog, watcher)


async def test_an_answer_that_is_appended_or_imported_leaves_nothing_behind(tmp_path: Any) -> None:
    """What a client puts into a log by itself is stored without its secret, too, by id and by name."""
    for service in (InMemorySessionService(), SqliteSessionService(tmp_path / "s.db")):
        chat = Desk(service).chat(asker([Calendar().tool(API_KEY)], DAY))
        (request,) = asked(await chat.say("what is on?"))
        session = await chat.session()
        for given_part in (result(request.id, None, FORMS[0]), result("r9", "adk_request_credential", FORMS[0])):
            await service.append_event(session, event("user", given_part))
        part = await service.get_session(
            app_name="app", user_id="ann", session_id="s1", config=GetSessionConfig(num_recent_events=1)
        )
        assert part is not None
        await service.append_event(part, event("user", result(request.id, "read_calendar", FORMS[0])))
        moved = session.model_copy(update={"id": "s2"}, deep=True)
        moved.events.append(event("user", result(request.id, "read_calendar", FORMS[0])))
        await service.import_session(moved)
        for session_id in ("s1", "s2"):
            kept = await service.get_session(app_name="app", user_id="ann", session_id=session_id)
            assert kept is not None
            assert PASSWORD not in kept.model_dump_json()
        await service.close()
