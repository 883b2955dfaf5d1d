"""Servers and suites of others: the reference servers, and MCP's own conformance suite for clients."""

from __future__ import annotations

import asyncio
import os
import re
import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from mcp_kit import results_of
from peers import alone_in, missing, npm_packages

from flowloom import McpToolset
from flowloom.protocols.mcp import StdioConnectionParams, StreamableHTTPConnectionParams
from flowloom.testing import call

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".bench" / "mcp-peers"
CLIENT = Path(__file__).with_name("conformance_client.py")
SCENARIOS = (
    "initialize tools_call elicitation-sep1034-client-defaults sse-retry auth/metadata-default auth/metadata-var1 "
    "auth/metadata-var2 auth/metadata-var3 auth/basic-cimd auth/scope-from-www-authenticate "
    "auth/scope-from-scopes-supported auth/scope-omitted-when-undefined auth/scope-step-up auth/scope-retry-limit "
    "auth/token-endpoint-auth-basic auth/token-endpoint-auth-post auth/token-endpoint-auth-none auth/pre-registration "
    "auth/2025-03-26-oauth-metadata-backcompat auth/2025-03-26-oauth-endpoint-fallback auth/resource-mismatch "
    "auth/offline-access-scope auth/offline-access-not-supported auth/client-credentials-basic "
    "auth/client-credentials-jwt auth/cross-app-access-complete-flow"
).split()
"""All that there are for clients; `test_every_scenario_for_clients_is_run` holds that."""


@cache
def installed(what: str, commands: tuple[tuple[str, ...], ...], folder: Path) -> str | None:
    """Install something into a folder of the tests; why it cannot be, or None."""
    if shutil.which(commands[0][0]) is None:
        return f"{what}: there is no {commands[0][0]}"
    with alone_in(folder):
        for command in commands:
            ran = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=500)
            if ran.returncode:
                return f"{what} cannot be installed: {ran.stderr[-300:]}"
    return None


@pytest.fixture(scope="module")
def node() -> Path:
    """The folder of the programs of npm, with a Node of its own."""
    names = ("node@22", "@modelcontextprotocol/conformance", "@modelcontextprotocol/server-everything")
    return npm_packages(FOLDER, *names) / ".bin"


def environment(node: Path) -> dict[str, str]:
    return {**os.environ, "PATH": f"{node}{os.pathsep}{os.environ['PATH']}", "PYTHONPATH": str(ROOT)}


def test_every_scenario_for_clients_is_run(node: Path) -> None:
    """What the suite lists for clients, drafts and extensions too, is what is run here."""
    command = [str(node / "conformance"), "list"]
    told = subprocess.run(
        command, capture_output=True, text=True, env=environment(node), timeout=120, check=True
    ).stdout
    listed = re.findall(r"^ +- (\S+)", told.partition("Client scenarios")[2], re.MULTILINE)
    assert listed
    assert set(SCENARIOS) == set(listed)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_conformance_suite_takes_our_client(node: Path, scenario: str) -> None:
    """Each of its checks passes."""
    suite = [str(node / "conformance"), "client", "--timeout", "240000"]  # milliseconds, for a machine that is busy
    command = [*suite, "--command", f"{sys.executable} {CLIENT}", "--scenario", scenario]
    ran = subprocess.run(command, capture_output=True, text=True, env=environment(node), timeout=400, cwd=FOLDER)
    told = ran.stdout + ran.stderr
    assert "OVERALL: PASSED" in told, told[-3000:]


async def everything(toolset: McpToolset) -> None:
    echo, total, image = await results_of(
        toolset, call("echo", message="hello"), call("get-sum", a=2, b=3), call("get-tiny-image")
    )
    assert echo == {"result": "Echo: hello"}
    assert "5" in total["result"]
    assert "[image/png, " in image["result"]


async def test_server_everything_over_stdio(node: Path) -> None:
    """The reference server: texts, numbers, images."""
    server = {
        "command": str(node / "mcp-server-everything"),
        "args": ["stdio"],
        "env": {"PATH": environment(node)["PATH"]},
    }
    await everything(McpToolset(connection_params=StdioConnectionParams(server, timeout=60)))


async def test_server_everything_over_http(node: Path) -> None:
    """The same at an address."""
    async with running([str(node / "mcp-server-everything"), "streamableHttp"], node, 3917) as url:
        await everything(McpToolset(connection_params=StreamableHTTPConnectionParams(url, timeout=30)))


@asynccontextmanager
async def running(command: list[str], node: Path, port: int) -> AsyncIterator[str]:
    """A server at a port, once it takes connections."""
    process = await asyncio.create_subprocess_exec(
        *command,
        env={**environment(node), "PORT": str(port)},
        stdout=asyncio.subprocess.DEVNULL,
        stderr=asyncio.subprocess.DEVNULL,
    )
    try:
        await _until(lambda: _connects(port))
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        await process.wait()


async def _until(condition: Callable[[], Any]) -> None:
    for _ in range(600):
        if await condition():
            return
        await asyncio.sleep(0.1)
    raise AssertionError("the server did not start")


async def _connects(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


async def test_the_reference_time_server() -> None:
    """A Python server of the older SDK, in an environment of its own."""
    python = FOLDER / "time" / "bin" / "python"
    if not python.exists():
        make = ((sys.executable, "-m", "venv", "time"), (str(python), "-m", "pip", "install", "-q", "mcp-server-time"))
        reason = installed("mcp-server-time", make, FOLDER)
        if reason is not None:
            missing(reason)
    params = StdioConnectionParams({"command": str(python), "args": ["-m", "mcp_server_time"]}, timeout=60)
    time, wrong = await results_of(
        McpToolset(connection_params=params),
        call("get_current_time", timezone="Europe/Lisbon"),
        call("get_current_time"),
    )
    assert "Europe/Lisbon" in str(time)
    assert "'timezone' is a required property" in wrong["error"]
