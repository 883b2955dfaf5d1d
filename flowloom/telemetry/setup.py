"""`configure_telemetry`: export over OTLP/HTTP. Needs the extra `otel`; nothing else imports this module."""

from __future__ import annotations

import os
from contextlib import ExitStack

from opentelemetry import _logs as logs
from opentelemetry import metrics, trace

from flowloom.context import observing
from flowloom.errors import ConfigurationError
from flowloom.extras import missing_extra
from flowloom.telemetry.metrics import ProcessorTimes
from flowloom.telemetry.providers import is_proxy

try:
    from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
    from opentelemetry.exporter.otlp.proto.http.metric_exporter import OTLPMetricExporter
    from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
    from opentelemetry.sdk._logs import LoggerProvider
    from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
    from opentelemetry.sdk.metrics import MeterProvider
    from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    from opentelemetry.sdk.resources import Resource
    from opentelemetry.sdk.trace import TracerProvider
    from opentelemetry.sdk.trace.export import BatchSpanProcessor
except ImportError as error:
    raise missing_extra("`configure_telemetry` needs OpenTelemetry's SDK and OTLP exporter", "otel", error) from error

Provider = TracerProvider | MeterProvider | LoggerProvider


class Telemetry:
    """The providers that `configure_telemetry` has set, by signal: `traces`, `metrics`, `logs`."""

    def __init__(self, providers: dict[str, Provider]) -> None:
        self.providers = providers
        self.observing = ExitStack()

    def shutdown(self) -> None:
        """Send what is waiting, and stop. Nothing is recorded any more; a second time changes nothing."""
        self.observing.close()
        providers, self.providers = self.providers, {}
        for provider in providers.values():
            provider.shutdown()


def configure_telemetry(service_name: str | None = None, *, processor_times: bool = False) -> Telemetry:
    """Export spans, metrics and log records over OTLP/HTTP to where the environment says.

    `OTEL_EXPORTER_OTLP_ENDPOINT` is for all three, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT`, `..._METRICS_ENDPOINT` and
    `..._LOGS_ENDPOINT` for one each; what has no endpoint is not recorded. Headers, timeouts and so on come from
    OpenTelemetry's own variables. `service_name` goes before `OTEL_SERVICE_NAME`. With `processor_times`, the time of
    each processor of every run is recorded too (see `ProcessorTimes`). Call it once, before the first run.

    Raises `ConfigurationError` if a provider is set already: OpenTelemetry does not let it be replaced.
    """
    resource = Resource.create({} if service_name is None else {"service.name": service_name})
    providers: dict[str, Provider] = {}
    if _wanted("traces", trace.get_tracer_provider()):
        providers["traces"] = tracing = TracerProvider(resource=resource)
        tracing.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    if _wanted("metrics", metrics.get_meter_provider()):
        reader = PeriodicExportingMetricReader(OTLPMetricExporter())
        providers["metrics"] = MeterProvider(metric_readers=[reader], resource=resource)
    if _wanted("logs", logs.get_logger_provider()):
        providers["logs"] = logging = LoggerProvider(resource=resource)
        logging.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    for provider in providers.values():
        if isinstance(provider, TracerProvider):
            trace.set_tracer_provider(provider)
        elif isinstance(provider, MeterProvider):
            metrics.set_meter_provider(provider)
        else:
            logs.set_logger_provider(provider)
    telemetry = Telemetry(providers)
    if processor_times:
        telemetry.observing.enter_context(observing(ProcessorTimes()))
    return telemetry


def _wanted(signal: str, present: object) -> bool:
    names = (f"OTEL_EXPORTER_OTLP_{signal.upper()}_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    if not any(os.environ.get(name, "").strip() for name in names):
        return False
    if not is_proxy(present):
        raise ConfigurationError(
            f"OpenTelemetry has a provider for {signal} already: {type(present).__name__}. Call `configure_telemetry` "
            f"once and first, or export through the provider that is there."
        )
    return True
