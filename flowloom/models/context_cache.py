"""Context caching: a prompt's beginning that a provider keeps, so that it need not be sent and read again each time."""

from __future__ import annotations

from typing import Any, Self

from google.genai import types
from pydantic import BaseModel, ConfigDict, Field, ValidationError, model_validator

from flowloom.events.clock import now
from flowloom.objects.settings import Settings

_SOON = 120.0  # seconds


class ContextCacheConfig(Settings):
    """How the beginning of an agent's requests is cached: system instruction, tools, and the older contents.

    Only `Gemini` caches; other models ignore it. A cache is made by the second request that has the same
    beginning, and is billed by the provider for as long as it lives. Raises `ConfigurationError` for a field that is
    not there, or a value that does not fit.
    """

    cache_intervals: int = Field(default=10, ge=1, le=100)
    """In how many invocations one cache is used, before another takes its place that holds what has come since."""
    ttl_seconds: int = Field(default=1800, gt=0)
    """How long a cache lives."""
    min_tokens: int = Field(default=0, ge=0)
    """Tokens that the prompt before must have had. What the model asks for at least is held to in any case."""
    create_http_options: types.HttpOptions | None = None
    """google-genai's HTTP options for the call that makes a cache, such as a `timeout` in milliseconds."""

    @property
    def ttl_string(self) -> str:
        """The time to live as Google writes it."""
        return f"{self.ttl_seconds}s"


class CacheMetadata(BaseModel):
    """Which cache an answer was given from; it travels on responses and events, as google-adk has it.

    Without a `cache_name` there is no cache yet: the metadata says what could be cached, and the next request that
    begins with the same makes a cache of it.
    """

    model_config = ConfigDict(extra="forbid", frozen=True, defer_build=True)

    cache_name: str | None = None
    """The cache's resource name."""
    expire_time: float | None = None
    """When it ends, in epoch seconds."""
    fingerprint: str
    """A hash of what is cached: model, system instruction, tools and the first contents."""
    invocations_used: int | None = Field(default=None, ge=0)
    """In how many invocations it was used, the one that made it counted."""
    contents_count: int = Field(ge=0)
    """How many contents are cached, or could be."""
    created_at: float | None = None
    """When it was made, in epoch seconds."""

    @model_validator(mode="after")
    def _is_whole(self) -> Self:
        given = {value is None for value in (self.cache_name, self.expire_time, self.invocations_used)}
        if len(given) > 1:
            raise ValueError("`cache_name`, `expire_time` and `invocations_used` come together, or not at all")
        return self

    @property
    def expire_soon(self) -> bool:
        """Whether the cache ends within two minutes."""
        return self.expire_time is not None and now() > self.expire_time - _SOON


def metadata_of(value: Any) -> CacheMetadata | None:
    """The metadata that a response or event carries, as it is or as it was read from JSON; None for anything else."""
    if isinstance(value, CacheMetadata):
        return value
    try:
        return CacheMetadata.model_validate(value, from_attributes=True)
    except ValidationError:
        return None
