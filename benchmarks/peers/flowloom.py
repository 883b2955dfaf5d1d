"""flowloom itself."""

from __future__ import annotations

from benchmarks.peers.adk_names import Names, RunnerEngine
from flowloom import (
    BaseLlm,
    Event,
    InMemorySessionService,
    LlmAgent,
    LlmResponse,
    RunConfig,
    Runner,
    StreamingMode,
)

NAMES = Names(LlmAgent, BaseLlm, LlmResponse, Event, Runner, InMemorySessionService, RunConfig, StreamingMode)


def engine(case: str, size: int) -> RunnerEngine:
    """One case on flowloom."""
    return RunnerEngine(NAMES, case, size)
