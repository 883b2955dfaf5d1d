"""`Recorder`: makes the spans, metrics and log records of a run, if anybody wants them (spec §12.9)."""

from __future__ import annotations

from typing import Any

from opentelemetry import _logs as logs
from opentelemetry import metrics, trace

from flowloom import __version__
from flowloom.context import InvocationContext
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest
from flowloom.telemetry.agent_span import AgentSpan
from flowloom.telemetry.message_log import MessageLog
from flowloom.telemetry.metrics import Metrics
from flowloom.telemetry.model_span import ModelSpan
from flowloom.telemetry.tool_spans import ToolSpans

SCOPE = "gcp.vertex.agent"
"""The name of the tracer, the meter and the logger; the one that dashboards for ADK look for."""

SCHEMA_URL = "https://opentelemetry.io/schemas/1.36.0"
"""The version of the semantic conventions that most names follow."""


class Recorder:
    """Makes the spans of agents, model calls and tool calls. `flowloom.telemetry.recorder()` gives one.

    `tracer`, `meter` and `logger` are OpenTelemetry's; None where no metrics or no messages are recorded.
    """

    __slots__ = ("_log", "_metrics", "_tracer")

    def __init__(self, tracer: trace.Tracer, meter: metrics.Meter | None, logger: logs.Logger | None) -> None:
        self._tracer = tracer
        self._metrics = None if meter is None else Metrics(meter)
        self._log = None if logger is None else MessageLog(logger)

    def start_agent(self, ctx: InvocationContext) -> AgentSpan:
        """Open the span of the agent's turn, and note it on `ctx`."""
        return AgentSpan(ctx, self._tracer)

    def start_model(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> ModelSpan:
        """Open the span of a model call that is about to be made, and log the request."""
        return ModelSpan(ctx, model, request, self._tracer, self._log, self._metrics)

    def start_tools(self, ctx: InvocationContext, count: int) -> ToolSpans:
        """The spans of `count` tool calls of one answer, none of them started."""
        return ToolSpans(ctx, count, self._tracer, self._metrics)


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
    return Recorder(tracer or trace.NoOpTracer(), meter, logger)
