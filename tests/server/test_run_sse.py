"""`POST /run_sse`: the bytes of the stream, and what is told before it begins (server spec §4, §5)."""

from __future__ import annotations

import asyncio
import json
import re
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from server.serving import Running, serving
from server.talker import body, data_of, run, settled, stored, stream, talker

from flowloom import Event
from flowloom.server import app_of, frames
from flowloom.server.wire import event_json
from flowloom.sessions import Session


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server of the agent that does what it is told."""
    with serving(app_of(talker())) as running:
        yield running


def test_a_run_is_a_stream_of_frames(server: Running) -> None:
    """Each frame is an id, and `data: ` with the JSON of an event on one line without spaces; nothing follows."""
    answer = server.client.post("/run_sse", json=body(server.new_session(), "say 3", streaming=True))
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "text/event-stream; charset=utf-8"
    assert answer.headers["cache-control"] == "no-cache"
    assert answer.headers["x-accel-buffering"] == "no"
    *whole, end = answer.content.split(b"\n\n")
    assert end == b""
    places: list[tuple[int, int]] = []
    for frame in whole:
        found = re.fullmatch(rb"id: (\S+):(\d+)\.(\d+)\ndata: ([^\n]+)", frame)
        assert found is not None, frame
        event = json.loads(found[4])
        assert found[4] == json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode()
        assert found[1].decode() == event["invocationId"]
        places.append((int(found[2]), int(found[3])))
    assert places == [(1, 1), (1, 2), (1, 3), (2, 0)]


def test_each_event_is_one_chunk(server: Running) -> None:
    """No chunk holds half an event, or two."""
    with stream(server, "/run_sse", body(server.new_session(), "say 500", streaming=True)) as chunks:
        seen = list(chunks)
    assert len(seen) == 501
    for chunk in seen:
        assert re.fullmatch(rb"id: \S+\ndata: [^\n]+\n\n", chunk)


def test_a_large_event_is_one_chunk(server: Running) -> None:
    """Nor is one torn for its size."""
    text = "x" * 2_000_000
    with stream(server, "/run_sse", body(server.new_session(), text)) as chunks:
        (chunk,) = chunks
    assert data_of(chunk.decode())[0]["content"]["parts"][0]["text"] == f"You said: {text}"


def test_partial_events_have_the_id_of_the_complete_one(server: Running) -> None:
    """That is the one which is stored; partial events hold new text only."""
    session = server.new_session()
    *partial, complete = run(server, session, "say 3", streaming=True)
    assert {event["id"] for event in partial} == {complete["id"]} == {stored(server, session)[-1]["id"]}
    assert "".join(event["content"]["parts"][0]["text"] for event in partial) == "word0 word1 word2 "
    assert [event.get("partial") for event in partial] == [True] * 3
    assert "partial" not in complete


def test_without_streaming_there_are_complete_events_only(server: Running) -> None:
    """The framing is the same."""
    session = server.new_session()
    assert run(server, session, "say 3") == stored(server, session)[1:]


def test_every_event_has_what_clients_count_on(server: Running) -> None:
    """The actions' objects are there if they are empty, and no key that google-adk does not know."""
    for event in run(server, server.new_session(), "tool book"):
        assert {"author", "invocationId", "id", "timestamp", "actions"} <= event.keys()
        actions = event["actions"]
        assert {"stateDelta", "artifactDelta", "requestedAuthConfigs", "requestedToolConfirmations"} <= actions.keys()
        assert "requestedInputs" not in actions


def test_ends_of_lines_are_escaped(server: Running) -> None:
    """U+2028, U+2029 and U+0085 end a line for some readers."""
    said = "a\u2028b\u2029c\x85d\u2027e"
    answer = server.client.post("/run_sse", json=body(server.new_session(), said))
    assert rb"a\u2028b\u2029c\u0085d" in answer.content
    assert "\u2027".encode() in answer.content
    assert data_of(answer.text)[0]["content"]["parts"][0]["text"] == f"You said: {said}"


def test_an_event_with_content_and_artifacts_is_sent_twice(server: Running) -> None:
    """With what it says, then with what it has saved, under one id; stored once, whole."""
    session = server.new_session()
    seen = run(server, session, "tool save")
    said, saved = [event for event in seen if event["id"] == seen[1]["id"]]
    assert (said["actions"]["artifactDelta"], saved["actions"]["artifactDelta"]) == ({}, {"note.txt": 0})
    assert "content" in said
    assert "content" not in saved
    (whole,) = [event for event in stored(server, session) if event["id"] == said["id"]]
    assert (whole["content"], whole["actions"]) == (said["content"], saved["actions"])


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
def test_an_event_is_sent_whole_to_those_who_ask_so(server: Running, path: str) -> None:
    """The list of `/run` is not split, nor a stream for `functionCallEventId`."""
    answer = server.client.post(path, json=body(server.new_session(), "tool save", functionCallEventId="e-1"))
    events = answer.json() if path == "/run" else data_of(answer.text)
    assert len({event["id"] for event in events}) == len(events)
    assert [event["actions"]["artifactDelta"] for event in events if "content" in event][1] == {"note.txt": 0}


@pytest.mark.parametrize("asked_by", [None, ""])
def test_no_form_answers_for_an_id_of_nothing(server: Running, asked_by: str | None) -> None:
    """The event with an artifact is sent twice, as to all others."""
    seen = run(server, server.new_session(), "tool save", functionCallEventId=asked_by)
    assert len({event["id"] for event in seen}) == len(seen) - 1


def test_the_state_delta_is_in_the_users_event(server: Running) -> None:
    """It is stored with the message."""
    session = server.new_session()
    run(server, session, stateDelta={"city": "Rome"})
    assert stored(server, session)[0]["actions"]["stateDelta"] == {"city": "Rome"}


def test_custom_metadata_is_on_every_event(server: Running) -> None:
    """The user's, too; keys of google-adk's own are not taken."""
    session = server.new_session()
    run(server, session, "tool save", customMetadata={"trace": 7, "__adk_internal_x": 1})
    assert [event["customMetadata"] for event in stored(server, session)] == [{"trace": 7}] * 4


def test_custom_metadata_cannot_claim_what_the_engine_says_of_its_events(server: Running) -> None:
    session = server.new_session()
    asked = body(session, "say 1", customMetadata={"agent_ended": "limit"})
    answer = server.client.post("/run", json=asked)
    assert (answer.status_code, "`agent_ended`" in answer.text) == (400, True)
    assert stored(server, session) == []


def test_a_failing_run_ends_with_an_event_and_an_error_frame(server: Running) -> None:
    """The event has what went wrong and the text so far; the frame behind it says why the stream ends."""
    session = server.new_session()
    seen = run(server, session, "fail", streaming=True)
    assert (seen[-2]["errorCode"], seen[-2]["errorMessage"]) == ("RuntimeError", "model exploded")
    assert (seen[-2]["content"]["parts"], seen[-2]["interrupted"]) == ([{"text": "partly "}], True)
    assert seen[-1]["error"] == "RuntimeError: model exploded"
    assert seen[-1]["error_details"].keys() == {"error_type", "error_message", "timestamp"}
    assert run(server, session)[-1]["content"]["parts"]


def test_an_approval_goes_on_in_the_run_that_asked(server: Running) -> None:
    """The request has its id among the long-running ones, and the answer's run the invocation of the request."""
    session = server.new_session()
    asked = run(server, session, "tool book")
    (request,) = [
        part["functionCall"]
        for event in asked
        for part in event.get("content", {}).get("parts", [])
        if part.get("functionCall", {}).get("name") == "adk_request_confirmation"
    ]
    assert any(request["id"] in event.get("longRunningToolIds", ()) for event in asked)
    response = {"id": request["id"], "name": request["name"], "response": {"confirmed": True, "payload": {}}}
    message = {"role": "user", "parts": [{"functionResponse": response}]}
    answered = run(server, session, None, newMessage=message, functionCallEventId="e-1")
    assert {event["invocationId"] for event in answered} == {asked[0]["invocationId"]}
    assert answered[0]["content"]["parts"][0]["functionResponse"]["response"] == {"booked": "yes"}


REFUSED: list[tuple[dict[str, Any], int, str]] = [
    ({"sessionId": "nowhere"}, 404, "session_not_found"),
    ({"appName": "nobody"}, 404, "app_not_found"),
    ({"newMessage": {"role": "model", "parts": [{"text": "x"}]}}, 400, "invalid_message"),
    ({"newMessage": {"role": "user", "parts": []}}, 400, "invalid_message"),
    ({"newMessage": {"role": "user"}}, 400, "invalid_message"),
    (
        {"newMessage": {"parts": [{"functionResponse": {"id": "c-1", "name": "book", "response": {}}}]}},
        400,
        "invalid_message",
    ),
    ({"invocationId": "e-nowhere", "newMessage": None}, 404, "invocation_not_found"),
    ({"newMessage": {"role": "user", "parts": [{"words": "x"}]}}, 422, "invalid_request"),
    ({"stateDelta": [1]}, 422, "invalid_request"),
    ({"streaming": "perhaps"}, 422, "invalid_request"),
    ({"userId": None}, 422, "invalid_request"),
    ({"sessionId": "\ud800"}, 404, "session_not_found"),
    ({"sessionId": "a\x00"}, 422, "invalid_request"),
    ({"invocationId": "e-1\ndata: {}"}, 422, "invalid_request"),
    ({"invocationId": "e-1\u2028"}, 422, "invalid_request"),
]


@pytest.mark.parametrize("path", ["/run", "/run_sse", "/apps/desk/run"])
@pytest.mark.parametrize(("given", "status", "code"), REFUSED)
def test_what_cannot_run_is_told_before_the_stream(
    server: Running, path: str, given: dict[str, Any], status: int, code: str
) -> None:
    """As JSON, with a code that says what was wrong."""
    if "appName" in given and path.startswith("/apps"):
        path = "/apps/nobody/run"
    asked = json.dumps(body(server.new_session()) | given)
    answer = server.client.post(path, content=asked, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["code"]) == (status, code)


def test_the_events_that_close_a_run_have_its_metadata(server: Running) -> None:
    """The answers to calls that were cut off, and the end."""
    session = server.new_session()
    with stream(server, "/run_sse", body(session, "tool wait", customMetadata={"trace": 7})) as chunks:
        next(chunks)
    events = settled(server, session)
    assert [event["customMetadata"]["trace"] for event in events] == [7] * 4


def test_an_event_is_written_once_for_all_readers(
    server: Running, held: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However many follow the run."""
    written: list[str] = []

    def counted(event: Event, places: Any) -> bytes:
        written.append(event.id)
        return event_json(event, places)

    monkeypatch.setattr(frames, "event_json", counted)
    session = server.new_session()
    with stream(server, "/run_sse", body(session, "held 20", streaming=True)) as chunks:
        seen = data_of(next(chunks).decode())
        path = f"{server.sessions()}/{session}/runs/{seen[0]['invocationId']}/events"
        with stream(server, path) as second, stream(server, path) as third:
            held.set()
            assert len(list(second)) == len(list(third)) == 21
    assert len(written) == 21


def test_the_app_may_be_left_out_when_there_is_one(server: Running) -> None:
    """It is the default one."""
    given = body(server.new_session())
    del given["appName"]
    assert server.client.post("/run", json=given).status_code == 200


def test_a_run_without_a_message_goes_on_from_the_history(server: Running) -> None:
    """`newMessage` may be null."""
    session = server.new_session()
    run(server, session, "first")
    assert run(server, session, None)[-1]["author"] == "desk"


def test_a_run_as_a_list(server: Running) -> None:
    """`/run` gives the complete events at its end, whether `streaming` is asked for or not."""
    session = server.new_session()
    answer = server.client.post("/run", json=body(session, "say 3", streaming=True))
    assert answer.json() == stored(server, session)[1:]


def test_a_failing_run_as_a_list_is_an_error(server: Running) -> None:
    """500, and the session has the events so far, with an error event last."""
    session = server.new_session()
    answer = server.client.post("/run", json=body(session, "fail"))
    assert (answer.status_code, answer.json()["code"]) == (500, "run_failed")
    assert answer.json()["detail"] == "model exploded"
    assert answer.json()["errorId"]
    assert stored(server, session)[-1]["errorCode"] == "RuntimeError"


def test_unexpected_errors_are_not_told_in_production() -> None:
    """A general text with the id of the log stands in its place: in the stream, the list and the session."""
    with serving(app_of(talker(), dev=False)) as server:
        session = server.new_session()
        event, frame = run(server, session, "fail")
        listed = server.client.post("/run", json=body(session, "fail")).text
        assert "errorId" in event["errorMessage"]
        assert event["errorMessage"] == frame["error_details"]["error_message"]
        assert "exploded" not in json.dumps([event, frame, listed, stored(server, session)])


def test_sessions_are_made_when_they_are_named_if_so_set() -> None:
    """`auto_create_session`; what is no id for a session is refused all the same."""
    with serving(app_of(talker(), auto_create_session=True)) as server:
        assert run(server, "fresh")[-1]["author"] == "desk"
        assert server.client.post("/run_sse", json=body("a/b")).json()["code"] == "invalid_session_id"


@pytest.mark.parametrize(("given", "kept"), [(" s1\n", {"s1"}), ("", None), (" ", None)])
def test_the_session_that_is_made_is_the_one_that_is_run(given: str, kept: set[str] | None) -> None:
    """Its id is trimmed, as by any that makes one, and is a new one if it is empty."""
    with serving(app_of(talker(), auto_create_session=True)) as server:
        for count in (1, 2):
            assert server.client.post("/run", json=body(given)).status_code == 200
            made = {each["id"] for each in server.client.get(server.sessions()).json()}
            assert made == kept if kept is not None else len(made) == count
            for each in made:
                assert len(server.client.get(f"{server.sessions()}/{each}").json()["events"]) >= 2


def test_two_runs_at_once_share_the_session_that_one_of_them_makes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The other finds it, and waits for its turn."""
    with serving(app_of(talker(), auto_create_session=True)) as server:
        create, both = server.served.sessions.create_session, asyncio.Barrier(2)

        async def create_session(**given: Any) -> Session:
            await both.wait()  # both have found none
            return await create(**given)

        monkeypatch.setattr(server.served.sessions, "create_session", create_session)
        with ThreadPoolExecutor() as pool:
            answers = list(pool.map(lambda _: server.client.post("/run", json=body("new")), range(2)))
        assert [answer.status_code for answer in answers] == [200, 200], [answer.text for answer in answers]
        assert len(server.client.get(f"{server.sessions()}/new").json()["events"]) == 4
