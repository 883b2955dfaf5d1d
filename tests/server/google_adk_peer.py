"""google-adk in an environment of its own, and one folder of agents behind its server and ours."""

from __future__ import annotations

import fcntl
import os
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from benchmarks.engines import GOOGLE_ADK, HOMES, install
from flowloom.server.serving import bound_socket

AGENTS = Path(__file__).parent / "google_adk_agents"
ROOT = Path(__file__).parent.parent.parent
START = 120
"""Seconds in which a server has to answer: google-adk's imports take long on a busy machine."""


def google_adk_python() -> str:
    """The interpreter of an environment with google-adk, which is made once and kept; skips where it cannot be made."""
    HOMES.mkdir(exist_ok=True)
    with (HOMES / "google-adk.lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        try:
            return install(GOOGLE_ADK).python
        except (subprocess.CalledProcessError, OSError) as error:
            pytest.skip(f"google-adk could not be installed into an environment of its own: {error}")


@contextmanager
def process_at(command: Sequence[str], log: Path, env: Mapping[str, str] | None = None) -> Iterator[subprocess.Popen]:
    """A server's process, which is ended in good order when the block is left."""
    with log.open("wb") as output:
        # a folder of its own: `google` in the folder of the tests is not looked for
        process = subprocess.Popen(
            command, stdout=output, stderr=subprocess.STDOUT, cwd=log.parent, env={**os.environ, **(env or {})}
        )
    try:
        yield process
    finally:
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(20)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def wait_until_it_answers(url: str, process: subprocess.Popen, log: Path) -> None:
    """Raise `AssertionError` with the end of the log if a server does not answer."""
    limit = time.monotonic() + START
    while time.monotonic() < limit:
        try:
            httpx.get(f"{url}/list-apps", timeout=5, trust_env=False)
        except httpx.TransportError:
            assert process.poll() is None, f"The server has ended: {log.read_text()[-2000:]}"
            time.sleep(0.1)
        else:
            return
    raise AssertionError(f"The server does not answer: {log.read_text()[-2000:]}")


@contextmanager
def google_adk_server(folder: Path, *options: str, command: str = "web", agents: Path = AGENTS) -> Iterator[str]:
    """The address of google-adk's server of the agents."""
    python = google_adk_python()
    with bound_socket("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    url, log = f"http://127.0.0.1:{port}", folder / "google-adk.log"
    memory = ("--session_service_uri", "memory://", "--artifact_service_uri", "memory://")
    arguments = [python, "-m", "google.adk.cli", command, "--port", str(port), "--no-reload", *memory, *options]
    # a home of its own: what a person has chosen about telemetry is kept there
    environment = {"PYTHONPATH": "", "PYTHONWARNINGS": "ignore", "HOME": str(folder)}
    # a copy: its builder writes into the folder that it serves
    copy = shutil.copytree(agents, folder / "google-adk-agents", dirs_exist_ok=True)
    with process_at([*arguments, str(copy)], log, environment) as process:
        wait_until_it_answers(url, process, log)
        yield url


def google_adk_ui() -> str:
    """The folder of the web UI that google-adk brings."""
    code = "import google.adk.cli as cli, pathlib; print(pathlib.Path(cli.__file__).parent / 'browser')"
    return subprocess.run([google_adk_python(), "-c", code], capture_output=True, text=True, check=True).stdout.strip()


@contextmanager
def our_server(folder: Path, *options: str, command: str = "web", agents: Path = AGENTS) -> Iterator[str]:
    """The address of our server of the same agents."""
    log = folder / "flowloom.log"
    memory = ("--session_service_uri", "memory://", "--artifact_service_uri", "memory://")
    arguments = [sys.executable, "-m", "flowloom", command, "--port", "0", *memory, *options]
    with process_at([*arguments, str(agents)], log, {"PYTHONPATH": str(ROOT)}) as process:
        yield printed_address(process, log)


def printed_address(process: subprocess.Popen, log: Path) -> str:
    """What a server prints that has found a port."""
    limit = time.monotonic() + START
    while time.monotonic() < limit:
        for line in log.read_text().splitlines():
            if "http://" in line:
                return "http://" + line.partition("http://")[2].split()[0].rstrip("/")
        assert process.poll() is None, f"The server has ended: {log.read_text()[-2000:]}"
        time.sleep(0.05)
    raise AssertionError(f"The server has not said where it is: {log.read_text()[-2000:]}")
