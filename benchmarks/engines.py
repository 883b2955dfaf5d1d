"""The engines that are measured: what each can express, and where it lives."""

from __future__ import annotations

import subprocess
import sys
import venv
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).parent.parent
HOMES = ROOT / ".bench"
_CORE = frozenset(
    {"text", "tool", "stream", "transfer", "history", "tree", "tools", "async_tools", "blocking_tools", "concurrent"}
)
_OWN = frozenset({"big", "sync_tool", "loop_tool"})
"""What is beside that measured on flowloom and the bare loop; `big` on google-adk, too."""


@dataclass(frozen=True)
class EngineSpec:
    """An engine, as the process that starts its worker knows it: nothing of it is imported here."""

    name: str
    module: str
    """Its file in `benchmarks.peers`."""
    cases: frozenset[str]
    imports: str = ""
    """What a first agent on it imports."""
    requirement: str = ""
    """What is installed for it in an environment of its own."""
    home: str = ""
    """That environment, under `.bench`; empty for the environment of the benchmarks."""
    package: str = ""
    """The distribution whose version is reported."""

    @property
    def is_peer(self) -> bool:
        return self.package != "flowloom" and bool(self.requirement)


BARE = EngineSpec(
    "bare loop", "bare", _CORE - {"tree", "tools"} | _OWN, "import asyncio\nfrom google.genai import types"
)
FLOWLOOM = EngineSpec(
    "flowloom", "flowloom", _CORE | _OWN, "from flowloom import InMemoryRunner, LlmAgent", package="flowloom"
)
SERVED = EngineSpec(FLOWLOOM.name, "", frozenset(), "", f"{ROOT}[server]", "flowloom-server", FLOWLOOM.package)
"""flowloom's server, with what it needs and nothing else, as it is deployed: what the benchmarks have beside that, as
pictures' libraries, google-genai would load. Started in the checkout, it runs what stands there."""
CUT = EngineSpec("flowloom that cannot be observed", "flowloom_cut", frozenset({"text", "tool"}))
_ADK_IMPORTS = "from google.adk.agents import LlmAgent\nfrom google.adk.runners import InMemoryRunner"
_ADK = "google-adk"
_ADK_SEEN = "google-adk==2.13.*"  # what docs/migrating.md and the tests beside its server were written from
GOOGLE_ADK = EngineSpec(_ADK, "google_adk", _CORE | {"big"}, _ADK_IMPORTS, _ADK_SEEN, _ADK, _ADK)
ADK_WITH_MCP = EngineSpec(
    _ADK, "elsewhere_adk", frozenset(), "", _ADK_SEEN.replace("==", "[mcp]=="), "google-adk-mcp", _ADK
)
"""With the MCP SDK, in an environment of its own: where that is installed, google-adk loads it with its import."""
PEERS = (
    GOOGLE_ADK,
    EngineSpec("google-adk, tuned", "google_adk_tuned", _CORE | {"big"}, "", _ADK_SEEN, _ADK, _ADK),
    EngineSpec(
        "openai-agents",
        "openai_agents",
        _CORE,
        "from agents import Agent, Runner",
        "openai-agents",
        "openai-agents",
        "openai-agents",
    ),
    EngineSpec(
        "pydantic-ai",
        "pydantic_ai",
        _CORE - {"transfer", "tree"},
        "from pydantic_ai import Agent",
        "pydantic-ai-slim",
        "pydantic-ai",
        "pydantic-ai-slim",
    ),
    EngineSpec(
        "langgraph",
        "langgraph",
        _CORE,
        "from langchain_core.language_models import BaseChatModel\n"
        "from langgraph.checkpoint.memory import InMemorySaver\n"
        "from langgraph.graph import MessagesState, StateGraph\n"
        "from langgraph.prebuilt import ToolNode",
        "langgraph",
        "langgraph",
        "langgraph",
    ),
)


@dataclass(frozen=True)
class Installed:
    """An engine that can be run: by which interpreter, at which version."""

    spec: EngineSpec
    python: str
    version: str = ""

    @property
    def name(self) -> str:
        return self.spec.name

    @property
    def heading(self) -> str:
        """The name with the version, for a column."""
        name, comma, how = self.name.partition(",")
        return f"{name} {self.version}{comma}{how}" if self.spec.is_peer and self.version else self.name


def install(spec: EngineSpec) -> Installed:
    """The engine, ready to run; an environment of its own is made once.

    Raises `subprocess.CalledProcessError` or `OSError` if it cannot be made.
    """
    if not spec.home:
        return Installed(spec, sys.executable, _version(spec, sys.executable))
    home = HOMES / spec.home
    python = home / "bin" / "python"
    if not python.exists():
        venv.create(home, with_pip=True)
    version = _version(spec, str(python))
    if not version:
        subprocess.run([python, "-m", "pip", "install", "--quiet", spec.requirement], check=True)
        version = _version(spec, str(python))
    return Installed(spec, str(python), version)


def install_all(specs: tuple[EngineSpec, ...]) -> tuple[list[Installed], list[str]]:
    """The engines that can be run, and a note for each that cannot."""
    found: list[Installed] = []
    notes: list[str] = []
    for spec in specs:
        try:
            found.append(install(spec))
        except (subprocess.CalledProcessError, OSError) as error:
            notes.append(f"{spec.name} is left out, because it could not be installed: {error}")
    return found, notes


def _version(spec: EngineSpec, python: str) -> str:
    """The installed version; empty if there is none."""
    if not spec.package:
        return ""
    code = f"import importlib.metadata as m; print(m.version({spec.package!r}))"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    return done.stdout.strip()
