"""The timeline, and what is copied from it and from the chat, in a browser (server spec §12)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from browser.driving import Driven
from playwright.sync_api import expect
from server.serving import Running

Open = Callable[..., Driven]


@pytest.mark.soak
def test_every_event_has_a_row_that_opens_to_its_json(opened: Open) -> None:
    """Rows tell time, author, kind and size; filters choose among them; a row leads to the chat."""
    page = opened()
    page.say("weather in Rome", answered="It is 21")
    rows = page.find("event-row")
    expect(rows).to_have_count(4)
    assert [row.get_attribute("data-kind") for row in rows.all()] == ["user", "call", "result", "text"]
    page.find("event-filter-kind").select_option("call")
    expect(rows).to_have_count(1)
    rows.get_by_role("button").first.click()
    expect(page.find("event-json")).to_contain_text('"name": "get_weather"')
    page.page.get_by_role("button", name="Show in chat").click()
    expect(page.find("message").nth(1)).to_be_focused()
    page.page.get_by_role("button", name="Show all events").click()
    page.find("event-filter-text").fill("celsius")
    expect(rows).to_have_count(1)
    page.find("event-filter-text").fill("nowhere to be found")
    expect(page.find("timeline")).to_contain_text("Nothing fits the filter")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("said", "told"), [("pay the bill", "pay → asks for approval"), ("book a table", "book → asks a question")]
)
def test_a_call_that_waits_has_not_failed(opened: Open, said: str, told: str) -> None:
    """Its result in the timeline is what it asks for."""
    page = opened()
    page.say(said)
    expect(page.find("event-row").filter(has_text="→")).to_contain_text(told)
    expect(page.find("timeline")).not_to_contain_text("failed")


@pytest.mark.soak
def test_an_event_of_an_unknown_form_has_a_row(opened: Open, server: Running) -> None:
    """It is never dropped: its JSON is there."""
    event = {
        "id": "odd",
        "invocationId": "i",
        "author": "desk",
        "timestamp": 1.0,
        "customMetadata": {"mood": "curious"},
    }
    page = opened(f"/ui/desk/ann/{server.new_session(events=[event])}")
    expect(page.find("event-row")).to_have_attribute("data-kind", "other")
    page.find("event-row").get_by_role("button").first.click()
    expect(page.find("event-json")).to_contain_text('"mood": "curious"')


@pytest.mark.soak
def test_events_are_filtered_by_author(opened: Open) -> None:
    """Those who said something may be chosen, alone or with a kind; the sums go on telling of all events."""
    page = opened()
    page.say("flights to Rome")
    rows, author, every = page.find("event-row"), page.find("event-filter-author"), len(page.stored())
    expect(rows).to_have_count(every)
    assert author.locator("option").all_inner_texts() == ["Author: all", "desk", "flights", "user"]
    for who in ("desk", "flights", "user"):
        author.select_option(who)
        expect(rows.locator(".event-author").filter(has_not_text=who)).to_have_count(0)
        assert set(rows.locator(".event-author").all_inner_texts()) == {who}
    expect(rows).to_have_count(1)
    expect(page.find("totals")).to_contain_text(f"{every} events")
    expect(page.find("totals")).to_contain_text("1 shown")
    page.find("event-filter-kind").select_option("call")
    expect(page.find("timeline")).to_contain_text("Nothing fits the filter")
    author.select_option("desk")
    expect(rows).to_have_count(1)
    page.find("timeline").get_by_role("button", name="Show all events").click()
    expect(rows).to_have_count(every)


@pytest.mark.soak
def test_an_event_is_copied_as_json_and_as_an_address(opened: Open) -> None:
    """The JSON is the stored event; the address leads to it."""
    page = opened()
    page.say("weather in Rome", answered="It is 21")
    row = page.find("event-row").last
    row.get_by_role("button").first.click()
    event = json.loads(page.copied(page.page.get_by_role("button", name="Copy JSON")))
    assert event == page.stored()[-1]
    address = page.copied(page.page.get_by_role("button", name="Copy link"))
    assert address.startswith(f"{page.server.url}/ui/desk/ann/{page.session}")
    other = opened(address.removeprefix(page.server.url))
    expect(other.page.locator(f'[data-testid="message"][data-event="{event["id"]}"]')).to_be_focused()


@pytest.mark.soak
def test_a_message_is_copied_as_it_was_written(opened: Open, server: Running) -> None:
    """Its text with the marks of Markdown, and without its thoughts."""
    page = opened()
    page.say("weather in Rome", answered="It is 21")
    page.messages.last.hover()
    text = page.copied(page.messages.last.get_by_role("button", name="Copy"))
    assert text == "It is **21 °C** in Rome, and dry."
