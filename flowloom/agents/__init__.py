"""Agents: the base, the one a model speaks for, and those that run others."""

from flowloom.agents.base_agent import BaseAgent
from flowloom.agents.llm_agent import Agent, LlmAgent
from flowloom.agents.workflow_agents import LoopAgent, ParallelAgent, SequentialAgent, WorkflowAgent
from flowloom.context.run_config import Limits, RunConfig, StreamingMode, ToolThreadPoolConfig

__all__ = [
    "Agent",
    "BaseAgent",
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
