"""The recorder of OpenTelemetry's providers that are set."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opentelemetry import _logs as logs
from opentelemetry import metrics, trace

from flowloom import __version__

if TYPE_CHECKING:
    from flowloom.telemetry.recorders import Recorder

SCOPE = "gcp.vertex.agent"
"""The name of the tracer, the meter and the logger; the one that dashboards for ADK look for."""

SCHEMA_URL = "https://opentelemetry.io/schemas/1.36.0"
"""The version of the semantic conventions that most names follow."""

# The getters look into the environment at every call while nothing is set, a microsecond each. So the variables behind
# them are read, as long as they are there.
_GETTERS = (trace.get_tracer_provider, metrics.get_meter_provider, logs.get_logger_provider)
_NAMES = ("_TRACER_PROVIDER", "_METER_PROVIDER", "_LOGGER_PROVIDER")
_SPACES = [getter.__globals__ for getter in _GETTERS]
_READABLE = all(name in space for name, space in zip(_NAMES, _SPACES, strict=True))
_TRACING, _METERING, _LOGGING = _SPACES

_latest: tuple[Any, Any, Any, Recorder | None] | None = None


def recorder_in_use() -> Recorder | None:
    """The recorder of the providers that are set; None if there are none, or none of them records."""
    global _latest
    latest = _latest
    if _READABLE and latest is not None:
        if (
            _TRACING["_TRACER_PROVIDER"] is latest[0]
            and _METERING["_METER_PROVIDER"] is latest[1]
            and _LOGGING["_LOGGER_PROVIDER"] is latest[2]
        ):
            return latest[3]
        providers = [space[name] for name, space in zip(_NAMES, _SPACES, strict=True)]
    else:
        # at first the getters, because they load what the environment names
        providers = [None if is_proxy(provider) else provider for provider in (getter() for getter in _GETTERS)]
    tracing, metering, logging = providers
    if latest is None or any(new is not old for new, old in zip(providers, latest, strict=False)):
        _latest = latest = tracing, metering, logging, _new_recorder(tracing, metering, logging)
    return latest[3]


def is_proxy(provider: object) -> bool:
    """Whether this only stands in for a provider, until one is set."""
    return "Proxy" in type(provider).__name__


def _new_recorder(tracing: Any, metering: Any, logging: Any) -> Recorder | None:
    tracer = tracing and tracing.get_tracer(SCOPE, __version__, schema_url=SCHEMA_URL)
    meter = metering and metering.get_meter(SCOPE, __version__, schema_url=SCHEMA_URL)
    logger = logging and logging.get_logger(SCOPE, __version__, schema_url=SCHEMA_URL)
    tracer = None if isinstance(tracer, trace.NoOpTracer) else tracer
    meter = None if isinstance(meter, metrics.NoOpMeter) else meter
    logger = None if isinstance(logger, logs.NoOpLogger) else logger
    if tracer is None and meter is None and logger is None:
        return None
    recorders: Any = import_module("flowloom.telemetry.recorders")  # which what records nothing does not load
    return recorders.Recorder(tracer or trace.NoOpTracer(), meter, logger)
