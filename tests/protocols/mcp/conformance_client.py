"""The client that MCP's own conformance suite starts: an agent with a toolset, whose address comes last."""

from __future__ import annotations

import asyncio
import os
import sys
from typing import Any

from flowloom import InMemoryRunner, LlmAgent, McpToolset
from flowloom.protocols.mcp import StreamableHTTPConnectionParams
from flowloom.testing import ScriptedModel, call

CALLS: dict[str, list[Any]] = {
    "tools_call": [call("add_numbers", a=5, b=3)],
    "sse-retry": [call("test_reconnection")],
    "elicitation-sep1034-client-defaults": [call("test_client_elicitation_defaults")],
}


async def main() -> None:
    """One turn: the server's tools are listed, and the scenario's are called."""

    async def accept(context: Any, params: Any) -> Any:
        defaults = {name: each["default"] for name, each in params.requested_schema["properties"].items()}
        return {"action": "accept", "content": defaults}

    toolset = McpToolset(
        connection_params=StreamableHTTPConnectionParams(sys.argv[-1], timeout=20), elicitation_callback=accept
    )
    calls = CALLS.get(os.environ.get("MCP_CONFORMANCE_SCENARIO", ""), [])
    model = ScriptedModel([*([calls] if calls else []), "done"])
    async with InMemoryRunner(LlmAgent(name="client", model=model, tools=[toolset]), app_name="app") as runner:
        async for _ in runner.run_async(user_id="u", session_id="s", new_message="go"):
            pass


asyncio.run(main())
