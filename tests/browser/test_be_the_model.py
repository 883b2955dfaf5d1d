"""One is the model: the inbox, the forms, the answers, in a real browser; and a story with two of them."""

from __future__ import annotations

import json
import re
import threading
from collections.abc import Callable, Iterator
from typing import Any, Literal

import pytest
from browser.driving import Driven
from playwright.sync_api import Locator, expect
from pydantic import BaseModel
from server.serving import Running, serving

from flowloom import HumanModel, LlmAgent
from flowloom.server import app_of

Open = Callable[..., Driven]


class Passenger(BaseModel):
    name: str
    age: int = 30
    meal: Literal["fish", "fruit"] | None = None


class Verdict(BaseModel):
    good: bool
    reason: str


def book(
    origin: str,
    passengers: list[Passenger],
    cabin: Literal["eco", "business"] = "eco",
    days: int = 1,
    direct: bool = True,
    budget: int | str | None = None,
) -> dict[str, Any]:
    """Book a flight.

    Args:
        origin: The airport it begins at.
    """
    return {"booked": origin, "for": [each.name for each in passengers], "cabin": cabin, "budget": budget}


def get_weather(city: str) -> dict[str, Any]:
    """The weather in a city."""
    return {"celsius": 21, "city": city}


def save_note(text: str) -> str:
    """Keep a note."""
    return "saved"


def find_hotel(city: str) -> str:
    """Find a hotel."""
    return "Hotel Roma"


@pytest.fixture(scope="module")
def server() -> Iterator[Running]:
    """A server whose agents ask people: a desk, and a judge whose answers follow a schema."""
    judge = LlmAgent(name="judge", description="Judges.", model=HumanModel(), output_schema=Verdict)
    desk = LlmAgent(
        name="desk",
        model=HumanModel(),
        instruction="Be brief, and kind.",
        tools=[book, get_weather, save_note, find_hotel],
        sub_agents=[judge],
    )
    with serving(app_of(desk)) as running:
        yield running


class Asking:
    """A run over HTTP that waits for the person."""

    def __init__(self, server: Running, text: str, session: str | None = None) -> None:
        self.server, self.session = server, session or server.new_session()
        self.events: list[dict[str, Any]] = []
        self._body = {
            "appName": "desk",
            "userId": "ann",
            "sessionId": self.session,
            "newMessage": {"role": "user", "parts": [{"text": text}]},
        }
        self._thread = threading.Thread(target=self._run, daemon=True)
        self._thread.start()

    def _run(self) -> None:
        answer = self.server.client.post("/run", json=self._body, timeout=60)
        self.events = answer.json() if answer.status_code == 200 else [{"status": answer.status_code}]

    def ended(self) -> list[dict[str, Any]]:
        """The events, once it is over."""
        self._thread.join(60)
        assert not self._thread.is_alive()
        return self.events

    def parts(self) -> list[dict[str, Any]]:
        """The parts of what the model said, as they are stored so far."""
        stored = self.server.client.get(f"{self.server.sessions()}/{self.session}").json()["events"]
        said = [each for each in stored if each["author"] != "user" and each["content"]["role"] == "model"]
        return [part for each in said for part in each["content"]["parts"]]


@pytest.fixture
def asking(server: Running) -> Iterator[Callable[..., Asking]]:
    """Begins runs; those that still wait at the end of a test are cancelled."""
    begun: list[Asking] = []

    def begin(text: str = "Book me a flight.", **options: Any) -> Asking:
        begun.append(Asking(server, text, **options))
        return begun[-1]

    yield begin
    for each in begun:
        server.client.post(f"{server.sessions()}/{each.session}/cancel")
        each.ended()


@pytest.fixture
def model(opened: Open) -> Driven:
    """The page of the person who is the model."""
    return opened("/ui/desk/ann?tab=model")


def field(page: Driven, path: str) -> Locator:
    """A field of a form, by its path."""
    return page.page.locator(f'[data-testid="tool-field"][data-path="{path}"]')


def call(page: Driven, tool: str) -> None:
    """Open the form of a tool."""
    page.page.locator(f'[data-testid="tool-choice"][data-tool="{tool}"]').click()
    expect(page.find("tool-form")).to_be_visible()


@pytest.mark.soak
def test_a_request_comes_into_the_inbox(model: Driven, asking: Callable[..., Asking]) -> None:
    """It says who asks, with what, and for how long; the window's title counts."""
    expect(model.find("model-inbox")).to_contain_text("No agent asks")
    asking()
    inbox = model.find("model-inbox")
    expect(inbox.get_by_role("button", name="desk")).to_contain_text("Book me a flight.")
    expect(model.find("model-content")).to_contain_text("Book me a flight.")
    expect(model.page).to_have_title(re.compile(r"^\(1\) "))


@pytest.mark.soak
def test_a_sound_and_the_title_tell_of_requests_if_that_is_wished(model: Driven, asking: Callable[..., Asking]) -> None:
    """Both are a choice that is remembered; the sound is off at first, the number in the title on."""
    model.page.add_init_script(
        "window.played = 0; window.AudioContext = class { constructor() { window.played += 1; } };"
    )
    model.page.reload()
    asking()
    expect(model.page).to_have_title(re.compile(r"^\(1\) "))
    assert model.page.evaluate("played") == 0
    model.find("model-inbox").get_by_label("sound").check()
    model.find("model-inbox").get_by_label("title").uncheck()
    asking("Another one.")
    expect(model.find("model-inbox")).to_contain_text("Another one.")
    model.page.wait_for_function("() => played === 1")
    assert not model.page.title().startswith("(")
    model.page.reload()
    expect(model.find("model-inbox").get_by_label("sound")).to_be_checked()


@pytest.mark.soak
def test_the_request_stands_in_blocks_with_their_authors(model: Driven, asking: Callable[..., Asking]) -> None:
    """The system instruction is folded; each block says who wrote it; older contents are folded."""
    run = asking()
    system = model.find("model-system")
    expect(system).not_to_have_attribute("open", "")
    system.locator("summary").click()
    expect(system.get_by_text("Be brief, and kind.").last).to_be_visible()
    expect(system.get_by_test_id("section-author").first).to_have_text("instructions")
    model.find("answer-text").fill("Where from?")
    model.find("answer-send").click()
    run.ended()
    asking("From Rome.", session=run.session)
    expect(model.find("model-content")).to_contain_text("From Rome.")
    model.page.get_by_text("2 earlier contents").click()
    expect(model.find("model-content")).to_have_count(3)


@pytest.mark.soak
def test_an_answer_is_thoughts_text_and_calls_in_order(model: Driven, asking: Callable[..., Asking]) -> None:
    """They reach the run as they stood in the preview."""
    run = asking()
    model.find("answer-thought").fill("Both at once.")
    model.find("answer-text").fill("I look.")
    call(model, "get_weather")
    field(model, "city").get_by_role("textbox").fill("Rome")
    model.find("answer-add-call").click()
    call(model, "find_hotel")
    field(model, "city").get_by_role("textbox").fill("Oslo")
    model.find("answer-add-call").click()
    model.page.get_by_role("button", name="Call find_hotel earlier").click()
    model.page.get_by_role("button", name="Preview").click()
    expect(model.find("answer-preview")).to_contain_text("Both at once.")
    model.find("answer-send").click()
    expect(model.find("model-request")).to_contain_text("Hotel Roma")
    thought, text, *calls = run.parts()
    assert thought["thought"]
    assert [thought["text"], text["text"]] == ["Both at once.", "I look."]
    assert [(each["functionCall"]["name"], each["functionCall"]["args"]) for each in calls] == [
        ("find_hotel", {"city": "Oslo"}),
        ("get_weather", {"city": "Rome"}),
    ]


@pytest.mark.soak
def test_a_form_has_a_control_for_each_kind_of_schema(model: Driven, asking: Callable[..., Asking]) -> None:
    """Text, choice, number, truth, list, nested object, null and union; defaults are filled in."""
    run = asking()
    call(model, "book")
    expect(field(model, "cabin").get_by_role("combobox")).to_have_value("0")
    expect(field(model, "days").get_by_role("textbox")).to_have_value("1")
    expect(field(model, "origin")).to_contain_text("required")
    field(model, "origin").get_by_role("textbox").fill("LHR")
    field(model, "passengers").get_by_role("button", name="Add an item").click()
    field(model, "passengers[0].name").get_by_role("textbox").fill("Ann")
    field(model, "passengers[0].meal").get_by_role("checkbox", name="null").check()
    field(model, "cabin").get_by_role("combobox").select_option(label="business")
    field(model, "direct").get_by_text("no", exact=True).click()
    field(model, "budget").get_by_role("combobox").select_option(label="text")
    field(model, "budget").get_by_role("textbox").fill("not much")
    model.find("answer-send").click()
    expect(model.find("model-request")).to_contain_text("not much")
    [part] = run.parts()
    assert part["functionCall"]["args"] == {
        "origin": "LHR",
        "passengers": [{"name": "Ann", "age": 30, "meal": None}],
        "cabin": "business",
        "days": 1,
        "direct": False,
        "budget": "not much",
    }


@pytest.mark.soak
def test_errors_stand_beside_their_fields(model: Driven, asking: Callable[..., Asking]) -> None:
    """Nothing is sent before they are mended."""
    asking()
    call(model, "book")
    field(model, "days").get_by_role("textbox").fill("two")
    field(model, "passengers").get_by_role("button", name="Add an item").click()
    model.find("answer-send").click()
    for path, said in (("origin", "missing"), ("days", "whole number"), ("passengers[0].name", "missing")):
        expect(field(model, path).get_by_test_id("field-error").last).to_contain_text(said)
    assert len(model.server.client.get("/dev/models/requests").json()) == 1


@pytest.mark.soak
def test_form_and_json_view_show_the_same(model: Driven, asking: Callable[..., Asking]) -> None:
    """What is typed in one stands in the other; what the form cannot hold stays in the JSON view."""
    asking()
    call(model, "get_weather")
    field(model, "city").get_by_role("textbox").fill("Rome")
    form = model.find("tool-form")
    form.get_by_role("button", name="JSON", exact=True).click()
    view = form.get_by_label("As JSON")
    assert json.loads(view.input_value()) == {"city": "Rome"}
    view.fill('{"city": 3}')
    form.get_by_role("button", name="Form", exact=True).click()
    expect(form.get_by_role("alert")).to_contain_text("cannot hold")
    view.fill('{"city": "Oslo"}')
    form.get_by_role("button", name="Form", exact=True).click()
    expect(field(model, "city").get_by_role("textbox")).to_have_value("Oslo")


@pytest.mark.soak
def test_what_the_server_refuses_stands_beside_its_field(model: Driven, asking: Callable[..., Asking]) -> None:
    """A value that only the server can judge leads back to its form."""
    asking()
    call(model, "get_weather")
    model.page.route(
        "**/answer",
        lambda route: route.fulfill(
            status=422,
            content_type="application/json",
            body=json.dumps(
                {"detail": "- `city`: is on no map", "code": "unfit_answer", "tool": "get_weather", "field": "city"}
            ),
        ),
    )
    field(model, "city").get_by_role("textbox").fill("Atlantis")
    model.find("answer-add-call").click()
    model.find("answer-send").click()
    expect(field(model, "city").get_by_test_id("field-error")).to_have_text("is on no map")
    model.complaints.clear()  # the browser notes the 422


@pytest.mark.soak
def test_keys_open_tools_and_send(model: Driven, asking: Callable[..., Asking]) -> None:
    """`1` to `9` open tools unless one types; `Ctrl+Enter` sends; `Alt+E` opens the errors."""
    run = asking()
    expect(model.find("model-request")).to_be_visible()
    model.find("answer-text").fill("1")
    model.find("answer-text").press("2")
    expect(model.find("tool-form")).to_have_count(0)
    model.page.get_by_role("tab", name="Be the model").focus()
    number = model.page.locator('[data-tool="get_weather"] kbd').inner_text()
    model.page.keyboard.press(number)
    expect(model.find("tool-form")).to_have_attribute("data-tool", "get_weather")
    model.page.keyboard.press("Escape")
    model.page.keyboard.press("Alt+e")
    expect(model.find("answer-failure")).to_be_visible()
    model.page.keyboard.press("Escape")
    model.find("answer-text").fill("Done.")
    model.find("answer-text").press("Control+Enter")
    assert run.ended()[-1]["content"]["parts"][0]["text"] == "Done."


@pytest.mark.soak
def test_tools_are_found_by_their_words(model: Driven, asking: Callable[..., Asking]) -> None:
    """The search looks into names and descriptions."""
    asking()
    model.find("tool-search").fill("weather city")
    expect(model.find("tool-choice")).to_have_count(1)
    model.find("tool-search").press("Enter")
    expect(model.find("tool-form")).to_have_attribute("data-tool", "get_weather")


@pytest.mark.soak
@pytest.mark.parametrize(
    ("kind", "code"),
    [
        ("Rate limit", "ModelRateLimitError"),
        ("Unavailable", "ModelUnavailableError"),
        ("Safety", "SAFETY"),
    ],
)
def test_a_model_fails_as_models_do(model: Driven, asking: Callable[..., Asking], kind: str, code: str) -> None:
    """The run meets the error; the list of what was sent says so."""
    run = asking()
    model.find("answer-error").click()
    model.page.get_by_text(kind, exact=True).click()
    model.find("answer-error-message").fill("Enough for today.")
    model.find("answer-send").click()
    run.ended()
    last = model.server.client.get(f"{model.server.sessions()}/{run.session}").json()["events"][-1]
    assert last["errorCode"] == code
    assert "Enough for today." in last["errorMessage"]
    expect(model.find("model-sent")).to_contain_text("failed")


@pytest.mark.soak
def test_a_model_is_cut_off_after_its_words(model: Driven, asking: Callable[..., Asking]) -> None:
    """The words stay, beside the reason."""
    run = asking()
    model.find("answer-text").fill("The flight leaves at")
    model.find("answer-error").click()
    model.page.get_by_text("Cut off after the text so far").click()
    model.find("answer-send").click()
    last = run.ended()[-1]
    assert last["finishReason"] == "MAX_TOKENS"
    assert last["content"]["parts"][0]["text"] == "The flight leaves at"


@pytest.mark.soak
def test_a_response_schema_is_a_form(model: Driven, asking: Callable[..., Asking]) -> None:
    """The answer is the JSON that it makes."""
    run = asking("Is that good?")
    call(model, "transfer_to_agent")
    field(model, "agent_name").get_by_role("combobox").select_option(label="judge")
    model.find("answer-send").click()
    form = model.find("answer-form")
    expect(form).to_be_visible()
    model.find("answer-send").click()
    expect(form.get_by_test_id("field-error")).to_have_count(2)
    field(model, "good").get_by_text("yes", exact=True).click()
    field(model, "reason").get_by_role("textbox").fill("It is short.")
    model.find("answer-send").click()
    assert json.loads(run.ended()[-1]["content"]["parts"][0]["text"]) == {"good": True, "reason": "It is short."}


@pytest.mark.soak
def test_keys_act_as_soon_as_a_request_is_seen(model: Driven, asking: Callable[..., Asking]) -> None:
    """Also one that is pressed in the moment in which the form for the answer appears."""
    model.page.evaluate("""() => new MutationObserver((_, observer) => {
      const send = document.querySelector('[data-testid="answer-send"]');
      if (!send) return;
      observer.disconnect();
      send.dispatchEvent(new KeyboardEvent("keydown", { code: "KeyE", altKey: true, bubbles: true }));
    }).observe(document.body, { childList: true, subtree: true })""")
    asking()
    expect(model.find("answer-failure")).to_be_visible()


@pytest.mark.soak
def test_a_request_whose_run_ends_is_withdrawn(model: Driven, asking: Callable[..., Asking]) -> None:
    """It leaves the inbox; the list says what became of it."""
    run = asking()
    expect(model.find("model-request")).to_be_visible()
    model.server.client.post(f"{model.server.sessions()}/{run.session}/cancel")
    expect(model.find("model-request")).to_have_count(0)
    expect(model.find("model-sent")).to_contain_text("withdrawn")


@pytest.mark.soak
def test_a_request_that_timed_out_says_so(opened: Open, served: Callable[[Any], Running]) -> None:
    """It tells how long is left, and leaves the inbox then; the run meets the error."""
    page = opened("/ui/desk/ann?tab=model", of=served(app_of(LlmAgent(name="desk", model=HumanModel(timeout=8)))))
    page.find("composer").fill("Hello")
    page.find("composer").press("Enter")
    expect(page.find("model-inbox")).to_contain_text(" left")
    expect(page.find("model-sent")).to_contain_text("timed out")
    expect(page.find("model-request")).to_have_count(0)
    expect(page.find("error").first).to_contain_text("did not answer in time")
    page.rest()


@pytest.mark.soak
def test_config_and_safety_stand_in_the_debug_panel(model: Driven, asking: Callable[..., Asking]) -> None:
    """With all pieces and their authors."""
    asking()
    config = model.find("model-config")
    config.locator("summary").first.click()
    expect(config).to_contain_text("Generation config")
    expect(config).to_contain_text("Safety settings")
    expect(config.get_by_test_id("section").first).to_be_visible()


def test_a_story_of_a_user_and_a_model(opened: Open) -> None:
    """One page is the user, another the model: a question, a call, an answer word by word, and a failure."""
    user, model = opened("/ui/desk/ann"), opened("/ui/desk/ann?tab=model")
    user.find("composer").fill("How warm is it in Rome?")
    user.find("composer").press("Enter")
    expect(model.find("model-content")).to_contain_text("How warm is it in Rome?")
    model.find("answer-thought").fill("I should look it up.")
    call(model, "get_weather")
    field(model, "city").get_by_role("textbox").fill("Rome")
    model.find("answer-send").click()
    expect(user.find("tool-call")).to_contain_text("get_weather")
    expect(user.find("thought")).to_be_attached()
    expect(model.find("model-content").last).to_contain_text("21")
    model.find("answer-live").check()
    model.find("answer-text").press_sequentially("It is 21 ")
    expect(user.messages.last).to_contain_text("It is 21")
    expect(user.find("stop")).to_be_visible()
    model.find("answer-text").press_sequentially("degrees.")
    model.find("answer-text").press("Control+Enter")
    expect(user.messages.last).to_contain_text("It is 21 degrees.")
    user.rest()
    user.find("composer").fill("Thanks!")
    user.find("composer").press("Enter")
    expect(model.find("model-content")).to_contain_text("Thanks!")
    model.page.keyboard.press("Alt+e")
    model.find("answer-send").click()
    expect(user.find("error").first).to_contain_text("quota")
    expect(model.find("model-sent")).to_contain_text("answered")
    texts = [part.get("text") for event in user.stored() for part in event.get("content", {}).get("parts", [])]
    assert "It is 21 degrees." in texts
