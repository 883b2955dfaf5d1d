"""The application: the routes of a server, put together (server spec §1 to §3)."""

from __future__ import annotations

from typing import Any

from flowloom.agents import BaseAgent
from flowloom.extras import missing_extra
from flowloom.runner.app import App

try:
    from fastapi import FastAPI

    from flowloom.server import about
    from flowloom.server.served import Served
except ImportError as error:
    raise missing_extra("The server needs FastAPI", "server", error) from error


def application(served: Served) -> FastAPI:
    """The ASGI application that serves `served`."""
    app = FastAPI(title="flowloom", docs_url=None, redoc_url=None)
    app.state.served = served
    app.include_router(about.router)
    return app


def get_fast_api_app(**settings: Any) -> FastAPI:
    """The server of a folder of agents, with `settings` as `ServerSettings` has them (server spec §1)."""
    raise NotImplementedError


def app_of(agent_or_app: BaseAgent | App, **settings: Any) -> FastAPI:
    """The server of `agent_or_app` alone, without a folder; `settings` are `ServerSettings` (server spec §1)."""
    raise NotImplementedError


def serve(agent_or_app: BaseAgent | App, **settings: Any) -> None:
    """Serve `agent_or_app` until the process is told to stop; `settings` are `ServerSettings` (server spec §1)."""
    raise NotImplementedError
