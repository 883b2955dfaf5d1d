"""Being the model: requests that wait for a person, and their answers (server spec §12). Development server only.

What is asked and answered is in the table of `inspecting.py`. A request is shown to those who may use its session; to
`WaitingRequest.to_dict` come `app_name`, `user_id`, `session_id` and `invocation_id`.
"""

from __future__ import annotations

import asyncio
from typing import Any

from fastapi import APIRouter, Depends, Request
from fastapi.responses import Response
from google.genai import types
from starlette.types import Receive, Scope, Send

from flowloom.asgi.principal import Principal
from flowloom.errors import (
    ModelError,
    ModelRateLimitError,
    ModelUnavailableError,
    RequestNotFoundError,
    RequestOverError,
    UnfitAnswerError,
)
from flowloom.events.parts import content_of
from flowloom.events.response import LlmResponse
from flowloom.events.wire import make
from flowloom.human import Answer, WaitingRequest
from flowloom.server.event_streams import HEADERS, Client
from flowloom.server.frames import KEEP_ALIVE
from flowloom.server.inbox import Happened, Inbox
from flowloom.server.local_callers import local_only
from flowloom.server.problems import ProblemError, problem_answer, problem_body
from flowloom.server.served import Served, development_of, principal_of, served_of
from flowloom.server.wire import Body, Part, answer, json_bytes, public_json

_LOOK_SECONDS = 1.0
"""How often a silent stream looks whether the server stops."""
_ERRORS: dict[str, type[ModelError]] = {"RATE_LIMIT": ModelRateLimitError, "UNAVAILABLE": ModelUnavailableError}
_REASONS: dict[str, types.FinishReason] = {each.value: each for each in types.FinishReason}


async def may_answer(request: Request) -> None:
    """Raise `ProblemError` (403) for an answer from elsewhere, unless the server knows who asks."""
    if request.method not in ("GET", "HEAD") and served_of(request).settings.auth is None:
        await local_only(request)


router = APIRouter(prefix="/dev/models/requests", tags=["dev"], dependencies=[Depends(may_answer)])


class ModelFailure(Body):
    """How a model fails; `code` is the provider's, such as `RATE_LIMIT` or `UNAVAILABLE`, or a finish reason, such as
    `SAFETY` or `MAX_TOKENS`."""

    code: str | None = None
    message: str
    retryable: bool = False


class ModelAnswer(Body):
    """What a person says in the place of a model: parts, or a failure, and what was said before it. `partial` parts are
    a piece of an answer that is still being written."""

    parts: list[Part] | None = None
    error: ModelFailure | None = None
    partial: bool = False


@router.get("")
async def waiting_requests(request: Request) -> Response:
    """The requests that wait for a person, the oldest first."""
    inbox = development_of(request).inbox
    return answer(_json([inbox.shown(each) for each in inbox.pending(principal_of(request))]))


@router.get("/stream")
async def request_stream(request: Request) -> Response:
    """What waits, what comes and what ends, as server-sent events."""
    served_of(request).runs.check_streams()
    return InboxStream(served_of(request), development_of(request).inbox, principal_of(request))


@router.post("/{request_id}/answer")
async def answer_request(request: Request, request_id: str, body: ModelAnswer) -> Response:
    """Answer a request in the place of the model."""
    inbox, principal = development_of(request).inbox, principal_of(request)
    try:
        if body.partial and body.error is None:
            inbox.say(request_id, body.parts or [], principal)
        else:
            inbox.answer(request_id, _given(body), principal)
    except RequestNotFoundError as error:
        raise ProblemError(404, "request_not_found", str(error)) from error
    except RequestOverError as error:
        return problem_answer(409, {**problem_body("request_over", str(error)), "state": error.state})
    except UnfitAnswerError as error:
        told = {**problem_body("unfit_answer", str(error)), "tool": error.tool, "field": error.field}
        return problem_answer(422, told)
    state = "waiting" if body.partial and body.error is None else "answered"
    return answer(json_bytes({"id": request_id, "state": state}))


def _given(body: ModelAnswer) -> Answer:
    """What a person gives. Raises `UnfitAnswerError` for nothing."""
    error = body.error
    if error is None:
        if body.parts is None:
            raise UnfitAnswerError("The answer says nothing. Give `parts`, or an `error`.")
        return body.parts
    reason = _REASONS.get(error.code or "")
    if body.parts or reason is not None:
        content = content_of("model", body.parts) if body.parts else None
        code = error.code or types.FinishReason.OTHER.value
        return make(LlmResponse, content=content, finish_reason=reason, error_code=code, error_message=error.message)
    kind = _ERRORS.get(error.code or "", ModelError)
    return kind(error.message, code=error.code, retryable=error.retryable)


class InboxStream(Response):
    """What waits, comes and ends, until the client goes or the server stops."""

    def __init__(self, served: Served, inbox: Inbox, principal: Principal) -> None:
        super().__init__()
        self._served, self._inbox, self._principal = served, inbox, principal
        self._loop = asyncio.get_running_loop()
        self._news: asyncio.Queue[bytes | None] = asyncio.Queue()

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        stop = self._inbox.listen(self._told)
        try:
            for waiting in self._inbox.pending(self._principal):
                self._news.put_nowait(self._frame("came", waiting))
            with self._served.runs.stream():
                async with Client(scope, receive, lambda: self._news.put_nowait(None)) as client:
                    await send({"type": "http.response.start", "status": 200, "headers": HEADERS})
                    await send({"type": "http.response.body", "body": b": open\n\n", "more_body": True})
                    silent = 0.0
                    while not (client.gone or self._served.runs.stopping):
                        chunk = await self._next()
                        silent = silent + _LOOK_SECONDS if chunk is None else 0.0
                        if chunk is None and silent >= self._served.settings.keep_alive:
                            chunk, silent = KEEP_ALIVE, 0.0
                        if chunk is not None:
                            await send({"type": "http.response.body", "body": chunk, "more_body": True})
                    await send({"type": "http.response.body", "body": b""})
        finally:
            stop()

    async def _next(self) -> bytes | None:
        """The next frame; None if there was none for a while."""
        try:
            async with asyncio.timeout(_LOOK_SECONDS):
                return await self._news.get()
        except TimeoutError:
            return None

    def _told(self, what: Happened, waiting: WaitingRequest) -> None:
        if self._inbox.shows(waiting, self._principal) and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._news.put_nowait, self._frame(what, waiting))

    def _frame(self, what: Happened, waiting: WaitingRequest) -> bytes:
        data = self._inbox.shown(waiting) if what == "came" else {"id": waiting.id, "state": waiting.state}
        return b"event: " + what.encode() + b"\ndata: " + _json(data) + b"\n\n"


def _json(data: Any) -> bytes:
    return public_json(json_bytes(data))
