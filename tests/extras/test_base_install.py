"""What an installation without extras can do: everything is there, and what needs an extra says so when it is used."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tomllib
from importlib.metadata import Distribution, PackageNotFoundError, distribution, distributions
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[2]
EXTRAS = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]["optional-dependencies"]

LOOKED_AT = """
import inspect, json, pkgutil, pydoc
from importlib import import_module
import flowloom
rooms = [flowloom]
for found in pkgutil.iter_modules(flowloom.__path__, "flowloom."):
    if found.ispkg:
        rooms.append(import_module(found.name))
told = {}
for room in rooms:
    names = getattr(room, "__all__", [])
    members = dict(inspect.getmembers(room))
    star = {}
    exec(f"from {room.__name__} import *", star)
    told[room.__name__] = [name for name in names if not (hasattr(room, name) and name in star and name in members)]
shown = pydoc.render_doc(flowloom, renderer=pydoc.plaintext)
told["pydoc"] = [name for name in flowloom.__all__ if name not in shown]
print(json.dumps(told))
"""

USED = """
import importlib, json, sys
from flowloom.errors import ConfigurationError, MissingExtraError

def use(code):
    try:
        exec(code, {})
    except ImportError as error:
        return [isinstance(error, MissingExtraError), isinstance(error, ConfigurationError), str(error),
                getattr(error, "extra", ""), repr(error.__cause__)]
    return None

print(json.dumps([use(code) for code in json.load(sys.stdin)]))
"""

USES = {
    "from flowloom.providers.openai import OpenAIModel; OpenAIModel()": "openai",
    "from flowloom.models import LLMRegistry; LLMRegistry.new_llm('openai/gpt-5')": "openai",
    "from flowloom.providers.anthropic import AnthropicModel; AnthropicModel()": "anthropic",
    "from flowloom.models import LLMRegistry; LLMRegistry.new_llm('anthropic/claude-x')": "anthropic",
    "from flowloom.sessions.postgres import PostgresSessionService; PostgresSessionService('dbname=a')": "postgres",
    "from flowloom.memory.postgres import PostgresMemoryService; PostgresMemoryService('dbname=a')": "postgres",
    "from flowloom.auth import AuthConfig; AuthConfig(auth_scheme={'type': 'openIdConnect', "
    "'openIdConnectUrl': 'https://x'})": "auth",
    "from flowloom.telemetry import configure_telemetry; configure_telemetry()": "otel",
    "from flowloom.telemetry.setup import configure_telemetry": "otel",
    "from flowloom.interop.protobuf import request_to_proto; from flowloom.models import LlmRequest; "
    "request_to_proto(LlmRequest())": "protobuf",
    "from flowloom.interop.protobuf import response_from_proto; response_from_proto(b'')": "protobuf",
    "from flowloom.config import agent_from_config; agent_from_config('a.yaml')": "config",
    "from flowloom import OpenAPIToolset; OpenAPIToolset(spec_str='{}')": "openapi",
    "from flowloom.skills import load_skill_from_dir; load_skill_from_dir('examples')": "config",
    "from flowloom.server import app_of; app_of(None)": "server",
    "from flowloom.protocols.ag_ui import to_ag_ui; to_ag_ui(None)": "ag-ui",
    "from flowloom.protocols.a2a import to_a2a; to_a2a(None)": "a2a",
    "from flowloom import McpToolset; McpToolset(connection_params={'command': 'server'})": "mcp",
    "from flowloom.testing import ModelSuite\nclass Suite(ModelSuite): ...": "test",
    "from flowloom.testing import ToolsetSuite; ToolsetSuite().toolset": "test",
    "import flowloom.testing.suites": "test",
    "from flowloom.durable import Schedule; Schedule('a', '0 7 * * *', 'UTC', 'Go.', user_id='ann')": "schedules",
    "from flowloom.durable import DbosCourier; DbosCourier('postgresql://a')": "dbos",
    "import flowloom.testing.snapshots": "test",
}


def needed_by(requirements: list[str], found: dict[str, Distribution]) -> dict[str, Distribution]:
    """The distributions that an installation of these brings with it."""
    for text in requirements:
        wanted = Requirement(text)
        extras = wanted.extras or {""}
        if wanted.marker is not None and not any(wanted.marker.evaluate({"extra": extra}) for extra in extras):
            continue
        name = re.sub(r"[-_.]+", "-", wanted.name).lower()
        try:
            one = distribution(name)
        except PackageNotFoundError:
            continue
        if name not in found:
            found[name] = one
            needed_by([each for each in one.requires or [] if "extra ==" not in each], found)
        for extra in wanted.extras:
            brought = [each for each in one.requires or [] if "extra ==" in each]
            needed_by([each.partition(";")[0] for each in brought if f'"{extra}"' in each.replace("'", '"')], found)
    return found


def folders_of(path: str) -> list[str]:
    """A path, and the folders above it, the highest first."""
    parts = path.split("/")
    return ["/".join(parts[: length + 1]) for length in range(len(parts))]


def files_of(one: Distribution) -> set[str]:
    """What it has installed, relative to where packages are."""
    lines = (one.read_text("RECORD") or "").splitlines()
    return {line.partition(",")[0] for line in lines if not line.startswith("..")}


@pytest.fixture(scope="module")
def base(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of packages as an installation without extras has it: links to those that are installed here."""
    folder = tmp_path_factory.mktemp("base")
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    installed = needed_by(project["dependencies"], {})
    ours = {file: one for one in installed.values() for file in files_of(one)}
    others = {file for one in distributions() for file in files_of(one)} - {*ours}
    shared = {above for file in others for above in folders_of(file)[:-1]}
    # the highest folder of each file that has nothing of others
    links = {next(above for above in folders_of(file) if above not in shared): one for file, one in ours.items()}
    for link, one in links.items():
        (folder / link).parent.mkdir(parents=True, exist_ok=True)
        (folder / link).symlink_to(str(one.locate_file(link)))
    return folder


def run(base: Path, code: str, given: object = None) -> Any:
    """What a program prints as JSON that has nothing but the base installation."""
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), str(base)])}
    command = [sys.executable, "-S", "-c", code]
    ran = subprocess.run(command, input=json.dumps(given), capture_output=True, text=True, env=environment)
    assert ran.returncode == 0, ran.stderr
    return json.loads(ran.stdout)


def test_every_public_name_can_be_looked_at(base: Path) -> None:
    """`hasattr`, `import *`, `inspect.getmembers` and `pydoc` need no extra."""
    told = run(base, LOOKED_AT)
    assert len(told) > 10
    assert {room: names for room, names in told.items() if names} == {}


def test_the_first_use_of_what_needs_an_extra_says_how_to_install_it(base: Path) -> None:
    """It is an `ImportError` with the command, the extra's name, and the failed import as its cause."""
    for (code, extra), told in zip(USES.items(), run(base, USED, list(USES)), strict=True):
        assert told is not None, code
        missing, configuration, text, named, cause = told
        assert (missing, configuration, named) == (True, True, extra), (code, told)
        assert f'`pip install "flowloom[{extra}]"`' in text
        assert "No module named" in cause
    assert set(EXTRAS) - {"cli"} == set(USES.values())  # the command line tells it on stderr
