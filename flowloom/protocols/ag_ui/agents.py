"""Who speaks in a run, as a page is told: agents of the run are steps, agents behind calls are subagents."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from flowloom.protocols.ag_ui.sdk import core
from flowloom.run_stream import AgentFinished, AgentStarted, ErrorReported


class Agents:
    """The agents of one run; `subagents` says whether those behind calls are told."""

    def __init__(self, *, subagents: bool) -> None:
        self._subagents = subagents
        self._steps: dict[str, str] = {}
        self._under_way: dict[str, AgentStarted] = {}
        """The agents behind calls that have not finished, by their ids."""
        self._first: dict[str, str] = {}
        """The agent that began first behind each call."""
        self._callers: dict[str, str] = {}
        """The subagent that made a call; those of the run's own agents are not in it."""
        self._errors: dict[str, ErrorReported] = {}
        self._questions: dict[str, list[str]] = {}

    def whose(self, author: str, branch: str | None, parent_call_id: str | None) -> str | None:
        """The subagent that says something; None for an agent of the run itself, and where subagents are not told."""
        if parent_call_id is None:
            return None
        said_by = (author, branch, parent_call_id)
        for agent_id, each in reversed(self._under_way.items()):
            if (each.agent, each.branch, each.parent_call_id) == said_by:
                return agent_id
        return self._first.get(parent_call_id)

    def calls(self, call_id: str, subagent: str | None) -> None:
        """Note that a subagent has made a call."""
        if subagent is not None:
            self._callers[call_id] = subagent

    def asks(self, subagent: str | None, interrupt_id: str) -> None:
        """Note that a subagent asks something: it waits when it ends."""
        if subagent is not None:
            self._questions.setdefault(subagent, []).append(interrupt_id)

    def fails(self, error: ErrorReported) -> None:
        """Note that an agent behind a call has failed: its end says so."""
        failed = self.whose(error.agent, None, error.parent_call_id)
        if failed is not None:
            self._errors[failed] = error

    def begin(self, event: AgentStarted) -> Iterator[Any]:
        """An agent's turn begins."""
        call_id = event.parent_call_id
        if call_id is None:
            if event.agent not in self._steps.values():
                self._steps[event.agent_id] = event.agent
                yield core.StepStartedEvent(step_name=event.agent)
        elif self._subagents:
            outer = event.parent_id if event.parent_id in self._under_way else self._callers.get(call_id)
            self._under_way[event.agent_id] = event
            self._first.setdefault(call_id, event.agent_id)
            yield core.SubagentStartedEvent(
                subagent_run_id=event.agent_id,
                name=event.agent,
                parent_tool_call_id=call_id,
                parent_subagent_run_id=outer,
            )

    def end(self, event: AgentFinished) -> Iterator[Any]:
        """An agent's turn is over."""
        yield from self._end(event.agent_id)

    def close(self) -> Iterator[Any]:
        """End all, the latest first."""
        for agent_id in [*reversed(self._under_way), *reversed(self._steps)]:
            yield from self._end(agent_id)

    def _end(self, agent_id: str) -> Iterator[Any]:
        name = self._steps.pop(agent_id, None)
        if name is not None:
            yield core.StepFinishedEvent(step_name=name)
        if self._under_way.pop(agent_id, None) is None:
            return
        error, questions = self._errors.get(agent_id), self._questions.get(agent_id)
        if error is not None:
            yield core.SubagentErrorEvent(subagent_run_id=agent_id, message=error.error_message, code=error.error_code)
        elif questions:
            waits = core.SubagentFinishedSuspendedOutcome(interrupt_ids=questions)
            yield core.SubagentFinishedEvent(subagent_run_id=agent_id, outcome=waits)
        else:
            yield core.SubagentFinishedEvent(subagent_run_id=agent_id)
