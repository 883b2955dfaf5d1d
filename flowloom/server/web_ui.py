"""What google-adk's web UI asks for beside runs and sessions, and its files (server spec §3: 23 to 26, 33 to 37; §10).
Development server only."""

from __future__ import annotations

import importlib.util
import mimetypes
from os.path import isfile  # which knows that names may be too long for any file
from pathlib import Path
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import FileResponse, JSONResponse, PlainTextResponse, RedirectResponse, Response

from flowloom.errors import ConfigurationError
from flowloom.server.local_callers import local_only, local_writes
from flowloom.server.problems import ProblemError
from flowloom.server.served import admit, served_of
from flowloom.server.wire import Body

router = APIRouter(include_in_schema=False)
below_dev = APIRouter(prefix="/dev/apps/{app_name}", tags=["dev"], dependencies=[Depends(local_writes)])

_FOLDER_OF_ADK = ("cli", "browser")
_INDEX = "index.html"
_NOT_BUILT = "There is nothing of this yet: {}."
_WRITING = ["POST", "PUT", "PATCH", "DELETE"]
_ALL = ["GET", *_WRITING]


class TelemetryChoice(Body):
    """Whether what people do may be reported."""

    telemetry: bool


@router.get("/dev-ui/assets/config/runtime-config.json")
async def runtime_config(request: Request) -> Response:
    """Where the UI finds its server, and what it shows as its head."""
    settings = served_of(request).settings
    told: dict[str, Any] = {"backendUrl": request.scope.get("root_path", ""), "telemetry": False}
    if settings.logo_text is not None or settings.logo_image_url is not None:
        told["logo"] = {"text": settings.logo_text, "imageUrl": settings.logo_image_url}
    return JSONResponse(told, headers={"Cache-Control": "no-store"})


@router.get("/dev-ui/config")
async def ui_config(request: Request) -> dict[str, str | None]:
    """What the UI shows as its head."""
    settings = served_of(request).settings
    return {"logo_text": settings.logo_text, "logo_image_url": settings.logo_image_url}


@router.get("/config/telemetry")
async def telemetry() -> dict[str, bool]:
    """Whether what people do is reported: never."""
    return {"telemetry": False}


@router.post("/config/telemetry")
async def set_telemetry(request: Request, body: TelemetryChoice) -> dict[str, bool]:
    """The same; nothing is stored. Raises `ProblemError` (400) without the header that other pages cannot send."""
    if request.headers.get("x-adk-telemetry-request") != "true":
        raise ProblemError(400, "bad_request", "The header `x-adk-telemetry-request: true` is missing.")
    return {"telemetry": False}


# -- the files of the UI ---------------------------------------------------------------------------


@router.get("/dev-ui")
async def to_ui(request: Request) -> Response:
    """The way to the UI; without one, to our page."""
    below = "/ui/" if served_of(request).settings.dev_ui is None else "/dev-ui/"
    return RedirectResponse(f"{request.scope.get('root_path', '')}{below}", status_code=307)


@router.get("/dev-ui/{path:path}")
async def ui_file(request: Request, path: str) -> Response:
    """A file of the UI, or its first page; without a UI, the way to ours."""
    given = served_of(request).settings.dev_ui
    if given is None:
        if path:
            raise ProblemError(404, "not_found", "Not Found")
        return await to_ui(request)
    file = _file_in(ui_folder(given), path or _INDEX)
    if file is None:
        raise ProblemError(404, "not_found", "Not Found")
    kind = "text/javascript" if file.suffix in (".js", ".mjs") else mimetypes.guess_type(file.name)[0]
    headers = {"X-Content-Type-Options": "nosniff", "Cache-Control": "no-cache"}
    return FileResponse(file, media_type=kind or "application/octet-stream", headers=headers)


def _file_in(folder: Path, path: str) -> Path | None:
    """The file of the UI that an address names; None for what is none, is hidden, or lies outside."""
    if "\0" in path or any(part.startswith(".") for part in Path(path).parts):
        return None
    file = (folder / path).resolve()
    return file if file.is_relative_to(folder) and isfile(file) else None


def ui_folder(given: str) -> Path:
    """The folder of google-adk's web UI: `given`, or that of an installed google-adk for `auto`.

    Raises `ConfigurationError` if there is none.
    """
    folder = _folder_of_adk() if given == "auto" else Path(given)
    if folder is None or not (folder / _INDEX).is_file():
        where = "google-adk is not installed here" if given == "auto" else f"`{given}` has no `{_INDEX}`"
        raise ConfigurationError(
            f"There is no web UI: {where}. Give `dev_ui` the folder of its files, or leave it out."
        )
    return folder.resolve()


def _folder_of_adk() -> Path | None:
    """Where google-adk keeps its UI, which is not imported for that."""
    try:
        found = importlib.util.find_spec("google.adk")
    except (ImportError, ValueError):
        return None
    if found is None or found.origin is None:
        return None
    return Path(found.origin).parent.joinpath(*_FOLDER_OF_ADK)


# -- what there is nothing of ----------------------------------------------------------------------


@below_dev.get("/builder", dependencies=[Depends(local_only)])
async def builder(request: Request, app_name: str) -> Response:
    """The YAML of an app: none has any."""
    admit(request, app_name)
    return PlainTextResponse("")


@below_dev.get("/eval_sets")
@below_dev.get("/eval_results")
@below_dev.get("/tests")
async def nothing_yet(request: Request, app_name: str) -> list[str]:
    """Evaluations and tests: there are none."""
    admit(request, app_name)
    return []


async def not_built(request: Request) -> Response:
    """What is asked for is not built yet."""
    raise ProblemError(501, "not_built", _NOT_BUILT.format(f"{request.method} {request.url.path}"))


for _path in (
    "/builder/save", "/builder/cancel", "/eval-sets", "/eval-sets/{rest:path}", "/eval_sets/{rest:path}",
    "/eval-results", "/eval-results/{rest:path}", "/eval_results/{rest:path}", "/metrics-info", "/tests/{rest:path}",
    "/deploy", "/deploy/{rest:path}",
):  # fmt: skip
    below_dev.add_api_route(_path, not_built, methods=_ALL, include_in_schema=False)
for _path in ("/dev/deploy", "/dev/deploy/{rest:path}"):
    router.add_api_route(_path, not_built, methods=_ALL, dependencies=[Depends(local_writes)])
later = APIRouter(include_in_schema=False)
"""What a server that is not for development has not, either."""
for _path in (
    "/apps/{app_name}/trigger/{rest:path}", "/a2a/{rest:path}",
    "/api/reasoning_engine", "/api/stream_reasoning_engine", "/agent-identity/finalize",
):  # fmt: skip
    later.add_api_route(_path, not_built, methods=_ALL)
