"""A real browser in front of a real server: Chromium, uvicorn on loopback, agents of scripts.

Where there is no Chromium the tests are skipped, with the name of the package that brings it; with
`FLOWLOOM_BROWSER=required` they fail instead.
"""

from __future__ import annotations

import re
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import Any

import pytest
from browser.chromium import chromium
from browser.driving import Driven
from browser.office import go_on, office
from playwright.sync_api import Browser, Page, expect
from server.serving import Running, serving

from flowloom.server import app_of

UNKNOWN = re.compile(r"/(undefined|null|NaN|\[object)|[^:]//|/\?")
"""What stands in an address for a value that was not there."""
PATIENCE = 30_000
"""Milliseconds after which what should be seen is not seen, on a machine that does other things, too."""

expect.set_options(timeout=PATIENCE)


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """One browser for the tests of a module."""
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A development server of the office, in memory."""
    with serving(app_of(office())) as running:
        yield running


@pytest.fixture
def held() -> Iterator[threading.Event]:
    """Answers that are held up (see `office`) go on when this is set."""
    go_on.clear()
    yield go_on
    go_on.set()


@pytest.fixture
def served() -> Iterator[Callable[[Any], Running]]:
    """Serves applications of one test. `opened` asks for it, so pages are closed before: one whose server has gone
    writes an error into its console."""
    with ExitStack() as servers:
        yield lambda app: servers.enter_context(serving(app))


@pytest.fixture
def opened(browser: Browser, server: Running, served: object) -> Iterator[Callable[..., Driven]]:
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
        page.set_default_timeout(PATIENCE)
        driven = Driven(page, of or server)
        pages.append(driven)
        driven.goto(path)
        return driven

    yield open_page
    for context in contexts:
        context.close()
    assert [said for page in pages for said in page.complaints if not re.search(page.forgiven, said)] == []
    assert [url for page in pages for url in page.requests if UNKNOWN.search(url)] == []
