"""llama.cpp's server with a small instruct model, as `make real-model` builds them."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

FOLDER = Path(os.environ.get("FLOWLOOM_REAL_MODEL") or Path(__file__).parents[2] / ".real-model")
SERVER, MODEL = FOLDER / "build" / "bin" / "llama-server", next(FOLDER.glob("*.gguf"), None)
LONGEST = 96
"""Tokens that an answer has at most: whatever the model says, it ends."""
_SECONDS_TO_LOAD = 180


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    here = f"{Path(__file__).parent}{os.sep}"
    for item in items:
        if str(item.path).startswith(here):  # there are many
            item.add_marker(pytest.mark.real_model)
            item.add_marker(pytest.mark.timeout(900))


@pytest.fixture(scope="session")
def address() -> Iterator[str]:
    """Where the server listens. It is ended with the tests."""
    if not SERVER.is_file() or MODEL is None:
        pytest.fail("There is no model server yet: `make real-model` builds it.")
    port = _free_port()
    slots = ["--parallel", "8", "--ctx-size", str(8 * 2048), "--predict", str(LONGEST)]
    # several threads wait for each other actively, which takes minutes where others need the processors
    slots += ["--threads", "1", "--threads-http", "8"]
    where = ["--host", "127.0.0.1", "--port", str(port)]
    with (FOLDER / "server.log").open("wb") as log:
        process = subprocess.Popen(
            [str(SERVER), "--model", str(MODEL), "--jinja", "--no-webui", *slots, *where],
            stdout=log,
            stderr=subprocess.STDOUT,
        )
        try:
            _wait_for(process, f"http://127.0.0.1:{port}")
            yield f"http://127.0.0.1:{port}"
        finally:
            process.send_signal(signal.SIGTERM)
            try:
                process.wait(30)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        name: Any = probe.getsockname()
        return name[1]


def _wait_for(process: subprocess.Popen[bytes], address: str) -> None:
    ends = time.monotonic() + _SECONDS_TO_LOAD
    while time.monotonic() < ends:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(f"{address}/health", timeout=5) as answer:
                if answer.status == 200:
                    return
        except OSError:
            pass
        time.sleep(0.2)
    pytest.fail(f"The model server did not start; {FOLDER / 'server.log'} says why.")
