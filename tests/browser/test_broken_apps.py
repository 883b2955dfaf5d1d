"""The bar of the page: apps, also broken ones, and users (server spec §12)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from browser.driving import Driven
from playwright.sync_api import expect
from server.serving import Running

from flowloom.server import get_fast_api_app

Open = Callable[..., Driven]
pytestmark = pytest.mark.soak
AGENT = """
from flowloom import LlmAgent
from flowloom.testing import FunctionModel
root_agent = LlmAgent(name="NAME", model=FunctionModel(lambda request: "Here is NAME."))
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder of two apps that load, and one that does not."""
    for name in ("east", "west"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "agent.py").write_text(AGENT.replace("NAME", name))
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "agent.py").write_text("import a_module_that_is_not_there\n")
    return tmp_path


@pytest.fixture
def apps(served: Callable[[Any], Running], folder: Path) -> Running:
    """A development server of the folder."""
    memory = {"session_service_uri": "memory://", "artifact_service_uri": "memory://"}
    return served(get_fast_api_app(agents_dir=str(folder), web=True, **memory))


def test_a_broken_app_is_marked_and_shows_its_traceback(opened: Open, apps: Running, folder: Path) -> None:
    """Once its file is mended, a message is answered without a restart."""
    page = opened("/ui/", of=apps)
    page.forgiven = "500"
    select = page.find("app-select")
    expect(select.locator("option")).to_have_text(["choose…", "broken (does not load)", "east", "west"])
    select.select_option("broken")
    expect(page.find("traceback")).to_contain_text("No module named 'a_module_that_is_not_there'")
    expect(page.find("chat").get_by_test_id("error")).to_contain_text("agent_broken")
    (folder / "broken" / "agent.py").write_text(AGENT.replace("NAME", "broken"))
    page.say("Are you well?", answered="Here is broken.")


def test_each_app_and_each_user_has_sessions_of_its_own(opened: Open, apps: Running) -> None:
    """The address tells all three; going back finds them again."""
    page = opened("/ui/east/ann", of=apps)
    page.say("Hello", answered="Here is east.")
    expect(page.find("session-item")).to_have_count(1)
    page.find("app-select").select_option("west")
    expect(page.find("session-item")).to_have_count(0)
    assert page.address.endswith("/ui/west/ann")
    page.find("user-id").fill("eve")
    page.find("user-id").press("Enter")
    page.page.wait_for_url("**/ui/west/eve")
    page.page.go_back()
    page.page.go_back()
    expect(page.find("chat")).to_contain_text("Here is east.")
