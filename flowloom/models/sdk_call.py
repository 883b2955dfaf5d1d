"""`SdkCall`: one model call through a provider's SDK, its answer read here.

The SDK builds, signs and sends the request, and reports what the provider refuses. The body of a good answer is read
by `SseDecoder`: an SDK makes an object of its own of each chunk, which takes longer than all that comes after it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Protocol, TypeVar, cast

import pydantic_core

from flowloom.errors import FlowloomError, ModelError
from flowloom.events.response import LlmResponse
from flowloom.models.failures import (
    broken_stream,
    empty_stream,
    retry_after,
    status_error,
    stream_error,
    transport_error,
    unreadable,
)
from flowloom.models.gemini_answers import SseDecoder
from flowloom.models.http import httpx
from flowloom.models.retry import RetryOptions

_T = TypeVar("_T")
_DONE = b"[DONE]"
# Refusals that an SDK reports as 429, and that waiting does not mend.
_LASTING = ("insufficient_quota", "billing_hard_limit_reached", "billing_error")


class AnswerReader(Protocol):
    """Reads the answers of one kind of API, made anew for each. Raises `ModelError`s for those that report one."""

    @property
    def finished(self) -> bool:
        """Whether a streamed answer has come to its end."""
        ...

    def whole(self, data: dict[str, Any]) -> LlmResponse:
        """The response of an answer that came at once."""
        ...

    def feed(self, data: dict[str, Any]) -> list[LlmResponse]:
        """The partial responses of one event of a stream."""
        ...

    def close(self) -> LlmResponse:
        """The complete response of a stream."""
        ...


class SdkCall:
    """Sends a request and gives the responses to it. Must be closed.

    A call that fails is made again after a pause, as long as nothing of the answer was given out.
    """

    def __init__(
        self,
        send: Callable[[], Awaitable[httpx.Response]],
        new_reader: Callable[[], AnswerReader],
        model: str,
        retry: RetryOptions,
        *,
        stream: bool,
    ) -> None:
        self._send = send
        self._new_reader = new_reader
        self._model = model
        self._retry = retry
        self._stream = stream
        self._attempt = 1
        self._given = False
        self._complete = False
        self._answer: _Answer | None = None

    async def read(self) -> list[LlmResponse] | None:
        """The responses that came next, one or more, the last of all complete; None behind it. Raises `ModelError`s."""
        if self._complete:
            return None
        while True:
            try:
                responses = await self._read()
            except ModelError as failure:
                self._attempt += 1
                pause = None if self._given else self._retry.pause_before(self._attempt, failure)
                if pause is None:
                    raise
                await self.aclose()
                await self._retry.sleep(pause)
                continue
            self._given = True
            self._complete = not responses[-1].partial
            return responses

    async def aclose(self) -> None:
        """Give up the answer that is being read, if there is one: its connection is closed."""
        answer, self._answer = self._answer, None
        if answer is not None:
            await answer.aclose()

    async def _read(self) -> list[LlmResponse]:
        if self._answer is None:
            try:
                response = await self._send()
            except Exception as error:
                raise sdk_error(error, self._model) from error
            self._answer = _Answer(response, self._new_reader(), self._model)
        return await (self._answer.read_chunks() if self._stream else self._answer.read_whole())


class _Answer:
    """One HTTP answer of status 200."""

    def __init__(self, response: httpx.Response, reader: AnswerReader, model: str) -> None:
        self._response = response
        self._reader = reader
        self._model = model
        self._bytes = response.aiter_bytes()
        self._events = SseDecoder()
        self._empty = True
        self._done = False
        self._ended = False
        self._failure: FlowloomError | None = None

    async def read_whole(self) -> list[LlmResponse]:
        try:
            body = await self._response.aread()
        except Exception as error:
            raise transport_error(error, self._model) from error
        self._ended = True
        return [self._parsed(body, self._reader.whole)]

    async def read_chunks(self) -> list[LlmResponse]:
        if self._failure is not None:
            raise self._failure
        while not self._ended:
            responses: list[LlmResponse] = []
            for payload in await self._receive():
                try:
                    responses += self._take(payload)
                except FlowloomError as failure:
                    self._failure = failure
                    self._ended = True
                    break
            if responses:
                return responses
            if self._failure is not None:
                raise self._failure
        if self._empty:
            raise empty_stream(self._model)
        if not (self._reader.finished or self._done):
            raise broken_stream(self._model, "it ended without a reason for its end")
        return [self._reader.close()]

    async def aclose(self) -> None:
        """Give the connection back, or close it when the answer was not read to its end."""
        await self._bytes.aclose()
        await self._response.aclose()
        if not self._ended:
            # The HTTP library drops a generator that it has not closed; the event loop then closes it in a task,
            # which is made in its next turn and ends in the one after.
            await asyncio.sleep(0)
            await asyncio.sleep(0)

    async def _receive(self) -> list[bytes]:
        """The next pieces of JSON. Sets `_ended` at the end."""
        try:
            received = await anext(self._bytes, None)
        except Exception as error:
            self._ended = True
            if self._reader.finished or self._done:
                return []  # the model had finished: nothing is missing
            raise stream_error(error, self._model) from error
        if received is not None:
            return self._events.feed(received)
        self._ended = True
        return self._events.close()

    def _take(self, payload: bytes) -> list[LlmResponse]:
        if payload.strip() == _DONE:
            self._done = True
            return []
        return self._parsed(payload, self._reader.feed)

    def _parsed(self, payload: bytes, read: Callable[[dict[str, Any]], _T]) -> _T:
        try:
            data: Any = pydantic_core.from_json(payload)
        except ValueError as error:
            if self._ended and not self._empty:
                raise broken_stream(self._model, "its last event is not whole") from error
            raise unreadable(error, self._model) from error
        self._empty = False
        try:
            if not isinstance(data, dict):
                raise TypeError("it is not a JSON object")
            return read(cast(dict[str, Any], data))
        except (TypeError, ValueError, LookupError, AttributeError) as error:
            if isinstance(error, FlowloomError):
                raise
            raise unreadable(error, self._model) from error


def sdk_error(error: Exception, model: str) -> FlowloomError:
    """What to raise for an error of an SDK: from the request, the network or the provider."""
    status: Any = getattr(error, "status_code", None)
    if not isinstance(status, int):
        cause = error.__cause__
        return transport_error(cause if isinstance(cause, Exception) else error, model)
    response: Any = getattr(error, "response", None)
    headers: Any = getattr(response, "headers", None) or {}
    code, message = reported(getattr(error, "body", None))
    failure = status_error(status, code, message or str(error), model, retry_after(headers))
    advice: Any = headers.get("x-should-retry")
    if advice in ("true", "false"):
        failure.retryable = advice == "true"
    elif code in _LASTING:
        failure.retryable = False
    return failure


def reported(body: Any) -> tuple[str | None, str | None]:
    """The provider's code and message in the body of an error: `{"error": {"code": ..., "message": ...}}`."""
    if not isinstance(body, dict):
        return None, str(body) if body else None
    outer = cast(dict[str, Any], body)
    found: Any = outer.get("error") or outer
    if not isinstance(found, dict):
        return None, str(found)
    inner = cast(dict[str, Any], found)
    code: Any = inner.get("code") or inner.get("type")
    message: Any = inner.get("message")
    return (None if code is None else str(code)), (None if message is None else str(message))


def status_of(code: str | None) -> int | None:
    """The HTTP status that stands behind an error that came with status 200."""
    if code is not None and code.isdigit():
        return int(code)
    return _STATUSES.get(code or "")


_STATUSES = {
    "invalid_request_error": 400,
    "authentication_error": 401,
    "permission_error": 403,
    "not_found_error": 404,
    "request_too_large": 413,
    "rate_limit_error": 429,
    "rate_limit_exceeded": 429,
    "insufficient_quota": 429,
    "api_error": 500,
    "server_error": 500,
    "timeout_error": 504,
    "overloaded_error": 529,
}
