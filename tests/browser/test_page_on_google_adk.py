"""The page in front of google-adk's own server, as far as that answers (server spec §12, statement 14)."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from browser.driving import Driven
from playwright.sync_api import Browser, Route, expect
from server.google_adk_peer import google_adk_server
from server.serving import Running, desk, serving

from flowloom.server import app_of

pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]


@pytest.fixture(scope="module")
def theirs(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """google-adk's server."""
    with google_adk_server(tmp_path_factory.mktemp("theirs")) as url:
        yield url


@pytest.fixture(scope="module")
def ours() -> Iterator[Running]:
    """A server of ours, which has the files of the page."""
    with serving(app_of(desk())) as running:
        yield running


@pytest.fixture
def page(browser: Browser, theirs: str, ours: Running) -> Iterator[Driven]:
    """The page at the address of google-adk's server: only its files come from ours, as a proxy would have it."""
    context = browser.new_context(viewport={"width": 1440, "height": 900})

    def file(route: Route) -> None:
        found = ours.client.get(route.request.url.removeprefix(theirs))
        route.fulfill(status=found.status_code, headers=dict(found.headers), body=found.content)

    context.route(f"{theirs}/ui/**", file)
    opened = context.new_page()
    opened.set_default_timeout(60_000)
    running = Running.__new__(Running)
    running.url = theirs
    driven = Driven(opened, running)
    driven.goto("/ui/desk/ann")
    yield driven
    context.close()
    serious = [said for said in driven.complaints if not re.search("status of 40[45]", said)]  # what it does not have
    assert serious == []


def test_a_conversation_is_held(page: Driven) -> None:
    """Streamed words, thoughts, calls, a transfer and an error, once each; after a reload as well."""
    page.say("hello there", answered="desk-model heard: hello there")
    page.say("think now", answered="Here it is.")
    page.say("weather", answered="The result of weather is here.")
    page.say("transfer", answered="Flights here.")
    expect(page.find("transfer")).to_have_text("desk → flights")
    before = page.texts()
    assert before.count("Here it is.") == 1
    page.page.reload()
    expect(page.messages.last).to_contain_text("Flights here.")
    assert page.texts() == before
    expect(page.find("session-item", has_text="hello there")).to_have_count(1)


def test_a_failing_run_says_so(page: Driven) -> None:
    """The error frame stands in the chat, and the next message is answered."""
    page.say("explode")
    expect(page.find("error").first).to_contain_text("model exploded")
    page.say("hello again", answered="heard: hello again")


def test_a_call_is_approved(page: Driven) -> None:
    """The card is answered as that server expects it."""
    page.say("pay")
    page.find("approve").click()
    expect(page.messages.last).to_contain_text("The result of pay is here.")
    page.rest()
    expect(page.find("approval")).to_have_count(0)


def test_a_run_is_stopped(page: Driven) -> None:
    """There is nothing to cancel a run with: the page leaves the stream, and keeps what was said, above the error that
    the server may have stored by then."""
    page.find("composer").fill("slow")
    page.find("composer").press("Enter")
    expect(page.messages.last).to_contain_text("word1")
    page.find("stop").click()
    page.rest()
    expect(page.messages.filter(has_text="word1")).to_have_count(1)
    expect(page.find("cut-off")).to_have_count(1)


@pytest.mark.parametrize(
    ("tab", "said"),
    [
        ("timeline", "events"),
        ("state", "written by desk"),
        ("artifacts", "plan.png"),
        ("agents", "You are a desk."),
        ("trace", "keeps no trace"),
        ("request", "keeps no request"),
        ("model", "has no requests for people"),
        ("settings", "Theme"),
    ],
)
def test_a_panel_shows_what_there_is_or_says_what_is_missing(page: Driven, tab: str, said: str) -> None:
    """State, artifacts and agents are had from any such server; traces, requests and the inbox are ours alone."""
    page.say("note", answered="The result of note is here.")
    page.say("draw", answered="The result of draw is here.")
    page.page.locator(f"#tab-{tab}").click()
    panel = page.page.get_by_role("tabpanel")
    if tab == "agents":
        panel.locator("summary").first.click()
    expect(panel).to_contain_text(said)
