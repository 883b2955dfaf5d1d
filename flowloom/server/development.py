"""`Development`: what a development server keeps of its runs, beside their sessions (server spec §7, §12)."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from dataclasses import dataclass, field
from typing import Any

from flowloom.context import InvocationContext, Observer
from flowloom.inspection.assembly import Tracing
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest
from flowloom.server.inbox import Inbox
from flowloom.server.spans import SpanStore
from flowloom.telemetry import recording_with

_MAX_OPEN = 256
"""How many unfinished requests are followed; those that never reach a model stay until others push them out."""


class Following(Tracing):
    """Follows how requests come about; each has its `Making` with it when its model is asked."""

    def model_asked(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> None:
        super().model_asked(ctx, model, request)
        self.makings.clear()
        while len(self._traces) > _MAX_OPEN:
            del self._traces[next(iter(self._traces))]


@dataclass(slots=True)
class Development:
    """What a development server keeps of its runs."""

    spans: SpanStore = field(default_factory=SpanStore)
    inbox: Inbox = field(default_factory=Inbox)

    def observers(self) -> list[Observer]:
        """What has to see the runs for that."""
        return [Following(), self.spans, self.inbox]


class RecordedRuns:
    """Has the runs that begin below `app` recorded by a development server."""

    def __init__(self, app: Callable[..., Awaitable[None]], development: Development) -> None:
        self._app, self._beside = app, development.spans.beside

    async def __call__(self, scope: MutableMapping[str, Any], receive: Any, send: Any) -> None:
        with recording_with(self._beside):
            await self._app(scope, receive, send)
