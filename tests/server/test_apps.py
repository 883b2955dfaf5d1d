"""Which apps a folder of agents has, and what becomes of those that cannot be loaded (server spec §1)."""

from __future__ import annotations

import functools
import logging
import os
import sys
import threading
import time
import types
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest
from server.serving import Running, serving

from flowloom.errors import ConfigurationError
from flowloom.server import get_fast_api_app
from flowloom.server.apps import AppFolder
from flowloom.server.problems import ProblemError

AGENT = """
from flowloom import LlmAgent
from flowloom.testing import ScriptedModel
{imports}
root_agent = LlmAgent(name="{name}", description="{description}", model=ScriptedModel(["Hello."]))
"""


def write(folder: Path, name: str, *, file: str = "agent.py", imports: str = "", description: str = "") -> Path:
    """An agent in a file of a folder."""
    folder.mkdir(parents=True, exist_ok=True)
    path = folder / file
    path.write_text(AGENT.format(name=name, imports=imports, description=description))
    return path


@pytest.fixture(scope="module")
def agents_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Apps of every kind, and what is none."""
    base = tmp_path_factory.mktemp("agents")
    write(base / "whole", "whole", imports="from .words import GREETING")
    (base / "whole" / "words.py").write_text('GREETING = "Hello"\n')
    write(base / "package", "package", file="__init__.py")
    write(base, "single", file="single.py")
    write(base / "group" / "nested", "nested")
    write(base / "Zebra", "zebra")
    write(base / "tmp", "hidden")
    write(base / ".hidden", "hidden")
    (base / "helpers").mkdir()
    (base / "helpers" / "__init__.py").write_text("")
    (base / "broken").mkdir()
    (base / "broken" / "agent.py").write_text("import a_module_that_is_not_there\n")
    named = base / "named"
    named.mkdir()
    (named / "agent.py").write_text(
        AGENT.format(name="inner", imports="from flowloom import App", description="")
        + '\napp = App(name="another_name", root_agent=root_agent)\n'
    )
    return base


@pytest.fixture(scope="module")
def served_folder(agents_dir: Path) -> Iterator[Running]:
    with serving(get_fast_api_app(agents_dir=str(agents_dir), web=True, use_local_storage=False)) as running:
        yield running


def test_the_development_server_lists_nested_apps(served_folder: Running) -> None:
    """Sorted by code point, those that cannot be loaded too; without hidden tmp_path, modules and plain packages."""
    names = served_folder.client.get("/list-apps?relative_path=./").json()
    assert names == ["Zebra", "broken", "group.nested", "named", "package", "whole"]


def test_the_api_server_lists_direct_folders(agents_dir: Path) -> None:
    """Each with an `agent.py` or an `__init__.py`."""
    assert AppFolder(agents_dir, nested=False).names() == ["Zebra", "broken", "helpers", "named", "package", "whole"]


@pytest.mark.parametrize("name", ["whole", "package", "single", "group.nested", "named"])
def test_an_app_is_loaded(served_folder: Running, name: str) -> None:
    """From a package, its `agent` module, a nested folder or a module that is not listed."""
    info = served_folder.client.get(f"/apps/{name}/app-info")
    assert info.status_code == 200, info.text
    assert info.json()["name"] == name


def test_sessions_are_kept_under_the_name_of_the_folder(served_folder: Running) -> None:
    """Whatever the `App` is called."""
    made = served_folder.client.post(served_folder.sessions("named"))
    assert made.json()["appName"] == "named"
    assert served_folder.call(served_folder.served.runner_of("named")).app_name == "named"


LONG = ("n" * 300, ".".join(["n" * 200] * 30))
"""What no file and no path can be named."""


@pytest.mark.parametrize(
    "name", ["nothing", "os", "..", "whole.agent", "group", "whole-1", "group..nested", "a b", *LONG]
)
def test_what_is_no_app_is_not_found(served_folder: Running, name: str) -> None:
    """No name leads out of the folder, or to a module that happens to be there."""
    found = served_folder.client.get(f"/apps/{name}/app-info")
    assert found.status_code == 404
    if name not in (".."):
        assert found.json()["code"] == "app_not_found"


def test_names_of_built_in_agents_are_forbidden(served_folder: Running) -> None:
    """They are google-adk's own."""
    found = served_folder.client.get("/apps/__adk_agent_builder/app-info")
    assert (found.status_code, found.json()["code"]) == (403, "forbidden")


def test_a_session_of_an_unknown_app_is_not_made(served_folder: Running) -> None:
    """It could never be used."""
    made = served_folder.client.post(served_folder.sessions("nothing"))
    assert (made.status_code, made.json()["code"]) == (404, "app_not_found")
    assert served_folder.client.get(served_folder.sessions("nothing")).json() == []


@pytest.mark.parametrize("name", ["nothing", *LONG])
def test_an_unknown_app_has_no_sessions(agents_dir: Path, name: str) -> None:
    """Reading and deleting them is no failure, where each app keeps its own."""
    with serving(get_fast_api_app(agents_dir=str(agents_dir), web=True)) as running:
        assert running.client.get(running.sessions(name)).json() == []
        assert running.client.delete(f"{running.sessions(name)}/s").status_code == 200


def test_an_app_that_is_broken_says_nothing_of_the_machine(
    served_folder: Running, agents_dir: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """The client gets an id, under which the log has the traceback."""
    found = served_folder.client.get("/apps/broken/app-info")
    assert found.status_code == 500
    problem = found.json()
    assert problem["code"] == "agent_broken"
    assert str(agents_dir) not in found.text
    (record,) = [each for each in caplog.records if problem["errorId"] in each.getMessage()]
    assert record.exc_info is not None
    assert "a_module_that_is_not_there" in logging.Formatter().formatException(record.exc_info)


def test_the_development_server_shows_why_an_app_is_broken(served_folder: Running) -> None:
    """To those who write it."""
    told = served_folder.client.get("/dev/apps/broken/problem").json()["traceback"]
    assert "a_module_that_is_not_there" in told
    assert served_folder.client.get("/dev/apps/whole/problem").json() == {"traceback": None}


def test_a_detailed_list_leaves_out_what_is_broken(served_folder: Running) -> None:
    """And tells of the others what they are."""
    apps = served_folder.client.get("/list-apps?detailed=true").json()["apps"]
    assert [app["name"] for app in apps] == ["Zebra", "group.nested", "named", "package", "whole"]
    assert apps[2] == {
        "name": "named",
        "rootAgentName": "inner",
        "description": "",
        "language": "python",
        "isComputerUse": False,
        "agents": None,
    }


def test_a_broken_app_is_tried_again_when_it_has_changed(tmp_path: Path) -> None:
    """Without a restart, and not before."""
    file = tmp_path / "mended" / "agent.py"
    file.parent.mkdir()
    file.write_text("raise RuntimeError('counted')")
    apps = AppFolder(tmp_path)
    for _ in range(2):
        with pytest.raises(ProblemError) as caught:
            apps.load("mended")
        assert caught.value.code == "agent_broken"
    write(tmp_path / "mended", "mended")
    assert apps.load("mended").root_agent.name == "mended"


def test_no_request_waits_for_the_import_of_an_app(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is imported by a thread, once, whoever else asks for it meanwhile."""
    gate = types.ModuleType("gate_of_an_import")
    gate.entered, gate.opened, gate.count = threading.Event(), threading.Event(), []  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, gate.__name__, gate)
    waits = "import gate_of_an_import as gate\ngate.count.append(1); gate.entered.set(); assert gate.opened.wait(60)"
    write(tmp_path / "slow_app", "slow_app", imports=waits)
    write(tmp_path / "quick_app", "quick_app")
    with (
        serving(get_fast_api_app(agents_dir=tmp_path, web=True, use_local_storage=False)) as server,
        ThreadPoolExecutor() as threads,
    ):
        ask = functools.partial(httpx.get, f"{server.url}/apps/slow_app/app-info", timeout=60, trust_env=False)
        first = threads.submit(ask)
        try:
            assert gate.entered.wait(60)
            second = threads.submit(ask)
            assert server.client.get("/health").status_code == 200
            assert server.client.get("/apps/slow_app/users/u/sessions").status_code == 200
            assert not first.done()
        finally:
            gate.opened.set()
        assert [first.result().status_code, second.result().status_code] == [200, 200]
    assert gate.count == [1]


@pytest.mark.parametrize("reload", [True, False])
def test_an_app_that_has_changed_is_loaded_anew_if_asked_for(tmp_path: Path, reload: bool) -> None:
    """Also if the new file is as long as the old one, and as old to the second."""
    name = f"changing{reload}"
    file = write(tmp_path / name, "aaaa")
    os.utime(file, (1_000_000, 1_000_000))
    apps = AppFolder(tmp_path, reload=reload)
    first = apps.load(name)
    write(tmp_path / name, "bbbb")
    os.utime(file, ns=(1_000_000 * 10**9 + 5, 1_000_000 * 10**9 + 5))
    assert apps.load(name).root_agent.name == ("bbbb" if reload else "aaaa")
    assert (apps.load(name) is first) is not reload


def test_a_folder_that_is_an_app_is_the_only_one(tmp_path: Path) -> None:
    """It is named like the folder, and is what requests mean that name none."""
    write(tmp_path / "alone", "alone")
    write(tmp_path / "alone" / "inner", "inner")
    with serving(get_fast_api_app(agents_dir=str(tmp_path / "alone"), web=True, use_local_storage=False)) as running:
        assert running.client.get("/list-apps").json() == ["alone"]
        assert running.client.get("/app-info").json()["rootAgentName"] == "alone"
        made = running.client.post("/users/ann/sessions").json()
        assert made["appName"] == "alone"
        assert running.client.get(f"/users/ann/sessions/{made['id']}").json() == made
        assert running.client.get("/apps/inner/app-info").status_code == 404


def test_the_default_app_can_be_named(served_folder: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """By a variable; without one a path that names no app is none."""
    assert served_folder.client.get("/app-info").status_code == 404
    monkeypatch.setenv("ADK_DEFAULT_APP_NAME", "whole")
    assert served_folder.client.get("/app-info").json()["name"] == "whole"


def test_a_folder_of_the_same_name_elsewhere_is_another_app(tmp_path: Path) -> None:
    """Two servers of one process do not mix up their agents."""
    for place in ("one", "two"):
        write(tmp_path / place / "same", place)
        assert AppFolder(tmp_path / place).load("same").root_agent.name == place


def test_an_app_cannot_stand_for_a_module_of_others(tmp_path: Path) -> None:
    """A folder that is named like an imported library is broken, and the library stays what it is."""
    write(tmp_path / "json", "json_agent")
    with pytest.raises(ProblemError) as caught:
        AppFolder(tmp_path).load("json")
    assert "Another module is named `json`" in str(caught.value.__cause__)


def test_a_folder_that_is_none_is_told(tmp_path: Path) -> None:
    """Before anything is served."""
    with pytest.raises(ConfigurationError, match="is no folder"):
        get_fast_api_app(agents_dir=str(tmp_path / "nothing"), web=False)


def test_a_folder_that_gives_way_to_another_module_is_told_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Python takes a module from anywhere before a folder without an `__init__.py`; with one, the folder is the app."""
    other, apps = tmp_path / "installed", tmp_path / "apps"
    (other / "giving_way").mkdir(parents=True)
    (other / "giving_way" / "__init__.py").write_text("")
    write(apps / "giving_way", "found")
    monkeypatch.syspath_prepend(str(other))
    with pytest.raises(ProblemError) as caught:
        AppFolder(apps).load("giving_way")
    assert "`giving_way` (`" in str(caught.value.__cause__)
    assert "Give the app's folder an `__init__.py`" in str(caught.value.__cause__)
    (apps / "giving_way" / "__init__.py").write_text("")
    assert AppFolder(apps).load("giving_way").root_agent.name == "found"


def test_variables_come_from_the_nearest_env_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Those that were set before stay, and a switch leaves all as it is."""
    monkeypatch.setenv("FLOWLOOM_TEST_SET", "before")
    monkeypatch.delenv("FLOWLOOM_TEST_NEW", raising=False)
    (tmp_path / ".env").write_text("FLOWLOOM_TEST_SET=after\nexport FLOWLOOM_TEST_NEW='a b' # told\n")
    write(tmp_path / "needs_env", "needs_env", imports="import os; VALUE = os.environ['FLOWLOOM_TEST_NEW']")
    AppFolder(tmp_path).load("needs_env")
    assert (os.environ["FLOWLOOM_TEST_SET"], os.environ["FLOWLOOM_TEST_NEW"]) == ("before", "a b")
    monkeypatch.delenv("FLOWLOOM_TEST_NEW")
    monkeypatch.setenv("ADK_DISABLE_LOAD_DOTENV", "1")
    write(tmp_path / "without_env", "without_env")
    AppFolder(tmp_path).load("without_env")
    assert "FLOWLOOM_TEST_NEW" not in os.environ


def test_sessions_begin_with_the_state_of_the_app(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The caller's keys win; a file that is broken is passed over, and read again the next time."""
    write(tmp_path / "seeded", "seeded")
    file = tmp_path / "seeded" / "initial_state.json"
    file.write_text('{"plan": "free", "seats": 1}')
    with serving(get_fast_api_app(agents_dir=str(tmp_path), web=True, use_local_storage=False)) as running:
        path = running.sessions("seeded")
        assert running.client.post(path, json={"state": {"seats": 2}}).json()["state"] == {"plan": "free", "seats": 2}
        for wrong in ("{", "[1]"):
            file.write_text(wrong)
            assert running.client.post(path).json()["state"] == {}
    assert len([each for each in caplog.records if "initial_state.json" in each.getMessage()]) == 2
    with serving(get_fast_api_app(agents_dir=str(tmp_path), web=False, use_local_storage=False)) as running:
        file.write_text('{"plan": "free"}')
        assert running.client.post(running.sessions("seeded")).json()["state"] == {}


def test_loading_a_folder_takes_no_time(agents_dir: Path) -> None:
    """A list of apps reads no app."""
    apps = AppFolder(agents_dir)
    spent: list[float] = []
    for _ in range(5):  # other threads work, too
        begin = time.process_time()
        apps.names()
        spent.append(time.process_time() - begin)
    assert min(spent) < 0.05


def test_an_app_that_a_file_describes_is_served(tmp_path: Path) -> None:
    """`root_agent.yaml` is loaded as `agent.py` is, behind it; one that is wrong tells why."""
    for name, text in (("told", "{name: told, instruction: Help.}"), ("wrong", "{name: wrong}")):
        (tmp_path / name).mkdir()
        (tmp_path / name / "root_agent.yaml").write_text(text)
    write(tmp_path / "both", "from_python")
    (tmp_path / "both" / "root_agent.yaml").write_text("{name: from_yaml, instruction: Help.}")
    apps = AppFolder(tmp_path)
    assert apps.names() == ["both", "told", "wrong"]
    assert (apps.load("told").root_agent.name, apps.load("both").root_agent.name) == ("told", "from_python")
    assert "`instruction` is missing" in str(apps.problem_of("wrong"))
    (tmp_path / "told" / "root_agent.yaml").write_text("{name: told, instruction: Help., tools: [told.tool]}")
    assert "--allow_import told" in str(AppFolder(tmp_path).problem_of("told"))
