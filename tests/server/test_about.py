"""What the server says of itself, and how it says that something went wrong (server spec §2, §3)."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Iterator
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from fastapi import FastAPI
from server.serving import Running, desk, serving

from flowloom import App, LlmAgent, SequentialAgent
from flowloom.errors import ConfigurationError, NotSupportedError
from flowloom.server import app_of, get_fast_api_app


@pytest.fixture(scope="module")
def below() -> Iterator[Running]:
    """A server behind a proxy, of a tree of agents."""

    def instruction(context: object) -> str:
        return "Be kind."

    child = LlmAgent(name="child", instruction=instruction, model="offline")
    app = App(name="tree", root_agent=SequentialAgent(name="root", sub_agents=[desk("first"), child]))
    made = app_of(app, url_prefix="/proxy/desk")

    @made.get("/fails")
    async def fails() -> None:
        raise RuntimeError("a secret of ours")

    with serving(made) as running:
        running.client.base_url = running.url.removesuffix("/proxy/desk")
        yield running


def test_the_process_lives(server: Running) -> None:
    """And tells what it is."""
    assert server.client.get("/health").json() == {"status": "ok"}
    version = server.client.get("/version").json()
    assert version.keys() == {"version", "language", "language_version", "server"}
    assert (version["language"], version["server"]) == ("python", "flowloom")


@pytest.mark.parametrize("prefix", ["", "/proxy/desk"])
def test_a_prefix_may_be_taken_off_or_not(below: Running, prefix: str) -> None:
    """By whatever proxy stands before the server."""
    assert below.client.get(f"{prefix}/list-apps").json() == ["tree"]
    assert below.client.get(f"{prefix}/app-info").json()["name"] == "tree"


def test_an_app_of_any_root_tells_of_its_agents(below: Running) -> None:
    """What they are told, and the tools that they have."""
    info = below.client.get("/apps/tree/app-info").json()
    assert info["agents"].keys() == {"root", "first", "child"}
    assert info["agents"]["root"]["sub_agents"] == ["first", "child"]
    assert info["agents"]["child"]["instruction"] == "<InstructionProvider: instruction>"
    ((tool,),) = [each["functionDeclarations"] for each in info["agents"]["first"]["tools"]]
    assert tool["name"] == "clock"


def test_a_failure_tells_no_more_than_its_id(below: Running, caplog: pytest.LogCaptureFixture) -> None:
    """The log has the rest under it, once."""
    answer = below.client.get("/fails")
    assert answer.status_code == 500
    problem = answer.json()
    assert problem.keys() == {"detail", "code", "errorId"}
    assert "secret" not in answer.text
    assert len([each for each in caplog.records if problem["errorId"] in each.getMessage()]) == 1
    assert [each for each in caplog.records if each.levelname == "ERROR" and each.name.startswith("uvicorn")] == []


@pytest.mark.parametrize(("method", "path", "status"), [("GET", "/nothing", 404), ("POST", "/health", 405)])
def test_what_is_not_there_is_told_in_one_form(server: Running, method: str, path: str, status: int) -> None:
    """A path, and a method of one."""
    answer = server.client.request(method, path)
    assert answer.status_code == status
    assert answer.json().keys() == {"detail", "code"}


@pytest.mark.parametrize("path", ["/apps/a%00b/users/u/sessions", "/apps/desk/users/u%00/sessions/s"])
def test_a_path_with_a_nul_names_nothing(server: Running, path: str) -> None:
    """No store could keep it."""
    answer = server.client.get(path)
    assert (answer.status_code, answer.json()["code"]) == (400, "bad_request")


@pytest.mark.parametrize("path", ["/docs", "/redoc"])
def test_the_reference_loads_nothing_from_elsewhere(server: Running, path: str) -> None:
    """No script at all: it is made from the OpenAPI document."""
    page = server.client.get(path)
    assert page.headers["content-type"].startswith("text/html")
    assert "default-src 'none'" in page.headers["content-security-policy"]
    assert "http" not in page.text.replace("<!doctype html>", "").replace('lang="en"', "")
    assert "/apps/{app_name}/users/{user_id}/sessions" in page.text
    assert "/list-apps" in server.client.get("/openapi.json").json()["paths"]


def test_a_setting_that_there_is_not_is_told_with_those_that_there_are() -> None:
    """As Python does for a function's parameters."""
    with pytest.raises(TypeError, match=r"no setting `prot`.* `port`"):
        app_of(desk(), prot=5)
    with pytest.raises(TypeError, match="`reload_agents`"):
        get_fast_api_app(agents_dir=".", web=False, prot=5)


def test_what_there_is_not_yet_is_refused_by_name() -> None:
    """If it is asked for."""
    with pytest.raises(NotSupportedError, match="`a2a`"):
        app_of(desk(), a2a=True)
    assert isinstance(app_of(desk(), a2a=False, trigger_sources=None), FastAPI)


@pytest.mark.parametrize("setting", ["a2a", "trace_to_cloud", "otel_to_cloud"])
def test_what_a_refusal_names_in_the_place_of_a_setting_exists(setting: str) -> None:
    """By its full name."""
    with pytest.raises(NotSupportedError) as caught:
        app_of(desk(), **dict[str, Any]({setting: True}))
    [instead] = re.findall(r"`flowloom\.([\w.]+)`", str(caught.value))
    room, _, name = instead.rpartition(".")
    assert hasattr(import_module(f"flowloom.{room}".rstrip(".")), name)


def test_plugins_are_named_or_given(tmp_path: object) -> None:
    """By the full name of a class; what is none is told."""
    app = app_of(desk(), extra_plugins=["flowloom.plugins.logging_plugin.LoggingPlugin"])
    assert [plugin.name for plugin in app.state.served.plugins] == ["flowloom.plugins.logging_plugin.LoggingPlugin"]
    with pytest.raises(ConfigurationError, match=r"nothing\.Here"):
        app_of(desk(), extra_plugins=["nothing.Here"])


def test_a_server_can_be_made_of_nothing_else() -> None:
    """What is no agent is told."""
    with pytest.raises(ConfigurationError, match="not a `str`"):
        app_of("desk")  # type: ignore[arg-type]


def test_the_package_does_not_load_the_server() -> None:
    """What is served without it costs nothing."""
    code = "import sys, flowloom; assert not {'fastapi', 'uvicorn', 'flowloom.server'} & sys.modules.keys()"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_server_for_programs_loads_nothing_of_the_page_of_fleets_or_of_databases(tmp_path: Path) -> None:
    """What it does not serve takes no memory."""
    code = """
import sys
from flowloom.cli import commands
from flowloom.server import get_fast_api_app
get_fast_api_app(agents_dir=sys.argv[1], web=False, use_local_storage=False)
rooms = {".".join(name.split(".")[:2]) for name in sys.modules}
assert not {"flowloom.human", "flowloom.inspection", "flowloom.sql", "sqlite3"} & rooms, rooms
assert not {"flowloom.durable.client", "flowloom.server.people", "flowloom.server.fleet"} & sys.modules.keys()
"""
    subprocess.run([sys.executable, "-c", code, str(tmp_path)], check=True)


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"models": "offline"}, {"offline"}),
        ({"default_llm_model": "offline"}, {"function", "offline"}),
    ],
)
def test_another_model_may_answer(settings: dict[str, str], said: set[str]) -> None:
    """For all agents, or for those that have none."""
    agents = {"own": desk("own"), "none": LlmAgent(name="none")}
    found = set[str]()
    for name, agent in agents.items():
        with serving(app_of(agent, **settings)) as running:
            body = {"userId": "ann", "sessionId": running.new_session(name), "newMessage": {"parts": [{"text": "Hi"}]}}
            events = running.client.post("/run", json=body).json()
            found.add("function" if "You said" in events[-1]["content"]["parts"][0]["text"] else "offline")
    assert found == said
