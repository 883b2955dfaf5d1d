"""The package is typed: strict checkers accept what users write, and see wrong use."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

USER_CODE = Path(__file__).parent / "typing" / "user_code.py"


def checked(path: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, str(path)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_a_strict_checker_accepts_users_code() -> None:
    """Callbacks, tools, models, agents, plugins, processors and a run."""
    found = checked(USER_CODE)
    assert found.returncode == 0, found.stdout


def test_a_checker_sees_wrong_use(tmp_path: Path) -> None:
    wrong = tmp_path / "wrong.py"
    wrong.write_text("from flowloom import InMemoryRunner, LlmAgent\nInMemoryRunner(LlmAgent(name='a')).run_asinc()\n")
    found = checked(wrong)
    assert found.returncode == 1
    assert "run_asinc" in found.stdout
