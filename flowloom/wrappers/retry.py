"""`RetryModel`: asks a model again when it fails."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing

from flowloom.errors import IncompleteStreamError, ModelError, ModelResponseError
from flowloom.events.response import LlmResponse
from flowloom.models.base_llm import BaseLlm, as_response
from flowloom.models.failures import empty_stream
from flowloom.models.request import LlmRequest, note_dropped
from flowloom.models.retry import RetryOptions
from flowloom.objects.retrying import retried
from flowloom.wrappers.wrapper import WrapperModel

_log = logging.getLogger("flowloom.wrappers")


class RetryModel(WrapperModel):
    """Asks `model` (or the one of that name) again when a call fails, after a pause.

    `options` say which failures are retried, how often and after how long; it waits as long as the provider asks, and a
    pause longer than `max_delay` ends the retries. It retries only while nothing of the answer was passed on: a stream
    that breaks in the middle is an error. A model that ends without an answer counts as a broken stream. The error of
    the last call is raised.

    An answer that is an error itself (`LlmResponse.error_code`: a blocked prompt, a malformed call) is passed on like
    any other, unless its code is among `error_codes`.

    The adapters retry by themselves, so that attempts multiply; give the inner one `RetryOptions(attempts=1)`.
    """

    options: RetryOptions
    error_codes: frozenset[str] = frozenset()

    def __init__(
        self, model: BaseLlm | str, options: RetryOptions | None = None, *, error_codes: Iterable[str] = ()
    ) -> None:
        codes = (error_codes,) if isinstance(error_codes, str) else error_codes
        super().__init__(model, options=options or RetryOptions(), error_codes=frozenset(codes))

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The answer of the first call that does not fail. Raises what the last one raised."""
        first, responses = await self._begun(llm_request, stream)
        async with aclosing(responses):
            yield first
            async for response in responses:
                yield response

    async def _begun(self, request: LlmRequest, stream: bool) -> tuple[LlmResponse, AsyncGenerator[LlmResponse, None]]:
        """The first call that does not fail, with its first response: only up to there can a call be made again."""

        async def attempt(number: int) -> tuple[LlmResponse, AsyncGenerator[LlmResponse, None]]:
            responses = self.inner.generate_content_async(request, stream)
            first = await self._first_of(responses, request)
            failure = self._failure_in(first)
            if failure is None or self.options.pause_before(number + 1, failure) is None:
                return first, responses
            note_dropped(request, first)
            await responses.aclose()
            raise failure

        return await retried(attempt, self._pause_after, self.options.sleep)

    def _pause_after(self, number: int, error: Exception) -> float | None:
        if not isinstance(error, ModelError):
            return None
        # nothing was given out of a stream that broke, so it may be asked for again
        failure = empty_stream(self.model) if isinstance(error, IncompleteStreamError) else error
        pause = self.options.pause_before(number + 1, failure)
        if pause is not None:
            _log.info("The model `%s` is asked again in %.1f s: %s", self.model, pause, failure)
        return pause

    async def _first_of(self, responses: AsyncGenerator[LlmResponse, None], request: LlmRequest) -> LlmResponse:
        """The first response of a call; one that says nothing at all counts as a broken stream."""
        try:
            return as_response(await anext(responses), request.model or self.model)
        except StopAsyncIteration:
            raise empty_stream(request.model or self.model) from None

    def _failure_in(self, response: LlmResponse) -> ModelError | None:
        """The failure that an answer tells of, if its code is among those that are worth another call."""
        if response.error_code not in self.error_codes:
            return None
        text = f"The model `{self.model}` answered with the error {response.error_code}."
        return ModelResponseError(text, model=self.model, code=response.error_code, retryable=True)
