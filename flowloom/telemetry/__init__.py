"""Telemetry: OpenTelemetry spans, metrics and logs. Nothing is computed when nobody records."""

from flowloom.telemetry.recorder import ModelSpan, Recorder, recorder

__all__ = ["ModelSpan", "Recorder", "recorder"]
