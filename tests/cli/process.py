"""The real command in a process of its own, behind pipes or a pseudo-terminal.

The process is forked from a server that has everything imported. A new interpreter is started instead where `fresh`
says so, where the environment could make a difference to what was imported, and for every command of a test run with
`FLOWLOOM_FRESH_COMMANDS=1`.
"""

from __future__ import annotations

import asyncio
import atexit
import fcntl
import itertools
import json
import os
import pty
import re
import select
import shutil
import signal
import struct
import subprocess
import sys
import tempfile
import termios
import time
from functools import cache
from pathlib import Path
from typing import Any

from typer.testing import CliRunner

from cli.forks import Fork, ForkServer
from flowloom import PostgresSessionService, Session, SqliteSessionService
from flowloom.cli import commands
from flowloom.cli.session_file import session_text

COMMAND = [sys.executable, "-m", "flowloom.cli"]
ROOT = Path(__file__).resolve().parents[2]
DESK = ROOT / "examples" / "travel_desk"
_KEYS = (
    "GOOGLE_API_KEY",
    "GEMINI_API_KEY",
    "GOOGLE_GENAI_USE_VERTEXAI",
    "GOOGLE_GENAI_USE_ENTERPRISE",
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "ANTHROPIC_API_KEY",
    "NO_COLOR",
)
PATIENCE = 60.0
"""Seconds after which what should come does not come, on a machine that does other things, too."""
_ESCAPES = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b[=>]|\r")


_STORES = Path(tempfile.mkdtemp(prefix="flowloom-stores-"))
_NUMBERS = itertools.count()
atexit.register(shutil.rmtree, _STORES, ignore_errors=True)


def environment(**extra: str) -> dict[str, str]:
    """This environment without keys, and with an empty store of its own."""
    kept = {name: value for name, value in os.environ.items() if name not in _KEYS}
    store = str(_STORES / f"{os.getpid()}-{next(_NUMBERS)}.db")
    return {**kept, "TERM": "xterm", "COLUMNS": "120", "FLOWLOOM_STORE": store, **extra}


@cache
def server() -> ForkServer:
    """What commands are forked from; started when it is first needed."""
    made = ForkServer(environment())
    atexit.register(made.close)
    return made


def takes_new(env: dict[str, str], fresh: bool) -> bool:
    """Whether a command has to be started in a new interpreter."""
    return fresh or "FLOWLOOM_FRESH_COMMANDS" in os.environ or not server().is_like(env)


def started(
    *args: str | Path, cwd: Path | None = None, text: bool = True, fresh: bool = False, **env: str
) -> Fork | subprocess.Popen[Any]:
    """Start the command behind pipes."""
    command, variables = [*COMMAND, *map(str, args)], environment(**env)
    if not takes_new(variables, fresh):
        return server().start(command, cwd=cwd, env=variables, text=text)
    pipe = subprocess.PIPE
    return subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe, text=text, cwd=cwd, env=variables)


def flowloom(
    *args: str | Path, lines: str = "", cwd: Path | None = None, fresh: bool = False, **env: str
) -> subprocess.CompletedProcess[str]:
    """Run the command to its end, with these lines as its input."""
    with started(*args, cwd=cwd, text=True, fresh=fresh, **env) as process:
        try:
            out, err = process.communicate(lines, timeout=PATIENCE)
        except BaseException:
            process.kill()
            raise
    return subprocess.CompletedProcess(process.args, process.wait(), out, err)


def here(*args: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command to its end in this process, which takes a fifth of the time; for what needs no process."""
    done = CliRunner().invoke(commands.app, [*map(str, args)], env={"COLUMNS": "120", "TERM": "xterm"})
    if done.exception is not None and not isinstance(done.exception, SystemExit):
        raise done.exception
    return subprocess.CompletedProcess([*args], done.exit_code, done.stdout, done.stderr)


def exported(name: str, store: str | Path) -> dict[str, Any]:
    """A session of a store, as `flowloom sessions export` writes it, whatever app and user it belongs to."""

    async def work() -> Session | None:
        service = PostgresSessionService(str(store)) if "://" in str(store) else SqliteSessionService(store)
        for app in await service.app_names():
            for listed in (await service.list_sessions(app_name=app)).sessions:
                if listed.id == name:
                    found = await service.get_session(app_name=app, user_id=listed.user_id, session_id=name)
                    await service.close()
                    return found
        return None

    session = asyncio.run(work())
    assert session is not None, f"There is no session {name!r}."
    return json.loads(session_text(session))


def told(done: subprocess.CompletedProcess[str]) -> str:
    """The one line that a command said on standard error before it failed."""
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1, done.stderr
    return done.stderr


class Terminal:
    """The command on a pseudo-terminal; its output may be led to the descriptor `out`."""

    def __init__(
        self, *args: str | Path, cwd: Path | None = None, fresh: bool = False, out: int | None = None, **env: str
    ) -> None:
        self._screen, other = pty.openpty()
        fcntl.ioctl(other, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 120, 0, 0))
        self.found = self.attributes
        """What the terminal did with keys and with output when the command was started."""
        self._seen = 0
        command, variables = [*COMMAND, *map(str, args)], environment(**env)
        self.process: Fork | subprocess.Popen[bytes]
        if not takes_new(variables, fresh):
            self.process = server().start(command, cwd=cwd, env=variables, terminal=other, out=out)
        else:
            self.process = subprocess.Popen(
                command,
                stdin=other,
                stdout=other if out is None else out,
                stderr=other,
                cwd=cwd,
                env=variables,
                start_new_session=True,
                preexec_fn=lambda: _control(other),
            )
        os.close(other)
        self.raw = ""

    @property
    def text(self) -> str:
        """What was written so far, without escape sequences."""
        return _ESCAPES.sub("", self.raw)

    def wait_for(self, wanted: str, seconds: float = PATIENCE) -> str:
        """What was written up to and with `wanted`, since the last wait."""
        begun = self._seen
        ends = time.monotonic() + seconds
        while (at := self.text.find(wanted, begun)) < 0:
            if time.monotonic() > ends or not self._read():
                raise AssertionError(f"{wanted!r} never came; the terminal shows:\n{self.text}")
        self._seen = at + len(wanted)
        return self.text[begun : self._seen]

    def _read(self) -> bool:
        ready, _, _ = select.select([self._screen], [], [], 0.2)
        if not ready:
            return True
        try:
            data = os.read(self._screen, 65536)
        except OSError:  # the other side is closed
            return False
        # prompts ask where the cursor is, and wait for the answer
        for _ in range(data.count(b"\x1b[6n")):
            os.write(self._screen, b"\x1b[1;1R")
        self.raw += data.decode(errors="replace")
        return bool(data)

    @property
    def attributes(self) -> list[Any]:
        """What the terminal does with keys and with output."""
        return termios.tcgetattr(self._screen)

    @attributes.setter
    def attributes(self, attributes: list[Any]) -> None:
        termios.tcsetattr(self._screen, termios.TCSANOW, attributes)

    def type(self, keys: str) -> None:
        os.write(self._screen, keys.encode())

    def say(self, line: str) -> None:
        self.type(line + "\r")

    def interrupt(self) -> None:
        """Ctrl-C."""
        self.type("\x03")

    def end(self, seconds: float = PATIENCE) -> int:
        """Wait for the process to end; its exit code."""
        ends = time.monotonic() + seconds
        while self.process.poll() is None and time.monotonic() < ends:
            self._read()
        code = self.process.poll()
        if code is None:
            raise AssertionError(f"The process did not end; the terminal shows:\n{self.text}")
        return code

    def kill(self) -> None:
        """End the process at once, as a crash would."""
        self.process.kill()
        self.process.wait()

    def close(self) -> None:
        if self.process.poll() is None:
            os.killpg(self.process.pid, signal.SIGKILL)
            self.process.wait()
        os.close(self._screen)


def _control(terminal: int) -> None:
    """Make the terminal the process's own, so that Ctrl-C reaches it."""
    fcntl.ioctl(terminal, termios.TIOCSCTTY, 0)
