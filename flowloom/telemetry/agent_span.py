"""The span of an agent's turn (spec §12.9)."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from opentelemetry import context as otel
from opentelemetry.context.context import Context
from opentelemetry.trace import Tracer, set_span_in_context

from flowloom.context import InvocationContext
from flowloom.events.event import Event
from flowloom.telemetry.current import AGENT, Watched, mark_failed, parent_of


def agent_labels(ctx: InvocationContext) -> dict[str, Any]:
    """The attributes that name the agent and its conversation."""
    return {"gen_ai.agent.name": ctx.agent.name, "gen_ai.conversation.id": ctx.session.id}


class AgentSpan:
    """`invoke_agent {agent}`: from before the agent's first callback to after its last.

    While it is open, `ctx.agent_span` holds its context, and the contexts of the agents below inherit it: their spans
    are its children. So is that of an agent that this one hands over to.

    `tracer` makes the span.
    """

    __slots__ = ("_context", "_ctx", "_outer", "_span")

    def __init__(self, ctx: InvocationContext, tracer: Tracer) -> None:
        self._ctx: InvocationContext | None = ctx
        self._outer: Context | None = ctx.agent_span
        parent = parent_of(ctx)
        self._span = span = tracer.start_span(f"invoke_agent {ctx.agent.name}", context=parent)
        if span.is_recording():
            span.set_attributes({"gen_ai.operation.name": "invoke_agent", **agent_labels(ctx)})
            span.set_attribute("gen_ai.agent.description", ctx.agent.description)
            span.set_attribute("gcp.vertex.agent.invocation_id", ctx.invocation_id)
        self._context = otel.set_value(AGENT, self, set_span_in_context(span, parent))
        ctx.agent_span = self._context

    def watch(self, events: AsyncIterator[Event]) -> Watched[Event]:
        """The same `events`; the code that makes them runs with this span as the current one."""
        return Watched(events, self._context)

    def end(self, error: BaseException | None = None, last: Event | None = None) -> None:
        """End the span; a second time changes nothing.

        It failed if it raised an `error`, or if the `last` complete event tells of one. Being cancelled is no failure.
        """
        ctx, self._ctx = self._ctx, None
        if ctx is None:
            return
        ctx.agent_span = self._outer
        if isinstance(error, Exception):
            mark_failed(self._span, error)
        elif last is not None and last.error_code:
            mark_failed(self._span, last.error_code, last.error_message)
        self._span.end()
