"""The spans of the tool calls of one answer (spec §12.9)."""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextvars import Token
from typing import Any

from google.genai import types
from opentelemetry import context as otel
from opentelemetry.context.context import Context
from opentelemetry.trace import Span, Tracer, set_span_in_context

from flowloom.context import InvocationContext
from flowloom.context.protocols import RunnableTool
from flowloom.events.event import Event
from flowloom.telemetry.agent_span import agent_labels
from flowloom.telemetry.content import ELIDED, NOT_SPECIFIED, as_json, content_captured, exportable
from flowloom.telemetry.current import leave, mark_failed, parent_of
from flowloom.telemetry.metrics import Metrics

_MERGED = "(merged tools)"


class ToolSpan:
    """`execute_tool {tool}`: one call with its callbacks. A context manager: the span is current inside, and its time
    ends there. It is written when the event of the result is known."""

    def __init__(self, call: types.FunctionCall, tool: RunnableTool | None, span: Span, parent: Context) -> None:
        self.call = call
        self.tool = tool
        self.span: Span | None = span
        """None once it has ended."""
        self.context = set_span_in_context(span, parent)
        self.seconds = 0.0
        self._token: Token[Context] | None = None
        self._error: object = None
        self._stopped_at: int | None = None
        self._started = time.perf_counter()

    def __enter__(self) -> None:
        self._token = otel.attach(self.context)

    def __exit__(self, _kind: object, error: object, _trace: object) -> None:
        if self._token is not None:
            leave(self._token)
        self.seconds = time.perf_counter() - self._started
        self._stopped_at = time.time_ns()
        self._error = error

    def end(self) -> None:
        """End the span; a second time changes nothing."""
        span, self.span = self.span, None
        if span is None:
            return
        if isinstance(self._error, Exception):
            mark_failed(span, self._error)
        span.end(end_time=self._stopped_at)


class ToolSpans:
    """The spans of the calls of one answer, and the merged one around several.

    A call whose result is deferred ends without the attributes of the end. `end` ends whatever is still open.

    `count` is how many calls the answer has; `tracer` makes the spans, `metrics` takes the durations, if they are
    recorded.
    """

    def __init__(self, ctx: InvocationContext, count: int, tracer: Tracer, metrics: Metrics | None) -> None:
        self._tracer = tracer
        self._metrics = metrics
        self._labels = {"gen_ai.operation.name": "execute_tool", **agent_labels(ctx)}
        self._parent = parent_of(ctx)
        self._spans: dict[int, ToolSpan] = {}
        self._merged: Span | None = None
        if count > 1:
            self._merged = tracer.start_span("execute_tool (merged)", context=self._parent)
            self._parent = set_span_in_context(self._merged, self._parent)

    def start(self, index: int, call: types.FunctionCall, tool: RunnableTool | None) -> ToolSpan:
        """The span of the function call `call` at `index`, started; `tool` is None if there is none of that name."""
        name = exportable(call.name or "")  # a model may have made it up
        span = self._tracer.start_span(f"execute_tool {name}", context=self._parent)
        if span.is_recording():
            span.set_attributes(self._labels | {"gen_ai.tool.name": name})
            span.set_attribute("gcp.vertex.agent.tool_call_args", as_json(call.args or {}))
        self._spans[index] = ToolSpan(call, tool, span, self._parent)
        return self._spans[index]

    def answered(self, outcomes: Iterable[tuple[types.Part | None, BaseException | None]], event: Event | None) -> None:
        """Take the result of each call, in order, with the exception that it tells of (`outcomes`), and the `event` of
        them all.
        """
        if event is None:
            return
        actions = event.actions
        asked = {*actions.requested_tool_confirmations, *actions.requested_auth_configs}
        asked.update(actions.requested_inputs or ())
        for index, (part, error) in enumerate(outcomes):
            given = part.function_response if part is not None else None
            if given is not None and index in self._spans:
                self._answer(self._spans[index], given.response or {}, error, event.id, given.id in asked)
        if self._merged is not None and self._merged.is_recording():
            names = {"gen_ai.tool.name": _MERGED, "gen_ai.tool.description": _MERGED}
            self._merged.set_attributes(self._labels | names | {"gcp.vertex.agent.tool_call_args": "N/A"})
            self._merged.set_attribute("gcp.vertex.agent.event_id", event.id)
            self._merged.set_attribute("gcp.vertex.agent.tool_response", as_json(event))

    def _answer(
        self, call: ToolSpan, response: dict[str, Any], error: BaseException | None, event_id: str, waits: bool
    ) -> None:
        span, told, kind = call.span, response.get("error"), None
        if span is None:
            return
        if waits:
            pass  # for a person: that it has not run is told as an error, and is none
        elif error is not None:
            kind = type(error).__qualname__
            mark_failed(span, error)
        elif isinstance(told, str):
            # the tool's own result says so: the text is content, and of the error's type nothing is known
            kind = "_OTHER"
            mark_failed(span, kind, told if content_captured() else ELIDED)
        if span.is_recording():
            span.set_attributes(
                {
                    "gen_ai.tool.description": call.tool.description if call.tool is not None else NOT_SPECIFIED,
                    "gen_ai.tool.call.id": call.call.id or NOT_SPECIFIED,
                    "gcp.vertex.agent.event_id": event_id,
                    "gcp.vertex.agent.tool_response": as_json(response),
                }
            )
        if self._metrics is not None:
            labels = {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": call.call.name}
            labels = labels | {"error.type": kind} if kind else labels
            self._metrics.tool_answered(labels, call.seconds, call.context)
        call.end()

    def end(self) -> None:
        """End what is still open."""
        for call in self._spans.values():
            call.end()
        merged, self._merged = self._merged, None
        if merged is not None:
            merged.end()
