"""Spans of what is done over a protocol: a connection attempt, a listing, a call (protocols spec §0, Observability).

Nothing is made unless something records. Attributes hold names and numbers, never a secret or content.
"""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Any

from flowloom.errors import error_text
from flowloom.telemetry import recorder

SCOPE = "gcp.vertex.agent"


@contextmanager
def protocol_span(name: str, attributes: Mapping[str, Any]) -> Generator[Any]:
    """A span named `name` with `attributes`, current inside; None if nothing records. An error marks it as failed."""
    if recorder() is None:
        yield None
        return
    trace: Any = import_module("opentelemetry.trace")
    tracer = trace.get_tracer(SCOPE)
    given = {key: value for key, value in attributes.items() if value is not None}
    with tracer.start_as_current_span(
        name, kind=trace.SpanKind.CLIENT, attributes=given, record_exception=False, set_status_on_exception=False
    ) as span:
        try:
            yield span
        except Exception as error:
            span.set_attribute("error.type", type(error).__qualname__)
            span.set_status(trace.Status(trace.StatusCode.ERROR, error_text(error)))
            raise
