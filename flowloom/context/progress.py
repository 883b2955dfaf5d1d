"""`Progress`: how far an invocation got before this run took it up, as its events tell (resuming, decision 28)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from google.genai import types

from flowloom.context.run import AGENT_TOOL_CALL, HOST_CALLS, RUN_ENDED
from flowloom.events.event import Event

if TYPE_CHECKING:
    from flowloom.context.invocation import InvocationContext


class Progress:
    """The events of an invocation before this run, and what its latest message answers.

    `interrupted` says that there is no new message: the run goes on where another one stopped or was cut off. Work that
    was under way then is done again; what is in the log is not.
    """

    __slots__ = ("_answered", "_message", "events", "interrupted")

    def __init__(self, events: Sequence[Event], *, interrupted: bool) -> None:
        self.events = list(events)
        self.interrupted = interrupted
        self._message = len(self.events)
        self._answered: set[str] = set()
        if interrupted:
            said = (i for i, e in enumerate(self.events) if e.author == "user" and not is_from_agent_tool(e))
            self._message = max(said, default=-1)
            if self._message >= 0:
                self.answers(self.events[self._message].content)

    def answers(self, message: types.Content | None) -> None:
        """Take note of the calls that the invocation's latest message answers."""
        self._answered |= self.answered_by(message)

    def answered_by(self, message: types.Content | None) -> set[str]:
        """The calls that a message answers, and those by which the agents around them were called."""
        ids = {p.function_response.id for p in (message and message.parts) or () if p.function_response is not None}
        found = {call_id for call_id in ids if call_id}
        for event in reversed(self.events) if found else ():
            if event.isolation_scope and any(call.id in found for call in event.get_function_calls()):
                found.add(event.isolation_scope)
        return found

    @property
    def message(self) -> types.Content | None:
        """The latest message of the user, if it is in the log."""
        return self.events[self._message].content if 0 <= self._message < len(self.events) else None

    @property
    def answered(self) -> set[str]:
        """The calls that the latest message answers, and those of the agents around them."""
        return self._answered

    def beginning_in(self, events: Sequence[Event]) -> int:
        """Where in a session's log the latest message is; without one, where the invocation begins."""
        first = self.events[max(self._message, 0)]
        return next(index for index, event in enumerate(events) if event is first)

    def since_message(self) -> Iterator[tuple[int, Event]]:
        """What came after the latest message of the user, with its place in the log."""
        for index in range(self._message + 1, len(self.events)):
            yield index, self.events[index]

    def own(self, ctx: InvocationContext, start: int = 0) -> tuple[list[Event], list[Event]]:
        """The events of `ctx.agent` at its place in the run: before the latest message of the user, and after it.

        `start` is where in the log its turn has begun.
        """
        before: list[Event] = []
        after: list[Event] = []
        for index in range(start, len(self.events)):
            event = self.events[index]
            if event.author == ctx.agent.name and at_place(event, ctx) and not tells_of_end(event):
                (before if index <= self._message else after).append(event)
        return before, after

    def is_answered(self, events: Sequence[Event]) -> bool:
        """Whether the latest message answers one of the calls in these events."""
        return any(call.id in self._answered for event in events for call in event.get_function_calls())

    def was_answered(self, call_id: str) -> bool:
        """Whether the latest message answers this call, or one that an agent makes that runs as this tool."""
        return call_id in self._answered

    def may_go_on(self, call_id: str) -> bool:
        """Whether the agent behind a call, or one behind its calls, stopped before calls that can be run now.

        That is also so if it was cut off before it waited for anything.
        """
        scopes, left, waiting = {call_id}, set[str](), set[str]()
        for event in self.events:
            answered = {response.id or "": response.response or {} for response in event.get_function_responses()}
            if is_from_agent_tool(event) and event.isolation_scope in scopes:
                calls = {call.id for call in event.get_function_calls() if call.id}
                scopes |= calls
                waiting |= {call for call in event.long_running_tool_ids or () if call in calls | answered.keys()}
                if HOST_CALLS in (event.custom_metadata or ()):
                    left |= calls
            left -= answered.keys()
            waiting -= {call for call in answered if event.author == "user" or "error" in answered[call]}
        return bool(left) or not waiting

    # -- members of workflows ------------------------------------------------------------------------------------------

    def entries(self, path: str) -> int:
        """How often the node `path` was entered, its number left out."""
        return max((number for name, number in self._below(path) if name == path.rpartition("/")[2]), default=0)

    def latest_member(self, workflow: str) -> tuple[str, int] | None:
        """Name and round of the member that a workflow ran last; None if it ran none, or the log does not tell."""
        found = list(self._below(workflow + "/"))
        return found[-1] if found else None

    def _below(self, path: str) -> Iterator[tuple[str, int]]:
        prefix = path.rpartition("/")[0] + "/" if "/" in path else ""
        for event in self.events:
            place = "" if is_from_agent_tool(event) else path_of(event)
            if place and place.startswith(prefix):
                name, _, number = place[len(prefix) :].partition("/")[0].rpartition("@")
                yield name, int(number) if number.isdecimal() else 1


def path_of(event: Event) -> str:
    """The node path of an event: which turn of which member of a workflow it belongs to, `flow@1/writer@2`."""
    return event.node_info.path if event.node_info is not None else ""


def at_place(event: Event, ctx: InvocationContext) -> bool:
    """Whether an event belongs to the branch, the scope and the workflow member of `ctx`."""
    return (
        (event.branch or None) == (ctx.branch or None)
        and (event.isolation_scope or None) == (ctx.isolation_scope or None)
        and (path_of(event) == ctx.node_path or not path_of(event))
    )


def is_from_agent_tool(event: Event) -> bool:
    """Whether an event is that of an agent that runs as a tool, kept because it waits; its scope is the tool's call."""
    return bool(event.isolation_scope) and bool(event.custom_metadata) and AGENT_TOOL_CALL in event.custom_metadata


def tells_of_end(event: Event) -> bool:
    """Whether an event only says how a run has ended."""
    return bool(event.custom_metadata) and RUN_ENDED in event.custom_metadata
