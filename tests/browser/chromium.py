"""A real Chromium: the one of the system, installed by its package manager where that may be done."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path

import pytest
from playwright.sync_api import Browser, Playwright, sync_playwright

NAMES = ("chromium", "google-chrome", "chromium-browser", "google-chrome-stable")
PACKAGE = "chromium"
REQUIRED = "FLOWLOOM_BROWSER"
"""The variable that, with `required`, makes a test fail which would be skipped."""


def _on_path() -> str | None:
    """The browser of the system."""
    return next(filter(None, map(shutil.which, NAMES)), None)


@cache
def _installed() -> tuple[str | None, str]:
    """The browser that the system's package manager brings, where it may, or the reason why there is none."""
    reason = f"Neither of {', '.join(NAMES)} is on PATH. Install the package `{PACKAGE}`."
    if os.geteuid() != 0 or shutil.which("apt-get") is None:
        return None, reason
    for command in (["update"], ["install", "--yes", "--no-install-recommends", PACKAGE]):
        done = subprocess.run(["apt-get", "-qq", *command], capture_output=True, text=True, check=False)
        if done.returncode:
            return None, f"{reason} apt-get could not: {done.stderr[-300:]}"
    return _on_path(), reason


def chromium_path(playwright: Playwright) -> str:
    """The browser to use: the system's, or playwright's own, or one that is installed now; where there is none, the
    test is skipped, or fails if a browser is required."""
    path, reason = _on_path(), ""
    if path is None and Path(playwright.chromium.executable_path).exists():
        path = playwright.chromium.executable_path
    if path is None:
        path, reason = _installed()
    if path is None:
        (pytest.fail if os.environ.get(REQUIRED) == "required" else pytest.skip)(reason)
    return path


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser without a window, that tells how much memory a page has."""
    with sync_playwright() as playwright:
        # the sandbox is refused to root
        options = ["--no-sandbox", "--enable-precise-memory-info"]
        browser = playwright.chromium.launch(executable_path=chromium_path(playwright), args=options)
        try:
            yield browser
        finally:
            browser.close()
