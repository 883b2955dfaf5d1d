"""What a long conversation costs: the same at its end as at its beginning."""

from __future__ import annotations

import time

from kit import event, said

from compaction.logs import session_of
from flowloom import Event, EventActions, EventsCompactionConfig
from flowloom.compaction import BaseEventsSummarizer, compact_session
from flowloom.events import EventCompaction
from flowloom.log import Viewer
from flowloom.log.history import project

TURNS = 2000
ROOT = Viewer("root")


class Brief(BaseEventsSummarizer):
    """Always as long."""

    async def maybe_summarize_events(self, *, events: list[Event]) -> Event | None:
        compaction = EventCompaction(start_timestamp=0, end_timestamp=0, compacted_content=said("in short" * 10))
        return Event(actions=EventActions(compaction=compaction))


async def test_a_turn_costs_the_same_after_two_thousand() -> None:
    """The prompt stays as long as it was, and so does the work for it, summaries included."""
    session, service = await session_of()
    config = EventsCompactionConfig(summarizer=Brief(), compaction_interval=10, event_threshold=60)
    seconds: list[float] = []
    longest = 0
    for turn in range(TURNS):
        for author, word in (("user", "question"), ("root", "answer"), ("root", "more")):
            each = event(author, f"{word} {turn}", timestamp=turn * 10.0, invocation_id=f"i{turn}")
            await service.append_event(session, each)
            started = time.process_time()
            longest = max(longest, len(session.history.contents(session.events, ROOT).contents))
            spent = time.process_time() - started
            seconds.append(spent)
        started = time.process_time()
        await compact_session(session, service, config)
        session.history.contents(session.events, ROOT)
        seconds[-1] += time.process_time() - started
    assert longest <= 10 * 3 + 1
    quarter = len(seconds) // 4
    early, late = min_of_means(seconds[:quarter]), min_of_means(seconds[-quarter:])
    assert late < 4 * early + 5e-6
    assert len([each for each in session.events if each.actions.compaction is not None]) == TURNS // 10


def min_of_means(seconds: list[float], size: int = 30) -> float:
    """The mean of the quietest stretch of ten turns."""
    return min(sum(seconds[at : at + size]) / size for at in range(0, len(seconds) - size + 1, size))


async def test_a_log_with_many_summaries_is_read_in_one_go() -> None:
    """Eight times as many events and summaries take about eight times as long, and not 64 times."""

    def log(count: int) -> list[Event]:
        events: list[Event] = []
        for turn in range(count):
            at = float(turn)
            events.append(event("user", "question", timestamp=at, invocation_id=f"i{turn}"))
            compaction = EventCompaction(start_timestamp=at, end_timestamp=at, compacted_content=said("in short"))
            events.append(Event(author="user", timestamp=at, actions=EventActions(compaction=compaction)))
        return events

    def spent(events: list[Event]) -> float:
        started = time.process_time()
        assert len(project(events, ROOT).contents) == len(events) // 2
        return time.process_time() - started

    small, large = log(250), log(2000)
    pairs = [(spent(small), spent(large)) for _ in range(7)]
    assert min(time for _, time in pairs) < 24 * min(time for time, _ in pairs)
