"""`StepResult`: what one step of an agent with a model has come to."""

from __future__ import annotations

from dataclasses import dataclass

from flowloom.errors import LimitExceededError
from flowloom.events.event import Event


@dataclass(slots=True)
class StepResult:
    """What a step has come to so far: `LlmTurn.rule` says what follows from it."""

    last: Event | None = None
    """The latest complete event."""
    open_partial: bool = False
    """Whether the latest event was partial."""
    transfer_to: str | None = None
    halted_by: str | None = None
    answered: bool = False
    """Whether the model is not listened to (any further): the calls of its latest answer have results, say."""
    waiting: bool = False
    """Whether a call stays open: an agent that runs as a tool waits, or a client is to execute it."""
    cut_short: bool = False
    """Whether the run was stopped in an agent that this one has called: the step is not over."""
    gave_output: bool = False
    """Whether a tool that was confirmed has given the structured final answer."""
    unfit: str | None = None
    """What is wrong with the answer, if it is not of the form that it has to have."""
    limit: LimitExceededError | None = None
    """The limit that has ended the step."""
