"""`flowloom runs`: what may be asked of a run in each of its states, twice, and of none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from durable.fleet import APP, client_of, opened, worker_of

from cli.process import here, told
from flowloom import FunctionTool
from flowloom.testing import call
from flowloom.testing.suites.courier_place import until_async


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "fleet.db") if request.param == "sqlite" else request.getfixturevalue("postgres_dsn")


async def pay() -> str:
    """Pay."""
    return "paid"


def brought(store: str, answers: Sequence[Any], *runs: str, wanted: str) -> None:
    """Have a worker bring such runs into a state; then it ends."""

    async def work() -> None:
        service = opened(store)
        tool = FunctionTool(pay, require_confirmation=True)
        async with client_of(service) as client, worker_of(service, answers, tool):
            for run_id in runs:
                run = await client.submit("Go.", user_id="user", session_id=f"s-{run_id}", run_id=run_id)

                async def there(run: Any = run) -> bool:
                    return await run.status() == wanted

                await until_async(there)
        await service.close()

    asyncio.run(work())


def gone_on(store: str, run_id: str, answers: Sequence[Any]) -> None:
    """Have a worker go on with a run to its end; then it ends."""

    async def work() -> None:
        service = opened(store)
        tool = FunctionTool(pay, require_confirmation=True)
        async with client_of(service) as client, worker_of(service, answers, tool):
            assert (await asyncio.wait_for((await client.attach(run_id)).result(), 20)).status == "final"
        await service.close()

    asyncio.run(work())


def asked(store: str, *args: str) -> tuple[int, str]:
    """The exit code of a command, and what it said: the state, or the error."""
    done = here("runs", *args, "--store", store)
    return done.returncode, done.stdout.strip() if done.returncode == 0 else told(done)


def test_a_decision_counts_once(store: str) -> None:
    """The same again is no mistake, before the run has gone on and after; another one is told and changes nothing."""
    brought(store, [call("pay")], "r1", wanted="paused")
    [request] = json.loads(here("runs", "show", "r1", "--json", "--store", store).stdout)["pending"]
    about = ("--call", request["id"])
    assert asked(store, "answer", "r1", "--approve") == (0, "ready")
    assert asked(store, "answer", "r1", "--approve", *about) == (0, "ready")
    code, words = asked(store, "answer", "r1", "--reject", *about)
    assert (code, "was answered already" in words) == (2, True)
    gone_on(store, "r1", ["Paid."])
    assert asked(store, "answer", "r1", "--approve", *about) == (0, "final")
    code, words = asked(store, "answer", "r1", "--reject", *about)
    assert (code, "answered" in words) == (2, True)
    assert asked(store, "answer", "r1", "--approve")[0] == 2
    code, words = asked(store, "answer", "r1", "--approve", "--call", "nope")
    assert (code, "Run `r1` is `final`" in words) == (2, True)


def test_a_request_that_was_never_made_cannot_be_answered(store: str) -> None:
    """The run waits as before."""
    brought(store, [call("pay")], "r1", wanted="paused")
    for given in (("--approve",), ("--reject",), ("--reply", "5")):
        code, words = asked(store, "answer", "r1", *given, "--call", "nope")
        assert (code, "request `nope`" in words) == (2, True)
    assert asked(store, "pause", "r1") == (0, "paused")


def test_a_run_that_is_over_stays_as_it_is(store: str) -> None:
    """To stop it changes nothing, as often as it is asked; what would go on with it is refused."""
    brought(store, ["Hi."], "r1", wanted="final")
    for command in ("cancel", "cancel", "pause"):
        assert asked(store, command, "r1") == (0, "final")
    for command, states in (("resume", "`paused`"), ("retry", "`failed` or `limit`")):
        code, words = asked(store, command, "r1")
        assert (code, f"Run `r1` is `final`: to {command} it, it has to be {states}." in words) == (2, True)


def test_a_run_whose_session_was_deleted_has_nothing_to_show(store: str) -> None:
    """`attach` says so, and ends with 2; its row tells the rest."""
    brought(store, ["Hi."], "r1", wanted="final")
    assert here("sessions", "delete", "s-r1", "--store", store).returncode == 0
    for form in ((), ("--json",)):
        done = here("runs", "attach", "r1", *form, "--store", store)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Session `s-r1` of run `r1` was deleted" in told(done)
    assert json.loads(here("runs", "show", "r1", "--json", "--store", store).stdout)["status"] == "final"


@pytest.mark.parametrize(
    ("args", "words"),
    [
        (("submit", "Go.", "--id", ""), "The `--id` is empty"),
        (("submit", "Go.", "--session", " "), "is no name for a session"),
        (("list", "--limit", "99999999999999999999"), "A `limit` is from 1 to 1000000"),
    ],
)
def test_what_tells_nothing_apart_is_refused(tmp_path: Path, args: tuple[str, ...], words: str) -> None:
    """Nothing is submitted."""
    store = str(tmp_path / "fleet.db")
    assert here("runs", "submit", "Go.", "--app", APP, "--store", store).returncode == 0
    done = here("runs", *args, "--app", APP, "--store", store)
    assert (done.returncode, words in done.stderr, "Traceback" in done.stderr) == (2, True, False)
    assert len(json.loads(here("runs", "list", "--store", store, "--json").stdout)) == 1
