"""`flowloom sessions`: what a store holds, and what can be done with it."""

from __future__ import annotations

import asyncio
import json
import sqlite3
import subprocess
from collections.abc import Sequence
from pathlib import Path

import kit
import pytest

from cli.process import exported, flowloom, started, told
from flowloom import Event, PostgresSessionService, SqliteSessionService
from flowloom.cli.session_file import read_session
from flowloom.cli.usage_error import UsageError

ADK_TABLES = """
    CREATE TABLE app_states (app_name TEXT PRIMARY KEY, state TEXT NOT NULL, update_time REAL NOT NULL);
    CREATE TABLE user_states (app_name TEXT, user_id TEXT, state TEXT, update_time REAL);
    CREATE TABLE sessions (
        app_name TEXT NOT NULL, user_id TEXT NOT NULL, id TEXT NOT NULL, state TEXT NOT NULL, create_time REAL NOT NULL,
        update_time REAL NOT NULL, PRIMARY KEY (app_name, user_id, id));
    CREATE TABLE events (
        id TEXT NOT NULL, app_name TEXT NOT NULL, user_id TEXT NOT NULL, session_id TEXT NOT NULL,
        invocation_id TEXT NOT NULL, timestamp REAL NOT NULL, event_data TEXT);
"""
TALK = (
    kit.event("user", "Hello.", id="e1-hello", timestamp=1.0),
    kit.event("clerk", "Hi.", id="e2-hi", timestamp=2.0, actions={"state_delta": {"mood": "good", "user:n": [1]}}),
    kit.event("user", "And?", id="e3-and", timestamp=3.0),
    kit.event("clerk", "No.", id="e4-no", timestamp=4.0),
)


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def keep(
    store: Path | str, name: str = "s", events: Sequence[Event] = TALK, *, app: str = "shop", user: str = "user"
) -> None:
    """Put a session into a store."""

    async def work() -> None:
        made = PostgresSessionService(store) if "://" in str(store) else SqliteSessionService(store)  # pyright: ignore[reportArgumentType]
        session = await made.create_session(app_name=app, user_id=user, session_id=name, state={"city": "Rome"})
        for event in events:
            await made.append_event(session, event)
        await made.close()

    asyncio.run(work())


def sessions(*args: str | Path, store: Path | str, lines: str = "") -> subprocess.CompletedProcess[str]:
    return flowloom("sessions", *args, "--store", store, lines=lines)


def ids(name: str, store: Path | str) -> list[str]:
    return [event["id"] for event in exported(name, store)["events"]]


def adk_database(path: Path) -> Path:
    """A file of google-adk's with a session of two apps each."""
    connection = sqlite3.connect(path, isolation_level=None)
    connection.executescript(ADK_TABLES)
    for app in ("desk", "shop"):
        row = (app, "ann", f"of-{app}", '{"city": "Rome"}', 1.0, 2.0)
        connection.execute("INSERT INTO sessions VALUES (?, ?, ?, ?, ?, ?)", row)
        event = {"id": f"{app}-1", "author": "user", "invocation_id": "e-1", "timestamp": 2.0}
        event["content"] = {"parts": [{"text": f"Hello, {app}."}], "role": "user"}
        row = (f"{app}-1", app, "ann", f"of-{app}", "e-1", 2.0, json.dumps(event))
        connection.execute("INSERT INTO events VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    connection.close()
    return path


# -- list --------------------------------------------------------------------------------------------------


def test_a_folder_where_nothing_was_kept_has_no_sessions(tmp_path: Path) -> None:
    """And to look does not make a store."""
    done = flowloom("sessions", "list", cwd=tmp_path, FLOWLOOM_STORE="")
    assert (done.returncode, done.stdout) == (0, "")
    assert done.stderr == "The store `.flowloom/sessions.db` holds no sessions.\n"
    assert flowloom("sessions", "list", "--json", cwd=tmp_path, FLOWLOOM_STORE="").stdout == "[]\n"
    assert list(tmp_path.iterdir()) == []


def test_all_sessions_are_listed_oldest_first(store: Path) -> None:
    later = kit.event("user", "Hello.", timestamp=86_400.0 * 365)
    keep(store, "b", [later], app="desk", user="ann")
    keep(store, "a")
    keep(store, "東京", user="bob")
    done = flowloom("sessions", "list", "--store", store, fresh=True)
    assert (done.returncode, done.stderr) == (0, "")
    rows = [line.split() for line in done.stdout.splitlines()]
    assert rows[0] == ["APP", "USER", "SESSION", "LAST", "USED"]
    assert sorted(row[:3] for row in rows[1:3]) == [["shop", "bob", "東京"], ["shop", "user", "a"]]
    assert rows[3][:3] == ["desk", "ann", "b"]


def test_the_list_can_be_narrowed(store: Path) -> None:
    for app, user in (("shop", "ann"), ("shop", "bob"), ("desk", "ann")):
        keep(store, f"{app}-{user}", app=app, user=user)

    def names(*options: str) -> list[str]:
        return sorted(row["session"] for row in json.loads(sessions("list", "--json", *options, store=store).stdout))

    assert names("--app", "shop") == ["shop-ann", "shop-bob"]
    assert names("--user", "ann") == ["desk-ann", "shop-ann"]
    assert names("--user", "ann", "--app", "desk") == ["desk-ann"]
    assert names("--app", "nowhere") == []
    assert "holds no sessions of app `nowhere`" in sessions("list", "--app", "nowhere", store=store).stderr


def test_the_list_as_data(store: Path) -> None:
    keep(store, "s", user="ann")
    assert json.loads(sessions("list", "--json", store=store).stdout) == [
        {"app": "shop", "user": "ann", "session": "s", "lastUpdateTime": 4.0}
    ]


def test_a_store_that_is_not_there_is_an_error(tmp_path: Path) -> None:
    """A wrong name is not mistaken for an empty store, nor made."""
    for command in (["list"], ["show", "s"], ["export", "s"], ["fork", "s"], ["delete", "s"]):
        done = sessions(*command, store=tmp_path / "typo.db")
        assert (done.returncode, done.stdout) == (2, "")
        assert "There is no store" in told(done)
    assert list(tmp_path.iterdir()) == []


# -- show --------------------------------------------------------------------------------------------------


def test_a_session_is_shown_as_the_chat_shows_it(shepherd: Path, store: Path) -> None:
    lines = "count 2 sheep\nshear 3 sheep\ntoo cold\n"
    done = flowloom("run", shepherd, "--store", store, "--session", "s", lines=lines)
    questions = [line for line in done.stdout.splitlines() if line.startswith("Run ")]
    expected = done.stdout.replace(f"{questions[0]}\n", "you: (declines shear_sheep(number=3): too cold)\n")
    assert sessions("show", "s", store=store).stdout == expected


def test_state_and_what_waits_are_shown(shepherd: Path, store: Path) -> None:
    flowloom("run", shepherd, "--store", store, "--session", "s", "-m", "shear 3 sheep")
    shown = sessions("show", "s", store=store).stdout
    assert shown.endswith("\nWaits:\n  shepherd: confirmation of shear_sheep(number=3)\n")
    assert "State:" not in shown
    keep(store, "t")
    shown = sessions("show", "t", store=store).stdout
    assert shown.endswith('\nState:\n  city = "Rome"\n  mood = "good"\n  user:n = [1]\n')
    assert "Waits:" not in shown


def test_a_session_is_shown_with_the_ids_of_its_events(store: Path) -> None:
    keep(store)
    shown = sessions("show", "s", "--ids", store=store).stdout
    assert shown.startswith("[e1-hello]\nyou: Hello.\n[e2-hi]\nclerk: Hi.\n")


def test_a_session_is_shown_as_data(store: Path) -> None:
    keep(store)
    shown = sessions("show", "s", "--json", store=store).stdout
    assert shown == sessions("export", "s", store=store).stdout == sessions("export", "s", "-", store=store).stdout


def test_what_is_stored_cannot_steer_the_terminal(store: Path) -> None:
    keep(store, "s", [kit.event("clerk", "a\x1b[2Jb"), kit.event("user", "c\x07d")], user="\x1b[31mann")
    done = flowloom("sessions", "show", "s", "--user", "\x1b[31mann", "--store", store, FORCE_COLOR="1")
    assert done.stdout.startswith("clerk: a[2Jb\nyou: cd\n")
    listed = sessions("list", store=store).stdout
    assert "\x1b" not in listed
    assert "[31mann" in listed


def test_a_pipe_may_be_closed_early(store: Path) -> None:
    keep(store, "s", [kit.event("clerk", "word " * 100_000)])
    with started("sessions", "export", "s", "--store", store) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.read(10)
        process.stdout.close()
        assert "Traceback" not in process.stderr.read()


# -- which session -----------------------------------------------------------------------------------------


def test_a_session_that_is_not_there_is_answered_with_those_that_are(store: Path) -> None:
    keep(store, "trip to Rome")
    keep(store, "zoo")
    done = sessions("show", "trip to Roma", store=store)
    assert (done.returncode, done.stdout) == (2, "")
    assert told(done).startswith("Error: There is no session `trip to Roma` of user `user` in the store ")
    assert told(done).endswith(" There are: `trip to Rome`, `zoo`.\n")


def test_a_session_of_another_user_is_told(store: Path) -> None:
    keep(store, "s", user="ann")
    done = sessions("show", "s", store=store)
    assert done.returncode == 2
    assert told(done).endswith(" User `ann` has one: give `--user`.\n")
    assert sessions("show", "s", "--user", "ann", store=store).returncode == 0


def test_a_name_that_two_apps_have_needs_the_app(store: Path) -> None:
    keep(store, "s", app="shop")
    keep(store, "s", TALK[:1], app="desk")
    for command in (["show"], ["export"], ["fork"], ["delete"], ["compact", "--model", "offline"]):
        done = sessions(command[0], "s", *command[1:], store=store)
        assert (done.returncode, done.stdout) == (2, "")
        assert "Several apps have a session `s`: `desk`, `shop`. Give `--app NAME`." in told(done)
    assert "And?" not in sessions("show", "s", "--app", "desk", store=store).stdout
    assert "And?" in sessions("show", "s", "--app", "shop", store=store).stdout


# -- export, import ----------------------------------------------------------------------------------------


def test_what_was_exported_and_imported_is_the_same(shepherd: Path, store: Path, tmp_path: Path) -> None:
    """To the byte, in a file and printed, into another store."""
    flowloom("run", shepherd, "--store", store, "--session", "Grüße", lines="count 2 sheep\nshear 3 sheep\ny\n")
    file, other = tmp_path / "chat.json", tmp_path / "other.db"
    done = sessions("export", "Grüße", file, store=store)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    done = sessions("import", file, store=other)
    assert (done.returncode, done.stdout, done.stderr) == (0, "Grüße\n", "")
    assert sessions("export", "Grüße", store=other).stdout == sessions("export", "Grüße", store=store).stdout
    again = tmp_path / "again.json"
    sessions("export", "Grüße", again, store=other)
    assert again.read_bytes() == file.read_bytes()
    assert (
        "Counted 4" in flowloom("run", shepherd, "--store", other, "--session", "Grüße", "-m", "count 4 sheep").stdout
    )


def test_a_password_is_not_told(postgres_dsn: str) -> None:
    dsn = postgres_dsn.replace("postgres@", "postgres:secret@")
    for command in (["list"], ["show", "s"]):
        done = sessions(*command, store=dsn)
        assert ":***@127.0.0.1" in told(done)
        assert "secret" not in told(done)


def test_a_session_moves_to_postgresql_and_back(store: Path, tmp_path: Path, postgres_dsn: str) -> None:
    keep(store)
    there, back = tmp_path / "there.json", tmp_path / "back.json"
    sessions("export", "s", there, store=store)
    assert sessions("import", there, store=postgres_dsn).returncode == 0
    sessions("export", "s", back, store=postgres_dsn)
    assert back.read_bytes() == there.read_bytes()


def test_to_import_again_adds_what_is_new(store: Path, tmp_path: Path) -> None:
    keep(store)
    file, other = tmp_path / "chat.json", tmp_path / "other.db"
    whole = exported("s", store)
    for count in (2, 2, 4, 2):
        file.write_text(json.dumps({**whole, "events": whole["events"][:count]}))
        assert sessions("import", file, store=other).returncode == 0
    assert ids("s", other) == [event.id for event in TALK]


def test_another_log_under_the_same_name_is_not_mixed_in(store: Path, tmp_path: Path) -> None:
    keep(store)
    file = tmp_path / "chat.json"
    file.write_text(json.dumps({**exported("s", store), "events": [TALK[3].to_wire()]}))
    done = sessions("import", file, store=store)
    assert (done.returncode, done.stdout) == (2, "")
    assert "another log" in told(done)
    assert ids("s", store) == [event.id for event in TALK]


def test_an_import_can_name_the_app(store: Path, tmp_path: Path) -> None:
    keep(store)
    whole = exported("s", store)
    for wrapped, name in ((whole, "a.json"), ({**whole, "appName": ""}, "b.json")):
        (tmp_path / name).write_text(json.dumps(wrapped))
    done = sessions("import", tmp_path / "b.json", store=store)
    assert (done.returncode, done.stdout) == (2, "")
    assert "Give `--app NAME`" in told(done)
    assert sessions("import", tmp_path / "a.json", tmp_path / "b.json", "--app", "desk", store=store).stdout == "s\ns\n"
    assert sessions("show", "s", "--app", "desk", store=store).returncode == 0


def test_a_database_of_google_adk_is_taken_over(store: Path, tmp_path: Path) -> None:
    """All of its apps, or one; doing it again does no harm."""
    file = adk_database(tmp_path / "adk.db")
    before = file.read_bytes()
    assert sessions("import", file, "--app", "desk", store=store).stdout == "of-desk\n"
    for _ in range(2):
        assert sessions("import", file, store=store).stdout == "of-desk\nof-shop\n"
    done = sessions("show", "of-shop", "--user", "ann", store=store)
    assert done.stdout == 'you: Hello, shop.\n\nState:\n  city = "Rome"\n'
    assert file.read_bytes() == before


def test_an_app_that_a_database_does_not_hold(store: Path, tmp_path: Path) -> None:
    done = sessions("import", adk_database(tmp_path / "adk.db"), "--app", "zoo", store=store)
    assert (done.returncode, done.stdout) == (2, "")
    assert "holds no sessions of app `zoo`. The apps are: `desk`, `shop`." in told(done)


def test_another_store_is_taken_over(store: Path, tmp_path: Path) -> None:
    """With the state that sessions began with."""
    keep(
        store,
        "s",
        [*TALK, kit.event("clerk", "Off.", id="e5", timestamp=5.0, actions={"state_delta": {"city": "Oslo"}})],
    )
    keep(store, "t", user="ann")
    other = tmp_path / "other.db"
    assert sorted(sessions("import", store, store=other).stdout.split()) == ["s", "t"]
    assert exported("s", other) == exported("s", store)
    sessions("fork", "s", "f", "--at", "e1", store=other)
    assert exported("f", other)["state"]["city"] == "Rome"


@pytest.mark.parametrize("content", ["{", '{"id": 1}', "[]", "", "SQLite format 3\x00 and nothing else"])
def test_a_file_that_holds_no_session(store: Path, tmp_path: Path, content: str) -> None:
    file = tmp_path / "chat.json"
    file.write_text(content)
    done = sessions("import", file, store=store)
    assert (done.returncode != 0, done.stdout) == (True, "")
    assert "chat.json" in told(done)


def test_a_file_that_cannot_be_read_or_written(store: Path, tmp_path: Path) -> None:
    keep(store)
    (tmp_path / "folder").mkdir()
    for command in (
        ["import", tmp_path / "no.json"],
        ["import", tmp_path / "folder"],
        ["export", "s", tmp_path / "folder"],
        ["export", "s", tmp_path / "no" / "chat.json"],
    ):
        done = sessions(*command, store=store)
        assert (done.returncode, done.stdout) == (2, "")
        assert str(command[-1]) in told(done)
    assert {path.name for path in tmp_path.iterdir()} <= {
        "folder",
        store.name,
        f"{store.name}-wal",
        f"{store.name}-shm",
    }


# -- fork, delete ------------------------------------------------------------------------------------------


def test_a_fork_and_its_origin_go_on_apart(shepherd: Path, store: Path) -> None:
    at = ("--store", store, "--session")
    flowloom("run", shepherd, *at, "s", lines="count 2 sheep\ncount 3 sheep\n")
    log = ids("s", store)
    done = sessions("fork", "s", "the other", "--at", log[3], store=store)
    assert (done.returncode, done.stdout, done.stderr) == (0, "the other\n", "")
    assert ids("the other", store) == log[:4]
    for name, number in (("s", 4), ("the other", 5)):
        done = flowloom("run", shepherd, *at, name, "-m", f"count {number} sheep")
        assert f"Counted {number} sheep." in done.stdout
    assert "Counted 5" not in sessions("show", "s", store=store).stdout
    shown = sessions("show", "the other", store=store).stdout
    assert "Counted 2" in shown
    assert "Counted 3" not in shown
    assert "Counted 4" not in shown


def test_a_fork_without_a_name_gets_one(store: Path) -> None:
    keep(store)
    name = sessions("fork", "s", store=store).stdout.strip()
    assert ids(name, store) == [event.id for event in TALK]


def test_the_beginning_of_an_id_will_do(store: Path) -> None:
    keep(store)
    assert sessions("fork", "s", "f", "--at", "e2", store=store).returncode == 0
    assert ids("f", store) == ["e1-hello", "e2-hi"]
    keep(store, "t", [kit.event("user", "Hello.", id="e1"), kit.event("clerk", "Hi.", id="e12")])
    assert sessions("fork", "t", "g", "--at", "e1", store=store).returncode == 0
    assert ids("g", store) == ["e1"]


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("f", "--at", "nothing"), "no event `nothing`"),
        (("f", "--at", "e"), "Several events"),
        (("s",), "exists already"),
        ((" ",), "is no name for a session"),
    ],
)
def test_a_fork_that_cannot_be_made(store: Path, options: tuple[str, ...], words: str) -> None:
    keep(store)
    done = sessions("fork", "s", *options, store=store)
    assert (done.returncode, done.stdout) == (2, "")
    assert words in told(done)


def test_a_fork_outlives_its_origin(store: Path) -> None:
    keep(store)
    sessions("fork", "s", "f", store=store)
    done = sessions("delete", "s", store=store)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert sessions("show", "s", store=store).returncode == 2
    assert ids("f", store) == [event.id for event in TALK]


def test_all_are_deleted_or_none(store: Path) -> None:
    """A name that is mistyped is told before anything is gone."""
    for name in ("a", "b"):
        keep(store, name)
    done = sessions("delete", "a", "typo", "b", store=store)
    assert done.returncode == 2
    assert "`typo`" in told(done)
    assert len(json.loads(sessions("list", "--json", store=store).stdout)) == 2
    assert sessions("delete", "a", "b", store=store).returncode == 0
    assert sessions("list", "--json", store=store).stdout == "[]\n"


# -- compact -----------------------------------------------------------------------------------------------


def test_a_summary_takes_the_place_of_older_events(shepherd: Path, store: Path) -> None:
    """For the model; the store still holds them."""
    at = ("--store", store, "--session", "s")
    flowloom("run", shepherd, *at, lines="count 2 sheep\ncount 3 sheep\n")
    log = ids("s", store)
    done = sessions("compact", "s", "--model", "offline", "--keep", "4", store=store)
    assert (done.returncode, done.stderr) == (0, "")
    assert ids("s", store)[: len(log)] == log
    assert done.stdout.strip() in sessions("show", "s", store=store).stdout
    page = flowloom("explain", shepherd, *at, "-m", "count 4 sheep").stdout
    assert "Counted 2 sheep." not in page.partition("Counted 3 sheep.")[2]
    assert "| count 2 sheep\n" not in page
    assert "| count 3 sheep\n" in page
    done = sessions("compact", "s", "--model", "offline", "--keep", "5", store=store)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "There is nothing to sum up.\n")


@pytest.mark.parametrize(
    ("model", "words", "code"),
    [
        ("gpt-0", "`gpt-0` is no model", 2),
        ("anthropic/claude-x", "ANTHROPIC_API_KEY", 2),
        ("http://127.0.0.1:1/v1#nobody", "`nobody` could not be reached", 1),
    ],
)
def test_a_model_that_cannot_sum_up(store: Path, model: str, words: str, code: int) -> None:
    """The failure is told, and the session stays as it is."""
    keep(store)
    done = sessions("compact", "s", "--model", model, "--keep", "0", store=store)
    assert (done.returncode, done.stdout) == (code, "")
    assert words in told(done)
    assert ids("s", store) == [event.id for event in TALK]


def test_a_model_has_to_be_named(store: Path) -> None:
    """What a stand-in writes would take the place of what was said."""
    keep(store)
    done = sessions("compact", "s", store=store)
    assert done.returncode == 2
    assert "--model" in done.stderr


def test_help_names_the_commands() -> None:
    done = flowloom("sessions", "--help")
    assert done.returncode == 0
    for command in ("list", "show", "export", "import", "fork", "delete", "compact"):
        assert f" {command} " in done.stdout


@pytest.mark.parametrize(
    "text", ["", "{", "[]", '{"id": "s", "appName": "a", "userId": "u", "events": [{"finishReason": 5}]}']
)
def test_a_file_that_holds_no_session_is_named(tmp_path: Path, text: str) -> None:
    file = tmp_path / "talk.json"
    file.write_text(text)
    with pytest.raises(UsageError, match=r"talk\.json` holds no session in JSON"):
        read_session(file)
