"""A command that was forked does what one in a new interpreter does."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.forks import ForkServer
from cli.process import DESK, Terminal, environment, flowloom, server, started

pytestmark = pytest.mark.soak

MIRROR = """
import __main__, atexit, gc, json, locale, os, random, signal, sys, threading, time, warnings
from flowloom import LlmAgent

def of(stream):
    raw = getattr(stream.buffer, "raw", stream.buffer)
    kinds = type(stream.buffer).__name__, type(raw).__name__, raw.name
    buffers = stream.line_buffering, stream.write_through, stream.isatty()
    return *kinds, stream.name, stream.mode, stream.encoding, stream.errors, stream.newlines, *buffers

seen = {{
    "descriptors": sorted(os.listdir("/dev/fd")),
    "argv": (sys.argv, sys.orig_argv),
    "imports": (sys.path, list(map(type, sys.meta_path)), len(sys.path_hooks), sys.dont_write_bytecode),
    "main": (__main__.__name__, __main__.__file__, __main__.__spec__.name, sorted(vars(__main__))),
    "flags": (list(sys.flags), sys._xoptions, sys.warnoptions, repr(warnings.filters)),
    "environment": {{name: value for name, value in os.environ.items() if name != "FLOWLOOM_STORE"}},
    "really": os.popen("env | grep -v -e FLOWLOOM_STORE -e ^_= | sort").read(),
    "folder": (os.getcwd(), os.popen("pwd").read(), os.umask(0o22)),
    "streams": [of(each) for each in (sys.stdin, sys.stdout, sys.stderr)],
    "originals": (sys.stdin is sys.__stdin__, sys.stdout is sys.__stdout__, sys.stderr is sys.__stderr__),
    "signals": [repr(signal.getsignal(each)) for each in signal.valid_signals()],
    "blocked": list(signal.pthread_sigmask(signal.SIG_BLOCK, [])),
    "group": (os.getpid() == os.getpgrp(), os.getpid() == os.getsid(0)),
    "threads": [each.name for each in threading.enumerate()],
    "hooks": (repr(sys.excepthook.__module__), repr(sys.displayhook), sys.gettrace()),
    "settings": (locale.setlocale(locale.LC_ALL), time.tzname, sys.getrecursionlimit(), sys.getswitchinterval()),
    "memory": (gc.isenabled(), gc.get_threshold(), gc.get_debug()),
}}
print(json.dumps(seen, indent=1, default=repr))
warnings.warn("The wool is wet.")
atexit.register(lambda: print("atexit"))
threading.Thread(target=lambda: (threading.main_thread().join(), print("a thread", end=" "))).start()
random.seed(3)
sys.stdout.write("no end of line")
{end}
root_agent = LlmAgent(name="mirror", model="offline")
"""
ENDS = {
    "well": ("", 0),
    "with a code": ("sys.stdout.flush(); os._exit(7)", 7),
    "uncaught": ("try:\n    1 / 0\nexcept ZeroDivisionError as error:\n    raise BaseException('odd') from error", 1),
    "interrupted": ("signal.raise_signal(signal.SIGINT)", 130),
    "killed": ("sys.stdout.flush(); os.kill(os.getpid(), signal.SIGTERM); time.sleep(1)", -signal.SIGTERM),
}


def mirror(folder: Path, end: str = "") -> Path:
    """An agent that tells all it can see of its process."""
    path = folder / "mirror.py"
    path.write_text(MIRROR.format(end=end))
    return path


@pytest.mark.parametrize(("end", "code"), ENDS.values(), ids=ENDS)
def test_a_fork_sees_and_ends_as_a_new_interpreter_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str, code: int
) -> None:
    server()  # which has a variable that the command has not
    monkeypatch.delenv("PATH")
    command = ("run", mirror(tmp_path, end), "-m", "Grüße", "--session", "s")
    fork, fresh = (flowloom(*command, cwd=tmp_path, fresh=fresh, WOOL="wet") for fresh in (False, True))
    assert fork.stdout.splitlines() == fresh.stdout.splitlines()
    assert fork.stderr.splitlines() == fresh.stderr.splitlines()
    assert fork.returncode == fresh.returncode == code
    assert "no end of line" in fresh.stdout


def test_on_a_terminal_as_well(tmp_path: Path, terminal: Callable[..., Terminal]) -> None:
    command = ("run", mirror(tmp_path), "-m", "hello", "--session", "s")
    fork, fresh = (terminal(*command, fresh=fresh) for fresh in (False, True))
    assert fork.end() == fresh.end() == 0
    assert fork.raw.splitlines() == fresh.raw.splitlines()


@pytest.mark.parametrize(
    "command",
    [("explain",), ("explain", DESK, "-m", "Hello."), ("bench", DESK, "--repeat", "x"), ("sessions", "show", "s")],
    ids=["an argument is missing", "explain", "not a number", "no such store"],
)
def test_a_fork_says_what_a_new_interpreter_says(command: tuple[str | Path, ...], tmp_path: Path) -> None:
    """But for the times that were measured."""
    both = [flowloom(*command, cwd=tmp_path, fresh=fresh, FLOWLOOM_STORE="none.db") for fresh in (False, True)]
    fork, fresh = ((done.returncode, re.sub(r"[\d,.▏▎▍▌▋▊▉█\s]+", " ", done.stdout), done.stderr) for done in both)
    assert fork == fresh


@pytest.mark.parametrize("name", ["PYTHONWARNINGS", "LC_ALL", "TZ", "PSYCOPG_IMPL", "HOME"])
def test_what_could_have_changed_the_imports_takes_a_new_interpreter(name: str) -> None:
    assert not server().is_like(environment(**{name: "another"}))


def test_what_could_not_have_takes_none() -> None:
    assert server().is_like(environment(NO_COLOR="1", GOOGLE_API_KEY="k", COLUMNS="40"))


def test_forks_share_no_randomness(tmp_path: Path) -> None:
    text = "import random, uuid\nfrom flowloom.events import new_id\nprint(random.random(), uuid.uuid4(), new_id())\n"
    (tmp_path / "dice.py").write_text(text)
    one, other = (flowloom("run", tmp_path / "dice.py").stdout.split() for _ in range(2))
    assert len({*one, *other}) == 6


def test_a_fork_can_be_killed_and_waited_for(shepherd: Path) -> None:
    with started("run", shepherd) as process:
        assert process.poll() is None
        with pytest.raises(subprocess.TimeoutExpired):
            process.wait(0.001)
        process.send_signal(signal.SIGKILL)
        assert process.wait(60) == process.poll() == -signal.SIGKILL
        with pytest.raises(ProcessLookupError):
            os.kill(process.pid, 0)


def test_what_takes_too_long_is_killed(shepherd: Path) -> None:
    with started("run", shepherd) as process:
        with pytest.raises(subprocess.TimeoutExpired):
            process.communicate("sleep for 5 minutes\n", timeout=0.3)
        assert process.wait(60) == -signal.SIGKILL


def test_a_server_ends_with_the_process_that_began_it() -> None:
    """Which closes the socket, however it ends."""
    server = ForkServer(environment(), imported=())
    assert server.process.poll() is None
    server.close()
    assert server.process.returncode == 0


def test_what_imports_say_is_an_error() -> None:
    """Each new interpreter would say it; forks would not."""
    with pytest.raises(RuntimeError, match="Zen of Python"):
        ForkServer(environment(), imported=["this"])
