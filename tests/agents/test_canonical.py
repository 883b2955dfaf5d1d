"""`LlmAgent.canonical_*`: what an agent was given, in the forms that google-adk's code reads."""

from __future__ import annotations

import pytest
from kit import agent, context

from flowloom import BaseTool, BaseToolset, FunctionTool, LlmAgent, ReadonlyContext, Template
from flowloom.errors import ModelNotConfiguredError


def add(a: int) -> int:
    """Add."""
    return a


class Set(BaseToolset):
    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        assert isinstance(readonly_context, ReadonlyContext)
        return [FunctionTool(add)]


def readonly(runs: LlmAgent) -> ReadonlyContext:
    return ReadonlyContext(context(runs))


@pytest.mark.parametrize(
    ("field", "owner"),
    [
        *((f"{when}_agent", "agent") for when in ("before", "after")),
        *((f"{when}_{what}", what) for when in ("before", "after") for what in ("model", "tool")),
        ("on_model_error", "model"),
        ("on_tool_error", "tool"),
    ],
)
def test_callbacks_are_a_list(field: str, owner: str) -> None:
    """Whether there is none, one or several."""

    def one() -> None: ...
    def two() -> None: ...

    for given, listed in ((None, []), (one, [one]), ([one, two], [one, two])):
        made = LlmAgent(name="a", **{f"{field}_callback": given})
        assert getattr(made, f"canonical_{field}_callbacks") == listed


async def test_the_model() -> None:
    """That of the nearest agent above that has one."""
    child = LlmAgent(name="child")
    with pytest.raises(ModelNotConfiguredError):
        await child.canonical_model_async()
    root = agent("root", "x", sub_agents=[child])
    assert child.canonical_model is await child.canonical_model_async() is root.model


async def test_instructions_are_a_text_and_whether_it_is_used_verbatim() -> None:
    """As written; what a provider gives is not filled in."""

    async def provider(ctx: ReadonlyContext) -> str:
        return f"I am {ctx.agent_name}, {{x}}."

    made = LlmAgent(name="a", instruction="Say {x}.", global_instruction=provider)
    assert await made.canonical_instruction(readonly(made)) == ("Say {x}.", False)
    assert await made.canonical_global_instruction(readonly(made)) == ("I am a, {x}.", True)
    made = LlmAgent(name="a", instruction=Template("{{ x }}"), global_instruction=lambda ctx: "Yes.")
    assert await made.canonical_instruction(readonly(made)) == ("{{ x }}", False)
    assert await made.canonical_global_instruction(readonly(made)) == ("Yes.", True)


async def test_tools_are_listed() -> None:
    """Functions are tools, and toolsets the tools in them."""
    made = LlmAgent(name="a", tools=[add, Set(tool_name_prefix="my")])
    tools = await made.canonical_tools(readonly(made))
    assert [tool.name for tool in tools] == ["add", "my_add"]
    assert all(isinstance(tool, BaseTool) for tool in tools)
