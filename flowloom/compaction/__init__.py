"""Compaction: long conversations go on with a summary in the place of what is old. The log itself stays whole."""

from flowloom.compaction.background import BackgroundCompaction
from flowloom.compaction.config import EventsCompactionConfig
from flowloom.compaction.session import compact_session
from flowloom.compaction.summarizer import BaseEventsSummarizer, LlmEventsSummarizer

__all__ = [
    "BackgroundCompaction",
    "BaseEventsSummarizer",
    "EventsCompactionConfig",
    "LlmEventsSummarizer",
    "compact_session",
]
