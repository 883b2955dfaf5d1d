"""Approvals over HTTP: one run asks, the next one is told, whichever endpoint either of them uses (server spec §5)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from server.serving import Running, serving
from server.talker import body, data_of, runs_of, stored, talker

from flowloom.server import app_of

REQUEST = "adk_request_confirmation"
WAYS = ["/run", "/run_sse", "/apps/desk/run"]


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    with serving(app_of(talker())) as running:
        yield running


def told(server: Running, way: str, given: dict[str, Any]) -> list[dict[str, Any]]:
    """What a run says, as a list."""
    answer = server.client.post(way, json=given)
    assert answer.status_code == 200, answer.text
    return answer.json() if way == "/run" else data_of(answer.text)


def asked(server: Running, way: str = "/run_sse") -> tuple[str, str]:
    """A session in which a run has asked whether it may book, and the id of its request."""
    session = server.new_session()
    told(server, way, body(session, "tool book"))
    ((request,),) = [each["pending"] for each in runs_of(server, session)]
    return session, request["id"]


def answer(request: str, response: Any) -> dict[str, Any]:
    """The message of a person."""
    return {"role": "user", "parts": [{"functionResponse": {"id": request, "name": REQUEST, "response": response}}]}


def results(server: Running, session: str) -> list[Any]:
    """What the session has as results of `book`."""
    parts = [part for event in stored(server, session) for part in event.get("content", {}).get("parts", ())]
    answers = [part["functionResponse"] for part in parts if "functionResponse" in part]
    return [each["response"] for each in answers if each["name"] == "book"]


@pytest.mark.parametrize("answered_by", WAYS)
@pytest.mark.parametrize("asked_by", WAYS)
def test_any_endpoint_answers_what_any_other_has_asked(server: Running, asked_by: str, answered_by: str) -> None:
    """The run goes on under its invocation, its tool runs once, and nothing waits any more."""
    session, request = asked(server, asked_by)
    told(server, answered_by, body(session, newMessage=answer(request, {"confirmed": True})))
    assert results(server, session)[1:] == [{"booked": "yes"}]
    assert len({event["invocationId"] for event in stored(server, session)}) == 1
    assert runs_of(server, session) == []


@pytest.mark.parametrize("way", WAYS)
def test_a_tool_that_is_rejected_does_not_run(server: Running, way: str) -> None:
    """Its result says so, and the model goes on with that."""
    session, request = asked(server, way)
    said = told(server, way, body(session, newMessage=answer(request, {"confirmed": False})))
    assert "error" in results(server, session)[-1]
    assert "rejected" in str(said)


@pytest.mark.parametrize("way", WAYS)
def test_a_decision_is_made_once(server: Running, way: str) -> None:
    """The same again changes nothing; another one is refused."""
    session, request = asked(server)
    yes = body(session, newMessage=answer(request, {"confirmed": True}))
    told(server, way, yes)
    before = stored(server, session)
    told(server, way, yes)
    no = server.client.post(way, json=body(session, newMessage=answer(request, {"confirmed": False})))
    assert (no.status_code, no.json()["code"]) == (400, "invalid_message")
    assert stored(server, session) == before


@pytest.mark.parametrize("way", WAYS)
def test_what_an_answer_claims_beside_its_decision_is_refused(server: Running, way: str) -> None:
    """Another name than the request's, a second decision, a call of the person's own: nothing of it is stored."""
    session, request = asked(server)
    before = stored(server, session)
    named, twice, calling = (answer(request, {"confirmed": True}) for _ in range(3))
    named["parts"][0]["functionResponse"]["name"] = "book"
    twice["parts"] += answer(request, {"confirmed": False})["parts"]
    calling["parts"].append({"functionCall": {"name": "book", "args": {}}})
    for message in (named, twice, calling):
        refused = server.client.post(way, json=body(session, newMessage=message))
        assert (refused.status_code, refused.json()["code"]) == (400, "invalid_message")
    assert stored(server, session) == before


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("response", [{"confirmed": "yes"}, {"confirmed": None}, {"result": "yes"}])
def test_what_is_no_decision_leaves_the_request_open(server: Running, way: str, response: dict[str, Any]) -> None:
    """It is refused before a stream begins, and nothing is stored."""
    session, request = asked(server)
    before = stored(server, session)
    refused = server.client.post(way, json=body(session, newMessage=answer(request, response)))
    assert (refused.status_code, refused.json()["code"]) == (400, "invalid_message")
    assert stored(server, session) == before
    assert [each["status"] for each in runs_of(server, session)] == ["paused"]


def test_a_message_of_words_leaves_a_request_that_can_still_be_answered(server: Running) -> None:
    """Who goes on talking may decide later."""
    session, request = asked(server)
    told(server, "/run_sse", body(session, "hello"))
    told(server, "/run_sse", body(session, newMessage=answer(request, {"confirmed": True})))
    assert results(server, session)[-1] == {"booked": "yes"}


def test_another_server_on_the_same_store_takes_the_answer(postgres_dsn: str) -> None:
    """One asks, and stops; what it has kept in PostgreSQL is all that the other one needs. No connection is left."""
    with serving(app_of(talker(), session_service_uri=postgres_dsn)) as first:
        session, request = asked(first)
        before = stored(first, session)
    with serving(app_of(talker(), session_service_uri=postgres_dsn)) as second:
        assert second.client.get("/ready").json() == {"status": "ready"}
        assert stored(second, session) == before
        assert [each["id"] for each in second.client.get(second.sessions()).json()] == [session]
        told(second, "/run_sse", body(session, newMessage=answer(request, {"confirmed": True})))
        assert results(second, session)[-1] == {"booked": "yes"}
        changed = second.client.patch(f"{second.sessions()}/{session}", json={"stateDelta": {"a": None, "user:b": 1}})
        assert changed.json()["state"] == {"a": None, "user:b": 1}
        invocation = before[0]["invocationId"]
        again = second.client.get(f"{second.sessions()}/{session}/runs/{invocation}/events")
        said = [each["id"] for each in stored(second, session)[:-1] if each["author"] == "desk"]
        assert [each["id"] for each in data_of(again.text)] == said
