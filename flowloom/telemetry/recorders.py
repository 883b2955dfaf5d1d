"""`Recorder`: makes the spans, metrics and log records of a run, if anybody wants them (spec §12.9)."""

from __future__ import annotations

from opentelemetry import _logs as logs
from opentelemetry import metrics, trace

from flowloom.context import InvocationContext
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest
from flowloom.telemetry.agent_span import AgentSpan
from flowloom.telemetry.message_log import MessageLog
from flowloom.telemetry.metrics import Metrics
from flowloom.telemetry.model_span import ModelSpan
from flowloom.telemetry.tool_spans import ToolSpans


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
