"""`StepResult`: what one step of an agent with a model has come to."""

from __future__ import annotations

from flowloom.errors import LimitExceededError
from flowloom.events.event import Event


class StepResult:
    """What a step has come to so far: `LlmTurn.rule` says what follows from it."""

    __slots__ = (
        "answered",
        "cut_short",
        "gave_output",
        "halted_by",
        "last",
        "limit",
        "open_partial",
        "transfer_to",
        "unfit",
        "waiting",
    )

    def __init__(self) -> None:
        self.last: Event | None = None
        """The latest complete event."""
        self.open_partial = False
        """Whether the latest event was partial."""
        self.transfer_to: str | None = None
        self.halted_by: str | None = None
        self.answered = False
        """Whether the calls of the latest answer have results, so that the model is not listened to any further."""
        self.waiting = False
        """Whether a call stays open: an agent that runs as a tool waits, or a client is to execute it."""
        self.cut_short = False
        """Whether the run was stopped in an agent that this one has called: the step is not over."""
        self.gave_output = False
        """Whether a tool that was confirmed has given the structured final answer."""
        self.unfit: str | None = None
        """What is wrong with the answer, if it is not of the form that it has to have."""
        self.limit: LimitExceededError | None = None
        """The limit that has ended the step."""
