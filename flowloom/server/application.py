"""The application: the routes of a server, put together (server spec §1 to §3).

What not every server needs (the page and its traces, a fleet, files) is loaded by those that do: it takes 9 MiB.
"""

from __future__ import annotations

import os
from collections.abc import AsyncGenerator, Callable, Collection, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import fields
from typing import TYPE_CHECKING, Any

from flowloom import durable
from flowloom.agents import BaseAgent
from flowloom.artifacts import BaseArtifactService, InMemoryArtifactService
from flowloom.asgi import Guard
from flowloom.errors import ConfigurationError, NotSupportedError, quoted_list
from flowloom.extras import missing_extra
from flowloom.memory import BaseMemoryService
from flowloom.plugins import BasePlugin
from flowloom.runner.app import App
from flowloom.sessions import BaseSessionService, InMemorySessionService

try:
    from fastapi import FastAPI

    from flowloom.server import (
        about,
        artifacts,
        live,
        memories,
        reference,
        run_routes,
        sessions,
        web_ui,
    )
    from flowloom.server.addressing import Addressing
    from flowloom.server.agent_modules import agent_files
    from flowloom.server.apps import AgentLoader, AppFolder, LoadedApps, NoCode, OneApp
    from flowloom.server.auth_hook import auth_by_request
    from flowloom.server.bodies import WholeTexts
    from flowloom.server.later import LATER, refusal
    from flowloom.server.models import override_of, plugins_of
    from flowloom.server.problems import Failures, add_handlers
    from flowloom.server.served import AppSource, Served
    from flowloom.server.services import artifact_service, memory_service, services_beside, session_service
    from flowloom.server.serving import run_server
    from flowloom.server.settings import ServerSettings, rules_of
    from flowloom.server.stopping import ends_runs
except ImportError as error:
    raise missing_extra("The server needs FastAPI", "server", error) from error
if TYPE_CHECKING:
    from flowloom.durable import RunClient
    from flowloom.server.fleet import Fleet, MakeClient
    from flowloom.server.local_storage import HomeOf

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]
"""What is open while an application is served."""
ROUTERS = (
    *(run_routes.router, sessions.router, about.router, artifacts.router, memories.router),
    *(reference.router, live.router, web_ui.later),
)
"""Asked one after the other: what is asked for most stands first."""
_NO_TELEMETRY: Any = {"tracing": False, "metrics": False, "logs": False}
RESOURCES: tuple[Lifespan, ...] = (ends_runs,)
"""What routes hold open: entered when the server starts, left when it stops, the last one first, before the services
are closed."""


def application(served: Served, *, lifespan: Lifespan | None = None) -> FastAPI:
    """The ASGI application that serves `served`; `lifespan` is entered after what the server opens itself."""

    @asynccontextmanager
    async def opened(app: FastAPI) -> AsyncGenerator[None]:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(served.close)
            for resource in RESOURCES if lifespan is None else (*RESOURCES, lifespan):
                await stack.enter_async_context(resource(app))
            yield

    # without its spans: the program's OpenTelemetry has those of runs alone, as without a server
    app = FastAPI(title="flowloom", docs_url=None, redoc_url=None, lifespan=opened, telemetry=_NO_TELEMETRY)
    app.state.served = served
    rules = rules_of(served.settings)
    add_handlers(app)
    app.add_middleware(run_routes.PlainRuns)
    app.add_middleware(WholeTexts)
    app.router.routes.extend(run_routes.KNOWN)
    for router in ROUTERS:
        app.include_router(router)
    if served.settings.dev:
        from flowloom.server.dev_routes import add_development

        add_development(app, served)
    # the last one added is the first one asked, and `PlainRuns` the last; failures are answered below the guard, which
    # adds what browsers need to see, and above it, if those of an `auth` hook come up there
    app.add_middleware(Failures)
    app.add_middleware(Guard, rules=rules)
    if rules.auth is not None:
        app.add_middleware(Failures)
    app.add_middleware(Addressing, served=served)
    return app


def get_fast_api_app(
    *,
    agents_dir: str | os.PathLike[str],
    web: bool,
    session_service_uri: str | BaseSessionService | None = None,
    artifact_service_uri: str | BaseArtifactService | None = None,
    memory_service_uri: str | BaseMemoryService | None = None,
    use_local_storage: bool = True,
    bind_host: str | None = None,
    reload_agents: bool = False,
    agent_loader: AgentLoader | None = None,
    extra_plugins: Sequence[str | BasePlugin] | None = None,
    allow_imports: Collection[str] = (),
    allow_stdio: bool = False,
    lifespan: Lifespan | None = None,
    fleet: bool | MakeClient = False,
    **settings: Any,
) -> FastAPI:
    """The server of the folder `agents_dir`, with google-adk's keywords (server spec §1).

    `web`: whether it is the development server, with the page. The services are named by URIs, or are given:
    `session_service_uri` is `memory://`, `sqlite:///FILE` or `postgresql://...`, and so is `memory_service_uri`;
    `artifact_service_uri` is `memory://` or `file://FOLDER`. Where there is none, sessions and artifacts are kept in a
    hidden folder of each app, or in memory without `use_local_storage`; memories in memory. `bind_host` is the address
    that it listens on, `host` without one.
    `reload_agents` has apps whose files have changed loaded anew. `agent_loader` gives the apps in the place of the
    folder, `extra_plugins` are given to all of them, by their full names or as they are. `allow_imports` are the
    packages that agents in `root_agent.yaml` files may import, and with `allow_stdio` they may start MCP servers.
    `lifespan` is entered when the server starts. With `fleet`, the workers that share the store of the sessions run the
    agents (durable design, section 4): true, or a function that makes the `RunClient` of an app of that name. The other
    `settings` are those of `ServerSettings`, and those of google-adk's that are refused.

    Raises `TypeError` for a setting that there is not, `ConfigurationError` for one that cannot be used.
    """
    if bind_host is not None:
        settings["host"] = bind_host
    apps: AppSource = AppFolder(
        agents_dir, nested=web, reload=reload_agents, read=agent_files(allow_imports, allow_stdio)
    )
    home = apps
    if agent_loader is not None:
        apps = LoadedApps(agent_loader)
    if fleet is not False and isinstance(session_service_uri, str) and not session_service_uri.startswith("memory:"):
        files, memories = services_beside(session_service_uri)
        artifact_service_uri, memory_service_uri = artifact_service_uri or files, memory_service_uri or memories
    services = _services(
        session_service_uri,
        artifact_service_uri,
        memory_service_uri,
        home_of=home.home_of if use_local_storage else None,
    )
    made = None if fleet is False else _fleet(services[0], None if fleet is True else fleet)
    return _application(apps, services, extra_plugins, lifespan, {"dev": web, **settings}, _FOLDER_KEYWORDS, made)


def app_of(
    agent_or_app: BaseAgent | App | RunClient,
    *,
    session_service_uri: str | BaseSessionService | None = None,
    artifact_service_uri: str | BaseArtifactService | None = None,
    memory_service_uri: str | BaseMemoryService | None = None,
    extra_plugins: Sequence[str | BasePlugin] | None = None,
    lifespan: Lifespan | None = None,
    fleet: RunClient | None = None,
    **settings: Any,
) -> FastAPI:
    """The server of one agent, or one app, `agent_or_app`, without a folder (server spec §1).

    In its place a `RunClient` may be given: workers of a fleet run the app then, and its code need not be here. With
    `fleet`, they run an app whose code is here, too (durable design, section 4). The sessions are those of the client,
    which is closed with the server.

    It keeps all in memory, unless `session_service_uri`, `artifact_service_uri` or `memory_service_uri` is a service or
    its URI (see `get_fast_api_app`, for `extra_plugins`, `lifespan` and `settings`, too). `dev=False` makes it a server
    without the page. Raises `TypeError` for a setting that there is not, `ConfigurationError` for one that cannot be
    used.
    """
    apps: AppSource
    if not isinstance(agent_or_app, BaseAgent | App) and isinstance(agent_or_app, durable.RunClient):  # pyright: ignore[reportUnnecessaryIsInstance]
        fleet, apps = agent_or_app, NoCode(agent_or_app.app_name)
    else:
        apps = OneApp(agent_or_app)
    made = None
    if fleet is not None:
        client, session_service_uri = fleet, _sessions_of(fleet, apps, session_service_uri)
        made = _fleet(client.session_service, lambda app_name: client)
    services = _services(session_service_uri, artifact_service_uri, memory_service_uri, home_of=None)
    return _application(apps, services, extra_plugins, lifespan, settings, _KEYWORDS, made)


def _sessions_of(client: RunClient, apps: AppSource, given: str | BaseSessionService | None) -> BaseSessionService:
    """The sessions of a server whose runs go by a client. Raises `ConfigurationError` for one of another app."""
    if client.app_name not in apps.names():
        raise ConfigurationError(
            f"The client submits runs of the app `{client.app_name}`, and the server is of `{apps.default}`. Make it "
            f'for that: `RunClient("{apps.default}", ...)`.'
        )
    if given is not None and given is not client.session_service:
        raise ConfigurationError(
            "The sessions of a fleet's server are those of its client. Leave out `session_service_uri`."
        )
    return client.session_service


def serve(agent_or_app: BaseAgent | App | RunClient, **settings: Any) -> None:
    """Serve one agent, or one app, until the process is told to stop (server spec §1).

    `agent_or_app` and `settings` are those of `app_of`. Raises as it does, and `ConfigurationError` for an address that
    cannot be had, or is public while no request has to name a principal.
    """
    app = app_of(agent_or_app, **settings)
    run_server(app, app.state.served.settings)


_KEYWORDS = ("session_service_uri", "artifact_service_uri", "memory_service_uri", "extra_plugins", "lifespan", "fleet")
_FOLDER_KEYWORDS = (
    *("agents_dir", "web", *_KEYWORDS),
    *("use_local_storage", "bind_host", "reload_agents", "agent_loader", "allow_imports", "allow_stdio"),
)
_Services = tuple[BaseSessionService, BaseArtifactService, BaseMemoryService]


def _services(
    sessions: str | BaseSessionService | None,
    artifacts: str | BaseArtifactService | None,
    memory: str | BaseMemoryService | None,
    *,
    home_of: HomeOf | None,
) -> _Services:
    if home_of is not None and (sessions is None or artifacts is None):
        from flowloom.server.local_storage import LocalArtifacts, LocalSessions

        sessions = LocalSessions(home_of) if sessions is None else sessions
        artifacts = LocalArtifacts(home_of) if artifacts is None else artifacts
    if sessions is None:
        sessions = InMemorySessionService()
    if artifacts is None:
        artifacts = InMemoryArtifactService()
    return (
        session_service(sessions) if isinstance(sessions, str) else sessions,
        artifact_service(artifacts) if isinstance(artifacts, str) else artifacts,
        memory_service(memory or "memory://") if not isinstance(memory, BaseMemoryService) else memory,
    )


def _fleet(sessions: BaseSessionService, make: MakeClient | None) -> Fleet:
    """The workers that share a store. Raises `ConfigurationError` for a store that no worker can share."""
    from flowloom.server.fleet import Fleet

    return Fleet(sessions, make)


def _application(
    apps: AppSource,
    services: _Services,
    plugins: Sequence[str | BasePlugin] | None,
    lifespan: Lifespan | None,
    settings: dict[str, Any],
    keywords: Sequence[str],
    fleet: Fleet | None,
) -> FastAPI:
    made = settings_of(settings, keywords)
    if fleet is not None:
        _check_fleet(made, plugins)
    override = override_of(made)
    served = Served(
        made,
        apps,
        *services,
        plugins=[*([] if override is None else [override]), *plugins_of(plugins or ())],
        fleet=fleet,
    )
    return application(served, lifespan=lifespan)


def _check_fleet(settings: ServerSettings, plugins: Sequence[str | BasePlugin] | None) -> None:
    """Raise `ConfigurationError` for what only a server that runs the agents itself can heed."""
    for name, given in (
        ("models", settings.models),
        ("default_llm_model", settings.default_llm_model),
        ("extra_plugins", plugins),
    ):
        if given:
            raise ConfigurationError(
                f"`{name}` says how agents run, and the workers of the fleet run them: give it to the workers "
                f"(`flowloom worker`), and not to the server."
            )


def settings_of(given: dict[str, Any], others: Sequence[str] = ()) -> ServerSettings:
    """The settings of these names. Raises `TypeError` for one that there is not, which names those that there are
    (with these `others`), and `NotSupportedError` for one of google-adk's that there is not yet."""
    known = [field.name for field in fields(ServerSettings)]
    for name in [name for name in given if name in LATER]:
        if given.pop(name):
            raise NotSupportedError(refusal(name))
    unknown = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"A server has no setting {quoted_list(unknown)}. There are: {quoted_list([*others, *known])}.")
    if not given.get("dev", True):
        given.setdefault("on_busy", "reject")
    if given.get("auth") is not None:
        given["auth"] = auth_by_request(given["auth"])
    given["url_prefix"] = given.get("url_prefix") or ""
    given["allow_origins"] = tuple(given.get("allow_origins") or ())
    return ServerSettings(**given)
