"""An app out of its folder: `app` before `root_agent`, the package before its `agent` module, at last its YAML."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Collection, Iterator
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import cast

from flowloom.agents import BaseAgent
from flowloom.errors import ConfigurationError
from flowloom.runner.app import App

_served: dict[str, Path] = {}
"""From which folder the modules of a first name were loaded, by any server of this process."""


def put_on_path(*folders: Path) -> None:
    """Have modules be found in these folders, in the last one first."""
    for folder in map(str, folders):
        if sys.path[0] != folder:
            with suppress(ValueError):
                sys.path.remove(folder)
            sys.path.insert(0, folder)


AgentFile = Callable[[Path], BaseAgent]
"""Reads the agent that a file describes."""


def agent_files(allow_imports: Collection[str], allow_stdio: bool) -> AgentFile:
    """What reads files that describe agents.

    They may import the packages `allow_imports` and, with `allow_stdio`, start MCP servers.
    """

    def read(file: Path) -> BaseAgent:
        config = importlib.import_module("flowloom.config")  # loads PyYAML
        return config.agent_from_config(file, allow_imports=allow_imports, allow_stdio=allow_stdio)

    return read


def import_app(base: Path, name: str, read: AgentFile, *, again: bool = False) -> App | BaseAgent:
    """The `app` or `root_agent` of the folder or module `name` in `base`, which is on `sys.path`.

    `read` reads a folder's `root_agent.yaml`. `again` forgets what was imported of it. Raises whatever the import
    raises, and `ConfigurationError` if there is no agent in it.
    """
    put_on_path(base)
    importlib.invalidate_caches()
    first = name.partition(".")[0]
    if _served.get(first, base) != base:
        _forget(first)
    elif again:
        _forget(name, sources=base.joinpath(*name.split(".")))
    _check_origin(first, base)
    _served[first] = base
    modules: list[ModuleType] = []
    for module_name in _module_names(base, name):
        if _value(modules, "root_agent") is not None and module_name not in sys.modules:
            break  # what the package itself does not load is not meant
        modules.append(importlib.import_module(module_name))
        found = _value(modules, "app")
        if isinstance(found, App):
            return cast(App, found)
    agent = _value(modules, "root_agent")
    described = base.joinpath(*name.split("."), "root_agent.yaml")
    if agent is None and described.is_file():
        return read(described)
    if isinstance(agent, BaseAgent):
        return cast(BaseAgent, agent)
    raise ConfigurationError(
        f"`{name}` defines no `root_agent` that is an agent of flowloom, and no `app` that is an `App`."
        if agent is None
        else f"`root_agent` of `{name}` is a `{type(agent).__module__}.{type(agent).__qualname__}`, and no agent of "
        f"flowloom."
    )


def _module_names(base: Path, name: str) -> Iterator[str]:
    folder = base.joinpath(*name.split("."))
    if not folder.is_dir() or (folder / "__init__.py").is_file():
        yield name
    if (folder / "agent.py").is_file():
        yield f"{name}.agent"


def _value(modules: list[ModuleType], name: str) -> object:
    """What the first module that has it has under a name."""
    return next((value for module in modules if (value := getattr(module, name, None)) is not None), None)


def _forget(name: str, sources: Path | None = None) -> None:
    """Have the modules of a name imported anew; without what was compiled, which may be as old to the second."""
    for module in [each for each in sys.modules if each == name or each.startswith(f"{name}.")]:
        del sys.modules[module]
    if sources is not None:
        module_file = sources.with_name(f"{sources.name}.py")
        for file in sources.rglob("*.py") if sources.is_dir() else [module_file]:
            Path(importlib.util.cache_from_source(str(file))).unlink(missing_ok=True)


def _check_origin(first: str, base: Path) -> None:
    """Raise `ConfigurationError` if a module of that name was imported from elsewhere, or would be: a folder without
    an `__init__.py` gives way to every module of its name."""
    module = sys.modules.get(first)
    if module is not None:
        origins = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
        advice = "Rename the app's folder."
    elif (spec := importlib.util.find_spec(first)) is not None:
        origins = [spec.origin, *(spec.submodule_search_locations or ())]
        advice = "Give the app's folder an `__init__.py`, or rename it."
    else:
        return
    if not any(origin and base in Path(origin).resolve().parents for origin in origins):
        raise ConfigurationError(f"Another module is named `{first}` (`{origins[0] or origins[-1]}`). {advice}")
