"""`flowloom sessions prune`: what was not used for long is deleted, and nothing that is needed still."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import Any

import kit
import pytest
from typer import BadParameter

from cli.process import exported, flowloom, here, told
from flowloom import PostgresSessionService, SqliteSessionService
from flowloom.artifacts.files import FileArtifactService
from flowloom.cli.durations import duration
from flowloom.durable import RunClient
from flowloom.sessions.sql_service import SqlSessionService

DAY = 86_400.0


@pytest.fixture(params=["sqlite", pytest.param("postgres", marks=pytest.mark.soak)])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    return str(tmp_path / "chats.db") if request.param == "sqlite" else request.getfixturevalue("postgres_dsn")


def opened(store: str) -> SqlSessionService:
    return PostgresSessionService(store) if "://" in store else SqliteSessionService(store)


def keep(store: str, *names: str, days: float, app: str = "shop", user: str = "user") -> None:
    """Put sessions into a store that were used last so many days ago."""

    async def work() -> None:
        service = opened(store)
        for name in names:
            session = await service.create_session(app_name=app, user_id=user, session_id=name)
            event = kit.event("user", "Hello.", id=f"{app}-{user}-{name}", timestamp=time.time() - days * DAY)
            await service.append_event(session, event)
        await service.close()

    asyncio.run(work())


def left(store: str) -> list[str]:
    done = here("sessions", "list", "--store", store, "--json")
    return sorted(row["session"] for row in json.loads(done.stdout))


def pruned(store: str, *args: str) -> dict[str, Any]:
    """What the command prints as JSON, each session by its name."""
    done = here("sessions", "prune", "--store", store, *args, "--json")
    assert (done.returncode, done.stderr) == (0, "")
    return json.loads(done.stdout)


def test_sessions_that_are_older_are_deleted(store: str) -> None:
    """It says how many and which, the oldest first; younger ones stay."""
    keep(store, "old", days=40)
    keep(store, "older", days=50)
    keep(store, "young", days=20)
    dry = flowloom("sessions", "prune", "--older-than", "30d", "--dry-run", "--store", store)
    assert (dry.returncode, dry.stderr) == (0, "2 sessions would be deleted.\n")
    assert left(store) == ["old", "older", "young"]
    done = here("sessions", "prune", "--older-than", "30d", "--store", store)
    assert (done.returncode, done.stderr) == (0, "2 sessions deleted.\n")
    assert [line.split()[:3] for line in done.stdout.splitlines()[1:]] == [
        ["shop", "user", "older"],
        ["shop", "user", "old"],
    ]
    assert done.stdout == dry.stdout
    assert left(store) == ["young"]
    again = here("sessions", "prune", "--older-than", "4w", "--store", store)
    assert (again.returncode, again.stdout, again.stderr) == (0, "", "No sessions deleted.\n")


def test_what_is_pruned_as_data(tmp_path: Path) -> None:
    """The same fields as in the list, for a trial and in earnest."""
    store = str(tmp_path / "chats.db")
    keep(store, "old", days=2)
    listed = json.loads(here("sessions", "list", "--store", store, "--json").stdout)
    assert pruned(store, "--older-than", "36h", "--dry-run") == {"dryRun": True, "deleted": listed, "kept": []}
    assert pruned(store, "--older-than", "36h") == {"dryRun": False, "deleted": listed, "kept": []}
    assert pruned(store, "--older-than", "36h") == {"dryRun": False, "deleted": [], "kept": []}


def test_pruning_can_be_narrowed(tmp_path: Path) -> None:
    """To an app, to a user, to both."""
    store = str(tmp_path / "chats.db")
    for app, user in (("shop", "ann"), ("shop", "bob"), ("desk", "ann"), ("desk", "bob")):
        keep(store, f"{app}-{user}", days=2, app=app, user=user)
    pruned(store, "--older-than", "1d", "--app", "nowhere")
    pruned(store, "--older-than", "1d", "--app", "shop", "--user", "ann")
    assert left(store) == ["desk-ann", "desk-bob", "shop-bob"]
    pruned(store, "--older-than", "1d", "--user", "bob")
    assert left(store) == ["desk-ann"]
    pruned(store, "--older-than", "1d", "--app", "desk")
    assert left(store) == []


def test_forks_of_pruned_sessions_stay_whole(store: str) -> None:
    """They share the log of one that is gone; the last one that goes takes it along."""
    keep(store, "trunk", days=9)
    fork = ("sessions", "fork", "trunk", "fork", "--store", store)
    assert here(*fork).returncode == 0

    async def use() -> None:
        service = opened(store)
        session = await service.get_session(app_name="shop", user_id="user", session_id="fork")
        assert session is not None
        await service.append_event(session, kit.event("user", "And?", id="later", timestamp=time.time()))
        await service.close()

    asyncio.run(use())
    assert [each["session"] for each in pruned(store, "--older-than", "7d")["deleted"]] == ["trunk"]
    assert [event["id"] for event in exported("fork", store)["events"]] == ["shop-user-trunk", "later"]
    assert here("sessions", "show", "fork", "--store", store).returncode == 0


def test_sessions_with_runs_that_are_not_over_stay(store: str) -> None:
    """Queued, due later or paused; when the run is over, its session can go."""
    names = ("ready", "waiting", "paused", "over")
    keep(store, *names, days=9)

    async def submit() -> None:
        service = opened(store)
        async with RunClient("shop", service) as client:
            for name in names:
                delay = 600 if name == "waiting" else None
                run = await client.submit("Go.", user_id="user", session_id=name, run_id=f"r-{name}", delay=delay)
                if name == "paused":
                    await run.pause()
                if name == "over":
                    await run.cancel()
        await service.close()

    asyncio.run(submit())
    dry, done = pruned(store, "--older-than", "7d", "--dry-run"), pruned(store, "--older-than", "7d")
    assert [each["session"] for each in done["deleted"]] == ["over"]
    found = sorted((each["session"], each["run"], each["status"]) for each in done["kept"])
    assert found == [(name, f"r-{name}", name) for name in ("paused", "ready", "waiting")]
    assert {**dry, "dryRun": False} == done
    assert left(store) == ["paused", "ready", "waiting"]
    told_of = here("sessions", "prune", "--older-than", "7d", "--store", store).stderr.splitlines()
    assert "Session `paused` of app `shop` is kept: run `r-paused` is paused." in told_of
    assert told_of[-1] == "No sessions deleted."
    assert here("runs", "cancel", "r-paused", "--store", store).returncode == 0
    assert [each["session"] for each in pruned(store, "--older-than", "7d")["deleted"]] == ["paused"]


def test_files_go_with_their_session(tmp_path: Path) -> None:
    """Those of the user stay."""
    path = tmp_path / "chats.db"
    keep(str(path), "old", days=2)
    place: dict[str, Any] = {"app_name": "shop", "user_id": "user", "session_id": "old"}

    async def names() -> list[str]:
        return await FileArtifactService.beside(path).list_artifact_keys(**place)

    async def save() -> None:
        for name in ("a.txt", "user:b.txt"):
            part = kit.types.Part.from_bytes(data=b"x", mime_type="text/plain")
            await FileArtifactService.beside(path).save_artifact(**place, filename=name, artifact=part)

    asyncio.run(save())
    pruned(str(path), "--older-than", "1d")
    assert asyncio.run(names()) == ["user:b.txt"]


@pytest.mark.parametrize("given", ["30", "d", "-1d", "1y", "nan", "1e3s", "inf", "", "1 d 2 h", "٣d"])
def test_what_is_no_duration(given: str) -> None:
    """A number has a unit, so that 30 days are not taken for 30 seconds."""
    with pytest.raises(BadParameter, match="is no duration"):
        duration(given)


def test_what_is_no_duration_deletes_nothing(tmp_path: Path) -> None:
    """It is told what was given, and how to write it."""
    path = str(tmp_path / "chats.db")
    keep(path, "old", days=2)
    done = here("sessions", "prune", "--older-than", "30", "--store", path)
    assert (done.returncode, done.stdout) == (2, "")
    assert "`30` is no duration" in done.stderr
    assert "Traceback" not in done.stderr
    assert left(path) == ["old"]


def test_how_old_has_to_be_said(tmp_path: Path) -> None:
    """And a store that is not there is not made."""
    done = here("sessions", "prune", "--store", str(tmp_path / "a.db"))
    assert done.returncode == 2
    assert "--older-than" in done.stderr
    done = here("sessions", "prune", "--older-than", "1d", "--store", str(tmp_path / "a.db"))
    assert (done.returncode, "There is no store" in told(done)) == (2, True)
    assert list(tmp_path.iterdir()) == []


def test_runs_are_submitted_with_durations(tmp_path: Path) -> None:
    """A number alone means seconds there."""
    at = ("--app", "shop", "--store", str(tmp_path / "a.db"), "--json")
    for given, seconds in (("90m", 5400), ("60", 60), ("0.5", 0.5)):
        info = json.loads(here("runs", "submit", "Go.", "--delay", given, *at).stdout)
        assert info["due"] - info["created"] == pytest.approx(seconds, abs=0.01)
    done = here("runs", "submit", "Go.", "--expires", "soon", *at)
    assert done.returncode == 2
    assert "`soon` is no duration" in done.stderr
