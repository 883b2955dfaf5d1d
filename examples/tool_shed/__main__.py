"""An MCP client that borrows a tool of the shed: `python -m examples.tool_shed saw`."""

import asyncio
import sys
from pathlib import Path
from typing import Any

from mcp import Client, StdioServerParameters
from mcp_types import ElicitResult

SERVER = ["-m", "flowloom", "mcp", str(Path(__file__).parent), "--expose", "both", "--model", "offline"]


async def person(context: Any, question: Any) -> ElicitResult:
    """Who sits at the client decides what a call waits for."""
    answer = await asyncio.to_thread(input, f"{question.message}\n[y/n] ")
    return ElicitResult(action="accept", content={"confirmed": answer.strip().lower() == "y"})


async def visit(tool: str) -> None:
    """Start the server, see what it has, and borrow a tool."""
    async with Client(
        StdioServerParameters(command=sys.executable, args=SERVER), elicitation_callback=person
    ) as client:
        for served in (await client.list_tools()).tools:
            print(f"{served.name}: {served.description}")
        for name, arguments in (
            ("list_shed", {}),
            ("borrow", {"tool": tool}),
            ("list_shed", {}),
            ("warden", {"request": "What is in the shed?"}),
        ):
            result = await client.call_tool(name, arguments)
            print(f"{name} -> {result.content[0].text}")


if __name__ == "__main__":
    asyncio.run(visit(sys.argv[1] if len(sys.argv) > 1 else "saw"))
