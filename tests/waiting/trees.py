"""Trees of agents, generated: what each agent calls in its turns, and the tools that keep account of what they do."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from google.genai import types
from hypothesis import strategies as st

from flowloom import (
    AgentTool,
    BaseAgent,
    FunctionTool,
    LlmAgent,
    LlmRequest,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    ToolContext,
)
from flowloom.testing import call
from waiting.desk import ByTurn

TOOLS = ("plain", "gated", "asks", "both", "long", "gated_long", "once", "gated_once")


@dataclass(frozen=True)
class Call:
    """A call of a tool by name, of an agent as a tool (`agent`), a delegate (`single`) or a handover (`transfer`)."""

    kind: str
    to: Node | None = None


@dataclass(frozen=True)
class Node:
    """An agent: of an LLM agent the calls in each turn, of a workflow its members."""

    kind: str
    turns: tuple[tuple[Call, ...], ...] = ()
    members: tuple[Node, ...] = ()


def _tool_turns(calls: st.SearchStrategy[Call]) -> st.SearchStrategy[Any]:
    return st.lists(st.lists(calls, min_size=1, max_size=3).map(tuple), max_size=2).map(tuple)


@st.composite
def nodes(draw: st.DrawFn, depth: int = 5) -> Node:
    """A tree of at most this depth."""
    simple = st.sampled_from(TOOLS).map(Call)
    kinds = ["llm"] if depth == 1 else ["llm", "llm", "llm", "sequence", "loop", "parallel"]
    kind = draw(st.sampled_from(kinds))
    if kind == "llm":
        calls = simple
        if depth > 1:
            below = st.builds(Call, st.just("agent"), nodes(depth=depth - 1))
            single = st.builds(Call, st.just("single"), leaves())
            calls = st.one_of(simple, simple, below, single)
        turns = draw(_tool_turns(calls))
        if depth > 1 and draw(st.booleans()):
            turns = (*turns, (Call("transfer", draw(nodes(depth=depth - 1))),))
        return Node("llm", turns=turns)
    return Node(kind, members=tuple(draw(st.lists(nodes(depth=depth - 1), min_size=1, max_size=2))))


def leaves() -> st.SearchStrategy[Node]:
    """An agent that calls nothing but tools."""
    return st.builds(Node, st.just("llm"), turns=_tool_turns(st.sampled_from(TOOLS).map(Call)))


@dataclass
class Effects:
    """What the tools have done: the call's id, and how long the log was then. It outlives every process."""

    log_length: Callable[[], int]
    ran: list[tuple[str, int]] = field(default_factory=list[tuple[str, int]])

    def note(self, context: ToolContext) -> dict[str, bool]:
        self.ran.append((context.function_call_id or "", self.log_length()))
        return {"ok": True}

    @property
    def done(self) -> Counter[str]:
        """How often each call has run."""
        return Counter(call_id for call_id, _ in self.ran)

    def cut(self, length: int) -> None:
        """The process died when the log had this length: what ran later never did."""
        self.ran = [(call_id, at) for call_id, at in self.ran if at <= length]


def tools_of(effects: Effects) -> list[Any]:
    """The tools of every agent."""

    async def plain(label: str, tool_context: ToolContext) -> dict[str, bool]:
        """Do it."""
        return effects.note(tool_context)

    async def asks(label: str, tool_context: ToolContext) -> dict[str, bool]:
        """Ask twice, then do it."""
        first = tool_context.request_input("First?", response_schema={"type": "integer"})
        second = tool_context.request_input("Second?")
        assert (first, second) == (1, "two")
        return effects.note(tool_context)

    async def both(label: str, tool_context: ToolContext) -> dict[str, bool]:
        """Ask when it was approved, then do it."""
        assert tool_context.request_input("First?", response_schema={"type": "integer"}) == 1
        return effects.note(tool_context)

    async def long(label: str, tool_context: ToolContext) -> None:
        """Begin it."""
        effects.note(tool_context)

    return [
        FunctionTool(plain),
        FunctionTool(plain, name="gated", require_confirmation=True),
        FunctionTool(plain, name="once", idempotent=False),
        FunctionTool(plain, name="gated_once", idempotent=False, require_confirmation=True),
        FunctionTool(asks),
        FunctionTool(both, require_confirmation=True),
        LongRunningFunctionTool(long),
        LongRunningFunctionTool(long, name="gated_long", require_confirmation=True),
    ]


def agent_of(root: Node, effects: Effects) -> BaseAgent:
    """The agents of a tree; those of equal trees have equal names."""
    tools = tools_of(effects)
    numbers = iter(range(10_000))

    def build(node: Node, **fields: Any) -> BaseAgent:
        name = f"{node.kind}{next(numbers)}"
        if node.kind == "sequence":
            return SequentialAgent(name=name, sub_agents=[build(each) for each in node.members])
        if node.kind == "parallel":
            return ParallelAgent(name=name, sub_agents=[build(each) for each in node.members])
        if node.kind == "loop":
            return LoopAgent(name=name, sub_agents=[build(each) for each in node.members], max_iterations=2)
        own: list[Any] = list(tools)
        below: list[BaseAgent] = []
        turns: list[list[types.Part]] = []
        for turn, calls in enumerate(node.turns):
            parts: list[types.Part] = []
            for place, each in enumerate(calls):
                label = f"{name}.{turn}.{place}"
                if each.to is None:
                    parts.append(call(each.kind, label=label))
                    continue
                child = build(each.to, **({"mode": "single_turn"} if each.kind == "single" else {}))
                if each.kind == "agent":
                    own.append(AgentTool(child))
                else:
                    below.append(child)
                is_handover = each.kind == "transfer"
                parts.append(
                    call("transfer_to_agent", agent_name=child.name) if is_handover else call(child.name, request=label)
                )
            turns.append(parts)
        return LlmAgent(name=name, model=ByTurn(_decide(turns)), tools=own, sub_agents=below, **fields)

    return build(root)


def _decide(turns: list[list[types.Part]]) -> Any:
    """The answer of an agent that takes the first of its turns that it does not see in its history."""

    def decide(request: LlmRequest) -> Any:
        seen = {_label(part) for content in request.contents for part in content.parts or () if part.function_call}
        for parts in turns:
            if not any(_label(part) in seen for part in parts):
                return [part.model_copy(deep=True) for part in parts]
        return "Done."

    return decide


def _label(part: types.Part) -> Any:
    assert part.function_call is not None
    args = part.function_call.args or {}
    return args.get("label") or args.get("request") or args.get("agent_name")


def kinds_of(node: Node) -> Iterator[str]:
    """The kinds of all agents in a tree."""
    yield node.kind
    for each in (*node.members, *(c.to for turn in node.turns for c in turn if c.to is not None)):
        yield from kinds_of(each)
