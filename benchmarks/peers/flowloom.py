"""flowloom itself."""

from __future__ import annotations

from functools import partial

from benchmarks.peers.adk_names import Names, RunnerEngine
from flowloom import (
    BaseLlm,
    Event,
    FunctionTool,
    InMemorySessionService,
    LlmAgent,
    LlmResponse,
    RunConfig,
    Runner,
    StreamingMode,
)

NAMES = Names(
    LlmAgent,
    BaseLlm,
    LlmResponse,
    Event,
    Runner,
    InMemorySessionService,
    RunConfig,
    StreamingMode,
    on_loop=partial(FunctionTool, blocking=False),
)


def engine(case: str, size: int) -> RunnerEngine:
    """One case on flowloom."""
    return RunnerEngine(NAMES, case, size)
