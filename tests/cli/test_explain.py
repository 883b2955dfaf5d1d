"""`flowloom explain`: the request of an agent, without asking a model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from cli.process import DESK, exported, flowloom, told

KEYLESS = """
from flowloom import LlmAgent
{before}
root_agent = LlmAgent(name="shop", model="gemini-2.5-flash", instruction={instruction!r}{fields})
"""


def shop(folder: Path, instruction: str = "Sell.", before: str = "", fields: str = "") -> Path:
    path = folder / "shop.py"
    path.write_text(KEYLESS.format(instruction=instruction, before=before, fields=fields))
    return path


def test_it_prints_the_text_page() -> None:
    """An agent with a hosted model needs no key."""
    done = flowloom("explain", DESK, "--message", "Flights to Rome?", fresh=True)
    assert (done.returncode, done.stderr) == (0, "")
    assert done.stdout.startswith("travel_desk asks gemini-2.5-flash\n")
    assert "| Flights to Rome?" in done.stdout
    assert "\x1b" not in done.stdout


def test_no_message_is_needed() -> None:
    done = flowloom("explain", DESK)
    assert done.returncode == 0
    assert "Contents\n--------\n\n  none\n" in done.stdout


def test_a_sub_agent_can_be_named() -> None:
    done = flowloom("explain", DESK, "--agent", "flights", "-m", "Rome?")
    assert done.stdout.startswith("flights asks gemini-2.5-flash\n")
    assert "book_flight(flight_number: string, passenger: string)" in done.stdout


def test_an_unknown_agent_is_answered_with_the_known_ones() -> None:
    done = flowloom("explain", DESK, "--agent", "flight")
    assert (done.returncode, done.stdout) == (2, "")
    assert done.stderr.startswith("Error: There is no agent `flight`. The agents are `flights`, `climate`, ")
    assert done.stderr.count("\n") == 1


def test_json_is_the_same_as_data() -> None:
    done = flowloom("explain", DESK, "-m", "Grüße", "--json")
    data = json.loads(done.stdout)
    assert data["agent"] == "travel_desk"
    assert data["request"]["contents"] == [{"parts": [{"text": "Grüße"}], "role": "user"}]
    assert "Grüße" in done.stdout


def test_html_goes_to_a_file(tmp_path: Path) -> None:
    """It is said where, and nothing else is printed."""
    file = tmp_path / "page.html"
    done = flowloom("explain", DESK, "-m", "Hello", "--html", file)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", f"Wrote {file}.\n")
    assert file.read_text().startswith("<!DOCTYPE html>\n")


def test_text_and_data_go_to_a_file(tmp_path: Path) -> None:
    text, data = tmp_path / "request.txt", tmp_path / "request.json"
    assert flowloom("explain", DESK, "-m", "Hello", "--output", text).stdout == ""
    assert text.read_text().startswith("travel_desk asks gemini-2.5-flash\n")
    done = flowloom("explain", DESK, "-m", "Hello", "--json", "--output", data)
    assert (done.stdout, done.stderr) == ("", f"Wrote {data}.\n")
    assert json.loads(data.read_text())["agent"] == "travel_desk"


def test_html_and_data_at_once(tmp_path: Path) -> None:
    done = flowloom("explain", DESK, "--json", "--html", tmp_path / "page.html")
    assert json.loads(done.stdout)["agent"] == "travel_desk"
    assert (tmp_path / "page.html").exists()


@pytest.mark.parametrize("option", ["--html", "--output"])
def test_a_file_that_cannot_be_written(tmp_path: Path, option: str) -> None:
    """It is told before anything is run."""
    for place in (tmp_path, tmp_path / "no" / "page"):
        done = flowloom("explain", DESK, option, place)
        assert (done.returncode, done.stdout) == (2, "")
        assert f"`{place}` cannot be written" in done.stderr


def test_one_file_for_two_pages_is_refused(tmp_path: Path) -> None:
    done = flowloom("explain", DESK, "--html", tmp_path / "page", "--output", tmp_path / "page")
    assert done.returncode == 2
    assert "Give two files" in done.stderr


def test_state_is_given_as_json_or_as_text(tmp_path: Path) -> None:
    path = shop(tmp_path, "For {name}: {count} of {names}. {note}")
    state = ("--state", "name=Ann", "--state", "count=3", "--state", 'names=["a=b"]', "--state", "note=")
    done = flowloom("explain", path, *state)
    assert "| For Ann: 3 of ['a=b'].\n" in done.stdout


@pytest.mark.parametrize("entry", ["city", "=Rome", "a={", 'a="b'])
def test_state_that_is_none(entry: str) -> None:
    done = flowloom("explain", DESK, "--state", entry)
    assert (done.returncode, done.stdout) == (2, "")
    assert entry in done.stderr


def test_another_model_can_be_named() -> None:
    """Its key is not needed either."""
    for name in ("gemini-2.5-pro", "offline"):
        done = flowloom("explain", DESK, "--agent", "flights", "--model", name)
        assert done.stdout.startswith(f"flights asks {name}\n")


def test_an_unknown_model() -> None:
    done = flowloom("explain", DESK, "--model", "gpt-0")
    assert (done.returncode, done.stdout) == (2, "")
    assert "`gpt-0`" in done.stderr


def test_a_session_that_run_kept_is_gone_on_from(shepherd: Path, tmp_path: Path) -> None:
    """It stays as it is, and so does a file of it."""
    store, file = tmp_path / "chats.db", tmp_path / "chat.json"
    flowloom("run", shepherd, "--store", store, "--session", "s", "--message", "count 3 sheep")
    flowloom("sessions", "export", "s", file, "--store", store)
    before = file.read_bytes()
    for session in (("--session", "s", "--store", store), ("--session", file)):
        done = flowloom("explain", shepherd, *session, "-m", "And now?")
        assert "| count 3 sheep\n" in done.stdout
        assert "| calls count_sheep(number=3)" in done.stdout
        assert "| And now?" in done.stdout
    assert file.read_bytes() == before
    assert len(exported("s", store)["events"]) == 4


def test_a_session_of_another_user(shepherd: Path, tmp_path: Path) -> None:
    store = ("--store", tmp_path / "chats.db", "--session", "s")
    flowloom("run", shepherd, *store, "--user", "ann", "--message", "count 3 sheep")
    assert "| count 3 sheep\n" in flowloom("explain", shepherd, *store, "--user", "ann").stdout
    done = flowloom("explain", shepherd, *store)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no session `s` of app `shepherd` and user `user`" in told(done)


def test_a_session_that_cannot_be_read(tmp_path: Path) -> None:
    """Neither a file nor a store is made for one that is not there."""
    missing, broken = tmp_path / "no.json", tmp_path / "broken.json"
    broken.write_text("{")
    for file in (missing, broken):
        done = flowloom("explain", DESK, "--session", file)
        assert (done.returncode, done.stdout) == (2, "")
        assert str(file) in told(done)
    done = flowloom("explain", DESK, "--session", "s", "--store", tmp_path / "no.db")
    assert (done.returncode, done.stdout) == (2, "")
    assert "no.db" in told(done)
    assert list(tmp_path.iterdir()) == [broken]


def test_the_plugins_of_an_app_take_part(tmp_path: Path) -> None:
    path = tmp_path / "shop.py"
    path.write_text(
        "from flowloom import App, BasePlugin, LlmAgent\n"
        "class Polite(BasePlugin):\n"
        "    async def before_model_callback(self, *, callback_context, llm_request):\n"
        "        llm_request.append_instructions(['Say please.'])\n"
        "    async def close(self):\n"
        "        print('closed')\n"
        "till = LlmAgent(name='till', model='gemini-2.5-flash')\n"
        "app = App(name='shop', root_agent=till, plugins=[Polite('polite')])\n"
    )
    done = flowloom("explain", path, "-m", "Hello")
    assert "| Say please.\n" in done.stdout
    assert done.stdout.startswith("closed\n")


def test_a_path_without_an_agent(tmp_path: Path) -> None:
    done = flowloom("explain", tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere" in done.stderr


def test_what_the_run_raises_is_told_with_its_place(tmp_path: Path) -> None:
    """One message with its notes, no traceback."""
    done = flowloom("explain", shop(tmp_path, "Sell to {customer}."), "-m", "Hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("Error: MissingVariableError: ")
    assert "`customer`" in done.stderr
    assert "\n  in processor `instructions`, step 0 of agent `shop`\n" in done.stderr
    assert "Traceback" not in done.stderr


def test_an_error_of_the_users_own_code_is_told(tmp_path: Path) -> None:
    before = "def broken(ctx):\n    raise RuntimeError('out of stock')\n"
    path = shop(tmp_path, before=before, fields=", tools=[], global_instruction=broken")
    done = flowloom("explain", path, "-m", "Hello")
    assert (done.returncode, done.stdout) == (1, "")
    assert "out of stock" in done.stderr
    assert "Traceback" not in done.stderr


def test_help_names_the_command() -> None:
    assert "explain" in flowloom("--help").stdout
