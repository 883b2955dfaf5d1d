"""`flowloom run` on a session that another process left: killed in the middle of a turn, or with a question open."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from cli.process import Terminal, exported, flowloom, started

Start = Callable[..., Terminal]

SMITHY = """
import asyncio
from pathlib import Path
from flowloom import LlmAgent, LlmResponse
from flowloom.testing import call
from google.genai import types

HERE = Path(__file__).parent


def heat(iron: str) -> str:
    '''Heat.'''
    with (HERE / "log").open("a") as log:
        log.write("heat\\n")
    return "hot"


async def forge(iron: str) -> str:
    '''Forge, which takes its time unless the hammer is there.'''
    with (HERE / "log").open("a") as log:
        log.write("forge\\n")
    while not (HERE / "hammer").exists():
        await asyncio.sleep(0.005)
    return "forged"


def answer(callback_context, llm_request):
    parts = [part for content in llm_request.contents for part in content.parts]
    done = [part.function_response.name for part in parts if part.function_response]
    if parts[-1].text and "hello" in parts[-1].text:
        return LlmResponse(content=types.ModelContent("Hello."))
    for name in ("heat", "forge"):
        if name not in done:
            return LlmResponse(content=types.ModelContent([call(name, iron="bar")]))
    return LlmResponse(content=types.ModelContent("The bar is ready."))


root_agent = LlmAgent(name="smith", model="offline", tools=[heat, forge], before_model_callback=answer)
"""

ASKING = """
from flowloom import LlmAgent, LlmResponse, ToolContext
from flowloom.testing import call
from google.genai import types


def order(item: str, tool_context: ToolContext) -> str:
    '''Order.'''
    size = tool_context.request_input("Which size?", response_schema={schema})
    return f"{{item}} of size {{size!r}}"


def answer(callback_context, llm_request):
    last = llm_request.contents[-1].parts[-1]
    if last.text:
        return LlmResponse(content=types.ModelContent([call("order", item="boots")]))
    return LlmResponse(content=types.ModelContent(str(last.function_response.response)))


root_agent = LlmAgent(name="shop", model="offline", tools=[order], before_model_callback=answer)
"""


@pytest.fixture
def smithy(tmp_path: Path) -> Path:
    """An agent that heats, then forges, for as long as there is no file `hammer`; what it does is in the file `log`."""
    path = tmp_path / "smithy.py"
    path.write_text(SMITHY)
    return path


@pytest.fixture
def killed(smithy: Path, terminal: Start) -> tuple[Any, ...]:
    """The command of a run that was killed while it forged; the hammer is there now."""
    command = ("run", smithy, "--store", smithy.with_name("chats.db"), "--session", "s")
    _kill_in_forge(command, terminal)
    return command


def _kill_in_forge(command: tuple[Any, ...], terminal: Start) -> None:
    chat = terminal(*command)
    chat.wait_for("you>")
    chat.say("make a bar")
    chat.wait_for("calls forge")
    smithy = Path(command[1])
    while "forge" not in smithy.with_name("log").read_text():
        pass
    chat.kill()
    smithy.with_name("hammer").touch()


def done_by(smithy: Path) -> list[str]:
    return smithy.with_name("log").read_text().split()


def kinds(store: Path | str) -> list[str]:
    parts = [part for event in exported("s", store)["events"] for part in event["content"]["parts"]]
    return [next(iter(part)) for part in parts]


# -- killed ------------------------------------------------------------------------------------------------


def test_a_killed_program_goes_on(killed: tuple[Any, ...], smithy: Path, terminal: Start) -> None:
    """What was done is not done again; what was under way is. Then there is nothing left to go on with."""
    chat = terminal(*killed)
    assert "you: make a bar" in chat.wait_for("Go on with it? [Y/n]")
    chat.say("")
    chat.wait_for("smith: The bar is ready.")
    chat.wait_for("you>")
    chat.type("\x04")
    assert chat.end() == 0
    assert done_by(smithy) == ["heat", "forge", "forge"]
    assert kinds(killed[3]) == [
        "text",
        "functionCall",
        "functionResponse",
        "functionCall",
        "functionResponse",
        "text",
    ]
    chat = terminal(*killed)
    assert "Go on with it?" not in chat.wait_for("you>")


@pytest.mark.parametrize("key", ["n\r", "\x03", "\x04"], ids=["n", "Ctrl-C", "Ctrl-D"])
def test_a_killed_program_need_not_go_on(killed: tuple[Any, ...], smithy: Path, terminal: Start, key: str) -> None:
    """The next message is answered, without the call that was cut off."""
    chat = terminal(*killed)
    chat.wait_for("Go on with it? [Y/n]")
    chat.type(key)
    chat.wait_for("you>")
    chat.say("hello")
    chat.wait_for("smith: Hello.")
    chat.wait_for("you>")
    assert done_by(smithy) == ["heat", "forge"]
    page = flowloom("explain", *killed[1:], "-m", "hello again").stdout
    assert "| calls heat(" in page
    assert "| calls forge(" not in page


def test_lines_are_not_taken_for_the_decision(killed: tuple[Any, ...], smithy: Path) -> None:
    """Without a terminal it is told that there is something to go on with, and how; the line is a message."""
    done = flowloom(*killed, lines="hello\n")
    assert "did not come to its end; `--go-on`" in done.stderr
    assert "smith: Hello." in done.stdout
    assert done_by(smithy) == ["heat", "forge"]


def test_going_on_can_be_asked_for(killed: tuple[Any, ...], smithy: Path) -> None:
    """With an option, before the message if there is one; a program that was killed holds nothing up."""
    done = flowloom(*killed, "--go-on", "-m", "hello")
    assert done.returncode == 0
    assert done.stdout.splitlines()[-2:] == ["smith: The bar is ready.", "smith: Hello."]
    assert "Another program is at work on this session" not in done.stderr
    assert done_by(smithy) == ["heat", "forge", "forge"]
    done = flowloom(*killed, "--go-on")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_going_on_can_be_declined(killed: tuple[Any, ...]) -> None:
    done = flowloom(*killed, "--no-go-on")
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


def test_a_killed_program_goes_on_from_postgresql(smithy: Path, terminal: Start, postgres_dsn: str) -> None:
    command = ("run", smithy, "--store", postgres_dsn, "--session", "s")
    _kill_in_forge(command, terminal)
    assert "smith: The bar is ready." in flowloom(*command, "--go-on", cwd=smithy.parent, fresh=True).stdout
    assert done_by(smithy) == ["heat", "forge", "forge"]


def test_a_turn_that_was_stopped_can_be_gone_on_with(smithy: Path, terminal: Start) -> None:
    """Ctrl-C settles the call that was under way; going on takes it from there."""
    command = ("run", smithy, "--store", smithy.with_name("chats.db"), "--session", "s")
    chat = terminal(*command)
    chat.wait_for("you>")
    chat.say("make a bar")
    chat.wait_for("calls forge")
    chat.interrupt()
    chat.wait_for("Stopped.")
    chat.wait_for("you>")
    chat.type("\x04")
    assert chat.end() == 0
    assert flowloom(*command, "--go-on").stdout == "smith: The bar is ready.\n"


def test_a_session_that_is_in_use_is_waited_for(smithy: Path) -> None:
    """The second program says so, and goes on when the first one has finished."""
    store = smithy.with_name("chats.db")
    command = ("run", smithy, "--store", store, "--session", "s", "-m")
    with started(*command, "make a bar") as first:
        assert first.stdout is not None
        while "calls forge" not in first.stdout.readline():
            pass
        with started(*command, "hello") as second:
            assert second.stderr is not None
            assert "Another program is at work on this session" in second.stderr.readline()
            smithy.with_name("hammer").touch()
            out, err = second.communicate(timeout=60)
        assert (out, err) == ("smith: Hello.\n", "")
        assert "The bar is ready." in first.communicate(timeout=60)[0]
    texts = [part.get("text") for event in exported("s", store)["events"] for part in event["content"]["parts"]]
    assert [text for text in texts if text] == ["make a bar", "The bar is ready.", "hello", "Hello."]


# -- questions ---------------------------------------------------------------------------------------------


@pytest.fixture
def at(tmp_path: Path) -> tuple[Any, ...]:
    return ("--store", tmp_path / "chats.db", "--session", "s")


def test_a_confirmation_is_asked_for_again(shepherd: Path, at: tuple[Any, ...]) -> None:
    """By the next process, and by the one after it, until somebody decides."""
    assert "stays open" in flowloom("run", shepherd, *at, "-m", "shear 3 sheep").stderr
    assert "stays open" in flowloom("run", shepherd, *at).stderr
    done = flowloom("run", shepherd, *at, lines="y\n")
    assert "Run shear_sheep(number=3)? [y/N] y" in done.stdout
    assert "Sheared 3." in done.stdout
    done = flowloom("run", shepherd, *at)
    assert (done.returncode, done.stdout) == (0, "")


def test_a_confirmation_is_asked_for_again_on_a_terminal(shepherd: Path, at: tuple[Any, ...], terminal: Start) -> None:
    """Ctrl-D at the question leaves it open; the next start tells what it is about."""
    chat = terminal("run", shepherd, *at)
    chat.wait_for("you>")
    chat.say("shear 3 sheep")
    chat.wait_for("[y/N]")
    chat.type("\x04")
    chat.wait_for("shear_sheep stays open")
    chat.wait_for("you>")
    chat.type("\x04")
    assert chat.end() == 0
    chat = terminal("run", shepherd, *at)
    assert "you: shear 3 sheep" in chat.wait_for("Run shear_sheep(number=3)? [y/N]")
    chat.say("y")
    chat.wait_for("shepherd: [offline] Sheared 3.")
    chat.wait_for("you>")


def test_a_result_can_come_after_other_words(shepherd: Path, at: tuple[Any, ...]) -> None:
    """What waits is asked for at each start, however long ago it was; in the chat it is asked for once."""
    done = flowloom("run", shepherd, *at, lines="order 4 bales of hay for delivery\n\ncount 2 sheep\n")
    assert done.stdout.count("Result of request_delivery(number=4), as text or JSON>") == 1
    assert "Counted 2 sheep." in done.stdout
    done = flowloom("run", shepherd, *at, lines='{"status": "arrived"}\n')
    assert "Request delivery: status arrived" in done.stdout
    assert flowloom("run", shepherd, *at).stdout == ""


@pytest.mark.parametrize(
    ("schema", "answer", "given"),
    [
        ('{"type": "string"}', "42", "'42'"),
        ('{"type": "integer"}', "42", "42"),
        ("None", "large", "'large'"),
    ],
)
def test_input_is_asked_for_again(tmp_path: Path, at: tuple[Any, ...], schema: str, answer: str, given: str) -> None:
    """What stands for a text is taken as it was typed."""
    agent = tmp_path / "shop.py"
    agent.write_text(ASKING.format(schema=schema))
    done = flowloom("run", agent, *at, "-m", "boots, please")
    assert done.stdout == '  [shop] calls order(item="boots")\nWhich size?\nanswer> \n'
    assert "the question stays open" in done.stderr
    done = flowloom("run", agent, *at, lines=f"{answer}\n")
    assert done.stdout.startswith(f"Which size?\nanswer> {answer}\n")
    assert f"boots of size {given}" in done.stdout


def test_input_that_does_not_fit_is_asked_for_again(tmp_path: Path, at: tuple[Any, ...]) -> None:
    agent = tmp_path / "shop.py"
    agent.write_text(ASKING.format(schema='{"type": "integer"}'))
    done = flowloom("run", agent, *at, lines="boots, please\nlarge\n42\n")
    assert "must be a valid" in done.stdout
    assert "boots of size 42" in done.stdout


def test_several_questions_are_asked_one_after_the_other(shepherd: Path, at: tuple[Any, ...]) -> None:
    """Those that get no answer are left for the next time."""
    lines = '/call shear_sheep {"number": 1} shear_sheep {"number": 2}\n'
    done = flowloom("run", shepherd, *at, "--model", "human", "-m", "shear", lines=lines)
    assert done.stderr.count("stays open") == 2
    done = flowloom("run", shepherd, *at, "--model", "human", lines="y\n")
    assert "Sheared 1." in done.stdout
    assert "Run shear_sheep(number=2)? [y/N] \n" in done.stdout
    done = flowloom("run", shepherd, *at, "--model", "human", lines="y\nBoth.\n")
    assert "Sheared 2." in done.stdout
    assert "Sheared 1." not in done.stdout.partition("shepherd asks")[0]
