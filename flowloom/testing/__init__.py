"""Testing: models that answer from a script, snapshots of requests, a frozen clock, and suites for parts of your own.

Fixtures come with the pytest plugin, which pytest finds by itself. The suites need pytest, and are loaded when used.

It imports any other room but `cli` and `adk`. Begin with `scripted.py`; `pytest_plugin.py` has the fixtures.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.inspection.guard import ModelGuard, ModelRequestBlockedError, block_model_requests
    from flowloom.testing.arguments import SchemaValueError, arguments_for, value_for
    from flowloom.testing.auto_model import AutoModel
    from flowloom.testing.capture import CapturedRun, ModelCallRecord, ProcessorRecord, capture_run
    from flowloom.testing.cassettes import CassetteError, CassetteMissError, RecordingModel
    from flowloom.testing.explained import explain_run
    from flowloom.testing.frozen_clock import FrozenClock, frozen
    from flowloom.testing.linting import Finding, lint
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
    from flowloom.testing.suites import (
        ArtifactServiceSuite,
        CourierSuite,
        ModelSuite,
        ProcessorSuite,
        SessionServiceSuite,
        ToolsetSuite,
    )
    from flowloom.testing.symmetry import assert_symmetric

_GUARD = {"guard": "ModelGuard ModelRequestBlockedError block_model_requests"}
_HOMES = {
    "explained": "explain_run",
    "arguments": "SchemaValueError arguments_for value_for",
    "auto_model": "AutoModel",
    "capture": "CapturedRun ModelCallRecord ProcessorRecord capture_run",
    "cassettes": "CassetteError CassetteMissError RecordingModel",
    "frozen_clock": "FrozenClock frozen",
    "linting": "Finding lint",
    "scripted": "Answer AnsweringModel FunctionModel ScriptExhaustedError ScriptedModel call chunks_of delayed dropped "
    "truncated",
    "suites": "ArtifactServiceSuite CourierSuite ModelSuite ProcessorSuite SessionServiceSuite ToolsetSuite",
    "symmetry": "assert_symmetric",
}

__all__ = [
    "Answer",
    "AnsweringModel",
    "ArtifactServiceSuite",
    "AutoModel",
    "CapturedRun",
    "CassetteError",
    "CassetteMissError",
    "CourierSuite",
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
    "explain_run",
    "frozen",
    "lint",
    "truncated",
    "value_for",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES) | homes_of("flowloom.inspection", _GUARD))
