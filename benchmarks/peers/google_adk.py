"""google-adk as it comes."""

from __future__ import annotations

from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService

from benchmarks.peers.adk_names import Names, RunnerEngine

NAMES = Names(LlmAgent, BaseLlm, LlmResponse, Event, Runner, InMemorySessionService, RunConfig, StreamingMode)


def engine(case: str, size: int) -> RunnerEngine:
    """One case on google-adk."""
    return RunnerEngine(NAMES, case, size)
