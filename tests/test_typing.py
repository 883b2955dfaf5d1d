"""The package is typed: strict checkers accept what users write and see what they get wrong."""

from __future__ import annotations

import inspect
import json
import re
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest
from kit import no_op

from flowloom import App, BaseAgent, Flow, Gemini, Limits, LlmAgent, LoopAgent, RunConfig
from flowloom.testing import ScriptedModel

HERE = Path(__file__).parent / "typing"
CODE = (HERE / "user_code.py", HERE / "wrong_code.py")
CACHE = Path(tempfile.gettempdir()) / "flowloom-mypy"
"""What mypy keeps between the runs of one machine: from scratch it reads for 20 seconds."""


def by_pyright() -> list[tuple[str, int, str]]:
    command = [sys.executable, "-m", "pyright", "--pythonpath", sys.executable, "--outputjson", *map(str, CODE)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    told = json.loads(found.stdout)["generalDiagnostics"]
    return [(Path(each["file"]).name, each["range"]["start"]["line"] + 1, each["message"]) for each in told]


def by_mypy() -> list[tuple[str, int, str]]:
    command = [sys.executable, "-m", "mypy", "--strict", "--cache-dir", str(CACHE), "--no-error-summary"]
    command += ["--config-file=", "--hide-error-context", "--no-color-output", *map(str, CODE)]
    found = subprocess.run(command, capture_output=True, text=True, check=False)
    assert not found.stderr
    lines = (re.fullmatch(r"(.*?):(\d+): error: (.*)", line) for line in found.stdout.splitlines())
    return [(Path(each[1]).name, int(each[2]), each[3]) for each in lines if each is not None]


@pytest.mark.parametrize("check", [by_pyright, pytest.param(by_mypy, marks=pytest.mark.soak)])
def test_strict_checkers_accept_users_code_and_see_what_is_wrong(check: object) -> None:
    """Agents, tools, models, plugins, processors, runs, and the types of their outputs; and each line marked wrong."""
    assert callable(check)
    found: list[tuple[str, int, str]] = check()
    assert [each for each in found if each[0] == CODE[0].name] == []
    lines = CODE[1].read_text().splitlines()
    marked = {number for number, line in enumerate(lines, 1) if line.endswith("# wrong")}
    assert {each[1] for each in found if each[0] == CODE[1].name} ^ marked == set(), found


@pytest.mark.parametrize("kind", [LlmAgent, LoopAgent, App, RunConfig, Limits, Gemini])
def test_signatures_name_the_fields(kind: type[BaseAgent]) -> None:
    """Before the first instance is made, and after."""
    for _ in range(2):
        parameters = inspect.signature(kind).parameters
        assert set(kind.model_fields) <= set(parameters)
        assert not any(each.kind is inspect.Parameter.VAR_KEYWORD for each in parameters.values())


def test_signatures_have_defaults_and_types() -> None:
    parameters = inspect.signature(LlmAgent).parameters
    assert parameters["name"].default is inspect.Parameter.empty
    assert (parameters["output_retries"].default, parameters["flow"].default) == (2, None)
    assert "GenerateContentConfig" in str(parameters["generate_content_config"].annotation)
    assert "BaseTool" in str(parameters["tools"].annotation)


def test_a_subclass_has_a_signature_of_its_own() -> None:
    class Mine(LlmAgent):
        extra: int

    assert inspect.signature(LlmAgent).parameters.keys() < inspect.signature(Mine).parameters.keys()
    mine = Mine(name="a", extra=3, model=ScriptedModel(["x"]), flow=Flow().with_processor(no_op))
    assert (mine.extra, LlmAgent[int], Mine[str]) == (3, LlmAgent, Mine)
