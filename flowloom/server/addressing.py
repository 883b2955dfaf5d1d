"""Where a request goes: below the prefix of a proxy, and without the name of the default app (server spec §2)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

from flowloom.server.problems import problem_answer, problem_body
from flowloom.server.served import Served

_Asgi = Callable[[MutableMapping[str, Any], Any, Any], Awaitable[None]]
_SHORT = ("/users/", "/trigger/")


class Addressing:
    """Takes the prefix off paths, whether the proxy did so or not, and adds the default app to those without one."""

    def __init__(self, app: _Asgi, served: Served) -> None:
        self._app, self._served = app, served
        prefix = served.settings.url_prefix.strip("/")
        self._prefix = f"/{prefix}" if prefix else ""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        if scope["type"] in ("http", "websocket"):
            if "\0" in scope["path"] and scope["type"] == "http":  # no store could keep it, and some fail
                told = problem_body("bad_request", "No name holds a NUL character.")
                await problem_answer(400, told)(scope, receive, send)
                return
            scope = {**scope, "root_path": self._prefix, "path": self._prefix + self._path_of(scope["path"])}
        await self._app(scope, receive, send)

    def _path_of(self, path: str) -> str:
        """The path as the routes know it."""
        if self._prefix and (path == self._prefix or path.startswith(f"{self._prefix}/")):
            path = path[len(self._prefix) :] or "/"
        if path == "/app-info" or path.startswith(_SHORT):
            default = self._served.apps.default
            if default is not None:
                return f"/apps/{default}{path}"
        return path
