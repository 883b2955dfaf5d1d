"""What google-adk's web UI asks for beside runs and sessions (server spec §3: 23 to 30, 33 to 37; §10)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from server.serving import Running, desk, serving

from flowloom import LlmAgent, SequentialAgent
from flowloom.errors import ConfigurationError
from flowloom.plugins import BasePlugin
from flowloom.runner.app import App
from flowloom.server import app_of, get_fast_api_app
from flowloom.testing import FunctionModel

PROXIED = {"x-forwarded-for": "127.0.0.1"}


@pytest.fixture(scope="module")
def plain() -> Iterator[Running]:
    """A server that is not for development."""
    with serving(app_of(desk(), dev=False)) as running:
        yield running


@pytest.fixture(scope="module")
def tree() -> Iterator[Running]:
    """A server of a tree of agents, below a prefix, with a logo."""

    def search(words: str) -> str:
        """Search."""
        return words

    quick = FunctionModel(lambda request: "ok", model="quick")
    flights = LlmAgent(name="flights", description="Flies.", model=quick, tools=[search])
    steps = SequentialAgent(name="the-steps", sub_agents=[LlmAgent(name="node", model=quick)])
    root = LlmAgent(
        name="desk",
        model=quick,
        instruction="Help {who}.",
        output_key="said",
        tools=[search],
        sub_agents=[flights, steps],
    )
    app = App(name="desk", root_agent=root, plugins=[BasePlugin(name="watcher")])
    with serving(app_of(app, url_prefix="/p", logo_text="Ours", logo_image_url="/l.png")) as running:
        yield running


@pytest.fixture(scope="module")
def with_ui(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Running]:
    """A server with the files of a UI."""
    folder = tmp_path_factory.mktemp("ui") / "browser"
    (folder / "assets").mkdir(parents=True)
    (folder / "index.html").write_text("<title>UI</title>")
    (folder / "main.js").write_text("1")
    (folder / ".secret").write_text("secret")
    (folder / "assets" / "a.svg").write_text("<svg/>")
    (folder.parent / "outside.txt").write_text("secret")
    (folder / "link.txt").symlink_to(folder.parent / "outside.txt")
    with serving(app_of(desk(), dev_ui=str(folder))) as running:
        yield running


class TestAgentsAsData:
    def test_the_tree_with_its_settings(self, tree: Running) -> None:
        """Names in snake_case; models and tools by their names; no callbacks."""
        told = tree.client.get("/dev/apps/desk/build_graph").json()
        assert set(told) == {"name", "root_agent", "plugins"}
        assert (told["name"], told["plugins"]) == ("desk", [{"name": "watcher"}])
        root = told["root_agent"]
        assert (root["name"], root["description"], root["instruction"]) == ("desk", "", "Help {who}.")
        assert (root["model"], root["output_key"], root["include_contents"]) == ("quick", "said", "default")
        assert root["tools"] == [{"name": "search", "type": "tool"}]
        flights, steps = root["sub_agents"]
        assert (flights["model"], flights["sub_agents"]) == ("quick", [])
        assert [each["name"] for each in steps["sub_agents"]] == ["node"]
        assert not [name for name in root if "callback" in name]

    def test_the_readme_of_a_folder(self, tmp_path: Path) -> None:
        """It comes with the tree, if there is one."""
        folder = tmp_path / "guide"
        folder.mkdir()
        (folder / "agent.py").write_text(
            "from flowloom import LlmAgent\nfrom flowloom.testing import ScriptedModel\n"
            "root_agent = LlmAgent(name='guide', model=ScriptedModel(['x']))\n"
        )
        (folder / "README.md").write_text("# Guide ✓", encoding="utf-8")
        with serving(get_fast_api_app(agents_dir=str(tmp_path), web=True)) as running:
            told = running.client.get("/dev/apps/guide/build_graph").json()
        assert (told["name"], told["readme"]) == ("guide", "# Guide ✓")

    @pytest.mark.parametrize("path", ["build_graph", "build_graph_image", "graph"])
    def test_of_an_app_that_is_not_there(self, tree: Running, path: str) -> None:
        """It is 404."""
        answer = tree.client.get(f"/dev/apps/nothing/{path}")
        assert (answer.status_code, answer.json()["code"]) == (404, "app_not_found")


class TestAgentsAsAPicture:
    def test_ids_are_names(self, tree: Running) -> None:
        """What lights a node up knows it by its name; what is no identifier is in quotes."""
        told = tree.client.get("/dev/apps/desk/build_graph_image?dark_mode=false").json()
        assert list(told) == [""]
        dot = told[""]["dotSrc"]
        assert "\n\tdesk [label=<" in dot
        assert "\n\tsearch [label=<" in dot
        assert '\n\t"the-steps" [label=<' in dot
        assert '\n\t"node" [label=<' in dot
        assert '\n\t"the-steps" -> "node"' in dot
        assert "\n\tdesk -> search [style=dashed]" in dot
        assert dot.count("-> search") == 2

    def test_a_dark_one_and_a_part(self, tree: Running) -> None:
        """The colours are those of the theme; `node` is the path of an agent."""
        light, dark = (
            tree.client.get(f"/dev/apps/desk/build_graph_image?dark_mode={mode}").json()[""]["dotSrc"]
            for mode in ("false", "true")
        )
        assert light != dark
        part = tree.client.get("/dev/apps/desk/build_graph_image?node=the-steps/node").json()
        assert list(part) == ["the-steps/node"]
        assert "desk" not in part["the-steps/node"]["dotSrc"]
        assert tree.client.get("/dev/apps/desk/build_graph_image?node=nothing").status_code == 404
        assert tree.client.get("/dev/apps/desk/graph").json() == {"dotSrc": light}

    def test_what_an_event_was_about(self, server: Running) -> None:
        """A call, its result or its author is lit; an unknown event has no picture."""
        session = server.new_session()
        message = {"role": "user", "parts": [{"text": "time?"}]}
        body = {"appName": "desk", "userId": "ann", "sessionId": session, "newMessage": message}
        _, called, answered, said = [{}, *server.client.post("/run", json=body).json()]
        path = f"/dev/apps/desk/users/ann/sessions/{session}/events/{{}}/graph"

        def edge_of(event: Any) -> str:
            dot = server.client.get(path.format(event["id"])).json()["dotSrc"]
            return next(line for line in dot.split("\n") if "->" in line)

        assert "dir=back" not in edge_of(called)
        assert "penwidth=2" in edge_of(called)
        assert "dir=back" in edge_of(answered)
        assert "penwidth" not in edge_of(said)
        for missing in (path.format("nothing"), f"/dev/apps/desk/users/ann/sessions/no/events/{said['id']}/graph"):
            assert server.client.get(missing).json() == {}


class TestSettingsOfTheUi:
    def test_runtime_config(self, server: Running, tree: Running) -> None:
        """Where the server is, below its prefix; never telemetry; the logo if there is one."""
        answer = server.client.get("/dev-ui/assets/config/runtime-config.json")
        assert answer.json() == {"backendUrl": "", "telemetry": False}
        assert answer.headers["cache-control"] == "no-store"
        told = tree.client.get("/dev-ui/assets/config/runtime-config.json").json()
        assert told == {"backendUrl": "/p", "telemetry": False, "logo": {"text": "Ours", "imageUrl": "/l.png"}}

    def test_config(self, server: Running, tree: Running) -> None:
        """Nulls are kept."""
        assert server.client.get("/dev-ui/config").json() == {"logo_text": None, "logo_image_url": None}
        assert tree.client.get("/dev-ui/config").json() == {"logo_text": "Ours", "logo_image_url": "/l.png"}

    def test_telemetry_is_off(self, server: Running) -> None:
        """Nothing is stored; a write needs the header that no other page can send."""
        for _ in range(2):
            assert server.client.get("/config/telemetry").json() == {"telemetry": False}
            header = {"x-adk-telemetry-request": "true"}
            answer = server.client.post("/config/telemetry", json={"telemetry": True}, headers=header)
            assert (answer.status_code, answer.json()) == (200, {"telemetry": False})
        for headers in ({}, {"x-adk-telemetry-request": "no"}):
            assert server.client.post("/config/telemetry", json={"telemetry": True}, headers=headers).status_code == 400
        assert server.client.post("/config/telemetry", json={}, headers=header).status_code == 422


class TestWhatThereIsNothingOf:
    def test_the_builder_is_empty(self, server: Running) -> None:
        """Empty text, and not a refusal, is what its reader takes; from this machine alone."""
        path = "/dev/apps/desk/builder?ts=1&file_path=a&tmp=true"
        answer = server.client.get(path)
        assert (answer.status_code, answer.text) == (200, "")
        assert answer.headers["content-type"].startswith("text/plain")
        assert server.client.get(path, headers=PROXIED).status_code == 403

    @pytest.mark.parametrize("name", ["eval_sets", "eval_results", "tests"])
    def test_lists_are_empty(self, server: Running, name: str) -> None:
        """The UI shows that there is none."""
        assert server.client.get(f"/dev/apps/desk/{name}").json() == []

    @pytest.mark.parametrize(
        "ask",
        [
            "POST builder/save", "POST builder/cancel", "GET eval-sets", "POST eval-sets", "GET eval-sets/e",
            "DELETE eval-sets/e", "POST eval_sets/e", "GET eval_sets/e/evals", "PUT eval_sets/e/evals/c",
            "DELETE eval-sets/e/eval-cases/c", "POST eval_sets/e/add_session", "POST eval-sets/e/add-session",
            "POST eval-sets/e/run", "GET eval-results", "GET eval_results/r", "GET metrics-info", "GET tests/t",
            "POST tests/run", "POST deploy",
        ],
    )  # fmt: skip
    def test_the_rest_says_so(self, server: Running, plain: Running, ask: str) -> None:
        """501 `not_built`; a write from elsewhere is 403; a server that is not for development has none of it."""
        method, path = ask.split()
        answer = server.client.request(method, f"/dev/apps/desk/{path}")
        assert (answer.status_code, answer.json()["code"]) == (501, "not_built")
        if method != "GET":
            assert server.client.request(method, f"/dev/apps/desk/{path}", headers=PROXIED).status_code == 403
        assert plain.client.request(method, f"/dev/apps/desk/{path}").status_code == 404

    @pytest.mark.parametrize(
        "path",
        ["/apps/desk/trigger/pubsub", "/a2a/desk", "/api/reasoning_engine", "/api/stream_reasoning_engine",
         "/agent-identity/finalize"],
    )  # fmt: skip
    def test_what_either_server_has_not(self, server: Running, plain: Running, path: str) -> None:
        """501 on both."""
        for each in (server, plain):
            assert each.client.post(path).json()["code"] == "not_built"


def test_a_server_that_is_not_for_development_has_none_of_it(plain: Running) -> None:
    """All of it is 404."""
    paths = [
        "/dev-ui", "/dev-ui/", "/dev-ui/config", "/dev-ui/assets/config/runtime-config.json", "/config/telemetry", "/",
        *(f"/dev/apps/desk/{name}" for name in ("build_graph", "build_graph_image", "graph", "builder", "eval_sets")),
        "/dev/apps/desk/debug/trace/session/s", "/dev/models/requests", "/dev/apps/desk/users/a/sessions/s/trace",
    ]  # fmt: skip
    assert {path: plain.client.get(path).status_code for path in paths} == dict.fromkeys(paths, 404)


class TestTheFilesOfTheUi:
    def test_they_are_served_below_dev_ui(self, with_ui: Running) -> None:
        """The first page at the folder's address, to which the address without a slash leads."""
        answer = with_ui.client.get("/dev-ui?app=desk")
        assert (answer.status_code, answer.headers["location"]) == (307, "/dev-ui/")
        page = with_ui.client.get("/dev-ui/")
        assert (page.text, page.headers["x-content-type-options"]) == ("<title>UI</title>", "nosniff")
        assert page.headers["content-type"].startswith("text/html")
        assert with_ui.client.get("/dev-ui/main.js").headers["content-type"].startswith("text/javascript")
        assert with_ui.client.get("/dev-ui/assets/a.svg").headers["content-type"].startswith("image/svg+xml")
        assert with_ui.client.get("/dev-ui/assets/config/runtime-config.json").json()["telemetry"] is False
        assert with_ui.client.get("/").headers["location"] == "/ui/"

    @pytest.mark.parametrize(
        "path",
        [".secret", "%2e%2e/outside.txt", "..%2foutside.txt", "link.txt", "assets", "assets/", "no.js",
         "/etc/passwd", "%2fetc%2fpasswd", "n" * 300, "n/" * 3000],
    )  # fmt: skip
    def test_nothing_else_is(self, with_ui: Running, path: str) -> None:
        """No hidden file, no folder, nothing outside of it; a NUL names nothing anywhere."""
        assert with_ui.client.get(f"/dev-ui/{path}").status_code == 404
        assert with_ui.client.get(f"/dev-ui/{path}%00b").status_code == 400

    def test_without_a_ui_its_address_leads_to_ours(self, server: Running) -> None:
        """The old address still leads to a page."""
        for path in ("/dev-ui", "/dev-ui/"):
            assert server.client.get(path).headers["location"] == "/ui/"
        assert server.client.get("/dev-ui/main.js").status_code == 404

    def test_a_folder_without_a_ui_does_not_start(self, tmp_path: Path) -> None:
        """What cannot be served is told when the server is made."""
        with pytest.raises(ConfigurationError, match="web UI"):
            app_of(desk(), dev_ui=str(tmp_path))
