"""`flowloom run` where input and output are no terminal."""

from __future__ import annotations

import shlex
import signal
import subprocess
from pathlib import Path

import pytest
from kit import open_calls

from cli.process import COMMAND, DESK, environment, exported, flowloom, started
from flowloom import Event


def test_each_line_is_a_message() -> None:
    """Lines are answered one after the other, and the end of the input is a good end."""
    lines = "What is the weather in Lisbon in May?\n\nconvert 10 EUR to USD\n"
    done = flowloom("run", DESK, lines=lines, fresh=True)
    assert done.returncode == 0
    assert "In May, Lisbon has highs of 22" in done.stdout
    assert "10.00 EUR are 10.90 USD" in done.stdout


def test_no_input_is_a_good_end() -> None:
    """Nothing to say is no failure."""
    done = flowloom("run", DESK)
    assert (done.returncode, done.stdout) == (0, "")


def test_plain_text_without_a_terminal() -> None:
    """No escape sequence reaches a pipe, even when colours are forced."""
    done = flowloom("run", DESK, lines="hello\n", FORCE_COLOR="1")
    assert "\x1b" not in done.stdout + done.stderr


def test_steps_are_shown_as_they_happen() -> None:
    """Transfers, calls with arguments and results appear, the agent's name as speaker."""
    done = flowloom("run", DESK, "--message", "What is the weather in Lisbon in May?")
    assert done.stdout.splitlines() == [
        "  [travel_desk] hands over to climate",
        '  [climate] calls get_climate(city="Lisbon", month="May")',
        '  [climate] got get_climate: {"result": "In May, Lisbon has highs of 22 °C and 7 days of rain."}',
        "climate: [offline] In May, Lisbon has highs of 22 °C and 7 days of rain.",
    ]


def test_unstreamed_shows_the_same() -> None:
    """`--no-stream` changes when the text comes, not what comes."""
    message = ("run", DESK, "--message", "convert 10 EUR to USD")
    assert flowloom(*message).stdout == flowloom(*message, "--no-stream").stdout


def test_debug_logs_each_step_without_content() -> None:
    """`--debug` writes the lines of the loggers to stderr; what is said stays out of them."""
    done = flowloom("run", DESK, "--message", "convert 10 EUR to USD", "--debug")
    for name in ("flow", "models", "tools", "sessions"):
        assert f"DEBUG flowloom.{name}: " in done.stderr
    assert "convert 10" not in done.stderr
    assert "10.90" in done.stdout
    assert "DEBUG" not in done.stdout


def test_the_stand_in_is_announced() -> None:
    """Without a key one line tells that the offline model answers."""
    done = flowloom("run", DESK, "--message", "hello", "--session", "mine")
    assert done.stderr.count("\n") == 1
    assert "offline" in done.stderr


def test_the_next_line_confirms(shepherd: Path) -> None:
    """A call that needs approval takes the next line for the answer."""
    done = flowloom("run", shepherd, lines="shear 3 sheep\ny\ncount 2 sheep\n")
    assert "Run shear_sheep(number=3)? [y/N] y" in done.stdout
    assert "Sheared 3." in done.stdout
    assert "Counted 2 sheep." in done.stdout


def test_any_other_line_declines(shepherd: Path) -> None:
    """Only yes is yes."""
    done = flowloom("run", shepherd, lines="shear 3 sheep\nwhy?\n")
    assert "rejected" in done.stdout
    assert "Sheared" not in done.stdout


def test_a_blank_line_declines_with_a_notice(shepherd: Path) -> None:
    done = flowloom("run", shepherd, lines="shear 3 sheep\n\n")
    assert "declined" in done.stderr
    assert "Sheared" not in done.stdout


def test_a_line_that_is_no_yes_is_the_reason(shepherd: Path, tmp_path: Path) -> None:
    """The model sees why a call was declined."""
    store = tmp_path / "chats.db"
    flowloom("run", shepherd, "--store", store, "--session", "s", lines="shear 3 sheep\nIt is too cold.\n")
    assert "It is too cold." in str(exported("s", store)["events"][-2])
    flowloom("run", shepherd, "--store", store, "--session", "s", lines="shear 4 sheep\nno\n")
    assert "rejected the call of `shear_sheep`. It" in str(exported("s", store)["events"][-2])


def test_no_line_left_leaves_the_question_open(shepherd: Path) -> None:
    """A call that nobody can decide about does not run, and that is said."""
    done = flowloom("run", shepherd, "--message", "shear 3 sheep")
    assert done.returncode == 0
    assert "shear_sheep stays open" in done.stderr
    assert "Sheared" not in done.stdout


def test_a_long_running_call_takes_a_free_answer(shepherd: Path) -> None:
    """The next line is the result of a call that runs on."""
    done = flowloom("run", shepherd, lines="order 4 bales of hay for delivery\narrived at noon\n")
    assert '{"result": "arrived at noon"}' not in done.stderr
    assert "arrived at noon" in done.stdout.splitlines()[-1]


def test_a_long_running_call_without_an_answer_stays_open(shepherd: Path) -> None:
    """Without a line for it, it is left pending."""
    done = flowloom("run", shepherd, lines="order 4 bales of hay for delivery\n")
    assert done.returncode == 0
    assert "stays open" in done.stderr


def test_an_interrupt_stops_the_turn_and_the_next_line_works(shepherd: Path) -> None:
    """SIGINT ends the turn, not the conversation."""
    with started("run", shepherd) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("watch for wolves for 5 minutes\n")
        process.stdin.flush()
        while "calls watch_wolves" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate("count 2 sheep\n", timeout=60)
    assert process.returncode == 0
    assert "Stopped." in err
    assert "Counted 2 sheep." in out


def test_an_interrupt_of_the_only_message_is_told_by_the_exit_code(shepherd: Path, tmp_path: Path) -> None:
    """130, as of any program that was interrupted. The call that was cut off has a result."""
    store = tmp_path / "chats.db"
    options = ["--session", "s", "--store", store, "--message", "watch for wolves for 5 minutes"]
    with started("run", shepherd, *options) as process:
        assert process.stdout is not None
        while "calls watch_wolves" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert err.splitlines()[-1] == "Stopped."
    assert open_calls([Event.model_validate(each) for each in exported("s", store)["events"]]) == set()


def test_a_second_interrupt_leaves_the_lines_that_are_left(shepherd: Path) -> None:
    """Although a tool still blocks, and with the exit code that says so."""
    with started("run", shepherd) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdin.write("sleep for 5 minutes\ncount 2 sheep\n")
        process.stdin.flush()
        while "calls nap" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        while "Stopped." not in process.stderr.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
    assert process.returncode == 130
    assert "Counted" not in out
    assert "Traceback" not in err


def test_a_failed_turn_fails_the_message(tmp_path: Path) -> None:
    """With `--message`, a turn that fails gives exit code 1 and one error, no traceback."""
    agent = tmp_path / "broken.py"
    agent.write_text(
        "from flowloom import LlmAgent\n"
        "def refuse(callback_context):\n    raise RuntimeError('out of order')\n"
        "root_agent = LlmAgent(name='broken', model='offline', before_agent_callback=refuse)\n"
    )
    done = flowloom("run", agent, "--message", "hello")
    assert done.returncode == 1
    assert (done.stdout + done.stderr).count("out of order") == 1
    assert "Traceback" not in done.stderr


def test_a_failed_turn_does_not_end_the_lines(tmp_path: Path) -> None:
    """The next line is answered after one that failed."""
    agent = tmp_path / "moody.py"
    agent.write_text(
        "from flowloom import LlmAgent\n"
        "def refuse(callback_context):\n"
        "    if callback_context.user_content.parts[0].text == 'bad':\n        raise RuntimeError('out of order')\n"
        "root_agent = LlmAgent(name='moody', model='offline', before_agent_callback=refuse)\n"
    )
    done = flowloom("run", agent, lines="bad\nhello\n")
    assert done.returncode == 0
    assert "out of order" in done.stdout
    assert "moody: [offline] Hello" in done.stdout


def test_control_characters_do_not_reach_the_output(tmp_path: Path) -> None:
    """What a model says cannot steer the terminal."""
    agent = tmp_path / "sly.py"
    agent.write_text(
        "from flowloom import LlmAgent\nfrom flowloom.testing import ScriptedModel\n"
        "root_agent = LlmAgent(name='sly', model=ScriptedModel(['a\\x1b[2Jb\\x07c']))\n"
    )
    assert flowloom("run", agent, "--message", "hello").stdout == "sly: a[2Jbc\n"


def test_agents_with_a_model_of_their_own_keep_it(tmp_path: Path) -> None:
    """The stand-in takes the place of models without credentials only."""
    agent = tmp_path / "own.py"
    agent.write_text(
        "from flowloom import LlmAgent\nfrom flowloom.testing import ScriptedModel\n"
        "root_agent = LlmAgent(name='own', model=ScriptedModel(['mine']))\n"
    )
    done = flowloom("run", agent, "--message", "hello")
    assert done.stdout == "own: mine\n"
    assert "offline" not in done.stderr


def test_model_takes_the_place_of_every_model(tmp_path: Path) -> None:
    """`--model` answers for agents below as well."""
    agent = tmp_path / "own.py"
    agent.write_text(
        "from flowloom import LlmAgent, SequentialAgent\nfrom flowloom.testing import ScriptedModel\n"
        "one = LlmAgent(name='one', model=ScriptedModel([]))\ntwo = LlmAgent(name='two')\n"
        "root_agent = SequentialAgent(name='both', sub_agents=[one, two])\n"
    )
    done = flowloom("run", agent, "--message", "hello", "--model", "offline")
    assert done.returncode == 0
    assert "one: [offline]" in done.stdout
    assert "two: [offline]" in done.stdout


def test_a_reader_that_leaves_ends_the_chat() -> None:
    """`| head` has seen enough: nothing is said of it."""
    command = shlex.join([*COMMAND, "run", str(DESK), "--store", "memory", "--model", "offline", "-m", "hello"])
    done = subprocess.run(["sh", "-c", f"{command} | true"], capture_output=True, text=True, env=environment())
    assert done.stderr == "All agents use the model offline.\n"


@pytest.mark.parametrize("closed", ["<&-", ">&- 2>&-"])
def test_streams_that_are_closed_are_empty(tmp_path: Path, closed: str) -> None:
    """A daemon may be started without standard streams."""
    store = str(tmp_path / "chats.db")
    command = shlex.join([*COMMAND, "run", str(DESK), "--message", "hello", "--session", "s1", "--store", store])
    done = subprocess.run(["sh", "-c", f"{command} {closed}"], capture_output=True, text=True, env=environment())
    assert (done.returncode, "Traceback" in done.stderr) == (0, False)
    assert "hello" in flowloom("sessions", "show", "s1", "--store", store).stdout
