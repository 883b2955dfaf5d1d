"""The shop as an application: its page, and the agent behind it."""

from pathlib import Path
from typing import Any

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import FileResponse
from starlette.routing import Route

from flowloom import BaseAgent
from flowloom.protocols.ag_ui import mount_ag_ui

PAGE = Path(__file__).with_name("page.html")


async def page(request: Request) -> FileResponse:
    """The page."""
    return FileResponse(PAGE)


def shop_of(agent: BaseAgent[Any]) -> Starlette:
    """The page at `/`, and `agent` over AG-UI at `/agent/`."""
    app = Starlette(routes=[Route("/", page)])
    mount_ag_ui(app, agent, "/agent")
    return app
