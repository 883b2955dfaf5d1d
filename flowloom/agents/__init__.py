"""Agents: the base, the one a model speaks for, and those that run others.

It imports `flow` and the rooms below. Begin with `base_agent.py`; `workflow_agents.py` shows how small a kind of agent
is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.agents.base_agent import BaseAgent
from flowloom.agents.llm_agent import Agent, LlmAgent
from flowloom.context.run_config import Limits, RunConfig, StreamingMode, ToolThreadPoolConfig
from flowloom.objects.on_use import homes_of, loaded_on_use

if TYPE_CHECKING:
    from flowloom.agents.workflow_agents import LoopAgent, ParallelAgent, SequentialAgent, WorkflowAgent
    from flowloom.flow.workflow_turn import FinishedMember

_HOMES = {"workflow_agents": "FinishedMember LoopAgent ParallelAgent SequentialAgent WorkflowAgent"}

__all__ = [
    "Agent",
    "BaseAgent",
    "FinishedMember",
    "Limits",
    "LlmAgent",
    "LoopAgent",
    "ParallelAgent",
    "RunConfig",
    "SequentialAgent",
    "StreamingMode",
    "ToolThreadPoolConfig",
    "WorkflowAgent",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
