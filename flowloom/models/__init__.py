"""Models: the protocol, requests, the registry; provider adapters are modules of their own, loaded when used.

It imports `events` and the rooms below. Begin with `base_llm.py` and `request.py`; `gemini.py` is an adapter.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.events.response import LlmResponse
from flowloom.models.base_llm import BaseLlm
from flowloom.models.contents import SharedContents
from flowloom.models.registry import LLMRegistry
from flowloom.models.request import LlmRequest
from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.models.aggregator import StreamingAggregator
    from flowloom.models.context_cache import CacheMetadata, ContextCacheConfig
    from flowloom.models.gemini import Gemini
    from flowloom.models.retry import RetryOptions

_HOMES = {
    "aggregator": "StreamingAggregator",
    "context_cache": "CacheMetadata ContextCacheConfig",
    "gemini": "Gemini",
    "retry": "RetryOptions",
}

__all__ = [
    "BaseLlm",
    "CacheMetadata",
    "ContextCacheConfig",
    "Gemini",
    "LLMRegistry",
    "LlmRequest",
    "LlmResponse",
    "RetryOptions",
    "SharedContents",
    "StreamingAggregator",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
