"""From a path to the agent in it."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from cli.process import flowloom
from flowloom.cli.loading import load_app
from flowloom.cli.usage_error import UsageError

AGENT = "from flowloom import LlmAgent\nroot_agent = LlmAgent(name='clerk')\n"


@pytest.fixture(autouse=True)
def modules_as_before() -> Iterator[None]:
    """What a test imports does not stay."""
    modules, path = set(sys.modules), list(sys.path)
    yield
    sys.path[:] = path
    for name in set(sys.modules) - modules:
        del sys.modules[name]


def write(folder: Path, **files: str) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    for name, text in files.items():
        (folder / f"{name}.py").write_text(text)
    return folder


def test_a_file(tmp_path: Path) -> None:
    """A file is known by its name."""
    loaded = load_app(write(tmp_path, office_a=AGENT) / "office_a.py")
    assert (loaded.name, loaded.agent.name) == ("office_a", "clerk")


def test_a_package(tmp_path: Path) -> None:
    """`root_agent` in the package itself, relative imports included."""
    folder = write(tmp_path / "office_b", __init__="from .parts import root_agent\n", parts=AGENT)
    assert load_app(folder).name == "office_b"


def test_a_package_whose_agent_is_in_agent_py(tmp_path: Path) -> None:
    """ADK's convention: the package may leave `root_agent` to `agent.py`."""
    assert load_app(write(tmp_path / "office_c", __init__="", agent=AGENT)).agent.name == "clerk"


def test_a_folder_with_agent_py_alone(tmp_path: Path) -> None:
    """A folder without `__init__.py` does as well."""
    assert load_app(write(tmp_path / "office_d", agent=AGENT)).name == "office_d"


def test_agent_py_of_a_package(tmp_path: Path) -> None:
    """Given the file, its relative imports work, and the folder gives the name."""
    folder = write(tmp_path / "office_e", __init__="", agent="from .parts import root_agent\n", parts=AGENT)
    assert load_app(folder / "agent.py").name == "office_e"


def test_an_app(tmp_path: Path) -> None:
    """An `App` brings its name and its plugins."""
    text = AGENT + (
        "from flowloom import App, BasePlugin\n"
        "app = App(name='bureau', root_agent=root_agent, plugins=[BasePlugin('p')])\n"
    )
    loaded = load_app(write(tmp_path, office_f=text) / "office_f.py")
    assert (loaded.name, [plugin.name for plugin in loaded.plugins]) == ("bureau", ["p"])


APP = "from flowloom import App, BasePlugin, LlmAgent\n"
OTHER = APP + "app = App(name='bureau', root_agent=LlmAgent(name='chief'), plugins=[BasePlugin('p')])\n"


def test_an_app_wins_over_a_root_agent(tmp_path: Path) -> None:
    """A module with both runs the app; if its agent is another one, that is said, with both names."""
    loaded = load_app(write(tmp_path, office_g=AGENT + OTHER) / "office_g.py")
    assert (loaded.name, loaded.agent.name) == ("bureau", "chief")
    assert "whose agent is `chief`, and a `root_agent` that is another: the agent `clerk`" in str(loaded.notice)


def test_an_app_of_the_root_agent_is_no_conflict(tmp_path: Path) -> None:
    """`root_agent` beside the app that has it is usual, and nothing is said of it."""
    text = AGENT + "from flowloom import App\napp = App(name='bureau', root_agent=root_agent)\n"
    loaded = load_app(write(tmp_path, office_h=text) / "office_h.py")
    assert (loaded.name, loaded.notice) == ("bureau", None)


def test_an_app_behind_a_root_agent_that_the_package_takes_from_it(tmp_path: Path) -> None:
    """The app of `agent.py` wins, also if `__init__.py` names its agent alone: no plugin is lost."""
    text = AGENT + (
        "from flowloom import App, BasePlugin\n"
        "app = App(name='bureau', root_agent=root_agent, plugins=[BasePlugin('p')])\n"
    )
    loaded = load_app(write(tmp_path / "office_i", __init__="from .agent import root_agent\n", agent=text))
    assert (loaded.name, [plugin.name for plugin in loaded.plugins], loaded.notice) == ("bureau", ["p"], None)


def test_a_module_that_the_package_does_not_load_is_not_looked_at(tmp_path: Path) -> None:
    """With a `root_agent` in the package itself, an `agent.py` that nobody imports is left alone."""
    folder = write(tmp_path / "office_j", __init__=AGENT, agent="raise RuntimeError('not meant')\n")
    assert load_app(folder).agent.name == "clerk"


def test_an_app_of_another_library(tmp_path: Path) -> None:
    """An `app` that is no `App`, such as a web server's, hides no `root_agent`; alone, the error says what it is."""
    assert load_app(write(tmp_path, office_k="app = object()\n" + AGENT) / "office_k.py").agent.name == "clerk"
    with pytest.raises(UsageError, match=r"Its `app` is a `builtins.object`, and no flowloom `App`"):
        load_app(write(tmp_path, office_l="app = object()\n") / "office_l.py")


def test_the_command_says_which_agent_it_leaves_out(tmp_path: Path) -> None:
    """`flowloom explain` tells on stderr that the app is used, and shows the request of its agent."""
    write(tmp_path, office_m=AGENT + OTHER)
    done = flowloom("explain", tmp_path / "office_m.py", "--model", "gemini-2.5-flash")
    assert "The app `bureau` is used" in " ".join(done.stderr.split())
    assert "chief asks" in done.stdout


DESCRIBED = "{name: clerk, instruction: Help., tools: [office_n.words.count]}"


def test_an_agent_that_a_file_describes(tmp_path: Path) -> None:
    """The folder, or the file; what it imports needs leave, and an `agent.py` beside it wins."""
    folder = write(tmp_path / "office_n", words="def count(text: str) -> int:\n    return len(text)\n")
    (folder / "root_agent.yaml").write_text(DESCRIBED)
    with pytest.raises(UsageError, match=r"root_agent.yaml:1: `tools\[0\]`: .*--allow_import office_n"):
        load_app(folder)
    for path in (folder, folder / "root_agent.yaml"):
        loaded = load_app(path, allow_imports=["office_n"])
        assert (loaded.name, loaded.agent.name) == ("office_n", "clerk")
    write(folder, agent=AGENT.replace("clerk", "chief"))
    assert load_app(folder).agent.name == "chief"


def test_the_commands_take_described_agents(tmp_path: Path) -> None:
    """`run` with leave answers; `schema` prints what editors need."""
    folder = write(tmp_path / "office_o", words="def count(text: str) -> int:\n    return len(text)\n")
    (folder / "root_agent.yaml").write_text(DESCRIBED.replace("office_n", "office_o"))
    refused = flowloom("run", folder, "-m", "Hello", "--model", "offline", "--store", "memory")
    assert (refused.returncode, "--allow_import office_o" in " ".join(refused.stderr.split())) == (2, True)
    done = flowloom(
        "run", folder, "-m", "Hello", "--model", "offline", "--store", "memory", "--allow_import", "office_o"
    )
    assert (done.returncode, "clerk:" in done.stdout) == (0, True), done.stderr
    assert json.loads(flowloom("schema").stdout)["$schema"].endswith("2020-12/schema")
