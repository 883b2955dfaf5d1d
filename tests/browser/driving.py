"""A page in a browser, and what the tests do with it."""

from __future__ import annotations

import re
from typing import Any
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Locator, Page, Request, expect
from server.serving import Running

TWO_FRAMES = "() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done)))"

COPYING = """() => {
  window.said = false;
  const look = () => (said ||= [...document.querySelectorAll("button")].some((each) => each.textContent === "Copied"));
  new MutationObserver(look).observe(document.body, { childList: true, characterData: true, subtree: true });
  return navigator.clipboard.writeText("");
}"""
"""Empties the clipboard, and notes whether a button says that something was copied."""


class Driven:
    """A page of the server. `complaints` are the console's errors and requests to other hosts; a test that expects
    some says which in `forgiven`."""

    def __init__(self, page: Page, server: Running) -> None:
        self.page = page
        self.server = server
        self.complaints: list[str] = []
        self.forgiven = r"(?!)"
        self.requests: list[str] = []
        page.on("console", self._console)
        page.on("pageerror", lambda error: self.complaints.append(f"error: {error}"))
        page.on("request", self._request)

    def _console(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"console: {message.text} ({message.location['url']})")

    def _request(self, request: Request) -> None:
        self.requests.append(request.url)
        if request.url.startswith("http") and urlsplit(request.url).netloc != urlsplit(self.server.url).netloc:
            self.complaints.append(f"foreign: {request.url}")

    def goto(self, path: str) -> None:
        """Open an address of the page, and wait until it is drawn."""
        self.page.goto(self.server.url + path)
        expect(self.find("composer")).to_be_visible()

    def find(self, testid: str, **options: Any) -> Locator:
        """What has a `data-testid`."""
        found = self.page.get_by_test_id(testid)
        return found.filter(**options) if options else found

    def say(self, text: str, *, answered: str | None = None) -> None:
        """Send a message; wait until it is answered, by `answered` if that is given, and the run is over."""
        self.find("composer").fill(text)
        with self.page.expect_request(lambda request: request.method == "POST" and "/run" in request.url):
            self.find("composer").press("Enter")
        if answered is not None:
            expect(self.messages.last).to_contain_text(answered)
        self.rest()

    def rest(self) -> None:
        """Wait until no run goes on, and what it has said is drawn: that is done with the next frame."""
        expect(self.find("send")).to_be_visible()
        self.page.evaluate(TWO_FRAMES)

    def copied(self, button: Locator) -> str:
        """What a button copies, which says so then, for a moment."""
        self.page.evaluate(COPYING)
        button.click()
        return self.page.wait_for_function("() => window.said && navigator.clipboard.readText()").json_value()

    @property
    def messages(self) -> Locator:
        return self.find("message")

    @property
    def address(self) -> str:
        """The address as the page has it now: `page.url` is told of changes a moment later."""
        return self.page.evaluate("location.href")

    @property
    def session(self) -> str:
        """The session of the address."""
        return urlsplit(self.address).path.split("/")[-1]

    def opens_session(self) -> str:
        """Wait until the address has a session; its id."""
        self.page.wait_for_url(re.compile(r"/ui/[^/]+/[^/]+/[^/?#]+"))
        return self.session

    def stored(self, session: str | None = None) -> list[dict[str, Any]]:
        """The events of a session as the server has them."""
        return self.server.client.get(f"{self.server.sessions()}/{session or self.session}").json()["events"]

    def texts(self) -> list[str]:
        """The texts of the chat, in order."""
        return self.find("message-text").all_inner_texts()


def events_of(count: int, text: str = "Event {}") -> list[dict[str, Any]]:
    """Events to be imported: a conversation."""
    return [
        {
            "id": f"e{index:06d}",
            "invocationId": f"i{index // 2}",
            "author": "desk" if index % 2 else "user",
            "timestamp": 1_700_000_000 + index,
            "content": {"role": "model" if index % 2 else "user", "parts": [{"text": text.format(index)}]},
            **(
                {"usageMetadata": {"promptTokenCount": 10, "candidatesTokenCount": 2, "totalTokenCount": 12}}
                if index % 2
                else {}
            ),
        }
        for index in range(count)
    ]
