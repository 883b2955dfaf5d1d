"""Servers and workers of a fleet that are killed or stopped while runs go on (durable design, section 6)."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from server.fleet_processes import a_server, a_worker, fleet_app, ids_of, over
from server.serving import PATIENCE, Running, eventually, serving
from server.talker import body, data_of, runs_of, stored, stream, until

LONG = bool(os.environ.get("FLOWLOOM_LONG"))
PLACES = ["sqlite-store", "postgres-dbos", *(["postgres-store"] if LONG else [])]


@pytest.fixture(params=PLACES)
def place(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[str, Path, str]:
    """A store, the folder of its files, and the courier of its fleet."""
    kind, _, courier = request.param.partition("-")
    where = str(tmp_path / "fleet.db") if kind == "sqlite" else request.getfixturevalue("postgres_dsn")
    return where, tmp_path / "files", courier


def path_of(server: Running, session: str, seen: str) -> str:
    """Where a run is followed."""
    return f"{server.sessions()}/{session}/runs/{data_of(seen)[0]['invocationId']}/events"


def words(events: list[dict[str, Any]]) -> str:
    """What was said in parts."""
    return "".join(each["content"]["parts"][0]["text"] for each in events if each.get("partial"))


def test_a_server_that_is_killed_loses_no_run(place: tuple[str, Path, str]) -> None:
    """Killed in mid-stream; another one goes on with the stream, from the frame that came last, to its end."""
    where, files, courier = place
    with a_worker(*place), serving(fleet_app(where, files, courier)) as other:
        with a_server(*place) as (process, one):
            session = one.new_session()
            with stream(one, "/run_sse", body(session, "pace 200", streaming=True)) as chunks:
                seen = until(chunks, "word3 ")
                process.send_signal(signal.SIGKILL)
                process.wait()
        (going,) = runs_of(other, session)
        assert going["status"] == "running"
        with stream(other, path_of(other, session, seen), Last_Event_ID=ids_of(seen)[-1]) as rest:
            events = data_of(seen) + data_of("".join(chunk.decode() for chunk in rest))
        assert words(events) == "".join(f"word{number} " for number in range(200))
        assert events[-1] == stored(other, session)[-1]
        assert "errorCode" not in events[-1]


@pytest.mark.soak
def test_a_server_that_is_stopped_leaves_its_runs_to_the_fleet(tmp_path: Path) -> None:
    """Its streams get the grace, and end with a frame that says so, under the id of the one before; another server has
    the rest."""
    where, files = str(tmp_path / "fleet.db"), tmp_path / "files"
    with a_worker(where, files), serving(fleet_app(where, files)) as other:
        with a_server(where, files, shutdown_grace=1.0) as (process, one):
            session = one.new_session()
            with stream(one, "/run_sse", body(session, "pace 300", streaming=True)) as chunks:
                seen = until(chunks, "word3 ")
                process.send_signal(signal.SIGTERM)
                answer = eventually(lambda: one.client.get("/ready").status_code == 503)
                assert answer
                assert one.client.post("/run_sse", json=body(session)).json()["code"] == "shutting_down"
                seen += "".join(chunk.decode() for chunk in chunks)
            one.client.close()
            assert process.wait(PATIENCE) in (0, -signal.SIGTERM)
        *events, last = data_of(seen)
        assert last["error_details"]["error_type"] == "shutting_down"
        assert "Last-Event-ID" in last["error"]
        assert ids_of(seen)[-1] == ids_of(seen)[-2]
        with stream(other, path_of(other, session, seen), Last_Event_ID=ids_of(seen)[-1]) as rest:
            events += data_of("".join(chunk.decode() for chunk in rest))
        assert words(events) == "".join(f"word{number} " for number in range(300))
        assert "errorCode" not in stored(other, session)[-1]


def test_a_stream_goes_on_when_its_worker_is_killed(tmp_path: Path) -> None:
    """The message that broke off is said anew under another id, its parts come behind all that came before, and the
    log is that of a quiet run."""
    where, files = str(tmp_path / "fleet.db"), tmp_path / "files"
    with a_worker(where, files) as first, serving(fleet_app(where, files)) as server:
        session = server.new_session()
        with stream(server, "/run_sse", body(session, "pace 200", streaming=True)) as chunks:
            seen = until(chunks, "word3 ")
            first.kill()
            with a_worker(where, files):
                seen += "".join(chunk.decode() for chunk in chunks)
    events = data_of(seen)
    broken, said = dict.fromkeys(event["id"] for event in events)
    assert words([event for event in events if event["id"] == said]) == "".join(f"word{n} " for n in range(200))
    assert events[-1]["content"]["parts"][0]["text"] == words([event for event in events if event["id"] == said])
    assert broken != said
    places = [tuple(map(int, each.rpartition(":")[2].split("."))) for each in ids_of(seen)]
    assert places == sorted(set(places))


@pytest.mark.soak
def test_a_person_who_answers_needs_none_of_the_processes_that_asked(tmp_path: Path) -> None:
    """Server and worker are gone; the answer to a new server is carried out by a new worker, under the same id."""
    where, files = str(tmp_path / "fleet.db"), tmp_path / "files"
    with a_worker(where, files), serving(fleet_app(where, files)) as one:
        session = one.new_session()
        asked = data_of(one.client.post("/run_sse", json=body(session, "tool book")).text)
    with serving(fleet_app(where, files)) as other:
        (paused,) = runs_of(other, session)
        response = {
            "id": paused["pending"][0]["id"],
            "name": "adk_request_confirmation",
            "response": {"confirmed": True},
        }
        answer = {"role": "user", "parts": [{"functionResponse": response}]}
        with stream(other, "/run_sse", body(session, None, newMessage=answer)) as chunks, a_worker(where, files):
            events = data_of("".join(chunk.decode() for chunk in chunks))
        assert "booked" in json.dumps(events)
        assert {each["invocationId"] for each in events} == {asked[0]["invocationId"]}


@pytest.mark.soak
@pytest.mark.timeout(600)
def test_servers_that_are_killed_lose_no_run_however_often(place: tuple[str, Path, str]) -> None:
    """Twenty runs, each begun at a server that is killed in mid-stream, with workers that are killed, too: each is read
    to its end at another one, its parts without a gap, and the logs are those of quiet runs."""
    where, files, courier = place
    with a_worker(*place), serving(fleet_app(where, files, courier)) as other:
        for number in range(20):
            with a_worker(*place) as second, a_server(*place) as (process, one):
                session = one.new_session()
                with stream(one, "/run_sse", body(session, "pace 150", streaming=True)) as chunks:
                    seen = until(chunks, f"word{3 + number * 5} ")
                    process.kill()
                if number % 3 == 0:
                    second.kill()
                with stream(other, path_of(other, session, seen), Last_Event_ID=ids_of(seen)[-1]) as rest:
                    events = data_of(seen) + data_of("".join(chunk.decode() for chunk in rest))
            final = events[-1]
            assert final["content"]["parts"][0]["text"] == "".join(f"word{n} " for n in range(150))
            parts = words([event for event in events if event["id"] == final["id"]])
            assert parts == final["content"]["parts"][0]["text"]
            assert [event["author"] for event in over(other, session)] == ["user", "desk"]
