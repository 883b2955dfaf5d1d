"""`LimitedModel`: asks a model no more often than is allowed."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable
from contextlib import aclosing

from google.genai import types
from pydantic import Field, PrivateAttr

from flowloom.errors import ConfigurationError, ModelRateLimitError
from flowloom.events.response import LlmResponse
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest
from flowloom.wrappers.limiter import Admission, Limiter, TooLongError
from flowloom.wrappers.request_size import estimated_tokens
from flowloom.wrappers.wrapper import WrapperModel

LIMITED = "LIMITED"
"""`code` of the error for a call that would have had to wait for too long."""


class LimitedModel(WrapperModel):
    """Asks `model` (or the one of that name) with at most `concurrency` calls at once, and with `requests_per_minute`
    and `tokens_per_minute` in any minute. Calls beyond that wait, and are made in the order in which they came.

    How many tokens a call needs is known when it has ended. Until then it counts with an estimate: by default one
    token for four characters of the request and 258 for each file in it, or what `estimate` says. A call without token
    counts keeps it. A request of more tokens than are allowed is made when no other call counts any more.

    With `max_wait`, a call that would have to wait longer than so many seconds raises `ModelRateLimitError`, with the
    seconds in `retry_after`, as soon as that is known. Copies of the model share the limits, and so may threads and
    event loops. Calls that `model` makes again by itself are not seen: put retries around the limits.
    """

    concurrency: int | None = Field(default=None, ge=1)
    requests_per_minute: int | None = Field(default=None, ge=1)
    tokens_per_minute: int | None = Field(default=None, ge=1)
    max_wait: float | None = Field(default=None, ge=0)
    estimate: Callable[[LlmRequest], int] = Field(default=estimated_tokens, exclude=True, repr=False)

    _limiter: Limiter = PrivateAttr()

    def __init__(
        self,
        model: BaseLlm | str,
        *,
        concurrency: int | None = None,
        requests_per_minute: int | None = None,
        tokens_per_minute: int | None = None,
        max_wait: float | None = None,
        estimate: Callable[[LlmRequest], int] = estimated_tokens,
    ) -> None:
        if concurrency is None and requests_per_minute is None and tokens_per_minute is None:
            raise ConfigurationError(
                "A `LimitedModel` without a limit does nothing. Give `concurrency`, `requests_per_minute` or "
                "`tokens_per_minute`."
            )
        super().__init__(
            model,
            concurrency=concurrency,
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            max_wait=max_wait,
            estimate=estimate,
        )
        self._limiter = Limiter(self.concurrency, self.requests_per_minute, self.tokens_per_minute, self.max_wait)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The model's answer, when it is the call's turn. Raises `ModelRateLimitError`, and what the model raises."""
        admission = await self._enter(llm_request)
        used: int | None = None
        try:
            async with aclosing(self.inner.generate_content_async(llm_request, stream)) as responses:
                async for response in responses:
                    if response.usage_metadata is not None:
                        used = _tokens(response.usage_metadata)
                    yield response
        finally:
            self._limiter.leave(admission, used)

    async def _enter(self, request: LlmRequest) -> Admission:
        tokens = 0 if self.tokens_per_minute is None else self.estimate(request)
        try:
            return await self._limiter.enter(tokens)
        except TooLongError as error:
            name = request.model or self.model
            raise ModelRateLimitError(
                f"The model `{name}` was not asked: the call would have to wait longer than `max_wait` "
                f"({self.max_wait:g} s) for its turn.",
                model=name,
                code=LIMITED,
                retryable=True,
                retry_after=error.seconds,
            ) from None


def _tokens(usage: types.GenerateContentResponseUsageMetadata) -> int | None:
    """The tokens of a call; None if they are not told."""
    if usage.total_token_count is not None:
        return usage.total_token_count
    counts = (usage.prompt_token_count, usage.candidates_token_count, usage.thoughts_token_count)
    return sum(count or 0 for count in counts) if any(count is not None for count in counts) else None
