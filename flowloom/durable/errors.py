"""What the fleet raises beside `RunLostError`."""

from __future__ import annotations

from flowloom.errors import FlowloomError


class RunNotFoundError(FlowloomError, LookupError):
    """The registry has no run of that id in this app. Attribute: `run_id`."""

    def __init__(self, message: str, *, run_id: str) -> None:
        super().__init__(message)
        self.run_id = run_id


class RunStateError(FlowloomError):
    """What was asked of a run cannot be done in its state. Attributes: `run_id`, `status`."""

    def __init__(self, message: str, *, run_id: str, status: str) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.status = status


class QueueFullError(FlowloomError):
    """Too many runs wait already; nothing was submitted. Attribute: `retry_after` (seconds to wait before the next
    try)."""

    def __init__(self, message: str, *, retry_after: float) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class RunFailedError(FlowloomError):
    """What ended a run that another process has run. Attributes: `run_id`, `code` (the name of the error there)."""

    def __init__(self, message: str, *, run_id: str, code: str) -> None:
        super().__init__(message)
        self.run_id = run_id
        self.code = code


class PoisonRunError(RunFailedError):
    """Each worker that took the run has died of it, or beside it; no further one is given it."""


class RunExpiredError(RunFailedError):
    """The run had not begun by the time that its submitter has set."""
