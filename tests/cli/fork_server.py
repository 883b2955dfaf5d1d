"""`python fork_server.py SOCKET MODULE...`: imports what the commands need once, then forks a process for each command.

Each command runs in a process that looks like a new one: `become` makes it what `python -m` would have begun with, and
it ends as the interpreter ends. What is left of the difference: more modules are loaded, the seed of hashes is the
server's, its frames are below those of the command, and the parent is another. Only the standard library is imported
here.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import io
import json
import os
import runpy
import signal
import socket
import struct
import sys
import termios
import threading
from collections.abc import Iterator, Sequence
from types import ModuleType, TracebackType
from typing import Any

IMPORTED = (
    "flowloom.cli.asking",
    "flowloom.cli.commands",
    "flowloom.cli.mcp",
    "flowloom.cli.runs",
    "flowloom.cli.schedules",
    "flowloom.cli.sessions",
    "flowloom.cli.web",
    "flowloom.cli.worker",
    "flowloom.memory.postgres",
    "flowloom.memory.sqlite",
    "flowloom.models.gemini_service",
    "flowloom.sessions.postgres",
    "flowloom.sessions.sqlite",
    "flowloom.testing",
    "jinja2.sandbox",
    "prompt_toolkit",
)
"""Left out is what few commands need: the SDKs of other providers, and the modules that show help in colour."""

LENGTH = struct.Struct("!I")
NUMBER = struct.Struct("!i")

Request = dict[str, Any]


class _Watched(os._Environ[str]):  # pyright: ignore[reportPrivateUsage] - its only name
    """The environment, which notes what is looked up in it."""

    looked_up: set[str] = set()  # noqa: RUF012 - an instance has no room for it

    def __getitem__(self, name: str) -> str:
        self.looked_up.add(name)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:
        self.looked_up.update(super().__iter__())
        return super().__iter__()


def watched_imports(modules: Sequence[str]) -> list[str]:
    """Import modules; the names of the environment variables that could have made a difference to them."""
    usual = type(os.environ)
    os.environ.__class__ = _Watched
    try:
        for name in modules:
            importlib.import_module(name)
    finally:
        os.environ.__class__ = usual
    return sorted(_Watched.looked_up)


# -- what is said on the socket --------------------------------------------------------------------------------


def send(connection: socket.socket, data: Any, descriptors: Sequence[int] = ()) -> None:
    text = json.dumps(data).encode()
    socket.send_fds(connection, [LENGTH.pack(len(text))], descriptors)
    connection.sendall(text)


def receive(connection: socket.socket) -> tuple[Any, list[int]]:
    """What was sent, and the descriptors that came with it; None when the other side has gone."""
    header, descriptors, _, _ = socket.recv_fds(connection, LENGTH.size, 4)
    if not header:
        return None, []
    (rest,) = LENGTH.unpack(header)
    pieces: list[bytes] = []
    while rest:
        piece = connection.recv(rest)
        if not piece:
            return None, descriptors
        pieces.append(piece)
        rest -= len(piece)
    return json.loads(b"".join(pieces)), descriptors


# -- the server ------------------------------------------------------------------------------------------------


def serve(connection: socket.socket) -> Request:
    """Fork for each request. Returns in the processes that are to become a command; the server itself ends here."""
    while True:
        try:
            request, descriptors = receive(connection)
        except (KeyboardInterrupt, ConnectionResetError):
            request, descriptors = None, []
        if request is None:
            os._exit(0)
        keeper = os.fork()
        if not keeper:
            connection.close()
            return keep(request, descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        _collect()


def _collect() -> None:
    """Take leave of the keepers that have ended."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def keep(request: Request, descriptors: Sequence[int]) -> Request:
    """Fork the command, and tell its id and how it ended. Returns in the command only."""
    *streams, report = descriptors
    pid = os.fork()
    if not pid:
        os.close(report)
        become(request, streams)
        return request
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    for descriptor in streams:
        os.close(descriptor)
    try:
        os.write(report, NUMBER.pack(pid))
        os.write(report, NUMBER.pack(os.waitpid(pid, 0)[1]))
    except BrokenPipeError:  # nobody wants to know
        pass
    os._exit(0)


# -- the command -----------------------------------------------------------------------------------------------


def become(request: Request, streams: Sequence[int]) -> None:
    """Make this process what a new interpreter would be."""
    if request["terminal"]:
        os.setsid()
    for target, descriptor in enumerate(streams):
        os.dup2(descriptor, target)
        os.close(descriptor)
    if request["terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    sys.orig_argv[:] = request["args"]
    sys.argv[:] = sys.orig_argv[2:]
    sys.path[0] = os.getcwd()
    sys.modules["__main__"] = module = ModuleType("__main__")
    module.__annotations__ = {}
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        stream = new_stream(name, mode)
        setattr(sys, name, stream)
        setattr(sys, f"__{name}__", stream)


def new_stream(name: str, mode: str) -> io.TextIOWrapper:
    """A standard stream as the interpreter makes it: what is written at once depends on where it leads to."""
    before: io.TextIOWrapper = getattr(sys, name)
    at_once = before.write_through  # PYTHONUNBUFFERED
    file: Any = open(before.fileno(), mode + "b", 0 if at_once and mode == "w" else -1, closefd=False)  # noqa: SIM115
    getattr(file, "raw", file).name = f"<{name}>"
    lines = not at_once and (file.isatty() or name == "stderr")
    stream = io.TextIOWrapper(file, before.encoding, before.errors, "\n", lines, at_once)
    stream.mode = mode  # type: ignore[misc] - which is what the interpreter does
    return stream


def show(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """An uncaught error, without the frames below those of `python -m`."""
    while trace is not None and trace.tb_frame.f_code.co_filename == __file__:
        trace = trace.tb_next
    sys.__excepthook__(kind, error.with_traceback(trace or error.__traceback__), trace)


def main() -> None:
    """Serve; in a command's process, what it then runs."""
    connection = socket.socket(fileno=int(sys.argv[1]))
    sys.path[0] = os.getcwd()
    looked_up = watched_imports(sys.argv[2:])
    assert threading.active_count() == 1, f"An import began threads: {threading.enumerate()}."
    sys.stdout.flush()
    sys.stderr.flush()
    gc.collect()
    gc.freeze()  # what is looked at in a fork is copied
    send(connection, looked_up)
    serve(connection)
    runpy._run_module_as_main(sys.argv[0])  # pyright: ignore - what `python -m` calls


if __name__ == "__main__":
    sys.excepthook = show
    main()
