"""What begins runs and holds on to them: runners, applications, handles, results, and what a run waits for.

It imports `run_stream`, `plugins`, `agents` and the rooms below. Begin with `runner.py`; `rounds.py` has the
rounds of one call of it.
"""

from flowloom.runner.app import App, ResumabilityConfig
from flowloom.runner.handle import RunHandle
from flowloom.runner.pending import PendingCall, answers, pending_calls
from flowloom.runner.result import RunResult
from flowloom.runner.runner import InMemoryRunner, RunArguments, Runner

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
