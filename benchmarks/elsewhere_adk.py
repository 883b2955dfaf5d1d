"""What an MCP call costs in a turn of google-adk: run in its environment, it writes the rounds as JSON.

`python -m benchmarks.elsewhere_adk ROUNDS EACH`
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
import warnings
from collections.abc import AsyncGenerator, Awaitable, Callable
from typing import Any

from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.adk.tools.mcp_tool import McpToolset, StdioConnectionParams
from google.genai import types
from mcp import StdioServerParameters

from benchmarks.elsewhere_rounds import add, command, measured


class Scripted(BaseLlm):
    """Calls the tool, and then ends the turn."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        answered = llm_request.contents[-1].parts[-1].function_response is not None
        call = types.FunctionCall(name="add", args={"a": 1, "b": 2})
        part = types.Part(text="3") if answered else types.Part(function_call=call)
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


def turns(tool: Any) -> Callable[[int], Awaitable[None]]:
    """A turn of a session of its own with one call."""
    sessions = InMemorySessionService()
    agent = LlmAgent(name="root", model=Scripted(model="scripted"), tools=[tool])
    runner = Runner(app_name="app", agent=agent, session_service=sessions)

    async def turn(number: int) -> None:
        session = await sessions.create_session(app_name="app", user_id="u", session_id=f"s{number}")
        message = types.Content(role="user", parts=[types.Part(text="go")])
        found: list[Any] = []
        async for event in runner.run_async(user_id="u", session_id=session.id, new_message=message):
            found += event.get_function_responses()
        if "3" not in str(found[0].response):
            raise RuntimeError(f"The call gave {found[0].response!r:.100}.")

    return turn


async def main() -> list[Any]:
    rounds, each = int(sys.argv[1]), int(sys.argv[2])
    params = StdioConnectionParams(server_params=StdioServerParameters(**command()), timeout=60)
    toolset = McpToolset(connection_params=params)
    try:
        return await measured(turns(add), turns(toolset), rounds, each)
    finally:
        await toolset.close()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    warnings.simplefilter("ignore")
    told = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)  # what a library prints does not get into the answer
    print(json.dumps(asyncio.run(main())), file=told, flush=True)
