"""The page on a server whose runs are those of a fleet (durable design, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from browser.driving import Driven
from playwright.sync_api import expect
from server.fleet_processes import a_server, a_worker

Open = Callable[..., Driven]


@pytest.mark.soak
@pytest.mark.timeout(300)
def test_the_page_goes_on_when_servers_and_workers_are_killed(opened: Open, tmp_path: Path) -> None:
    """It chats, finds its stream again at another process of the same address, shows a message that was said anew once,
    and what a person approves is carried out."""
    where, files = str(tmp_path / "fleet.db"), tmp_path / "files"
    with a_worker(where, files) as first:
        with a_server(where, files) as (process, server):
            page = opened(of=server)
            page.forgiven = "ERR_"
            page.say("hello", answered="You said: hello")
            page.find("composer").fill("pace 600")
            page.find("composer").press("Enter")
            expect(page.messages.last).to_contain_text("word3 ")
            process.kill()
            expect(page.find("reconnecting")).to_be_visible()
        port = int(server.url.rpartition(":")[2])
        with a_server(where, files, port=port) as (_, server):
            page.server = server
            expect(page.messages.last).to_contain_text("word599", timeout=60_000)
            page.rest()
            assert page.texts()[-1].split() == [f"word{number}" for number in range(600)]
            page.find("composer").fill("pace 500")
            page.find("composer").press("Enter")
            expect(page.messages.last).to_contain_text("word3 ")
            first.kill()
            with a_worker(where, files):
                expect(page.messages.last).to_contain_text("word499", timeout=60_000)
                page.rest()
                assert page.texts()[-1].split() == [f"word{number}" for number in range(500)]
                page.find("composer").fill("tool book")
                page.find("composer").press("Enter")
                page.find("approve").click()
                expect(page.messages.last).to_contain_text("booked")
