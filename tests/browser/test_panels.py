"""The panels beside the chat, in a real browser: the request inspector, the run, state, artifacts, agents, settings."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from typing import Any

import pytest
from browser.driving import Driven, events_of
from playwright.sync_api import Locator, expect
from server.serving import Running

Open = Callable[..., Driven]


TABS = ("trace", "request", "state", "artifacts", "agents", "model", "settings")


@pytest.fixture
def desk(opened: Open, server: Running) -> Driven:
    """A page with a session in which the desk has used a tool, and saved a note."""
    session = server.new_session()
    for text in ("weather in Rome?", "file it"):
        run(server, session, text)
    return opened(f"/ui/desk/ann/{session}")


def run(server: Running, session: str, text: str) -> None:
    """A run of the session, over HTTP."""
    message = {"role": "user", "parts": [{"text": text}]}
    body = {"appName": "desk", "userId": "ann", "sessionId": session, "newMessage": message}
    assert server.client.post("/run", json=body).status_code == 200


def tab(page: Driven, name: str, **params: str) -> None:
    """Open a panel by its address."""
    query = "&".join(f"{key}={value}" for key, value in {"tab": name, **params}.items())
    page.goto(f"/ui/desk/ann/{page.session}?{query}")


def panel(page: Driven) -> Locator:
    """The panel that is open."""
    return page.page.get_by_role("tabpanel")


def test_the_inspector_names_who_wrote_each_piece(desk: Driven) -> None:
    """Each piece of the request has its author beside it, in the author's colour."""
    tab(desk, "request")
    pieces = desk.find("section")
    instruction = pieces.filter(has_text="Be brief, and kind.").first
    expect(instruction.get_by_test_id("section-author")).to_have_text("instructions")
    tool = pieces.filter(has_text="The weather in a city.").first
    expect(tool.get_by_test_id("section-author")).to_have_text("tool_declarations")
    edges = [each.evaluate("node => getComputedStyle(node).borderInlineStartColor") for each in (instruction, tool)]
    assert edges[0] != edges[1]


def test_a_request_that_is_not_kept_is_none(opened: Open, server: Running) -> None:
    """The inspector says so, and no error stands in the console: of a session of another server nothing is kept."""
    page = opened(f"/ui/desk/ann/{server.new_session(events=events_of(4))}?tab=request")
    expect(panel(page)).to_contain_text("keeps no request for this event")
    panel(page).get_by_role("button", name="Previous model call").click()
    expect(panel(page)).to_contain_text("1 of 2")
    expect(panel(page)).to_contain_text("keeps no request for this event")


@pytest.mark.parametrize("name", ["trace", "request", "state", "artifacts"])
def test_a_session_that_is_not_there_is_asked_for_nothing(opened: Open, name: str) -> None:
    """Nor is a file saved for it: a panel waits until the session of the address is open."""
    page = opened(f"/ui/desk/ann/nowhere?tab={name}")
    page.forgiven = "/nowhere\\)"  # the session itself
    expect(panel(page)).to_contain_text("No session is open")
    expect(page.find("chat")).to_contain_text("There is no such session")
    assert [url for url in page.requests if "/nowhere/" in url] == []


@pytest.mark.soak
def test_a_click_on_a_processor_shows_only_its_pieces(desk: Driven) -> None:
    """A second click shows all of them again."""
    tab(desk, "request")
    every = desk.find("section")
    expect(every.first).to_be_visible()
    before = every.count()
    desk.page.get_by_role("navigation", name="Processors").get_by_role("button", name="tool_declarations").click()
    expect(every.get_by_test_id("section-author").filter(has_not_text="tool_declarations")).to_have_count(0)
    assert 0 < every.count() < before
    every.first.get_by_test_id("section-author").click()
    expect(every).to_have_count(before)


@pytest.mark.soak
def test_the_inspector_shows_the_difference_from_the_call_before(desk: Driven) -> None:
    """What the second call of a run adds to the first stands line by line, with its author."""
    tab(desk, "request")
    difference = desk.find("request-diff")
    expect(difference).to_contain_text("added")
    difference.locator("summary").click()
    expect(difference).to_contain_text("contents[")
    expect(difference.locator(".line-added").first).to_be_visible()


@pytest.mark.soak
def test_an_event_that_is_selected_is_the_one_inspected(desk: Driven) -> None:
    """The address says which; the buttons go from call to call."""
    first, *_ = [event for event in desk.stored() if event["author"] == "desk"]
    desk.goto(f"/ui/desk/ann/{desk.session}?tab=request#e={first['id']}")
    calls = desk.page.get_by_role("combobox", name="Model call")
    expect(calls).to_have_value(first["id"])
    desk.page.get_by_role("button", name="Next model call").click()
    expect(calls).not_to_have_value(first["id"])


@pytest.mark.soak
def test_a_request_is_copied_as_json_and_as_curl(desk: Driven) -> None:
    """The JSON is the request; the command has neither a key nor the server's token in it."""
    tab(desk, "request")
    copied = json.loads(desk.copied(desk.page.get_by_role("button", name="Copy JSON")))
    assert copied["contents"][0]["parts"][0]["text"] == "weather in Rome?"
    command = desk.copied(desk.page.get_by_role("button", name="Copy curl"))
    assert command.startswith("curl ")
    assert "$GEMINI_API_KEY" in command


@pytest.mark.soak
def test_a_dry_run_shows_what_the_next_message_would_send(desk: Driven) -> None:
    """Nothing is sent or stored by it."""
    stored = desk.stored()
    tab(desk, "request")
    dry = desk.find("dry-run")
    dry.locator("summary").click()
    dry.get_by_label("The next message").fill("And in Oslo?")
    dry.get_by_role("button", name="Show the request").click()
    expect(desk.page.get_by_text("Nothing was sent or stored.")).to_be_visible()
    expect(desk.find("section").filter(has_text="And in Oslo?")).to_be_visible()
    assert desk.stored() == stored


@pytest.mark.soak
def test_a_run_is_a_tree_of_spans_with_bars(desk: Driven) -> None:
    """Agents, processors, models and tools stand below each other, what took long is marked as critical."""
    tab(desk, "trace")
    rows = desk.find("span-row")
    expect(rows.filter(has_text="invoke_agent desk")).to_be_visible()
    expect(rows.filter(has_text="execute_tool save_note")).to_be_visible()
    expect(rows.filter(has_text="tool_declarations").first).to_be_visible()
    expect(rows.filter(has_text="generate_content").first).to_have_attribute("aria-level", "2")
    assert desk.page.locator(".span-row.critical").count() > 0
    every = rows.count()
    desk.page.get_by_label("processors").uncheck()
    expect(rows.filter(has_text="tool_declarations")).to_have_count(0)
    assert rows.count() < every


@pytest.mark.soak
def test_a_tool_that_waits_for_approval_has_not_failed(opened: Open, server: Running) -> None:
    """Its span says that it has asked; the one of its run, after the answer, does not."""
    session = server.new_session()
    run(server, session, "pay")
    page = opened(f"/ui/desk/ann/{session}?tab=trace")
    rows = page.find("span-row").filter(has_text="execute_tool pay")
    expect(rows).to_have_count(1)
    expect(rows).to_contain_text("asked")
    expect(rows).to_have_accessible_name(re.compile("asked for approval"))
    expect(panel(page).get_by_text("failed")).to_have_count(0)
    page.find("approve").click()
    page.rest()
    expect(rows).to_have_count(2)
    expect(rows.last).not_to_contain_text("asked")


@pytest.mark.soak
def test_the_tree_of_spans_is_walked_by_keyboard(desk: Driven) -> None:
    """Arrows go and fold, Enter chooses; the address names the span."""
    tab(desk, "trace")
    rows = desk.find("span-row")
    rows.first.focus()
    desk.page.keyboard.press("ArrowDown")
    expect(rows.nth(1)).to_be_focused()
    desk.page.keyboard.press("Enter")
    expect(rows.nth(1)).to_have_attribute("aria-selected", "true")
    assert "span=" in desk.address
    desk.page.keyboard.press("ArrowLeft")
    expect(rows.first).to_be_focused()
    desk.page.keyboard.press("ArrowLeft")
    expect(rows).to_have_count(1)


@pytest.mark.soak
def test_a_span_is_reached_by_its_address(desk: Driven) -> None:
    """A link to a span opens the run that it belongs to."""
    path = f"/dev/apps/desk/users/ann/sessions/{desk.session}/trace"
    tool = next(each for each in desk.server.client.get(path).json() if each["name"] == "execute_tool get_weather")
    tab(desk, "trace", span=tool["spanId"])
    expect(desk.page.locator('[aria-selected="true"][data-testid="span-row"]')).to_contain_text("get_weather")


@pytest.mark.soak
def test_tokens_and_costs_are_summed_by_agent(desk: Driven) -> None:
    """A cost is shown once the price of the model is known."""
    tab(desk, "trace")
    total = desk.find("usage-total")
    expect(total).to_contain_text(re.compile(r"Together\s*2\s*1\s*\d"))
    desk.page.get_by_role("button", name="Set prices").click()
    desk.page.get_by_label("Model", exact=True).fill("f")
    desk.page.get_by_role("button", name="Add a model").click()
    desk.page.get_by_label("Price in of f").fill("1000")
    desk.page.get_by_label("Price out of f").fill("1000")
    desk.page.get_by_label("Price out of f").press("Tab")
    tab(desk, "trace")
    expect(total).to_contain_text("$")


@pytest.mark.soak
def test_state_stands_by_scope_with_the_event_that_wrote_it(desk: Driven) -> None:
    """A link leads to that event."""
    tab(desk, "state")
    key = desk.find("state-key").filter(has_text="notes")
    expect(key).to_contain_text("written by desk")
    key.get_by_role("button", name="desk at").click()
    desk.page.wait_for_url("**#e=*")


@pytest.mark.soak
def test_state_is_edited_and_added(desk: Driven) -> None:
    """What is no JSON is refused beside the field; what is saved is on the server."""
    tab(desk, "state")
    desk.page.get_by_role("button", name="Edit notes").click()
    value = desk.page.get_by_label("Value, as JSON")
    value.fill("hello")
    desk.page.get_by_role("button", name="Save", exact=True).click()
    expect(desk.page.get_by_role("alert")).to_contain_text("no JSON")
    value.fill('{"a": [1]}')
    value.press("Control+Enter")
    expect(desk.find("state-key").filter(has_text="notes")).to_contain_text("written by user")
    desk.page.get_by_role("button", name="Add a key").click()
    desk.page.get_by_role("textbox", name="Key", exact=True).fill("user:city")
    value.fill('"Oslo"')
    desk.page.get_by_role("button", name="Save", exact=True).click()
    expect(desk.page.get_by_role("region", name="User state")).to_contain_text("Oslo")
    stored = desk.server.client.get(f"{desk.server.sessions()}/{desk.session}").json()["state"]
    assert stored["notes"] == {"a": [1]}
    assert stored["user:city"] == "Oslo"


def test_whole_numbers_of_any_length_keep_their_digits(opened: Open, server: Running) -> None:
    """Shown, edited and written beside others, where numbers of JavaScript would be rounded."""
    session = server.new_session(state={"account": 9007199254740993, "limits": {"most": 18446744073709551615}})
    page = opened(f"/ui/desk/ann/{session}?tab=state")
    expect(page.find("state-key").filter(has_text="account")).to_contain_text("9007199254740993")
    page.page.get_by_role("button", name="Edit limits").click()
    value = page.page.get_by_label("Value, as JSON")
    expect(value).to_have_value('{\n  "most": 18446744073709551615\n}')
    value.fill('{"most": 18446744073709551615, "least": -9007199254740993}')
    value.press("Control+Enter")
    expect(page.find("state-key").filter(has_text="limits")).to_contain_text("written by user")
    stored = server.client.get(f"{server.sessions()}/{session}").json()["state"]
    assert stored == {
        "account": 9007199254740993,
        "limits": {"most": 18446744073709551615, "least": -9007199254740993},
    }


@pytest.mark.soak
def test_artifacts_have_versions_and_a_preview(desk: Driven) -> None:
    """Text is shown as text, an image as an image; the event that saved it is linked."""
    run(desk.server, desk.session, "file it again")
    tab(desk, "artifacts")
    note = panel(desk).get_by_test_id("artifact").filter(has_text="note.txt")
    expect(note).to_contain_text("2 versions")
    note.locator("summary").first.click()
    expect(note).to_contain_text("Buy milk")
    expect(note).to_contain_text("saved by desk")
    note.get_by_label("Version").select_option("0")
    expect(note).to_contain_text("Buy milk")


PIXEL = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.soak
def test_artifacts_are_uploaded_and_deleted(desk: Driven) -> None:
    """A page is never shown as HTML; an image is drawn."""
    tab(desk, "artifacts")
    files: list[Any] = [
        {"name": "pixel.png", "mimeType": "image/png", "buffer": PIXEL},
        {"name": "page.html", "mimeType": "text/html", "buffer": b"<script>window.hacked = 1</script>"},
    ]
    desk.page.get_by_label("Files to upload").set_input_files(files)
    picture = panel(desk).get_by_test_id("artifact").filter(has_text="pixel.png")
    picture.locator("summary").first.click()
    shown = picture.get_by_role("img")
    expect(shown).to_have_js_property("naturalWidth", 1)
    page = panel(desk).get_by_test_id("artifact").filter(has_text="page.html")
    page.locator("summary").first.click()
    expect(page).to_contain_text("<script>")
    assert desk.page.evaluate("window.hacked") is None
    picture.get_by_role("button", name="Delete pixel.png").click()
    picture.get_by_role("button", name="Delete", exact=True).click()
    expect(picture).to_have_count(0)


@pytest.mark.soak
def test_an_artifact_whose_versions_are_gone_is_not_asked_for(desk: Driven) -> None:
    """It was deleted elsewhere while it is open here: the panel says so, and asks for no version of it."""
    tab(desk, "artifacts")
    note = panel(desk).get_by_test_id("artifact")
    note.locator("summary").first.click()
    expect(note).to_contain_text("Buy milk")
    desk.page.route("**/artifacts", lambda route: route.fulfill(json=["note.txt"]))
    assert desk.server.client.delete(f"{desk.server.sessions()}/{desk.session}/artifacts/note.txt").status_code == 200
    desk.say("hello")
    expect(note).to_contain_text("It is deleted.")
    assert not [url for url in desk.requests if "undefined" in url]


@pytest.mark.soak
def test_another_session_is_not_asked_for_the_artifacts_of_the_one_before(desk: Driven) -> None:
    """The names are those of the session that is open; until they are known, there are none."""
    other = desk.server.new_session()
    tab(desk, "artifacts")
    expect(panel(desk).get_by_test_id("artifact")).to_contain_text("1 version")
    desk.page.locator(f'[data-session="{other}"]').get_by_role("button").first.click()
    expect(panel(desk)).to_contain_text("No artifacts yet")
    assert not [url for url in desk.requests if f"{other}/artifacts/" in url]


@pytest.mark.soak
def test_the_active_agent_is_lit_in_the_tree(desk: Driven) -> None:
    """After a transfer it is the other one; each shows its instruction and tools."""
    tab(desk, "agents")
    tree = desk.find("agent-tree")
    expect(tree.locator(".agent.active")).to_contain_text("desk")
    desk.say("flights, please")
    expect(tree.locator(".agent.active")).to_contain_text("flights")
    tree.locator('[data-agent="desk"] summary').click()
    expect(tree).to_contain_text("Be brief, and kind.")
    expect(tree).to_contain_text("get_weather")


@pytest.mark.parametrize(
    "kept",
    ["[]", '{"theme": null, "prices": null}', '{"theme": "sepia", "events": 5, "retained": -5, "streaming": "no"}'],
)
def test_settings_of_another_release_are_let_go(opened: Open, server: Running, kept: str) -> None:
    """What is no value of a setting here leaves it as it is at first, and the page whole."""
    page = opened()
    page.page.evaluate("kept => localStorage.setItem('flowloom.prefs', kept)", kept)
    page.goto(f"/ui/desk/ann/{server.new_session(events=events_of(4))}?tab=settings")
    expect(page.messages).to_have_count(4)
    expect(panel(page).get_by_label("System")).to_be_checked()
    assert json.loads(page.page.evaluate("localStorage['flowloom.prefs']"))["retained"] == 1000


@pytest.mark.soak
def test_settings_hold_in_this_browser(desk: Driven) -> None:
    """The theme changes at once, and is there after a reload; a number out of range is refused beside its field."""
    tab(desk, "settings")
    desk.page.get_by_text("Dark", exact=True).click()
    assert desk.page.evaluate("document.documentElement.dataset.theme") == "dark"
    desk.page.get_by_label("Events kept in memory").fill("5")
    expect(desk.page.get_by_role("alert").filter(has_text="A whole number")).to_be_visible()
    desk.page.get_by_label("Events kept in memory").fill("500")
    desk.page.reload()
    expect(desk.page.get_by_label("Events kept in memory")).to_have_value("500")
    assert desk.page.evaluate("document.documentElement.dataset.theme") == "dark"


@pytest.mark.soak
def test_a_panel_says_what_it_would_show_when_there_is_nothing(opened: Open) -> None:
    """No panel is empty, and none fails, without a session."""
    page = opened("/ui/desk/ann")
    for name in TABS:
        page.page.locator(f"#tab-{name}").click()
        expect(panel(page)).to_have_attribute("aria-labelledby", f"tab-{name}")
        expect(panel(page)).to_contain_text(re.compile(r"\w{3,}"))


@pytest.mark.soak
def test_panels_fit_a_phone(desk: Driven) -> None:
    """At 360 px nothing is wider than the window."""
    desk.page.set_viewport_size({"width": 360, "height": 740})
    for name in TABS:
        desk.page.goto(f"{desk.server.url}/ui/desk/ann/{desk.session}?tab={name}")
        expect(panel(desk)).to_have_attribute("aria-labelledby", f"tab-{name}")
        expect(panel(desk)).not_to_contain_text("Loading")
        widths = desk.page.evaluate("[document.documentElement.scrollWidth, innerWidth]")
        assert widths[0] <= widths[1], name
        assert panel(desk).evaluate("node => node.scrollWidth <= node.clientWidth + 1"), name
