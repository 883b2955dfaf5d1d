"""What the tests of MCP share: the raw server as a toolset, and what it has received."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from pathlib import Path
from typing import Any

from google.genai import types
from kit import Chat, agent

from flowloom import LlmAgent, McpToolset
from flowloom.protocols.mcp import StdioConnectionParams
from flowloom.testing import call

SERVER = Path(__file__).with_name("raw_server.py")


class Raw:
    """A raw server that does as it is `told`, and its journal."""

    def __init__(self, folder: Path, **told: Any) -> None:
        self.journal = folder / f"journal-{len(list(folder.iterdir()))}.jsonl"
        self.told = {"journal": str(self.journal), **told}

    def params(self, timeout: float = 30.0, **fields: Any) -> StdioConnectionParams:
        server = {"command": sys.executable, "args": ["-I", str(SERVER), json.dumps(self.told)], **fields}
        return StdioConnectionParams(server, timeout=timeout)

    def toolset(self, timeout: float = 30.0, env: dict[str, str] | None = None, **options: Any) -> McpToolset:
        return McpToolset(connection_params=self.params(timeout, env=env), **options)

    def noted(self) -> list[dict[str, Any]]:
        text = self.journal.read_text() if self.journal.exists() else ""
        return [json.loads(line) for line in text.splitlines()]

    def received(self, method: str) -> list[dict[str, Any]]:
        return [each["got"] for each in self.noted() if each.get("got", {}).get("method") == method]

    async def until(self, method: str, count: int) -> None:
        """Wait until so many messages of a method have come."""
        for _ in range(500):
            if len(self.received(method)) >= count:
                return
            await asyncio.sleep(0.02)
        raise AssertionError(f"{method} has not come {count} times")

    @property
    def pids(self) -> list[int]:
        return [each["pid"] for each in self.noted() if each.get("started")]


async def pass_time(seconds: float) -> None:
    """Have the event loop's clock go on by so much, at once: what was to be done by then is done."""
    loop: Any = asyncio.get_running_loop()
    now = loop.time
    loop.time = lambda: now() + seconds
    for _ in range(10):
        await asyncio.sleep(0)


def is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    status = Path(f"/proc/{pid}/stat")
    return not (status.exists() and status.read_text().rpartition(")")[2].split()[0] == "Z")


def asks(toolset: McpToolset, *answers: Any, **fields: Any) -> LlmAgent:
    """An agent with the tools of a toolset."""
    return agent("root", *answers, tools=[toolset], **fields)


async def results_of(toolset: McpToolset, *calls: types.Part) -> list[Any]:
    """What calls of one answer give, in order; the runner is closed."""
    chat = Chat(asks(toolset, list(calls), "ok"))
    try:
        events = await chat.say("go")
    finally:
        await chat.runner.close()
    return [each.response for event in events for each in event.get_function_responses()]


async def result_of(toolset: McpToolset, name: str, /, **args: Any) -> Any:
    """What one call gives."""
    (result,) = await results_of(toolset, call(name, **args))
    return result
