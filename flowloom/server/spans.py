"""`SpanStore`: the spans of the latest runs, with what models were told and answered, kept in memory (server spec §7).

A development server records its runs here, beside the OpenTelemetry providers that the program has set, which get what
they get without it: no content unless its capture is on.
"""

from __future__ import annotations

import random
import time
from collections import OrderedDict, deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from opentelemetry.context.context import Context
from opentelemetry.trace import Span, SpanContext, SpanKind, Status, StatusCode, TraceFlags, Tracer
from opentelemetry.trace import get_current_span as span_in
from opentelemetry.util import types as otel

from flowloom.context import InvocationContext, Observer, ProcessorCall
from flowloom.errors import error_text
from flowloom.events.response import LlmResponse
from flowloom.inspection.assembly import Assembly, Making, making_of
from flowloom.models.base_llm import BaseLlm
from flowloom.models.contents import only_read
from flowloom.models.request import LlmRequest, snapshot
from flowloom.server.weight import weight_of
from flowloom.telemetry import AgentSpan, ModelSpan, Recorder, ToolSpans
from flowloom.telemetry.message_log import MessageLog

MAX_RUNS = 1000
MAX_BYTES = 64 * 1024 * 1024
_SPAN_BYTES = 1500
"""About what a span takes without content."""
_STEP_BYTES, _TOOL_BYTES = 1000, 3000
"""About what is kept of a request for each step of its making, and for each of its tools."""
_KINDS = {"invoke_agent": "agent", "generate_content": "model", "execute_tool": "tool"}

RunKey = tuple[str, str, str, str]
"""App, user, session and invocation."""


@dataclass(slots=True)
class SeenSpan:
    """A span as it is kept; times in nanoseconds since the epoch."""

    run: RunKey
    name: str
    trace_id: int
    span_id: int
    parent_id: int | None
    start: int
    end: int | None = None
    """None as long as it goes on."""
    attributes: dict[str, Any] = field(default_factory=dict[str, Any])
    error: dict[str, str] | None = None
    """Its `type` and `message`."""
    processor: bool = False
    bytes: int = 0
    """About what it takes."""
    request: LlmRequest | None = None
    """What the model was asked, in a call of one."""
    making: Making | None = None
    """How that came about."""
    response: LlmResponse | None = None

    @property
    def assembly(self) -> Assembly | None:
        """How the request of a model came about, put together now."""
        return None if self.making is None else self.making.assembly

    @property
    def kind(self) -> str:
        """What it stands for: `agent`, `model`, `tool`, `processor` or `other`."""
        if self.processor:
            return "processor"
        return _KINDS.get(self.attributes.get("gen_ai.operation.name", ""), "other")


class _Run:
    __slots__ = ("bytes", "spans")

    def __init__(self) -> None:
        self.spans: deque[SeenSpan] = deque()
        self.bytes = 0


class SpanStore(Observer):
    """The spans of the last `MAX_RUNS` runs, of fewer if they take more than `MAX_BYTES`. As an observer it takes the
    times of processors."""

    def __init__(self) -> None:
        self._runs: OrderedDict[RunKey, _Run] = OrderedDict()
        self._bytes = 0
        self._recorder: SeenRecorder | None = None

    def beside(self, base: Recorder | None) -> Recorder:
        """What records here, and with `base`."""
        if self._recorder is None or self._recorder.base is not base:
            self._recorder = SeenRecorder(self, base)
        return self._recorder

    def add(self, span: SeenSpan) -> None:
        """Keep a span, and its run among the latest."""
        run = self._runs.get(span.run)
        if run is None:
            run = self._runs[span.run] = _Run()
        run.spans.append(span)
        self.grow(span, _SPAN_BYTES)

    def grow(self, span: SeenSpan, size: int) -> None:
        """Take note that a span takes `size` bytes more, and let the oldest runs go."""
        run = self._runs.get(span.run)
        if run is None:
            return
        span.bytes += size
        run.bytes += size
        self._bytes += size
        while len(self._runs) > 1 and (self._bytes > MAX_BYTES or len(self._runs) > MAX_RUNS):
            self._drop(next(iter(self._runs)))
        while self._bytes > MAX_BYTES and len(run.spans) > 1:  # one run that is too much alone keeps its latest
            gone = run.spans.popleft()
            run.bytes -= gone.bytes
            self._bytes -= gone.bytes

    def _drop(self, key: RunKey) -> None:
        self._bytes -= self._runs.pop(key).bytes

    def forget(self, app: str, user: str, session: str) -> None:
        """Drop the spans of a session that was deleted."""
        for key in [key for key in self._runs if key[:3] == (app, user, session)]:
            self._drop(key)

    def spans_of(
        self, *, app: str | None = None, user: str | None = None, session: str | None = None
    ) -> Iterator[SeenSpan]:
        """The finished spans of the runs that fit, in the order in which they began."""
        for key, run in list(self._runs.items()):
            if all(wanted is None or wanted == own for wanted, own in zip((app, user, session), key, strict=False)):
                yield from (span for span in run.spans if span.end is not None)

    def processor_finished(self, ctx: InvocationContext, call: ProcessorCall) -> None:
        if call.response is not None and call.response.partial:
            return  # of each piece of an answer: too many to be looked at
        around = span_in(ctx.agent_span)
        if not isinstance(around, _Recorded):
            return
        end, above = time.time_ns(), around.seen
        seen = SeenSpan(above.run, call.name, above.trace_id, _new_id(64), above.span_id, end - int(call.seconds * 1e9))
        seen.processor, seen.end = True, end
        seen.attributes = {"gen_ai.agent.name": ctx.agent.name, "flowloom.microseconds": round(call.seconds * 1e6, 1)}
        if isinstance(call.error, Exception):
            seen.error = {"type": type(call.error).__qualname__, "message": error_text(call.error)}
        self.add(seen)


class SeenRecorder(Recorder):
    """Records in `store` and, if there is one, with `base`."""

    __slots__ = ("_store", "base")

    def __init__(self, store: SpanStore, base: Recorder | None) -> None:
        self._store = store
        self.base = base
        self._tracer: Any = None if base is None else base._tracer
        self._metrics = None if base is None else base._metrics
        self._log: Any = _SeenMessages(store, None if base is None else base._log)

    def start_agent(self, ctx: InvocationContext) -> AgentSpan:
        return AgentSpan(ctx, self._tracer_of(ctx))

    def start_model(self, ctx: InvocationContext, model: BaseLlm, request: LlmRequest) -> ModelSpan:
        return ModelSpan(ctx, model, request, self._tracer_of(ctx), self._log, self._metrics)

    def start_tools(self, ctx: InvocationContext, count: int) -> ToolSpans:
        return ToolSpans(ctx, count, self._tracer_of(ctx), self._metrics)

    def _tracer_of(self, ctx: InvocationContext) -> Any:
        session = ctx.session
        return _Tracer(self._store, (session.app_name, session.user_id, session.id, ctx.invocation_id), self._tracer)


class _Tracer:
    """Starts the spans of one run."""

    def __init__(self, store: SpanStore, run: RunKey, inner: Tracer | None) -> None:
        self._store, self._run, self._inner = store, run, inner

    def start_span(self, name: str, context: Context | None = None, kind: SpanKind = SpanKind.INTERNAL) -> Span:
        inner = None if self._inner is None else self._inner.start_span(name, context=context, kind=kind)
        around = span_in(context)
        above = around.seen if isinstance(around, _Recorded) else None
        trace_id, span_id = _new_id(128) if above is None else above.trace_id, _new_id(64)
        if inner is not None and inner.get_span_context().is_valid:
            trace_id, span_id = inner.get_span_context().trace_id, inner.get_span_context().span_id
        run = self._run if above is None else above.run  # what runs within a tool belongs to the run around it
        seen = SeenSpan(run, name, trace_id, span_id, None if above is None else above.span_id, time.time_ns())
        self._store.add(seen)
        return _Recorded(seen, inner)


class _Recorded(Span):
    """A span that is kept, and recorded by another tracer, too."""

    def __init__(self, seen: SeenSpan, inner: Span | None) -> None:
        self.seen = seen
        self._inner = inner
        self._context: SpanContext | None = None

    def get_span_context(self) -> SpanContext:
        if self._inner is not None:
            return self._inner.get_span_context()
        if self._context is None:
            self._context = SpanContext(self.seen.trace_id, self.seen.span_id, False, TraceFlags(TraceFlags.SAMPLED))
        return self._context

    def is_recording(self) -> bool:
        return self.seen.end is None

    def set_attributes(self, attributes: Mapping[str, otel.AttributeValue]) -> None:
        self.seen.attributes.update(attributes)
        if self._inner is not None:
            self._inner.set_attributes(attributes)

    def set_attribute(self, key: str, value: otel.AttributeValue) -> None:
        self.seen.attributes[key] = value
        if self._inner is not None:
            self._inner.set_attribute(key, value)

    def set_status(self, status: Status | StatusCode, description: str | None = None) -> None:
        code = status if isinstance(status, StatusCode) else status.status_code
        if code is StatusCode.ERROR:
            message = description if isinstance(status, StatusCode) else status.description
            kind = self.seen.attributes.get("error.type", "_OTHER")
            self.seen.error = {"type": str(kind), "message": message or ""}
        if self._inner is not None:
            self._inner.set_status(status, description)

    def add_event(self, name: str, attributes: otel.Attributes | None = None, timestamp: int | None = None) -> None:
        if self._inner is not None:
            self._inner.add_event(name, attributes, timestamp)

    def add_link(self, context: SpanContext, attributes: otel.Attributes | None = None) -> None:
        if self._inner is not None:
            self._inner.add_link(context, attributes)

    def update_name(self, name: str) -> None:
        self.seen.name = name
        if self._inner is not None:
            self._inner.update_name(name)

    def record_exception(
        self,
        exception: BaseException,
        attributes: otel.Attributes | None = None,
        timestamp: int | None = None,
        escaped: bool = False,
    ) -> None:
        if self._inner is not None:
            self._inner.record_exception(exception, attributes, timestamp, escaped)

    def end(self, end_time: int | None = None) -> None:
        if self.seen.end is None:
            self.seen.end = end_time or time.time_ns()
        if self._inner is not None:
            self._inner.end(end_time)


class _SeenMessages:
    """Keeps what a model is told and answers with the span of its call; `inner` writes its records as ever."""

    def __init__(self, store: SpanStore, inner: MessageLog | None) -> None:
        self._store, self._inner = store, inner

    def request(self, request: LlmRequest, provider: str | None, context: Context) -> None:
        span = span_in(context)
        if isinstance(span, _Recorded):
            span.seen.making = making = making_of(request)
            span.seen.request = snapshot(request) if making is None else making.request
            self._store.grow(span.seen, weight_of(only_read(request.contents)) + _weight_of_steps(making))
        if self._inner is not None:
            self._inner.request(request, provider, context)

    def choice(self, response: LlmResponse, provider: str | None, context: Context) -> None:
        span = span_in(context)
        if isinstance(span, _Recorded):
            span.seen.response = response
            self._store.grow(span.seen, weight_of([response.content] if response.content is not None else ()))
        if self._inner is not None:
            self._inner.choice(response, provider, context)


def _weight_of_steps(making: Making | None) -> int:
    return 0 if making is None else _STEP_BYTES * making.steps + _TOOL_BYTES * len(making.request.tools_dict)


def _new_id(bits: int) -> int:
    return random.getrandbits(bits) or 1
