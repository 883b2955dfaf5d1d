"""What is told of a run that failed or was stopped (server spec §5)."""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Any

from flowloom.context import InvocationContext
from flowloom.errors import (
    FlowloomError,
    InputValidationError,
    InvocationNotFoundError,
    JsonDataError,
    RunLostError,
    SessionBusyError,
    SessionNotFoundError,
    error_text,
)
from flowloom.events import Event
from flowloom.events.wire import replace
from flowloom.plugins import BasePlugin
from flowloom.runner.round import RunCancelledError
from flowloom.server.problems import ProblemError, log_failure

ABORTED = "INVOCATION_ABORTED"
"""The `errorCode` of the event that ends a run whose client has gone, or which was cancelled."""
_PUBLIC = FlowloomError
"""The errors whose texts are meant for those who ask: ours, those of models among them."""
_ERROR_ID = "_flowloom_error_id"


class RunEnds(BasePlugin):
    """Names the end of a cancelled run as google-adk does. Unless the server is for `dev`elopment, unexpected errors
    are stored and sent without their text."""

    def __init__(self, *, dev: bool) -> None:
        super().__init__(name="flowloom_server_run_ends")
        self._dev = dev

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        """The event that ends a run as it is told (see `BasePlugin`)."""
        error = event.error
        if error is None:
            return None
        if isinstance(error, RunCancelledError):
            return replace(event, error_code=ABORTED)
        if self._dev or isinstance(error, _PUBLIC):
            return None
        return replace(event, error_code="RunFailedError", error_message=_general_text(error))


def told_type(error: BaseException, *, dev: bool) -> str:
    """The class of what ended a run, as it is told."""
    return type(error).__name__ if dev or isinstance(error, _PUBLIC) else "RunFailedError"


def told_text(error: BaseException, *, dev: bool) -> str:
    """The text of what ended a run, as it is told."""
    return error_text(error) if dev or isinstance(error, _PUBLIC) else _general_text(error)


def error_data(error: BaseException, *, dev: bool) -> dict[str, Any]:
    """What the last frame of a failed run says."""
    kind, text = told_type(error, dev=dev), told_text(error, dev=dev)
    if isinstance(error, ProblemError):
        kind, text = error.code, error.detail
    details = {"error_type": kind, "error_message": text, "timestamp": time.time()}
    return {"error": f"{kind}: {text}", "error_details": details}


def error_id_of(error: BaseException) -> str:
    """The id under which the log has the failure of a run; it is written there once."""
    known: str | None = getattr(error, _ERROR_ID, None)
    if known is None:
        known = log_failure(error, "A run")
        with suppress(AttributeError):
            setattr(error, _ERROR_ID, known)
    return known


def refusal_of(error: BaseException) -> ProblemError | None:
    """What is answered when a run cannot begin; None for an error that no request can be blamed for."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, SessionBusyError) and not isinstance(error, RunLostError):
        return session_busy()
    if isinstance(error, SessionNotFoundError):
        return ProblemError(404, "session_not_found", "Session not found")
    if isinstance(error, InvocationNotFoundError):
        return ProblemError(404, "invocation_not_found", str(error))
    if isinstance(error, InputValidationError | JsonDataError):
        return ProblemError(400, "invalid_message", str(error))
    return None


def session_busy() -> ProblemError:
    """What is answered when the session has a run, and no more may wait."""
    return ProblemError(
        409,
        "session_busy",
        "Another run works on this session. Try again when it is over, or cancel it.",
        headers={"Retry-After": "1"},
    )


def shutting_down() -> ProblemError:
    """What is answered while the server stops."""
    return ProblemError(503, "shutting_down", "The server is shutting down.", headers={"Retry-After": "1"})


def _general_text(error: BaseException) -> str:
    return f"The run failed. The server's log tells more [errorId {error_id_of(error)}]."
