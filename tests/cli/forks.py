"""Commands that are forked from a process which has everything imported: they take a tenth of the time to start."""

from __future__ import annotations

import os
import select
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import IO, Any, Self

from cli import fork_server
from cli.fork_server import NUMBER, receive, send

_OF_THE_INTERPRETER = ("PYTHON", "LC_", "LANG", "LD_", "TZ", "MALLOC_")
"""How the names of variables begin that an interpreter, or a library in C, reads when it starts."""


class Fork:
    """A process of the server's, with the parts of `subprocess.Popen` that tests use."""

    def __init__(self, args: Sequence[str], report: int, streams: Sequence[IO[Any] | None]) -> None:
        self.args = args
        self.stdin, self.stdout, self.stderr = streams
        self.returncode: int | None = None
        self._report = report
        self.pid = self._told()

    def _told(self) -> int:
        data = os.read(self._report, NUMBER.size)
        if not data:
            raise RuntimeError("The process that watches over a command has died.")
        return NUMBER.unpack(data)[0]

    def poll(self) -> int | None:
        with suppress(subprocess.TimeoutExpired):
            self.wait(0)
        return self.returncode

    def wait(self, timeout: float | None = None) -> int:
        if self.returncode is None:
            ready, _, _ = select.select([self._report], [], [], timeout)
            if not ready:
                raise subprocess.TimeoutExpired(self.args, timeout or 0)
            self.returncode = os.waitstatus_to_exitcode(self._told())
            os.close(self._report)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)

    def communicate(self, input: Any = None, timeout: float | None = None) -> tuple[Any, Any]:
        """Write, and read to the end. What takes longer than the timeout is killed."""
        with ThreadPoolExecutor(3) as pool:
            written = pool.submit(self._write, input)
            out, err = (pool.submit(stream.read) if stream else None for stream in (self.stdout, self.stderr))
            try:
                self.wait(timeout)
            except BaseException:
                self.kill()
                raise
            written.result()
            return out and out.result(), err and err.result()

    def _write(self, data: Any) -> None:
        if self.stdin is not None:
            with suppress(BrokenPipeError):
                if data:
                    self.stdin.write(data)
                self.stdin.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *exc_info: object) -> None:
        for stream in (self.stdout, self.stderr):
            if stream is not None:
                stream.close()
        self._write(None)
        self.wait()


class ForkServer:
    """The process that commands are forked from. It ends when the socket is closed: at the latest with this process."""

    def __init__(self, env: Mapping[str, str], imported: Sequence[str] = fork_server.IMPORTED) -> None:
        self._env = env
        self._socket, other = socket.socketpair()
        with other, tempfile.TemporaryFile() as said:
            self.process = subprocess.Popen(
                [sys.executable, fork_server.__file__, str(other.fileno()), *imported],
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                env=env,
                pass_fds=[other.fileno()],
            )
            other.close()
            self._looked_up, _ = receive(self._socket)
            said.seek(0)
            # a new process would say it with each command
            if self._looked_up is None or said.read(1):
                said.seek(0)
                self.close()
                raise RuntimeError(f"While modules were imported there was said: {said.read().decode()}")

    def close(self) -> None:
        self._socket.close()
        self.process.wait()

    def is_like(self, env: Mapping[str, str]) -> bool:
        """Whether the modules would have been imported in the same way with this environment."""
        names = {name for name in (*env, *self._env) if name.startswith(_OF_THE_INTERPRETER)}
        return all(env.get(name) == self._env.get(name) for name in names.union(self._looked_up))

    def start(
        self,
        args: Sequence[str],
        *,
        env: Mapping[str, str],
        cwd: str | Path | None = None,
        text: bool = True,
        terminal: int | None = None,
        out: int | None = None,
    ) -> Fork:
        """Start a command, behind pipes or on a terminal; there, its output may be led to `out`."""
        if terminal is not None:
            streams = [terminal, terminal if out is None else out, terminal]
            return self._start(args, env, cwd, streams, [None] * 3, is_terminal=True)
        pipes = [os.pipe() for _ in range(3)]
        theirs = [pipes[0][0], pipes[1][1], pipes[2][1]]
        ours = [pipes[0][1], pipes[1][0], pipes[2][0]]
        mode = "" if text else "b"
        streams = [os.fdopen(end, way + mode) for end, way in zip(ours, "wrr", strict=True)]
        try:
            return self._start(args, env, cwd, theirs, streams, is_terminal=False)
        finally:
            for end in theirs:
                os.close(end)

    def _start(
        self,
        args: Sequence[str],
        env: Mapping[str, str],
        cwd: str | Path | None,
        theirs: Sequence[int],
        streams: Sequence[IO[Any] | None],
        *,
        is_terminal: bool,
    ) -> Fork:
        ours, report = os.pipe()
        request = {"args": args, "env": dict(env), "cwd": str(cwd or os.getcwd()), "terminal": is_terminal}
        try:
            send(self._socket, request, [*theirs, report])
        finally:
            os.close(report)
        return Fork(args, ours, streams)
