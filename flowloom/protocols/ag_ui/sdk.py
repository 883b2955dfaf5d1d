"""The types of AG-UI, and what they are served with: loaded when an application is built."""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.extras import missing_extra

try:
    from ag_ui import core as core
    from starlette.applications import Starlette as Starlette
    from starlette.middleware import Middleware as Middleware
    from starlette.requests import Request as Request
    from starlette.responses import JSONResponse as JSONResponse
    from starlette.responses import Response as Response
    from starlette.responses import StreamingResponse as StreamingResponse
    from starlette.routing import Route as Route
except ImportError as error:
    if TYPE_CHECKING:
        raise
    raise missing_extra("Serving front ends over AG-UI needs its types and starlette", "ag-ui", error) from error
