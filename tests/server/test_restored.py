"""Events that a client brings into a session, and secrets that no answer holds (server spec §3)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from server.serving import Running

from flowloom import Event
from flowloom.server.wire import event_json, public_data, public_json

SECRET = "s3cr3t"
OAUTH = {
    "clientId": "client",
    "clientSecret": SECRET,
    "authUri": "https://example.com/auth?state=1",
    "authCode": SECRET,
    "authResponseUri": SECRET,
    "accessToken": SECRET,
    "refreshToken": SECRET,
    "idToken": SECRET,
    "codeVerifier": SECRET,
}
CONFIG = {
    "authScheme": {"type": "oauth2", "flows": {}},
    "rawAuthCredential": {"authType": "oauth2", "oauth2": OAUTH},
    "exchangedAuthCredential": {"authType": "oauth2", "oauth2": OAUTH},
    "credentialKey": "oauth2_1",
}


def said(text: str, **more: Any) -> dict[str, Any]:
    return {"author": "user", "content": {"role": "user", "parts": [{"text": text}]}, **more}


def test_events_are_appended_as_they_are(server: Running) -> None:
    """Their ids, times and calls, and what they did to the state."""
    events = [
        said("Hello.", id="e1", timestamp=5.5, invocationId="i1"),
        {
            "author": "desk",
            "id": "e2",
            "timestamp": 6.5,
            "invocationId": "i1",
            "content": {
                "role": "model",
                "parts": [{"functionCall": {"id": "c1", "name": "clock", "args": {"a": None}}}],
            },
            "actions": {"stateDelta": {"a": None}, "artifactDelta": {"f": 1}, "endOfAgent": True},
        },
        {"author": "desk", "id": "e3", "actions": {"transferToAgent": "other", "skipSummarization": True}},
    ]
    made = server.client.post(server.sessions(), json={"events": events}).json()
    assert [event["id"] for event in made["events"]] == ["e1", "e2", "e3"]
    assert made["events"][1]["timestamp"] == 6.5
    assert made["events"][1]["content"] == events[1]["content"]
    assert made["events"][1]["actions"]["artifactDelta"] == {"f": 1}
    assert made["state"] == {"a": None}
    again = server.client.get(f"{server.sessions()}/{made['id']}").json()
    assert again["events"] == made["events"]
    copy = server.client.post(server.sessions(), json={"events": again["events"], "state": again["state"]})
    assert copy.json()["events"] == again["events"]


def reserved(kind: str, name: str) -> dict[str, Any]:
    return {"author": "desk", "content": {"parts": [{kind: {"id": "c", "name": name}}]}}


@pytest.mark.parametrize(
    "event",
    [
        said("x", longRunningToolIds=["c"]),
        said("x", long_running_tool_ids=["c"]),
        reserved("functionCall", "adk_request_confirmation"),
        reserved("functionResponse", "adk_request_confirmation"),
        reserved("functionCall", "adk_request_credential"),
        reserved("functionResponse", "adk_request_input"),
        said("x", actions={"requestedAuthConfigs": {"c": CONFIG}}),
        said("x", actions={"requestedToolConfirmations": {"c": {"hint": "?"}}}),
        said("x", actions={"escalate": True}),
        said("x", actions={"somethingNew": 1}),
        said("x", actions={"compaction": {"startTimestamp": 1, "endTimestamp": 2, "compactedContent": {"parts": []}}}),
        said("x", timestamp="yesterday"),
        "no event",
        5,
    ],
)
def test_what_could_stand_for_a_decision_is_refused(server: Running, event: Any) -> None:
    """And nothing of it is stored: not the session either."""
    made = server.client.post(server.sessions(), json={"sessionId": "refused", "events": [said("Hello."), event]})
    assert (made.status_code, made.json()["code"]) == (400, "invalid_event"), made.text
    assert made.json()["detail"].startswith("Event 1 cannot be taken over: ")
    assert server.client.get(f"{server.sessions()}/refused").status_code == 404


def test_two_events_of_one_id_are_refused(server: Running) -> None:
    """A store has one event of an id, so that one of them would be lost; the same event twice is there once."""
    one, other = said("Hello.", id="e1", timestamp=5.5), said("Bye.", id="e1", timestamp=5.5)
    made = server.client.post(server.sessions(), json={"events": [said("x"), one, said("y"), other]})
    assert (made.status_code, made.json()["code"]) == (400, "invalid_event")
    assert made.json()["detail"] == "Event 3 cannot be taken over: event 1 has its id `e1`, too."
    made = server.client.post(server.sessions(), json={"events": [one, one]})
    assert [event["id"] for event in made.json()["events"]] == ["e1"]


def nested(depth: int) -> Any:
    value: Any = 1
    for _ in range(depth):
        value = [value]
    return value


def test_what_no_log_can_hold_leaves_no_session(server: Running) -> None:
    """State that is nested too deep, of an event, of a new session and of a change."""
    deep = {"deep": nested(150)}
    events = [said("x"), said("y", actions={"stateDelta": deep})]
    made = server.client.post(server.sessions(), json={"sessionId": "deep", "events": events})
    assert made.status_code == 400, made.text
    assert server.client.post(server.sessions(), json={"sessionId": "deep", "state": deep}).status_code == 400
    assert server.client.get(f"{server.sessions()}/deep").status_code == 404
    path = f"{server.sessions()}/{server.new_session()}"
    assert server.client.patch(path, json={"stateDelta": deep}).status_code == 400
    assert server.client.get(path).json()["events"] == []


def test_internal_metadata_is_neither_taken_nor_given(server: Running) -> None:
    """What an engine notes for itself is nobody's business."""
    event = said("x", customMetadata={"__adk_internal_a": 1, "mine": None})
    made = server.client.post(server.sessions(), json={"events": [event]}).json()
    assert made["events"][0]["customMetadata"] == {"mine": None}
    stored = Event(author="desk", custom_metadata={"__adk_internal_a": 1, "mine": 2})
    assert json.loads(event_json(stored))["customMetadata"] == {"mine": 2}


def answered(name: str, response: dict[str, Any]) -> dict[str, Any]:
    return {"author": "user", "content": {"parts": [{"functionResponse": {"name": name, "response": response}}]}}


@pytest.mark.parametrize(
    "event",
    [
        Event(author="desk", actions={"requested_auth_configs": {"c": CONFIG}}),  # type: ignore[arg-type]
        Event.model_validate(
            {
                "author": "desk",
                "content": {
                    "parts": [{"functionCall": {"name": "adk_request_credential", "args": {"authConfig": CONFIG}}}]
                },
            }
        ),
        Event.model_validate(answered("adk_request_credential", CONFIG)),
        Event(author="desk", actions={"state_delta": {"kept": {"auth_type": "apiKey", "api_key": SECRET}}}),  # type: ignore[arg-type]
    ],
)
def test_no_event_tells_a_secret(event: Event) -> None:
    """Client secrets, tokens and codes are left out; what a person needs to consent stays."""
    shown = event_json(event).decode()
    assert SECRET not in shown
    if "clientId" in shown:
        assert "https://example.com/auth?state=1" in shown


def test_no_session_tells_a_secret(server: Running) -> None:
    """In its state neither."""
    state = {"key": {"authType": "oauth2", "oauth2": OAUTH}, "token": "a word of the user's"}
    made = server.client.post(server.sessions(), json={"state": state})
    assert SECRET not in made.text
    assert made.json()["state"]["token"] == "a word of the user's"
    for path in (server.sessions(), f"{server.sessions()}/{made.json()['id']}"):
        assert SECRET not in server.client.get(path).text


def test_no_text_of_a_span_tells_a_secret() -> None:
    """Attributes hold JSON as texts."""
    span = {"attributes": {"args": json.dumps({"authConfig": CONFIG}), "name": "execute_tool", "other": "{no json"}}
    shown = public_data(span)
    assert SECRET not in json.dumps(shown)
    assert json.loads(shown["attributes"]["args"])["authConfig"]["credentialKey"] == "oauth2_1"
    assert shown["attributes"]["other"] == "{no json"
    assert SECRET not in public_json(json.dumps(span).encode()).decode()


def test_what_holds_no_secret_is_not_looked_through() -> None:
    """It costs a search in its bytes, and is the same object."""
    data = b'{"token": "of speech"}'
    assert public_json(data) is data


def test_events_have_no_key_that_other_clients_refuse() -> None:
    """A request for input is told by its call."""
    event = Event(author="desk", actions={"requested_inputs": {"c": {"message": "?"}}})  # type: ignore[arg-type]
    assert json.loads(event_json(event))["actions"].keys() == {
        "stateDelta",
        "artifactDelta",
        "requestedAuthConfigs",
        "requestedToolConfirmations",
    }
