"""`flowloom web` and `flowloom api_server` (server spec §1)."""

from __future__ import annotations

import asyncio
import re
import signal
import subprocess
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from typer.testing import CliRunner

from cli.process import COMMAND, environment
from flowloom.cli.commands import app
from flowloom.cli.web import ServeOptions

AGENT = """
from flowloom import LlmAgent
root_agent = LlmAgent(name="{name}")
"""


@pytest.fixture
def made(monkeypatch: pytest.MonkeyPatch) -> list[dict[str, Any]]:
    """The applications that commands make, by their keywords; none is served."""
    given: list[dict[str, Any]] = []

    def get_fast_api_app(**keywords: Any) -> Any:
        given.append(keywords)
        raise KeyboardInterrupt

    monkeypatch.setattr("flowloom.server.application.get_fast_api_app", get_fast_api_app)
    return given


def write(folder: Path, name: str) -> None:
    folder.mkdir()
    (folder / "agent.py").write_text(AGENT.format(name=name))


def test_a_folder_is_served_until_it_is_stopped_and_anew_when_it_changes(tmp_path: Path) -> None:
    """Its address stands in one line, with the port that was free; it stays the same when the server starts anew."""
    agents, ask = tmp_path / "agents", partial(httpx.request, trust_env=False, timeout=60)
    agents.mkdir()
    write(agents / "first", "first")
    command = [*COMMAND, "web", str(agents), "--port=0", "--reload", "--models", "offline"]
    with subprocess.Popen(command, env=environment(), stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        line = process.stdout.readline()
        found = re.fullmatch(r"Listening on (http://127\.0\.0\.1:\d+)\n", line)
        assert found is not None, line
        assert ask("GET", f"{found[1]}/list-apps").json() == ["first"]
        made = ask("POST", f"{found[1]}/apps/first/users/ann/sessions")
        assert made.status_code == 200
        assert (agents / "first" / ".flowloom" / "sessions.db").exists()
        write(tmp_path / "second", "second")
        (tmp_path / "second").rename(agents / "second")  # at once: the server may look at any moment
        assert process.stdout.readline() == line
        assert ask("GET", f"{found[1]}/list-apps").json() == ["first", "second"]
        assert len(ask("GET", f"{found[1]}/apps/first/users/ann/sessions").json()) == 1
        process.send_signal(signal.SIGTERM)
        assert process.wait(60) in (0, -signal.SIGTERM)


@pytest.mark.parametrize("command", ["web", "api_server", "api-server"])
def test_signs_in_flags_may_be_either(made: list[dict[str, Any]], command: str, tmp_path: Path) -> None:
    """`_` and `-` are the same."""
    flags = ["--session-service_uri", "memory://", "--allow-origins", "https://a.b", "--allow_origins", "*"]
    CliRunner().invoke(app, [command, str(tmp_path), *flags, "--logo_text", "Desk", "--no_reload"])
    (keywords,) = made
    assert keywords["session_service_uri"] == "memory://"
    assert keywords["allow_origins"] == ["https://a.b", "*"]
    assert keywords["logo_text"] == "Desk"
    assert keywords["web"] is (command == "web")


@pytest.mark.parametrize(("command", "on_busy"), [("web", "queue"), ("api_server", "reject")])
def test_a_run_waits_for_another_where_people_talk(made: list[dict[str, Any]], command: str, on_busy: str) -> None:
    """And is rejected where programs do; either can be asked for."""
    for flags in ([], ["--on_busy", "queue"], ["--on_busy=reject"]):
        CliRunner().invoke(app, [command, *flags])
    assert [each["on_busy"] for each in made] == [on_busy, "queue", "reject"]


def test_the_api_server_has_flags_of_its_own(made: list[dict[str, Any]]) -> None:
    """For the page, and for sessions that runs make."""
    CliRunner().invoke(app, ["api_server", "--with_ui", "--auto_create_session"])
    assert (made[0]["web"], made[0]["auto_create_session"], made[0]["agents_dir"]) == (True, True, Path())
    refused = CliRunner().invoke(app, ["web", "--with_ui"])
    assert refused.exit_code == 2


@pytest.mark.parametrize("source", ["flag", "variable"])
def test_a_token_guards_the_server(made: list[dict[str, Any]], source: str) -> None:
    """By a flag, or a variable."""
    flags, env = (["--token", "t0ken"], {}) if source == "flag" else ([], {"FLOWLOOM_TOKEN": "t0ken"})
    CliRunner().invoke(app, ["web", *flags], env=env)
    scope = {"headers": [(b"authorization", b"Bearer t0ken")]}
    assert asyncio.run(made[0]["auth"](scope)) is not None
    assert asyncio.run(made[0]["auth"]({"headers": []})) is None


@pytest.mark.parametrize(
    "flag",
    ["--a2a", "--trigger_sources=pubsub", "--trigger-oidc-audience", "--eval_storage_uri", "--trace_to_cloud",
     "--otel-to-cloud", "--avatar_config", "--enable_features=X", "--express_mode"],
)  # fmt: skip
@pytest.mark.parametrize("command", ["web", "api_server"])
def test_what_there_is_not_yet_is_refused_by_name(flag: str, command: str) -> None:
    """Not as a flag that nobody has heard of."""
    refused = CliRunner().invoke(app, [command, flag])
    assert refused.exit_code == 2
    assert flag.partition("=")[0] in refused.output
    assert "No such option" not in refused.output


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (["--use_local_storage", "--session_service_uri", "memory://"], "--use_local_storage"),
        (["--no_use_local_storage", "--artifact_service_uri", "memory://"], "--use_local_storage"),
        (["--session_service_uri", "agentengine://x"], "Agent Engine"),
        (["--session_service_uri", "somewhere"], "`somewhere` names no place for sessions"),
        (["--artifact_service_uri", "gs://x"], "Google Cloud Storage"),
        (["--memory_service_uri", "rag://x"], "RAG"),
        (["--extra_plugins", "no.such.Plugin"], "no.such.Plugin"),
        (["--models", "no-such-model"], "no-such-model"),
        (["--fleet"], "--session_service_uri sqlite:///FILE"),
        (["--fleet", "--session_service_uri", "memory://"], "a store that its workers share"),
        (["--fleet", "--session_service_uri", "sqlite:///:memory:"], "a fleet needs one"),
        (["--fleet", "--session_service_uri", "postgresql://nowhere/x", "--models", "offline"], "flowloom worker"),
        (["--host", "0.0.0.0", "--port", "0"], "--token"),
        (["--host", "not-an-address.invalid", "--allow_unauthenticated"], "cannot listen"),
        (["--log_level", "loud"], "loud"),
        (["--port", "70000"], "65535"),
        (["--on_busy", "wait"], "wait"),
    ],
)
def test_what_cannot_be_used_is_told_before_anything_is_served(flags: list[str], told: str, tmp_path: Path) -> None:
    """In one sentence, with exit code 2."""
    refused = CliRunner().invoke(app, ["web", str(tmp_path), *flags])
    assert refused.exit_code == 2, refused.output
    assert told in " ".join(refused.output.split()), refused.output


def test_a_folder_that_is_not_there_is_told(tmp_path: Path) -> None:
    """With its name."""
    refused = CliRunner().invoke(app, ["web", str(tmp_path / "nothing")])
    assert refused.exit_code == 2
    assert "is no folder" in " ".join(refused.output.split())


def test_every_setting_of_the_flags_is_one_of_the_server(made: list[dict[str, Any]]) -> None:
    """By the same name."""
    from flowloom.server.application import _FOLDER_KEYWORDS
    from flowloom.server.settings import ServerSettings

    known = {*_FOLDER_KEYWORDS, *ServerSettings.__dataclass_fields__, "reload", "token", "log_level", "verbose"}
    assert set(ServeOptions.__dataclass_fields__) <= known
