"""google-adk's own web UI works on our server as on its own: the same steps show the same, and it complains no more."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

import pytest
from browser.chromium import chromium
from browser.google_adk_web import AdkWeb, opened
from server.google_adk_peer import google_adk_server, google_adk_ui, our_server

pytestmark = [pytest.mark.soak, pytest.mark.timeout(400)]


@dataclass
class Walk:
    """What a way through the UI has shown, by step, and what its console has complained of."""

    shown: dict[str, str] = field(default_factory=dict)
    errors: set[str] = field(default_factory=set)
    asked: list[str] = field(default_factory=list)


def walk(web: AdkWeb) -> Walk:
    """All steps of server spec §10 that a person takes."""
    seen: dict[str, str] = {}
    web.open()
    web.choose("desk")
    web.send("hello there")
    seen["chat"] = web.chat()
    web.stream_on()
    for words in ("think now", "weather", "both", "note", "draw", "pay"):
        web.send(words)
    seen["approval"] = web.chat()
    web.approve()
    web.send("transfer")
    seen["chips"] = web.chat()
    for tab in ("State", "Artifacts"):
        seen[tab] = web.tab(tab)
    web.tab("Info")
    web.select("Here it is.")
    for icon in ("info", "input", "output", "analytics", "data_object", "published_with_changes", "account_tree"):
        seen[icon] = web.icon(icon)
    seen["traces"] = web.traces()
    seen["events"] = web.events()
    first, second = web.page.url, _another_session(web, seen)
    seen["list"] = web.sessions()
    web.open_session("hello there")
    seen["opened"] = web.chat()
    web.open(first.partition("/dev-ui/")[2])
    seen["reloaded"] = web.chat()
    web.open(second.partition("/dev-ui/")[2])
    seen["stopped"] = web.chat()
    return Walk(seen, set(web.errors), [_call(asked) for asked in web.asked])


def _another_session(web: AdkWeb, seen: dict[str, str]) -> str:
    """The address of a session in which a run fails, and another is stopped."""
    web.new_session()
    web.send("explode")
    seen["failed"] = web.chat()
    seen["snack_bar"] = web.text("mat-snack-bar-container")
    web.say("slow")
    web.page.get_by_text("word3").wait_for()
    web.stop()
    web.settled()
    return web.page.url


def _call(asked: str) -> str:
    """A call without ids and times."""
    return re.sub(r"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=ts=)\d+", "*", asked)


@pytest.fixture(scope="module")
def walks(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Walk, Walk]]:
    """The same way on google-adk's server and on ours."""
    folder = tmp_path_factory.mktemp("servers")
    ui = google_adk_ui()
    with google_adk_server(folder) as theirs, our_server(folder, "--dev_ui", ui) as ours, chromium() as browser:
        yield walk(opened(browser, theirs)), walk(opened(browser, ours))


STEPS = """
chat approval chips State Artifacts info analytics published_with_changes account_tree events list opened reloaded
failed snack_bar
""".split()


@pytest.mark.parametrize("step", STEPS)
def test_a_step_shows_the_same(walks: tuple[Walk, Walk], step: str) -> None:
    """Chat, chips, approvals, tabs, sessions and the reloaded address show what they show on google-adk's server."""
    theirs, ours = (_in_any_order(walked.shown[step]) for walked in walks)
    assert ours == theirs


def _in_any_order(shown: str) -> list[str]:
    """The words, without the hint of an approval: it is asked for before or after the answer of the call."""
    return sorted(re.sub(r"#\d+|(?:Please approve|Tool `pay`).*?(?=Payload)", "", shown).split())


def test_a_stopped_run_keeps_what_was_said(walks: tuple[Walk, Walk]) -> None:
    """The words before the stop are there after a reload; google-adk forgets them."""
    assert "word3" in walks[1].shown["stopped"]


@pytest.mark.parametrize("tab", ["input", "output"])
def test_a_call_shows_its_request_and_its_answer(walks: tuple[Walk, Walk], tab: str) -> None:
    """The tabs Input and Output have the same blocks, and the words of the run."""
    theirs, ours = walks
    words = {
        "input": ["You are a desk.", "hello there", "think now", "weather", "system_instruction", "tool_definitions"],
        "output": ["One moment.", "Here it is.", "stop"],
    }[tab]
    for walked in (theirs, ours):
        assert [word for word in words if word not in walked.shown[tab]] == []


def test_the_traces_have_the_same_spans(walks: tuple[Walk, Walk]) -> None:
    """Agents, model calls and tools stand in the traces; those of the web framework do not."""

    def spans(shown: str) -> list[str]:
        return re.findall(r"generate_content \S+|build \w+|robot_2 \w+", shown)

    theirs, ours = (sorted(spans(walked.shown["traces"])) for walked in walks)
    assert ours == theirs
    assert "fastapi" not in walks[1].shown["traces"]


def test_the_console_complains_of_nothing_more(walks: tuple[Walk, Walk]) -> None:
    """Not one error that it does not have on google-adk's server."""
    theirs, ours = walks
    assert ours.errors - theirs.errors == set()


def test_the_ui_asks_the_same(walks: tuple[Walk, Walk]) -> None:
    """It calls what it calls on google-adk's server; telemetry, which is decided here, apart."""
    theirs, ours = ({asked for asked in walked.asked if "telemetry" not in asked} for walked in walks)
    assert ours == theirs
