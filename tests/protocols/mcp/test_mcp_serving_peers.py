"""MCP's own conformance suite asks a server of ours, and a client of another language talks to it."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from peers import npm_packages

pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]
ROOT = Path(__file__).parents[3]
FOLDER = ROOT / ".bench" / "mcp-peers"
SERVER = Path(__file__).with_name("conformance_server.py")
SCENARIOS = (
    "server-initialize",
    "ping",
    "tools-list",
    "tools-call-simple-text",
    "tools-call-image",
    "tools-call-audio",
    "tools-call-embedded-resource",
    "tools-call-mixed-content",
    "tools-call-error",
    "tools-call-with-progress",
    "tools-call-elicitation",
    "server-sse-multiple-streams",
    "dns-rebinding-protection",
)


@pytest.fixture(scope="module")
def node() -> Path:
    """The folder of the programs of npm, with a Node of its own."""
    names = ("node@22", "@modelcontextprotocol/conformance", "@modelcontextprotocol/server-everything")
    return npm_packages(FOLDER, *names) / ".bin"


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    """The address of the server, which is a process of its own."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, str(SERVER), str(port)]
    process = subprocess.Popen(command, env={**os.environ, "PYTHONPATH": str(ROOT)}, stderr=subprocess.DEVNULL)
    try:
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port)).close()
                break
            except OSError:
                time.sleep(0.1)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        process.terminate()
        process.wait(30)


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_the_conformance_suite_takes_our_server(node: Path, url: str, scenario: str) -> None:
    """Each of its checks passes, and none is a warning."""
    command = [str(node / "conformance"), "server", "--url", url, "--scenario", scenario]
    path = f"{node}{os.pathsep}{os.environ['PATH']}"
    ran = subprocess.run(
        command, capture_output=True, text=True, env={**os.environ, "PATH": path}, timeout=300, cwd=FOLDER
    )
    told = ran.stdout + ran.stderr
    assert ran.returncode == 0, told[-3000:]
    assert "0 failed, 0 warnings" in told, told[-3000:]
    assert "SUCCESS" in told, told[-3000:]
