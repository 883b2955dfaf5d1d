"""What `flowloom` says when it cannot run: one message that names the remedy, exit code 2."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cli.process import DESK, environment, flowloom


def _file(folder: Path, text: str, name: str = "shop.py") -> Path:
    path = folder / name
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return path


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("import no_such_module\n", ("shop.py, line 1", "no_such_module", "Install")),
        ("\nx = 1 / 0\n", ("shop.py, line 2", "ZeroDivisionError")),
        ("x = (\n", ("shop.py, line 1", "SyntaxError")),
        ("raise SystemExit(3)\n", ("SystemExit",)),
        ("x = 1\n", ("no `root_agent`",)),
        ("from flowloom import LlmAgent\nshop = LlmAgent(name='till')\n", ("no `root_agent`", "`till`")),
        ("root_agent = 'me'\n", ("builtins.str",)),
        ("from flowloom import LlmAgent\nroot_agent = LlmAgent(name='a b')\n", ("line 2", "`a b` is no name")),
    ],
    ids=["import", "error", "syntax", "exit", "nothing", "other-name", "no-agent", "configuration"],
)
def test_a_file_that_cannot_be_used(tmp_path: Path, text: str, told: tuple[str, ...]) -> None:
    """The message names the place and the remedy; no traceback."""
    done = flowloom("run", _file(tmp_path, text))
    assert done.returncode == 2
    assert "Traceback" not in done.stderr
    assert done.stderr.count("\n") == 1
    for words in told:
        assert words in done.stderr


def test_a_path_that_is_not_there(tmp_path: Path) -> None:
    """A wrong path is named."""
    done = flowloom("run", tmp_path / "nowhere")
    assert (done.returncode, done.stdout) == (2, "")
    assert "nowhere" in done.stderr


def test_an_empty_folder(tmp_path: Path) -> None:
    """A folder without an agent is no package."""
    done = flowloom("run", tmp_path)
    assert done.returncode == 2
    assert "agent.py" in done.stderr


def test_a_name_that_is_taken(tmp_path: Path) -> None:
    """A folder named like a module that is loaded already is not confused with it."""
    done = flowloom("run", _file(tmp_path / "json", "root_agent = 1\n", "__init__.py").parent)
    assert done.returncode == 2
    assert "Rename" in done.stderr


def test_an_unknown_model() -> None:
    """A model that nobody serves is named, with those that are."""
    done = flowloom("run", DESK, "--model", "gpt-0")
    assert done.returncode == 2
    assert "`gpt-0`" in done.stderr
    assert "offline" in done.stderr


@pytest.mark.parametrize(
    ("model", "variable"),
    [
        ("gemini-2.5-flash", "GOOGLE_API_KEY"),
        ("openai/gpt-5", "OPENAI_API_KEY"),
        ("anthropic/claude-x", "ANTHROPIC_API_KEY"),
    ],
)
def test_a_model_without_a_key(model: str, variable: str) -> None:
    """A model that needs a key is refused before anything is said."""
    done = flowloom("run", DESK, "--model", model, "--message", "hello")
    assert done.returncode == 2
    assert variable in done.stderr


def test_a_file_is_no_session(tmp_path: Path) -> None:
    """Sessions were files once; the message says how to take one over, and the file stays as it is."""
    file = _file(tmp_path, "{}", "chat.json")
    done = flowloom("run", DESK, "--session", file, "--message", "hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert f"flowloom sessions import {file}" in done.stderr
    assert file.read_text() == "{}"


@pytest.mark.parametrize("name", ["", "  ", "a\nb", "\x1b[2J"])
def test_what_is_no_name_for_a_session(name: str) -> None:
    done = flowloom("run", DESK, "--session", name, "--message", "hello")
    assert (done.returncode, done.stdout) == (2, "")
    assert "is no name for a session" in done.stderr


def test_version() -> None:
    """`--version` gives the distribution's version."""
    assert flowloom("--version").stdout == "flowloom 0.1.0\n"


def test_help() -> None:
    """`--help` names the command."""
    done = flowloom("--help")
    assert done.returncode == 0
    assert "run" in done.stdout


def test_without_the_extra(tmp_path: Path) -> None:
    """Where the extra is not installed, the command that installs it is told."""
    program = (
        "import sys\n"
        "class Missing:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'typer':\n"
        "            raise ModuleNotFoundError(\"No module named 'typer'\", name='typer')\n"
        "sys.meta_path.insert(0, Missing())\n"
        "from flowloom.cli import main\n"
        "main()\n"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert done.returncode == 2
    assert "pip install 'flowloom[cli]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_importing_flowloom_does_not_load_the_extra() -> None:
    """Only the command line loads what it needs."""
    program = "import sys, flowloom.cli; print({'typer', 'rich', 'prompt_toolkit'} & set(sys.modules))"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert done.stdout == "set()\n"


def test_the_help_loads_no_store() -> None:
    """Databases, and what imports from them, are loaded by the commands that need them."""
    names = (
        "{'sqlite3', 'psycopg', 'flowloom.sessions.sqlite', 'flowloom.interop.adk_sqlite', 'flowloom.cli.compacting'}"
    )
    program = (
        "import sys; from flowloom.cli.commands import app; from typer.main import get_command\n"
        f"list(get_command(app).commands.values()); print({names} & set(sys.modules))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    assert done.stdout == "set()\n"


def test_a_command_loads_nothing_of_the_others() -> None:
    """A server keeps what its command has loaded for as long as it runs."""
    program = (
        "import sys; from flowloom.cli.commands import app; from typer.testing import CliRunner\n"
        "assert CliRunner().invoke(app, ['api_server', '--port', 'none', '.']).exit_code == 2\n"
        "rooms = ('flowloom.cli.', 'flowloom.offline')\n"
        "print(*sorted(name for name in sys.modules if name.startswith(rooms)))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=environment())
    loaded = ("commands", "display", "options", "usage_error", "web")
    assert done.stdout.split() == [f"flowloom.cli.{name}" for name in loaded]


def test_a_command_that_is_written_wrongly_is_told_the_right_one() -> None:
    """Whether the command meant was loaded or not."""
    done = flowloom("sesions")
    assert done.returncode == 2
    assert "Did you mean 'sessions'" in done.stderr
