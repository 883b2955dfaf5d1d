"""The application: the routes of a server, put together (server spec §1 to §3)."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager
from dataclasses import fields
from typing import Any

from flowloom.agents import BaseAgent
from flowloom.artifacts import InMemoryArtifactService
from flowloom.asgi import Guard
from flowloom.errors import quoted_list
from flowloom.extras import missing_extra
from flowloom.memory import InMemoryMemoryService
from flowloom.runner.app import App
from flowloom.sessions import InMemorySessionService

try:
    from fastapi import FastAPI

    from flowloom.server import about, run_routes, sessions, static
    from flowloom.server.addressing import Addressing
    from flowloom.server.apps import AppFolder, OneApp
    from flowloom.server.problems import add_handlers
    from flowloom.server.served import Served
    from flowloom.server.services import artifact_service, memory_service, session_service
    from flowloom.server.serving import run_server
    from flowloom.server.settings import ServerSettings, rules_of
    from flowloom.server.stopping import ends_runs
except ImportError as error:
    raise missing_extra("The server needs FastAPI", "server", error) from error

Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[Any]]
"""What is open while an application is served."""
ROUTERS = (about.router, sessions.router, static.router, run_routes.router)
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

    app = FastAPI(title="flowloom", docs_url=None, redoc_url=None, lifespan=opened)
    app.state.served = served
    add_handlers(app)
    for router in ROUTERS:
        app.include_router(router)
    app.add_middleware(Guard, rules=rules_of(served.settings))
    app.add_middleware(Addressing, served=served)  # the last one added is the first one asked
    return app


def get_fast_api_app(
    *,
    agents_dir: str,
    web: bool,
    session_service_uri: str | None = None,
    artifact_service_uri: str | None = None,
    memory_service_uri: str | None = None,
    reload_agents: bool = False,
    lifespan: Lifespan | None = None,
    **settings: Any,
) -> FastAPI:
    """The server of a folder of agents (server spec §1)."""
    served = Served(
        settings=settings_of(dev=web, **settings),
        apps=AppFolder(agents_dir, nested=web, reload=reload_agents),
        sessions=session_service(session_service_uri or "memory://"),
        artifacts=artifact_service(artifact_service_uri or "memory://"),
        memory=memory_service(memory_service_uri or "memory://"),
    )
    return application(served, lifespan=lifespan)


def app_of(agent_or_app: BaseAgent | App, **settings: Any) -> FastAPI:
    """The server of one agent, or one app, without a folder (server spec §1)."""
    served = Served(
        settings=settings_of(**settings),
        apps=OneApp(agent_or_app),
        sessions=InMemorySessionService(),
        artifacts=InMemoryArtifactService(),
        memory=InMemoryMemoryService(),
    )
    return application(served)


def serve(agent_or_app: BaseAgent | App, **settings: Any) -> None:
    """Serve one agent, or one app, until the process is told to stop (server spec §1)."""
    app = app_of(agent_or_app, **settings)
    run_server(app, app.state.served.settings)


def settings_of(**given: Any) -> ServerSettings:
    """The settings of these names. Raises `TypeError` for one that there is not, which names those that there are."""
    known = [field.name for field in fields(ServerSettings)]
    unknown: Sequence[str] = [name for name in given if name not in known]
    if unknown:
        raise TypeError(f"A server has no setting {quoted_list(unknown)}. There are: {quoted_list(known)}.")
    return ServerSettings(**given)
