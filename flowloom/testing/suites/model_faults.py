"""What goes wrong with the backends of models in `ModelSuite`, and which error a model has to make of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from flowloom.errors import (
    ModelError,
    ModelRateLimitError,
    ModelRequestError,
    ModelResponseError,
    ModelStreamError,
    ModelUnavailableError,
)
from flowloom.events import LlmResponse
from flowloom.testing.suites.model_answers import text_answer

FAULTY = text_answer("It is sunny in Rome, and it will be so until the end of the week.")
"""The answer that a backend begins to give before something goes wrong."""

Errors = tuple[type[ModelError], ...]
Any_ = Literal["any"]


@dataclass(frozen=True)
class Fault:
    """Something that goes wrong in one call; the next call of the same model goes well.

    `unary` and `streamed` are the errors that a model may raise for it, without and with streaming.
    """

    name: str
    unary: Errors
    streamed: Errors
    status: int | Any_ | None = None
    """The HTTP status that the error has to name."""
    retryable: bool | Any_ = True
    """Whether the error has to say that the same call may succeed later."""
    retry_after: float | None = None
    """The seconds that the backend asks to wait, in a `Retry-After` header."""
    partial: bool = False
    """Whether a stream has given some of `FAULTY` before."""
    caused: bool = True
    """Whether something else was raised first, which the error has to have as its cause."""
    passes: bool = True
    """Whether the model can be asked again: not when there is nobody to answer."""

    @property
    def answer(self) -> LlmResponse:
        """What the backend was about to say."""
        return FAULTY

    def errors(self, *, stream: bool) -> Errors:
        """The errors that a model may raise."""
        return self.streamed if stream else self.unary


_DOWN: Errors = (ModelUnavailableError,)
_REFUSED: Errors = (ModelRequestError,)
_BROKEN: Errors = (ModelStreamError,)
_UNREADABLE: Errors = (ModelResponseError,)
_EITHER: Errors = (ModelResponseError, ModelStreamError)


def _refused(status: int) -> Fault:
    return Fault(f"refused_{status}", _REFUSED, _REFUSED, status=status, retryable=False)


def _down(status: int) -> Fault:
    return Fault(f"refused_{status}", _DOWN, _DOWN, status=status)


_ALL = (
    *map(_refused, (400, 401, 403, 404)),
    Fault("refused_429", (ModelRateLimitError,), (ModelRateLimitError,), status=429),
    Fault("refused_429_for_7_seconds", (ModelRateLimitError,), (ModelRateLimitError,), status=429, retry_after=7.0),
    *map(_down, (500, 503, 529)),
    Fault("refused_503_for_3_seconds", _DOWN, _DOWN, status=503, retry_after=3.0),
    # a proxy's page instead of the backend's own words
    Fault("refused_with_a_page", _DOWN, _DOWN, status=502),
    Fault("unreachable", _DOWN, _DOWN, passes=False),
    Fault("silent", _DOWN, _DOWN),
    Fault("reset_before_an_answer", _DOWN, _DOWN),
    Fault("empty", _UNREADABLE, _BROKEN, retryable="any", caused=False),
    Fault("broken_before_a_chunk", _DOWN, _BROKEN),
    Fault("broken_inside_a_chunk", _DOWN, _BROKEN, partial=True),
    Fault("broken_after_a_chunk", _DOWN, _BROKEN, partial=True),
    Fault("silent_after_a_chunk", _DOWN, _BROKEN, partial=True),
    # the connection ends in good order, but what came is not all
    Fault("ended_inside_a_chunk", _UNREADABLE, _BROKEN, retryable="any", partial=True),
    Fault("ended_after_a_chunk", _UNREADABLE, _BROKEN, retryable="any", partial=True, caused=False),
    Fault("error_inside", _DOWN, _BROKEN, status="any", partial=True, caused=False),
    Fault("malformed_json", _UNREADABLE, _UNREADABLE, retryable=False, partial=True),
    Fault("not_json", _UNREADABLE, _UNREADABLE, retryable=False, partial=True),
    Fault("not_an_object", _UNREADABLE, _UNREADABLE, retryable=False, partial=True, caused=False),
    Fault("wrong_content_type", _UNREADABLE, _EITHER, retryable="any", caused=False),
)

FAULTS = {fault.name: fault for fault in _ALL}
"""All faults, by name."""
