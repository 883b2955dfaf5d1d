"""Compaction: long conversations go on with a summary in the place of what is old. The log itself stays whole.

It imports `sessions`, `log` and the rooms below. Begin with `plan.py`: what is summed up, and what stays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.compaction.background import BackgroundCompaction
    from flowloom.compaction.config import EventsCompactionConfig
    from flowloom.compaction.session import compact_session
    from flowloom.compaction.summarizer import BaseEventsSummarizer, LlmEventsSummarizer

_HOMES = {
    "background": "BackgroundCompaction",
    "config": "EventsCompactionConfig",
    "session": "compact_session",
    "summarizer": "BaseEventsSummarizer LlmEventsSummarizer",
}

__all__ = [
    "BackgroundCompaction",
    "BaseEventsSummarizer",
    "EventsCompactionConfig",
    "LlmEventsSummarizer",
    "compact_session",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
