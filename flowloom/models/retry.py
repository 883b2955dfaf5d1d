"""`RetryOptions`: when and after how long a failed model call is made again."""

# no annotations as texts: pydantic would compile each of the fields' by itself

import random
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, TypeVar, cast

from pydantic import BaseModel, ConfigDict, Field, model_validator

from flowloom.errors import ModelError
from flowloom.events.clock import sleep
from flowloom.events.wire import fields_of
from flowloom.objects.retrying import retried

T = TypeVar("T")


class RetryOptions(BaseModel):
    """Exponential backoff. Field names and units are those of google-genai's `HttpRetryOptions`, which is accepted.

    A call is retried only while nothing of its answer has been passed on. If the provider asks for a pause
    (`Retry-After`), the call waits for it; a pause longer than `max_delay` ends the retries.
    """

    model_config = ConfigDict(arbitrary_types_allowed=True, extra="forbid")

    attempts: int = Field(default=3, ge=0)
    """Calls at most, the first one included; 1 (or 0) turns retries off."""
    initial_delay: float = Field(default=1.0, ge=0)
    """Seconds before the second call."""
    max_delay: float = Field(default=60.0, ge=0)
    """The longest pause, in seconds."""
    exp_base: float = Field(default=2.0, ge=1)
    """Each pause is so many times the one before."""
    jitter: float = Field(default=1.0, ge=0)
    """Up to so many seconds are added at random, so that many callers do not retry at once."""
    http_status_codes: list[int] | None = None
    """Which HTTP statuses are worth another call; by default 408, 429 and 5xx."""
    sleep: Callable[[float], Awaitable[None]] = Field(default=sleep, exclude=True, repr=False)
    """Waits so many seconds. Replaced in tests."""

    def overridden_by(self, *given: Any) -> "RetryOptions":
        """The first options in `given` that are not None (flowloom's or google-genai's), waiting as these do."""
        for options in given:
            if options is not None:
                return RetryOptions.model_validate({"sleep": self.sleep, **fields_of(options)})
        return self

    async def retried(self, attempt: Callable[[int], Awaitable[T]]) -> T:
        """What the first `attempt` gives that does not fail; an error that is worth no further one is raised.

        `attempt` is called with its number, from 1.
        """
        return await retried(attempt, self._pause_after, self.sleep)

    def _pause_after(self, number: int, error: Exception) -> float | None:
        return self.pause_before(number + 1, error) if isinstance(error, ModelError) else None

    def pause_before(self, attempt: int, failure: ModelError) -> float | None:
        """Seconds to wait before call number `attempt` (the first retry is 2); None for no further call."""
        asked = failure.retry_after
        if attempt > self.attempts or not self._worthwhile(failure):
            return None
        if asked is not None and asked > self.max_delay:
            return None
        # A large exponent overflows to an error, not to infinity.
        backoff = self.initial_delay * self.exp_base ** min(attempt - 2, 64) + random.uniform(0, self.jitter)
        return max(min(backoff, self.max_delay), asked or 0.0)

    def _worthwhile(self, failure: ModelError) -> bool:
        if self.http_status_codes is not None and failure.status is not None:
            return failure.status in self.http_status_codes
        return failure.retryable

    @model_validator(mode="before")
    @classmethod
    def _read_foreign(cls, data: Any) -> Any:
        """google-genai's options leave fields None that have a default here."""
        if isinstance(data, RetryOptions):
            return data
        if isinstance(data, BaseModel):
            data = fields_of(data)
        if isinstance(data, Mapping):
            return {name: value for name, value in cast(Mapping[str, Any], data).items() if value is not None}
        return data
