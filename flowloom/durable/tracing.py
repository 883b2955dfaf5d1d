"""The spans of submitting a run and of each leg of it, which are linked (durable design, section 9).

The submitter's span is written down with the run, as W3C's trace context says; each leg, on whichever worker, has a
span of its own with a link to it: after a retry, a take-over or an answer, too. Without a provider, nothing is made.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager

from opentelemetry import trace
from opentelemetry.trace import Link, SpanKind, Status, StatusCode
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator

from flowloom.durable.records import Outcome, Row

_PROPAGATOR = TraceContextTextMapPropagator()


@contextmanager
def submitting(app_name: str, run_id: str) -> Generator[dict[str, str]]:
    """The span of a submission; what is to be written down of it, nothing if it is not recorded."""
    attributes = {"flowloom.app": app_name, "flowloom.run.id": run_id}
    tracer = trace.get_tracer("flowloom")
    with tracer.start_as_current_span(f"submit_run {app_name}", kind=SpanKind.PRODUCER, attributes=attributes):
        carried: dict[str, str] = {}
        _PROPAGATOR.inject(carried)
        yield carried


class LegSpan:
    """The span of a leg, which `outcome` ends well or badly."""

    def __init__(self, span: trace.Span) -> None:
        self._span = span

    def ended(self, outcome: Outcome) -> None:
        """Say how the leg has ended."""
        self._span.set_attribute("flowloom.run.status", outcome.status)
        if outcome.error_code is not None:
            self._span.set_attribute("error.type", outcome.error_code)
            self._span.set_status(Status(StatusCode.ERROR, outcome.error_message))


@contextmanager
def leg(row: Row, worker: str, carried: Mapping[str, str]) -> Generator[LegSpan]:
    """The span of a leg, the current one meanwhile, with a link to the span of the run's submission."""
    submitted = trace.get_current_span(_PROPAGATOR.extract(carried)).get_span_context() if carried else None
    attributes: dict[str, str | int] = {
        "flowloom.app": row.app_name,
        "flowloom.run.id": row.run_id,
        "flowloom.run.leg": row.leg,
        "flowloom.run.attempt": row.attempts,
        "flowloom.run.takeovers": row.takeovers,
        "flowloom.worker": worker,
        "gen_ai.conversation.id": row.session_id,
    }
    links = [Link(submitted)] if submitted is not None and submitted.is_valid else []
    tracer = trace.get_tracer("flowloom")
    with tracer.start_as_current_span(
        f"run {row.app_name}", kind=SpanKind.CONSUMER, attributes=attributes, links=links
    ) as span:
        yield LegSpan(span)
