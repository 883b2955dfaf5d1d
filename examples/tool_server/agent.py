"""A receptionist whose tools are those of a museum's server, which is started as a process of its own."""

import sys
from pathlib import Path

from flowloom import LlmAgent, McpToolset
from flowloom.protocols.mcp import StdioConnectionParams

museum = McpToolset(
    connection_params=StdioConnectionParams(
        {"command": sys.executable, "args": [str(Path(__file__).with_name("museum.py"))]}, timeout=60
    ),
    tool_name_prefix="museum",
)

root_agent = LlmAgent(
    name="receptionist",
    model="gemini-2.5-flash",
    description="Tells visitors when the museum is open, and books their tours.",
    instruction="Answer questions about the museum with your tools. Book a tour only if you are asked to.",
    tools=[museum],
)
