"""The files of the page, below `/ui/` (server spec §8, §12): read once, served by exact name, and nothing else."""

from __future__ import annotations

import hashlib
import re
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from importlib.resources.abc import Traversable

from fastapi import APIRouter, Request
from fastapi.responses import RedirectResponse, Response

from flowloom.server.problems import ProblemError

router = APIRouter(include_in_schema=False)

POLICY = (
    "default-src 'self'; img-src 'self' data: blob:; frame-ancestors 'none'; base-uri 'none'; form-action 'none'; "
    "media-src 'self' data: blob:; object-src 'none'"
)
"""The Content-Security-Policy of the page: nothing inline, nothing from elsewhere."""
_HEADERS = {
    "Content-Security-Policy": POLICY,
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cache-Control": "no-cache",
}
_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
    "LICENSE": "text/plain; charset=utf-8",
}
_INDEX = "index.html"
_FILE = re.compile(r"(vendor/)?[\w-]+\.(css|html|js|svg|map|ico|json|LICENSE)")
_UNNAMED = re.compile(r"(^|/)\.")
"""A name that begins with a dot: neither a file of the page nor a session."""


@dataclass(frozen=True, slots=True)
class _File:
    """A file of the page, as it is sent."""

    body: bytes
    media_type: str
    etag: str


@cache
def page_files() -> dict[str, _File]:
    """The files of the page by their path below `/ui/`."""
    return {path: _file(path, found.read_bytes()) for path, found in _walk(files("flowloom.server") / "page", "")}


def _walk(folder: Traversable, prefix: str) -> list[tuple[str, Traversable]]:
    found: list[tuple[str, Traversable]] = []
    for each in sorted(folder.iterdir(), key=lambda each: each.name):
        if each.is_dir():
            found += _walk(each, f"{prefix}{each.name}/")
        elif each.name.rpartition(".")[2] in _TYPES:
            found.append((prefix + each.name, each))
    return found


def _file(path: str, body: bytes) -> _File:
    return _File(body, _TYPES[path.rpartition(".")[2]], f'"{hashlib.sha256(body).hexdigest()[:24]}"')


@router.get("/")
@router.get("/ui")
async def to_page(request: Request) -> Response:
    """Lead to the page."""
    return RedirectResponse(f"{request.scope.get('root_path', '')}/ui/", status_code=307)


@router.get("/ui/{path:path}")
async def page(request: Request, path: str) -> Response:
    """A file of the page; the page itself for the address of an app, a user or a session. Raises `ProblemError`
    (404) for a file that there is not."""
    if _UNNAMED.search(path):
        raise ProblemError(404, "not_found", "Not Found")
    found = page_files().get(path) if path != _INDEX else None
    if found is None:
        if path != _INDEX and _FILE.fullmatch(path):
            raise ProblemError(404, "not_found", "Not Found")
        found = _index(_depth(request))
    if request.headers.get("if-none-match") == found.etag:
        return Response(status_code=304, headers={**_HEADERS, "ETag": found.etag})
    return Response(found.body, media_type=found.media_type, headers={**_HEADERS, "ETag": found.etag})


def _depth(request: Request) -> int:
    """How many folders below `/ui/` the address stands, as the browser sees it: a `%2F` is no slash for it."""
    raw: bytes = request.scope.get("raw_path") or request.scope["path"].encode()
    prefix = f"{request.scope.get('root_path', '')}/".encode()
    below = raw.partition(b"?")[0].removeprefix(prefix).removeprefix(b"/")  # which a proxy may have taken off
    return below.count(b"/") - 1


@cache
def _index(depth: int) -> _File:
    """The page, as it is for an address `depth` folders below `/ui/`: its files are named relative to that, so that
    they are found whatever a proxy makes of the path before."""
    known = page_files()
    base = "../" * depth or "./"
    styles = [path for path in known if path.endswith(".css")]
    modules = [path for path in known if path.endswith(".js") and path not in ("theme.js", "main.js")]
    text = known[_INDEX].body.decode()
    text = text.replace(
        "<!-- styles -->", "\n    ".join(f'<link rel="stylesheet" href="{{base}}{css}" />' for css in styles)
    )
    text = text.replace(
        "<!-- modules -->", "\n    ".join(f'<link rel="modulepreload" href="{{base}}{js}" />' for js in modules)
    )
    return _file(_INDEX, text.replace("{base}", base).encode())
