"""Compacting a session: from its log to one more event in it."""

from __future__ import annotations

import logging

from flowloom.compaction.config import EventsCompactionConfig
from flowloom.compaction.plan import Plan, plan_of
from flowloom.compaction.summarizer import AUTHOR, BaseEventsSummarizer, LlmEventsSummarizer
from flowloom.errors import ConfigurationError
from flowloom.events.actions import EventActions, EventCompaction
from flowloom.events.clock import now
from flowloom.events.event import Event
from flowloom.events.ids import new_id
from flowloom.events.parts import content_of, parts_of
from flowloom.events.wire import replace
from flowloom.models.base_llm import BaseLlm
from flowloom.sessions.service import BaseSessionService
from flowloom.sessions.session import Session

_log = logging.getLogger("flowloom.compaction")


async def compact_session(
    session: Session,
    service: BaseSessionService,
    config: EventsCompactionConfig,
    model: BaseLlm | str | None = None,
    *,
    force: bool = False,
) -> Event | None:
    """Summarise what is old in a session, if `config` says that it is time; returns the event that was stored.

    `model` writes the summary if `config` names no summariser. With `force` all is summarised that may be, but for
    what `event_retention_size` keeps. None if nothing was to be done, or it failed: a failure is logged, and the
    conversation stays as it is. Nothing is deleted; what is appended meanwhile is not touched.

    Raises `ConfigurationError` without a model to write a summary, and what the store raises.
    """
    summarizer = summarizer_of(config, model)
    plan = plan_of(session.events, session.history.log, config, now=now(), force=force)
    if plan is None:
        return None
    event = await summary_of(plan, summarizer, session.id)
    return None if event is None else await service.append_event(session, event)


def summarizer_of(config: EventsCompactionConfig, model: BaseLlm | str | None) -> BaseEventsSummarizer:
    """What writes the summary. Raises `ConfigurationError` without a summarizer and a model."""
    if config.summarizer is not None:
        return config.summarizer
    if model is None:
        raise ConfigurationError(
            "There is no model to write a summary. Give a `model`, or a `summarizer` in `EventsCompactionConfig`."
        )
    return LlmEventsSummarizer(model)


async def summary_of(plan: Plan, summarizer: BaseEventsSummarizer, session_id: str) -> Event | None:
    """The event with the summary, not yet stored; None if there is none, or the summariser fails, which is logged."""
    try:
        made = await summarizer.maybe_summarize_events(events=list(plan.events))
        return None if made is None else _finished(made, plan)
    except Exception as error:
        _log.warning(
            "Session `%s` could not be summarised, and goes on as it is: %s: %s",
            session_id,
            type(error).__name__,
            error,
        )
        return None


def _finished(made: Event, plan: Plan) -> Event | None:
    """A summariser's event as it is stored: with what it stands for, where that was seen, and no thoughts."""
    given = made.actions.compaction
    content = made.content if given is None else given.compacted_content
    parts = [part for part in parts_of(content) if part.text and not part.thought]
    if not parts:
        return None
    compaction = EventCompaction(
        start_timestamp=plan.start, end_timestamp=plan.end, compacted_content=content_of("model", parts)
    )
    branch, scope = plan.location
    return replace(
        made,
        id=new_id(),
        invocation_id=made.invocation_id or "e-" + new_id(),
        timestamp=now(),
        author=AUTHOR,
        branch=branch,
        isolation_scope=scope,
        content=None,
        partial=None,
        actions=EventActions(compaction=compaction),
        custom_metadata=(made.custom_metadata or {}) | plan.span.to_metadata(),
    )
