"""`RetryModel`: asks a model again when it fails. Needs the extra `retry`."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator, Iterable
from contextlib import aclosing
from typing import cast

from flowloom.errors import ConfigurationError, IncompleteStreamError, ModelError, ModelResponseError
from flowloom.events import clock
from flowloom.events.response import LlmResponse
from flowloom.models.base_llm import BaseLlm
from flowloom.models.failures import empty_stream
from flowloom.models.request import LlmRequest, note_dropped
from flowloom.models.retry import RetryOptions
from flowloom.wrappers.wrapper import WrapperModel

try:
    from tenacity import AsyncRetrying, RetryCallState
except ImportError as error:
    raise ConfigurationError("`RetryModel` needs the library tenacity: `pip install flowloom[retry]`.") from error

_log = logging.getLogger("flowloom.wrappers")
_Begun = tuple[LlmResponse, AsyncGenerator[LlmResponse, None]]


class RetryModel(WrapperModel):
    """Asks `model` (or the one of that name) again when a call fails, after a pause.

    `options` say which failures are worth another call, how often and after how long; a pause that the provider asks
    for is kept, and one that is longer than `max_delay` ends the retries. A call is made again only while nothing of
    its answer was given out: a stream that breaks in the middle is an error. A model that says nothing at all counts
    as a broken stream. The error of the last call is raised.

    An answer that is an error itself (`LlmResponse.error_code`: a blocked prompt, a malformed call) is given out like
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
        policy = _Policy(self, llm_request)
        retrying = AsyncRetrying(
            retry=policy.again, wait=policy.pause, sleep=policy.sleep, before_sleep=policy.give_up_call
        )
        first, responses = cast(_Begun, await retrying(self._begun, llm_request, stream))
        async with aclosing(responses):
            yield first
            async for response in responses:
                yield response

    async def _begun(self, request: LlmRequest, stream: bool) -> _Begun:
        """A call whose first response has come. Only up to here can it be made again."""
        responses = self.inner.generate_content_async(request, stream)
        try:
            return await anext(responses), responses
        except StopAsyncIteration:
            raise empty_stream(request.model or self.model) from None


class _Policy:
    """What tenacity asks about one call: whether to make it again, and after how long."""

    __slots__ = ("_model", "_pause", "_request")

    def __init__(self, model: RetryModel, request: LlmRequest) -> None:
        self._model = model
        self._request = request
        self._pause = 0.0

    def again(self, state: RetryCallState) -> bool:
        """Whether the latest attempt failed in a way that is worth another one."""
        failure = self._failure(state)
        pause = None if failure is None else self._model.options.pause_before(state.attempt_number + 1, failure)
        self._pause = pause or 0.0
        return pause is not None

    def pause(self, state: RetryCallState) -> float:
        return self._pause

    async def give_up_call(self, state: RetryCallState) -> None:
        """Close a call whose answer is not used."""
        assert state.outcome is not None
        name, failure = self._model.model, self._failure(state)
        _log.info("The model `%s` is asked again in %.1f s: %s", name, self._pause, failure)
        if not state.outcome.failed:
            response, responses = cast(_Begun, state.outcome.result())
            note_dropped(self._request, response)
            await responses.aclose()

    async def sleep(self, seconds: float) -> None:
        sleep = self._model.options.sleep
        await (clock.sleep(seconds) if sleep is asyncio.sleep else sleep(seconds))

    def _failure(self, state: RetryCallState) -> ModelError | None:
        """The failure of the latest attempt; None if it did not fail, or in a way that no further call mends."""
        outcome = state.outcome
        assert outcome is not None
        if outcome.failed:
            error = outcome.exception()
            if isinstance(error, IncompleteStreamError):
                return empty_stream(self._model.model)  # nothing was given out, so it may be asked for again
            return error if isinstance(error, ModelError) else None
        response, _ = cast(_Begun, outcome.result())
        if response.error_code not in self._model.error_codes:
            return None
        text = f"The model `{self._model.model}` answered with the error {response.error_code}."
        return ModelResponseError(text, model=self._model.model, code=response.error_code, retryable=True)
