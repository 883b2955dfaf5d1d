"""Importing the package loads nothing that is not used."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import cache

FIRST_AGENT = """
from flowloom import InMemoryRunner, LlmAgent
InMemoryRunner(LlmAgent(name="a", model="gemini-2.5-flash", instruction="Help."))
"""
MODULES = 153
"""How many modules of the package a first agent loads; the number only falls."""
NOT_NEEDED = ("inspection", "interop", "client", "providers", "offline", "wrappers", "human", "testing", "cli")
"""Rooms that running an agent does not need."""
ON_USE = (
    "models.gemini_service models.http models.context_cache processors.code_executors processors.planners "
    "tools.function_tool compaction.config memory.entries artifacts.version events.event_json runner.pending "
    "runner.result"
).split()
"""Modules that wait for what few agents have, for the first call of a model, or for what came of a run."""
BESIDE_TYPES = 1.1
SLACK = 1.2
"""How much more than the aim is let pass: this is a gate against slow growth, the benchmarks measure."""
ROUNDS = 12
"""After how many rounds other work on the machine is no excuse."""


@cache
def loaded_after(code: str) -> set[str]:
    """The modules that a fresh interpreter has loaded."""
    command = [sys.executable, "-c", f"{code}\nimport sys; print(*sys.modules)"]
    return set(subprocess.run(command, capture_output=True, text=True, check=True).stdout.split())


def seconds_of(code: str) -> float:
    """The processor time that this takes in a fresh interpreter; that of its start and its end is not counted."""
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    timed = f"import time\nstart = time.process_time()\n{code}\nprint(time.process_time() - start)"
    command = [sys.executable, "-c", timed]
    return float(subprocess.run(command, capture_output=True, text=True, check=True, env=environment).stdout)


def test_the_package_alone_loads_no_library() -> None:
    loaded = loaded_after("import flowloom")
    assert not loaded & {"pydantic", "google.genai", "jinja2", "opentelemetry", "asyncio"}
    assert {name for name in loaded if name.startswith("flowloom.")} == {
        "flowloom.objects",
        "flowloom.objects.no_collection",
        "flowloom.objects.on_use",
    }


def test_an_agent_loads_no_extra() -> None:
    """The command line's libraries, OpenTelemetry and Jinja2 wait until they are used; where click is installed, httpx
    loads its own command line, with rich, for google-genai."""
    loaded = loaded_after(FIRST_AGENT) - loaded_after("from google.genai import types")
    assert not loaded & {"typer", "rich", "prompt_toolkit", "opentelemetry", "jinja2", "pytest", "docstring_parser"}
    assert "flowloom.runner" in loaded


def test_an_agent_loads_nothing_that_looks_at_it_or_speaks_to_others() -> None:
    """Rooms beside and above the engine are loaded when they are used; what is loaded is counted."""
    loaded = {name for name in loaded_after(FIRST_AGENT) if name.startswith("flowloom")}
    assert {name for name in loaded if name.split(".")[1:2] and name.split(".")[1] in NOT_NEEDED} == set()
    assert loaded & {f"flowloom.{name}" for name in ON_USE} == set()
    assert len(loaded) <= MODULES


def test_a_first_agent_costs_little_more_than_the_types_of_its_contents() -> None:
    """The processor time of all that it needs, beside that of `google.genai.types` alone: the best of turns."""
    mine = types = float("inf")
    for _ in range(ROUNDS):
        mine = min(mine, seconds_of(FIRST_AGENT))
        types = min(types, seconds_of("from google.genai import types"))
        if mine / types < BESIDE_TYPES * SLACK:
            return
    raise AssertionError(f"{mine:.3f} s for a first agent, {types:.3f} s for the types alone")


def test_a_name_that_is_not_there_is_an_attribute_error() -> None:
    found = subprocess.run(
        [sys.executable, "-c", "from flowloom import LlmAgnt"], capture_output=True, text=True, check=False
    )
    assert "LlmAgnt" in found.stderr
    assert "ImportError" in found.stderr
