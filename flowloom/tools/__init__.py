"""Tools: what models can call."""

from flowloom.context import ToolContext
from flowloom.events import ToolConfirmation
from flowloom.tools.agent_tool import AgentTool
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.base_toolset import BaseToolset
from flowloom.tools.exit_loop import exit_loop
from flowloom.tools.function_tool import FunctionTool, LongRunningFunctionTool
from flowloom.tools.load_artifacts import LoadArtifactsTool, load_artifacts
from flowloom.tools.memory_tools import LoadMemoryTool, PreloadMemoryTool, load_memory, preload_memory
from flowloom.tools.transfer import TransferToAgentTool, transfer_to_agent

__all__ = [
    "AgentTool",
    "BaseTool",
    "BaseToolset",
    "FunctionTool",
    "LoadArtifactsTool",
    "LoadMemoryTool",
    "LongRunningFunctionTool",
    "PreloadMemoryTool",
    "ToolConfirmation",
    "ToolContext",
    "TransferToAgentTool",
    "exit_loop",
    "load_artifacts",
    "load_memory",
    "preload_memory",
    "transfer_to_agent",
]
