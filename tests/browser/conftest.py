"""A real browser in front of a real server: Chromium, uvicorn on loopback, agents of scripts.

Where there is no Chromium the tests are skipped, with the name of the package that brings it; with
`FLOWLOOM_BROWSER=required` they fail instead.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any

import pytest
from browser.driving import Driven
from browser.office import office
from playwright.sync_api import Browser, Page, sync_playwright
from server.serving import Running, serving

from flowloom.server import app_of

NAMES = ("chromium", "google-chrome", "chromium-browser", "google-chrome-stable")
UNKNOWN = re.compile(r"/(undefined|null|NaN|\[object)|[^:]//|/\?")
"""What stands in an address for a value that was not there."""


@cache
def chromium() -> str | None:
    """Where Chromium is; installed by the system's package manager if it is not there, and that is allowed."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None and os.geteuid() == 0 and shutil.which("apt-get"):
        install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", "chromium"]
        subprocess.run(install, capture_output=True, timeout=300, check=False)
        found = shutil.which("chromium")
    return found


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module."""
    path = chromium()
    if path is None:
        why = "There is no Chromium: install the package `chromium` (or google-chrome)."
        if os.environ.get("FLOWLOOM_BROWSER") == "required":
            pytest.fail(why)
        pytest.skip(why)
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=path, args=["--no-sandbox", "--enable-precise-memory-info"]
        )
        yield browser
        browser.close()


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A development server of the office, in memory."""
    with serving(app_of(office())) as running:
        yield running


@pytest.fixture
def opened(browser: Browser, server: Running) -> Iterator[Callable[..., Driven]]:
    """Opens pages; afterwards none may have asked another host, written an error into the console, or asked for an
    address that was made of what it did not know."""
    contexts: list[Any] = []
    pages: list[Driven] = []

    def open_page(
        path: str = "/ui/desk/ann", *, of: Running | None = None, context: Any = None, **options: Any
    ) -> Driven:
        if context is None:
            options.setdefault("viewport", {"width": 1440, "height": 900})
            context = browser.new_context(**options)
            context.grant_permissions(["clipboard-read", "clipboard-write"])
            contexts.append(context)
        page: Page = context.new_page()
        page.set_default_timeout(8000)
        driven = Driven(page, of or server)
        pages.append(driven)
        driven.goto(path)
        return driven

    yield open_page
    for context in contexts:
        context.close()
    assert [said for page in pages for said in page.complaints if not re.search(page.forgiven, said)] == []
    assert [url for page in pages for url in page.requests if UNKNOWN.search(url)] == []
