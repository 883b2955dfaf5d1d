"""A process that runs code, and the directory it runs in: what it prints, what it leaves, and that nothing stays."""

from __future__ import annotations

import asyncio
import mimetypes
import os
import secrets
import signal
import stat
import sys
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from itertools import islice
from pathlib import Path, PurePosixPath
from typing import Literal, NamedTuple

from flowloom.context.ending import all_ended
from flowloom.errors import InputValidationError

MAX_FILES = 1_000
"""How many entries of the working directory are looked at."""
_END_SECONDS = 1.0
"""How long what was printed is waited for, once the process and its group are gone: others may hold the other end."""
_LIMITED = 'ulimit -c 0; ulimit -v "$1" 2>/dev/null; shift; exec "$@"'
_PIECE = 1 << 16
_ENVIRONMENT = ("PATH", "LANG", "LC_ALL", "LC_CTYPE", "TZ", "LD_LIBRARY_PATH", "DYLD_LIBRARY_PATH")


class Output(asyncio.Protocol):
    """What a process prints: of more than `limit` bytes the beginning and the end, where errors are."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self._size = 0
        self.ended = asyncio.Event()

    def data_received(self, data: bytes) -> None:
        self._size += len(data)
        room = self._limit // 2 - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        if len(self._tail) > self._limit + _PIECE:
            self._cut()

    def connection_lost(self, exc: Exception | None) -> None:
        self.ended.set()

    def _cut(self) -> None:
        del self._tail[: max(0, len(self._tail) - (self._limit - len(self._head)))]

    @property
    def text(self) -> str:
        """What is kept of it."""
        self._cut()
        left_out = self._size - len(self._head) - len(self._tail)
        if not left_out:
            return (self._head + self._tail).decode("utf-8", "replace")
        note = f"\n[{left_out} bytes left out]\n"
        return self._head.decode("utf-8", "replace") + note + self._tail.decode("utf-8", "replace")


class Ended(NamedTuple):
    """How a process has ended, and what it printed."""

    exit_code: int | None
    stdout: str
    stderr: str
    timed_out: bool


async def run_python(place: CodePlace, *, seconds: float | None, memory: int | None, output_limit: int) -> Ended:
    """Run the code of a place.

    The process and its group are gone when this returns or raises.
    """
    loop = asyncio.get_running_loop()
    # the shell sets the limit and becomes the interpreter: no code of this process runs between fork and exec
    command = [sys.executable, "-I", "-u", "-X", "utf8", str(place.script)]
    limited = ["/bin/sh", "-c", _LIMITED, "sh", str(memory // 1024), *command] if memory is not None else command
    outputs = [Output(output_limit), Output(output_limit)]
    transports: list[asyncio.ReadTransport] = []
    ends: list[int] = []
    process: asyncio.subprocess.Process | None = None
    timed_out = False
    try:
        for output in outputs:  # pipes of our own: the loop's are waited for as long as any descendant holds them
            ours, its = os.pipe()
            ends.append(its)
            transport, _ = await loop.connect_read_pipe(lambda output=output: output, os.fdopen(ours, "rb", 0))
            transports.append(transport)
        process = await asyncio.create_subprocess_exec(
            *limited,
            cwd=place.work,
            env=place.environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=ends[0],
            stderr=ends[1],
            start_new_session=True,
        )
        while ends:
            os.close(ends.pop())
        try:
            async with asyncio.timeout(seconds):
                await process.wait()
        except TimeoutError:
            timed_out = True
        _kill_group(process)
        await process.wait()
        try:
            async with asyncio.timeout(_END_SECONDS):
                for output in outputs:
                    await output.ended.wait()
        except TimeoutError:
            pass
        return Ended(process.returncode, outputs[0].text, outputs[1].text, timed_out)
    finally:
        for end in ends:
            os.close(end)
        for transport in transports:
            transport.close()
        ending = [loop.create_task(output.ended.wait()) for output, _ in zip(outputs, transports, strict=False)]
        if process is not None:
            _kill_group(process)
            ending.append(loop.create_task(_ended(process)))
        await all_ended(ending)


async def _ended(process: asyncio.subprocess.Process) -> Literal[True]:
    await process.wait()
    return True


def _kill_group(process: asyncio.subprocess.Process) -> None:
    """Kill a process and what it started, also when the process itself has ended."""
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except (ProcessLookupError, PermissionError):
        pass  # no process is left in the group


class CodePlace:
    """The temporary directory of one execution. All that it does is blocking: it belongs into a thread."""

    def __init__(self, root: Path) -> None:
        self.root = root.resolve()  # as tracebacks show it
        self.script = self.root / "code.py"
        self.work = self.root / "work"
        self._given: dict[str, bytes] = {}

    def prepare(self, code: str, files: Iterable[tuple[str, bytes]]) -> None:
        """Write the code and its input files. Raises `InputValidationError` for a name outside of the directory."""
        for directory in (self.work, self.root / "home", self.root / "tmp"):
            directory.mkdir()
        self.script.write_text(code, encoding="utf-8", errors="surrogatepass")
        for name, content in files:
            path = PurePosixPath(name)
            if not name or path.is_absolute() or ".." in path.parts or "\0" in name:
                raise InputValidationError(f"The input file name {name!r} does not lie in the working directory.")
            self._given[str(path)] = content
            target = self.work / path
            try:
                target.parent.mkdir(parents=True, exist_ok=True)
                target.write_bytes(content)
            except (OSError, UnicodeError) as error:
                why = error.strerror if isinstance(error, OSError) else "it is no text that a file can be named by"
                raise InputValidationError(f"The input file {name[:100]!r} cannot be written: {why}.") from error

    def environment(self) -> Mapping[str, str]:
        """The variables that the code sees: keys and tokens of this process are none of its business."""
        variables = {name: os.environ[name] for name in _ENVIRONMENT if name in os.environ}
        temporary = str(self.root / "tmp")
        return variables | {"HOME": str(self.root / "home"), "TMPDIR": temporary, "TEMP": temporary, "TMP": temporary}

    def output_files(self, limit: int) -> tuple[list[tuple[str, bytes, str]], list[str], bool]:
        """The files that the code made or changed, with their types; the names of those that were too large; and
        whether there were more than `MAX_FILES`, which are all that is looked at."""
        files: list[tuple[str, bytes, str]] = []
        left_out: list[str] = []
        looked_at = 0
        if self.work.resolve() != self.work:
            return files, left_out, False  # the code has put a link in its place, which may lead anywhere
        for name in self._entries():
            looked_at += 1
            if looked_at > MAX_FILES:
                break
            given = self._given.get(name, b"")
            try:
                content = self._content(name, max(limit, len(given)))
            except OSError:
                continue  # no file, or the code made it unreadable, or the run is being cancelled
            if name in self._given and content == given:
                continue  # the code has left it alone
            if content is None or len(content) > limit:
                left_out.append(name)
            else:
                limit -= len(content)
                files.append((name, content, mimetypes.guess_type(name)[0] or "application/octet-stream"))
        return files, left_out, looked_at > MAX_FILES

    def _content(self, name: str, limit: int) -> bytes | None:
        """What is in a file; None for one that is too large. Raises `OSError` for what is no file."""
        # neither a link, which may lead anywhere, nor a pipe, which waits for a writer
        descriptor = os.open(self.work / name, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        try:
            found = os.fstat(descriptor)
            if not stat.S_ISREG(found.st_mode):
                raise OSError(f"{name} is no file")
            if found.st_size > limit:
                return None
            with open(descriptor, "rb", closefd=False) as file:
                return file.read(limit + 1)  # one more than it may have, if it has grown meanwhile
        finally:
            os.close(descriptor)

    def _entries(self) -> Iterator[str]:
        """What is in the directory, folder by folder in the order of names; no more than one past `MAX_FILES`."""
        left = MAX_FILES + 1
        todo = [""]
        while todo and left > 0:
            folder = todo.pop()
            try:
                with os.scandir(self.work / folder) as found:
                    entries = sorted(islice(found, left), key=_name_of)
            except OSError:
                continue  # unreadable, or deeper than a path can be long
            below: list[str] = []
            for entry in entries:
                left -= 1
                name = f"{folder}/{entry.name}" if folder else entry.name
                if entry.is_dir(follow_symlinks=False):
                    below.append(name)
                yield name
            todo += reversed(below)

    def remove(self) -> None:
        """Remove all of it, however deep its folders are and whatever the code has forbidden.

        Folders are taken out of each other, one after the other, so that neither the depth of Python's stack nor the
        length of a path nor the number of open files sets a limit.
        """
        try:
            if self.root.is_symlink():  # the code has put it there, and what it leads to is not the code's
                self.root.unlink()
            self.root.chmod(0o700)
            top = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW)
        except OSError:
            return
        try:
            _empty(top)
        finally:
            os.close(top)
        with suppress(OSError):  # something may write into it that has left the process group
            self.root.rmdir()


def _name_of(entry: os.DirEntry[str]) -> str:
    return entry.name


def _empty(top: int) -> None:
    """Remove what is in a folder."""
    moved, number = f"flowloom-{secrets.token_hex(8)}", 0  # names that the code has not used
    todo = _without_files(top)
    while todo:
        name = todo.pop()
        try:
            os.chmod(name, 0o700, dir_fd=top)
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=top)
        except OSError:
            continue
        try:
            for each in _without_files(folder):
                number += 1
                with suppress(OSError):
                    os.chmod(each, 0o700, dir_fd=folder)  # a folder that is moved has to be writable itself
                    os.rename(each, f"{moved}-{number}", src_dir_fd=folder, dst_dir_fd=top)
                    todo.append(f"{moved}-{number}")
        finally:
            os.close(folder)
        with suppress(OSError):
            os.rmdir(name, dir_fd=top)


def _without_files(folder: int) -> list[str]:
    """Remove what is no folder from an open one; the names of the folders in it."""
    folders: list[str] = []
    with os.scandir(folder) as found:
        for entry in list(found):
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.name)
                continue
            with suppress(OSError):
                os.unlink(entry.name, dir_fd=folder)
    return folders
