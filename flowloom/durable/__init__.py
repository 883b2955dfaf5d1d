"""Fleets: runs that outlive their worker, on one machine or many.

It imports `interop`, `runner`, `run_stream` and the rooms below. Begin with `worker.py` and `client.py`; `schema.py`
has the tables, `sql_runs.py` what becomes of a run in them, and `courier.py` what brings runs to workers.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.errors import RunLostError
from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.durable.client import RunClient
    from flowloom.durable.courier import Courier
    from flowloom.durable.dbos_courier import DbosCourier
    from flowloom.durable.deltas import Deltas
    from flowloom.durable.errors import (
        PoisonRunError,
        QueueFullError,
        RunExpiredError,
        RunFailedError,
        RunNotFoundError,
        RunStateError,
    )
    from flowloom.durable.limits import ConcurrencyLimit, ModelLimit
    from flowloom.durable.records import Outcome, RunInfo, WorkerInfo
    from flowloom.durable.retrying import RetryPolicy, default_retryable
    from flowloom.durable.schedules import Schedule, ScheduleInfo
    from flowloom.durable.store_courier import StoreCourier
    from flowloom.durable.submitted import SubmittedRun
    from flowloom.durable.worker import Worker

_HOMES = {
    "client": "RunClient",
    "courier": "Courier",
    "dbos_courier": "DbosCourier",
    "deltas": "Deltas",
    "errors": "PoisonRunError QueueFullError RunExpiredError RunFailedError RunNotFoundError RunStateError",
    "limits": "ConcurrencyLimit ModelLimit",
    "records": "Outcome RunInfo WorkerInfo",
    "retrying": "RetryPolicy default_retryable",
    "schedules": "Schedule ScheduleInfo",
    "store_courier": "StoreCourier",
    "submitted": "SubmittedRun",
    "worker": "Worker",
}

__all__ = [
    "ConcurrencyLimit",
    "Courier",
    "DbosCourier",
    "Deltas",
    "ModelLimit",
    "Outcome",
    "PoisonRunError",
    "QueueFullError",
    "RetryPolicy",
    "RunClient",
    "RunExpiredError",
    "RunFailedError",
    "RunInfo",
    "RunLostError",
    "RunNotFoundError",
    "RunStateError",
    "Schedule",
    "ScheduleInfo",
    "StoreCourier",
    "SubmittedRun",
    "Worker",
    "WorkerInfo",
    "default_retryable",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
