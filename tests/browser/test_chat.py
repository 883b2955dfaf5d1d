"""The chat in a browser: what is said, thought, called, cited, handed over, asked and broken (server spec §12)."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from browser.driving import Driven, events_of
from playwright.sync_api import expect
from server.serving import Running

Open = Callable[..., Driven]


def test_a_message_makes_a_session_and_is_answered(opened: Open) -> None:
    """The first message needs no session: it makes one, named by what was said, and the address tells it."""
    page = opened()
    page.say("Good morning", answered="You said: Good morning")
    session = page.opens_session()
    assert page.texts() == ["Good morning", "You said: Good morning"]
    expect(page.find("session-item")).to_have_count(1)
    expect(page.find("session-item")).to_contain_text("Good morning")
    assert [event["author"] for event in page.stored(session)] == ["user", "desk"]


@pytest.mark.soak
def test_a_call_is_one_chip_with_its_result(opened: Open) -> None:
    """Thoughts are folded; the call's chip opens to the arguments and the result."""
    page = opened()
    page.say("weather in Rome", answered="It is 21 °C in Rome")
    expect(page.find("thought")).to_have_count(1)
    expect(page.find("thought")).not_to_contain_text("look it up")
    page.find("thought").get_by_role("button").click()
    expect(page.find("thought")).to_contain_text("look it up")
    chip = page.find("tool-call")
    expect(chip).to_have_count(1)
    expect(chip).to_have_attribute("data-status", "done")
    chip.get_by_role("button").first.click()
    expect(page.find("tool-result")).to_contain_text('"celsius": 21')


@pytest.mark.soak
def test_a_call_that_fails_says_so(opened: Open) -> None:
    """The chip of a tool that raised is marked in words, not by colour alone."""
    page = opened()
    page.say("broken tool")
    expect(page.find("tool-call")).to_have_attribute("data-status", "failed")
    expect(page.find("tool-call")).to_contain_text("failed")


@pytest.mark.soak
def test_a_file_without_its_bytes_is_told_of(opened: Open, server: Running) -> None:
    """As is all that stands beside it: an event that is odd takes nothing else with it."""
    parts = [{"inlineData": {"mimeType": "image/png", "displayName": "plan.png"}}, {"text": "There you are."}]
    event = {"id": "e", "invocationId": "i", "author": "desk", "content": {"role": "model", "parts": parts}}
    session = server.new_session(events=[event])
    page = opened(f"/ui/desk/ann/{session}")
    expect(page.messages).to_contain_text("plan.png no data")
    assert page.texts() == ["There you are."]


@pytest.mark.soak
@pytest.mark.parametrize("tab", ["timeline", "agents"])
def test_an_agent_has_one_colour(opened: Open, server: Running, tab: str) -> None:
    """That of its place in the tree, whichever agent and whichever panel is drawn first."""
    session = server.new_session(events=[{**each, "author": "flights"} for each in events_of(100)])
    page = opened(f"/ui/desk/ann/{session}?tab={tab}")
    expect(page.page.locator('article[data-author="flights"]').last).to_have_attribute("data-hue", "2")


@pytest.mark.soak
def test_sources_are_numbered_and_mark_their_words(opened: Open) -> None:
    """The cited words are marked, with the numbers of the sources that stand below."""
    page = opened()
    page.say("sources please", answered="Bring a coat")
    assert page.find("source").all_inner_texts() == ["Rome in autumn", "Weather archive"]
    expect(page.page.locator(".cited")).to_have_text("In October it is 21 °C in Rome.")
    assert page.page.locator("a.note").all_inner_texts() == ["1", "2"]
    link = page.find("source").first.get_by_role("link")
    assert (link.get_attribute("href"), link.get_attribute("rel")) == (
        "https://example.com/rome",
        "noopener noreferrer nofollow",
    )


@pytest.mark.soak
def test_a_transfer_divides_the_conversation(opened: Open) -> None:
    """The next agent answers below a divider that names both."""
    page = opened()
    page.say("flights please")
    expect(page.find("transfer")).to_have_text("desk → flights")
    expect(page.messages.last).to_have_attribute("data-author", "flights")


@pytest.mark.soak
def test_an_artifact_is_a_chip_that_loads_it(opened: Open) -> None:
    """A file that an event saved is shown when one asks for it."""
    page = opened()
    page.say("file a note")
    page.find("artifact").click()
    expect(page.find("chat")).to_contain_text("Buy milk")


@pytest.mark.soak
def test_a_file_goes_with_the_message(opened: Open) -> None:
    """An attached file is listed, can be taken away, and is sent as data with its name."""
    page = opened()
    pixel = bytes.fromhex("89504e470d0a1a0a0000000d4948445200000001000000010806000000")
    page.find("attach-files").set_input_files(
        [
            {"name": "a.png", "mimeType": "image/png", "buffer": pixel},
            {"name": "b.txt", "mimeType": "text/plain", "buffer": b"b"},
        ]
    )
    expect(page.page.get_by_role("button", name="Take b.txt away")).to_be_visible()
    page.page.get_by_role("button", name="Take a.png away").click()
    page.say("look", answered="You said")
    (part,) = [part for part in page.stored()[0]["content"]["parts"] if "inlineData" in part]
    assert part["inlineData"]["displayName"] == "b.txt"


def test_an_approval_is_given_with_other_arguments(opened: Open) -> None:
    """The arguments are a form; what was changed goes with the approval, and the run goes on."""
    page = opened()
    page.say("pay the bill")
    expect(page.find("approval")).to_contain_text("wants to run pay")
    expect(page.find("approval")).to_contain_text("Tool pay needs your approval to run.")
    expect(page.find("approval")).not_to_contain_text("Answer with confirmed")  # for programs: people have buttons
    page.page.locator('[data-arg="euros"]').fill("many")
    expect(page.find("approve")).to_be_disabled()
    page.page.locator('[data-arg="euros"]').fill("20")
    page.find("approve").click()
    expect(page.find("approval-answered")).to_contain_text("Approved with changes")
    expect(page.messages.last).to_contain_text("was called with")
    page.rest()
    expect(page.find("approval")).to_have_count(0)
    expect(page.find("waiting")).to_have_count(0)


@pytest.mark.soak
def test_an_approval_is_refused_with_a_reason(opened: Open) -> None:
    """The agent hears the reason; the chip of the call says that it failed."""
    page = opened()
    page.say("pay the bill")
    page.find("reject-reason").fill("Too much")
    page.find("reject").click()
    expect(page.find("approval-answered")).to_contain_text("Rejected: Too much")
    page.rest()
    assert "Too much" in str(page.stored())


@pytest.mark.soak
def test_several_approvals_are_listed(opened: Open) -> None:
    """Each call that waits has a card, and a link to it above the composer."""
    page = opened()
    page.say("several payments")
    expect(page.find("approval")).to_have_count(2)
    expect(page.find("waiting")).to_contain_text("2 requests wait for you")
    page.find("approve").first.click()
    expect(page.find("approval")).to_have_count(1)
    page.rest()
    page.find("approve").click()
    expect(page.find("approval")).to_have_count(0)
    page.rest()


@pytest.mark.soak
def test_a_question_is_answered_by_its_schema(opened: Open) -> None:
    """A tool asks for a number: a word is refused where it is typed, a number goes on."""
    page = opened()
    page.say("book a table")
    field = page.find("input-request").get_by_role("textbox")
    field.fill("many")
    page.find("reply").click()
    expect(page.find("input-request")).to_contain_text("A number is expected")
    field.fill("4")
    page.find("reply").click()
    expect(page.messages.last).to_contain_text("for 4")
    page.rest()


@pytest.mark.soak
def test_an_error_stands_where_it_happened(opened: Open) -> None:
    """With its code and message; the same message can be sent again."""
    page = opened()
    page.say("fail now")
    expect(page.find("error")).to_have_count(1)
    expect(page.find("error")).to_contain_text("model exploded")
    page.find("try-again").click()
    expect(page.find("error")).to_have_count(2)
    page.rest()
    assert [event["author"] for event in page.stored()] == ["user", "desk", "user", "desk"]


@pytest.mark.soak
@pytest.mark.parametrize("mode", ["canonical", "legacy"])
def test_both_endpoints_show_the_same_messages(opened: Open, mode: str) -> None:
    """The flag is in the address, and remembered: the chat is the same over either endpoint."""
    page = opened(f"/ui/desk/ann?events={mode}")
    for text in ("weather in Rome", "sources please", "flights please"):
        page.say(text)
    asked = {
        request.rpartition("/")[2].partition("?")[0]
        for request in page.requests
        if "/run" in request and "/runs" not in request
    }
    assert asked == ({"run"} if mode == "legacy" else {"run_sse"})
    expect(page.messages).to_have_count(8)
    shown = [
        (
            each.get_attribute("data-author"),
            each.locator('[data-testid="message-text"]').all_inner_texts(),
            each.get_by_test_id("tool-call").count(),
            each.get_by_test_id("source").count(),
        )
        for each in page.messages.all()
    ]
    assert shown == [
        ("user", ["weather in Rome"], 0, 0),
        ("desk", [], 1, 0),
        ("desk", ["It is 21 °C in Rome, and dry."], 0, 0),
        ("user", ["sources please"], 0, 0),
        ("desk", ["In October it is 21 °C in Rome.12 Bring a coat for the evenings."], 0, 2),
        ("user", ["flights please"], 0, 0),
        ("desk", [], 1, 0),
        ("flights", ["You said: [desk] tool transfer_to_agent returned: {}"], 0, 0),
    ]
    page.page.goto(page.server.url + "/ui/desk/ann")
    assert page.page.evaluate("JSON.parse(localStorage['flowloom.prefs']).events") == mode
