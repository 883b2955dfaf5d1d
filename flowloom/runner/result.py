"""`RunResult`: what came of a run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, Self

from flowloom.agents.base_agent import OutputT
from flowloom.context import Usage
from flowloom.events import Event
from flowloom.events.shown import table_of_all
from flowloom.log.marks import is_from_agent_tool
from flowloom.objects.notebook import count, line, quoted
from flowloom.runner.pending import PendingCall

RunStatus = Literal["final", "paused", "limit", "cancelled", "failed"]


@dataclass(slots=True, repr=False)
class RunResult(Generic[OutputT]):
    """The result of a run, and why it ended.

    `status`: `final` (the agents have answered), `paused` (calls are pending, see `pending`, or the run was paused and
    is resumed by `invocation_id`), `limit`, `cancelled` or `failed` (see `error`).

    `model_calls` and `tool_calls` are how many there were, those of sub-agents and agent tools included.
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

    def __repr__(self) -> str:
        error = None if self.error is None else type(self.error).__name__
        told = self.text and quoted(self.text), error, *_amounts(self)
        return line([f"RunResult {self.status}:", ", ".join(each for each in told if each)])

    def _repr_html_(self) -> str:
        facts = [("status", self.status)]
        if self.error is not None:
            facts.append(("error", f"{type(self.error).__name__}: {self.error}"))
        if self.output is not None and self.output != self.text:
            facts.append(("output", repr(self.output)))
        facts += [("waits", f"{each.kind} of {each.name}") for each in self.pending]
        facts.append(("took", ", ".join([*_amounts(self), count(self.usage.total_tokens, "token")])))
        return table_of_all(f"RunResult of {self.invocation_id}", facts, [(each.author, each) for each in self.events])

    def take(self, events: Iterable[Event], outputs: Mapping[str, Callable[[], Any]]) -> None:
        """Take in all `events` of the run, partial ones included: what they change, and the answer. `outputs` makes of
        structured answers, by event id, what their agents' schemas read.
        """
        self.events = [event for event in events if not event.partial]
        for event in self.events:
            self.state_delta.update(event.actions.state_delta)
        own = (event for event in reversed(self.events) if not is_from_agent_tool(event))
        final = next((event for event in own if event.is_final_response() and event.text.strip()), None)
        self.text = "" if final is None else final.text
        self.output = self._output(outputs)

    def _output(self, outputs: Mapping[str, Callable[[], Any]]) -> Any:
        """The latest answer as data. What an after-agent callback adds to one is none."""
        for event in reversed(self.events):
            if event.interrupted:
                return None
            if event.id in outputs:
                return outputs[event.id]()
            if event.is_final_response() and event.text.strip() and not event.actions.end_of_agent:
                return event.output
        return None

    def raise_for_status(self) -> Self:
        """This result; raises the error of a run that failed or reached a limit that raises."""
        if self.error is not None:
            raise self.error
        return self


def _amounts(result: RunResult[Any]) -> list[str]:
    return [
        count(len(result.events), "event"),
        count(result.model_calls, "model call"),
        count(result.tool_calls, "tool call"),
    ]
