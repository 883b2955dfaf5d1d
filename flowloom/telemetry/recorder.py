"""Spans, metrics and log records of a run (spec §12.9)."""

from __future__ import annotations

from collections.abc import AsyncIterator

from flowloom.context import InvocationContext
from flowloom.events.event import Event
from flowloom.events.response import LlmResponse
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest


class ModelSpan:
    def watch(self, responses: AsyncIterator[LlmResponse]) -> AsyncIterator[LlmResponse]:
        return responses

    def responded(self, event: Event) -> None: ...

    def end(self) -> None: ...


class Recorder:
    def start_agent(self, ctx: InvocationContext) -> None: ...

    def end_agent(self, ctx: InvocationContext, error: Exception | None = None) -> None: ...

    def start_model(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> ModelSpan:
        return ModelSpan()


def recorder() -> Recorder | None:
    return None
