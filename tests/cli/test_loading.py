"""From a path to the agent in it."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from flowloom.cli.loading import load_app

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
