"""Which agent answers a message, and what the message answers (spec §18.4 to §18.6)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from google.genai import types

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.context.progress import path_of
from flowloom.errors import ConfigurationError, DuplicateAgentError
from flowloom.events import Event
from flowloom.events.parts import response_part
from flowloom.events.requests import RESERVED_CALLS
from flowloom.events.wire import replace
from flowloom.flow.delegation import delegates_of
from flowloom.log.answers import readable_answers
from flowloom.log.item import is_hidden
from flowloom.log.ledger import CallLedger
from flowloom.sessions import Session

Position = tuple[BaseAgent, tuple[BaseAgent, ...]]
"""An agent, and the agents above it, root first."""


def answered_call(ledger: CallLedger, message: types.Content | None) -> Event | None:
    """The event of the first call that a message answers: the latest, for an id used twice.

    It may be one that was rewound: nothing can resume that.
    """
    return next(filter(None, (_called(ledger, answer) for answer in readable_answers(message))), None)


def _called(ledger: CallLedger, answer: types.FunctionResponse) -> Event | None:
    """The event with the call that is answered; for one of an agent that runs as a tool, with the author whose call
    runs it."""
    made = ledger.ever(answer.id)
    if made is None or (made.name in RESERVED_CALLS and not made.is_request):
        return None
    outer = [made, *ledger.around(made)] if made.inner else [made]
    owner = next((each for each in outer if not each.inner), outer[-1])
    return made.event if owner.author == made.author else replace(made.event, author=owner.author)


def find_agent_to_run(root: BaseAgent, events: Sequence[Event], answered: Event | None) -> Position:
    """Which agent goes on (spec §18.6).

    A root that is no LLM agent, or that has a task sub-agent, always runs. Otherwise the agent whose call is
    answered, or the workflow it belongs to; else the latest agent that spoke and may be handed over to from
    anywhere; else the root.
    """
    top: Position = (root, ())
    if not isinstance(root, LlmAgent) or not root.sub_agents:
        return top
    if any(isinstance(c, LlmAgent) and c.mode == "task" for c in delegates_of(root).values()):
        return top
    if answered is not None and (position := position_of(root, answered.author)) is not None:
        return _first_above(position)
    for event in reversed(events):
        if event.author == root.name:
            return top
        position = None if event.author == "user" else position_of(root, event.author)
        if position is not None and _transferable(position):
            return position
    return top


def messages_of(root: BaseAgent, session: Session, message: types.Content) -> list[types.Content]:
    """A message as several, one for each destination of its answers; what answers nothing goes with the first.

    Destinations are different if another agent goes on, or another invocation; and if models see the answers, each on
    its own branch.
    """
    parts = message.parts or []
    if sum(part.function_response is not None for part in parts) < 2:
        return [message]
    destinations = _destinations(root, session, message)
    found = [destinations.get(id(part.function_response)) for part in parts]
    first = next(filter(None, found), None)
    groups: dict[tuple[str, ...] | None, list[types.Part]] = {}
    for part, destination in zip(parts, found, strict=True):
        groups.setdefault(destination or first, []).append(part)
    if len(groups) < 2:
        return [message]
    return [types.Content(role=message.role, parts=each) for each in groups.values()]


def _destinations(root: BaseAgent, session: Session, message: types.Content) -> dict[int, tuple[str, ...]]:
    """The agent, the invocation and the place that each answer of a message goes to, by the identity of the answer;
    one that answers no call has none."""
    ledger, events = session.history.ledger(session.events), session.history.kept(session.events)
    callers: dict[str, tuple[str, str]] = {}  # on each branch, who made the first call that is answered
    found: dict[int, tuple[str, ...]] = {}
    for answer in readable_answers(message):
        if (event := _called(ledger, answer)) is not None:
            agent, _ = find_agent_to_run(root, events, event)
            branch, caller = event.branch or "", (event.author, path_of(event))
            other = "" if callers.setdefault(branch, caller) == caller else "@".join(caller)  # one hands over to it
            found[id(answer)] = agent.name, event.invocation_id, "" if is_hidden(answer) else branch, other
    return found


def as_reply(root: BaseAgent, session: Session, message: types.Content) -> types.Content:
    """A message of words as the answer to the latest question of an agent that takes words; itself if none waits."""
    takers = {agent.name for agent in agents_of(root) if agent.takes_words}
    for made in reversed(session.history.ledger(session.events).pending()):
        if made.is_request and not made.inner and made.author in takers:
            words = "\n".join(part.text for part in message.parts or () if part.text and not part.thought)
            answer = response_part(made.id, made.name, {"result": words})
            kept = () if made.kind == "credential" else message.parts or ()  # which may hold a secret
            return types.Content(role=message.role, parts=[answer, *kept])
    return message


def position_of(root: BaseAgent, name: str) -> Position | None:
    """The first agent of that name in the tree, and the agents above it."""
    return next((position for position in _positions_in(root) if position[0].name == name), None)


def _first_above(position: Position) -> Position:
    """The uppermost agent on the way that has to go on after the one below it: it runs its members itself (decision
    28), or has called it."""
    agent, above = position
    path = (*above, agent)
    for depth, each in enumerate(path):
        if not isinstance(each, LlmAgent):
            return each, path[:depth]
        if each.mode in ("task", "single_turn"):
            return path[depth - 1], path[: depth - 1]
    return position


def _transferable(position: Position) -> bool:
    """Whether an agent can be handed over to across the tree: it and all above it are LLM agents that hand back."""
    agent, above = position
    return all(
        isinstance(each, LlmAgent) and not each.disallow_transfer_to_parent and each.mode not in ("task", "single_turn")
        for each in (*above, agent)
    )


def agents_of(root: BaseAgent) -> list[BaseAgent]:
    """All agents of a tree, each once, the root first."""
    return [agent for agent, _ in _positions_in(root)]


def _positions_in(root: BaseAgent) -> Iterator[Position]:
    """The first position of each agent of a tree, from the root down."""
    seen: set[int] = set()
    todo: list[Position] = [(root, ())]
    while todo:
        agent, above = todo.pop()
        if id(agent) not in seen:
            seen.add(id(agent))
            yield agent, above
            todo.extend((child, (*above, agent)) for child in reversed(agent.sub_agents))


def check_tree(root: BaseAgent) -> None:
    """Raise `DuplicateAgentError` if two different agents of a tree have one name, `ConfigurationError` for a root
    that can only be called."""
    if isinstance(root, LlmAgent) and root.mode in ("task", "single_turn"):
        raise ConfigurationError(
            f"The root agent `{root.name}` is in mode `{root.mode}`, but no agent calls it. Use `chat`."
        )
    names: dict[str, BaseAgent] = {}
    for agent in agents_of(root):
        if names.setdefault(agent.name, agent) is not agent:
            raise DuplicateAgentError(
                f"Two agents below `{root.name}` are named `{agent.name}`. Histories go by name: rename one."
            )
