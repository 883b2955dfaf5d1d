"""What a worker counts, by OpenTelemetry (durable design, section 9). Without a provider, nothing is recorded.

How many runs of an app wait, are ready and run, and how many workers it has, is read from the registry when a reader
of the meter's provider has asked for it, with the worker's next sweep: each worker tells it of the whole fleet.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping

from opentelemetry import metrics
from opentelemetry.metrics import CallbackOptions, Observation

GAUGES = {
    "waiting": ("flowloom.runs.waiting", "{run}", "Runs that wait: for their time, their session, or a limit"),
    "ready": ("flowloom.runs.ready", "{run}", "Runs that a worker may take"),
    "running": ("flowloom.runs.running", "{run}", "Runs that workers have"),
    "workers": ("flowloom.workers", "{worker}", "Workers that are heard of"),
}
"""The gauges, by what is counted."""


class Counts:
    """How many runs and workers the app `app_name` has, as they were counted last; `wanted` if a reader has asked."""

    def __init__(self, app_name: str) -> None:
        self.app_name = app_name
        self.wanted = False
        self.latest: Mapping[str, int] = {}
        _counted.add(self)


_counted: weakref.WeakSet[Counts] = weakref.WeakSet()


def _observed(what: str) -> Callable[[CallbackOptions], Iterable[Observation]]:
    def observe(options: CallbackOptions) -> Iterable[Observation]:
        for each in list(_counted):
            each.wanted = True
            if what in each.latest:
                yield Observation(each.latest[what], {"app": each.app_name})

    return observe


_CALLBACKS = {what: _observed(what) for what in GAUGES}


class _Instruments:
    """The instruments of a provider."""

    def __init__(self, meter: metrics.Meter) -> None:
        self.takeovers = meter.create_counter(
            "flowloom.runs.takeovers", "{run}", "Runs that were taken from a dead worker"
        )
        self.fenced = meter.create_counter(
            "flowloom.runs.fenced_writes", "{run}", "Runs that a replaced worker could not go on with"
        )
        self.retries = meter.create_counter("flowloom.runs.retries", "{run}", "Runs that failed and go on later")
        self.queued = meter.create_histogram(
            "flowloom.runs.queue.seconds", "s", "From submission, or its time, to its first claim"
        )
        self.slots = meter.create_histogram(
            "flowloom.slots.wait", "s", "How long model calls waited for a place of the fleet"
        )
        for what, (name, unit, description) in GAUGES.items():
            meter.create_observable_gauge(name, [_CALLBACKS[what]], unit, description)


_made: tuple[metrics.MeterProvider, _Instruments] | None = None


def _instruments() -> _Instruments:
    """Those of the program's provider, which may be set at any time."""
    global _made
    provider = metrics.get_meter_provider()
    if _made is None or _made[0] is not provider:
        _made = provider, _Instruments(provider.get_meter("flowloom"))
    return _made[1]


def counted(app_name: str) -> Counts:
    """The counts of an app, which its gauges show for as long as they are kept."""
    _instruments()
    return Counts(app_name)


def taken_over(app_name: str, count: int) -> None:
    """So many runs were taken from a dead worker."""
    _instruments().takeovers.add(count, {"app": app_name})


def fenced(app_name: str) -> None:
    """A run is another worker's now."""
    _instruments().fenced.add(1, {"app": app_name})


def retried(app_name: str) -> None:
    """A run failed and goes on later."""
    _instruments().retries.add(1, {"app": app_name})


def begun(app_name: str, seconds: float) -> None:
    """A run was claimed for the first time, so many seconds after it could have been."""
    _instruments().queued.record(max(seconds, 0.0), {"app": app_name})


def waited(model: str, seconds: float) -> None:
    """A model call waited so long."""
    _instruments().slots.record(seconds, {"model": model})
