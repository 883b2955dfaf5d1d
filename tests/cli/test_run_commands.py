"""Lines of `flowloom run` that are for the chat itself."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from cli.process import ROOT, Terminal, exported, flowloom
from flowloom.cli.slash import COMMANDS

Start = Callable[..., Terminal]

CLERK = """
from flowloom import FunctionTool, LlmAgent
from flowloom.testing import FunctionModel, call


def note(tool_context) -> str:
    tool_context.state.update({
        "app:name": "Shop", "user:name": "Ann", "nights": 3, "temp:draft": "unfinished", "user:api_key": "opensesame",
        "login": {"auth_type": "oauth2", "oauth2": {"client_id": "me", "access_token": "opensesame"}},
    })
    return "Noted."


def sell(number: int) -> str:
    return f"Sold {number}."


def answer(request):
    part = request.contents[-1].parts[-1]
    if part.function_response:
        return "Done."
    calls = {"note": call("note"), "sell": call("sell", number=2)}
    return calls.get(part.text, f"You say <{part.text}>.")


root_agent = LlmAgent(
    name="clerk",
    model=FunctionModel(answer),
    instruction="You serve {user:name?} in the {app:name?}.",
    tools=[note, FunctionTool(sell, require_confirmation=True)],
)
"""


@pytest.fixture
def clerk(tmp_path: Path) -> Path:
    path = tmp_path / "clerk.py"
    path.write_text(CLERK)
    return path


@pytest.fixture
def chat(clerk: Path) -> Callable[..., dict[str, str]]:
    """Says lines in a session, and tells what was printed behind each."""

    def say(*lines: str, session: str = "s", code: int = 0) -> dict[str, str]:
        store = clerk.with_name("chats.db")
        done = flowloom("run", clerk, "--store", store, "--session", session, lines="\n".join(lines) + "\n")
        assert done.returncode == code, done.stderr
        assert "Traceback" not in done.stderr
        printed = re.split(r"^you: (.*)\n", done.stdout, flags=re.M)
        return {**dict(zip(printed[1::2], printed[2::2], strict=True)), "errors": done.stderr}

    return say


Say = Callable[..., dict[str, str]]


def test_help_lists_every_command_on_one_line(chat: Say) -> None:
    said = chat("/help")["/help"].splitlines()
    assert [line.split()[0] for line in said] == [*(f"/{command.name}" for command in COMMANDS), "//TEXT"]
    assert all(command.about in line for command, line in zip(COMMANDS, said, strict=False))


def test_the_docs_list_the_commands() -> None:
    """The page on the command line has a row for each, and for none that is not there."""
    rows = re.findall(r"^\| `/(\w+)( [^`]+)?`", (ROOT / "docs" / "running.md").read_text(), flags=re.M)
    assert [(name, argument.strip()) for name, argument in rows] == [(each.name, each.argument) for each in COMMANDS]


def test_state_is_json_of_all_scopes_without_secrets(chat: Say) -> None:
    """What is of one turn only is not there, and of credentials only that there are some."""
    said = chat("note", "/state")["/state"]
    assert "opensesame" not in said
    state = json.loads(said)
    hidden = state.pop("user:api_key"), state["login"]["oauth2"].pop("access_token")
    assert hidden == ("**********", "**********")
    login = {"auth_type": "oauth2", "oauth2": {"client_id": "me"}}
    assert state == {"app:name": "Shop", "user:name": "Ann", "nights": 3, "login": login}


def test_a_stored_session_is_shown_without_secrets(chat: Say, clerk: Path) -> None:
    """`flowloom sessions show` has the same rule."""
    chat("note")
    state = flowloom("sessions", "show", "s", "--store", clerk.with_name("chats.db")).stdout.partition("State:")[2]
    assert "nights = 3" in state
    assert "opensesame" not in state


def test_a_new_session_has_the_state_that_is_shared(chat: Say) -> None:
    """Its first request does, too; to ask for it makes no session."""
    chat("note")
    said = chat("/state", "/explain", "/sessions", session="t")
    assert json.loads(said["/state"]).keys() == {"app:name", "user:name", "user:api_key"}
    assert "You serve Ann in the Shop." in said["/explain"]
    assert [line.split()[:2] for line in said["/sessions"].splitlines()[1:]][-1] == ["*", "t"]
    assert len(chat("/sessions")["/sessions"].splitlines()) == 2


def test_sessions_are_listed_and_the_current_one_is_marked(chat: Say) -> None:
    chat("hello", session="first")
    said = chat("hello", "/sessions", session="second")["/sessions"].splitlines()
    assert [line.split()[0] for line in said[1:]] == ["first", "*"]
    assert said[2].split()[1] == "second"


def test_another_session_is_gone_on_with(chat: Say, clerk: Path) -> None:
    """What waits in it is asked; one that is not there is told with those that are, and the chat goes on."""
    chat("sell", session="first")
    said = chat("/sessions frist", "hello", "/sessions first", "y", "bye", session="second")
    assert "There is no session `frist`. There are: `first`" in said["errors"]
    assert "Run sell(number=2)? [y/N] y" in said["/sessions first"]
    assert "clerk: Done." in said["/sessions first"]
    texts = str(exported("first", clerk.with_name("chats.db")))
    assert "<bye>" in texts
    assert "<hello>" not in texts


def test_explain_shows_the_next_request_and_sends_nothing(chat: Say, clerk: Path) -> None:
    """The same text as `flowloom explain` prints, with a message that is asked about, or without one."""
    said = chat("hello", "/explain how many?", "/explain")
    assert "You say <hello>." in said["/explain"]
    assert "| how many?" in said["/explain how many?"]
    assert "Nothing was sent." in said["/explain how many?"]
    assert "how many?" not in said["/explain"]
    store = clerk.with_name("chats.db")
    assert "how many?" not in str(exported("s", store))
    same = flowloom("explain", clerk, "--session", "s", "--store", store, "-m", "how many?").stdout
    timeless = [text.partition("Processors (")[0].splitlines()[4:] for text in (same, said["/explain how many?"])]
    assert timeless[0] == timeless[1]


def test_events_are_told_on_one_line_each(chat: Say, clerk: Path) -> None:
    """Id, author and what they hold; a call that waits says so until it is answered."""
    assert "no events yet" in chat("/events", session="empty")["errors"]
    chat("sell")
    lines = chat("", "/events")["/events"].splitlines()
    events = exported("s", clerk.with_name("chats.db"))["events"]
    assert [line.split()[0] for line in lines] == [event["id"] for event in events]
    assert lines[0].endswith("user: 'sell'")
    assert "clerk: calls sell" in lines[1]
    assert not any("waits for" in line for line in lines)


def test_an_open_call_is_marked(terminal: Start, clerk: Path) -> None:
    """A question that was left open is one that waits."""
    chat = terminal("run", clerk)
    chat.wait_for("you>")
    chat.say("sell")
    chat.wait_for("[y/N]")
    chat.type("\x04")
    chat.wait_for("stays open")
    chat.say("/events")
    chat.wait_for("waits for the confirmation of sell")
    chat.wait_for("you>")
    chat.say("/quit")
    assert chat.end() == 0


def test_the_model_is_told_and_changed(chat: Say) -> None:
    """For the rest of the chat; one that cannot be used is an error, and all stays as it was."""
    said = chat("/model", "one", "/model nonsense", "two", "/model offline", "hello")
    assert said["/model"] == "The model of clerk is function.\n"
    assert "You say <one>." in said["one"]
    assert "`nonsense` is no model that is known here" in said["errors"]
    assert "You say <two>." in said["two"]
    assert said["/model offline"] == "All agents use the model offline.\n"
    assert "[offline]" in said["hello"]


def test_the_stand_in_is_no_secret(shepherd: Path) -> None:
    """Where an agent's own model lacks a key, the one that answers is told, and which one it replaces."""
    done = flowloom("run", shepherd, lines="/model\n/model offline\n/model\n")
    assert "The model of shepherd is offline (in the place of gemini-2.5-flash).\n" in done.stdout
    assert done.stdout.endswith("The model of shepherd is offline.\n")


@pytest.mark.parametrize("word", ["/quit", "/exit", "exit", "quit", "EXIT"])
def test_a_word_leaves(chat: Say, clerk: Path, word: str) -> None:
    """With 0; what was said is kept, and what follows is not read."""
    chat("hello", word, "never")
    assert "never" not in str(exported("s", clerk.with_name("chats.db")))


def test_an_unknown_command_is_not_sent(chat: Say, clerk: Path) -> None:
    """The closest is named first. Neither is one with words too many, or a slash alone."""
    said = chat("/stat", "/state now", "/", "hello", "//hello")
    assert "There is no command `/stat`. The commands are `/state`," in said["errors"]
    assert "`/state` takes nothing behind it." in said["errors"]
    assert "There is no command `/`." in said["errors"]
    assert "You say <hello>." in said["hello"]
    assert "You say </hello>." in said["//hello"]
    sent = [e["content"]["parts"][0]["text"] for e in exported("s", clerk.with_name("chats.db"))["events"][::2]]
    assert sent == ["hello", "/hello"]


def test_a_message_of_the_command_line_is_a_message(clerk: Path) -> None:
    """`-m` says what it is given."""
    assert flowloom("run", clerk, "-m", "/help").stdout == "clerk: You say </help>.\n"


def test_an_error_in_a_command_does_not_end_the_chat(tmp_path: Path) -> None:
    agent = tmp_path / "clerk.py"
    agent.write_text(CLERK.replace("{user:name?}", "{customer}"))
    done = flowloom("run", agent, lines="/explain\n/help\n")
    assert done.returncode == 0
    assert "customer" in done.stderr
    assert "Traceback" not in done.stderr
    assert "/sessions" in done.stdout


def test_commands_write_no_escape_sequences_to_a_pipe(chat: Say) -> None:
    said = chat("hello", *(f"/{command.name}" for command in COMMANDS))
    assert "\x1b" not in "".join(said.values())
