"""Tools: what models can call.

It imports `telemetry`, `context` and the rooms below. Begin with `base_tool.py` and `function_tool.py`; `calls.py`
runs calls.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from flowloom.context import ToolContext
from flowloom.events import ToolConfirmation
from flowloom.objects.on_use import homes_of, loaded_on_use
from flowloom.tools.agent_tool import AgentTool
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.base_toolset import BaseToolset
from flowloom.tools.exit_loop import exit_loop
from flowloom.tools.load_artifacts import LoadArtifactsTool, load_artifacts
from flowloom.tools.transfer import TransferToAgentTool, transfer_to_agent

if TYPE_CHECKING:
    from flowloom.tools.authenticated import AuthenticatedFunctionTool
    from flowloom.tools.function_tool import FunctionTool, LongRunningFunctionTool
    from flowloom.tools.input_request import RequestInputTool, request_input
    from flowloom.tools.memory_tools import LoadMemoryTool, PreloadMemoryTool, load_memory, preload_memory
    from flowloom.tools.placeholder import PlaceholderTool
    from flowloom.tools.server_tools import (
        EnterpriseWebSearchTool,
        GoogleMapsGroundingTool,
        GoogleSearchAgentTool,
        GoogleSearchTool,
        GoogleTool,
        NativeOrTool,
        ServerTool,
        UrlContextTool,
        code_execution,
        enterprise_web_search,
        google_maps_grounding,
        google_search,
        url_context,
    )

_HOMES = {
    "memory_tools": "LoadMemoryTool PreloadMemoryTool load_memory preload_memory",
    "authenticated": "AuthenticatedFunctionTool",
    "function_tool": "FunctionTool LongRunningFunctionTool",
    "input_request": "RequestInputTool request_input",
    "placeholder": "PlaceholderTool",
    "server_tools": "EnterpriseWebSearchTool GoogleMapsGroundingTool GoogleSearchAgentTool "
    "GoogleSearchTool GoogleTool NativeOrTool ServerTool UrlContextTool code_execution "
    "enterprise_web_search google_maps_grounding google_search url_context",
}

__all__ = [
    "AgentTool",
    "AuthenticatedFunctionTool",
    "BaseTool",
    "BaseToolset",
    "EnterpriseWebSearchTool",
    "FunctionTool",
    "GoogleMapsGroundingTool",
    "GoogleSearchAgentTool",
    "GoogleSearchTool",
    "GoogleTool",
    "LoadArtifactsTool",
    "LoadMemoryTool",
    "LongRunningFunctionTool",
    "NativeOrTool",
    "PlaceholderTool",
    "PreloadMemoryTool",
    "RequestInputTool",
    "ServerTool",
    "ToolConfirmation",
    "ToolContext",
    "TransferToAgentTool",
    "UrlContextTool",
    "code_execution",
    "enterprise_web_search",
    "exit_loop",
    "google_maps_grounding",
    "google_search",
    "load_artifacts",
    "load_memory",
    "preload_memory",
    "request_input",
    "transfer_to_agent",
    "url_context",
]

__getattr__, __dir__ = loaded_on_use(__name__, homes_of(__name__, _HOMES))
