"""Whether the last turn of a conversation has come to its end."""

from __future__ import annotations

from collections.abc import Sequence

from flowloom.agents import BaseAgent, LoopAgent, ParallelAgent, SequentialAgent
from flowloom.context.progress import path_of
from flowloom.events import Event
from flowloom.log.marks import tells_of_end
from flowloom.sessions import Session


def standing(session: Session) -> Sequence[Event]:
    """The log of a session without what was rewound."""
    return session.history.kept(session.events)


def cut_off(root: BaseAgent, session: Session) -> str | None:
    """The invocation that the log ends with, if it did not come to its end: it was stopped, or its process died.

    To resume one that did is harmless: nothing is left to be done.
    """
    events = [event for event in standing(session) if event.invocation_id and not _is_remark(event)]
    if not events:
        return None
    last = events[-1]
    if tells_of_end(last):  # with words and no error, whoever listened has left
        return last.invocation_id if last.interrupted and not last.error_code else None
    turn = [event for event in events if event.invocation_id == last.invocation_id and event.author != "user"]
    return None if last.author != "user" and _is_done(root, turn) else last.invocation_id


def _is_remark(event: Event) -> bool:
    """Whether an event is about the log itself."""
    return bool(event.actions.compaction or event.actions.rewind_before_invocation_id)


def _is_done(agent: BaseAgent, events: Sequence[Event]) -> bool:
    """Whether these events, those of an agent and of all below it, are a whole turn of it."""
    if not events:
        return False
    if events[-1].author == agent.name:
        return events[-1].is_final_response()
    members = [[event for event in events if child.find_agent(event.author)] for child in agent.sub_agents]
    done = [_is_done(child, own) for child, own in zip(agent.sub_agents, members, strict=True)]
    if isinstance(agent, ParallelAgent):
        return all(done)
    if isinstance(agent, SequentialAgent):
        return bool(done) and done[-1]
    if isinstance(agent, LoopAgent):
        return any(event.actions.escalate for event in events) or (_rounds(agent, events) and done[-1])
    latest = next((i for i, own in enumerate(members) if own and own[-1] is events[-1]), None)
    return events[-1].is_final_response() if latest is None else done[latest]


def _rounds(loop: LoopAgent, events: Sequence[Event]) -> bool:
    """Whether a loop is in its last round."""
    last = f"{loop.sub_agents[-1].name}@{loop.max_iterations}"
    return any(last in path_of(event).split("/") for event in events)
