"""The metrics of model and tool calls, by OpenTelemetry's conventions for generative AI."""

from __future__ import annotations

from typing import Any

from google.genai import types
from opentelemetry.context.context import Context
from opentelemetry.metrics import Histogram, Meter

_TOKENS = [4.0**exponent for exponent in range(14)]
_SECONDS = [0.01 * 2**exponent for exponent in range(14)]


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


def output_tokens(usage: types.GenerateContentResponseUsageMetadata) -> int:
    """The tokens that a model has made, thoughts included."""
    return (usage.candidates_token_count or 0) + (usage.thoughts_token_count or 0)
