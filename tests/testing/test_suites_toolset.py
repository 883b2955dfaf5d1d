"""`ToolsetSuite`: honest toolsets pass, and each rule finds a toolset that breaks it."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import pytest
from google.genai import types

from flowloom import BaseTool, BaseToolset, Context, FunctionTool, LlmRequest, ReadonlyContext
from flowloom.testing.suites import ToolsetSuite

from .rules import breaks, rules_of

CALLS: Mapping[str, Sequence[Mapping[str, Any]]] = {
    "add": [{"a": 1, "b": 2}],
    "greet": [{}, {"name": "Ann"}],
}


def add(a: int, b: int) -> int:
    """Add two numbers."""
    return a + b


async def greet(name: str = "you") -> dict[str, str]:
    """Greet somebody."""
    return {"said": f"Hello, {name}."}


class Set(BaseToolset):
    """An honest toolset, as a base for dishonest ones."""

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        return [FunctionTool(add), FunctionTool(greet)]


class TestToolset(ToolsetSuite):
    sample_calls = CALLS

    async def make_toolset(self) -> Set:
        return Set()


class TestToolsetWithPrefixAndFilter(ToolsetSuite):
    sample_calls: ClassVar[Mapping[str, Sequence[Mapping[str, Any]]]] = {"math_add": [{"a": 1, "b": 2}]}

    def make_toolset(self) -> Set:
        return Set(tool_name_prefix="math", tool_filter=["add"])


class TestToolsetByState(ToolsetSuite):
    """What is listed depends on the state."""

    state: ClassVar[Mapping[str, Any]] = {"math": True}
    sample_calls = CALLS

    def make_toolset(self) -> BaseToolset:
        class ByState(Set):
            async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
                assert readonly_context is not None
                return await super().get_tools() if readonly_context.state.get("math") else []

        return ByState()


class Plain(BaseTool):
    """A tool made by hand."""

    def __init__(self, name: str = "plain", description: str = "Does a thing.", **schema: Any) -> None:
        super().__init__(name=name, description=description)
        self.schema: dict[str, Any] = {"type": "object", **schema}
        self.declared_as = name
        self.result: Any = "done"

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.declared_as, description=self.description, parameters_json_schema=self.schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        return self.result


class One(BaseToolset):
    """A set of one tool that is made by hand."""

    def __init__(self, *tools: BaseTool) -> None:
        super().__init__()
        self.tools = list(tools)

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        return self.tools


class Shuffles(Set):
    turn = itertools.cycle((1, -1))

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        return (await super().get_tools())[:: next(self.turn)]


class ListsForOneTask(Set):
    """Keeps a cursor of its own while it lists."""

    def __init__(self) -> None:
        super().__init__()
        self.found: list[BaseTool] = []

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        self.found = []
        for tool in await super().get_tools():
            await asyncio.sleep(0)
            self.found.append(tool)
        return self.found


def misnamed() -> Plain:
    tool = Plain()
    tool.declared_as = "other"
    return tool


class DescribesTheMoment(Set):
    moment = itertools.count()

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        return [FunctionTool(add, description=f"Add, at {next(self.moment)}."), FunctionTool(greet)]


class RenamesItsOwn(One):
    async def get_tools_with_prefix(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        for tool in self.tools:
            if self.tool_name_prefix:
                tool.name = f"{self.tool_name_prefix}_{tool.name}"
                tool._declared = False
        return self.tools


class IgnoresTheFilter(Set):
    def _is_tool_selected(self, tool: BaseTool, readonly_context: ReadonlyContext | None) -> bool:
        return True


class Hidden(Plain):
    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        return


class SaysTheMoment(Set):
    moment = itertools.count()

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        llm_request.append_instructions(f"It is {next(self.moment)}.")


def that_gives(result: Any) -> Plain:
    tool = Plain("add")
    tool.result = result
    return tool


class ClosesOnce(Set):
    def __init__(self) -> None:
        super().__init__()
        self.connections: list[str] = ["one"]

    async def close(self) -> None:
        self.connections.pop()


BROKEN: dict[str, Any] = {
    "the_list_is_stable": Shuffles,
    "names_are_legal_and_different": lambda: One(Plain("all that there is")),
    "tools_are_declared_as_they_are_named": lambda: One(misnamed()),
    "declarations_are_json_objects": lambda: One(Plain(type="string")),
    "declarations_are_stable_byte_for_byte": DescribesTheMoment,
    "a_prefix_is_put_before_the_names": lambda: RenamesItsOwn(Plain()),
    "a_filter_keeps_what_it_names": IgnoresTheFilter,
    "a_request_has_the_tools": lambda: One(Hidden()),
    "a_request_is_the_same_each_time": SaysTheMoment,
    "sample_calls_give_json": lambda: One(that_gives(object())),
    "a_call_without_its_arguments_is_an_error_that_the_model_sees": lambda: One(
        Plain(properties={"a": {"type": "string"}}, required=["a"])
    ),
    "closing_is_idempotent": ClosesOnce,
}


def suite_of(make: Any) -> type[ToolsetSuite]:
    class Suite(ToolsetSuite):
        sample_calls: ClassVar[Mapping[str, Sequence[Mapping[str, Any]]]] = {"add": [{"a": 1, "b": 2}]}

        def make_toolset(self) -> BaseToolset:
            return make()

        async def close(self, part: object) -> None:
            return

    return Suite


def broken_suite(rule: str) -> type[ToolsetSuite]:
    return suite_of(BROKEN[rule])


@pytest.mark.parametrize("rule", BROKEN)
def test_a_toolset_that_breaks_a_rule_is_found(rule: str) -> None:
    breaks(broken_suite(rule), rule)


def test_every_rule_is_shown_to_fail() -> None:
    assert rules_of(ToolsetSuite) == BROKEN.keys()


@pytest.mark.parametrize(
    ("rule", "make"),
    [
        ("the_list_is_stable", ListsForOneTask),
        ("names_are_legal_and_different", lambda: One(Plain(), Plain())),
        ("tools_are_declared_as_they_are_named", lambda: One(Plain(description=" "))),
        ("declarations_are_json_objects", lambda: One(Plain(required=["nothing"]))),
        ("declarations_are_json_objects", lambda: One(Plain(properties={"a": {"default": float}}))),
        ("sample_calls_give_json", lambda: One(Plain("other"))),
    ],
)
def test_rules_have_more_than_one_side(rule: str, make: Any) -> None:
    breaks(suite_of(make), rule)


@pytest.mark.parametrize("error", [SystemExit, asyncio.CancelledError])
def test_a_tool_that_ends_the_run_is_found(error: type[BaseException]) -> None:
    class Deadly(Plain):
        async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
            raise error

    tool = Deadly(properties={"a": {"type": "string"}}, required=["a"])
    breaks(suite_of(lambda: One(tool)), "a_call_without_its_arguments_is_an_error_that_the_model_sees")


def test_a_tool_that_fails_when_called_as_in_the_samples_is_found() -> None:
    class Failing(Plain):
        async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
            raise ConnectionError("no server")

    breaks(suite_of(lambda: One(Failing("add"))), "sample_calls_give_json")


def test_a_tool_that_is_not_declared_is_not_at_fault() -> None:
    class Silent(BaseTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
            return None

    suite = suite_of(lambda: One(Silent(name="add", description="")))
    for rule in rules_of(ToolsetSuite):
        getattr(suite(), f"test_{rule}")()


def test_sample_calls_may_be_left_out() -> None:
    class Without(TestToolset):
        sample_calls: ClassVar[Mapping[str, Sequence[Mapping[str, Any]]]] = {}

    with pytest.raises(pytest.skip.Exception, match="sample_calls"):
        Without().test_sample_calls_give_json()
