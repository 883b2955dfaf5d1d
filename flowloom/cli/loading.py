"""From a path to the agent in it (ADK's convention: `root_agent`, in the package or in its `agent.py`)."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, cast

from flowloom.agents import BaseAgent
from flowloom.cli.usage_error import UsageError
from flowloom.errors import FlowloomError, quoted_list
from flowloom.plugins import BasePlugin
from flowloom.runner.app import App

_DESCRIPTIONS = (".yaml", ".yml", ".json")


@dataclass(slots=True)
class Loaded:
    """An agent to run, the name that its sessions are kept under, and the app it is the root of, if there is one.

    `notice` says what the path defines besides that is left out.
    """

    name: str
    agent: BaseAgent
    app: App | None = None
    notice: str | None = None

    @property
    def plugins(self) -> list[BasePlugin]:
        """The plugins of the app."""
        return [] if self.app is None else list(self.app.plugins)

    def subject(self, agent: BaseAgent, plugins: Sequence[BasePlugin]) -> tuple[BaseAgent | App, dict[str, Any]]:
        """What to explain or to measure, and with which options: the app where its root is meant, with its settings."""
        if self.app is None or agent is not self.agent:
            return agent, {"plugins": plugins}
        return self.app.model_copy(update={"plugins": list(plugins)}), {}


def load_app(path: Path, *, allow_imports: Collection[str] = (), allow_stdio: bool = False) -> Loaded:
    """The `app` or `root_agent` of a .py file, a package folder, its `agent.py`; or what a `root_agent.yaml` describes.

    Such a file may import the packages `allow_imports` and, with `allow_stdio`, start MCP servers. Raises `UsageError`.

    An `app` wins over a `root_agent`, also if it is in an `agent.py` from which the package itself takes the agent
    alone: the plugins and settings of the app are not lost.
    """
    target = path.resolve()
    if not target.exists():
        raise UsageError(f"There is no file or folder `{path}`. Give the path of a .py file or of a package folder.")
    described = next((file for file in _descriptions(target) if file.is_file()), None)
    if described is not None:
        return _described(described, path, allow_imports, allow_stdio)
    if target.is_dir():
        names = [name for name in ("__init__.py", "agent.py") if (target / name).is_file()]
        if not names:
            raise UsageError(
                f"The folder `{path}` has neither `__init__.py` nor `agent.py` nor `root_agent.yaml`. Give a folder "
                f"with an agent in it, or a .py file."
            )
    elif target.suffix != ".py":
        raise UsageError(f"`{path}` is no .py file, no .yaml file, and no folder.")
    name = target.stem if target.stem not in ("agent", "__init__") else target.parent.name
    modules: list[ModuleType] = []
    for module_name in _module_names(target):
        if _values(modules, "root_agent") and module_name not in sys.modules:
            break  # what the package itself does not load is not meant
        module = _import(module_name, path)
        _check_origin(module, target, path)
        modules.append(module)
        if isinstance(getattr(module, "app", None), App):
            break
    return _found_in(modules, name, path)


def _descriptions(target: Path) -> list[Path]:
    """The files that may describe the agent of a path: itself, or those of a folder without an `agent.py`."""
    if target.suffix in _DESCRIPTIONS:
        return [target]
    if (target / "agent.py").is_file():
        return []
    return [target / f"root_agent{suffix}" for suffix in _DESCRIPTIONS]


def _described(file: Path, path: Path, allow_imports: Collection[str], allow_stdio: bool) -> Loaded:
    from flowloom.config import agent_from_config

    if str(file.parent.parent) not in sys.path:
        sys.path.insert(0, str(file.parent.parent))
    shown = path / file.name if path.is_dir() else path
    try:
        agent = agent_from_config(shown, allow_imports=allow_imports, allow_stdio=allow_stdio)
    except FlowloomError as error:
        raise UsageError(f"`{shown}` describes no agent.\n{error}") from error
    return Loaded(file.parent.name, agent)


def _module_names(target: Path) -> list[str]:
    """The modules to look into, by full name; the folder that holds the outermost package comes onto `sys.path`."""
    is_package = target.is_dir() or (target.parent / "__init__.py").is_file()
    parts = [target.stem if target.is_file() else target.name]
    top = target.parent
    while is_package and (top / "__init__.py").is_file():
        parts.insert(0, top.name)
        top = top.parent
    if any("." in part for part in parts):
        raise UsageError(f"`{target}` cannot be imported, because there is a dot in its name. Rename it.")
    if str(top) not in sys.path:
        sys.path.insert(0, str(top))
    name = ".".join(parts).removesuffix(".__init__")
    if not target.is_dir():
        return [name]
    names = [name] if (target / "__init__.py").is_file() else []
    return [*names, f"{name}.agent"] if (target / "agent.py").is_file() else names


def _import(name: str, path: Path) -> ModuleType:
    try:
        return importlib.import_module(name)
    except FlowloomError as error:
        raise UsageError(f"`{path}` could not be loaded{_place(error)}: {error}") from error
    except ModuleNotFoundError as error:
        raise UsageError(
            f"`{path}` could not be loaded{_place(error)}: there is no module `{error.name}`. Install what it belongs "
            f"to in this environment, or correct the import."
        ) from error
    except (Exception, SystemExit) as error:
        raise UsageError(
            f"`{path}` could not be loaded{_place(error)}: {type(error).__name__}: {error}. Correct it, then run again."
        ) from error


def _place(error: BaseException) -> str:
    """Where in the user's own files an import failed."""
    if isinstance(error, SyntaxError) and error.filename:
        return f" ({Path(error.filename).name}, line {error.lineno})"
    own = Path(__file__).resolve().parent.parent
    for frame in reversed(traceback.extract_tb(error.__traceback__)):
        file = Path(frame.filename)
        if file.is_file() and own not in file.resolve().parents and "importlib" not in file.parts:
            return f" ({file.name}, line {frame.lineno})"
    return ""


def _check_origin(module: ModuleType, target: Path, path: Path) -> None:
    """Raise if another module of that name was imported instead."""
    origins = [getattr(module, "__file__", None), *getattr(module, "__path__", ())]
    wanted = {target, target / "__init__.py", target / "agent.py"}
    if not any(origin and Path(origin).resolve() in wanted for origin in origins):
        raise UsageError(
            f"`{path}` cannot be imported as `{module.__name__}`: another module has that name. Rename the file or "
            f"folder."
        )


def _found_in(modules: Sequence[ModuleType], name: str, path: Path) -> Loaded:
    """The `app` of the modules, or else their first `root_agent`."""
    agents = _values(modules, "root_agent")
    app = next((cast(App, app) for app in _values(modules, "app") if isinstance(app, App)), None)
    if app is not None:
        return Loaded(app.name, app.root_agent, app, _left_out(app, agents, path))
    if not agents:
        raise UsageError(_nothing_found(modules, path))
    agent = agents[0]
    if not isinstance(agent, BaseAgent):
        raise UsageError(
            f"`root_agent` in `{path}` is {_kind(agent)}, and no flowloom agent. Make it an `LlmAgent` or another "
            f"agent of `flowloom`."
        )
    return Loaded(name, cast(BaseAgent, agent))


def _values(modules: Sequence[ModuleType], name: str) -> list[Any]:
    """What the modules have under a name."""
    return [value for module in modules if (value := getattr(module, name, None)) is not None]


def _left_out(app: App, agents: Sequence[Any], path: Path) -> str | None:
    """What to say of a `root_agent` that is not the app's."""
    other = next((agent for agent in agents if agent is not app.root_agent), None)
    if other is None:
        return None
    named = f"the agent `{other.name}`" if isinstance(other, BaseAgent) else _kind(other)
    return (
        f"`{path}` has an `app`, whose agent is `{app.root_agent.name}`, and a `root_agent` that is another: {named}. "
        f"The app `{app.name}` is used. Give it that agent, or name one of the two otherwise."
    )


def _kind(value: object) -> str:
    return f"a `{type(value).__module__}.{type(value).__qualname__}`"


def _nothing_found(modules: Sequence[ModuleType], path: Path) -> str:
    values: list[Any] = [value for module in modules for value in vars(module).values()]
    agents = {agent.name for agent in values if isinstance(agent, BaseAgent)}
    hint = f" The agents in it are {quoted_list(sorted(agents))}." if agents else ""
    foreign = "".join(f" Its `app` is {_kind(app)}, and no flowloom `App`." for app in _values(modules, "app")[:1])
    advice = "Name the agent to run `root_agent`, or give an `App` as `app`."
    return f"`{path}` defines no `root_agent`.{foreign}{hint} {advice}"
