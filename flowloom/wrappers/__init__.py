"""Models around models: other answers when one fails, retries, limits, a cache. Each is loaded when it is used.

It imports `inspection`, `models` and the rooms below. Begin with `wrapper.py`: what all of them do alike.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.wrappers.cache import CachedModel
    from flowloom.wrappers.fallback import FallbackModel
    from flowloom.wrappers.limits import LimitedModel
    from flowloom.wrappers.retry import RetryModel

_HOMES = {"cache": "CachedModel", "fallback": "FallbackModel", "limits": "LimitedModel", "retry": "RetryModel"}

__all__ = ["CachedModel", "FallbackModel", "LimitedModel", "RetryModel"]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
