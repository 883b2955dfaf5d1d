"""`flowloom mcp`: the command as MCP clients start it, and over HTTP."""

from __future__ import annotations

import asyncio
import re
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
from mcp import Client, StdioServerParameters
from mcp.client.stdio import stdio_client
from typer.testing import CliRunner

from cli.process import ROOT, environment
from flowloom.cli.commands import app

AGENT = '''
import os
from flowloom import LlmAgent

print("loaded")
os.system("echo from a child")

def ring(times: int = 1) -> dict:
    """Ring."""
    print("ding")
    os.system("echo dong")
    return {"rung": times}

root_agent = LlmAgent(name="bell", description="Rings.", instruction="Ring.", tools=[ring])
'''


@pytest.fixture
def bell(tmp_path: Path) -> Path:
    """The file of an agent that prints."""
    path = tmp_path / "bell.py"
    path.write_text(AGENT)
    return path


def arguments(path: Path, *more: str) -> list[str]:
    return ["-m", "flowloom", "mcp", str(path), "--model", "offline", *more]


@asynccontextmanager
async def piped(path: Path, *more: str, mode: str = "auto") -> AsyncIterator[Any]:
    """A client at the other end of the command's pipes; what the command says on stderr is in `errors` beside it."""
    env = environment(PYTHONPATH=str(ROOT))
    with path.with_name("errors").open("w") as errors:
        parameters = StdioServerParameters(command=sys.executable, args=arguments(path, *more), env=env)
        async with Client(stdio_client(parameters, errlog=errors), mode=mode) as client:  # type: ignore[arg-type]
            yield client


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_nothing_but_the_protocol_is_on_stdout(bell: Path, mode: str) -> None:
    """What the agent's file, its tools and their children print goes to stderr."""
    async with piped(bell, "--expose", "both", mode=mode) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        result = await client.call_tool("ring", {"times": 2})
        answer = await client.call_tool("bell", {"request": "Ring."})
    assert names == ["bell", "ring"]
    assert result.structured_content == {"rung": 2}
    assert not answer.is_error
    told = bell.with_name("errors").read_text()
    assert all(word in told for word in ("loaded", "from a child", "ding", "dong", "All agents use the model offline"))


async def test_http_is_served_at_a_port(bell: Path) -> None:
    """The address is told on stderr; a token is asked for; SIGTERM ends it."""
    command = [sys.executable, *arguments(bell, "--port", "0", "--token", "a-token-of-20-letters")]
    env = environment(PYTHONPATH=str(ROOT))
    pipe = asyncio.subprocess.PIPE
    process = await asyncio.create_subprocess_exec(*command, env=env, stdout=pipe, stderr=pipe)
    assert process.stderr is not None
    try:
        url = None
        while url is None:
            line = (await asyncio.wait_for(process.stderr.readline(), 60)).decode()
            assert line, "the server has ended"
            found = re.search(r"http://\S+", line)
            url = found and found[0]
        async with httpx2.AsyncClient() as http:
            assert (await http.post(url, json={})).status_code == 401
            headers = {"authorization": "Bearer a-token-of-20-letters", "host": "evil.example"}
            assert (await http.post(url, json={}, headers=headers)).status_code == 403
    finally:
        process.terminate()
        out, _ = await asyncio.wait_for(process.communicate(), 30)
    assert url.endswith("/mcp")
    assert out == b""


def test_what_cannot_be_served_is_told(bell: Path, tmp_path: Path) -> None:
    """A path without an agent, and an address that others reach, are errors of one line, and no traceback."""
    nothing = CliRunner().invoke(app, ["mcp", str(tmp_path / "none.py")])
    assert nothing.exit_code == 2
    assert "There is no file or folder" in nothing.stderr
    open_to_all = CliRunner().invoke(app, ["mcp", str(bell), "--model", "offline", "--host", "0.0.0.0", "--port", "0"])
    assert open_to_all.exit_code == 1
    assert "allowed_hosts" in open_to_all.stderr
    assert open_to_all.stdout == ""
    nowhere = CliRunner().invoke(app, ["mcp", str(bell), "--host", "0.0.0.0"])
    assert (nowhere.exit_code, "--port" in nowhere.stderr) == (2, True)
