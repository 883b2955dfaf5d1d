# made from table.py by tests/adk/stubs.py

from flowloom.compaction import LlmEventsSummarizer as LlmEventSummarizer

__all__ = [
    "LlmEventSummarizer",
]
