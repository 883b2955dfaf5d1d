# made from table.py by tests/adk/stubs.py

from flowloom.compaction import EventsCompactionConfig
from flowloom.runner import App
from flowloom.runner import ResumabilityConfig

__all__ = [
    "App",
    "EventsCompactionConfig",
    "ResumabilityConfig",
]
