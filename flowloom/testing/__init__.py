"""Testing: models that answer from a script, snapshots of requests, a frozen clock, and suites for parts of your own.

Fixtures come with the pytest plugin, which pytest finds by itself. The suites need pytest, and are loaded when used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flowloom.errors import MissingExtraError
from flowloom.extras import absent
from flowloom.guard import ModelGuard, ModelRequestBlockedError, block_model_requests
from flowloom.testing.arguments import SchemaValueError, arguments_for, value_for
from flowloom.testing.auto_model import AutoModel
from flowloom.testing.capture import CapturedRun, ModelCallRecord, ProcessorRecord, capture_run
from flowloom.testing.cassettes import CassetteError, CassetteMissError, RecordingModel
from flowloom.testing.frozen import FrozenClock, frozen
from flowloom.testing.lint import Finding, lint
from flowloom.testing.scripted import (
    Answer,
    AnsweringModel,
    FunctionModel,
    ScriptedModel,
    ScriptExhaustedError,
    call,
    chunks_of,
    delayed,
    dropped,
    truncated,
)
from flowloom.testing.symmetry import assert_symmetric

if TYPE_CHECKING:
    from flowloom.testing.suites import (
        ArtifactServiceSuite,
        ModelSuite,
        ProcessorSuite,
        SessionServiceSuite,
        ToolsetSuite,
    )

_SUITES = ("ArtifactServiceSuite", "ModelSuite", "ProcessorSuite", "SessionServiceSuite", "ToolsetSuite")

__all__ = [
    "Answer",
    "AnsweringModel",
    "ArtifactServiceSuite",
    "AutoModel",
    "CapturedRun",
    "CassetteError",
    "CassetteMissError",
    "Finding",
    "FrozenClock",
    "FunctionModel",
    "ModelCallRecord",
    "ModelGuard",
    "ModelRequestBlockedError",
    "ModelSuite",
    "ProcessorRecord",
    "ProcessorSuite",
    "RecordingModel",
    "SchemaValueError",
    "ScriptExhaustedError",
    "ScriptedModel",
    "SessionServiceSuite",
    "ToolsetSuite",
    "arguments_for",
    "assert_symmetric",
    "block_model_requests",
    "call",
    "capture_run",
    "chunks_of",
    "delayed",
    "dropped",
    "frozen",
    "lint",
    "truncated",
    "value_for",
]


def __getattr__(name: str) -> Any:
    if name in _SUITES:
        try:
            return getattr(import_module("flowloom.testing.suites"), name)
        except MissingExtraError as error:
            return absent(error)
    raise AttributeError(f"module `flowloom.testing` has no attribute `{name}`")


def __dir__() -> list[str]:
    return [*globals(), *__all__]
