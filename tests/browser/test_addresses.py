"""Addresses, keys and sessions in a browser (server spec §12)."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from browser.driving import Driven, events_of
from playwright.sync_api import expect
from server.serving import Running

Open = Callable[..., Driven]
VISIBLE = """() => {
  const seen = getComputedStyle(document.activeElement);
  const around = document.activeElement.closest(".writing");
  return seen.outlineStyle !== "none" || (around && getComputedStyle(around).boxShadow !== "none");
}"""
"""Whether what has the focus shows it."""


@pytest.fixture
def imported(server: Running) -> Callable[..., str]:
    """Makes a session of so many events."""
    return lambda count, text="Event {}", user="ann": server.new_session(user_id=user, events=events_of(count, text))


def focused(page: Driven, attribute: str) -> str | None:
    """An attribute of what has the focus."""
    return page.page.evaluate(f"() => document.activeElement?.getAttribute('{attribute}')")


# -- 1. deep links -----------------------------------------------------------------------------------


def test_the_link_of_an_event_scrolls_to_it_and_focuses_it(opened: Open, imported: Callable[..., str]) -> None:
    """Also an event far from the end, which is in the document only then."""
    page = opened(f"/ui/desk/ann/{imported(400)}#e=e000100")
    message = page.page.locator('[data-event="e000100"][data-testid="message"]')
    expect(message).to_be_in_viewport()
    expect(message).to_be_focused()


def test_the_link_of_an_event_before_those_in_memory_loads_it(opened: Open, imported: Callable[..., str]) -> None:
    """When the session is opened, and later; the newest events are one step away."""
    page = opened("/ui/desk/ann")
    page.page.evaluate("() => localStorage.setItem('flowloom.prefs', JSON.stringify({ retained: 200 }))")
    page.goto(f"/ui/desk/ann/{imported(1500)}#e=e000800")
    message = page.page.locator('[data-testid="message"]')
    expect(message.and_(page.page.locator('[data-event="e000800"]'))).to_be_focused()
    page.page.evaluate("() => { location.hash = 'e=e000005' }")
    expect(message.and_(page.page.locator('[data-event="e000005"]'))).to_be_focused()
    page.page.get_by_role("button", name="Back to the newest events").click()
    expect(page.find("chat")).to_contain_text("Event 1499")


@pytest.mark.soak
def test_back_and_forward_work(opened: Open, imported: Callable[..., str]) -> None:
    """Each session and each tab is a step."""
    one, two = imported(2, "First {}"), imported(2, "Second {}")
    page = opened(f"/ui/desk/ann/{one}")
    page.page.locator(f'[data-session="{two}"]').get_by_role("button").first.click()
    expect(page.find("chat")).to_contain_text("Second 1")
    page.page.go_back()
    expect(page.find("chat")).to_contain_text("First 1")
    page.page.go_forward()
    expect(page.find("chat")).to_contain_text("Second 1")


@pytest.mark.soak
def test_a_tab_is_a_part_of_the_address(opened: Open) -> None:
    """The tab that the address names is open; a name that there is not opens the first one."""
    page = opened("/ui/desk/ann?tab=timeline&span=abc")
    expect(page.page.get_by_role("tab", name="Timeline")).to_have_attribute("aria-selected", "true")
    page.goto("/ui/desk/ann?tab=nothing")
    expect(page.page.get_by_role("tab").first).to_have_attribute("aria-selected", "true")


@pytest.mark.soak
def test_a_session_that_is_gone_says_so(opened: Open) -> None:
    """The address of a session that there is not offers a new one."""
    page = opened("/ui/desk/ann/nowhere")
    expect(page.find("chat")).to_contain_text("There is no such session")
    page.forgiven = "404"
    page.page.get_by_role("button", name="New session").click()
    expect(page.find("chat")).to_contain_text("Talk to desk")


def test_an_app_that_is_not_there_says_so(opened: Open) -> None:
    """Whatever session of it the address names, nothing can be sent: another app can be chosen."""
    page = opened("/ui/nothing/ann/nowhere")
    page.forgiven = "404"
    chat = page.find("chat")
    expect(chat).to_contain_text("There is no app `nothing`.")
    expect(chat).to_contain_text("Choose another one")
    page.find("app-select").select_option("desk")
    expect(chat).to_contain_text("Talk to desk")


@pytest.mark.parametrize("name", [".", "..", "a/b"])
def test_a_user_that_no_address_has_is_refused(opened: Open, name: str) -> None:
    """Browsers take such a name for a folder, and would show the sessions of another user."""
    page = opened()
    user = page.find("user-id")
    user.fill(name)
    user.press("Enter")
    assert "No address has a user" in user.evaluate("field => field.validationMessage")
    assert page.address.endswith("/ui/desk/ann")
    user.fill("...")
    user.press("Enter")
    page.page.wait_for_url("**/ui/desk/...")


# -- 2. keys -----------------------------------------------------------------------------------------


@pytest.mark.soak
def test_enter_sends_and_shift_enter_makes_a_line(opened: Open) -> None:
    """And nothing is sent while a line is made."""
    page = opened()
    composer = page.find("composer")
    composer.press_sequentially("one")
    composer.press("Shift+Enter")
    composer.press_sequentially("two")
    assert page.messages.count() == 0
    composer.press("Enter")
    expect(page.messages.first).to_contain_text("one\ntwo")
    page.rest()
    assert page.stored()[0]["content"]["parts"][0]["text"] == "one\ntwo"


def test_keys_lead_through_events_and_sessions(opened: Open, imported: Callable[..., str]) -> None:
    """`j` and `k` select, `o` opens, brackets change the session, `n` begins one, `/` searches."""
    older, newer = imported(6, "Older {}", "eve"), imported(6, "Newer {}", "eve")
    page = opened(f"/ui/desk/eve/{newer}")
    expect(page.find("event-row")).to_have_count(6)
    page.find("chat").click(position={"x": 5, "y": 5})
    for key, chosen in (("j", "e000000"), ("j", "e000001"), ("k", "e000000")):
        page.page.keyboard.press(key)
        expect(page.page.locator(f'[data-event="{chosen}"][data-testid="message"]')).to_be_focused()
    page.page.keyboard.press("o")
    expect(page.find("event-json")).to_contain_text('"id": "e000000"')
    there, back = ("[", "]") if page.find("session-item").first.get_attribute("data-session") == older else ("]", "[")
    page.page.keyboard.press(there)
    expect(page.find("chat")).to_contain_text("Older 1")
    assert page.session == older
    page.page.keyboard.press(back)
    expect(page.find("chat")).to_contain_text("Newer 1")
    page.page.keyboard.press("/")
    expect(page.find("session-search")).to_be_focused()
    page.page.keyboard.type("j/")
    expect(page.find("session-search")).to_have_value("j/")
    page.page.keyboard.press("Escape")
    page.page.evaluate("() => document.activeElement.blur()")
    page.page.keyboard.press("n")
    expect(page.find("composer")).to_be_focused()
    assert page.session == "eve"


HURRIED = """async () => {
  const frame = () => new Promise(requestAnimationFrame);
  const press = (key) => document.body.dispatchEvent(new KeyboardEvent("keydown", { key, bubbles: true }));
  for (let tries = 0; tries < 16; tries += 1) {
    press("j");
    for (let waited = 0; waited < tries % 4; waited += 1) await frame();
    press(tries % 2 ? "]" : "[");
    await frame();
  }
}"""
"""The next event, and before it is scrolled to, another session."""


def test_a_list_that_goes_while_a_row_is_looked_for_is_let_go(opened: Open, imported: Callable[..., str]) -> None:
    """No error is written, however soon one leaves."""
    imported(40, user="ivo")
    page = opened(f"/ui/desk/ivo/{imported(40, 'Other {}', user='ivo')}")
    expect(page.messages.last).to_be_visible()
    page.page.evaluate("() => document.activeElement.blur()")
    page.page.evaluate(HURRIED)
    expect(page.find("chat")).to_contain_text("39")
    assert page.complaints == []


@pytest.mark.soak
def test_g_and_a_letter_go_to_a_place(opened: Open) -> None:
    """Chat, timeline, run, inspector; `?` lists the keys, Escape closes the list."""
    page = opened()
    for keys, place in (("gt", "tab=timeline"), ("gr", "tab=trace"), ("gi", "tab=request")):
        for key in keys:
            page.page.keyboard.press(key)
        assert place in page.address
    page.page.keyboard.press("?")
    expect(page.find("keys")).to_be_visible()
    page.page.keyboard.press("Escape")
    expect(page.find("keys")).to_have_count(0)
    page.page.keyboard.press("g")
    page.page.keyboard.press("c")
    expect(page.find("composer")).to_be_focused()
    page.page.keyboard.press("?")
    expect(page.find("composer")).to_have_value("?")


@pytest.mark.soak
def test_escape_stops_a_run_and_twice_where_text_is_selected(opened: Open) -> None:
    """What is selected is let go first."""
    page = opened()
    page.find("composer").fill("slow 200")
    page.find("composer").press("Enter")
    expect(page.messages.last).to_contain_text("w3")
    page.find("chat").focus()
    page.page.evaluate("() => document.activeElement.blur()")
    page.page.evaluate("() => getSelection().selectAllChildren(document.querySelector('.own .message-text'))")
    page.page.keyboard.press("Escape")
    expect(page.find("stop")).to_be_visible()
    page.page.keyboard.press("Escape")
    page.rest()
    expect(page.find("cut-off")).to_have_count(1)


@pytest.mark.soak
def test_a_and_r_answer_the_card_that_has_the_focus(opened: Open) -> None:
    """They do nothing elsewhere."""
    page = opened()
    page.say("several payments")
    page.page.evaluate("() => document.activeElement.blur()")
    page.page.keyboard.press("a")
    expect(page.find("approval")).to_have_count(2)
    page.find("approval").first.focus()
    page.page.keyboard.press("a")
    expect(page.find("approval")).to_have_count(1)
    page.rest()
    page.find("approval").first.focus()
    page.page.keyboard.press("r")
    expect(page.find("approval")).to_have_count(0)
    expect(page.find("approval-answered").last).to_contain_text("Rejected")
    page.rest()


def test_tab_reaches_every_control_in_reading_order(opened: Open) -> None:
    """The bar, the sessions, the composer, the panels; what has the focus can be seen."""
    page = opened()
    page.say("hello", answered="You said")
    page.goto(f"/ui/desk/ann/{page.opens_session()}")
    expect(page.messages).to_have_count(2)
    reached: list[str] = []
    for _ in range(60):
        page.page.keyboard.press("Tab")
        reached.append(focused(page, "data-testid") or focused(page, "role") or "")
        assert page.page.evaluate(VISIBLE), reached
        if reached[-1] == "event-filter-text":
            break
    order = [
        "app-select",
        "user-id",
        "theme",
        "session-import",
        "session-new",
        "session-search",
        "composer",
        "attach",
        "stream-toggle",
        "tab",
        "event-filter-text",
    ]
    assert [each for each in reached if each in order] == order


# -- 5. bounded --------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_bounded_number_of_events_is_kept_and_older_ones_are_loaded(
    opened: Open, imported: Callable[..., str]
) -> None:
    """The totals are those of the whole session; scrolling up brings the beginning."""
    session = imported(700)
    page = opened("/ui/desk/ann")
    page.page.evaluate("() => localStorage.setItem('flowloom.prefs', JSON.stringify({ retained: 200 }))")
    page.goto(f"/ui/desk/ann/{session}")
    expect(page.find("totals")).to_contain_text("700 events · 4,200 tokens")
    expect(page.find("totals")).to_contain_text("the last 200 in memory")
    for _ in range(100):
        if page.find("messages").get_by_text("Event 0", exact=True).count():
            break
        page.page.evaluate("() => { document.querySelector('[data-testid=messages]').scrollTop = 0 }")
        page.page.wait_for_timeout(150)
    expect(page.find("messages").get_by_text("Event 0", exact=True)).to_be_attached()
    expect(page.find("totals")).to_contain_text("700 events · 4,200 tokens")
    page.page.get_by_role("button", name="Back to the newest events").click()
    expect(page.find("chat")).to_contain_text("Event 699")


# -- sessions ----------------------------------------------------------------------------------------


@pytest.mark.soak
def test_a_session_is_renamed_forked_and_deleted_with_undo(opened: Open) -> None:
    """A deletion can be taken back for some seconds."""
    page = opened("/ui/desk/bea")
    page.say("hello", answered="You said")
    session = page.opens_session()
    page.find("session-item").hover()
    page.find("session-rename").click()
    page.find("session-name").fill("Greetings")
    page.find("session-name").press("Enter")
    expect(page.find("session-item")).to_contain_text("Greetings")
    page.find("session-item").hover()
    page.find("session-fork").click()
    expect(page.find("session-item")).to_have_count(2)
    page.page.wait_for_url(lambda url: session not in url)
    expect(page.messages).to_have_count(2)
    page.page.locator(f'[data-session="{session}"]').hover()
    page.page.locator(f'[data-session="{session}"]').get_by_test_id("session-delete").click()
    expect(page.find("session-item")).to_have_count(1)
    page.find("undo").get_by_role("button").click()
    expect(page.find("session-item")).to_have_count(2)
    assert page.server.client.get(f"{page.server.sessions(user_id='bea')}/{session}").status_code == 200
    page.page.locator(f'[data-session="{session}"]').hover()
    page.page.locator(f'[data-session="{session}"]').get_by_test_id("session-delete").click()
    page.page.reload()
    expect(page.find("session-item")).to_have_count(1)
    assert page.server.client.get(f"{page.server.sessions(user_id='bea')}/{session}").status_code == 404


@pytest.mark.soak
def test_a_deletion_is_taken_back_where_one_is(opened: Open, imported: Callable[..., str]) -> None:
    """It leads back to the session that was open, and nowhere if another one was."""
    first, second = imported(2, user="uma"), imported(2, user="uma")
    page = opened(f"/ui/desk/uma/{first}")
    for session in (second, first):
        page.page.locator(f'[data-session="{session}"]').hover()
        page.page.locator(f'[data-session="{session}"]').get_by_test_id("session-delete").click()
        page.find("undo").get_by_role("button").click()
        expect(page.find("session-item")).to_have_count(2)
        assert page.opens_session() == first


@pytest.mark.soak
def test_a_session_whose_last_message_was_refused_is_forked(opened: Open) -> None:
    """A fork has what the server has, whatever else the page shows."""
    page = opened("/ui/desk/vic")
    page.say("hello", answered="You said")
    session = page.opens_session()
    page.forgiven = "409"
    page.page.route("**/run_sse*", lambda route: route.fulfill(status=409, json={"detail": "Busy.", "code": "busy"}))
    page.find("composer").fill("again")
    page.find("composer").press("Enter")
    expect(page.find("error")).to_contain_text("Busy.")
    page.find("session-item").hover()
    page.find("session-fork").click()
    page.page.wait_for_url(lambda url: session not in url)
    expect(page.messages).to_have_count(2)


@pytest.mark.soak
def test_a_session_is_exported_and_imported(opened: Open) -> None:
    """What was exported comes in again with its messages; what is no session is refused in words."""
    page = opened("/ui/desk/cat")
    page.say("hello", answered="You said")
    with page.page.expect_download() as download:
        page.find("session-item").hover()
        page.find("session-export").click()
    exported = download.value.path().read_bytes()
    assert len(json.loads(exported)["events"]) == 2
    page.find("session-import-file").set_input_files(
        [{"name": "s.json", "mimeType": "application/json", "buffer": exported}]
    )
    expect(page.find("session-item")).to_have_count(2)
    expect(page.messages).to_have_count(2)
    for name, wrong in (("t.json", b"[1]"), ("u.json", b"null"), ("v.json", b"")):
        page.find("session-import-file").set_input_files(
            [{"name": name, "mimeType": "application/json", "buffer": wrong}]
        )
        expect(page.page.get_by_role("navigation").get_by_role("alert")).to_contain_text(f"{name} is no session")


@pytest.mark.soak
def test_sessions_are_searched(opened: Open) -> None:
    """By their name, or by what was said in them."""
    page = opened("/ui/desk/dan")
    page.say("apples", answered="apples")
    page.page.keyboard.press("Escape")
    page.find("session-new").click()
    page.say("pears", answered="pears")
    expect(page.find("session-item")).to_have_count(2)
    page.find("session-search").fill("apple")
    expect(page.find("session-item")).to_have_count(1)
    expect(page.find("session-item")).to_contain_text("apples")
    page.find("session-search").fill("nothing of it")
    expect(page.page.get_by_role("navigation", name="Sessions")).to_contain_text("Nothing found")


@pytest.mark.soak
def test_a_list_tells_what_each_session_is_doing(opened: Open, server: Running) -> None:
    """Those that this page has not opened, too; what another one did is seen at the next look."""
    failed, paused, idle = (server.new_session(user_id="kim") for _ in range(3))
    for session, said in ((failed, "fail now"), (paused, "pay the bill"), (idle, "hello")):
        message = {"role": "user", "parts": [{"text": said}]}
        body = {"appName": "desk", "userId": "kim", "sessionId": session, "newMessage": message}
        server.client.post("/run", json=body)
    page = opened("/ui/desk/kim")
    items = {
        each: page.page.locator(f'[data-testid="session-item"][data-session="{each}"]')
        for each in (failed, paused, idle)
    }
    expect(items[failed]).to_contain_text("failed")
    expect(items[paused]).to_contain_text("waits for you")
    expect(items[idle].locator(".session-status")).to_have_count(0)
    items[paused].get_by_role("button").first.click()
    page.find("reject").click()
    page.rest()
    items[idle].get_by_role("button").first.click()
    expect(items[paused].locator(".session-status")).to_have_count(0)
