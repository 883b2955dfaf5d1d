"""A server whose runs are those of a fleet: the same answers as in process, whichever process is asked."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import pytest
from google.genai import types
from server.fleet_processes import a_worker, fleet_app, ids_of, over, store
from server.serving import Running, eventually, serving
from server.talker import body, data_of, run, runs_of, stored, stream, talker, until

from flowloom.artifacts.files import FileArtifactService
from flowloom.auth.answers import CREDENTIAL_CALL
from flowloom.durable import RunClient
from flowloom.events import Event
from flowloom.events.parts import call_part
from flowloom.server import app_of


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """The store of a fleet, and the folder of its files."""
    folder = tmp_path_factory.mktemp("fleet")
    return str(folder / "fleet.db"), folder / "files"


@pytest.fixture(scope="module")
def fleet(place: tuple[str, Path]) -> Iterator[tuple[Running, Running]]:
    """Two servers of a fleet with one worker."""
    settings: dict[str, Any] = {"keep_alive": 0.05, "resume_grace": 2.0}
    with (
        a_worker(*place),
        serving(fleet_app(*place, **settings)) as one,
        serving(fleet_app(*place, **settings)) as other,
    ):
        yield one, other


@pytest.fixture(scope="module")
def server(fleet: tuple[Running, Running]) -> Running:
    """The one that is asked first."""
    return fleet[0]


@pytest.fixture(scope="module")
def local(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server that runs the agent itself."""
    files = FileArtifactService(tmp_path_factory.mktemp("files"))
    with serving(app_of(talker(), artifact_service_uri=files)) as running:
        yield running


def alike(text: str) -> str:
    """A stream without what differs from run to run: ids and hashes by the order in which they come, and times."""
    names: dict[str, str] = {}

    def named(found: re.Match[str]) -> str:
        return names.setdefault(found[0], f"id{len(names)}")

    lines = text.replace(": keep-alive\n\n", "").split("\n")
    text = "\n".join(line if line[:6] != "data: " else "data: " + in_order(line[6:]) for line in lines)
    text = re.sub(r"(adk-|e-)?[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|[0-9a-f]{64}", named, text)
    return re.sub(r'"timestamp": [0-9.e+]+', r'"timestamp": 0', text).strip()


def in_order(text: str) -> str:
    """JSON with the keys of its objects in order."""
    return json.dumps(json.loads(text), sort_keys=True)


# -- the same as in process -----------------------------------------------------------------------------


@pytest.mark.parametrize("streaming", [False, True])
@pytest.mark.parametrize("said", ["hello", "say 3", "tool save", "tool book", "fail"])
def test_a_stream_is_the_one_that_is_told_in_process(
    server: Running, local: Running, said: str, streaming: bool
) -> None:
    """The same frames with the same ids, in the canonical form and in the flat one; the same log."""
    for path in ("/run_sse", "/apps/desk/run"):
        told: list[str] = []
        for each in (server, local):
            session = each.new_session(sessionId=f"s-{said.replace(' ', '-')}-{streaming}-{path[1:4]}")
            answer = each.client.post(path, json=body(session, said, streaming=streaming))
            assert answer.status_code == 200
            told.append(alike(answer.text) + alike(f"data: {json.dumps(stored(each, session))}"))
        assert told[0] == told[1]


@pytest.mark.parametrize("said", ["say 3", "tool save", "fail"])
def test_a_list_is_the_one_of_a_run_in_process(server: Running, local: Running, said: str) -> None:
    """What failed is 500 with an error id."""
    told: list[str] = []
    for each in (server, local):
        answer = each.client.post("/run", json=body(each.new_session(), said, customMetadata={"from": "test"}))
        told.append(f"{answer.status_code} {alike('data: ' + answer.text)}")
    assert told[0] == told[1]


@pytest.mark.parametrize(
    "given",
    [
        {"sessionId": "nowhere"},
        {"newMessage": {"role": "model", "parts": [{"text": "x"}]}},
        {"newMessage": {"role": "user", "parts": [{"functionResponse": {"id": "x", "name": "book", "response": {}}}]}},
        {"appName": "other"},
    ],
)
def test_a_refusal_is_that_of_a_server_without_a_fleet(server: Running, local: Running, given: dict[str, Any]) -> None:
    """Before any stream begins."""
    told: list[Any] = []
    for each in (server, local):
        answer = each.client.post("/run_sse", json=body(each.new_session(), "hello") | given)
        told.append((answer.status_code, answer.json()))
    assert told[0] == told[1]
    assert told[0][0] >= 400


def test_a_run_that_is_not_there_cannot_go_on(server: Running) -> None:
    """404, with what to do."""
    answer = server.client.post("/run_sse", json=body(server.new_session(), None, invocationId="e-nowhere"))
    assert (answer.status_code, answer.json()["code"]) == (404, "invocation_not_found")


def test_production_tells_no_text_of_unexpected_errors(place: tuple[str, Path], server: Running) -> None:
    """The worker's log has it, under the id that is told."""
    with serving(fleet_app(*place, dev=False)) as strict:
        *_, event, frame = run(strict, strict.new_session(), "fail")
    assert event["errorCode"] == frame["error_details"]["error_type"] == "RunFailedError"
    assert "The worker's log tells more" in event["errorMessage"]
    assert frame["error_details"]["error_message"] == event["errorMessage"]
    assert "exploded" not in json.dumps([event, frame])


# -- people -----------------------------------------------------------------------------------------------


def test_an_approval_reaches_a_run_that_waits(fleet: tuple[Running, Running]) -> None:
    """Given to another server than asked; the run goes on under its id, and both tell what it waited for."""
    one, other = fleet
    session = one.new_session()
    asked = run(one, session, "tool book")
    (paused,) = runs_of(other, session)
    assert paused["invocationId"] == asked[0]["invocationId"]
    (call,) = paused["pending"]
    response = {"id": call["id"], "name": "adk_request_confirmation", "response": {"confirmed": True}}
    answer = {"role": "user", "parts": [{"functionResponse": response}]}
    said = run(other, session, None, newMessage=answer, streaming=True)
    assert {each["invocationId"] for each in said} == {asked[0]["invocationId"]}
    assert "booked" in json.dumps(said[0])
    assert runs_of(one, session) == []
    again = one.client.post("/run_sse", json=body(session, None, newMessage=answer))
    assert (again.status_code, data_of(again.text)) == (200, [])


# -- several processes ------------------------------------------------------------------------------------


def test_a_stream_goes_on_at_another_server(fleet: tuple[Running, Running]) -> None:
    """With the id of the last frame: each event once, in order, also the parts of messages, under the same ids."""
    one, other = fleet
    session = one.new_session()
    with stream(one, "/run_sse", body(session, "pace 200", streaming=True)) as chunks:
        seen = until(chunks, "word5 ")
        path = f"{one.sessions()}/{session}/runs/{data_of(seen)[0]['invocationId']}/events"
        with stream(other, path, Last_Event_ID=ids_of(seen)[-1]) as rest:
            theirs = "".join(chunk.decode() for chunk in rest)
        seen_here = seen + "".join(chunk.decode() for chunk in chunks)
    frames = [each for each in seen_here.split("\n\n") if each.startswith("id")]
    assert [each for each in (seen + theirs).split("\n\n") if each.startswith("id")] == frames
    assert len(frames) == 201
    whole = other.client.get(path, headers={"Last-Event-ID": ids_of(seen)[-1]}).text
    assert data_of(whole) == data_of(seen_here)[-1:]


def test_a_run_outlives_the_streams_that_are_cut(fleet: tuple[Running, Running]) -> None:
    """As long as a client has come back anywhere within the grace."""
    one, other = fleet
    session = one.new_session()
    with stream(one, "/run_sse", body(session, "pace 200", streaming=True)) as chunks:
        seen = until(chunks, "word3 ")
    path = f"{one.sessions()}/{session}/runs/{data_of(seen)[0]['invocationId']}/events"
    with stream(other, path, Last_Event_ID=ids_of(seen)[-1]) as rest:
        events = data_of(seen) + data_of("".join(chunk.decode() for chunk in rest))
    assert [each["content"]["parts"][0]["text"] for each in events[:-1]] == [f"word{number} " for number in range(200)]
    assert "errorCode" not in stored(other, session)[-1]


def test_a_run_whose_client_has_gone_is_cancelled(server: Running) -> None:
    """After the grace; the worker is told, and the history is that of a run in process."""
    session = server.new_session()
    with stream(server, "/run_sse", body(session, "hang 2", streaming=True)) as chunks:
        seen = data_of(until(chunks, "word1"))
    (_, end) = over(server, session)
    assert (end["errorCode"], end["interrupted"], end["id"]) == ("INVOCATION_ABORTED", True, seen[0]["id"])


def test_a_run_is_cancelled_by_another_server(fleet: tuple[Running, Running]) -> None:
    """Its stream ends with the event that tells of it; cancelling what is over says so."""
    one, other = fleet
    session = one.new_session()
    with stream(one, "/run_sse", body(session, "tool wait", streaming=True)) as chunks:
        until(chunks, "functionCall")
        assert other.client.post(f"{other.sessions()}/{session}/cancel").json() == {"cancelled": True}
        events = data_of("".join(chunk.decode() for chunk in chunks))
    assert events[-1]["errorCode"] == "INVOCATION_ABORTED"
    assert events[-1] == stored(other, session)[-1]
    assert other.client.post(f"{other.sessions()}/{session}/cancel").json() == {"cancelled": False}


def test_deleting_a_session_cancels_its_runs(fleet: tuple[Running, Running]) -> None:
    """Those that wait, too, whichever server is asked."""
    one, other = fleet
    session = one.new_session()
    with (
        stream(one, "/run_sse", body(session, "hang 1", streaming=True)) as first,
        stream(one, "/run_sse", body(session)) as second,
    ):
        until(first, "word0")
        eventually(lambda: len(runs_of(other, session)) == 2)
        assert other.client.delete(f"{other.sessions()}/{session}").status_code == 200
        list(first)
        list(second)
    assert one.client.get(f"{one.sessions()}/{session}").status_code == 404


# -- one run a session ----------------------------------------------------------------------------------


def test_runs_wait_for_those_of_their_session(fleet: tuple[Running, Running]) -> None:
    """Whichever server has taken them; each is told how many come before it, and its events are never mixed."""
    one, other = fleet
    session = one.new_session()
    with (
        stream(one, "/run_sse", body(session, "hang 1", streaming=True)) as first,
        stream(other, "/run_sse", body(session, "second")) as second,
    ):
        until(first, "word0")
        assert next(second) == b": keep-alive\n\n"
        waiting = runs_of(one, session)
        assert [each["status"] for each in waiting] == ["running", "waiting"]
        assert (waiting[1]["waitsFor"], waiting[1]["position"]) == ("session", 1)
        other.client.post(f"{other.sessions()}/{session}/cancel")
        assert "You said: second" in until(second, "second")
    ids = [event["invocationId"] for event in over(one, session)]
    assert [ids.index(each) for each in ids] == [0, 0, 2, 2]


def test_eight_runs_wait_at_most(server: Running) -> None:
    """The next one is refused."""
    session = server.new_session()
    with ExitStack() as opened:
        until(opened.enter_context(stream(server, "/run_sse", body(session, "hang 1", streaming=True))), "word0")
        for _ in range(8):
            assert opened.enter_context(stream(server, "/run_sse", body(session))).status == 200
        answer = server.client.post("/run_sse", json=body(session))
        assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")
        server.client.delete(f"{server.sessions()}/{session}")


def test_a_second_run_is_refused(place: tuple[str, Path], server: Running) -> None:
    """By a server that rejects, also if another server, or a program without the fleet, has the session."""
    with serving(fleet_app(*place, on_busy="reject")) as strict:
        session = strict.new_session()
        with stream(server, "/run_sse", body(session, "hang 1", streaming=True)) as chunks:
            until(chunks, "word0")
            for path in ("/run", "/run_sse", "/apps/desk/run"):
                answer = strict.client.post(path, json=body(session))
                assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")
                assert answer.headers["retry-after"] == "1"
            strict.client.post(f"{strict.sessions()}/{session}/cancel")
        names = {"app_name": "desk", "user_id": "ann", "session_id": session}
        lease = strict.call(strict.served.sessions.acquire_lease(**names, wait=False))
        assert strict.client.post("/run_sse", json=body(session)).status_code == 409
        strict.call(lease.release())
        assert run(strict, session)


# -- without workers, without code ---------------------------------------------------------------------------


def test_a_run_without_a_worker_waits(tmp_path: Path) -> None:
    """It is told what for, `/ready` tells of no worker, and the first one that comes takes it; its code is not here."""
    where, files = str(tmp_path / "fleet.db"), tmp_path / "files"
    client = RunClient("desk", store(where), auto_create_session=False)
    with serving(app_of(client, keep_alive=0.05)) as server:
        assert server.client.get("/ready").json() == {"status": "ready", "workers": 0}
        assert server.client.get("/list-apps").json() == ["desk"]
        answer = server.client.get("/apps/desk/app-info")
        assert (answer.status_code, answer.json()["code"]) == (404, "app_elsewhere")
        session = server.new_session()
        with stream(server, "/run_sse", body(session)) as chunks:
            assert next(chunks) == b": keep-alive\n\n"
            (waiting,) = runs_of(server, session)
            assert (waiting["status"], waiting["waitsFor"], waiting["position"]) == ("waiting", "worker", 0)
            with a_worker(where, files):
                assert "You said: hello" in until(chunks, "You said")
                assert server.client.get("/ready").json()["workers"] == 1


def test_too_many_runs_that_wait_are_503_with_a_time_to_come_back(tmp_path: Path) -> None:
    """What is refused leaves nothing in the session; once there is room again, it is taken."""
    client = RunClient("desk", store(str(tmp_path / "fleet.db")), auto_create_session=False, max_waiting=1)
    with serving(app_of(client, keep_alive=0.05)) as server:
        first, second = server.new_session(), server.new_session()
        with stream(server, "/run_sse", body(first)) as chunks:
            assert next(chunks) == b": keep-alive\n\n"
            for path in ("/run", "/run_sse"):
                answer = server.client.post(path, json=body(second))
                assert (answer.status_code, answer.json()["code"]) == (503, "queue_full")
                assert float(answer.headers["retry-after"]) > 0
            assert (stored(server, second), runs_of(server, second)) == ([], [])
            server.client.post(f"{server.sessions()}/{first}/cancel")
        with stream(server, "/run_sse", body(second)) as chunks:
            assert chunks.status == 200


@pytest.mark.parametrize("path", ["/run", "/run_sse"])
def test_a_credential_does_not_go_by_the_registry(place: tuple[str, Path], server: Running, path: str) -> None:
    """An answer with one is refused with 501, and neither the log nor the registry has it."""
    session = server.new_session()
    names = {"app_name": "desk", "user_id": "ann", "session_id": session}
    kept = server.call(server.served.sessions.get_session(**names))
    asks = Event(author="desk", invocation_id="i1", content=types.ModelContent(call_part("c1", CREDENTIAL_CALL, {})))
    server.call(server.served.sessions.append_event(kept, asks))
    answer = {"id": "c1", "name": "adk_request_credential", "response": {"authType": "apiKey", "apiKey": "s3cr3t-key"}}
    said = {**body(session), "newMessage": {"role": "user", "parts": [{"functionResponse": answer}]}}
    refused = server.client.post(path, json=said)
    assert (refused.status_code, refused.json()["code"]) == (501, "not_supported")
    assert "Nothing was stored" in refused.json()["detail"]
    assert (len(stored(server, session)), runs_of(server, session)) == (1, [])
    files = [each for each in place[1].parent.iterdir() if each.is_file()]
    assert not [each for each in files if b"s3cr3t-key" in each.read_bytes()]


def test_nothing_is_left_of_streams(server: Running) -> None:
    """No task, and no note of a reader."""

    async def names() -> set[str]:
        tasks = {task.get_name() for task in asyncio.all_tasks()}
        return {name for name in tasks if name.startswith(("flowloom served", "flowloom fleet", "flowloom client"))}

    eventually(lambda: not server.call(names()))
