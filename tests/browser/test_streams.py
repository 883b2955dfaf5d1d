"""Runs that stream in a browser: what breaks, is stopped, lost, reloaded, and followed elsewhere (server spec §12)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from threading import Event

import pytest
from browser.driving import Driven
from browser.office import office
from playwright.sync_api import Route, expect
from server.serving import Running, serving

from flowloom.asgi.principal import token_auth
from flowloom.server import app_of

Open = Callable[..., Driven]


def begin(page: Driven, text: str, seen: str = "w3") -> None:
    """Send a message, and wait until the answer streams."""
    page.find("composer").fill(text)
    page.find("composer").press("Enter")
    expect(page.messages.last).to_contain_text(seen)


LISTENING = """() => {
  window.told = [];
  const region = document.querySelector("[data-testid=live]");
  const listen = new MutationObserver(() => told.push(region.textContent));
  listen.observe(region, { childList: true, characterData: true, subtree: true });
}"""
"""Writes down what the polite region says."""
NEXT_FRAME = """() => new Promise((done) => {
  const from = performance.now();
  requestAnimationFrame(() => done(performance.now() - from));
})"""
"""How many milliseconds the next frame takes."""


# -- 6. what was said is kept ------------------------------------------------------------------------


def test_partial_text_is_kept_when_a_run_fails(opened: Open) -> None:
    """It is marked as cut off, the error stands below it; also after a reload."""
    page = opened()
    page.say("breaks 20")
    for reload in (False, True):
        if reload:
            page.page.reload()
        expect(page.messages).to_have_count(2)
        expect(page.messages.last).to_contain_text("w9")
        expect(page.find("cut-off")).to_have_count(1)
        expect(page.find("error")).to_have_count(1)
        expect(page.find("error")).to_contain_text("the line went dead")
        expect(page.find("try-again")).to_be_visible()
        expect(page.find("continue")).to_be_visible()


@pytest.mark.soak
def test_partial_text_is_kept_when_a_run_is_stopped(opened: Open) -> None:
    """And the run has ended on the server."""
    page = opened()
    begin(page, "slow 300", seen="w5")
    page.find("stop").click()
    page.rest()
    expect(page.messages).to_have_count(2)
    expect(page.find("cut-off")).to_have_count(1)
    expect(page.messages.last).to_contain_text("w5")
    assert page.stored()[-1]["errorCode"] == "INVOCATION_ABORTED"
    page.page.reload()
    expect(page.messages.last).to_contain_text("w5")


@pytest.mark.soak
def test_a_stopped_answer_is_continued(opened: Open) -> None:
    """The run goes on with the history, without another message."""
    page = opened()
    begin(page, "slow 300")
    page.find("stop").click()
    page.rest()
    page.find("continue").click()
    expect(page.messages).to_have_count(3)
    expect(page.messages.last).not_to_contain_text("cut off")
    page.rest()
    assert [event["author"] for event in page.stored()].count("user") == 1


@pytest.mark.soak
def test_thoughts_open_while_they_stream_and_close_at_the_answer(opened: Open, held: Event) -> None:
    """What one thinks is seen as it comes, and out of the way of the answer."""
    page = opened()
    page.find("composer").fill("think 30")
    page.find("composer").press("Enter")
    expect(page.find("thought")).to_contain_text("Let me think")
    held.set()
    expect(page.messages.last).to_contain_text("w1")
    expect(page.find("thought")).not_to_contain_text("Let me think")
    page.rest()
    assert page.texts()[-1].split() == [f"w{index}" for index in range(30)]


# -- 7. a lost connection ----------------------------------------------------------------------------


@pytest.mark.soak
def test_a_lost_connection_is_found_again_without_an_event_twice(opened: Open) -> None:
    """The page says so, asks for the rest of the stream, and shows every word once."""
    page = opened()
    begin(page, "slow 60")
    page.page.context.set_offline(True)
    page.forgiven = "ERR_INTERNET_DISCONNECTED"
    cut = page.page.evaluate_handle("() => 1")
    assert cut is not None
    page.page.wait_for_timeout(100)
    page.page.context.set_offline(False)
    page.rest()
    assert page.texts()[-1].split() == [f"w{index}" for index in range(60)]


def test_a_stream_that_breaks_is_taken_up_where_it_broke(opened: Open, held: Event) -> None:
    """With the id of the last frame; no word is missing or doubled, though the server is first not reached."""
    page = opened()
    asked: list[str | None] = []

    def follow(route: Route) -> None:
        asked.append(route.request.headers.get("last-event-id"))
        if held.is_set():
            route.continue_()
        else:
            route.abort("connectionfailed")

    page.forgiven = "ERR_CONNECTION_FAILED"
    page.page.route(re.compile("/runs/.*/events"), follow)
    page.page.add_init_script(BREAKING)
    page.goto("/ui/desk/ann")
    begin(page, "held 60")
    expect(page.find("reconnecting")).to_be_visible()
    while not asked:
        page.page.wait_for_timeout(20)
    held.set()
    page.rest()
    assert page.texts()[-1].split() == [f"w{index}" for index in range(60)]
    assert len(page.messages.all()) == 2
    assert all(asked), asked
    assert len(asked) > 1


BREAKING = """
const real = window.fetch;
let broken = false;
window.fetch = async (address, options) => {
  const response = await real(address, options);
  if (!String(address).includes("/run_sse") || broken) return response;
  broken = true;
  let frames = 0;
  const breaking = new TransformStream({
    transform(chunk, controller) {
      if ((frames += 1) > 8) controller.error(new TypeError("network error"));
      else controller.enqueue(chunk);
    },
  });
  return new Response(response.body.pipeThrough(breaking), { status: response.status, headers: response.headers });
};
"""
"""Breaks the first stream after some frames, as a network does."""


# -- 11., 12. tabs and reloads -----------------------------------------------------------------------


@pytest.mark.soak
def test_two_tabs_show_the_same_run(opened: Open, held: Event) -> None:
    """A run that another page begins appears, streams, and is there once."""
    first = opened()
    first.say("hello", answered="You said")
    second = opened(f"/ui/desk/ann/{first.opens_session()}")
    expect(second.messages).to_have_count(2)
    begin(first, "held 60")
    expect(second.find("stop")).to_be_visible()
    expect(second.messages.last).to_contain_text("w5")
    held.set()
    first.rest()
    second.rest()
    expect(second.messages).to_have_count(4)
    assert first.texts() == second.texts()


@pytest.mark.soak
def test_nothing_is_lost_when_the_page_is_reloaded_in_a_run(opened: Open, held: Event) -> None:
    """The run goes on meanwhile, and the page finds it; the draft is there, too."""
    page = opened()
    begin(page, "held 60")
    page.find("composer").fill("and then")
    page.page.reload()
    expect(page.find("composer")).to_have_value("and then")
    expect(page.find("stop")).to_be_visible()
    held.set()
    page.rest()
    expect(page.messages).to_have_count(2)
    assert page.texts()[-1].split() == [f"w{index}" for index in range(60)]


@pytest.mark.soak
def test_a_run_that_was_begun_elsewhere_appears(opened: Open, held: Event) -> None:
    """By another client, of which no tab tells: the page finds it and follows it."""
    page = opened()
    page.say("hello", answered="You said")
    message = {"role": "user", "parts": [{"text": "held 80"}]}
    body = {"appName": "desk", "userId": "ann", "sessionId": page.opens_session(), "newMessage": message}
    with page.server.client.stream("POST", "/run_sse", json={**body, "streaming": True}) as stream:
        expect(page.find("stop")).to_be_visible()
        expect(page.messages.last).to_contain_text("w20")
        held.set()
        stream.read()
    page.rest()
    assert page.texts()[-2] == "held 80"
    assert page.texts()[-1].split() == [f"w{index}" for index in range(80)]


@pytest.mark.soak
def test_the_list_says_what_a_session_is_at(opened: Open) -> None:
    """It runs, waits for a person, or has failed; its last words are what was said, not what went wrong."""
    page = opened("/ui/desk/fay")
    item = page.find("session-item")
    begin(page, "slow 600")
    expect(item).to_contain_text("running")
    page.find("stop").click()
    page.rest()
    page.say("pay the bill")
    expect(item).to_contain_text("waits for you")
    page.find("reject").click()
    page.rest()
    page.say("fail now")
    expect(item).to_contain_text("failed")
    expect(item).to_contain_text("fail now")
    expect(item).not_to_contain_text("exploded")


# -- 9. what is announced ----------------------------------------------------------------------------


@pytest.mark.soak
def test_finished_messages_are_announced_and_not_their_pieces(opened: Open) -> None:
    """One polite region; errors and what waits for a person in the assertive one."""
    page = opened()
    page.page.evaluate(LISTENING)
    page.say("ticks 30")
    expect(page.find("live")).to_contain_text("desk: w0 w1")
    assert len([each for each in page.page.evaluate("told") if each]) == 1
    page.say("pay the bill")
    expect(page.find("live-urgent")).to_contain_text("waits for you")
    assert page.page.locator("[aria-live=polite]").count() == 1


@pytest.mark.soak
def test_errors_are_announced_at_once(opened: Open) -> None:
    """In the assertive region, once, with what went wrong; the polite one says nothing of it."""
    page = opened()
    page.say("fail now")
    expect(page.find("live-urgent")).to_have_text("Error: model exploded")
    page.say("breaks 6")
    expect(page.find("live-urgent")).to_contain_text("the line went dead")
    assert "Error" not in (page.find("live").text_content() or "")
    assert page.page.locator("[aria-live=assertive]").count() == 1


# -- 10. hostile text --------------------------------------------------------------------------------


def test_hostile_text_is_shown_as_text(opened: Open) -> None:
    """No element of the model's, no script, no link but to http(s) and mail, no request for its picture."""
    page = opened()
    page.say("hostile", answered="<img src=x onerror=")
    assert page.page.evaluate("window.hacked") is None
    text = page.find("message-text").last
    assert text.locator("img, script").count() == 0
    assert [link.get_attribute("href") for link in text.get_by_role("link").all()] == [
        "https://example.com/ok",
        "https://evil.example/track.png",
    ]
    assert {link.get_attribute("rel") for link in text.get_by_role("link").all()} == {"noopener noreferrer nofollow"}
    expect(text).to_contain_text("[" * 100)


@pytest.mark.soak
def test_a_line_without_end_does_not_stall(opened: Open) -> None:
    """A million characters in one line are cut to what one can look at."""
    page = opened()
    page.find("stream-toggle").click()
    page.say("endless line")
    expect(page.page.get_by_role("button", name="Show the 985.0 kB between")).to_be_visible()
    assert page.page.evaluate(NEXT_FRAME) < 2500  # to lay it out whole takes several times as long


@pytest.mark.soak
def test_what_is_written_while_a_session_is_made_stays(opened: Open) -> None:
    """It waits in the composer of the new session, and begins no other one."""
    page = opened("/ui/desk/wim")
    held: list[Route] = []
    page.page.route("**/users/wim/sessions", lambda route: held.append(route))
    page.find("composer").fill("first")
    with page.page.expect_request("**/users/wim/sessions"):
        page.find("composer").press("Enter")
    page.find("composer").fill("second")
    page.find("composer").press("Enter")
    assert len(held) == 1
    held[0].continue_()
    expect(page.messages.last).to_contain_text("You said: first")
    page.rest()
    expect(page.find("composer")).to_have_value("second")
    page.page.reload()
    expect(page.find("composer")).to_have_value("second")
    page.find("session-new").click()
    expect(page.find("composer")).to_have_value("")


# -- 14. prefix and token ----------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded() -> Iterator[Running]:
    """A server below a prefix, that wants a token."""
    with serving(app_of(office(), url_prefix="/loom", auth=token_auth("sesame"))) as running:
        yield running


def test_the_page_works_at_a_prefix_and_behind_a_token(opened: Open, guarded: Running) -> None:
    """The token is asked for once, a wrong one is refused, and it is kept for the tab."""
    context_page = opened("/loom/ui/desk/ann" if not guarded.url.endswith("/loom") else "/ui/desk/ann", of=guarded)
    context_page.forgiven = "401"
    field = context_page.find("token")
    expect(field).to_be_visible()
    for wrong in ("schlüssel €", "wrong"):
        field.fill(wrong)
        field.press("Enter")
        expect(context_page.page.get_by_role("dialog")).to_contain_text("not right")
    field.fill("sesame")
    field.press("Enter")
    expect(field).to_have_count(0)
    context_page.find("composer").fill("hello")
    context_page.find("composer").press("Enter")
    expect(context_page.messages.last).to_contain_text("You said: hello")
    assert "/loom/ui/desk/ann/" in context_page.address
    context_page.page.reload()
    expect(context_page.messages).to_have_count(2)
    expect(field).to_have_count(0)
