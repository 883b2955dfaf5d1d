"""Agents from YAML and JSON files.

It imports `agents`, `models`, `tools`, `protocols` and `skills`. Begin with `loader.py`; `forms.py` is what a file may
say, and `schema.py` makes the published JSON schema of it.
"""

from __future__ import annotations

from flowloom.config.forms import (
    AgentRefConfig,
    BaseAgentConfig,
    CodeConfig,
    LlmAgentConfig,
    LoopAgentConfig,
    ParallelAgentConfig,
    RemoteA2aAgentConfig,
    SequentialAgentConfig,
    ToolArgsConfig,
    ToolConfig,
)
from flowloom.config.loader import agent_from_config, from_config
from flowloom.config.problems import ConfigFileError, ConfigProblem
from flowloom.config.schema import agent_config_schema
from flowloom.config.written import write_config

__all__ = [
    "AgentRefConfig",
    "BaseAgentConfig",
    "CodeConfig",
    "ConfigFileError",
    "ConfigProblem",
    "LlmAgentConfig",
    "LoopAgentConfig",
    "ParallelAgentConfig",
    "RemoteA2aAgentConfig",
    "SequentialAgentConfig",
    "ToolArgsConfig",
    "ToolConfig",
    "agent_config_schema",
    "agent_from_config",
    "from_config",
    "write_config",
]
