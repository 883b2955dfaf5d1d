"""Hostile and endless texts in every panel: they are shown as text, and nothing stalls (server spec §12)."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from browser.driving import Driven
from browser.hostile import LINE, LONG, MARKUP, asking_agent, hostile_agent, hostile_events
from playwright.sync_api import expect
from server.serving import Running, serving

from flowloom.server import app_of

Open = Callable[..., Driven]
pytestmark = pytest.mark.soak
TABS = ("timeline", "trace", "request", "state", "artifacts", "agents", "model", "settings")
STALLS = """() => {
  window.stalls = [];
  new PerformanceObserver((list) => { for (const each of list.getEntries()) stalls.push(each.duration); })
    .observe({ type: "longtask", buffered: true });
}"""
"""Writes down how long each task took that took long."""
MOST = 5000
"""Milliseconds that a task may take on a machine that does other things, too: a text laid out whole takes 14,000."""


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server of the hostile agent."""
    with serving(app_of(hostile_agent())) as running:
        yield running


@pytest.fixture
def hostile(opened: Open, server: Running) -> Driven:
    """A page with a session that has hostile texts wherever a text can be."""
    state = {"__session_metadata__": {"displayName": LONG}, MARKUP: LONG, "user:short": MARKUP}
    session = server.new_session(state=state, events=hostile_events())
    message = {"role": "user", "parts": [{"text": LONG}]}
    body = {"appName": "desk", "userId": "ann", "sessionId": session, "newMessage": message}
    assert server.client.post("/run", json=body, timeout=60).status_code == 200
    return opened(f"/ui/desk/ann/{session}")


def test_no_link_leads_to_a_script(opened: Open, server: Running) -> None:
    """Neither a source nor its number in the text is a link, where the address is none of the web."""
    page = opened(f"/ui/desk/ann/{server.new_session(events=hostile_events()[1:2])}")
    expect(page.page.locator("sup", has_text="1")).to_be_visible()
    links: list[str] = page.page.evaluate("[...document.links].map((link) => link.protocol)")
    assert set(links) <= {"http:", "https:", "mailto:"}


def test_the_whole_of_a_long_text_does_not_stall(hostile: Driven) -> None:
    """A million characters are laid out as far as they are seen."""
    page = hostile.page
    page.evaluate(STALLS)
    for each in page.get_by_role("button", name="between").all():
        each.click()
    page.wait_for_timeout(500)
    stalls: list[Any] = page.evaluate("stalls")
    assert max(stalls, default=0) < MOST, stalls


def test_a_card_and_a_form_hold_a_text_without_end(opened: Open, served: Callable[[Any], Running]) -> None:
    """An argument that is too long to be changed is shown, and approved as it is; a person is asked with all of it."""
    page = opened(of=served(app_of(asking_agent())))
    page.page.add_init_script(f"({STALLS})()")
    page.goto("/ui/desk/ann?tab=model")
    page.find("composer").fill(MARKUP)
    page.find("composer").press("Enter")
    request = page.find("model-request")
    expect(request).to_contain_text("<img src=x")
    for each in request.locator("summary:visible").all():
        each.click()
    page.page.locator('[data-tool="keep_it"]').click()
    expect(page.find("tool-form")).to_be_visible()
    page.find("tool-form").get_by_role("button", name="JSON", exact=True).click()
    page.find("tool-form").get_by_label("As JSON").fill(json.dumps({"text": LINE}))
    page.find("answer-send").click()
    expect(page.find("approval")).to_contain_text("too long to be changed here")
    page.find("approve").click()
    expect(page.find("approval-answered")).to_contain_text("Approved.")
    assert page.page.evaluate("window.hacked") is None
    stalls: list[Any] = page.page.evaluate("stalls")
    assert max(stalls, default=0) < MOST, stalls


def unfold(page: Driven) -> None:
    """Open all that is folded in the panel."""
    panel = page.page.get_by_role("tabpanel")
    for each in panel.locator("summary:visible, .event-line:visible").all()[:12]:
        if each.is_visible():
            each.click()


@pytest.mark.parametrize("tab", TABS)
def test_a_panel_shows_hostile_texts_as_text(hostile: Driven, tab: str) -> None:
    """No element of theirs, no script, no link, nothing that turns the text, and no task that stalls the page."""
    page = hostile.page
    page.add_init_script(f"({STALLS})()")
    hostile.goto(f"/ui/desk/ann/{hostile.session}?tab={tab}")
    expect(page.get_by_role("tabpanel")).not_to_contain_text("Loading")
    unfold(hostile)
    page.wait_for_timeout(300)
    assert page.evaluate("window.hacked") is None
    assert page.locator(".shell img, .shell script, .shell a[href^='javascript']").count() == 0
    stalls: list[Any] = page.evaluate("stalls")
    assert max(stalls, default=0) < MOST, stalls
    assert page.evaluate("() => document.documentElement.scrollWidth <= innerWidth")
