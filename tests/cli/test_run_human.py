"""`flowloom run --model human`: the user at the terminal answers for the model, too."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import kit
import pytest

from cli.process import DESK, Terminal, exported, flowloom, started
from flowloom.cli.display import Display

Start = Callable[..., Terminal]
HUMAN = ("--model", "human")


def spoken(done: subprocess.CompletedProcess[str]) -> list[str]:
    """What the agent did and said."""
    return [line for line in done.stdout.splitlines() if line.startswith(("shepherd: ", "  [shepherd] "))]


# -- lines -----------------------------------------------------------------------------------------


def test_a_line_after_the_message_is_the_answer(shepherd: Path) -> None:
    """Lines are taken as they are asked for: a message, the model's answer, a message, ..."""
    done = flowloom("run", shepherd, *HUMAN, lines="hello\nGood morning.\nbye\nGood night.\n")
    assert done.returncode == 0
    assert spoken(done) == ["shepherd: Good morning.", "shepherd: Good night."]
    assert "you: hello" in done.stdout
    assert "model of shepherd> Good morning." in done.stdout


def test_the_request_is_shown_and_then_what_has_changed(shepherd: Path) -> None:
    done = flowloom("run", shepherd, *HUMAN, lines='how many?\n/call count_sheep {"number": 3}\nThree.\n')
    first, second = re.split(r"shepherd asks human(?:, step 1)?\n", done.stdout)[1:]
    assert 'You are the agent "shepherd".  ' not in first
    assert "count_sheep(number: integer)  ← tool_declarations" in first
    assert "| how many?" in first
    assert "Processors" not in first
    assert "Tools to call: /1 count_sheep, /2 shear_sheep" in first
    assert "count_sheep(number: integer)" not in second
    assert "| calls count_sheep(number=3)  [call_1]" in second


def test_a_call_with_its_arguments_on_one_line(shepherd: Path) -> None:
    done = flowloom("run", shepherd, *HUMAN, "-m", "count", lines='/call count_sheep {"number": 3}\nThree.\n')
    assert spoken(done) == [
        "  [shepherd] calls count_sheep(number=3)",
        '  [shepherd] got count_sheep: {"message": "Counted 3 sheep."}',
        "shepherd: Three.",
    ]


def test_several_calls_on_one_line(shepherd: Path) -> None:
    lines = '/call count_sheep {"number": 3} 1 {"number": 4}\nSeven.\n'
    done = flowloom("run", shepherd, *HUMAN, "-m", "count", lines=lines)
    assert [line for line in spoken(done) if "calls" in line] == [
        "  [shepherd] calls count_sheep(number=3)",
        "  [shepherd] calls count_sheep(number=4)",
    ]


def test_calls_are_collected_and_go_with_the_text(shepherd: Path, tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    lines = '/add 1 {"number": 3}\n/add 1 {"number": 4}\nI count.\nSeven.\n'
    flowloom("run", shepherd, *HUMAN, "--store", store, "--session", "s", "-m", "count", lines=lines)
    parts = exported("s", store)["events"][1]["content"]["parts"]
    assert [part.get("text") or part["functionCall"]["args"]["number"] for part in parts] == ["I count.", 3, 4]


def test_collected_calls_can_be_sent_or_dropped(shepherd: Path) -> None:
    lines = '/send\n/add 1 {"number": 3}\n/drop\n/add 1 {"number": 4}\n/send\nFour.\n'
    done = flowloom("run", shepherd, *HUMAN, "-m", "count", lines=lines)
    assert "There is nothing to send yet." in done.stderr
    assert [line for line in spoken(done) if "calls" in line] == ["  [shepherd] calls count_sheep(number=4)"]


def test_a_call_goes_with_those_that_were_collected(shepherd: Path) -> None:
    lines = '/add 1 {"number": 3}\n/call 1 {"number": 4}\nSeven.\n'
    done = flowloom("run", shepherd, *HUMAN, "-m", "count", lines=lines)
    assert [line for line in spoken(done) if "calls" in line] == [
        "  [shepherd] calls count_sheep(number=3)",
        "  [shepherd] calls count_sheep(number=4)",
    ]


def test_arguments_are_asked_for_one_by_one(tmp_path: Path) -> None:
    """What does not fit is asked for again; what is not required may be left out; nested values are JSON."""
    agent = tmp_path / "clerk.py"
    agent.write_text(
        "from typing import Literal\nfrom flowloom import LlmAgent\n"
        "def book(room: Literal['sea', 'yard'], nights: int, late: bool = False, guests: list[str] = []) -> str:\n"
        "    '''Book a room.\n\n    Args:\n        nights: How many.\n    '''\n    return 'Booked.'\n"
        "root_agent = LlmAgent(name='clerk', tools=[book])\n"
    )
    lines = '/1\nlake\nsea\n\nthree\n3\n\n["Ann"]\nDone.\n'
    done = flowloom("run", agent, *HUMAN, "-m", "a room", lines=lines)
    assert '  [clerk] calls book(room="sea", nights=3, guests=["Ann"])' in done.stdout
    assert '  room ("sea" | "yard")> lake' in done.stdout
    assert "  nights (integer, How many.)> three" in done.stdout
    assert "  late? (boolean) [false]> \n" in done.stdout
    assert "`nights` is needed" in done.stderr
    assert "- `nights`: must be a valid number" in done.stderr


def test_a_form_can_be_given_up(shepherd: Path) -> None:
    done = flowloom("run", shepherd, *HUMAN, "-m", "count", lines="/1\n/back\nI do not know.\n")
    assert spoken(done) == ["shepherd: I do not know."]


@pytest.mark.parametrize(
    ("line", "notice"),
    [
        ("/count", "/count is no command"),
        ("/call", "Name the tool to call"),
        ("/call count_goats {}", "There is no tool `count_goats`"),
        ("/9", "There is no tool `9`"),
        ("/call count_sheep {number: 3}", "are no JSON"),
        ('/call count_sheep {"number": "x"}', "- `number`: must be a valid number"),
        ('/call count_sheep {"number": 3} [4]', "There is no tool `[4]`"),
    ],
)
def test_what_is_no_answer_is_asked_again(shepherd: Path, line: str, notice: str) -> None:
    done = flowloom("run", shepherd, *HUMAN, "-m", "count", lines=f"{line}\nThree.\n")
    assert notice in done.stderr
    assert spoken(done) == ["shepherd: Three."]


def test_blank_lines_are_no_answers(shepherd: Path) -> None:
    assert spoken(flowloom("run", shepherd, *HUMAN, "-m", "hello", lines="\n  \nHi.\n")) == ["shepherd: Hi."]


def test_an_error_fails_the_turn(shepherd: Path) -> None:
    done = flowloom("run", shepherd, *HUMAN, "-m", "hello", lines="/error out of wool\n")
    assert done.returncode == 1
    assert spoken(done) == ["shepherd: ModelError: out of wool"]
    assert "Traceback" not in done.stderr


def test_the_end_of_the_input_fails_the_turn(shepherd: Path) -> None:
    done = flowloom("run", shepherd, *HUMAN, "-m", "hello")
    assert done.returncode == 1
    assert "No person can answer for the model: the input has ended." in done.stdout


def test_a_text_may_begin_with_a_slash_and_have_several_lines(shepherd: Path) -> None:
    lines = "//etc is a folder.\nmore\n/text\none\n\ntwo\n.\n"
    done = flowloom("run", shepherd, *HUMAN, lines=f"hello\n{lines}")
    assert "shepherd: /etc is a folder." in done.stdout
    assert "shepherd: one\n\ntwo\n" in done.stdout


def test_the_whole_page_and_the_help_can_be_read(shepherd: Path) -> None:
    done = flowloom("run", shepherd, *HUMAN, "-m", "hello", lines="/page\n/help\nHi.\n")
    assert "Processors (" in done.stdout
    assert "/call NAME {JSON}" in done.stdout
    assert spoken(done) == ["shepherd: Hi."]


def test_json_of_the_response_schema_is_asked_for(tmp_path: Path) -> None:
    agent = tmp_path / "counter.py"
    agent.write_text(
        "from pydantic import BaseModel\nfrom flowloom import LlmAgent\n"
        "class Count(BaseModel):\n    sheep: int\n"
        "root_agent = LlmAgent(name='shepherd', output_schema=Count)\n"
    )
    lines = 'Three.\n{"sheep": "many"}\n{"sheep": 3}\n'
    done = flowloom("run", agent, *HUMAN, "-m", "count", lines=lines)
    assert "A text has to be JSON of the response schema." in done.stdout
    assert "The output is not JSON" in done.stderr
    assert "- `sheep`: must be" in done.stderr
    assert spoken(done) == ['shepherd: {"sheep": 3}']


def test_agents_in_parallel_are_answered_one_after_the_other(tmp_path: Path) -> None:
    agent = tmp_path / "flock.py"
    agent.write_text(
        "from flowloom import LlmAgent, ParallelAgent\n"
        "root_agent = ParallelAgent(name='flock', sub_agents=[LlmAgent(name='ewe'), LlmAgent(name='ram')])\n"
    )
    done = flowloom("run", agent, *HUMAN, "-m", "well?", lines="Baa.\nBee.\n")
    assert "model of ewe> Baa." in done.stdout
    assert "model of ram> Bee." in done.stdout
    assert {"ewe: Baa.", "ram: Bee."} <= set(done.stdout.splitlines())


def test_a_question_for_the_user_stands_between_those_for_the_model(shepherd: Path) -> None:
    """A confirmation is the user's."""
    done = flowloom("run", shepherd, *HUMAN, lines='shear 3\n/call shear_sheep {"number": 3}\ny\nSheared.\n')
    asked = [line for line in done.stdout.splitlines() if line.startswith(("you: ", "model of ", "Run "))]
    assert asked == [
        "you: shear 3",
        'model of shepherd> /call shear_sheep {"number": 3}',
        "Run shear_sheep(number=3)? [y/N] y",
        "model of shepherd> Sheared.",
    ]


def test_a_human_model_of_the_agents_own_is_answered_too(tmp_path: Path) -> None:
    agent = tmp_path / "own.py"
    agent.write_text(
        "from flowloom import HumanModel, LlmAgent\n"
        "root_agent = LlmAgent(name='shepherd', model=HumanModel(model='old-ben'))\n"
    )
    done = flowloom("run", agent, "-m", "hello", lines="Hi.\n")
    assert "shepherd asks old-ben" in done.stdout
    assert spoken(done) == ["shepherd: Hi."]


def test_a_request_that_timed_out_takes_no_line(tmp_path: Path) -> None:
    agent = tmp_path / "late.py"
    agent.write_text(
        "from flowloom import HumanModel, LlmAgent, LlmResponse, SequentialAgent\nfrom google.genai import types\n"
        "def recover(callback_context, llm_request, error):\n"
        "    return LlmResponse(content=types.ModelContent('Nobody came.'))\n"
        "late = LlmAgent(name='late', model=HumanModel(timeout=0.05), on_model_error_callback=recover)\n"
        "root_agent = SequentialAgent(name='both', sub_agents=[late, LlmAgent(name='next', model=HumanModel())])\n"
    )
    with started("run", agent, "-m", "hello", text=False) as process:
        assert process.stdout is not None
        seen = b""
        while not seen.endswith(b"model of next> "):
            seen += os.read(process.stdout.fileno(), 65536)
        out, err = process.communicate(b"Hi.\n", timeout=60)
    assert process.returncode == 0
    assert b"No answer is needed any longer: timed out." in err
    assert out.splitlines() == [b"Hi.", b"next: Hi."]


def test_an_interrupt_while_the_model_is_asked_stops_the_turn(shepherd: Path, tmp_path: Path) -> None:
    store = tmp_path / "chats.db"
    with started("run", shepherd, *HUMAN, "--store", store, "--session", "s") as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write("hello\n")
        process.stdin.flush()
        while "You answer as the model" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        out, err = process.communicate("and now?\nHi.\n", timeout=60)
    assert process.returncode == 0
    assert "Stopped." in err
    assert "shepherd: Hi." in out
    assert [event["author"] for event in exported("s", store)["events"]] == ["user", "user", "shepherd"]


# -- a terminal ------------------------------------------------------------------------------------


def test_user_and_model_have_prompts_of_their_own(terminal: Start, shepherd: Path) -> None:
    chat = terminal("run", shepherd, *HUMAN, fresh=True)
    chat.wait_for("you>")
    chat.say("how many sheep?")
    chat.wait_for("shepherd asks human")
    chat.wait_for("You answer as the model of shepherd now")
    chat.wait_for("model of shepherd>")
    chat.say("/1")
    chat.wait_for("number (integer)>")
    chat.say("3")
    chat.wait_for("calls count_sheep(number=3)")
    chat.wait_for("model of shepherd>")
    chat.say("Three sheep.")
    chat.wait_for("shepherd: Three sheep.")
    chat.wait_for("you>")
    chat.type("\x04")
    assert chat.end() == 0


def test_ctrl_c_at_the_models_prompt_stops_the_turn(terminal: Start, shepherd: Path, tmp_path: Path) -> None:
    """What was typed goes first; the history stays legal, also when a call was open."""
    store = tmp_path / "chats.db"
    chat = terminal("run", shepherd, *HUMAN, "--store", store, "--session", "s")
    chat.wait_for("you>")
    chat.say("count")
    chat.wait_for("model of shepherd>")
    chat.say('/call count_sheep {"number": 2}')
    chat.wait_for("got count_sheep")
    chat.wait_for("model of shepherd>")
    chat.type("nonsense")
    chat.wait_for("nonsense")
    chat.interrupt()
    chat.interrupt()
    chat.wait_for("Stopped.")
    chat.wait_for("you>")
    parts = [part for event in exported("s", store)["events"] for part in event["content"]["parts"]]
    assert [next(iter(part)) for part in parts] == ["text", "functionCall", "functionResponse"]
    chat.say("again")
    chat.wait_for("model of shepherd>")
    chat.say("Two.")
    chat.wait_for("shepherd: Two.")
    chat.wait_for("you>")
    chat.interrupt()
    assert chat.end() == 0


def test_ctrl_c_in_a_form_stops_the_turn(terminal: Start, shepherd: Path) -> None:
    chat = terminal("run", shepherd, *HUMAN)
    chat.wait_for("you>")
    chat.say("count")
    chat.wait_for("model of shepherd>")
    chat.say("/1")
    chat.wait_for("number (integer)>")
    chat.interrupt()
    chat.wait_for("Stopped.")
    chat.wait_for("you>")


def test_ctrl_c_in_a_tool_still_stops_the_turn(terminal: Start, shepherd: Path) -> None:
    """The prompt in the turn gives the interrupts back."""
    chat = terminal("run", shepherd, *HUMAN)
    chat.wait_for("you>")
    chat.say("watch")
    chat.wait_for("model of shepherd>")
    chat.say('/call watch_wolves {"minutes": 5}')
    chat.wait_for("calls watch_wolves")
    chat.interrupt()
    chat.wait_for("Stopped.")
    chat.wait_for("you>")


def test_ctrl_d_at_the_models_prompt_fails_the_turn_only(terminal: Start, shepherd: Path) -> None:
    chat = terminal("run", shepherd, *HUMAN)
    chat.wait_for("you>")
    chat.say("hello")
    chat.wait_for("model of shepherd>")
    chat.type("\x04")
    chat.wait_for("No person can answer for the model")
    chat.wait_for("you>")


def test_what_happens_meanwhile_waits_until_the_answer_is_given(terminal: Start, tmp_path: Path) -> None:
    """A line that is being typed is not written into."""
    agent, go, gone = tmp_path / "pair.py", tmp_path / "go", tmp_path / "gone"
    agent.write_text(
        "import asyncio, pathlib\nfrom flowloom import HumanModel, LlmAgent, ParallelAgent\n"
        "from flowloom.testing import FunctionModel\n"
        "async def answer(request):\n"
        f"    while not pathlib.Path({str(go)!r}).exists():\n        await asyncio.sleep(0.005)\n"
        f"    pathlib.Path({str(gone)!r}).touch()\n    return 'I know.'\n"
        "quick = LlmAgent(name='quick', model=FunctionModel(answer))\n"
        "slow = LlmAgent(name='slow', model=HumanModel())\n"
        "root_agent = ParallelAgent(name='pair', sub_agents=[quick, slow])\n"
    )
    chat = terminal("run", agent, "--message", "well?")
    chat.wait_for("model of slow>")
    chat.type("half a")
    chat.wait_for("half a")
    go.touch()
    while not gone.exists():
        time.sleep(0.005)
    chat.type(" sent")
    assert "quick" not in chat.wait_for("sent")
    chat.say("ence.")
    chat.wait_for("quick: I know.")
    assert chat.end() == 0
    assert "slow: half a sentence." in chat.text


def test_what_is_put_off_is_shown_in_order() -> None:
    out = io.StringIO()
    display = Display(out, io.StringIO())
    display.begin_turn()
    display.hold()
    display.show(kit.event("a", "one", partial=True))
    display.show(kit.event("a", "one."))
    display.show(kit.event("b", "two."))
    assert out.getvalue() == ""
    display.release()
    assert out.getvalue() == "a: one.\nb: two.\n"


def test_the_travel_desk_is_played_by_a_person() -> None:
    """A whole hierarchy: a hand-over is a call like any other."""
    lines = (
        '/call transfer_to_agent {"agent_name": "climate"}\n'
        '/call get_climate {"city": "Lisbon", "month": "May"}\nWarm.\n'
    )
    done = flowloom("run", DESK, *HUMAN, "-m", "Lisbon in May?", lines=lines)
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.splitlines()[-1] == "climate: Warm."
    assert "climate asks human" in done.stdout
