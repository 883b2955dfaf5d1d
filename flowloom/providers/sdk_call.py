"""`SdkCall`: one model call through a provider's SDK, which builds, signs and sends it, and reports refusals."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol, cast

from flowloom.errors import FlowloomError, ModelError
from flowloom.events.response import LlmResponse
from flowloom.models.answers import READING_ERRORS, Answer
from flowloom.models.failures import (
    is_known,
    is_local,
    reported_in_stream,
    retry_after,
    status_error,
    transport_error,
    unreadable,
)
from flowloom.models.http import httpx
from flowloom.models.retry import RetryOptions


class AnswerReader(Protocol):
    """Reads the answers of one kind of API, made anew for each. Raises `ModelError`s for those that report one."""

    @property
    def finished(self) -> bool:
        """Whether a streamed answer has come to its end."""
        ...

    @property
    def paused(self) -> bool:
        """Whether the provider goes on with the answer when it is given back what it has said."""
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


class SentRequest(Protocol):
    """What an SDK's method gives that was asked for the answer itself: `with_streaming_response`."""

    @property
    def http_response(self) -> httpx.Response:
        """The answer, unread."""
        ...


class SdkCall:
    """Sends a request and gives the responses to it. Must be closed.

    `send` is called for each attempt; the answer is read inside the context that it gives.

    A call that fails is made again after a pause, as long as nothing of the answer was given out.
    """

    def __init__(
        self,
        send: Callable[[], AbstractAsyncContextManager[SentRequest]],
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
        self._given = False
        self._complete = False
        self._answer: SdkAnswer | None = None
        self._sent = AsyncExitStack()
        self.paused = False
        """Whether the answer, now that it is read, has to be asked for its rest."""

    async def read(self) -> list[LlmResponse] | None:
        """The responses that came next, one or more, the last of all complete; None behind it. Raises `ModelError`s."""
        if self._complete:
            return None
        responses = await (self._read() if self._given else self._retry.retried(self._first))
        self._given = True
        self._complete = not responses[-1].partial
        return responses

    async def aclose(self) -> None:
        """Give up the answer that is being read, if there is one: its connection is closed."""
        answer, self._answer = self._answer, None
        async with self._sent:
            if answer is not None:
                await answer.aclose()

    async def _first(self, _: int) -> list[LlmResponse]:
        try:
            return await self._read()
        except ModelError:
            await self.aclose()
            raise

    async def _read(self) -> list[LlmResponse]:
        if self._answer is None:
            try:
                sent = await self._sent.enter_async_context(self._send())
            except Exception as error:
                failure = sdk_error(error, self._model)
                raise failure from (None if is_local(error.__cause__ or error) else error)
            self._answer = SdkAnswer(sent.http_response, self._new_reader(), self._model, stream=self._stream)
        responses = await self._answer.read_responses()
        self.paused = self._answer.paused
        return responses


class SdkAnswer(Answer[LlmResponse]):
    """An answer, in responses: partial ones, and at last the complete one."""

    def __init__(self, response: httpx.Response, reader: AnswerReader, model: str, *, stream: bool) -> None:
        super().__init__(response, model, stream=stream)
        self._reader = reader

    @property
    def paused(self) -> bool:
        """Whether the provider goes on with the answer in another one."""
        return self._reader.paused

    async def read_responses(self) -> list[LlmResponse]:
        """What arrived next, one response or more; the complete one at the end."""
        responses = await self.read()
        if responses is not None:
            return responses
        try:
            return [self._reader.close()]
        except READING_ERRORS as error:
            raise unreadable(error, self._model) from error

    def _take(self, data: dict[str, Any]) -> list[LlmResponse]:
        if not self._stream:
            return [self._reader.whole(data)]
        responses = self._reader.feed(data)
        self._finished = self._finished or self._reader.finished
        return responses


def sdk_error(error: Exception, model: str) -> FlowloomError:
    """What to raise for an error of an SDK: from the request, the network or the provider."""
    status: Any = getattr(error, "status_code", None)
    if not isinstance(status, int):
        cause = error.__cause__
        return transport_error(cause if isinstance(cause, Exception) and not is_known(error) else error, model)
    response: Any = getattr(error, "response", None)
    headers: Any = getattr(response, "headers", None) or {}
    code, message = reported(getattr(error, "body", None))
    failure = status_error(status, code, message or str(error), model, retry_after(headers))
    advice: Any = headers.get("x-should-retry")
    if advice in ("true", "false"):
        failure.retryable = advice == "true"
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


def error_in(data: dict[str, Any], model: str, *, stream: bool) -> ModelError:
    """What to raise for an error that a provider reports in an answer of status 200."""
    code, message = reported(data)
    return (reported_in_stream if stream else status_error)(_status_of(code), code, message, model)


def _status_of(code: str | None) -> int | None:
    if code is not None and code.isdigit():
        return int(code)
    return _STATUSES.get(code or "")


_STATUSES = {
    "invalid_request_error": 400,
    "invalid_prompt": 400,
    "context_length_exceeded": 400,
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
