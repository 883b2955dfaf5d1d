"""`Served`: what all routes of a server share."""

from __future__ import annotations

import asyncio
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from fastapi import Request

from flowloom.artifacts import BaseArtifactService
from flowloom.asgi.principal import EVERYBODY, Principal
from flowloom.context.observer import Observer
from flowloom.interop.run_ends import RunEnds
from flowloom.memory import BaseMemoryService
from flowloom.plugins import BasePlugin
from flowloom.runner.app import App
from flowloom.runner.runner import Runner
from flowloom.server.apps import elsewhere
from flowloom.server.failures import PLACE
from flowloom.server.places import Places, places_in
from flowloom.server.problems import LOG, ProblemError, session_not_found
from flowloom.server.runs import LocalRuns, Runs
from flowloom.server.settings import ServerSettings
from flowloom.sessions import BaseSessionService

if TYPE_CHECKING:
    from flowloom.server.development import Development
    from flowloom.server.fleet import Fleet


class AppSource(Protocol):
    """Where the served apps come from: a folder of agents, or one agent."""

    @property
    def default(self) -> str | None:
        """The app that requests mean which name none."""
        ...

    def names(self) -> list[str]:
        """The names of the apps that are listed, sorted by code point."""
        ...

    def check(self, name: str) -> None:
        """Raise `ProblemError` if there is no such app: `app_not_found` (404), or `forbidden` (403) for the names that
        begin with `__`. Loads nothing."""
        ...

    def ready(self, name: str) -> App | None:
        """The app of that name, if it is loaded and nothing has to be looked up; looks at no file."""
        ...

    def load(self, name: str) -> App:
        """The app of that name, loaded at its first use, on any thread. Raises `ProblemError` as `check` does, and
        `agent_broken` (500)."""
        ...

    def folder_of(self, name: str) -> Path | None:
        """The folder of an app; None if it has none."""
        ...

    def problem_of(self, name: str) -> str | None:
        """The traceback of an app that cannot be loaded; None for one that can. Raises `ProblemError` as `check`."""
        ...


@dataclass(slots=True)
class Served:
    """The apps, the services and the settings of a server."""

    settings: ServerSettings
    apps: AppSource
    sessions: BaseSessionService
    artifacts: BaseArtifactService
    memory: BaseMemoryService
    plugins: list[BasePlugin] = field(default_factory=list[BasePlugin])
    observers: list[Observer] = field(default_factory=list[Observer])
    """What sees all runs."""
    fleet: Fleet | None = None
    """Who runs the agents in the place of this process."""
    runs: Runs = field(init=False)
    _replaced: list[Runner] = field(default_factory=list[Runner])
    _places: dict[str, tuple[App, Places]] = field(default_factory=dict[str, tuple[App, Places]])
    _runners: dict[str, tuple[App, Runner]] = field(default_factory=dict[str, tuple[App, Runner]])

    def __post_init__(self) -> None:
        if self.fleet is not None:
            self.runs = self.fleet.runs(self.settings, self.check_app)
        else:
            self.runs = LocalRuns(self.settings, self.runner_of)

    async def app_names(self) -> list[str]:
        """The apps that are listed, sorted by code point; those of a fleet whose code is elsewhere, too."""
        elsewhere = set[str]() if self.fleet is None else await self.fleet.app_names()
        return sorted({*self.apps.names(), *elsewhere})

    async def check_app(self, name: str) -> None:
        """Raise `ProblemError` if there is no such app, here or at the workers of the fleet. Loads nothing."""
        try:
            self.apps.check(name)
        except ProblemError as problem:
            if not await self._is_elsewhere(problem, name):
                raise

    async def _is_elsewhere(self, problem: ProblemError, name: str) -> bool:
        """Whether an app that is not here is one of the fleet's."""
        return problem.status == 404 and self.fleet is not None and name in await self.fleet.app_names()

    async def app_of(self, name: str) -> App:
        """The app of that name; one that has to be imported is by a thread, and streams go on meanwhile.

        Raises `ProblemError` as `AppSource.load` does, and 404 for one whose code is at the workers of the fleet.
        """
        try:
            return self.apps.ready(name) or await asyncio.to_thread(self.apps.load, name)
        except ProblemError as problem:
            if await self._is_elsewhere(problem, name):
                raise elsewhere(name) from problem
            raise

    async def runner_of(self, app_name: str) -> Runner:
        """The runner of an app, built at its first use and kept; sessions are kept under `app_name`."""
        app = await self.app_of(app_name)
        known = self._runners.get(app_name)
        if known is None or known[0] is not app:
            runner = Runner(
                app=app,
                app_name=app_name,
                plugins=[*self.plugins, RunEnds(dev=self.settings.dev, log=LOG, place=PLACE)],
                observers=self.observers,
                session_service=self.sessions,
                artifact_service=self.artifacts,
                memory_service=self.memory,
                concurrency="reject" if self.settings.on_busy == "reject" else "queue",
            )
            if known is not None:
                self._replaced.append(known[1])  # its runs go on; it is closed in the end
            known = self._runners[app_name] = (app, runner)
        return known[1]

    async def places_of(self, app_name: str) -> Places:
        """Where in the tree its agents stand; nowhere, if the app cannot be loaded."""
        used = self._runners.get(app_name)
        try:
            app = await self.app_of(app_name) if used is None else used[0]
        except ProblemError:
            return {}
        known = self._places.get(app_name)
        if known is None or known[0] is not app:
            known = self._places[app_name] = (app, places_in(app.root_agent))
        return known[1]

    async def close(self) -> None:
        """Close the runners, then the services; all of them, whatever one of them raises."""
        runners = [*self._replaced, *(runner for _, runner in self._runners.values())]
        self._replaced.clear()
        self._runners.clear()
        async with AsyncExitStack() as stack:  # the last one first
            fleet = () if self.fleet is None else (self.fleet,)
            for each in (self.memory, self.artifacts, self.sessions, *fleet, *runners):
                stack.push_async_callback(each.close)


def served_of(request: Request) -> Served:
    """What the server of a request shares."""
    return request.app.state.served


def development_of(request: Request) -> Development:
    """What the development server of a request keeps of its runs."""
    return request.app.state.development


def principal_of(request: Request) -> Principal:
    """Who makes a request: what the guard has found out."""
    return request.scope.get("flowloom.principal", EVERYBODY)


def admit(request: Request, app_name: str, user_id: str | None = None) -> None:
    """Raise `ProblemError` (404) if an app, or what belongs to a user in it, is not theirs who ask."""
    if not principal_of(request).may_use(app_name, user_id):
        if user_id is None:
            raise ProblemError(404, "app_not_found", f"There is no app `{app_name}`.")
        raise session_not_found()
