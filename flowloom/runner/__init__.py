"""What begins runs and holds on to them: runners, applications, handles, results, and what a run waits for.

It imports `run_stream`, `plugins`, `agents` and the rooms below. Begin with `runner.py`; `rounds.py` has the
rounds of one call of it.
"""

from typing import TYPE_CHECKING

from flowloom.objects.on_use import homes_of, loaded_on_use
from flowloom.runner.app import App, ResumabilityConfig
from flowloom.runner.handle import RunHandle
from flowloom.runner.runner import InMemoryRunner, RunArguments, Runner

if TYPE_CHECKING:
    from flowloom.runner.pending import PendingCall, answers, pending_calls
    from flowloom.runner.result import RunResult

_HOMES = {"pending": "PendingCall answers pending_calls", "result": "RunResult"}

__all__ = [
    "App",
    "InMemoryRunner",
    "PendingCall",
    "ResumabilityConfig",
    "RunArguments",
    "RunHandle",
    "RunResult",
    "Runner",
    "answers",
    "pending_calls",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
