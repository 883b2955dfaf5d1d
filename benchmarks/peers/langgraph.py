"""langgraph: a graph of a model node and its tool node, with a chat model that answers by the script.

Threads are kept by `InMemorySaver`. A handover is a tool that returns a `Command`; the agents of a tree are nodes.
Tools are bound to a chat model when the graph is built, so that a turn does not declare them again.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Annotated, Any

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AIMessageChunk, BaseMessage, HumanMessage, SystemMessage, ToolMessage
from langchain_core.outputs import ChatGeneration, ChatGenerationChunk, ChatResult
from langchain_core.tools import InjectedToolCallId, tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition
from langgraph.types import Command

from benchmarks import script
from benchmarks.toolbox import add, block, several, wait


@tool(script.HANDOVER)
def hand_over(agent_name: str, tool_call_id: Annotated[str, InjectedToolCallId]) -> Command[Any]:
    """Hand the conversation over to another agent."""
    note = ToolMessage("Handed over.", tool_call_id=tool_call_id)
    return Command(goto=agent_name, update={"messages": [note]})


class Scripted(BaseChatModel):
    """Answers by the script."""

    case: str

    @property
    def _llm_type(self) -> str:
        return "scripted"

    def _generate(self, messages: list[BaseMessage], *ignored: Any, **options: Any) -> ChatResult:
        results = 0
        for message in reversed(messages):
            if not isinstance(message, ToolMessage):
                break
            results += 1
        found = script.answer(self.case, results)
        if isinstance(found, str):
            return ChatResult(generations=[ChatGeneration(message=AIMessage(found))])
        calls: list[Any] = [{"name": call.name, "args": dict(call.args), "id": str(uuid.uuid4())} for call in found]
        return ChatResult(generations=[ChatGeneration(message=AIMessage("", tool_calls=calls))])

    async def _agenerate(self, messages: list[BaseMessage], *ignored: Any, **options: Any) -> ChatResult:
        return self._generate(messages)


class Streaming(Scripted):
    """Answers in pieces. A class of its own, because a model that can stream is always streamed inside a graph."""

    async def _astream(self, messages: list[BaseMessage], *ignored: Any, **options: Any) -> AsyncIterator[Any]:
        for _ in range(script.CHUNKS):
            yield ChatGenerationChunk(message=AIMessageChunk(script.PIECE))


def _node(case: str, instruction: str) -> Any:
    model = (Streaming if case == "stream" else Scripted)(case=case)
    system = SystemMessage(instruction)

    async def node(state: MessagesState) -> dict[str, Any]:
        return {"messages": [await model.ainvoke([system, *state["messages"]])]}

    return node


def _graph(case: str, size: int) -> Any:
    graph = StateGraph(MessagesState)
    graph.add_node("root", _node(case, script.ROOT_INSTRUCTION))
    graph.add_edge(START, "root")
    others = [f"agent_{number}" for number in range(size - 1)] if case == "tree" else []
    others = ["helper"] if case == "transfer" else others
    for name in others:
        graph.add_node(name, _node("helper", script.HELPER_INSTRUCTION))
    functions: list[Any] = [add, wait, block] if case in script.TOOL_CASES else []
    functions = list(several(size)) if case == "tools" else functions
    if others:
        graph.add_node("tools", ToolNode([hand_over]), destinations=tuple(others))
        graph.add_conditional_edges("root", tools_condition)
    elif functions:
        graph.add_node("tools", ToolNode(functions))
        graph.add_conditional_edges("root", tools_condition)
        graph.add_edge("tools", "root")
    return graph.compile(checkpointer=InMemorySaver())


class LangGraphEngine:
    """One case on langgraph."""

    def __init__(self, case: str, size: int) -> None:
        self.case, self.size = case, size
        self.batch = script.turns_of(case)
        self.graph = _graph(case, size)
        self.threads: list[Any] = []

    async def start(self) -> None:
        for old in self.threads:
            await self.graph.checkpointer.adelete_thread(old["configurable"]["thread_id"])
        runs = script.RUNS if self.case == "concurrent" else 1
        self.threads = [{"configurable": {"thread_id": str(uuid.uuid4())}} for _ in range(runs)]
        if self.case == "history":
            messages = [each for _ in range(self.size) for each in (_user(), AIMessage(script.DONE))]
            await self.graph.aupdate_state(self.threads[0], {"messages": messages}, as_node="root")

    async def turn(self) -> str:
        if self.case == "concurrent":
            return min(await asyncio.gather(*(self.run(thread) for thread in self.threads)))
        if self.case == "stream":
            return await self.stream(self.threads[0])
        return await self.run(self.threads[0])

    async def run(self, thread: Any) -> str:
        state = await self.graph.ainvoke({"messages": [_user()]}, thread)
        return state["messages"][-1].content

    async def stream(self, thread: Any) -> str:
        pieces: list[str] = []
        async for chunk, _ in self.graph.astream({"messages": [_user()]}, thread, stream_mode="messages"):
            pieces.append(chunk.content)
        return "".join(pieces)


def _user() -> HumanMessage:
    return HumanMessage(script.QUESTION)


def engine(case: str, size: int) -> LangGraphEngine:
    """One case on langgraph."""
    return LangGraphEngine(case, size)
