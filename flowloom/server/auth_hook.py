"""The `auth=` hook of a server, which is given requests of the framework (server spec §8)."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import Any

from starlette.exceptions import HTTPException
from starlette.requests import HTTPConnection

from flowloom.asgi import Auth, Principal, RefusedError


def auth_by_request(auth: Auth) -> Auth:
    """The hook for the guard: it is given an `HTTPConnection`, with headers, query and cookies, which is also the
    mapping of the ASGI scope. It may raise the framework's `HTTPException` of 401 or 403 for a `RefusedError`, and need
    not be a coroutine."""

    async def identified(scope: Mapping[str, Any]) -> Principal | None:
        try:
            answer: Any = auth(HTTPConnection(dict(scope)))
            return await answer if inspect.isawaitable(answer) else answer
        except HTTPException as error:
            if error.status_code not in (401, 403):
                raise
            raise RefusedError(str(error.detail), status=error.status_code) from error

    return identified
