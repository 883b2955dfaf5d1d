"""Where the served apps come from: a folder of agents, or one agent (server spec §1)."""

from __future__ import annotations

import os
import re
import traceback
from collections.abc import Iterator
from dataclasses import dataclass
from os.path import isfile  # which knows that names may be too long for any file
from pathlib import Path
from threading import Lock
from typing import Protocol

from flowloom.agents import BaseAgent
from flowloom.errors import ConfigurationError
from flowloom.runner.app import App
from flowloom.server.agent_modules import AgentFile, agent_files, import_app, put_on_path
from flowloom.server.dotenv import load_dotenv
from flowloom.server.problems import ProblemError
from flowloom.server.sources import stamp_of

DEFAULT_APP = "ADK_DEFAULT_APP_NAME"
"""The variable that names the app which requests mean that name none."""
_DEPTH = 5
_MARKS = ("agent.py", "root_agent.yaml")
_ENTRIES = (*_MARKS, "__init__.py")
"""What a folder with an app has at least one of."""
_OFFERS = re.compile(r"\b(root_agent|app)\b")


class OneApp:
    """One agent, or one app, without any folder."""

    def __init__(self, agent_or_app: BaseAgent | App) -> None:
        self._app = app_with(agent_or_app)
        self.default: str | None = self._app.name
        """The app that requests mean which name none."""

    def names(self) -> list[str]:
        """Its name."""
        return [self._app.name]

    def check(self, name: str) -> None:
        """Raise `ProblemError` for any other name."""
        if name != self._app.name:
            raise forbidden(name) if name.startswith("__") else not_found(name)

    def ready(self, name: str) -> App | None:
        """The app; None for any other name."""
        return self._app if name == self._app.name else None

    def load(self, name: str) -> App:
        """The app. Raises `ProblemError` for any other name."""
        self.check(name)
        return self._app

    def folder_of(self, name: str) -> Path | None:
        """None: it has no folder."""
        return None

    def problem_of(self, name: str) -> str | None:
        """None: it is there already."""
        return None


class NoCode:
    """The app `name` of a fleet, whose code is at the workers alone."""

    def __init__(self, name: str) -> None:
        self.default: str | None = name
        """The app that requests mean which name none."""
        self._name = name

    def names(self) -> list[str]:
        """Its name."""
        return [self._name]

    def check(self, name: str) -> None:
        """Raise `ProblemError` for any other name."""
        if name != self._name:
            raise forbidden(name) if name.startswith("__") else not_found(name)

    def ready(self, name: str) -> App | None:
        """None: it is not here."""
        return None

    def load(self, name: str) -> App:
        """Raises `ProblemError`."""
        self.check(name)
        raise elsewhere(name)

    def folder_of(self, name: str) -> Path | None:
        """None: it has no folder here."""
        return None

    def problem_of(self, name: str) -> str | None:
        """None: whether it can be loaded is seen at the workers."""
        self.check(name)
        return None


class AgentLoader(Protocol):
    """What gives agents by their names, as the loaders of google-adk do."""

    def list_agents(self) -> list[str]:
        """The names."""
        ...

    def load_agent(self, agent_name: str) -> BaseAgent | App:
        """The agent, or app, of that name."""
        ...


class LoadedApps:
    """The apps that an `AgentLoader` gives."""

    def __init__(self, loader: AgentLoader) -> None:
        self._loader = loader
        self._loaded: dict[str, tuple[BaseAgent | App, App]] = {}

    @property
    def default(self) -> str | None:
        """The app that requests mean which name none."""
        return os.environ.get(DEFAULT_APP)

    def names(self) -> list[str]:
        """The names of the apps, sorted by code point."""
        return sorted(self._loader.list_agents())

    def check(self, name: str) -> None:
        """Raise `ProblemError` if there is no such app."""
        if name.startswith("__"):
            raise forbidden(name)
        if name not in self._loader.list_agents():
            raise not_found(name)

    def ready(self, name: str) -> App | None:
        """None: the loader decides each time."""
        return None

    def load(self, name: str) -> App:
        """The app of that name. Raises `ProblemError` as `check` does, and `agent_broken` (500)."""
        self.check(name)
        try:
            given = self._loader.load_agent(name)
            known = self._loaded.get(name)
            if known is None or known[0] is not given:
                known = self._loaded[name] = (given, app_with(given))
        except Exception as error:
            raise broken(name) from error
        return known[1]

    def folder_of(self, name: str) -> Path | None:
        """None: only the loader knows."""
        return None

    def problem_of(self, name: str) -> str | None:
        """The traceback of an app that cannot be loaded; None for one that can."""
        return _traceback_of(self, name)


@dataclass(slots=True)
class _Loaded:
    """What came of loading an app, and the state of its files then."""

    stamp: int
    app: App | None = None
    error: BaseException | None = None


class AppFolder:
    """The apps of AGENTS_DIR: `NAME/agent.py`, `NAME/__init__.py`, `NAME.py`, each with `app` or `root_agent`, and
    `NAME/root_agent.yaml`.

    A `folder` that has an `agent.py` itself is the only app. With `nested`, apps are found up to five folders deep,
    with dots in their names. With `reload`, an app whose files have changed is loaded anew at its next use; one that
    could not be loaded is tried again then in any case. `read` reads each `root_agent.yaml`; by default, as one
    that may import nothing. Raises `ConfigurationError` for a folder that is none.
    """

    def __init__(
        self,
        folder: str | os.PathLike[str],
        *,
        nested: bool = True,
        reload: bool = False,
        read: AgentFile | None = None,
    ) -> None:
        path = Path(folder).resolve()
        if not path.is_dir():
            raise ConfigurationError(f"`{folder}` is no folder. Give the folder that your agents' folders are in.")
        self._nested, self._reload = nested, reload
        self._read = read or agent_files((), False)
        self.only = path.name if any((path / name).is_file() for name in _MARKS) else None
        """The name of the only app, where the folder is an app itself."""
        self.base = path if self.only is None else path.parent
        """The folder that the names of apps begin in."""
        self._loaded: dict[str, _Loaded] = {}
        self._loading = Lock()
        put_on_path(path, self.base)

    @property
    def default(self) -> str | None:
        """The app that requests mean which name none."""
        return os.environ.get(DEFAULT_APP) or self.only

    def names(self) -> list[str]:
        """The names of the apps, sorted by code point."""
        if self.only is not None:
            return [self.only]
        return sorted(_names_in(self.base, _DEPTH) if self._nested else _direct_names_in(self.base))

    def check(self, name: str) -> None:
        """Raise `ProblemError` if there is no such app (404), or the name is one of google-adk's own agents (403)."""
        if name.startswith("__"):
            raise forbidden(name)
        if self.ready(name) is None and self._path_of(name) is None:
            raise not_found(name)

    def ready(self, name: str) -> App | None:
        """The app of that name as it was loaded, if no change of its files is to be looked for."""
        known = self._loaded.get(name)
        return None if known is None or self._reload else known.app

    def load(self, name: str) -> App:
        """The app of that name, loaded at its first use. Raises `ProblemError`: `app_not_found` (404), `forbidden`
        (403), `agent_broken` (500)."""
        self.check(name)
        with self._loading:
            known = self._loaded.get(name)
            if known is None or ((self._reload or known.app is None) and known.stamp != self._stamp(name)):
                known = self._loaded[name] = self._load(name, again=known is not None)
        if known.app is None:
            raise broken(name) from known.error
        return known.app

    def home_of(self, name: str) -> Path | None:
        """The folder in which what belongs to an app is kept; None if there is no such app."""
        path = self._path_of(name)
        return path.parent if path is not None and path.is_file() else path

    def folder_of(self, name: str) -> Path | None:
        """The folder of an app; None for one that is a module, or is not there."""
        path = self._path_of(name)
        return path if path is not None and path.is_dir() else None

    def problem_of(self, name: str) -> str | None:
        """The traceback of an app that cannot be loaded; None for one that can. Raises `ProblemError` as `check`."""
        return _traceback_of(self, name)

    def _load(self, name: str, *, again: bool) -> _Loaded:
        loaded = _Loaded(self._stamp(name))
        folder = self.folder_of(name)
        load_dotenv(folder or self.base)
        try:
            found = import_app(self.base, name, self._read, again=again)
            loaded.app = app_with(found)
        except (Exception, SystemExit) as error:
            loaded.error = error
        return loaded

    def _path_of(self, name: str) -> Path | None:
        """The folder or module of an app, below `base` whatever the name is."""
        if self.only is not None:
            return self.base / self.only if name == self.only else None
        parts = name.split(".")
        if not all(part.isidentifier() for part in parts) or (len(parts) > 1 and not self._nested):
            return None
        path = self.base.joinpath(*parts)
        if any(isfile(path / mark) for mark in _ENTRIES):
            return path
        module = self.base / f"{name}.py"
        return module if isfile(module) else None

    def _stamp(self, name: str) -> int:
        """A number that is another one when a source of the app has changed."""
        path = self._path_of(name)
        return 0 if path is None else stamp_of(path)


def app_with(agent_or_app: BaseAgent | App) -> App:
    """The app itself, or one that is named like the agent. Raises `ConfigurationError` for anything else."""
    if isinstance(agent_or_app, App):
        return agent_or_app
    if isinstance(agent_or_app, BaseAgent):  # pyright: ignore[reportUnnecessaryIsInstance]
        return App(name=agent_or_app.name, root_agent=agent_or_app)
    raise ConfigurationError(f"A server takes an agent or an `App`, not a `{type(agent_or_app).__name__}`.")


def broken(name: str) -> ProblemError:
    """What is told of an app that cannot be loaded; raise it from the error."""
    return ProblemError(500, "agent_broken", f"The app `{name}` cannot be loaded. The server's log tells why.")


def not_found(name: str) -> ProblemError:
    """What is told of an app that is not there."""
    return ProblemError(404, "app_not_found", f"There is no app `{name}`.")


def elsewhere(name: str) -> ProblemError:
    """What is told of an app whose code only the workers of the fleet have."""
    return ProblemError(
        404,
        "app_elsewhere",
        f"The code of the app `{name}` is at the workers of the fleet: this server runs it, and cannot show it.",
    )


def forbidden(name: str) -> ProblemError:
    """What is told of the names of google-adk's built-in agents."""
    return ProblemError(403, "forbidden", f"`{name}` is the name of a built-in agent, which this server does not have.")


def _traceback_of(apps: AppFolder | LoadedApps, name: str) -> str | None:
    try:
        apps.load(name)
    except ProblemError as problem:
        if problem.code != "agent_broken":
            raise
        return "".join(traceback.format_exception(problem.__cause__ or problem))
    return None


def _direct_names_in(base: Path) -> Iterator[str]:
    for name in _folders_in(base):
        if any((base / name / mark).is_file() for mark in _ENTRIES):
            yield name


def _names_in(base: Path, depth: int, above: str = "", *, inside: bool = False) -> Iterator[str]:
    """The apps in a folder and those below it; `inside` an app, those with an `agent.py` of their own alone."""
    for name in _folders_in(base):
        folder, full = base / name, above + name
        found = any((folder / mark).is_file() for mark in _MARKS) or (not inside and _is_package_app(folder))
        if found:
            yield full
        if depth > 1:
            yield from _names_in(folder, depth - 1, f"{full}.", inside=inside or found)


def _is_package_app(folder: Path) -> bool:
    """Whether a package without an `agent.py` offers an agent, as far as its text tells."""
    try:
        return _OFFERS.search((folder / "__init__.py").read_text(encoding="utf-8", errors="replace")) is not None
    except OSError:
        return False


def _folders_in(base: Path) -> list[str]:
    try:
        entries = list(os.scandir(base))
    except OSError:
        return []
    return [
        entry.name
        for entry in entries
        if entry.is_dir() and entry.name.isidentifier() and not entry.name.startswith("__") and entry.name != "tmp"
    ]
