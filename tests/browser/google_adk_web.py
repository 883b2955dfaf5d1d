"""google-adk's own web UI in Chromium: what a person does in it, step by step, and what it shows then."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from playwright.sync_api import Browser, ConsoleMessage, Locator, Page, Route

WAIT = 60_000
"""Milliseconds after which what should be shown is not shown."""
_PASSING = re.compile(
    r"(?:[a-z]{1,6}-)?[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}|[\d.]+(?:ms|us|µs|s)\b|\d{9,}|"
    r"\d{1,2}/\d{1,2}/\d{4}|\d{1,2}:\d\d(?::\d\d)?(?:\s?[AP]M)?"
)


@dataclass
class AdkWeb:
    """The UI at the address of a server; `errors` is what its console has complained of."""

    page: Page
    url: str
    errors: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)
    """The requests to the server, without those for the UI's files."""

    def open(self, query: str = "") -> None:
        """Load it, and refuse to be counted."""
        self.page.goto(f"{self.url}/dev-ui/{query}")
        self.page.wait_for_load_state("networkidle")
        refuse = self.page.get_by_role("button", name="No Thanks")
        if refuse.count():
            refuse.click()

    def choose(self, app: str) -> None:
        """Choose an app by the list of apps."""
        self.page.locator("button.selector-button").first.click()
        self.page.get_by_text(app, exact=True).last.click()
        self.composer.wait_for()

    @property
    def composer(self) -> Locator:
        return self.page.locator("textarea.chat-input-box")

    def stream_on(self) -> None:
        """Have answers streamed."""
        self.page.get_by_label("More options").click()
        self.page.get_by_role("menuitem").filter(has_text="Streaming").click()
        self.page.keyboard.press("Escape")

    def send(self, text: str) -> None:
        """Say something, and wait until the run is over."""
        with self.page.expect_response(lambda response: "/debug/trace/session" in response.url, timeout=WAIT):
            self.say(text)
        self.settled()

    def say(self, text: str) -> None:
        """Say something."""
        self.composer.fill(text)
        self.composer.press("Enter")

    def approve(self) -> None:
        """Confirm the call that waits."""
        self.page.locator("input[type=checkbox][id^=confirmed-checkbox]").check()
        with self.page.expect_response(lambda response: "/debug/trace/session" in response.url, timeout=WAIT):
            self.page.get_by_role("button", name="Submit").click()
        self.settled()

    def stop(self) -> None:
        """Stop the run."""
        self.page.locator("app-chat-panel button").filter(has_text=re.compile(r"^\s*stop\s*$")).click()

    def new_session(self) -> None:
        """Begin another session."""
        self.page.locator("button", has_text="add_comment").click()
        self.settled()

    def sessions(self) -> str:
        """The list of sessions, opened."""
        self.page.locator("button.selector-button").nth(1).click()
        self.page.locator(".session-item").first.wait_for()
        self.settled()
        return self.text("app-session-tab")

    def open_session(self, name: str) -> None:
        """Open one of the list."""
        self.page.locator(".session-item", has_text=name).click()
        self.settled()

    def tab(self, name: str) -> str:
        """What a tab at the left shows."""
        self.page.get_by_role("tab", name=name).click()
        self.settled()
        return self.text("app-side-panel")

    def icon(self, name: str) -> str:
        """What an icon of the event's rail opens."""
        self.page.locator("app-side-panel mat-icon", has_text=re.compile(rf"^\s*{name}\s*$")).first.click()
        self.settled()
        return self.text("app-side-panel")

    def select(self, row: str) -> None:
        """Select the event that shows a text."""
        self.page.locator("app-chat-panel").get_by_text(row).last.click()
        self.settled()

    def traces(self) -> str:
        """What the traces show."""
        self.page.get_by_role("radio", name="Traces").click()
        self.settled()
        return self.text("app-chat-panel")

    def events(self) -> str:
        """What the chat shows."""
        self.page.get_by_role("radio", name="Events").click()
        self.settled()
        return self.chat()

    def chat(self) -> str:
        return self.text("app-chat-panel")

    def settled(self) -> None:
        """Wait until nothing is loaded, and what is shown does not change."""
        self.page.wait_for_load_state("networkidle")
        seen = ""
        while (now := self.page.locator("body").inner_text()) != seen:
            seen = now
            self.page.wait_for_timeout(250)

    def text(self, where: str) -> str:
        """The text of a part of the UI, without what differs from run to run."""
        return _PASSING.sub("*", " ".join(self.page.locator(where).first.inner_text().split()))


def opened(browser: Browser, url: str) -> AdkWeb:
    """A new window; what is not the server's is not asked for."""
    page = browser.new_context(viewport={"width": 1440, "height": 900}).new_page()
    page.set_default_timeout(WAIT)
    web = AdkWeb(page, url)

    def route(asked: Route) -> None:
        if asked.request.url.startswith(f"{url}/"):
            if "/dev-ui/" not in asked.request.url:
                web.asked.append(f"{asked.request.method} {asked.request.url.removeprefix(url)}")
            asked.continue_()
        else:
            asked.abort()

    def said(message: ConsoleMessage) -> None:
        if message.type == "error":
            where = str(message.location.get("url", "")).removeprefix(url)
            web.errors.append(f"{message.text} ({where})")

    page.route("**/*", route)
    page.on("console", said)
    page.on("pageerror", lambda error: web.errors.append(str(error)))
    return web
