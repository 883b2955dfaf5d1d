"""`GeminiCall`: one model call on the wire, with its retries and continuations."""

from __future__ import annotations

from collections.abc import Callable, Coroutine
from typing import Any, cast

from google import genai
from google.genai import types

from flowloom.errors import FlowloomError, ModelError, ModelRequestError
from flowloom.events.wire import fields_of, replace
from flowloom.models.gemini_answers import GeminiAnswer
from flowloom.models.gemini_errors import call_error
from flowloom.models.gemini_http import taken_answers
from flowloom.models.http import httpx
from flowloom.models.retry import RetryOptions

_STAND_IN = "."  # google-genai insists on contents; the real ones are in the config's addition to the body


class GeminiCall:
    """Sends a request and gives its answer chunk by chunk, as if it were one answer. Must be closed.

    A call that fails is made again after a pause, as long as nothing of the answer was given out. An answer that
    stopped because no single one may be longer is continued by a further call, unless the config forbids it.
    `otherwise` is asked for another config to try when a call has failed, and answers None to have none.
    """

    def __init__(
        self,
        client: genai.Client,
        model: str,
        config: types.GenerateContentConfig,
        retry: RetryOptions,
        *,
        stream: bool,
        otherwise: Callable[[ModelError], types.GenerateContentConfig | None] | None = None,
    ) -> None:
        self._client = client
        self._model = model
        self._config = _continued_here(config)
        self._resume = config.automatic_continuation is not False
        self._retry = retry
        self._stream = stream
        self._otherwise = otherwise
        self._given = False
        self._answer: GeminiAnswer | None = None
        self._used: types.GenerateContentResponseUsageMetadata | None = None

    async def read(self) -> list[types.GenerateContentResponse] | None:
        """The chunks that came next, one or more; None at the end. Raises `ModelError`s."""
        while True:
            chunks = await (self._read() if self._given else self._retry.retried(self._first))
            if chunks is not None:
                self._given = True
                return chunks if self._used is None else [self._with_all_usage(chunk) for chunk in chunks]
            if self._answer is None or self._answer.continuation is None:
                return None
            await self._go_on(self._answer.continuation)

    async def aclose(self) -> None:
        """Give up the answer that is being read, if there is one: its connection is closed."""
        answer, self._answer = self._answer, None
        if answer is not None:
            await answer.aclose()

    async def _first(self, number: int) -> list[types.GenerateContentResponse] | None:
        try:
            return await self._read()
        except ModelError as failure:
            await self.aclose()
            if not self._changes_after(failure):
                raise
        return await self._first(number)  # another config is no further attempt

    async def _read(self) -> list[types.GenerateContentResponse] | None:
        if self._answer is None:
            self._answer = GeminiAnswer(await self._send(), self._model, stream=self._stream, resume=self._resume)
        return await self._answer.read()

    def _changes_after(self, failure: ModelError) -> bool:
        """Whether the call is made again with another config."""
        other = None if self._otherwise is None else self._otherwise(failure)
        if other is None:
            return False
        self._config = _continued_here(other)
        return True

    async def _go_on(self, token: bytes) -> None:
        if self._answer is not None:
            self._used = _added(self._used, self._answer.usage)
        await self.aclose()
        self._config = replace(self._config)
        self._config.continuation_token = token

    def _with_all_usage(self, chunk: types.GenerateContentResponse) -> types.GenerateContentResponse:
        """The chunk, its usage counted on top of that of the calls before."""
        if chunk.usage_metadata is not None:
            chunk.usage_metadata = _added(self._used, chunk.usage_metadata)
        return chunk

    async def _send(self) -> httpx.Response:
        """Make one call; only the headers of its answer have been read."""
        models = cast(Any, self._client.aio.models)  # its signatures name types of libraries that may be missing
        taken: list[httpx.Response] = []
        token = taken_answers.set(taken)
        try:
            call: Coroutine[Any, Any, Any]
            if self._stream:
                call = models.generate_content_stream(model=self._model, contents=_STAND_IN, config=self._config)
                async for _ in await call:
                    pass  # the real answer was taken, this one is empty
            else:
                call = models.generate_content(model=self._model, contents=_STAND_IN, config=self._config)
                await call
        except BaseException as error:
            for response in taken:
                await response.aclose()
            if isinstance(error, Exception) and not isinstance(error, FlowloomError):
                raise call_error(error, self._model) from error
            raise
        finally:
            taken_answers.reset(token)
        if not taken:
            raise ModelRequestError(f"google-genai did not send the request to `{self._model}`.", model=self._model)
        return taken[0]


def _continued_here(config: types.GenerateContentConfig) -> types.GenerateContentConfig:
    """The config for google-genai, which would continue answers too, but sees none of them."""
    new = replace(config)
    new.automatic_continuation = False
    return new


def _added(
    before: types.GenerateContentResponseUsageMetadata | None, since: types.GenerateContentResponseUsageMetadata | None
) -> types.GenerateContentResponseUsageMetadata | None:
    """The sum of both, number by number; what is not a number is the later one's."""
    if before is None or since is None:
        return since if before is None else before
    later = fields_of(since)
    sums = {name: value + (later[name] or 0) for name, value in fields_of(before).items() if isinstance(value, int)}
    return replace(since, **sums)
