"""What a worker counts, by OpenTelemetry (durable design, section 9). Without a provider, nothing is recorded."""

from __future__ import annotations

from opentelemetry import metrics

_meter = metrics.get_meter("flowloom")
_takeovers = _meter.create_counter("flowloom.runs.takeovers", "{run}", "Runs that were taken from a dead worker")
_fenced = _meter.create_counter(
    "flowloom.runs.fenced_writes", "{run}", "Runs that a replaced worker could not go on with"
)
_retries = _meter.create_counter("flowloom.runs.retries", "{run}", "Runs that failed and go on later")
_queued = _meter.create_histogram(
    "flowloom.runs.queue.seconds", "s", "From submission, or its time, to its first claim"
)
_slots = _meter.create_histogram("flowloom.slots.wait", "s", "How long model calls waited for a place of the fleet")


def taken_over(app_name: str, count: int) -> None:
    """So many runs were taken from a dead worker."""
    _takeovers.add(count, {"app": app_name})


def fenced(app_name: str) -> None:
    """A run is another worker's now."""
    _fenced.add(1, {"app": app_name})


def retried(app_name: str) -> None:
    """A run failed and goes on later."""
    _retries.add(1, {"app": app_name})


def begun(app_name: str, seconds: float) -> None:
    """A run was claimed for the first time, so many seconds after it could have been."""
    _queued.record(max(seconds, 0.0), {"app": app_name})


def waited(model: str, seconds: float) -> None:
    """A model call waited so long."""
    _slots.record(seconds, {"model": model})
