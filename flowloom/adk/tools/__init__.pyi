# made from table.py by tests/adk/stubs.py

from flowloom.context import ToolContext
from flowloom.tools import AgentTool
from flowloom.tools import AuthenticatedFunctionTool
from flowloom.tools import BaseTool
from flowloom.tools import FunctionTool
from flowloom.tools import LoadArtifactsTool
from flowloom.tools import LoadMemoryTool
from flowloom.tools import LongRunningFunctionTool
from flowloom.tools import PreloadMemoryTool
from flowloom.tools import TransferToAgentTool
from flowloom.tools import enterprise_web_search
from flowloom.tools import exit_loop
from flowloom.tools import google_maps_grounding
from flowloom.tools import google_search
from flowloom.tools import load_artifacts
from flowloom.tools import load_memory
from flowloom.tools import preload_memory
from flowloom.tools import request_input
from flowloom.tools import transfer_to_agent
from flowloom.tools import url_context

__all__ = [
    "AgentTool",
    "AuthenticatedFunctionTool",
    "BaseTool",
    "FunctionTool",
    "LoadArtifactsTool",
    "LoadMemoryTool",
    "LongRunningFunctionTool",
    "PreloadMemoryTool",
    "ToolContext",
    "TransferToAgentTool",
    "exit_loop",
    "load_artifacts",
    "load_memory",
    "preload_memory",
    "request_input",
    "transfer_to_agent",
    "google_search",
    "url_context",
    "enterprise_web_search",
    "google_maps_grounding",
]
