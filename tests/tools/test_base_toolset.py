"""Groups of tools that are listed when an agent runs (A11)."""

from __future__ import annotations

import contextlib
from typing import Any

import pytest
from kit import Chat, agent, call, context, declared_names, requests_of, story, system_text

from flowloom import (
    AgentTool,
    BaseTool,
    BaseToolset,
    ConfigurationError,
    Context,
    FunctionTool,
    InMemoryRunner,
    LlmAgent,
    LlmRequest,
    ReadonlyContext,
)
from flowloom.errors import DuplicateToolError


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


def greet(name: str) -> str:
    """Greet."""
    return f"hello {name}"


class Set(BaseToolset):
    """A set that counts how often it is listed and closed."""

    def __init__(self, *functions: Any, **options: Any) -> None:
        super().__init__(**options)
        self.functions = functions
        self.listed: list[str] = []
        self.closed = 0

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        self.listed.append("" if readonly_context is None else readonly_context.agent_name)
        return [FunctionTool(function) for function in self.functions]

    async def close(self) -> None:
        self.closed += 1


async def names(toolset: BaseToolset) -> list[str]:
    return [tool.name for tool in await toolset.get_tools_with_prefix()]


async def test_without_filter_and_prefix_all_tools_are_given_as_they_are() -> None:
    assert await names(Set(add, greet)) == ["add", "greet"]


async def test_a_list_of_names_keeps_those_tools() -> None:
    assert await names(Set(add, greet, tool_filter=["greet", "other"])) == ["greet"]


async def test_a_predicate_keeps_the_tools_that_it_accepts() -> None:
    def short(tool: BaseTool, readonly_context: ReadonlyContext | None) -> bool:
        return len(tool.name) < 4

    assert await names(Set(add, greet, tool_filter=short)) == ["add"]


async def test_a_filter_goes_by_the_name_without_prefix() -> None:
    assert await names(Set(add, greet, tool_filter=["add"], tool_name_prefix="math")) == ["math_add"]


async def test_the_prefix_is_in_the_declaration_and_the_original_keeps_its_name() -> None:
    inner = FunctionTool(add)

    class One(Set):
        async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
            return [inner]

    [renamed] = await One(tool_name_prefix="math").get_tools_with_prefix()
    assert renamed.declaration is not None
    assert renamed.declaration.name == "math_add"
    assert inner.name == "add"
    assert inner.declaration is not None
    assert inner.declaration.name == "add"


async def test_an_agent_calls_tools_of_a_set_by_their_names_with_prefix() -> None:
    root = agent("root", call("math_add", a=1, b=2), "done", tools=[greet, Set(add, tool_name_prefix="math")])
    events = await Chat(root).say("go")
    assert declared_names(requests_of(root)[0]) == ["greet", "math_add"]
    assert story(events)[1] == "root: math_add -> {'result': 3}"


async def test_a_set_is_listed_once_in_an_agents_run() -> None:
    toolset = Set(add)
    root = agent("root", call("add", a=1, b=1), call("add", a=1, b=1), "done", tools=[toolset])
    chat = Chat(root)
    await chat.say("go")
    assert toolset.listed == ["root"]


async def test_a_set_is_listed_anew_in_every_run() -> None:
    toolset = Set(add)
    chat = Chat(agent("root", "one", "two", tools=[toolset]))
    await chat.say("go")
    await chat.say("again")
    assert len(toolset.listed) == 2


async def test_tools_may_depend_on_the_state() -> None:
    class ByState(Set):
        async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
            assert readonly_context is not None
            return [FunctionTool(add)] if readonly_context.state.get("math") else []

    root = agent("root", "one", "two", tools=[ByState()])
    chat = Chat(root)
    await chat.say("go")
    await chat.say("go", state_delta={"math": True})
    assert [declared_names(request) for request in requests_of(root)] == [[], ["add"]]


async def test_the_sets_own_hook_sees_the_request_after_its_tools() -> None:
    """Toolset effect | toolset hook that modifies the request in a real run | model sees it."""

    class Hooked(Set):
        async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
            assert "add" in llm_request.tools_dict
            llm_request.append_instructions(["Use add."])

    root = agent("root", "done", tools=[Hooked(add)])
    await Chat(root).say("go")
    assert system_text(requests_of(root)[0]).endswith("Use add.")


async def test_state_that_a_hook_writes_is_recorded() -> None:
    class Hooked(Set):
        async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
            tool_context.state["listed"] = True

    chat = Chat(agent("root", "done", tools=[Hooked(add)]))
    events = await chat.say("go")
    assert (await chat.state())["listed"] is True
    assert events[-1].text == "done"


@pytest.mark.parametrize("method", ["get_tools", "process_llm_request"])
async def test_an_error_of_a_set_names_the_set_and_the_agent(method: str) -> None:
    """Toolset | request hook raises | error."""

    class BrokenSet(Set):
        pass

    async def fail(*_: Any, **__: Any) -> Any:
        raise ConnectionError("no server")

    setattr(BrokenSet, method, fail)
    with pytest.raises(ConnectionError) as caught:
        await Chat(agent("root", "done", tools=[BrokenSet(add)])).say("go")
    notes = " ".join(caught.value.__notes__)
    assert "BrokenSet" in notes
    assert "root" in notes


async def test_an_error_of_a_tools_own_hook_names_the_tool() -> None:
    class Broken(FunctionTool):
        async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
            raise ValueError("no")

    with pytest.raises(ValueError, match="no") as caught:
        await Chat(agent("root", "done", tools=[Broken(add)])).say("go")
    assert "`add`" in " ".join(caught.value.__notes__)


async def test_decision_10_two_tools_of_one_name_from_sets_are_a_typed_error() -> None:
    root = agent("root", "done", tools=[add, Set(add)])
    with pytest.raises(DuplicateToolError, match=r"`root`.*`add`.*tool_name_prefix"):
        await Chat(root).say("go")


async def test_a_set_without_a_hook_changes_nothing() -> None:
    request = LlmRequest()
    ctx = Context(context(LlmAgent(name="a")))
    await Set(add).process_llm_request(tool_context=ctx, llm_request=request)
    assert request == LlmRequest()


async def test_a_runner_that_is_closed_closes_the_sets_of_all_agents() -> None:
    mine, childs = Set(add), Set(greet)
    child = LlmAgent(name="child", tools=[childs])
    async with InMemoryRunner(LlmAgent(name="root", tools=[mine], sub_agents=[child])):
        pass
    assert (mine.closed, childs.closed) == (1, 1)


async def test_a_set_that_two_agents_share_is_closed_once() -> None:
    shared = Set(add)
    child = LlmAgent(name="child", tools=[shared])
    async with InMemoryRunner(LlmAgent(name="root", tools=[shared], sub_agents=[child])):
        pass
    assert shared.closed == 1


async def test_the_sets_of_an_agent_that_is_a_tool_are_closed_too() -> None:
    inner = Set(add)
    expert = LlmAgent(name="expert", tools=[inner])
    async with InMemoryRunner(LlmAgent(name="root", tools=[AgentTool(expert)])):
        pass
    assert inner.closed == 1


def test_a_filter_that_is_one_text_is_refused() -> None:
    """It would keep every tool whose name is a part of it."""
    with pytest.raises(ConfigurationError, match="`tool_filter` takes a list of names, or a predicate, not 'add_all'"):
        Set(add, tool_filter="add_all")


async def test_a_set_that_is_closed_by_a_plain_function_is_closed(caplog: pytest.LogCaptureFixture) -> None:
    """Without a word in the log."""

    class Plain(Set):
        def close(self) -> None:  # type: ignore[override]
            self.closed += 1

    toolset = Plain(add)
    await InMemoryRunner(LlmAgent(name="root", tools=[toolset])).close()
    assert toolset.closed == 1
    assert [record for record in caplog.records if record.levelname == "ERROR"] == []


async def test_a_set_that_cannot_be_closed_does_not_keep_the_others_open() -> None:
    class Stuck(Set):
        async def close(self) -> None:
            raise ConnectionError("gone")

    other = Set(greet)
    runner = InMemoryRunner(LlmAgent(name="root", tools=[Stuck(add), other]))
    with contextlib.suppress(ConnectionError):
        await runner.close()
    assert other.closed == 1


class Loose(Set):
    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[Any]:
        return [add]


async def test_a_set_that_lists_what_is_no_tool_is_named() -> None:
    with pytest.raises(ConfigurationError, match=r"Loose of agent `root` lists .*`FunctionTool`"):
        await Chat(agent("root", "done", tools=[Loose()])).say("go")
