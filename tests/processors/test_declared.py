"""What stands in the request of tools, and of files, and whose model is asked."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from journal import Journal
from kit import Chat, agent, context, declarations, declared_names, event, model, requests_of, system_text

from flowloom import (
    AgentTool,
    BaseAgent,
    BaseTool,
    BaseToolset,
    Flow,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    ReadonlyContext,
    SequentialAgent,
    ToolContext,
)
from flowloom.errors import ToolsetError
from flowloom.log import Viewer
from flowloom.processors import file_uploads, tool_declarations, tools
from flowloom.processors.model_choice import model_of
from flowloom.testing import ScriptedModel

VIEWER = Viewer("root")


class Hooked(BaseTool):
    """A tool that prepares the request itself."""

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        tool_context.state["asked"] = True
        llm_request.append_instructions(["Use `first`."])

    async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
        return None


def look() -> str:
    """Look."""
    return "seen"


async def test_tools_behind_one_with_a_hook_of_its_own_are_declared() -> None:
    """And what the hook writes is kept."""
    root = agent("root", "done", tools=[look, Hooked(name="first", description="First."), lambda_tool("dig")])
    chat = Chat(root)
    await chat.say("go")
    assert declared_names(requests_of(root)[0]) == ["look", "dig"]
    assert (await chat.state()) == {"asked": True}


class Counted:
    """A tool around another one: what it does not do itself, that one does."""

    def __init__(self, tool: BaseTool) -> None:
        self._tool = tool

    def __getattr__(self, name: str) -> Any:
        return getattr(self._tool, name)


class Counting(BaseToolset):
    """Lists tools around others."""

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> Any:
        return [Counted(lambda_tool("dig"))]


async def test_a_tool_around_another_one_is_declared() -> None:
    """Its class has no hook, but it has."""
    root = agent("root", "done", tools=[Counting()])
    await Chat(root).say("go")
    assert declared_names(requests_of(root)[0]) == ["dig"]


class Filing(Hooked):
    """A hook that saves a file, under the id of the call that it is."""

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        assert tool_context.function_call_id in tool_context.invocation_context.effects.given.values()
        await tool_context.save_artifact("notes.txt", types.Part(text="asked"))


async def test_what_an_agent_as_a_tool_is_for_may_be_looked_up_first() -> None:
    """As of an agent on another server, whose card is fetched before a model is told of it."""

    class Remote(BaseAgent):
        async def look_up_description(self, ctx: InvocationContext) -> None:
            self.description = f"Looked up for {ctx.agent.name}."

    root = agent("root", "done", tools=[AgentTool(Remote(name="far"))])
    await Chat(root).say("go")
    assert [each.description for each in declarations(requests_of(root)[0])] == ["Looked up for root."]


async def test_a_file_that_a_hook_saves_is_told_by_an_event() -> None:
    """The hook has the id of a call, as whatever a tool does: one of the run's effects."""
    tools = [Filing(name="first", description="First.")]
    events = await Chat(agent("root", "done", tools=tools), effects=Journal()).say("go")
    assert [each.actions.artifact_delta for each in events] == [{"notes.txt": 0}, {}]


class Advice(BaseToolset):
    """A toolset that lists no tools, and prepares requests."""

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        return []

    async def process_llm_request(self, *, tool_context: ToolContext, llm_request: LlmRequest) -> None:
        llm_request.append_instructions(["Be brief."])


@pytest.mark.parametrize("others", [[], [look]], ids=["alone", "beside a tool"])
async def test_a_toolset_that_lists_nothing_prepares_the_request_all_the_same(others: list[Any]) -> None:
    root = agent("root", "done", tools=[Advice(), *others])
    await Chat(root).say("go")
    assert "Be brief." in system_text(requests_of(root)[0])


async def test_a_flow_that_resolves_no_tools_declares_none() -> None:
    root = agent("root", tools=[look], flow=Flow().without("tools"))
    request = (await root.flow.assemble(context(root, event("user", "go")))).request
    assert declared_names(request) == []


async def test_a_toolset_without_which_the_run_may_not_go_on_ends_it() -> None:
    with pytest.raises(ToolsetError, match="away"):
        await Chat(agent("root", "done", tools=[Set(error=ToolsetError("The server is away."))])).say("go")


def lambda_tool(name: str) -> BaseTool:
    class Plain(BaseTool):
        async def run_async(self, *, args: dict[str, Any], tool_context: ToolContext) -> Any:
            return None

        def _get_declaration(self) -> types.FunctionDeclaration:
            return types.FunctionDeclaration(name=name, description=name)

    return Plain(name=name, description=name)


def test_an_agent_without_a_model_declares_nothing() -> None:
    """Whatever its class says."""
    request = LlmRequest()
    assert tool_declarations(context(BaseAgent(name="plain")), request) is None
    assert request == LlmRequest()


def test_the_model_is_looked_for_above_agents_that_have_none() -> None:
    """Workflow agents, and agents without one of their own."""
    asked, above = LlmAgent(name="asked"), model("hi")
    root = LlmAgent(name="root", model=above)
    lineage = (root, LlmAgent(name="middle"), SequentialAgent(name="steps"))
    assert model_of(context(asked, lineage=lineage)) is above


class OfTheGeminiApi(ScriptedModel):
    @property
    def backend(self) -> Any:
        return "gemini_api"


@pytest.mark.parametrize(
    ("asked", "stays"),
    [
        (LlmAgent(name="root", model=OfTheGeminiApi([])), False),
        (LlmAgent(name="root", model=ScriptedModel([])), True),
        (BaseAgent(name="plain"), True),
    ],
    ids=["the Gemini API", "another", "none"],
)
def test_names_of_files_are_taken_off_for_the_model_that_refuses_them(asked: BaseAgent, stays: bool) -> None:
    """In its request alone."""
    image = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png", display_name="a.png"))
    link = types.Part(file_data=types.FileData(file_uri="gs://a", mime_type="image/png", display_name="b.png"))
    ctx = context(asked, event("user", "look", image), event("user", link))
    request = LlmRequest()
    shown = ctx.session.history.contents(ctx.session.events, VIEWER)
    request.show(shown.contents, shown.special)
    file_uploads(ctx, request)
    (_, one), (two,) = (content.parts or [] for content in request.contents)
    assert one.inline_data is not None
    assert two.file_data is not None
    names = ("a.png", "b.png")
    assert (one.inline_data.display_name, two.file_data.display_name) == (names if stays else (None, None))
    assert image.inline_data is not None
    assert image.inline_data.display_name == "a.png"


def test_a_content_without_parts_has_no_names_of_files() -> None:
    """As one may have that a caller has made."""
    request = LlmRequest(contents=[types.Content(role="user")])
    file_uploads(context(LlmAgent(name="root", model=OfTheGeminiApi([]))), request)
    assert request.contents == [types.Content(role="user")]


class Set(BaseToolset):
    """A toolset that lists these tools, or is not there."""

    def __init__(self, *names: str, error: ToolsetError | None = None) -> None:
        super().__init__()
        self.names, self.error = names, error

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        if self.error is not None:
            raise self.error
        return [lambda_tool(name) for name in self.names]


async def test_toolsets_and_tools_are_declared_in_their_order_though_one_is_not_there() -> None:
    """A set without which the run may go on is told by an event."""
    gone = ToolsetError("The server is away.")
    gone.skipped = True
    root = agent("root", "done", tools=[Set("a", "b"), lambda_tool("c"), Set("never", error=gone), Set("d"), look])
    events = await Chat(root).say("go")
    assert declared_names(requests_of(root)[0]) == ["a", "b", "c", "d", "look"]
    assert [(each.error_code, each.error_message) for each in events] == [
        ("TOOLSET_UNAVAILABLE", "The server is away."),
        (None, None),
    ]


def test_an_agent_without_a_model_has_no_tools_to_resolve() -> None:
    """And tools that are resolved are not looked at again."""
    ctx = context(BaseAgent(name="plain"))
    assert tools(ctx, LlmRequest()) is None
    assert ctx.tools is None
    ctx = context(agent("root", tools=[look]))
    ctx.tools = []
    assert tools(ctx, LlmRequest()) is None
    assert ctx.tools == []
