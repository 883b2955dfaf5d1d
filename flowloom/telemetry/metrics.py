"""The metrics of model and tool calls, by OpenTelemetry's conventions for generative AI."""

from __future__ import annotations

from typing import Any

from google.genai import types
from opentelemetry import metrics
from opentelemetry.context.context import Context
from opentelemetry.metrics import Histogram, Meter

from flowloom.context import InvocationContext, Observer, ProcessorCall

_TOKENS = [4.0**exponent for exponent in range(14)]
_SECONDS = [0.01 * 2**exponent for exponent in range(14)]
_PROCESSOR_SECONDS = [1e-6 * 4**exponent for exponent in range(12)]


class Metrics:
    """Histograms of tokens and seconds. `labels` are the attributes that tell their series apart."""

    __slots__ = ("_model_seconds", "_tokens", "_tool_seconds")

    def __init__(self, meter: Meter) -> None:
        def histogram(name: str, unit: str, description: str, bounds: list[float]) -> Histogram:
            return meter.create_histogram(name, unit, description, explicit_bucket_boundaries_advisory=bounds)

        self._tokens = histogram("gen_ai.client.token.usage", "{token}", "Tokens of a model call.", _TOKENS)
        self._model_seconds = histogram("gen_ai.client.operation.duration", "s", "Time of a model call.", _SECONDS)
        self._tool_seconds = histogram("gen_ai.execute_tool.duration", "s", "Time of a tool call.", _SECONDS)

    def model_answered(self, labels: dict[str, Any], seconds: float, context: Context) -> None:
        """Count the time of a model call that came to its end."""
        self._model_seconds.record(seconds, labels, context=context)

    def tokens_used(
        self, labels: dict[str, Any], usage: types.GenerateContentResponseUsageMetadata, context: Context
    ) -> None:
        """Count the tokens of a model call, as far as the model tells them."""
        if usage.prompt_token_count is not None:
            self._tokens.record(usage.prompt_token_count, labels | {"gen_ai.token.type": "input"}, context=context)
        if usage.candidates_token_count is not None or usage.thoughts_token_count is not None:
            self._tokens.record(output_tokens(usage), labels | {"gen_ai.token.type": "output"}, context=context)

    def tool_answered(self, labels: dict[str, Any], seconds: float, context: Context) -> None:
        """Count the time of a tool call."""
        self._tool_seconds.record(seconds, labels, context=context)


class ProcessorTimes(Observer):
    """Records how long each processor takes, as the OpenTelemetry histogram `flowloom.processor.duration` (seconds).

    Off unless it is given to a runner (`observers=[ProcessorTimes()]`), or asked of `configure_telemetry`. It works
    with whatever meter provider the program has set; a record for each call of a processor costs about 10 µs.
    """

    def __init__(self) -> None:
        self._seconds = metrics.get_meter("gcp.vertex.agent").create_histogram(
            "flowloom.processor.duration",
            "s",
            "Time of a processor's call, without that of the consumer of its events.",
            explicit_bucket_boundaries_advisory=_PROCESSOR_SECONDS,
        )

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        labels = {"flowloom.processor.name": call.name, "gen_ai.agent.name": ctx.agent.name}
        if call.error is not None:
            labels["error.type"] = type(call.error).__qualname__
        self._seconds.record(call.seconds, labels)


def output_tokens(usage: types.GenerateContentResponseUsageMetadata) -> int:
    """The tokens that a model has made, thoughts included."""
    return (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
