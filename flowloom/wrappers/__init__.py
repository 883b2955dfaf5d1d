"""Models around models: other answers when one fails, retries, limits, a cache. Each is loaded when it is used."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowloom.wrappers.cache import CachedModel
    from flowloom.wrappers.fallback import FallbackModel
    from flowloom.wrappers.limits import LimitedModel
    from flowloom.wrappers.retry import RetryModel

_HOMES = {"CachedModel": "cache", "FallbackModel": "fallback", "LimitedModel": "limits", "RetryModel": "retry"}

__all__ = ["CachedModel", "FallbackModel", "LimitedModel", "RetryModel"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module `flowloom.wrappers` has no attribute `{name}`")
    value = getattr(import_module(f"flowloom.wrappers.{_HOMES[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return [*globals(), *__all__]
