"""The context_cache processor: what a model needs to know to cache the beginning of a conversation."""

from __future__ import annotations

from itertools import islice

from flowloom.context import InvocationContext
from flowloom.events.wire import set_fields
from flowloom.models.context_cache import ContextCacheConfig, metadata_of
from flowloom.models.request import LlmRequest

_LOOK_BACK = 500
"""Events; an agent that has not answered for so long begins anew."""


class ContextCaching:
    """The beginning of this agent's requests is cached by the provider, if it does such things.

    Reads: the session's events: cache metadata and token counts of the agent's latest answers.
    Writes: `cache_config`, `cache_metadata`, `cacheable_contents_token_count`.
    Must come after: nothing.

    What is cached must stay the same: system instruction, tools, and all contents but the latest. Put what changes
    into `instruction` and the rest into `static_instruction`; a window or compaction moves the beginning seldom.
    `config` says what is cached, and for how long; by default as `ContextCacheConfig` does.
    """

    name = "context_cache"

    def __init__(self, config: ContextCacheConfig | None = None) -> None:
        self._config = config or ContextCacheConfig()

    def __repr__(self) -> str:
        return f"ContextCaching({self._config!r})"

    def __call__(self, ctx: InvocationContext, request: LlmRequest) -> None:
        if ctx.llm_agent is not None:
            prepare_caching(ctx, request, self._config)


def prepare_caching(ctx: InvocationContext, request: LlmRequest, config: ContextCacheConfig) -> None:
    """Put on `request` how it is to be cached, and what the agent's answers so far say about caches.

    A cache counts as used once more by each invocation.
    """
    metadata, tokens = None, None
    for event in islice(reversed(ctx.run.session.events), _LOOK_BACK):
        if event.author != ctx.agent.name or event.branch != ctx.branch:
            continue
        if metadata is None and event.cache_metadata is not None:
            metadata = metadata_of(event.cache_metadata)
            if metadata is not None and metadata.invocations_used and event.invocation_id != ctx.run.invocation_id:
                used = metadata.invocations_used + 1
                metadata = metadata.model_copy(update={"invocations_used": used})
        if tokens is None and event.usage_metadata is not None:
            tokens = event.usage_metadata.prompt_token_count
        if metadata is not None and tokens is not None:
            break
    set_fields(request, cache_config=config, cache_metadata=metadata, cacheable_contents_token_count=tokens)
