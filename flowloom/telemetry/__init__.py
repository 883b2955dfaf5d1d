"""Telemetry: OpenTelemetry spans, metrics and log records. Nothing is computed when nobody records.

Only OpenTelemetry's API is needed: whatever providers the program has set are used. `configure_telemetry`, of the
extra `otel`, sets providers that export over OTLP/HTTP.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from flowloom.errors import MissingExtraError
from flowloom.extras import absent
from flowloom.telemetry.agent_span import AgentSpan
from flowloom.telemetry.content import content_captured, reread_settings
from flowloom.telemetry.metrics import ProcessorTimes
from flowloom.telemetry.model_span import ModelSpan
from flowloom.telemetry.recorder import Recorder, recorder
from flowloom.telemetry.step_log import step_logs
from flowloom.telemetry.tool_spans import ToolSpans

if TYPE_CHECKING:
    from flowloom.telemetry.setup import configure_telemetry

__all__ = [
    "AgentSpan",
    "ModelSpan",
    "ProcessorTimes",
    "Recorder",
    "ToolSpans",
    "configure_telemetry",
    "content_captured",
    "recorder",
    "reread_settings",
    "step_logs",
]


def __getattr__(name: str) -> Any:
    if name != "configure_telemetry":
        raise AttributeError(f"module `flowloom.telemetry` has no attribute `{name}`")
    try:
        return import_module("flowloom.telemetry.setup").configure_telemetry
    except MissingExtraError as error:
        return absent(error)


def __dir__() -> list[str]:
    return [*globals(), *__all__]
