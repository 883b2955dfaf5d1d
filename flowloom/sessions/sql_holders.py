"""Which process holds a lease, so that another one on the same machine can tell that it is gone.

Only what is certain counts: the same boot of the same machine, the same namespace of process ids, and a process id that
no process has, or that another process has been given since (its start time tells).
"""

from __future__ import annotations

import os
from functools import cache
from pathlib import Path

_GONE = ("Z", "X", "x")  # states of what is left of a process that has ended, until its parent asks for it


def this_process() -> str | None:
    """The boot, the namespace, the process id and the start time of this process; None if one of them is unknown."""
    return _identity(os.getpid())  # which is another one after a fork


@cache
def _identity(pid: int) -> str | None:
    try:
        boot = Path("/proc/sys/kernel/random/boot_id").read_text().strip()
        namespace = os.readlink("/proc/self/ns/pid")
        if os.readlink("/proc/self") != str(pid):  # mounted from elsewhere: it tells of other processes
            return None
        started = _state_of(pid)[1]
    except (OSError, ValueError, IndexError):  # not Linux, or not for us to see
        return None
    return f"{boot} {namespace} {pid} {started}" if boot else None


def is_gone(holder: str | None) -> bool:
    """Whether the process that calls itself so is known to have ended. False if that cannot be known here."""
    me = this_process()
    if holder is None or me is None or holder == me:
        return False
    try:
        boot, namespace, pid, started = holder.split(" ")
        if [boot, namespace] != me.split(" ")[:2]:
            return False
        number = int(pid)
        os.kill(number, 0)  # asks, and sends nothing; `/proc` may hide the processes of other users
        state, found = _state_of(number)
    except ProcessLookupError:
        return True
    except (OSError, ValueError, IndexError, OverflowError):
        return False
    return found != started or state in _GONE


def _state_of(pid: int) -> tuple[str, str]:
    """The state of a process, and when it was started, in ticks since the boot."""
    text = Path(f"/proc/{pid}/stat").read_text()
    fields = text[text.rindex(")") + 2 :].split(" ")  # a program's name may hold anything
    return fields[0], fields[19]
