"""What the model says in each case. All engines follow it, each in its own types."""

from __future__ import annotations

from dataclasses import dataclass, field

CHUNKS = 200
"""Pieces of a streamed answer."""
RUNS = 500
"""How many runs of the case `concurrent` go on at once."""
ASYNC_CALLS = 20
BLOCKING_CALLS = 8
BIG = "x" * 20_000
"""The result of every tool call in the history of the case `big`."""

QUESTION = "Please go on."
PIECE = "chunk "
DONE = "It is done."
HELPED = "The helper has done it."
ROOT_INSTRUCTION = "You are a helper."
HELPER_INSTRUCTION = "You are the helper."
HANDOVER = "transfer_to_agent"
HISTORIES = ("history", "big")
"""The cases whose session has `size` exchanges in it when it starts."""
TOOL_CASES = ("tool", "sync_tool", "loop_tool", "concurrent", "async_tools", "blocking_tools")
"""The cases whose agent has three tools: one that adds, one that waits, one that blocks."""


@dataclass(frozen=True)
class Call:
    """A function call that the model asks for."""

    name: str
    args: dict[str, object] = field(default_factory=dict[str, object])


CALLS = {
    "tool": [Call("add", {"a": 1, "b": 2})],
    "sync_tool": [Call("plus", {"a": 1, "b": 2})],
    "loop_tool": [Call("plus", {"a": 1, "b": 2})],
    "concurrent": [Call("add", {"a": 1, "b": 2})],
    "async_tools": [Call("wait", {"seconds": 0.02})] * ASYNC_CALLS,
    "blocking_tools": [Call("block", {"seconds": 0.05})] * BLOCKING_CALLS,
    "transfer": [Call(HANDOVER, {"agent_name": "helper"})],
}


def answer(case: str, results: int) -> str | list[Call]:
    """What the model says when it is shown `results` tool results after the user's message.

    The case `helper` is the other agent of the case `transfer`. Raises `RuntimeError` if results are missing: an
    engine that loses some would be fast for the wrong reason.
    """
    if case == "helper":
        return HELPED
    calls = CALLS.get(case)
    if calls is None:
        return DONE
    if not results:
        return calls
    if results != len(calls):
        raise RuntimeError(f"The model asked for {len(calls)} calls and was shown {results} results.")
    return DONE


def turns_of(case: str) -> int:
    """How many turns a conversation takes before another is begun: few, so that its history keeps its length."""
    return 1 if case == "concurrent" else 20 if case in HISTORIES else 10


def expected(case: str) -> str:
    """The text that a turn of a case has to end with."""
    return {"stream": PIECE * CHUNKS, "transfer": HELPED}.get(case, DONE)
