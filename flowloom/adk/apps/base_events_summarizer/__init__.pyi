# made from table.py by tests/adk/stubs.py

from flowloom.compaction import BaseEventsSummarizer

__all__ = [
    "BaseEventsSummarizer",
]
