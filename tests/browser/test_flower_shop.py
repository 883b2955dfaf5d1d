"""The flower shop's page in a real browser, in front of its agent over AG-UI."""

from __future__ import annotations

import importlib
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import uvicorn
from playwright.sync_api import Browser, Page, expect

from flowloom.cli.loading import load_app
from flowloom.server.serving import bound_socket
from flowloom.testing import ScriptedModel, call

ROOT = Path(__file__).resolve().parents[2]
AGENT = load_app(ROOT / "examples" / "flower_shop").agent
shop_of: Any = importlib.import_module("flower_shop.shop").shop_of


@pytest.fixture
def shop(browser: Browser) -> Iterator[Page]:
    """The page, with a model that colours it, looks for roses, and sells some."""
    script = [
        [call("paint", colour="pink"), call("stock", flower="roses")],
        "It is pink, and there are 12 roses.",
        call("sell", flower="roses", pieces=3),
        "Three roses are yours.",
    ]
    bound = bound_socket("127.0.0.1", 0)
    app = shop_of(AGENT.clone(update={"model": ScriptedModel(script, stream_chunks=True)}))
    server = uvicorn.Server(uvicorn.Config(app, log_config=None, timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [bound]}, daemon=True)
    thread.start()
    context = browser.new_context()
    page = context.new_page()
    page.goto(f"http://127.0.0.1:{bound.getsockname()[1]}/")
    yield page
    context.close()
    server.should_exit = True
    thread.join(10)
    bound.close()


@pytest.mark.soak
def test_the_page_paints_itself_and_sells_what_a_person_approves(shop: Page) -> None:
    """Its own tool beside the shop's, an approval by a button, and the state in the basket."""
    shop.get_by_label("Message").fill("Make it pink. Are there roses?")
    shop.get_by_role("button", name="Send").click()
    expect(shop.locator(".agent")).to_have_text("It is pink, and there are 12 roses.")
    assert shop.evaluate("document.body.style.background") == "pink"
    shop.get_by_label("Message").fill("Three roses, please.")
    shop.get_by_role("button", name="Send").click()
    expect(shop.locator("#basket")).to_have_text("empty")
    shop.get_by_role("button", name="Yes").click()
    expect(shop.locator(".agent").last).to_have_text("Three roses are yours.")
    expect(shop.locator("#basket")).to_have_text("3 roses")
    assert shop.locator(".error").count() == 0
