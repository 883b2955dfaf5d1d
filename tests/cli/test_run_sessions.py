"""`flowloom run` and where it keeps conversations."""

from __future__ import annotations

import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.process import DESK, Terminal, exported, flowloom, told

Start = Callable[..., Terminal]
SCRIPTED = "from flowloom import LlmAgent\nfrom flowloom.testing import ScriptedModel, call\n"


def agent_file(folder: Path, text: str, name: str = "shop") -> Path:
    path = folder / f"{name}.py"
    path.write_text(SCRIPTED + text)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def words(name: str, store: Path | str) -> list[str]:
    """What was said in a session, without the calls."""
    parts = [part for event in exported(name, store)["events"] for part in event["content"]["parts"]]
    return [part["text"] for part in parts if "text" in part]


def test_what_one_process_said_the_next_one_knows(store: Path) -> None:
    flowloom("run", DESK, "--store", store, "--session", "s", lines="Book NL103 for Ann Lee\ny\n")
    done = flowloom("run", DESK, "--store", store, "--session", "s", "-m", "What did I book?")
    assert "reference TD001" in done.stdout
    saved = exported("s", store)
    assert saved["appName"] == "travel_desk"
    assert saved["state"]["bookings"][0]["passenger"] == "Ann Lee"


def test_by_default_they_are_kept_in_the_working_folder(shepherd: Path) -> None:
    """In a folder of its own, which version control leaves out."""
    folder = shepherd.parent
    for message in ("count 2 sheep", "count 3 sheep"):
        assert flowloom("run", shepherd, "--session", "s", "-m", message, cwd=folder, FLOWLOOM_STORE="").returncode == 0
    assert words("s", folder / ".flowloom" / "sessions.db")[::2] == ["count 2 sheep", "count 3 sheep"]
    assert (folder / ".flowloom" / ".gitignore").read_text() == "*\n"


def test_the_option_goes_before_the_environment(shepherd: Path, store: Path) -> None:
    other = store.with_name("other.db")
    flowloom("run", shepherd, "--store", store, "--session", "s", "-m", "hello", FLOWLOOM_STORE=str(other))
    assert not other.exists()
    assert words("s", store)[0] == "hello"


def test_a_new_session_tells_its_name(shepherd: Path, store: Path) -> None:
    """The name that is told goes on; one that was given is not told."""
    done = flowloom("run", shepherd, "-m", "count 2 sheep", "--store", store)
    name = done.stderr.rpartition("--session ")[2].partition("`")[0]
    assert f"Session {name}: " in done.stderr
    again = flowloom("run", shepherd, "-m", "count 3 sheep", "--session", name, "--store", store)
    assert "Session" not in again.stderr
    assert words(name, store)[::2] == ["count 2 sheep", "count 3 sheep"]


def test_two_new_sessions_have_two_names(shepherd: Path, store: Path) -> None:
    for _ in range(2):
        flowloom("run", shepherd, "-m", "hello", "--store", store)
    assert len(flowloom("sessions", "list", "--store", store).stdout.splitlines()) == 3


def test_nothing_said_is_nothing_kept(shepherd: Path, store: Path, terminal: Start) -> None:
    flowloom("run", shepherd, "--store", store)
    flowloom("run", shepherd, "--store", store, "--session", "s")
    chat = terminal("run", shepherd, "--store", store)
    chat.wait_for("you>")
    chat.type("\x04")
    assert chat.end() == 0
    assert flowloom("sessions", "list", "--store", store, "--json").stdout == "[]\n"


def test_a_store_in_memory_keeps_nothing(shepherd: Path) -> None:
    """And names nothing that could be resumed."""
    folder = shepherd.parent
    for name in ("memory", ":memory:"):
        done = flowloom("run", shepherd, "--store", name, cwd=folder, lines="shear 2 sheep\ny\ncount 3 sheep\n")
        assert done.returncode == 0
        assert "Sheared 2." in done.stdout
        assert "Counted 3 sheep." in done.stdout
        assert "Session" not in done.stderr
    assert [path.name for path in folder.iterdir() if path.name != "__pycache__"] == ["shepherd.py"]


def test_users_have_sessions_of_their_own(shepherd: Path, store: Path) -> None:
    for user in ("ann", "bob"):
        flowloom("run", shepherd, "--store", store, "--session", "s", "--user", user, "-m", f"hello from {user}")
    done = flowloom("sessions", "export", "s", "--store", store, "--user", "ann")
    assert "hello from ann" in done.stdout
    assert "hello from bob" not in done.stdout


@pytest.mark.parametrize("name", ["my first chat", "Grüße, 東京 🐑", "a/b/../c", "--", "100%?'\"`"])
def test_any_visible_name_will_do(shepherd: Path, store: Path, name: str) -> None:
    for message in ("count 2 sheep", "count 3 sheep"):
        done = flowloom("run", shepherd, "--store", store, f"--session={name}", "-m", message)
        assert done.returncode == 0, done.stderr
    done = flowloom("sessions", "export", "--store", store, "--", name)
    assert "Counted 2 sheep." in done.stdout
    assert name in flowloom("sessions", "list", "--store", store).stdout


def test_space_around_a_name_is_no_part_of_it(shepherd: Path, store: Path) -> None:
    for name in (" s", "s "):
        flowloom("run", shepherd, "--store", store, "--session", name, "-m", "hello")
    assert len(words("s", store)) == 4


def test_a_failed_turn_is_kept(tmp_path: Path, store: Path) -> None:
    """A failure is part of the story; it is no turn that was cut off."""
    agent = agent_file(tmp_path, "root_agent = LlmAgent(name='shop', model=ScriptedModel([OSError('out of order')]))\n")
    done = flowloom("run", agent, "--store", store, "--session", "s", "-m", "hello")
    assert done.returncode == 1
    assert (done.stdout + done.stderr).count("out of order") == 1
    events = exported("s", store)["events"]
    assert events[0]["content"]["parts"] == [{"text": "hello"}]
    assert "out of order" in events[-1]["errorMessage"]
    assert flowloom("run", agent, "--store", store, "--session", "s").stderr == ""


def test_files_are_kept_with_the_session_and_deleted_with_it(tmp_path: Path, store: Path) -> None:
    agent = agent_file(
        tmp_path,
        "from flowloom import LlmResponse\nfrom google.genai import types\n"
        "async def note(callback_context, llm_request):\n"
        "    old = await callback_context.load_artifact('note.txt')\n"
        "    if old is None:\n"
        "        await callback_context.save_artifact('note.txt', types.Part.from_bytes(data=b'!', mime_type='a/b'))\n"
        "    return LlmResponse(content=types.ModelContent('new' if old is None else 'known'))\n"
        "root_agent = LlmAgent(name='shop', model='offline', before_model_callback=note)\n",
    )
    command = ("run", agent, "--store", store, "--session", "s", "-m", "hello")
    assert [flowloom(*command).stdout for _ in range(2)] == ["shop: new\n", "shop: known\n"]
    assert flowloom("sessions", "delete", "s", "--store", store).returncode == 0
    assert flowloom(*command).stdout == "shop: new\n"


def test_an_app_brings_its_settings(tmp_path: Path, store: Path) -> None:
    """The conversation is summed up as the app says."""
    agent = agent_file(
        tmp_path,
        "from flowloom import App, EventsCompactionConfig\n"
        "from flowloom.compaction import LlmEventsSummarizer\n"
        "summarizer = LlmEventsSummarizer(ScriptedModel(['They said hello.']))\n"
        "app = App(\n    name='shop',\n    root_agent=LlmAgent(name='clerk', model=ScriptedModel(['Hi.'])),\n"
        "    events_compaction_config=EventsCompactionConfig(summarizer=summarizer, compaction_interval=1),\n)\n",
    )
    assert flowloom("run", agent, "--store", store, "--session", "s", "-m", "hello").returncode == 0
    assert "They said hello." in str(exported("s", store)["events"][-1]["actions"]["compaction"])


def test_a_postgresql_store(shepherd: Path, postgres_dsn: str) -> None:
    """The same as a file; another process goes on with a question that was left open."""
    at = ("--store", postgres_dsn, "--session", "s")
    folder = shepherd.parent
    assert "Counted 2" in flowloom("run", shepherd, *at, "-m", "count 2 sheep", cwd=folder).stdout
    assert "stays open" in flowloom("run", shepherd, *at, "-m", "shear 3 sheep", cwd=folder).stderr
    assert "Sheared 3." in flowloom("run", shepherd, *at, cwd=folder, lines="y\n").stdout
    assert words("s", postgres_dsn)[::2] == ["count 2 sheep", "shear 3 sheep"]
    assert flowloom("sessions", "list", "--store", postgres_dsn).stdout.splitlines()[1].split()[:3] == [
        "shepherd",
        "user",
        "s",
    ]
    assert not (folder / ".flowloom").exists()


# -- stores that cannot be used ------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("redis://ann:secret@here", "names no store"),
        ("sqlite+aiosqlite:///chats.db", "names no store"),
        ("here", "is a folder"),
        ("text.db", "something else"),
        ("no/such/chats.db", "no"),
        ("postgresql://ann:secret@127.0.0.1:1/chats", "127.0.0.1:1"),
        ("host=127.0.0.1 port=1 dbname=chats password=secret", "127.0.0.1:1"),
        ("postgresql://ann:secret@127.0.0.1:1/chats?nonsense=1", "dsn"),
    ],
)
def test_a_store_that_cannot_be_used(shepherd: Path, name: str, words: str) -> None:
    """It is told in one line before anything is said, without a password; nothing is made or changed."""
    folder = shepherd.parent
    (folder / "here").mkdir()
    (folder / "text.db").write_text("Some notes of mine, which are no database.")
    before = sorted(folder.rglob("*"))
    for command in (("run", shepherd, "--model", "offline", "--session", "s", "-m", "hello"), ("sessions", "list")):
        done = flowloom(*command, "--store", name, cwd=folder)
        assert (done.returncode, done.stdout) == (2, "")
        assert words in done.stderr
        assert "Traceback" not in done.stderr
        assert "secret" not in done.stderr
        assert done.stderr.count("Error: ") == 1
    assert (folder / "text.db").read_text().startswith("Some notes")
    assert [path for path in sorted(folder.rglob("*")) if "__pycache__" not in path.parts] == before


def test_a_store_of_a_newer_release(shepherd: Path, store: Path) -> None:
    flowloom("run", shepherd, "--store", store, "--session", "s", "-m", "hello")
    connection = sqlite3.connect(store, isolation_level=None)
    connection.execute("INSERT INTO flowloom_schemas VALUES ('sessions', 99)")
    connection.close()
    for command in (("run", shepherd, "-m", "hello"), ("sessions", "show", "s")):
        done = flowloom(*command, "--store", store)
        assert (done.returncode, done.stdout) == (2, "")
        assert "version 99" in done.stderr


def test_a_database_of_somebody_elses_is_left_alone(shepherd: Path, store: Path) -> None:
    """google-adk's is not written to; how to take it over is told."""
    connection = sqlite3.connect(store, isolation_level=None)
    connection.executescript("CREATE TABLE sessions (a); CREATE TABLE events (a); CREATE TABLE app_states (a);")
    connection.close()
    before = store.read_bytes()
    done = flowloom("sessions", "list", "--store", store)
    assert (done.returncode, done.stdout) == (2, "")
    assert f"flowloom sessions import {store}" in told(done)
    assert flowloom("run", shepherd, "-m", "hello", "--store", store).returncode == 2
    assert store.read_bytes() == before


def test_a_file_in_the_place_of_the_folder(shepherd: Path) -> None:
    folder = shepherd.parent
    (folder / ".flowloom").write_text("")
    done = flowloom("run", shepherd, "-m", "hello", "--model", "offline", cwd=folder, FLOWLOOM_STORE="")
    assert (done.returncode, done.stdout) == (2, "")
    assert "File exists" in done.stderr
