"""How the end of a run is told to the clients of google-adk's server, wherever it has run (server spec §5)."""

from __future__ import annotations

import logging
from contextlib import suppress

from flowloom.context import InvocationContext
from flowloom.errors import FlowloomError
from flowloom.events import Event
from flowloom.events.ids import new_id
from flowloom.events.wire import replace
from flowloom.plugins import BasePlugin
from flowloom.runner.round import RunCancelledError

ABORTED = "INVOCATION_ABORTED"
"""The `errorCode` of the event that ends a run whose client has gone, or which was cancelled."""
UNEXPECTED = "RunFailedError"
"""That of a run which an error has ended whose text is not for those who ask."""
PUBLIC = FlowloomError
"""The errors whose texts are meant for those who ask: ours, those of models among them."""
_ERROR_ID = "_flowloom_error_id"


class RunEnds(BasePlugin):
    """Names the end of a cancelled run as google-adk does. Unless those who ask `dev`elop the agents, unexpected errors
    are stored and sent without their text, which is in `log`: that of the `place` (a server, a worker)."""

    def __init__(self, *, dev: bool, log: logging.Logger, place: str) -> None:
        super().__init__(name="flowloom_server_run_ends")
        self._dev, self._log, self._place = dev, log, place

    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        """The event that ends a run as it is told (see `BasePlugin`)."""
        error = event.error
        if error is None:
            return None
        if isinstance(error, RunCancelledError):
            return replace(event, error_code=ABORTED)
        if self._dev or isinstance(error, PUBLIC):
            return None
        return replace(event, error_code=UNEXPECTED, error_message=general_text(error, self._log, self._place))


def general_text(error: BaseException, log: logging.Logger, place: str) -> str:
    """What is told of an error in the place of its text, which `log` has: that of the `place`."""
    return f"The run failed. The {place}'s log tells more [errorId {error_id_of(error, log)}]."


def error_id_of(error: BaseException, log: logging.Logger) -> str:
    """The id under which `log` has the failure of a run, the `error`; it is written there once."""
    known: str | None = getattr(error, _ERROR_ID, None)
    if known is None:
        known = log_failure(error, "A run", log)
        with suppress(AttributeError):
            setattr(error, _ERROR_ID, known)
    return known


def log_failure(error: BaseException, what: str, log: logging.Logger) -> str:
    """Write an `error` with its traceback into `log`, and `what` has failed; returns the id under which it stands
    there."""
    error_id = new_id()
    log.error("%s failed [errorId %s].", what, error_id, exc_info=error)
    return error_id
