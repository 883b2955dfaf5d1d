"""Importing the package loads nothing that is not used."""

from __future__ import annotations

import subprocess
import sys


def loaded_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def test_the_package_alone_loads_no_library() -> None:
    assert not loaded_after("import flowloom") & {"pydantic", "google.genai", "jinja2", "opentelemetry", "asyncio"}


def test_an_agent_loads_no_extra() -> None:
    """The command line's libraries, the telemetry SDK and Jinja2 wait until they are used."""
    loaded = loaded_after(
        "from flowloom import InMemoryRunner, LlmAgent\n"
        "InMemoryRunner(LlmAgent(name='a', model='gemini-2.5-flash', instruction='Help.'))"
    )
    assert not loaded & {"typer", "rich", "prompt_toolkit", "opentelemetry.sdk", "jinja2", "pytest", "flowloom.cli"}
    assert "flowloom.runner" in loaded


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "from flowloom import LlmAgnt"], capture_output=True, text=True, check=False
    )
    assert "LlmAgnt" in found.stderr
    assert "ImportError" in found.stderr
