"""Sessions over HTTP (server spec §3, 6 to 11)."""

from __future__ import annotations

from typing import Any

import pytest
from server.serving import Running

from flowloom.errors import RunLostError, SessionNotFoundError


def test_a_session_is_made_without_a_body(server: Running) -> None:
    """No body is no state, and an id of its own."""
    made = server.client.post(server.sessions())
    assert made.status_code == 200
    body = made.json()
    assert (body["appName"], body["userId"], body["state"], body["events"]) == ("desk", "ann", {}, [])
    assert len(body["id"]) == 36
    assert isinstance(body["lastUpdateTime"], float)


def test_a_session_that_exists_is_not_made_again(server: Running) -> None:
    """The second one is told so, in the form of all problems."""
    server.new_session(sessionId="twice")
    again = server.client.post(server.sessions(), json={"session_id": "twice"})
    assert again.status_code == 409
    assert again.json() == {"detail": "Session already exists: twice", "code": "session_exists"}


def test_a_patch_is_one_more_event(server: Running) -> None:
    """Author `user`, an invocation of its own, and nothing but the change of state; null is a value."""
    name = server.new_session(state={"a": 1})
    session = server.client.patch(f"{server.sessions()}/{name}", json={"stateDelta": {"b": None}}).json()
    assert session["state"] == {"a": 1, "b": None}
    (event,) = session["events"]
    assert event["author"] == "user"
    assert event["invocationId"].startswith("p-")
    assert event["actions"]["stateDelta"] == {"b": None}
    assert server.client.get(f"{server.sessions()}/{name}").json() == session


def test_what_is_not_there_is_deleted_without_a_word(server: Running) -> None:
    """Deleting answers null, twice."""
    name = server.new_session()
    for _ in range(2):
        gone = server.client.delete(f"{server.sessions()}/{name}")
        assert (gone.status_code, gone.text) == (200, "null")
    assert server.client.get(f"{server.sessions()}/{name}").status_code == 404


@pytest.mark.parametrize("body", ["", "null", "{}", '{"unknown": 1}'])
def test_a_session_needs_nothing(server: Running, body: str) -> None:
    """No body, null, and fields that are not known are one."""
    headers = {"Content-Type": "application/json"} if body else {}
    assert server.client.post(server.sessions(), content=body, headers=headers).status_code == 200


@pytest.mark.parametrize("kind", ["text/plain", "application/x-www-form-urlencoded", "multipart/form-data", ""])
def test_a_body_has_to_be_json_by_its_type(server: Running, kind: str) -> None:
    """What a form of another page can send is not taken."""
    made = server.client.post(
        server.sessions(), content='{"state": {}}', headers={"Content-Type": kind} if kind else {}
    )
    assert made.status_code == 422
    assert made.json()["detail"][0]["loc"] == ["body"]
    assert made.json()["detail"][0]["input"] == '{"state": {}}'


@pytest.mark.parametrize(
    ("body", "place"),
    [
        ({"state": [1]}, ["body", "state"]),
        ({"sessionId": 5}, ["body", "sessionId"]),
        ({"events": {}}, ["body", "events"]),
    ],
)
def test_what_is_wrong_in_a_body_is_told_by_its_place(server: Running, body: dict[str, Any], place: list[str]) -> None:
    """In the case in which answers are."""
    made = server.client.post(server.sessions(), json=body)
    assert made.status_code == 422
    (problem,) = made.json()["detail"]
    assert problem["loc"] == place
    assert {"type", "msg", "input"} <= problem.keys()


def test_what_is_no_json_is_told(server: Running) -> None:
    """Not as a failure of the server."""
    made = server.client.post(server.sessions(), content="{", headers={"Content-Type": "application/json"})
    assert made.status_code == 422


@pytest.mark.parametrize(("given", "kept"), [("  trimmed ", "trimmed"), ("a.B:1@x~+-_é", "a.B:1@x~+-_é")])
def test_the_id_of_a_session_is_trimmed(server: Running, given: str, kept: str) -> None:
    """Letters, digits and the signs of addresses are kept as they are."""
    assert server.new_session(sessionId=given) == kept


def test_an_empty_id_is_a_new_one(server: Running) -> None:
    """Nobody means the empty name."""
    assert len(server.new_session(sessionId="  ")) == 36


@pytest.mark.parametrize("name", ["a/b", "a b", "x" * 129, "a\nb", "a%", "é\0", ".", " .. "])
def test_an_id_that_no_address_can_name_is_refused(server: Running, name: str) -> None:
    """It could never be read again."""
    made = server.client.post(server.sessions(), json={"sessionId": name})
    assert (made.status_code, made.json()["code"]) == (400, "invalid_session_id")


def test_the_old_form_takes_the_state_as_its_body(server: Running) -> None:
    """Of a session whose id is in the path; and none at all."""
    made = server.client.post(f"{server.sessions()}/old-1", json={"a": None, "user:b": 2})
    assert made.json()["id"] == "old-1"
    assert made.json()["state"] == {"a": None, "user:b": 2}
    assert server.client.post(f"{server.sessions()}/old-2").json()["state"] == {"user:b": 2}
    assert server.client.post(f"{server.sessions()}/old-1").status_code == 409
    assert server.client.post(f"{server.sessions()}/old-3", json=[1]).status_code == 422


def test_a_list_of_sessions_has_their_state_and_no_events(server: Running) -> None:
    """The state of the user among it; what was changed last is last; without what evaluations made."""
    where = {"app_name": "desk", "user_id": "lou"}
    server.new_session(user_id="lou", sessionId="one", state={"user:name": "Lou", "a": 1})
    server.new_session(user_id="lou", sessionId="two")
    for name in ("adk-eval-session-1", "___eval___session___1"):
        server.call(server.served.sessions.create_session(**where, session_id=name))
    server.client.patch(f"{server.sessions(user_id='lou')}/one", json={"state_delta": {"a": 2}})
    listed = server.client.get(server.sessions(user_id="lou")).json()
    assert [(each["id"], each["state"], each["events"]) for each in listed] == [
        ("two", {"user:name": "Lou"}, []),
        ("one", {"user:name": "Lou", "a": 2}, []),
    ]
    assert server.client.get(server.sessions(user_id="nobody")).json() == []


@pytest.mark.parametrize("method", ["GET", "PATCH"])
def test_a_session_that_is_not_there_is_not_found(server: Running, method: str) -> None:
    """Neither read nor changed."""
    found = server.client.request(method, f"{server.sessions()}/nothing", json={"stateDelta": {}})
    assert found.status_code == 404
    assert found.json() == {"detail": "Session not found", "code": "session_not_found"}


@pytest.mark.parametrize("body", [{}, {"stateDelta": None}, {"stateDelta": [1]}, None])
def test_a_change_has_to_be_an_object(server: Running, body: Any) -> None:
    """A patch without one is no change."""
    path = f"{server.sessions()}/{server.new_session()}"
    assert server.client.patch(path, json=body).status_code == 422


def test_options_are_refused(server: Running) -> None:
    """No store has any."""
    made = server.client.post(server.sessions(), json={"options": {"ttl": 5}})
    assert made.status_code == 400
    assert server.client.post(server.sessions(), json={"options": {}}).status_code == 200


@pytest.mark.parametrize(
    ("error", "status", "code"),
    [
        (SessionNotFoundError("It is gone."), 404, "session_not_found"),
        (RunLostError("Another run has it.", session_id="s", retry_after=1.0), 409, "session_busy"),
    ],
)
def test_a_session_that_goes_while_it_is_changed_is_told(
    server: Running, monkeypatch: pytest.MonkeyPatch, error: Exception, status: int, code: str
) -> None:
    """Deleted, or taken over by another process."""

    async def append_event(*_: Any) -> Any:
        raise error

    path = f"{server.sessions()}/{server.new_session()}"
    monkeypatch.setattr(server.served.sessions, "append_event", append_event)
    answer = server.client.patch(path, json={"stateDelta": {"a": 1}})
    assert (answer.status_code, answer.json()["code"]) == (status, code)
