"""The span of a model call (spec §12.9)."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any, Self

from opentelemetry import context as otel
from opentelemetry.trace import SpanKind, Tracer, set_span_in_context

from flowloom.context import InvocationContext
from flowloom.events.event import Event
from flowloom.events.response import LlmResponse
from flowloom.models.base_llm import BaseLlm, as_response
from flowloom.models.request import LlmRequest
from flowloom.telemetry.agent_span import agent_labels
from flowloom.telemetry.current import Watched, leave, mark_failed, parent_of
from flowloom.telemetry.message_log import MessageLog
from flowloom.telemetry.metrics import Metrics, output_tokens

_BACKENDS = {"gemini_api": "gcp.gemini", "vertex_ai": "gcp.vertex_ai"}


def provider_of(model: BaseLlm) -> str | None:
    """The provider by its conventional name: the model's own `provider_name`, or that of its Google backend."""
    return getattr(model, "provider_name", None) or _BACKENDS.get(model.backend or "")


class ModelSpan(Watched[LlmResponse]):
    """`generate_content {model}`: one call of a model, and nothing of callbacks or consumers.

    It covers the time from before the request is logged to the first complete response or the error, or to the end of a
    stream of partial ones. It is written once the event of that response is known (`responded`), with the earlier end;
    at the latest by `end`. Only a call that is really made has one, not what a callback or wrapper says itself.

    `tracer` makes the span; `log` takes the messages and `metrics` the durations and tokens, where they are recorded.
    """

    def __init__(
        self,
        ctx: InvocationContext,
        model: BaseLlm,
        request: LlmRequest,
        tracer: Tracer,
        log: MessageLog | None,
        metrics: Metrics | None,
    ) -> None:
        name, parent = request.model or model.model, parent_of(ctx)
        self._provider = provider_of(model)
        self._labels: dict[str, Any] = {"gen_ai.operation.name": "generate_content", "gen_ai.request.model": name}
        if self._provider is not None:
            self._labels["gen_ai.provider.name"] = self._provider
        self._span = span = tracer.start_span(f"generate_content {name}", context=parent, kind=SpanKind.CLIENT)
        if span.is_recording():
            span.set_attributes(self._labels | agent_labels(ctx))
            span.set_attribute("gcp.vertex.agent.invocation_id", ctx.invocation_id)
            if self._provider is not None:
                span.set_attribute("gen_ai.system", self._provider)
        self._context = set_span_in_context(span, parent)
        self._log = log
        self._metrics = metrics
        self._answer: LlmResponse | None = None
        self._error: Exception | None = None
        self._event_id: str | None = None
        self._stopped_at: int | None = None
        self._written = False
        self._started = time.perf_counter()
        if log is not None:
            log.request(request, self._provider, self._context)

    def watch(self, responses: AsyncIterator[LlmResponse]) -> Self:
        """The same `responses`; the model's code runs with this span as the current one."""
        self._items = responses
        return self

    async def __anext__(self) -> LlmResponse:
        if self._stopped_at is not None:
            self._write()  # no event was made of the response
        token = otel.attach(self._context)
        try:
            response = as_response(await self._items.__anext__(), self._labels["gen_ai.request.model"])
        except StopAsyncIteration:
            self._stop()
            raise
        except Exception as error:
            self._error = error
            self._stop()
            self._write()
            raise
        finally:
            leave(token)
        if self._stopped_at is None:
            self._answer = response
        if not response.partial:
            if self._log is not None:
                self._log.choice(response, self._provider, self._context)
            if self._stopped_at is None:
                self._event_id = None
                self._stop()
        return response

    def responded(self, event: Event) -> None:
        """Take the event that was made of the latest response."""
        self._event_id = event.id
        if self._stopped_at is not None:
            self._write()

    def end(self) -> None:
        """The call is over, wherever it stands; a second time changes nothing."""
        self._stop(cut_off=True)
        self._write()

    def _stop(self, *, cut_off: bool = False) -> None:
        """The call has taken its time. One that was cut off does not tell how long such a call takes."""
        if self._stopped_at is not None:
            return
        self._stopped_at = time.time_ns()
        if self._metrics is None:
            return
        answer, labels = self._answer, self._labels
        if answer is not None and answer.model_version:
            labels = labels | {"gen_ai.response.model": answer.model_version}
        if answer is not None and answer.usage_metadata is not None:
            self._metrics.tokens_used(labels, answer.usage_metadata, self._context)
        if not cut_off:
            kind = type(self._error).__qualname__ if self._error is not None else answer and answer.error_code
            labels = labels | {"error.type": kind} if kind else labels
            self._metrics.model_answered(labels, time.perf_counter() - self._started, self._context)

    def _write(self) -> None:
        if self._written:
            return
        self._written = True
        if self._span.is_recording():
            if self._error is not None:
                mark_failed(self._span, self._error)
            elif self._answer is not None:
                self._describe(self._answer)
        self._span.end(end_time=self._stopped_at)

    def _describe(self, answer: LlmResponse) -> None:
        reason, usage = answer.finish_reason, answer.usage_metadata
        values: dict[str, Any] = {
            "gen_ai.response.finish_reasons": ["" if reason is None else reason.value],
            "gcp.vertex.agent.event_id": self._event_id,
            "gen_ai.response.model": answer.model_version,
            "gen_ai.response.id": answer.interaction_id,
        }
        if usage is not None:
            values["gen_ai.usage.input_tokens"] = usage.prompt_token_count or 0
            values["gen_ai.usage.output_tokens"] = output_tokens(usage)
            values["gen_ai.usage.cache_read.input_tokens"] = usage.cached_content_token_count or 0
            values["gen_ai.usage.reasoning.output_tokens"] = usage.thoughts_token_count or 0
        self._span.set_attributes({name: value for name, value in values.items() if value is not None})
        if answer.error_code:
            mark_failed(self._span, answer.error_code, answer.error_message)
