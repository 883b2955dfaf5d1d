"""Runs that are left, cancelled, queued, followed and slow to be read (server spec §5, §9)."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from http.client import HTTPConnection
from typing import Any

import pytest
from server.serving import Running, eventually, serving
from server.talker import body, data_of, run, runs_of, settled, stored, stream, talker, until

from flowloom.server import app_of, event_streams, runs, served_run


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server where runs wait for those of their session."""
    with serving(app_of(talker(), keep_alive=0.05)) as running:
        yield running


@pytest.fixture(scope="module")
def strict() -> Iterator[Running]:
    """A server that refuses a second run of a session."""
    with serving(app_of(talker(), on_busy="reject")) as running:
        yield running


def last_id(seen: str) -> str:
    """The id of the last frame."""
    return [line.removeprefix("id: ") for line in seen.split("\n") if line.startswith("id: ")][-1]


def tasks(server: Running) -> set[str]:
    """The tasks of the server that belong to runs."""

    async def names() -> set[str]:
        return {task.get_name() for task in asyncio.all_tasks() if task.get_name().startswith("flowloom")}

    return server.call(names())


# -- clients that go ------------------------------------------------------------------------------------


def test_a_client_that_goes_cancels_its_run(server: Running) -> None:
    """The text so far stands in the event that tells of it, under the id of its partial events."""
    session = server.new_session()
    with stream(server, "/run_sse", body(session, "hang 2", streaming=True)) as chunks:
        seen = data_of(until(chunks, "word1"))
    (_, end) = settled(server, session)
    assert (end["errorCode"], end["interrupted"], end["id"]) == ("INVOCATION_ABORTED", True, seen[0]["id"])
    assert end["content"]["parts"] == [{"text": "word0 word1 "}]
    assert not tasks(server)


def test_a_client_that_goes_is_noticed_while_nothing_is_sent(server: Running) -> None:
    """The tool under way is cancelled, and its call closed."""
    session = server.new_session()
    with stream(server, "/run_sse", body(session, "tool wait")) as chunks:
        until(chunks, "functionCall")
    *_, answer, end = settled(server, session)
    assert "error" in answer["content"]["parts"][0]["functionResponse"]["response"]
    assert end["errorCode"] == "INVOCATION_ABORTED"
    assert run(server, session)[-1]["content"]["parts"][0]["text"] == "You said: hello"


def test_a_client_that_goes_from_a_list_is_in_the_log(server: Running, caplog: pytest.LogCaptureFixture) -> None:
    """As 499; its run is cancelled."""
    session = server.new_session()
    with caplog.at_level(logging.INFO, "flowloom.server"):
        connection = HTTPConnection(server.url.removeprefix("http://"))
        connection.request("POST", "/run", json.dumps(body(session, "hang 2")), {"content-type": "application/json"})
        eventually(lambda: [each["status"] for each in runs_of(server, session)] == ["running"])
        connection.close()
        assert settled(server, session)[-1]["errorCode"] == "INVOCATION_ABORTED"
        eventually(lambda: '"POST /run" 499' in caplog.text)


def test_silence_is_broken_by_comments(server: Running) -> None:
    """`: keep-alive`, as often as the server is told to."""
    with stream(server, "/run_sse", body(server.new_session(), "hang 1", streaming=True)) as chunks:
        until(chunks, "word0")
        assert [next(chunks) for _ in range(3)] == [b": keep-alive\n\n"] * 3


# -- several runs of a session ---------------------------------------------------------------------------


def test_a_second_run_is_refused(strict: Running) -> None:
    """409, and when to try again."""
    session = strict.new_session()
    with stream(strict, "/run_sse", body(session, "hang 1", streaming=True)) as chunks:
        until(chunks, "word0")
        for path in ("/run", "/run_sse", "/apps/desk/run"):
            answer = strict.client.post(path, json=body(session))
            assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")
            assert answer.headers["retry-after"] == "1"
        assert run(strict, strict.new_session())
    settled(strict, session)
    assert run(strict, session)


def test_runs_wait_for_those_of_their_session(server: Running) -> None:
    """They begin one after another, with comments meanwhile; the events of two are never mixed."""
    session = server.new_session()
    with (
        stream(server, "/run_sse", body(session, "hang 1", streaming=True)) as first,
        stream(server, "/run_sse", body(session, "second")) as second,
    ):
        until(first, "word0")
        assert next(second) == b": keep-alive\n\n"
        assert [each["status"] for each in runs_of(server, session)] == ["running", "waiting"]
        server.client.post(f"{server.sessions()}/{session}/cancel")
        assert "You said: second" in until(second, "second")
    ids = [event["invocationId"] for event in stored(server, session)]
    assert [ids.index(each) for each in ids] == [0, 0, 2, 2]


def test_eight_runs_wait_at_most(server: Running) -> None:
    """The next one is refused; one whose client goes leaves the line."""
    session = server.new_session()
    with ExitStack() as opened:
        until(opened.enter_context(stream(server, "/run_sse", body(session, "hang 1", streaming=True))), "word0")
        for _ in range(8):
            assert opened.enter_context(stream(server, "/run_sse", body(session))).status == 200
        answer = server.client.post("/run_sse", json=body(session))
        assert (answer.status_code, answer.json()["code"]) == (409, "session_busy")
    settled(server, session)
    assert [event["author"] for event in stored(server, session)] == ["user", "desk"]


# -- cancelling ---------------------------------------------------------------------------------------------


def test_a_run_is_cancelled_from_elsewhere(server: Running) -> None:
    """Its stream ends with the event that tells of it; cancelling what is over says so."""
    session = server.new_session()
    with stream(server, "/run_sse", body(session, "hang 2", streaming=True)) as chunks:
        until(chunks, "word1")
        assert server.client.post(f"{server.sessions()}/{session}/cancel").json() == {"cancelled": True}
        events = data_of("".join(chunk.decode() for chunk in chunks))
    assert events[-1]["errorCode"] == "INVOCATION_ABORTED"
    assert events[-1] == stored(server, session)[-1]
    assert server.client.post(f"{server.sessions()}/{session}/cancel").json() == {"cancelled": False}
    assert server.client.post(f"{server.sessions()}/nowhere/cancel").status_code == 404


def test_deleting_a_session_cancels_its_runs(server: Running) -> None:
    """Those that wait, too, and say why; nothing of the session comes back."""
    session = server.new_session()
    with (
        stream(server, "/run_sse", body(session, "hang 1", streaming=True)) as first,
        stream(server, "/run_sse", body(session)) as second,
        ThreadPoolExecutor() as threads,
    ):
        until(first, "word0")
        third = threads.submit(server.client.post, "/run", json=body(session))
        eventually(lambda: len(runs_of(server, session)) == 3)
        assert server.client.delete(f"{server.sessions()}/{session}").status_code == 200
        list(first)
        assert data_of(b"".join(second).decode())[-1]["error"] == "session_not_found: Session not found"
        assert (third.result().status_code, third.result().json()["code"]) == (404, "session_not_found")
    assert server.client.get(f"{server.sessions()}/{session}").status_code == 404
    assert not tasks(server)


def test_state_is_changed_while_a_run_goes_on(server: Running, held: threading.Event) -> None:
    """Both are kept."""
    session = server.new_session()
    with stream(server, "/run_sse", body(session, "held 20", streaming=True)) as chunks:
        until(chunks, "word1")
        changed = {"stateDelta": {"name": "x"}}
        assert server.client.patch(f"{server.sessions()}/{session}", json=changed).status_code == 200
        held.set()
        list(chunks)
    assert [event["author"] for event in stored(server, session)] == ["user", "user", "desk"]
    assert server.client.get(f"{server.sessions()}/{session}").json()["state"] == {"name": "x"}


def test_runs_that_wait_for_a_person_are_listed(server: Running) -> None:
    """With what they wait for."""
    session = server.new_session()
    asked = run(server, session, "tool book")
    (paused,) = runs_of(server, session)
    assert (paused["invocationId"], paused["status"]) == (asked[0]["invocationId"], "paused")
    (call,) = paused["pending"]
    assert (call["kind"], call["name"], call["agent"]) == ("confirmation", "book", "desk")


# -- following ----------------------------------------------------------------------------------------------


def follow(server: Running, session: str, invocation: str) -> str:
    """The path of a run's events."""
    return f"{server.sessions()}/{session}/runs/{invocation}/events"


def test_a_run_goes_on_for_those_who_come_back(server: Running, held: threading.Event) -> None:
    """With a grace, a lost client finds the rest of its run, each event once."""
    session = server.new_session()
    with stream(server, "/run_sse?resume_grace=60", body(session, "held 30", streaming=True)) as chunks:
        seen = until(chunks, "word3")
    invocation = data_of(seen)[0]["invocationId"]
    with stream(server, follow(server, session, invocation), Last_Event_ID=last_id(seen)) as rest:
        held.set()
        events = data_of(seen) + data_of("".join(chunk.decode() for chunk in rest))
    said = [event["content"]["parts"][0]["text"] for event in events]
    assert said[:-1] == [f"word{number} " for number in range(30)]
    assert events[-1] == stored(server, session)[-1]


def test_a_run_is_cancelled_when_nobody_comes_back(server: Running) -> None:
    """After its grace."""
    session = server.new_session()
    with stream(server, "/run_sse?resume_grace=0.2", body(session, "hang 1", streaming=True)) as chunks:
        until(chunks, "word0")
    left = time.monotonic()
    time.sleep(0.05)
    going = [each["status"] for each in runs_of(server, session)]
    assert going == ["running"] or time.monotonic() > left + 0.2
    assert settled(server, session)[-1]["errorCode"] == "INVOCATION_ABORTED"


@pytest.mark.parametrize("grace", ["61", "-1", "long"])
def test_a_grace_has_bounds(server: Running, grace: str) -> None:
    """0 to 60 seconds."""
    answer = server.client.post(f"/run_sse?resume_grace={grace}", json=body(server.new_session()))
    assert answer.status_code == 422


def test_several_follow_one_run(server: Running, held: threading.Event) -> None:
    """All get the same frames, from its beginning if they name none; the run goes on while one of them reads."""
    session = server.new_session()
    with stream(server, "/run_sse", body(session, "held 30", streaming=True)) as first:
        seen = until(first, "word1")
        second = stream(server, follow(server, session, data_of(seen)[0]["invocationId"]))
        with second as chunks:
            until(chunks, "word1")
            first.close()
            held.set()
            rest = "".join(chunk.decode() for chunk in chunks)
    assert data_of(rest)[-1] == settled(server, session)[-1]
    assert "errorCode" not in stored(server, session)[-1]


def test_a_run_that_is_over_is_read_from_the_session(server: Running) -> None:
    """Its complete events, under ids that a client goes on from; what is not there is 404."""
    session = server.new_session()
    run(server, session, "before")
    seen = server.client.post("/run_sse", json=body(session, "tool save", streaming=True)).text
    events = data_of(seen)
    path = follow(server, session, events[0]["invocationId"])
    stale = server.client.get(path)
    assert data_of(stale.text)[0]["id"] == events[0]["id"]
    assert [each for each in data_of(stale.text) if not each.get("partial")] == events
    assert data_of(server.client.get(path, headers={"Last-Event-ID": last_id(seen)}).text) == []
    first = next(line.removeprefix("id: ") for line in seen.split("\n") if line.startswith("id: "))
    assert data_of(server.client.get(path, headers={"Last-Event-ID": first}).text) == events[1:]
    assert server.client.get(path, headers={"Last-Event-ID": "x"}).json()["code"] == "invalid_event_id"
    assert server.client.get(follow(server, session, "e-nowhere")).status_code == 404
    assert server.client.get(follow(server, "nowhere", "e-nowhere")).status_code == 404


def test_a_run_that_ends_while_it_is_looked_for_is_told_to_its_end(
    server: Running, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its last events are stored after its session was read."""
    session = server.new_session()
    get = server.served.sessions.get_session

    async def get_session(**given: Any) -> Any:
        found = await get(**given)
        for each in server.served.runs.of(("desk", "ann", session)):
            await each.ended.wait()
        return found

    with stream(server, "/run_sse", body(session, "pace 20", streaming=True)) as chunks:
        seen = until(chunks, "word1")
        monkeypatch.setattr(server.served.sessions, "get_session", get_session)
        rest = server.client.get(follow(server, session, data_of(seen)[0]["invocationId"])).text
    assert data_of(rest) == [stored(server, session)[-1]]


def test_what_is_not_kept_any_more_is_gone(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """410; who names no event gets what is kept."""
    monkeypatch.setattr(served_run, "KEPT_FRAMES", 10)
    session = server.new_session()
    with stream(server, "/run_sse", body(session, "hang 40", streaming=True)) as chunks:
        seen = until(chunks, "word39")
        ids = [line.removeprefix("id: ") for line in seen.split("\n") if line.startswith("id: ")]
        path = follow(server, session, ids[0].partition(":")[0])
        answer = server.client.get(path, headers={"Last-Event-ID": ids[5]})
        assert (answer.status_code, answer.json()["code"]) == (410, "gone")
        with stream(server, path) as others:
            assert "word30 " in next(others).decode()
        with stream(server, path, Last_Event_ID=ids[35]) as others:
            assert "word36 " in next(others).decode()


def test_what_all_runs_keep_is_bounded(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each has an equal part of the room for frames that were read; a run alone has all that one may have."""
    monkeypatch.setattr(runs, "KEPT_BYTES_OF_ALL", 12_000)
    sessions = [server.new_session() for _ in range(3)]
    with ExitStack() as stack:
        for session in sessions:
            chunks = stack.enter_context(stream(server, "/run_sse", body(session, "hang 60", streaming=True)))
            until(chunks, "word59")
        kept = [
            sum(len(frame.chunk) for frame in run.frames)
            for session in sessions
            for run in server.served.runs.of(("desk", "ann", session))
        ]
    assert len(kept) == 3
    assert kept[0] <= 12_000
    assert kept[1] <= 6_000
    assert kept[2] <= 4_000
    assert min(kept) > 3_000


def test_a_stream_has_three_tasks(server: Running) -> None:
    """Its request, its run, and what notices that the client goes; however much is streamed."""

    async def count() -> int:
        return len(asyncio.all_tasks())

    sessions = [server.new_session() for _ in range(5)]
    before = server.call(count())
    with ExitStack() as stack:
        for session in sessions:
            chunks = stack.enter_context(stream(server, "/run_sse", body(session, "hang 60", streaming=True)))
            until(chunks, "word59")
        assert server.call(count()) - before <= 3 * len(sessions)


# -- slow clients -------------------------------------------------------------------------------------------


def test_a_run_waits_for_a_slow_client(server: Running) -> None:
    """Some frames wait, and no more; when the client reads, the run goes on to its end."""
    session = server.new_session()
    with stream(server, "/run_sse", body(session, "flood 800", streaming=True), buffer=4096) as chunks:
        next(chunks)
        (going,) = server.served.runs.of(("desk", "ann", session))
        reached, before = 1, 0
        while reached != before:
            time.sleep(0.2)
            before, reached = reached, going.first + len(going.frames)
        assert reached < 790
        assert sum(chunk.startswith(b"id: ") for chunk in chunks) == 800


def test_a_client_that_takes_nothing_counts_as_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its run is cancelled; no task stays, and no connection."""
    monkeypatch.setattr(event_streams, "STALLED_SECONDS", 0.2)
    with (
        serving(app_of(talker())) as server,
        stream(
            server, "/run_sse", body(session := server.new_session(), "flood 5000", streaming=True), buffer=4096
        ) as chunks,
    ):
        next(chunks)
        assert settled(server, session)[-1]["errorCode"] == "INVOCATION_ABORTED"
        connections = server.server.server_state.connections
        eventually(lambda: not tasks(server))
        eventually(lambda: len(connections) <= 1)  # that of the client that asks for sessions


# -- the server itself ---------------------------------------------------------------------------------------


def test_streams_are_limited() -> None:
    """503, and when to try again."""
    with (
        serving(app_of(talker(), max_streams=1)) as server,
        stream(server, "/run_sse", body(server.new_session(), "hang 1", streaming=True)) as chunks,
    ):
        until(chunks, "word0")
        answer = server.client.post("/run_sse", json=body(server.new_session()))
        assert (answer.status_code, answer.json()["code"]) == (503, "too_many_streams")
        assert answer.headers["retry-after"] == "1"


def test_a_server_that_is_ready_says_so(server: Running) -> None:
    """The store answers."""
    assert server.client.get("/ready").json() == {"status": "ready"}


def test_a_server_without_its_store_is_not_ready(server: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """503, with what does not answer."""

    async def broken(**_: Any) -> None:
        raise OSError("no route to host")

    monkeypatch.setattr(server.served.sessions, "get_session", broken)
    answer = server.client.get("/ready")
    assert (answer.status_code, answer.json()["code"]) == (503, "not_ready")
    assert "session store" in answer.json()["detail"]
    assert server.client.get("/health").status_code == 200


def test_a_server_that_stops_gives_its_runs_a_grace() -> None:
    """No run begins meanwhile; those that go on are cancelled then, and an error frame says why."""
    with serving(app_of(talker())) as server:
        session = server.new_session()
        with stream(server, "/run_sse", body(session, "hang 1", streaming=True)) as chunks:
            until(chunks, "word0")
            closing = threading.Thread(target=server.call, args=(server.served.runs.close(0.3),))
            closing.start()
            eventually(lambda: server.client.get("/ready").status_code == 503)
            for path in ("/run", "/run_sse"):
                answer = server.client.post(path, json=body(server.new_session()))
                assert (answer.status_code, answer.json()["code"]) == (503, "shutting_down")
            assert server.client.get("/ready").json()["code"] == "shutting_down"
            end, why = data_of("".join(chunk.decode() for chunk in chunks))
            closing.join()
    assert end["errorCode"] == "INVOCATION_ABORTED"
    assert why["error_details"]["error_type"] == "shutting_down"


# -- the flat form ---------------------------------------------------------------------------------------------


def test_the_flat_form_tells_the_same_run(server: Running) -> None:
    """Deltas, the message, and an object that says that it is done, each a chunk of its own."""
    with stream(server, "/apps/desk/run", body(server.new_session(), "say 2", streaming=True)) as chunks:
        seen = [data_of(chunk.decode())[0] for chunk in chunks]
    assert [each["type"] for each in seen if each["type"] != "metadata"] == ["delta", "delta", "message", "done"]
    assert seen[-1] == {"type": "done"}
    assert seen[-2]["data"]["text"] == "word0 word1 "


def test_the_flat_form_of_a_failure(server: Running) -> None:
    """It has a code and a message."""
    answer = server.client.post("/apps/desk/run", json=body(server.new_session(), "fail"))
    errors = [each["data"] for each in data_of(answer.text) if each["type"] == "error"]
    assert {(each["code"], each["message"]) for each in errors} == {("RuntimeError", "model exploded")}


def test_the_flat_form_as_a_list(server: Running) -> None:
    """For those who accept JSON."""
    given = body(server.new_session(), "say 2")
    answer = server.client.post("/apps/desk/run", json=given, headers={"accept": "application/json"})
    assert answer.headers["content-type"] == "application/json"
    assert [each["type"] for each in answer.json()] == ["message", "done"]


def test_the_flat_form_is_of_the_app_in_the_path(server: Running) -> None:
    """Another one in the body is refused."""
    answer = server.client.post("/apps/desk/run", json=body(server.new_session(), appName="other"))
    assert answer.status_code == 400


def test_the_list_of_a_run_that_is_cancelled_has_its_end(server: Running) -> None:
    """It is no failure of the server."""
    session = server.new_session()
    answers: list[Any] = []

    def ask() -> None:
        answers.append(server.client.post("/run", json=body(session, "tool wait")))

    asking = threading.Thread(target=ask)
    asking.start()
    eventually(lambda: any(event["author"] == "desk" for event in stored(server, session)))
    server.client.post(f"{server.sessions()}/{session}/cancel")
    asking.join()
    assert answers[0].status_code == 200
    assert json.loads(answers[0].text)[-1]["errorCode"] == "INVOCATION_ABORTED"
