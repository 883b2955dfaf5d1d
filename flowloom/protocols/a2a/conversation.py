"""What a session says about the conversation with a remote agent: the context, the task that waits, and what the agent
has not heard yet (protocols spec §4)."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Final

from google.genai import types

from flowloom.context import InvocationContext
from flowloom.context.progress import is_within
from flowloom.events.event import Event
from flowloom.events.parts import parts_of, text_part
from flowloom.events.requests import looks_like_request
from flowloom.log.answers import readable_answers
from flowloom.log.item import FOREIGN_LEAD_IN
from flowloom.log.marks import A2A_CONTEXT, A2A_TASK, is_from_agent_tool, tells_of_end

PEER: Final = "a2a"
"""The key in a request's arguments of what the remote agent said about what it waits for."""


@dataclass(frozen=True, slots=True)
class Reply:
    """What a person answered to a question of the remote agent's: the arguments of the request, and the answer."""

    asked: dict[str, Any]
    answer: types.FunctionResponse


@dataclass(frozen=True, slots=True)
class Conversation:
    """Where a session stands with a remote agent.

    `context_id` is its context, `task_id` the task that waits for an answer; `said` is what it has not heard, `replies`
    are the answers to what it asked.
    """

    context_id: str | None
    task_id: str | None
    said: Sequence[types.Part]
    replies: Sequence[Reply]


def conversation_of(ctx: InvocationContext) -> Conversation:
    """The conversation of the session with `ctx.agent`, as the stored events tell."""
    events = ctx.session.history.kept(ctx.session.events)
    last = _last_turn(ctx, events)
    marks = _named({} if last is None else events[last].custom_metadata or {})
    asked = {} if last is None else _asked(events, last)
    news = events if last is None else events[last + 1 :]
    replies = [
        Reply(asked[answer.id or ""], answer)
        for event in news
        if event.author == "user"
        for answer in readable_answers(event.content)
        if answer.id in asked
    ]
    waits = marks.get(A2A_TASK) if asked else None
    return Conversation(marks.get(A2A_CONTEXT), waits, _told(ctx, news), replies)


def _named(marks: dict[str, Any]) -> dict[str, str]:
    """What the marks of an event name. Callers may write there, too: what is no text names nothing."""
    return {key: marks[key] for key in (A2A_CONTEXT, A2A_TASK) if isinstance(marks.get(key), str)}


def whole_conversation(ctx: InvocationContext) -> Sequence[types.Part]:
    """All that was said in the session, for a remote agent that knows nothing of it (any more)."""
    return _told(ctx, ctx.session.history.kept(ctx.session.events), own=True)


def _last_turn(ctx: InvocationContext, events: Sequence[Event]) -> int | None:
    """The index of the latest event of the agent's own that names a context or a task."""
    for index in range(len(events) - 1, -1, -1):
        event = events[index]
        marks = event.custom_metadata
        if event.author == ctx.agent.name and marks and (A2A_CONTEXT in marks or A2A_TASK in marks):
            if is_from_agent_tool(event) or not _is_seen(ctx, event):
                continue
            return index
    return None


def _asked(events: Sequence[Event], last: int) -> dict[str, dict[str, Any]]:
    """The requests of the agent's latest event, by their ids: their arguments."""
    event = events[last]
    return {
        call.id: call.args or {} for call in event.get_function_calls() if call.id and looks_like_request(event, call)
    }


def _is_seen(ctx: InvocationContext, event: Event) -> bool:
    """Whether an event happened where the agent can know of it: on its branch, and in its scope."""
    return is_within(ctx.branch, event.branch) and (event.isolation_scope or None) == (ctx.isolation_scope or None)


def _told(ctx: InvocationContext, events: Sequence[Event], *, own: bool = False) -> list[types.Part]:
    """What users and other agents said in `events`, without thoughts and calls; others' words say whose they are."""
    told: list[types.Part] = []
    led_in = False
    for event in events:
        if event.partial or event.content is None or tells_of_end(event) or is_from_agent_tool(event):
            continue
        if event.actions.compaction is not None or not _is_seen(ctx, event):
            continue
        if event.author != "user" and (event.author != ctx.agent.name or own):
            said = _marked(event)
            told += said if led_in or not said else [text_part(FOREIGN_LEAD_IN), *said]
            led_in = led_in or bool(said)
        elif event.author == "user":
            answered = _words_answered(event.content)
            told += [
                part
                for part in event.content.parts or ()
                if not part.thought and _is_said(part) and (not answered or own or not part.text)
            ]
            led_in = False
    return told


def _words_answered(content: types.Content) -> bool:
    """Whether the words of a message stand in an answer that is in it, too (`as_reply` of the runner)."""
    words = "\n".join(part.text for part in content.parts or () if part.text and not part.thought)
    return bool(words) and any(answer.response == {"result": words} for answer in readable_answers(content))


def _marked(event: Event) -> list[types.Part]:
    """What another agent said; each text says who."""
    parts = parts_of(event.content)
    marked: list[types.Part] = []
    for part in parts:
        if part.thought or not _is_said(part):
            continue
        marked.append(text_part(f"[{event.author}] said: {part.text}") if part.text else part)
    return marked


_SAID: Sequence[Callable[[types.Part], Any]] = (
    lambda part: part.text,
    lambda part: part.inline_data,
    lambda part: part.file_data,
)


def _is_said(part: types.Part) -> bool:
    """Whether a part is a text or a file."""
    return any(read(part) for read in _SAID)
