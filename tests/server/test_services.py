"""Where a server keeps what it is told (server spec §1)."""

from __future__ import annotations

import asyncio
import logging
from pathlib import Path
from typing import Any

import pytest
from server.serving import desk, serving

from flowloom import BaseSessionService, InMemorySessionService, PostgresSessionService, Session, SqliteSessionService
from flowloom.artifacts import InMemoryArtifactService
from flowloom.artifacts.files import FileArtifactService
from flowloom.errors import ConfigurationError
from flowloom.memory import InMemoryMemoryService, SqliteMemoryService
from flowloom.server import app_of, get_fast_api_app
from flowloom.server.local_storage import LocalSessions
from flowloom.server.services import artifact_service, memory_service, session_service
from flowloom.testing import SessionServiceSuite

AGENT = "from flowloom import LlmAgent\nroot_agent = LlmAgent(name='{name}')\n"


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("memory://", InMemorySessionService),
        ("sqlite:///chats.db", SqliteSessionService),
        ("sqlite+aiosqlite:///chats.db", SqliteSessionService),
        ("postgresql://ann@localhost/chats", PostgresSessionService),
        ("postgresql+asyncpg://ann@localhost/chats", PostgresSessionService),
    ],
)
def test_sessions_are_kept_where_a_uri_says(
    uri: str, kind: type, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In google-adk's forms, whatever driver they name."""
    monkeypatch.chdir(tmp_path)
    service = session_service(uri)
    assert isinstance(service, kind)
    asyncio.run(service.close())


def test_a_file_is_relative_or_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three slashes, and four."""
    monkeypatch.chdir(tmp_path)

    async def make(uri: str) -> None:
        async with session_service(uri) as service:
            await service.create_session(app_name="a", user_id="u")

    (tmp_path / "deep").mkdir()
    asyncio.run(make("sqlite:///near.db"))
    asyncio.run(make(f"sqlite:///{tmp_path}/deep/far%20away.db"))
    assert (tmp_path / "near.db").exists()
    assert (tmp_path / "deep" / "far away.db").exists()


@pytest.mark.parametrize(
    ("make", "uri", "told"),
    [
        (session_service, "chats.db", "names no place for sessions"),
        (session_service, "sqlite://chats.db", "sqlite:////FILE"),
        (session_service, "sqlite:///no/such/folder/x.db", "there is no folder `no/such/folder`"),
        (session_service, "agentengine://1", "Agent Engine"),
        (session_service, "mysql+pymysql://x", "MySQL"),
        (artifact_service, "gs://bucket", "Google Cloud Storage"),
        (artifact_service, "file://", "file://FOLDER"),
        (artifact_service, "sqlite:///x.db", "names no place for artifacts"),
        (memory_service, "rag://corpus", "RAG"),
        (memory_service, "", "names no place for memories"),
    ],
)
def test_what_names_no_store_is_told(make: Any, uri: str, told: str) -> None:
    """With the forms that do."""
    with pytest.raises(ConfigurationError, match=told):
        make(uri)


def test_artifacts_and_memories_are_kept_where_a_uri_says(tmp_path: Path) -> None:
    """In a folder, in a file, or in memory."""
    files = artifact_service(f"file://{tmp_path}/files")
    assert isinstance(files, FileArtifactService)
    assert files.directory == tmp_path / "files"
    assert isinstance(artifact_service("memory://"), InMemoryArtifactService)
    assert isinstance(memory_service("memory://"), InMemoryMemoryService)
    assert isinstance(memory_service(f"sqlite:///{tmp_path}/memories.db"), SqliteMemoryService)


def test_each_app_keeps_its_own_in_its_folder(tmp_path: Path) -> None:
    """And a server that starts again finds it there."""
    for name in ("one", "two"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.py").write_text(AGENT.format(name=name))
    for turn in range(2):
        with serving(get_fast_api_app(agents_dir=str(tmp_path), web=False)) as running:
            for name in ("one", "two"):
                session = running.new_session(name)
                place = f"{running.sessions(name)}/{session}/artifacts"
                saved = running.client.post(place, json={"filename": "user:f", "artifact": {"text": name}})
                assert saved.json()["version"] == turn
                assert len(running.client.get(running.sessions(name)).json()) == turn + 1
    for name in ("one", "two"):
        assert (tmp_path / name / ".flowloom" / "sessions.db").exists()
        assert (tmp_path / name / ".flowloom" / ".gitignore").read_text() == "*\n"


def test_what_cannot_be_written_is_kept_in_memory(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning that names the folder."""
    (tmp_path / "one").mkdir()
    (tmp_path / "one" / "agent.py").write_text(AGENT.format(name="one"))
    (tmp_path / "one" / ".flowloom").write_text("a file is in the way")
    with serving(get_fast_api_app(agents_dir=str(tmp_path), web=False)) as running:
        session = running.new_session("one")
        assert running.client.get(f"{running.sessions('one')}/{session}").status_code == 200
    warnings = [each for each in caplog.records if each.levelno == logging.WARNING]
    assert any(str(tmp_path / "one" / ".flowloom") in each.getMessage() for each in warnings)


def test_an_app_that_is_not_there_leaves_nothing(tmp_path: Path) -> None:
    """Asking for its sessions makes no folder, and opens nothing."""
    with serving(get_fast_api_app(agents_dir=str(tmp_path), web=False)) as running:
        for name in ("nothing", "neither", "..", "os"):
            found = running.call(running.served.sessions.list_sessions(app_name=name, user_id="u"))
            assert found.sessions == []
            assert running.call(running.served.artifacts.list_artifact_keys(app_name=name, user_id="u")) == []
    assert list(tmp_path.iterdir()) == []


def test_a_service_may_be_given_as_it_is() -> None:
    """One's own, in the place of a URI; it is closed with the server."""

    class Kept(InMemorySessionService):
        closed = 0

        async def close(self) -> None:
            self.closed += 1

    kept = Kept()
    with serving(app_of(desk(), session_service_uri=kept)) as running:
        name = running.new_session()
    assert kept.closed == 1

    async def found() -> Session | None:
        return await kept.get_session(app_name="desk", user_id="ann", session_id=name)

    assert asyncio.run(found()) is not None


def test_a_list_of_sessions_loads_none_of_them() -> None:
    """It costs the same for long ones as for short ones."""

    class Listed(InMemorySessionService):
        async def get_session(self, **names: Any) -> Session | None:
            raise AssertionError("a session was loaded")

    with serving(app_of(desk(), session_service_uri=Listed())) as running:
        running.new_session(state={"a": 1})
        assert [each["state"] for each in running.client.get(running.sessions()).json()] == [{"a": 1}]


class TestLocalSessions(SessionServiceSuite):
    """Local storage is a session service like any other."""

    keeps_initial_state = True
    folder: Path

    @pytest.fixture(autouse=True)
    def _in_a_folder(self, tmp_path: Path) -> None:
        self.folder = tmp_path

    def make_service(self) -> LocalSessions:
        return LocalSessions(lambda name: self.folder)

    def reopen(self, service: BaseSessionService) -> LocalSessions:
        return self.make_service()
