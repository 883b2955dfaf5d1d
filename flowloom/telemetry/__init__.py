"""Telemetry: OpenTelemetry spans, metrics and log records. Nothing is computed without a provider that records.

Only OpenTelemetry's API is needed: whatever providers the program has set are used. `configure_telemetry`, of the
extra `otel`, sets providers that export over OTLP/HTTP.

It imports `context` and the rooms below. Begin with `recording.py`; `recorders.py` makes what is recorded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use
from flowloom.telemetry.content import content_captured, reread_settings
from flowloom.telemetry.recording import recorder, recording_with
from flowloom.telemetry.step_log import step_logs

if TYPE_CHECKING:
    from flowloom.telemetry.agent_span import AgentSpan
    from flowloom.telemetry.metrics import ProcessorTimes
    from flowloom.telemetry.model_span import ModelSpan
    from flowloom.telemetry.recorders import Recorder
    from flowloom.telemetry.setup import configure_telemetry
    from flowloom.telemetry.tool_spans import ToolSpans

_HOMES = {
    "agent_span": "AgentSpan",
    "metrics": "ProcessorTimes",
    "model_span": "ModelSpan",
    "recorders": "Recorder",
    "setup": "configure_telemetry",
    "tool_spans": "ToolSpans",
}

__all__ = [
    "AgentSpan",
    "ModelSpan",
    "ProcessorTimes",
    "Recorder",
    "ToolSpans",
    "configure_telemetry",
    "content_captured",
    "recorder",
    "recording_with",
    "reread_settings",
    "step_logs",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
