"""Clients and servers of others, which tests install from the package registries."""

from __future__ import annotations

import fcntl
import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NoReturn

import pytest


def missing(why: str) -> NoReturn:
    """Skip what needs a peer that cannot be had; fail where peers are required (`FLOWLOOM_PEERS=required`)."""
    if os.environ.get("FLOWLOOM_PEERS") == "required":
        pytest.fail(why)
    pytest.skip(why)


@contextmanager
def alone_in(home: Path) -> Iterator[None]:
    """Tests of several processes want the same peers: one at a time installs into the folder `home`."""
    home.mkdir(parents=True, exist_ok=True)
    with (home / ".lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def npm_packages(home: Path, *names: str) -> Path:
    """A folder in which packages of npm were installed, once; its `node_modules`."""
    modules = home / "node_modules"
    folders = [modules / (name if name.rfind("@") <= 0 else name[: name.rfind("@")]) for name in names]
    with alone_in(home):
        if not all(folder.exists() for folder in folders):
            npm = shutil.which("npm")
            if npm is None:
                missing(f"There is no npm for {', '.join(names)}.")
            command = [npm, "install", "--no-audit", "--no-fund", "--prefix", str(home), *names]
            done = subprocess.run(command, capture_output=True, text=True, timeout=500)
            if done.returncode:
                missing(f"{', '.join(names)} could not be installed: {done.stderr[-500:]}")
    return modules
