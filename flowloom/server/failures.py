"""What is told of a run that failed or was stopped (server spec §5)."""

from __future__ import annotations

import time
from typing import Any

from flowloom.durable.errors import RunFailedError
from flowloom.errors import (
    InputValidationError,
    InvocationNotFoundError,
    JsonDataError,
    RunLostError,
    SessionBusyError,
    SessionNotFoundError,
    error_text,
)
from flowloom.interop import run_ends
from flowloom.server.problems import LOG, ProblemError, session_not_found

PLACE = "server"
"""Whose log it is."""


def told_type(error: BaseException, *, dev: bool) -> str:
    """The class of what ended a run, as it is told."""
    if isinstance(error, RunFailedError):  # of another process, which has seen to what may be told
        return error.code
    return type(error).__name__ if dev or isinstance(error, run_ends.PUBLIC) else run_ends.UNEXPECTED


def told_text(error: BaseException, *, dev: bool) -> str:
    """The text of what ended a run, as it is told."""
    return error_text(error) if dev or isinstance(error, run_ends.PUBLIC) else run_ends.general_text(error, LOG, PLACE)


def error_data(error: BaseException, *, dev: bool) -> dict[str, Any]:
    """What the last frame of a failed run says."""
    kind, text = told_type(error, dev=dev), told_text(error, dev=dev)
    if isinstance(error, ProblemError):
        kind, text = error.code, error.detail
    details = {"error_type": kind, "error_message": text, "timestamp": time.time()}
    return {"error": f"{kind}: {text}", "error_details": details}


def error_id_of(error: BaseException) -> str:
    """The id under which the log has the failure of a run; it is written there once."""
    return run_ends.error_id_of(error, LOG)


def refusal_of(error: BaseException) -> ProblemError | None:
    """What is answered when a run cannot begin; None for an error that no request can be blamed for."""
    if isinstance(error, ProblemError):
        return error
    if isinstance(error, SessionBusyError) and not isinstance(error, RunLostError):
        return session_busy()
    if isinstance(error, SessionNotFoundError):
        return session_not_found()
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
