"""What is measured: the lines of the table, and the curves."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Case:
    """One line of the table: what is run, what it is divided by, and what is aimed at."""

    title: str
    case: str
    aim: float
    unit: str = "× bare loop"
    size: int = 0
    base_size: int | None = None
    """The size of the same engine's run that a ratio is taken to; None for the bare loop."""


CASES = (
    Case("a text turn", "text", 4),
    Case("a model step with a tool call", "tool", 4),
    Case("a step with a quick sync tool, in its thread", "sync_tool", 6),
    Case("a step with a quick sync tool, on the loop", "loop_tool", 4),
    Case("a streamed turn of 200 chunks", "stream", 2),
    Case("a transfer to another agent", "transfer", 4),
    Case("a turn at 1,000 turns of history", "history", 1.5, "× one at 10", 1000, 10),
    Case("a turn in a tree of 50 agents", "tree", 1.3, "× a single agent", 50, 1),
    Case("a turn over 200 tool results of 20 KB", "big", 2, "ms", 200),
    Case("20 concurrent async tools of 20 ms", "async_tools", 25, "ms"),
    Case("8 blocking tools of 50 ms", "blocking_tools", 70, "ms"),
    Case("500 concurrent runs with a tool call", "concurrent", 2000, "runs/s"),
    Case("memory of 500 concurrent runs", "concurrent", 80, "MiB"),
)


UNOBSERVED = Case("a text turn without observers", "text", 1.05, "× one without the seams")
"""What it costs that a run could be observed, traced or profiled: beside the engine with all that cut out."""


@dataclass(frozen=True)
class Startup:
    """A line about fresh processes."""

    title: str
    kind: str
    """`code`: flowloom's code beyond a base; `imports`: an engine's imports; `cold`: imports, agent and first turn."""
    aim: float | None
    unit: str
    code: str = ""
    base: str = "pass"


STARTUPS = (
    Startup("`import flowloom`", "code", 20, "ms", "import flowloom"),
    Startup(
        "all that a first agent needs",
        "code",
        1.1,
        "× genai types",
        "from flowloom import InMemoryRunner, LlmAgent\n"
        "InMemoryRunner(LlmAgent(name='a', model='gemini-2.5-flash', instruction='Help.'))",
        "from google.genai import types",
    ),
    Startup("the imports of a first agent", "imports", None, "ms"),
    Startup("cold start: imports, agent, first turn", "cold", None, "ms"),
)


@dataclass(frozen=True)
class Growth:
    """One curve: what grows, and through which sizes."""

    key: str
    """Its name in the results, and that of its picture."""
    title: str
    axis: str
    """The case of `turns`, the field of `benchmarks.processors.Sizes` of `processors`."""
    label: str
    sizes: tuple[int, ...]
    peers: bool = False
    """Whether it is measured on google-adk too."""


COUNTS = (1, 10, 50, 200)
TURNS = (
    Growth("turn-history", "A turn, as the history grows", "history", "turns of history", (10, 100, 1000), True),
    Growth("turn-tools", "A turn, as the tools grow", "tools", "tools", COUNTS, True),
    Growth("turn-agents", "A turn, as the tree grows", "tree", "agents in the tree", COUNTS, True),
)
PROCESSORS = (
    Growth("processors-history", "Processors, as the history grows", "history", "events", (10, 100, 1000, 5000), True),
    Growth("processors-tools", "Processors, as the tools grow", "tools", "tools", COUNTS, True),
    Growth("processors-agents", "Processors, as the tree grows", "agents", "agents in the tree", COUNTS),
    Growth(
        "processors-placeholders",
        "Processors, as the instruction's placeholders grow",
        "placeholders",
        "placeholders",
        (1, 10, 100),
    ),
    Growth(
        "processors-template",
        "Processors, as the instruction's text grows",
        "template",
        "characters",
        (1_000, 10_000, 100_000),
    ),
    Growth(
        "processors-result",
        "Processors, as a tool result grows",
        "result",
        "bytes of one tool result",
        (1_000, 10_000, 100_000, 1_000_000),
    ),
    Growth(
        "processors-inline",
        "Processors, as a file grows",
        "inline",
        "bytes of one file",
        (1_000, 10_000, 100_000, 1_000_000),
    ),
)
SESSIONS = Growth("sessions", "Sessions in memory, as they grow", "", "events", (10, 100, 1000, 5000), True)
