"""`flowloom sessions compact`: a summary of a session, by a model of the user's choice."""

from __future__ import annotations

from flowloom.cli.model_choice import model_named, usable
from flowloom.compaction import BaseEventsSummarizer, EventsCompactionConfig, LlmEventsSummarizer, compact_session
from flowloom.events import Event
from flowloom.sessions import BaseSessionService, Session


async def compacted(session: Session, service: BaseSessionService, model: str, keep: int) -> str | None:
    """The summary that now stands for all events but the last `keep`; None if there was nothing to sum up.

    Raises `UsageError` for a model that cannot be used, and what the model raises.
    """
    summarizer = _Raising(LlmEventsSummarizer(usable(model_named(model))))
    config = EventsCompactionConfig(summarizer=summarizer, event_threshold=1, event_retention_size=keep)
    made = await compact_session(session, service, config, force=True)
    if summarizer.error is not None:
        raise summarizer.error
    compaction = None if made is None else made.actions.compaction
    content = None if compaction is None else compaction.compacted_content
    return None if content is None else "".join(part.text or "" for part in content.parts or ())


class _Raising(BaseEventsSummarizer):
    """Keeps the error of a summariser, which a run would only log."""

    def __init__(self, inner: BaseEventsSummarizer) -> None:
        self._inner = inner
        self.error: Exception | None = None

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        try:
            return await self._inner.maybe_summarize_events(events=events)
        except Exception as error:
            self.error = error
            return None
