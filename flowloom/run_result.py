"""`RunResult`: what came of a run."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Self

from typing_extensions import TypeVar

from flowloom.context import Usage
from flowloom.events import Event
from flowloom.pending import PendingCall

OutputT = TypeVar("OutputT", default=Any)
"""What the output of an agent is: an instance of its `output_schema`."""

RunStatus = Literal["final", "paused", "limit", "cancelled", "failed"]


@dataclass(slots=True)
class RunResult(Generic[OutputT]):
    """What came of a run, and why it ended.

    `status`: `final` (the agents have answered), `paused` (something waits, see `pending`, or the run was paused and is
    gone on with by `invocation_id`), `limit`, `cancelled` or `failed` (see `error`).
    """

    invocation_id: str
    status: RunStatus
    text: str = ""
    """The final answer, without thoughts."""
    output: OutputT | None = None
    """The final answer as its agent's `output_schema` reads it: an instance of a model class, plain data for a JSON
    schema. None if that agent has no schema, or has not answered (yet): the run waits, was stopped or has failed."""
    events: list[Event] = field(default_factory=list[Event])
    """All complete events of the run, in order."""
    state_delta: dict[str, Any] = field(default_factory=dict[str, Any])
    """What the run has changed in the state; the later change of a key counts."""
    usage: Usage = field(default_factory=Usage)
    """Tokens of all model calls, sub-agents and agent tools included."""
    model_calls: int = 0
    tool_calls: int = 0
    pending: list[PendingCall] = field(default_factory=list[PendingCall])
    """What waits for an answer."""
    error: BaseException | None = None

    def raise_for_status(self) -> Self:
        """This result; raises the error of a run that failed or reached a limit that raises."""
        if self.error is not None:
            raise self.error
        return self
