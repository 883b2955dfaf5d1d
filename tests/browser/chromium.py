"""A real Chromium: the one of the system, installed by its package manager where that may be done."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache

import pytest
from playwright.sync_api import Browser, sync_playwright

NAMES = ("chromium", "google-chrome", "chromium-browser")
PACKAGE = "chromium"
REQUIRED = "FLOWLOOM_BROWSER"
"""The variable that, with `required`, makes a test fail which would be skipped."""


@cache
def _found() -> tuple[str | None, str]:
    """The path of a browser, or the reason why there is none."""
    for name in NAMES:
        if path := shutil.which(name):
            return path, ""
    reason = f"Neither of {', '.join(NAMES)} is on PATH. Install the package `{PACKAGE}`."
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None, reason
    for command in (["update"], ["install", "--yes", "--no-install-recommends", PACKAGE]):
        done = subprocess.run(["apt-get", "-qq", *command], capture_output=True, text=True, check=False)
        if done.returncode:
            return None, f"{reason} apt-get could not: {done.stderr[-300:]}"
    return shutil.which(PACKAGE), reason


def chromium_path() -> str:
    """The browser to use; where there is none, the test is skipped, or fails if a browser is required."""
    path, reason = _found()
    if path is None:
        (pytest.fail if os.environ.get(REQUIRED) == "required" else pytest.skip)(reason)
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window."""
    path = chromium_path()
    with sync_playwright() as playwright:
        # the sandbox is refused to root
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        try:
            yield browser
        finally:
            browser.close()
