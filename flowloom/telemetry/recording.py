"""The recorder of runs, if they are recorded.

A program that has not loaded OpenTelemetry has set no provider: then it is not loaded here either.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Generator
from contextlib import contextmanager
from contextvars import ContextVar
from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from flowloom.telemetry.recorders import Recorder

_PROVIDERS = ("OTEL_PYTHON_TRACER_PROVIDER", "OTEL_PYTHON_METER_PROVIDER", "OTEL_PYTHON_LOGGER_PROVIDER")
"""The variables of the environment by which OpenTelemetry loads providers of itself."""

_beside: ContextVar[Callable[[Recorder | None], Recorder] | None] = ContextVar("flowloom_recorder", default=None)
_providers: Any = None
_named: bool | None = None
"""Whether the environment names a provider; looked at once, because runs and tool calls ask for the recorder."""


def recorder() -> Recorder | None:
    """The recorder of the providers that are set, or what `recording_with` makes of it; None if there are none, or none
    of them records."""
    beside = _beside.get()
    return _of_providers() if beside is None else beside(_of_providers())


@contextmanager
def recording_with(beside: Callable[[Recorder | None], Recorder]) -> Generator[None]:
    """Record the runs that begin meanwhile in this context (of this task, and of those that it starts) with what
    `beside` makes of the recorder of the providers that are set, None if there is none."""
    token = _beside.set(beside)
    try:
        yield
    finally:
        _beside.reset(token)


def _of_providers() -> Recorder | None:
    global _providers, _named
    if _providers is None:
        if _named is None:
            _named = any(name in os.environ for name in _PROVIDERS)
        if not _named and "opentelemetry" not in sys.modules:
            return None
        _providers = import_module("flowloom.telemetry.providers")
    return _providers.recorder_in_use()
