"""Sessions over HTTP (server spec §3, 6 to 11)."""

from __future__ import annotations

from server.serving import Running


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
