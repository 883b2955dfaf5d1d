"""What a request is told that cannot be answered: `{"detail", "code", "errorId"?}` (server spec §2)."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, cast

from fastapi import FastAPI, Request
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import Response
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from flowloom.errors import FlowloomError, SessionBusyError, SessionNotFoundError
from flowloom.interop import run_ends
from flowloom.server.wire import json_bytes

LOG = logging.getLogger("flowloom.server")
_CODES = {400: "bad_request", 401: "unauthorized", 403: "forbidden", 404: "not_found", 405: "method_not_allowed"}
_ENGINE: tuple[tuple[type[FlowloomError], int, str], ...] = (
    (SessionNotFoundError, 404, "session_not_found"),
    (SessionBusyError, 409, "session_busy"),
)
"""What the engine raises when a session is deleted, or taken over, while a request is answered."""


class ProblemError(FlowloomError):
    """A request cannot be answered: the HTTP `status`, and the `code` that programs compare."""

    def __init__(self, status: int, code: str, detail: str, *, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(detail)
        self.status = status
        self.code = code
        self.detail = detail
        self.headers = headers or {}


def session_not_found() -> ProblemError:
    """What is told of a session that is not there, or is none of theirs who ask."""
    return ProblemError(404, "session_not_found", "Session not found")


def problem_body(code: str, detail: str, error_id: str | None = None) -> dict[str, str]:
    """What stands in the answer to a request that failed."""
    return {"detail": detail, "code": code} | ({} if error_id is None else {"errorId": error_id})


def log_failure(error: BaseException, what: str) -> str:
    """Write an error with its traceback into the log; returns the id under which it stands there."""
    return run_ends.log_failure(error, what, LOG)


def add_handlers(app: FastAPI) -> None:
    """Have the application answer every failure in one form."""
    app.add_exception_handler(ProblemError, _on_problem)
    app.add_exception_handler(HTTPException, _on_http)
    app.add_exception_handler(RequestValidationError, _on_invalid)
    for kind, status, code in _ENGINE:
        app.add_exception_handler(kind, _by_engine(status, code))


async def _on_problem(request: Request, error: Exception) -> Response:
    problem = cast(ProblemError, error)
    failed = problem.status == 500 or (problem.status > 500 and problem.__cause__ is not None)
    error_id = log_failure(problem.__cause__ or problem, _told(request)) if failed else None
    return problem_answer(problem.status, problem_body(problem.code, problem.detail, error_id), problem.headers)


def _by_engine(status: int, code: str) -> Callable[[Request, Exception], Awaitable[Response]]:
    headers = {"Retry-After": "1"} if status == 409 else None

    async def on_error(request: Request, error: Exception) -> Response:
        return problem_answer(status, problem_body(code, str(error)), headers)

    return on_error


async def _on_http(request: Request, error: Exception) -> Response:
    problem = cast(HTTPException, error)
    code = _CODES.get(problem.status_code, "http_error")
    return problem_answer(problem.status_code, problem_body(code, str(problem.detail)), problem.headers)


async def _on_invalid(request: Request, error: Exception) -> Response:
    problems = [{**each, "input": _text(each.get("input"))} for each in cast(RequestValidationError, error).errors()]
    return problem_answer(422, {"detail": problems, "code": "invalid_request"})


def _text(given: Any) -> Any:
    """A body that was not read as JSON, as it was sent."""
    return given.decode("utf-8", "replace") if isinstance(given, bytes) else given


class Failures:
    """Answers requests whose handlers fail with the id under which the log tells why."""

    def __init__(self, app: ASGIApp) -> None:
        self._app = app

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        begun = False

        async def sent(message: Message) -> None:
            nonlocal begun
            begun = True
            await send(message)

        try:
            await self._app(scope, receive, sent)
        except Exception as error:
            if scope["type"] != "http" or begun:
                raise
            error_id = log_failure(error, f"{scope['method']} {scope['path']}")
            told = problem_body("internal_error", "The server failed. Its log tells more.", error_id)
            await problem_answer(500, told)(scope, receive, send)


def _told(request: Request) -> str:
    return f"{request.method} {request.url.path}"


def problem_answer(status: int, body: Mapping[str, Any], headers: Mapping[str, str] | None = None) -> Response:
    """The answer that tells what went wrong, where no handler is to look at it."""
    return Response(json_bytes(body), status, headers, "application/json")
