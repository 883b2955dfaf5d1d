"""Functions, tools and toolsets of ours, served as they are: what clients are told of them, and what they give."""

from __future__ import annotations

import base64
from dataclasses import dataclass
from typing import Any

import pytest
from google.genai import types
from mcp import Client, MCPError
from mcp_types import ToolAnnotations
from pydantic import BaseModel
from serving_kit import ERAS, PNG, data, served, words

from flowloom import LlmAgent, ReadonlyContext, ToolContext
from flowloom.errors import ConfigurationError, DuplicateToolError, ToolsetError
from flowloom.protocols.mcp import to_mcp_server
from flowloom.testing import ScriptedModel
from flowloom.tools import BaseTool, BaseToolset, FunctionTool


def add(first: int, second: int = 1) -> int:
    """Add numbers.

    Args:
        first: The one.
    """
    return first + second


def weather(city: str) -> dict[str, Any]:
    """The weather in a city."""
    return {"city": city, "degrees": 21}


class City(BaseModel):
    name: str
    inhabitants: int


@dataclass
class Point:
    x: int
    y: int


async def result(tool: Any, args: dict[str, Any] | None = None, **options: Any) -> Any:
    """What a client gets that calls one tool of a server."""
    async with Client(to_mcp_server(tools=[tool], **options)) as client:
        (listed,) = (await client.list_tools()).tools
        return await client.call_tool(listed.name, args or {})


async def listed(*tools: Any) -> list[Any]:
    """What a client is told of tools."""
    async with Client(to_mcp_server(tools=list(tools))) as client:
        return (await client.list_tools()).tools


@pytest.mark.parametrize("mode", ERAS)
async def test_functions_are_served_as_they_are(mode: Any) -> None:
    """A client of either era sees name, description and schema, and gets the result."""
    async with served(tools=[add]) as url, Client(url, mode=mode) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("add", {"first": 2, "second": 3})
    assert (tool.name, tool.description) == ("add", "Add numbers.")
    assert tool.input_schema == {
        "type": "object",
        "properties": {
            "first": {"type": "integer", "description": "The one."},
            "second": {"type": "integer", "default": 1},
        },
        "required": ["first"],
    }
    assert (words(result), result.is_error) == ("5", False)


async def test_a_tool_without_parameters_has_a_schema() -> None:
    """It takes an empty object."""

    def ping() -> str:
        """Ping."""
        return "pong"

    (tool,) = await listed(ping)
    assert tool.input_schema == {"type": "object", "properties": {}}


async def test_the_schemas_of_results_are_told_where_they_are_known() -> None:
    """A function's annotation is its output schema; a text needs none."""

    def city() -> City:
        """A city."""
        return City(name="Lisbon", inhabitants=1)

    def text() -> str:
        """A text."""
        return "text"

    def anything() -> Any:
        """Anything."""
        return 1

    def picture() -> types.Part:
        """A picture."""
        return types.Part(inline_data=types.Blob(data=PNG, mime_type="image/png"))

    tools = {tool.name: tool.output_schema for tool in await listed(add, weather, city, text, anything, picture)}
    assert tools["add"] == {"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]}
    assert tools["weather"]["type"] == "object"
    assert tools["city"]["required"] == ["name", "inhabitants"]
    assert [tools[name] for name in ("text", "anything", "picture")] == [None] * 3


async def test_data_is_structured_and_told_as_json() -> None:
    """A dict is the structured content, and the text is its JSON."""
    answer = await result(weather, {"city": "Évora"})
    assert answer.structured_content == data(answer) == {"city": "Évora", "degrees": 21}
    assert "Évora" in words(answer)


@pytest.mark.parametrize(
    ("value", "text", "structured"),
    [
        ([1, 2], "[1, 2]", None),
        (None, "null", None),
        ("two words", "two words", None),
        ({"result": 5}, '{"result": 5}', {"result": 5}),
        (Point(1, 2), '{"x": 1, "y": 2}', {"x": 1, "y": 2}),
        (City(name="a", inhabitants=1), '{"name": "a", "inhabitants": 1}', {"name": "a", "inhabitants": 1}),
    ],
)
async def test_results_without_a_promise(value: Any, text: str, structured: Any) -> None:
    """Objects are structured, all else is text alone."""

    def give() -> Any:
        """Give."""
        return value

    answer = await result(give)
    assert (words(answer), answer.structured_content, answer.is_error) == (text, structured, False)


async def test_promised_values_are_wrapped() -> None:
    """What is no object stands under `result`, as its schema says."""
    answer = await result(add, {"first": 1})
    assert (words(answer), answer.structured_content) == ("2", {"result": 2})


async def test_a_broken_promise_is_an_error() -> None:
    """A result that is not of the form that was promised does not reach the client as if it were."""

    def count() -> int:
        """Count."""
        return "many"  # type: ignore[return-value]

    answer = await result(count)
    assert answer.is_error
    assert "`count` is not of the form that it promises" in words(answer)


async def test_files_are_blocks_of_their_kind() -> None:
    """Pictures, sounds, texts and bytes; the display name is the address."""

    def give() -> list[Any]:
        """Give."""
        return [
            "Look:",
            types.Part(inline_data=types.Blob(data=PNG, mime_type="image/png")),
            types.Blob(data=b"RIFF", mime_type="audio/wav"),
            types.Blob(data=b"a,b", mime_type="text/csv", display_name="https://host/a.csv"),
            types.Blob(data=b"%PDF", mime_type="application/pdf", display_name="a b.pdf"),
            types.Part(file_data=types.FileData(file_uri="gs://bucket/c.pdf", mime_type="application/pdf")),
            {"and": "data"},
        ]

    answer = await result(give)
    blocks = answer.content
    assert [block.type for block in blocks] == [
        "text",
        "image",
        "audio",
        "resource",
        "resource",
        "resource_link",
        "text",
    ]
    assert base64.b64decode(blocks[1].data) == PNG
    assert (blocks[3].resource.uri, blocks[3].resource.text) == ("https://host/a.csv", "a,b")
    assert (blocks[4].resource.uri, base64.b64decode(blocks[4].resource.blob)) == ("file:///a%20b.pdf", b"%PDF")
    assert (blocks[5].uri, blocks[5].name) == ("gs://bucket/c.pdf", "c.pdf")


async def test_words_and_data_among_files_are_told_in_their_place() -> None:
    """As they are, and as JSON."""

    def look() -> list[Any]:
        """Look."""
        dot = types.Part(inline_data=types.Blob(data=PNG, mime_type="image/png"))
        return ["A dot \ud800:", dot, {"seen": 1}, City(name="Rome", inhabitants=3), None]

    answer = await result(look)
    told = [block.text if block.type == "text" else block.type for block in answer.content]
    assert told == ["A dot \ufffd:", "image", '{"seen": 1}', '{"name": "Rome", "inhabitants": 3}', "null"]
    assert not answer.is_error


async def test_files_beside_data() -> None:
    """The data has a mark in the place of each file."""

    def draw() -> dict[str, Any]:
        """Draw."""
        return {"title": "A dot", "picture": types.Blob(data=PNG, mime_type="image/png")}

    answer = await result(draw)
    assert [block.type for block in answer.content] == ["text", "image"]
    assert answer.structured_content == {"title": "A dot", "picture": "[image/png, 8 B]"}


async def test_files_that_a_tool_puts_beside_its_result() -> None:
    """What a model would be given with the result, the client is given, too."""

    def draw(tool_context: ToolContext) -> str:
        """Draw."""
        blob = types.FunctionResponseBlob(data=PNG, mime_type="image/png")
        tool_context.files = [types.FunctionResponsePart(inline_data=blob)]
        return "drawn"

    answer = await result(draw)
    assert [block.type for block in answer.content] == ["text", "image"]


@pytest.mark.parametrize("told", ["raised", "returned"])
async def test_errors_say_what_is_wrong(told: str) -> None:
    """What a tool raises, or returns under `error`, is an error result with that text."""

    def look_up() -> dict[str, Any]:
        """Look up."""
        if told == "raised":
            raise ValueError("There is no such city.")
        return {"error": "There is no such city."}

    answer = await result(look_up)
    assert (answer.is_error, words(answer)) == (True, "There is no such city.")


async def test_unfit_arguments_are_named() -> None:
    """The function is not called, and the client reads which argument is wrong."""
    answer = await result(add, {"first": "many"})
    assert answer.is_error
    assert "first" in words(answer)


async def test_an_unknown_tool_is_an_error_of_the_protocol() -> None:
    """As the protocol has it: invalid parameters."""
    async with Client(to_mcp_server(tools=[add])) as client:
        with pytest.raises(MCPError, match="Unknown tool: subtract") as caught:
            await client.call_tool("subtract", {})
    assert caught.value.error.code == -32602


async def test_hints_come_from_metadata_and_idempotence() -> None:
    """That a second call is not as good as one is told; that a tool only reads is what its metadata says."""
    paid = FunctionTool(add, name="pay", idempotent=False)
    read = FunctionTool(add, name="read", custom_metadata={"readOnlyHint": True, "title": "Read it", "other": 1})
    tools = {tool.name: tool.annotations for tool in await listed(paid, read)}
    assert tools["pay"] == ToolAnnotations(read_only_hint=False, idempotent_hint=False)
    assert tools["read"] == ToolAnnotations(title="Read it", read_only_hint=True, idempotent_hint=True)


class Shelf(BaseToolset):
    """Tools that are listed when they are asked for; it counts how often it was closed."""

    def __init__(self, *names: str, fails: bool = False, **options: Any) -> None:
        super().__init__(**options)
        self.names, self.fails, self.closed, self.listings = names, fails, 0, 0

    async def get_tools(self, readonly_context: ReadonlyContext | None = None) -> list[BaseTool]:
        self.listings += 1
        if self.fails:
            raise ToolsetError("The shelf at secret-host does not answer.")
        return [FunctionTool(add, name=name) for name in self.names]

    async def close(self) -> None:
        self.closed += 1


async def test_toolsets_are_listed_and_closed() -> None:
    """Their tools are served by the names that they have for agents; the server closes them."""
    shelf = Shelf("one", "two", tool_name_prefix="shelf", tool_filter=["two"])
    async with Client(to_mcp_server(tools=[shelf, add])) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        answer = await client.call_tool("shelf_two", {"first": 1})
    assert names == ["shelf_two", "add"]
    assert words(answer) == "2"
    assert shelf.closed == 1


async def test_a_call_lists_a_toolset_once() -> None:
    """As every run does; a tool that is gone meanwhile is an error that names those that are there."""
    shelf = Shelf("one")
    async with Client(to_mcp_server(tools=[shelf])) as client:
        await client.list_tools()
        before = shelf.listings
        await client.call_tool("one", {"first": 1})
        assert shelf.listings - before == 1
        shelf.names = ("two",)
        gone = await client.call_tool("one", {"first": 1})
    assert gone.is_error
    assert "`two`" in words(gone)


async def test_a_toolset_that_cannot_be_listed_is_told_without_its_address() -> None:
    """The listing is an error of the protocol; where the toolset is, strangers do not read."""
    async with Client(to_mcp_server(tools=[Shelf(fails=True)])) as client:
        with pytest.raises(MCPError, match="cannot be listed now") as caught:
            await client.list_tools()
    assert "secret-host" not in str(caught.value)


async def test_an_agents_tools_are_served_in_its_place() -> None:
    """`expose` says what is served: the agent, its tools, or both; callbacks around its tools are asked."""
    asked: list[str] = []

    def before(tool: Any, args: Any, tool_context: Any) -> None:
        asked.append(tool.name)

    agent = LlmAgent(name="desk", model=ScriptedModel(["Hi."]), tools=[add, weather], before_tool_callback=before)
    shown: dict[str, list[str]] = {}
    for expose in ("agent", "tools", "both"):
        async with Client(to_mcp_server(agent, expose=expose)) as client:  # type: ignore[arg-type]
            shown[expose] = [tool.name for tool in (await client.list_tools()).tools]
            if expose == "tools":
                assert words(await client.call_tool("add", {"first": 1})) == "2"
    assert shown == {"agent": ["desk"], "tools": ["add", "weather"], "both": ["desk", "add", "weather"]}
    assert asked == ["add"]


async def test_agents_among_the_tools_are_asked() -> None:
    """An agent of the list is a tool that takes a `request`."""
    first, second = (LlmAgent(name=name, model=ScriptedModel([f"I am {name}."])) for name in ("ann", "bob"))
    async with Client(to_mcp_server(tools=[first, add, second])) as client:
        told = [words(await client.call_tool(name, {"request": "Who?"})) for name in ("ann", "bob")]
    assert told == ["I am ann.", "I am bob."]


async def test_tools_of_a_connection_share_its_state() -> None:
    """What one call keeps in the session's state, the next one finds; another connection does not."""

    def remember(value: str, tool_context: ToolContext) -> str:
        """Remember."""
        before = tool_context.state.get("value", "nothing")
        tool_context.state["value"] = value
        tool_context.state["user:value"] = value
        return f"{before} {tool_context.state.get('user:other')}"

    async with served(tools=[remember]) as url:
        told: list[str] = []
        for values in (("a", "b"), ("c",)):
            async with Client(url, mode="legacy") as client:
                told += [words(await client.call_tool("remember", {"value": value})) for value in values]
    assert told == ["nothing None", "a None", "nothing None"]


@pytest.mark.parametrize(
    ("given", "match"),
    [
        ({}, "nothing to serve"),
        ({"tools": []}, "nothing to serve"),
        ({"expose": "tools"}, "no agent is given"),
        ({"agent": LlmAgent(name="bare", model=ScriptedModel([])), "expose": "tools"}, "`bare` has none"),
        ({"agent": LlmAgent(name="bare", model=ScriptedModel([])), "expose": "all"}, "takes `agent`"),
        ({"agent": "desk"}, "not a `str`"),
    ],
)
def test_what_cannot_be_served(given: dict[str, Any], match: str) -> None:
    """Nothing, no tools, no agent: an error that says which."""
    with pytest.raises(ConfigurationError, match=match):
        to_mcp_server(**given)


async def test_two_of_one_name_are_refused() -> None:
    """An agent and a tool at once; two of toolsets when they are listed."""
    agent = LlmAgent(name="add", model=ScriptedModel([]))
    with pytest.raises(DuplicateToolError, match="add"):
        to_mcp_server(agent, tools=[add])
    async with Client(to_mcp_server(tools=[Shelf("one"), Shelf("one")])) as client:
        with pytest.raises(MCPError, match="DuplicateToolError"):
            await client.list_tools()
