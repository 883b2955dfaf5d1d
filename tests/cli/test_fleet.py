"""`flowloom worker`, `runs`, `workers` and `schedules`: a fleet from the command line."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import psycopg
import pytest

from cli.process import DESK, flowloom, started, told

QUICK = ("--model", "offline", "--heartbeat", "0.1", "--dead-after", "0.5", "--drain", "5")


@pytest.fixture
def store(tmp_path: Path) -> str:
    return str(tmp_path / "fleet.db")


@pytest.fixture
def fleet(store: str) -> Iterator[Any]:
    """A worker of the travel desk that serves."""
    with started("worker", DESK, "--store", store, *QUICK) as process:
        assert process.stdout.readline() == "up\n"
        yield process
        process.terminate()
        assert process.wait(60) == 0


def data(*args: str) -> Any:
    """What a command prints as JSON."""
    done = flowloom(*args, "--json")
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def submitted(store: str, message: str, *args: str) -> str:
    done = flowloom("runs", "submit", message, "--app", "travel_desk", "--store", store, *args)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


def test_a_run_is_submitted_followed_approved_and_listed(store: str, fleet: Any) -> None:
    """Each step is a command of its own, and the booking is made when it was approved."""
    run = submitted(store, "Book NL103 for Ann Lee", "--user", "ann")
    followed = flowloom("runs", "attach", run, "--store", store)
    assert followed.returncode == 0
    assert "you: Book NL103 for Ann Lee" in followed.stdout
    assert f"Run {run} is paused." in followed.stderr
    shown = data("runs", "show", run, "--store", store)
    [asked] = shown["pending"]
    assert (shown["status"], shown["user_id"], asked["name"]) == ("paused", "ann", "book_flight")
    assert flowloom("runs", "answer", run, "--approve", "--call", asked["id"], "--store", store).returncode == 0
    assert "Booked NL103" in flowloom("runs", "attach", run, "--store", store).stdout
    assert [each["run_id"] for each in data("runs", "list", "--status", "final", "--store", store)] == [run]
    [worker] = data("workers", "--store", store)
    assert (worker["app_name"], worker["capacity"]) == ("travel_desk", 32)


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (("--deltas_host", "10.0.0.5"), "`--deltas_cert`, `--deltas_key`"),
        (("--deltas_port", "7460"), "need `--deltas_host`"),
        (("--insecure_deltas",), "need `--deltas_host`"),
        (("--deltas_host", "127.0.0.1", "--deltas_cert", "none.pem"), "certificate `none.pem`"),
    ],
    ids=lambda value: value[0] if isinstance(value, tuple) else "",
)
def test_deltas_that_cannot_be_are_told_in_a_line(store: str, given: tuple[str, ...], says: str) -> None:
    """What is wrong with the flags, and which of them mends it."""
    done = flowloom("worker", DESK, "--store", store, *QUICK, *given)
    assert (done.returncode, done.stdout) == (2, "")
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_dbos_brings_the_runs_of_a_store_in_postgresql(postgres_dsn: str) -> None:
    """For a worker that is told so; commands submit as they always do."""
    with started("worker", DESK, "--store", postgres_dsn, "--courier", "dbos", *QUICK) as process:
        assert process.stdout.readline() == "up\n"
        run = submitted(postgres_dsn, "hello")
        assert flowloom("runs", "attach", run, "--store", postgres_dsn).returncode == 0
        process.terminate()
        assert process.wait(60) == 0


def test_a_server_has_the_runs_of_its_folder_run_by_workers(store: str, fleet: Any, tmp_path: Path) -> None:
    """`web --fleet`: also those of apps that it has no code of; it keeps files where they do."""
    (tmp_path / "agents").mkdir()
    uri = f"sqlite:///{store}"
    with started("web", tmp_path / "agents", "--port", "0", "--fleet", "--session_service_uri", uri) as process:
        url = process.stdout.readline().split()[-1]
        with httpx.Client(base_url=url, trust_env=False, timeout=60) as client:
            assert client.get("/list-apps").json() == ["travel_desk"]
            assert client.get("/ready").json() == {"status": "ready", "workers": 1}
            session = client.post("/apps/travel_desk/users/ann/sessions").json()["id"]
            message = {"role": "user", "parts": [{"text": "hello"}]}
            said = {"appName": "travel_desk", "userId": "ann", "sessionId": session, "newMessage": message}
            events = client.post("/run", json=said).json()
        assert events[-1]["author"] == "travel_desk"
        assert data("runs", "list", "--store", store)[0]["run_id"] == events[-1]["invocationId"]
        process.terminate()
        assert process.wait(60) in (0, -15)


def test_events_of_a_run_are_lines_of_json(store: str, fleet: Any) -> None:
    """`attach --json` prints the log's events, the message first."""
    run = submitted(store, "hello")
    lines = flowloom("runs", "attach", run, "--store", store, "--json").stdout.splitlines()
    assert [json.loads(line)["author"] for line in lines] == ["user", "travel_desk"]
    again = flowloom("runs", "attach", run, "--after", "1", "--store", store, "--json").stdout.splitlines()
    assert again == lines[1:]


def test_runs_without_a_worker_are_paused_resumed_and_cancelled(store: str) -> None:
    """What is asked of a run that no worker has is done when the command ends; a cancelled one makes `attach` fail."""
    run = submitted(store, "hello", "--id", "r1")
    assert run == submitted(
        store, "hello", "--id", "r1", "--session", data("runs", "show", "r1", "--store", store)["session_id"]
    )
    for command, status in (("pause", "paused"), ("resume", "ready"), ("cancel", "cancelled")):
        assert data("runs", command, "r1", "--store", store)["status"] == status
    done = flowloom("runs", "attach", "r1", "--store", store)
    assert (done.returncode, told(done)) == (1, "Error: Run r1 is cancelled.\n")


def test_schedules_are_put_listed_and_deleted(store: str) -> None:
    """A schedule is kept by its name."""
    put = data("schedules", "put", "report", "0 7 * * *", "Report.", "--app", "desk", "--store", store)
    [listed] = data("schedules", "list", "--app", "desk", "--store", store)
    assert (listed["name"], listed["cron"], listed["next_due"]) == ("report", "0 7 * * *", put["next_due"])
    delete = ("schedules", "delete", "report", "--app", "desk", "--store", store)
    assert flowloom(*delete).returncode == 0
    assert flowloom(*delete).returncode == 2


@pytest.mark.parametrize(
    ("args", "what"),
    [
        (("runs", "show", "nope"), "There is no run `nope`"),
        (("runs", "retry", "r1"), "to retry it, it has to be `failed` or `limit`"),
        (("runs", "answer", "r1", "--approve"), "waits for no answer"),
        (("runs", "answer", "r1"), "Answer with one of `--approve`"),
        (("runs", "list", "--status", "over"), "`over` is no state of a run"),
        (("runs", "submit", "", "--app", "desk", "--user", ""), "needs a user id"),
        (("schedules", "put", "x", "now", "Hi.", "--app", "desk"), "`now` does not say when"),
        (("worker", DESK, "--model", "offline", "--dead-after", "3"), "`dead_after` is at least three beats"),
        (("worker", DESK, "--model", "offline", "--courier", "dbos"), "`DbosCourier` needs PostgreSQL"),
        (("worker", "nowhere"), "There is no file or folder `nowhere`"),
    ],
)
def test_what_cannot_be_used_is_told_and_ends_with_2(store: str, args: tuple[str, ...], what: str) -> None:
    """One line says what was wrong."""
    submitted(store, "hello", "--id", "r1")
    done = flowloom(*args, "--store", store)
    assert done.returncode == 2
    assert what in done.stderr
    assert "Traceback" not in done.stderr


def test_a_store_in_memory_has_no_fleet() -> None:
    """The error says which stores do."""
    done = flowloom("worker", DESK, "--store", "memory", "--model", "offline")
    assert (done.returncode, "SqliteSessionService" in done.stderr) == (2, True)


def test_the_app_is_asked_for_when_the_store_has_several(store: str) -> None:
    """With one, it need not be named."""
    submitted(store, "hello")
    assert flowloom("runs", "submit", "again", "--store", store).returncode == 0
    assert flowloom("runs", "submit", "hi", "--app", "other", "--store", store).returncode == 0
    done = flowloom("runs", "submit", "again", "--store", store)
    assert (done.returncode, "`other`, `travel_desk`" in told(done)) == (2, True)


NIGHT = DESK.parent / "night_shift"
MOODY = """
from pathlib import Path
from flowloom import BaseLlm, LlmAgent, LlmResponse

class Moody(BaseLlm):
    model: str = "moody"

    async def generate_content_async(self, llm_request, stream=False):
        if not (Path(__file__).parent / "mended").exists():
            raise ValueError("Not today.")
        yield LlmResponse(content={"role": "model", "parts": [{"text": "All is well."}]})

root_agent = LlmAgent(name="moody", model=Moody())
"""


def test_a_rejected_call_is_not_made(store: str, fleet: Any) -> None:
    """The model is told why, and the run goes on."""
    run = submitted(store, "Book NL103 for Ann Lee")
    assert flowloom("runs", "attach", run, "--store", store).returncode == 0
    done = flowloom("runs", "answer", run, "--reject", "--reason", "Too expensive.", "--store", store)
    assert done.returncode == 0, done.stderr
    told_of = flowloom("runs", "attach", run, "--store", store, "--json").stdout
    assert "Too expensive." in told_of
    assert "Booked" not in told_of
    assert data("runs", "show", run, "--store", store)["status"] == "final"


def test_a_run_that_failed_is_retried(store: str, tmp_path: Path) -> None:
    """`attach` ends with 1 and says why; `retry` goes on with it, once the cause is mended."""
    folder = tmp_path / "moody"
    folder.mkdir()
    (folder / "agent.py").write_text(MOODY)
    (folder / "__init__.py").write_text("from . import agent\n")
    with started("worker", folder, "--store", store, *QUICK[2:]) as process:
        assert process.stdout.readline() == "up\n"
        run = flowloom("runs", "submit", "Well?", "--app", "moody", "--store", store).stdout.strip()
        done = flowloom("runs", "attach", run, "--store", store)
        assert (done.returncode, "Not today." in done.stderr) == (1, True)
        (folder / "mended").touch()
        assert data("runs", "retry", run, "--store", store)["leg"] == 2
        done = flowloom("runs", "attach", run, "--store", store)
        assert (done.returncode, "All is well." in done.stdout) == (0, True)
        process.terminate()
        assert process.wait(60) == 0


def test_a_worker_that_is_told_to_end_hands_over_what_lasts(store: str, tmp_path: Path) -> None:
    """It says so, ends with 0, and the run is ready for another one; `attach` says that it waits for one."""
    env = {"NIGHT_LEDGER": str(tmp_path / "ledger.db")}
    with started("worker", NIGHT, "--store", store, "--drain", "0", **env) as process:
        assert process.stdout.readline() == "up\n"
        run = flowloom("runs", "submit", "Count.", "--app", "night_shift", "--store", store).stdout.strip()
        end = time.monotonic() + 60
        while not (tmp_path / "ledger.db").exists() and time.monotonic() < end:
            time.sleep(0.02)
        process.terminate()
        assert process.wait(60) == 0
        assert "1 run under way: what lasts longer than 0 s is handed over." in process.stderr.read()
    shown = data("runs", "show", run, "--store", store)
    assert (shown["status"], shown["takeovers"], "worker" in shown) == ("ready", 0, False)
    assert data("workers", "--store", store) == []


@pytest.mark.parametrize(
    "command",
    [
        ("worker",),
        ("workers",),
        *(("runs", name) for name in "submit list show attach cancel pause resume retry answer".split()),
        *(("schedules", name) for name in ("list", "put", "delete")),
    ],
    ids=" ".join,
)
def test_the_help_of_every_command_of_fleets_offers_json_and_no_store_in_memory(command: tuple[str, ...]) -> None:
    """For programs; and runs outlive their process only in a store on the disk."""
    told = flowloom(*command, "--help").stdout
    assert "--json" in told
    assert "`memory`" not in told


def test_what_is_asked_prints_the_run_as_json(store: str) -> None:
    """The row of the run after each change; and the deleted schedule."""
    for name in ("a", "b"):
        made = data("runs", "submit", "hello", "--app", "desk", "--session", "s", "--id", name, "--store", store)
        assert (made["run_id"], made["labels"]) == (name, [])
    assert data("runs", "show", "b", "--store", store)["awaits"] == "session"
    assert [each["run_id"] for each in data("runs", "list", "--store", store)] == ["b", "a"]
    assert data("runs", "cancel", "a", "--after-step", "--store", store)["status"] == "cancelled"
    assert data("runs", "show", "b", "--store", store)["status"] == "ready"
    assert data("workers", "--store", store) == []
    data("schedules", "put", "x", "0 7 * * *", "Hi.", "--app", "desk", "--store", store)
    assert data("schedules", "delete", "x", "--app", "desk", "--store", store) == {"name": "x", "deleted": True}


def test_on_postgresql_dbos_brings_the_runs_if_it_is_installed(postgres_dsn: str) -> None:
    """Without being told so; the queue is that of the app."""
    with started("worker", DESK, "--store", postgres_dsn, *QUICK) as process:
        assert process.stdout.readline() == "up\n"
        with psycopg.connect(postgres_dsn, autocommit=True) as connection:
            names, end = "SELECT name FROM flowloom_dbos.queues", time.monotonic() + 60
            while ("flowloom.travel_desk",) not in connection.execute(names).fetchall():
                assert time.monotonic() < end
                time.sleep(0.05)
        process.terminate()
        assert process.wait(60) == 0


def test_without_dbos_a_second_worker_on_postgresql_says_what_to_install(postgres_dsn: str, tmp_path: Path) -> None:
    """The first works without a word, and so does the second then; a DBOS that is asked for is an error."""
    (tmp_path / "dbos.py").write_text("raise ImportError('No module named dbos', name='dbos')")
    command = ("worker", DESK, "--store", postgres_dsn, *QUICK)
    path = os.pathsep.join([str(tmp_path), *sys.path])
    with started(*command, fresh=True, PYTHONPATH=path) as first:
        assert first.stdout.readline() == "up\n"
        with started(*command, fresh=True, PYTHONPATH=path) as second:
            assert second.stdout.readline() == "up\n"
            second.terminate()
            assert 'pip install "flowloom[dbos]"' in second.stderr.read()
        first.terminate()
        assert "dbos" not in first.stderr.read()
    done = flowloom(*command, "--courier", "dbos", fresh=True, PYTHONPATH=path)
    assert done.returncode == 2
    assert "`DbosCourier` needs DBOS" in done.stderr
    assert 'pip install "flowloom[dbos]"' in done.stderr
