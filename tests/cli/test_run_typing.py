"""What a person types at a moment when `flowloom run` does not ask for it."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.process import Terminal, exported

Start = Callable[..., Terminal]

ECHO = """
import asyncio
import pathlib
from google.genai import types
from flowloom import BaseLlm, FunctionTool, LlmAgent, LlmResponse
from flowloom.testing import call

GO = pathlib.Path(__file__).with_name("go")


def said(text, partial=None):
    return LlmResponse(content=types.ModelContent(text), partial=partial)


class Echo(BaseLlm):
    '''Says what it hears, and waits in the middle of the first answer; asked to sell, it sells.'''

    async def generate_content_async(self, llm_request, stream=False):
        heard = llm_request.contents[-1].parts[-1].text
        yield said("It is <", partial=True)
        while not GO.exists():
            await asyncio.sleep(0.002)
        if heard == "sell":
            yield LlmResponse(content=types.ModelContent([call("sell", number=1), call("sell", number=2)]))
            return
        yield said(f"{heard}>.", partial=True)
        yield said(f"It is <{heard}>.")


def sell(number: int) -> str:
    return f"Sold {number}."


root_agent = LlmAgent(name="echo", model=Echo(model="echo"), tools=[FunctionTool(sell, require_confirmation=True)])
"""


@pytest.fixture
def agent(tmp_path: Path) -> Path:
    path = tmp_path / "echo.py"
    path.write_text(ECHO)
    return path


@pytest.fixture
def store(tmp_path: Path) -> Path:
    return tmp_path / "chats.db"


def asked(terminal: Start, agent: Path, store: Path, message: str) -> Terminal:
    """A chat in the middle of its answer to a message."""
    chat = terminal("run", agent, "--store", store, "--session", "s")
    chat.wait_for("you>")
    chat.say(message)
    chat.wait_for("echo: It is <")
    return chat


def go(agent: Path) -> None:
    """Let the answer come to its end."""
    agent.with_name("go").touch()


def heard(store: Path) -> list[str]:
    """What the user said in the session, in words."""
    events = exported("s", store)["events"]
    return [part["text"] for e in events if e["author"] == "user" for part in e["content"]["parts"] if "text" in part]


def test_what_is_typed_during_an_answer_is_the_next_message(terminal: Start, agent: Path, store: Path) -> None:
    """Nothing of it shows in the answer, whole lines are sent in order, and the rest can be resumed."""
    chat = asked(terminal, agent, store, "one")
    chat.type("two\rthree\rfo")
    go(agent)
    assert chat.wait_for(">.") == "one>."
    chat.wait_for("echo: It is <two>.")
    chat.wait_for("echo: It is <three>.")
    chat.wait_for("you> fo")
    chat.say("ur")
    chat.wait_for("echo: It is <four>.")
    chat.wait_for("you>")
    assert heard(store) == ["one", "two", "three", "four"]


def test_ctrl_d_during_an_answer_leaves_after_it(terminal: Start, agent: Path, store: Path) -> None:
    chat = asked(terminal, agent, store, "one")
    chat.type("\x04")
    go(agent)
    chat.wait_for("one>.")
    assert chat.end() == 0


def test_ctrl_c_during_an_answer_keeps_what_was_typed(terminal: Start, agent: Path, store: Path) -> None:
    """It stops this answer, and is not seen itself; the next message is answered."""
    chat = asked(terminal, agent, store, "one")
    chat.type("two\r")
    chat.interrupt()
    assert "^C" not in chat.wait_for("Stopped.")
    go(agent)
    chat.wait_for("echo: It is <two>.")
    chat.wait_for("you>")
    assert heard(store) == ["one", "two"]


def test_a_decision_is_made_after_its_question_was_shown(terminal: Start, agent: Path, store: Path) -> None:
    """A line typed before is the next message, and approves nothing; neither does one typed at an earlier question."""
    chat = asked(terminal, agent, store, "sell")
    chat.type("yes\r")
    go(agent)
    chat.wait_for("Run sell(number=1)? [y/N]")
    chat.type("y\rmore\r")
    chat.wait_for("Run sell(number=2)? [y/N]")
    chat.say("n")
    answer = chat.wait_for("echo: It is <more>.")
    assert "Sold 1." in answer
    assert "Sold 2." not in answer
    assert "more" not in answer.partition("you> yes")[0]
    chat.wait_for("you>")
    assert heard(store) == ["sell", "yes", "more"]


def test_the_terminal_is_left_as_it_was_found(terminal: Start, agent: Path) -> None:
    """After one message, too, what was typed meanwhile is for whoever reads next."""
    chat = terminal("run", agent, "-m", "one")
    chat.wait_for("echo: It is <")
    chat.type("ls\r")
    go(agent)
    assert chat.wait_for(">.") == "one>."
    assert chat.end() == 0
    assert chat.attributes == chat.found
    assert "ls" not in chat.text


def test_a_program_that_was_stopped_and_goes_on_shows_nothing_either(terminal: Start, agent: Path, store: Path) -> None:
    """A shell gives the terminal its usual attributes meanwhile."""
    chat = asked(terminal, agent, store, "one")
    hidden = chat.attributes
    assert hidden != chat.found
    os.kill(chat.process.pid, signal.SIGSTOP)
    chat.attributes = chat.found
    os.kill(chat.process.pid, signal.SIGCONT)
    ends = time.monotonic() + 60
    while chat.attributes != hidden and time.monotonic() < ends:
        time.sleep(0.002)
    assert chat.attributes == hidden


def test_where_the_output_is_no_terminal(terminal: Start, agent: Path) -> None:
    """What is typed shows while a line is asked for, and not during an answer; it decides about nothing unseen."""
    read, write = os.pipe()
    with open(read, "rb", 0) as out:
        chat = terminal("run", agent, out=write)
        os.close(write)

        def wait_for(wanted: bytes) -> bytes:
            said = b""
            while wanted not in said:
                said += out.read(4096)
            return said

        chat.say("sell")
        wait_for(b"echo: It is <")
        chat.type("yes\r")
        go(agent)
        wait_for(b"[y/N] ")
        chat.say("n")
        wait_for(b"[y/N] ")
        chat.say("n")
        assert b"Sold" not in wait_for(b"It is <yes>.")
        chat.type("\x04")
        assert chat.end() == 0
    assert "sell" in chat.text
    assert "yes" not in chat.text
