"""`flowloom run` on a terminal."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from cli.process import DESK, Terminal, exported

Start = Callable[..., Terminal]


def test_a_chat(terminal: Start) -> None:
    """Messages are answered at a prompt; the end of input leaves with 0."""
    chat = terminal("run", DESK, fresh=True)
    chat.wait_for("you>")
    chat.say("What is the weather in Lisbon in May?")
    chat.wait_for("climate: [offline] In May, Lisbon has highs of 22")
    chat.wait_for("you>")
    chat.type("\x04")
    assert chat.end() == 0


def test_colours_on_a_terminal(terminal: Start) -> None:
    """Speakers and steps stand out."""
    chat = terminal("run", DESK, "--message", "convert 10 EUR to USD")
    assert chat.end() == 0
    assert "\x1b[1;36mcurrency: " in chat.raw


def test_no_color_is_honoured(terminal: Start) -> None:
    """With NO_COLOR there is no escape sequence in what is said."""
    chat = terminal("run", DESK, "--message", "convert 10 EUR to USD", NO_COLOR="1")
    assert chat.end() == 0
    assert "\x1b[" not in chat.raw
    assert "10.00 EUR are 10.90 USD" in chat.raw


def test_ctrl_c_stops_the_turn_and_the_next_message_works(terminal: Start, tmp_path: Path) -> None:
    """An interrupt in the middle of an answer ends that turn only, and what was said of it is kept."""
    store = tmp_path / "chats.db"
    chat = terminal("run", DESK, "--store", store, "--session", "s")
    chat.wait_for("you>")
    chat.say("hello")
    chat.wait_for("travel_desk: [offline]")
    chat.interrupt()
    chat.wait_for("Stopped.")
    chat.wait_for("you>")
    said = [(event["author"], event.get("interrupted")) for event in exported("s", store)["events"]]
    assert said == [("user", None), ("travel_desk", True)]
    chat.say("convert 10 EUR to USD")
    chat.wait_for("currency: [offline] 10.00 EUR are 10.90 USD")
    chat.wait_for("you>")
    chat.interrupt()
    assert chat.end() == 0


def test_ctrl_c_in_a_tool_leaves_a_legal_history(terminal: Start, shepherd: Path, tmp_path: Path) -> None:
    """A call that was cut off has a result, and a second interrupt leaves although the tool still blocks."""
    store = tmp_path / "chats.db"
    chat = terminal("run", shepherd, "--store", store, "--session", "s")
    chat.wait_for("you>")
    chat.say("sleep for 5 minutes")
    chat.wait_for("calls nap(minutes=5)")
    chat.interrupt()
    chat.wait_for("Stopped.")
    chat.interrupt()
    assert chat.end(30.0) == 0
    parts = [part for event in exported("s", store)["events"] for part in event["content"]["parts"]]
    assert [next(iter(part)) for part in parts] == ["text", "functionCall", "functionResponse"]


def test_ctrl_c_clears_a_line_that_is_being_typed(terminal: Start, shepherd: Path) -> None:
    """At the prompt an interrupt first takes back what was typed."""
    chat = terminal("run", shepherd)
    chat.wait_for("you>")
    chat.type("nonsense")
    chat.wait_for("nonsense")
    chat.interrupt()
    chat.say("count 2 sheep")
    assert "nonsense" not in chat.wait_for("Counted 2 sheep.").partition("calls")[2]


def test_confirmation_at_the_prompt(terminal: Start, shepherd: Path) -> None:
    """Approval is asked for on a line of its own."""
    chat = terminal("run", shepherd)
    chat.wait_for("you>")
    chat.say("shear 3 sheep")
    chat.wait_for("Run shear_sheep(number=3)? [y/N]")
    chat.say("y")
    chat.wait_for("shepherd: [offline] Sheared 3.")


def test_ctrl_c_at_a_question_declines(terminal: Start, shepherd: Path) -> None:
    """An interrupt at a question is no approval, and the chat goes on."""
    chat = terminal("run", shepherd)
    chat.wait_for("you>")
    chat.say("shear 3 sheep")
    chat.wait_for("[y/N]")
    chat.interrupt()
    chat.wait_for("declined")
    chat.wait_for("rejected")
    chat.wait_for("you>")


def test_thoughts_are_dimmed(terminal: Start, tmp_path: Path) -> None:
    """Thoughts are shown, apart from what is said."""
    agent = tmp_path / "thinker.py"
    agent.write_text(
        "from google.genai import types\nfrom flowloom import LlmAgent\nfrom flowloom.testing import ScriptedModel\n"
        "answer = [types.Part(text='Hm.', thought=True), types.Part(text='Four.')]\n"
        "root_agent = LlmAgent(name='thinker', model=ScriptedModel([answer], stream_chunks=True))\n"
    )
    chat = terminal("run", agent, "--message", "2 + 2?")
    assert chat.end() == 0
    assert "\x1b[2mHm.\x1b[0m" in chat.raw
    assert "thinker: Four." in chat.text
