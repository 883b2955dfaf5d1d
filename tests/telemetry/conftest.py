"""Providers of the real SDK that keep everything in memory, made anew for each test."""

from __future__ import annotations

import logging
from collections.abc import Iterator
from typing import Any

import opentelemetry._logs._internal as logs_api
import opentelemetry.metrics._internal as metrics_api
import pytest
from opentelemetry import trace as trace_api
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import InMemoryLogRecordExporter, SimpleLogRecordProcessor
from opentelemetry.sdk.metrics import MeterProvider
from opentelemetry.sdk.metrics.export import InMemoryMetricReader
from opentelemetry.sdk.trace import ReadableSpan, SpanProcessor, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from flowloom.telemetry import reread_settings
from flowloom.telemetry.content import CAPTURE_VARIABLE


class _Open(SpanProcessor):
    """Counts the spans that are started and not ended."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def on_start(self, span: Any, parent_context: Any = None) -> None:
        self.names.append(span.name)

    def on_end(self, span: ReadableSpan) -> None:
        self.names.remove(span.name)


class Recording:
    """What was recorded so far."""

    def __init__(self) -> None:
        self.exporter = InMemorySpanExporter()
        self.log_exporter = InMemoryLogRecordExporter()
        self.reader = InMemoryMetricReader()
        self._open = _Open()
        self.tracing = TracerProvider()
        self.tracing.add_span_processor(self._open)
        self.tracing.add_span_processor(SimpleSpanProcessor(self.exporter))
        self.logging = LoggerProvider()
        self.logging.add_log_record_processor(SimpleLogRecordProcessor(self.log_exporter))
        self.metering = MeterProvider(metric_readers=[self.reader])

    @property
    def open(self) -> list[str]:
        """The names of spans that have not ended."""
        return list(self._open.names)

    @property
    def spans(self) -> list[ReadableSpan]:
        """The ended spans, by their start."""
        return sorted(self.exporter.get_finished_spans(), key=lambda span: span.start_time or 0)

    @property
    def names(self) -> list[str]:
        """The names of the ended spans, by their start."""
        return [span.name for span in self.spans]

    def span(self, name: str) -> ReadableSpan:
        """The one ended span of this name."""
        (found,) = [span for span in self.spans if span.name == name]
        return found

    def parent(self, span: ReadableSpan) -> str | None:
        """The name of a span's parent; None for a root."""
        if span.parent is None:
            return None
        return next(other.name for other in self.spans if other.context.span_id == span.parent.span_id)

    @property
    def tree(self) -> list[tuple[str | None, str]]:
        """Parent and name of each ended span, by their start."""
        return [(self.parent(span), span.name) for span in self.spans]

    @property
    def logs(self) -> list[Any]:
        """The log records, in order."""
        return [data.log_record for data in self.log_exporter.get_finished_logs()]

    def bodies(self, name: str) -> list[Any]:
        """The bodies of the log records of this name."""
        return [record.body for record in self.logs if record.event_name == name]

    def points(self, name: str) -> list[Any]:
        """The data points of a metric."""
        data = self.reader.get_metrics_data()
        if data is None:
            return []
        return [
            point
            for resource in data.resource_metrics
            for scope in resource.scope_metrics
            for metric in scope.metrics
            if metric.name == name
            for point in metric.data.data_points
        ]


@pytest.fixture
def recording(monkeypatch: pytest.MonkeyPatch) -> Iterator[Recording]:
    """Providers that record into memory; the API's own lock against replacing them is gone around."""
    made = Recording()
    monkeypatch.setattr(trace_api, "_TRACER_PROVIDER", made.tracing)
    monkeypatch.setattr(metrics_api, "_METER_PROVIDER", made.metering)
    monkeypatch.setattr(logs_api, "_LOGGER_PROVIDER", made.logging)
    yield made
    assert made.open == []
    made.tracing.shutdown()
    made.metering.shutdown()
    made.logging.shutdown()


@pytest.fixture
def captured(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Content capture is on."""
    monkeypatch.setenv(CAPTURE_VARIABLE, " True ")
    reread_settings()
    yield
    monkeypatch.delenv(CAPTURE_VARIABLE)
    reread_settings()


@pytest.fixture(autouse=True)
def no_complaints(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """OpenTelemetry never has anything to complain about: a context left in the wrong place, a span ended twice."""
    yield
    complaints = [
        record.getMessage()
        for record in caplog.get_records("call")
        if record.name.startswith("opentelemetry") and record.levelno >= logging.WARNING
    ]
    assert complaints == []
