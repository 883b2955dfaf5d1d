"""Tools that need a credential ask for it in the chat (server spec §12)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
from auth.desk import API_KEY, Calendar, oauth
from auth.oauth_server import OAuthServer
from browser.driving import Driven
from browser.office import last_words
from playwright.sync_api import expect
from server.serving import Running, serving

from flowloom import AuthConfig, LlmAgent, LlmRequest
from flowloom.server import app_of
from flowloom.testing import FunctionModel, call

Open = Callable[..., Driven]
pytestmark = pytest.mark.soak
CALENDAR = Calendar()
BASIC = AuthConfig(auth_scheme={"type": "http", "scheme": "basic"})  # type: ignore[arg-type]


def answer(request: LlmRequest) -> Any:
    """The tool that the message names, and then what it said."""
    said = last_words(request)
    return f"Done: {said}" if " said " in said else [call(said, day="monday")]


@pytest.fixture(scope="module")
def authority() -> Iterator[OAuthServer]:
    """The server at which a user consents."""
    with OAuthServer() as running:
        yield running


@pytest.fixture(scope="module")
def server(authority: OAuthServer) -> Iterator[Running]:
    """A server of an agent whose tools need a consent, a key, and a password."""
    configs = {"by_consent": oauth(authority), "by_key": API_KEY, "by_password": BASIC}
    tools = [CALENDAR.tool(config, name) for name, config in configs.items()]
    with serving(app_of(LlmAgent(name="desk", model=FunctionModel(answer), tools=tools))) as running:
        yield running


def test_one_consents_elsewhere_and_brings_the_address_back(opened: Open, authority: OAuthServer) -> None:
    """The link leads to the server that asks for consent, and opens beside the page."""
    page = opened()
    page.say("by_consent")
    card = page.find("auth-request")
    link = card.get_by_role("link", name="Sign in")
    assert link.get_attribute("rel") == "noopener noreferrer nofollow"
    address = link.get_attribute("href") or ""
    assert address.startswith(authority.url)
    card.get_by_label("The address that you were led to").fill(authority.visit(address))
    page.find("consent").click()
    expect(page.messages.last).to_contain_text("monday: dentist")
    page.rest()
    assert CALENDAR.tokens[-1] in authority.issued
    expect(page.find("waiting")).to_have_count(0)


@pytest.mark.parametrize(
    ("tool", "given"),
    [
        ("by_key", {"The key (X-Key)": "k-sesame-1234"}),
        ("by_password", {"User name": "ann", "Password": "k-sesame-1234"}),
    ],
)
def test_a_key_or_a_password_is_given_and_never_shown(opened: Open, tool: str, given: dict[str, str]) -> None:
    """It stands neither in the chat, the timeline nor the stored session."""
    page = opened()
    page.say(tool)
    for label, text in given.items():
        page.find("auth-request").get_by_label(label).fill(text)
    page.find("consent").click()
    expect(page.messages.last).to_contain_text("monday: dentist")
    page.rest()
    seen = CALENDAR.seen[-1]
    assert "k-sesame-1234" in (seen.api_key, seen.http.credentials.password if seen.http else None)
    page.page.reload()
    expect(page.find("auth-request-answered")).to_have_count(1)
    assert "sesame" not in page.page.content()
    assert "sesame" not in str(page.stored())
