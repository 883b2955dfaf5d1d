"""A process that is told to stop while runs go on (server spec §9)."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Generator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
from server.serving import PATIENCE, Running, eventually
from server.talker import body, data_of, stream

_TESTS = Path(__file__).parent.parent
_PROGRAM = """
import sys
from server.talker import talker
from flowloom.server import serve
serve(talker(), port=0, shutdown_grace=float(sys.argv[1]), on_busy="reject")
"""


@contextmanager
def process(grace: float) -> Generator[tuple[subprocess.Popen[str], str]]:
    """A server in a process of its own, and its address."""
    path = os.pathsep.join([str(_TESTS), str(_TESTS.parent), os.environ.get("PYTHONPATH", "")])
    command = [sys.executable, "-c", _PROGRAM, str(grace)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path}) as made:
        try:
            assert made.stdout is not None
            yield made, made.stdout.readline().split()[-1]
        finally:
            made.kill()


def test_fifty_open_streams_end_in_the_grace() -> None:
    """The process takes no new runs, ends the open ones with an error frame, and is gone in time."""
    with process(2.0) as (server, url), ExitStack() as opened:
        client = opened.enter_context(httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE))
        running = Running.__new__(Running)
        running.url = url
        streams = []
        for number in range(50):
            path = f"/apps/desk/users/ann/sessions/s{number}"
            assert client.post(path).status_code == 200
            streams.append(
                opened.enter_context(stream(running, "/run_sse", body(f"s{number}", "hang 1", streaming=True)))
            )
        begun = [next(each) for each in streams]
        assert len(begun) == 50
        server.send_signal(signal.SIGTERM)
        eventually(lambda: client.get("/ready").json().get("code") == "shutting_down")
        answer = client.post("/run_sse", json=body("s0"))
        assert (answer.status_code, answer.json()["code"]) == (503, "shutting_down")
        stopping = time.monotonic()
        ends = [data_of("".join(chunk.decode() for chunk in each)) for each in streams]
        assert {frames[-1]["error_details"]["error_type"] for frames in ends} == {"shutting_down"}
        assert {frames[-2]["errorCode"] for frames in ends} == {"INVOCATION_ABORTED"}
        client.close()
        assert server.wait(PATIENCE) in (0, -signal.SIGTERM)
        assert time.monotonic() - stopping < 20


def test_a_second_signal_ends_it() -> None:
    """Without the grace."""
    with process(600) as (server, url), httpx.Client(base_url=url, trust_env=False, timeout=PATIENCE) as client:
        client.post("/apps/desk/users/ann/sessions/s1")
        running = Running.__new__(Running)
        running.url = url
        with stream(running, "/run_sse", body("s1", "hang 1", streaming=True)) as chunks:
            next(chunks)
            reading = threading.Thread(target=lambda: list(chunks))
            reading.start()
            server.send_signal(signal.SIGTERM)
            eventually(lambda: client.get("/ready").status_code == 503)  # two at once may be seen as one
            server.send_signal(signal.SIGTERM)
            server.wait(PATIENCE)
            reading.join()
