"""What the development server has beside the other (server spec §3, §7, §12)."""

from __future__ import annotations

from fastapi import FastAPI

from flowloom.human import HumanObserver
from flowloom.server import about, graphs, inspecting, people, static, traces, web_ui
from flowloom.server.development import Development, RecordedRuns
from flowloom.server.served import Served

ROUTERS = (
    *(about.dev_router, static.router, traces.router, inspecting.router, people.router),
    *(graphs.router, web_ui.router, web_ui.below_dev),
)


def add_development(app: FastAPI, served: Served) -> None:
    """Add the routes of the page and of google-adk's web UI to an application, and keep what they show of its runs.

    Raises `ConfigurationError` for a web UI that cannot be served.
    """
    for router in ROUTERS:
        app.include_router(router)
    if served.settings.dev_ui is not None:
        web_ui.ui_folder(served.settings.dev_ui)  # what cannot be served is told before anything is
    app.state.development = development = Development()
    served.observers += [HumanObserver(), *development.observers()]
    app.add_middleware(RecordedRuns, development=development)
