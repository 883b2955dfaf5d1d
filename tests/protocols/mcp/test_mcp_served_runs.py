"""Runs behind calls: progress, cancel, failures, structured answers, contexts, files, prompts."""

from __future__ import annotations

import asyncio
import base64
import logging
from pathlib import Path
from typing import Any

import httpx2
import pytest
from google.genai import types
from mcp import Client, MCPError
from pydantic import BaseModel
from serving_kit import ERAS, PNG, counting, data, served, words

from flowloom import LlmAgent, RunConfig, SequentialAgent, ToolContext
from flowloom.protocols.mcp import to_mcp_server
from flowloom.testing import FunctionModel, ScriptedModel, call


class City(BaseModel):
    name: str
    inhabitants: int


class Reports(list[tuple[float, float | None, str | None]]):
    """Takes what a client is told of a call's progress."""

    async def __call__(self, done: float, total: float | None, message: str | None) -> None:
        self.append((done, total, message))


async def walk(tool_context: ToolContext) -> str:
    """Walk."""
    for done in (0, 1, 1, 0.5, 2):  # what does not rise is no progress
        tool_context.report_progress(done, 2, f"step {done}")
        await asyncio.sleep(0.01)
    return "there"


@pytest.mark.parametrize("mode", ERAS)
async def test_a_tools_progress_is_told_as_it_is(mode: Any) -> None:
    """As far as it rises."""
    reports = Reports()
    async with served(tools=[walk]) as url, Client(url, mode=mode) as client:
        await client.call_tool("walk", {}, progress_callback=reports)
    assert reports == [(0, 2, "step 0"), (1, 2, "step 1"), (2, 2, "step 2")]


@pytest.mark.parametrize("mode", ERAS)
async def test_the_steps_of_an_agent_are_progress(mode: Any) -> None:
    """Its calls, what its tools tell, and its messages: a number that rises."""
    agent = LlmAgent(name="desk", model=ScriptedModel([call("walk"), "There."]), tools=[walk])
    reports = Reports()
    async with served(agent) as url, Client(url, mode=mode) as client:
        await client.call_tool("desk", {"request": "Go."}, progress_callback=reports)
    counts = [done for done, _, _ in reports]
    assert counts == sorted(set(counts))
    told = [message for _, _, message in reports]
    assert "desk calls walk" in told
    assert "step 2" in told


async def test_without_a_token_no_progress_is_sent() -> None:
    """Who does not ask for it reads the result alone."""
    meta = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    headers = {"accept": "application/json, text/event-stream"}
    async with served(tools=[walk]) as url, httpx2.AsyncClient(headers=headers) as http:
        opened = await http.post(url, json={"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": meta})
        http.headers["mcp-session-id"] = opened.headers["mcp-session-id"]
        await http.post(url, json={"jsonrpc": "2.0", "method": "notifications/initialized"})
        body = {"jsonrpc": "2.0", "id": 2, "method": "tools/call", "params": {"name": "walk", "arguments": {}}}
        told = (await http.post(url, json=body)).text
    assert "there" in told
    assert "notifications/progress" not in told


@pytest.mark.parametrize("mode", ERAS)
@pytest.mark.parametrize("over", ["http", "pipe"])
async def test_a_cancelled_call_stops_the_run(mode: Any, over: str) -> None:
    """In either era and over either transport, within the step; the connection goes on, and its history is legal."""
    began, stopped = asyncio.Event(), asyncio.Event()

    async def wait() -> str:
        """Wait."""
        began.set()
        try:
            await asyncio.sleep(60)
        finally:
            stopped.set()
        return "late"

    model = ScriptedModel([call("wait"), "On we go."])
    agent = LlmAgent(name="desk", model=model, tools=[wait])

    async def story(target: Any) -> str:
        async with Client(target, mode=mode) as client:
            asked = asyncio.create_task(client.call_tool("desk", {"request": "a"}))
            await asyncio.wait_for(began.wait(), 60)
            asked.cancel()
            await asyncio.wait_for(stopped.wait(), 60)
            return words(await client.call_tool("desk", {"request": "b"}))

    if over == "http":
        async with served(agent) as url:
            told = await story(url)
    else:
        told = await story(to_mcp_server(agent))
    assert told == "On we go."
    assert len(model.requests) == 2


@pytest.mark.parametrize("where", ["model", "response", "plugin"])
async def test_a_failed_run_tells_no_secret(where: str, caplog: pytest.LogCaptureFixture) -> None:
    """The client reads that it failed, and of what kind the error is; the log has the rest."""
    secret = "sk-0123456789abcdefghij"

    def fail(request: Any) -> str:
        raise RuntimeError(f"key {secret} in /etc/keys was refused")

    def instruct(context: Any) -> str:
        raise ValueError(f"no {secret}")

    response = ScriptedModel([{"error_code": "QUOTA", "error_message": f"of {secret}"}])  # type: ignore[list-item]
    agents = {
        "model": LlmAgent(name="desk", model=FunctionModel(fail)),
        "response": LlmAgent(name="desk", model=response),
        "plugin": LlmAgent(name="desk", model=ScriptedModel(["x"]), instruction=instruct),
    }
    async with Client(to_mcp_server(agents[where])) as client:
        with caplog.at_level(logging.ERROR):
            result = await client.call_tool("desk", {"request": "a"})
    assert result.is_error
    assert secret not in str(result)
    assert "/etc/keys" not in str(result)
    assert "desk" in words(result)


async def test_a_limit_is_told() -> None:
    """A run that has reached its limit says which."""
    model = ScriptedModel([call("walk"), "There."])
    agent = LlmAgent(name="desk", model=model, tools=[walk])
    server = to_mcp_server(agent)
    runner = server._agents["desk"].served.runner
    start = runner.start
    runner.start = lambda **given: start(**{**given, "run_config": RunConfig(max_llm_calls=1)})  # type: ignore[method-assign]
    async with Client(server) as client:
        result = await client.call_tool("desk", {"request": "a"})
    assert result.is_error
    assert "limit" in words(result).lower()


async def test_structured_answers_and_requests() -> None:
    """An agent's input and output schemas are those of its tool."""

    class Question(BaseModel):
        city: str

    model = ScriptedModel(['{"name": "Lisbon", "inhabitants": 545000}'])
    agent = LlmAgent(name="guide", model=model, input_schema=Question, output_schema=City)
    async with Client(to_mcp_server(agent)) as client:
        (tool,) = (await client.list_tools()).tools
        result = await client.call_tool("guide", {"city": "Lisbon"})
        wrong = await client.call_tool("guide", {"town": "Lisbon"})
    assert tool.input_schema["required"] == ["city"]
    assert set(tool.output_schema["properties"]) == {"name", "inhabitants"}
    assert result.structured_content == data(result) == {"name": "Lisbon", "inhabitants": 545000}
    assert wrong.is_error
    assert "city" in words(wrong)


async def test_the_last_agent_of_a_workflow_answers() -> None:
    """A composite agent is served like any other."""
    steps = [LlmAgent(name=name, model=ScriptedModel([f"I, {name}."])) for name in ("one", "two")]
    async with Client(to_mcp_server(SequentialAgent(name="flow", sub_agents=steps))) as client:
        assert words(await client.call_tool("flow", {"request": "Go."})) == "I, two."


async def test_a_request_that_is_none_is_refused() -> None:
    """The argument is named, and no run begins."""
    async with Client(to_mcp_server(counting())) as client:
        for args in ({}, {"request": 5}):
            result = await client.call_tool("desk", args)
            assert result.is_error
            assert "request" in words(result)
        assert words(await client.call_tool("desk", {"request": "a"})) == "1"


async def test_files_of_the_answer_are_blocks() -> None:
    """In the order in which the agent gives them."""
    picture = types.Part(inline_data=types.Blob(data=PNG, mime_type="image/png"))
    answer = [types.Part(text="Here: "), types.Part(text="a dot."), picture, types.Part(text="Done.")]
    agent = LlmAgent(name="desk", model=ScriptedModel([answer]))
    async with Client(to_mcp_server(agent)) as client:
        blocks = (await client.call_tool("desk", {"request": "Draw."})).content
    assert [block.type for block in blocks] == ["text", "image", "text"]
    assert (blocks[0].text, blocks[2].text) == ("Here: a dot.", "Done.")


@pytest.mark.parametrize("mode", ERAS)
async def test_a_context_goes_on_over_connections(mode: Any) -> None:
    """With `session="context"` a result names its conversation, and a call that names it goes on with it."""
    async with served(counting(), session="context") as url:
        async with Client(url, mode=mode) as client:
            (tool,) = (await client.list_tools()).tools
            first = await client.call_tool("desk", {"request": "a"})
        named = first.structured_content["context_id"]
        async with Client(url, mode=mode) as client:
            second = await client.call_tool("desk", {"request": "b", "context_id": named})
            other = await client.call_tool("desk", {"request": "c"})
            unknown = await client.call_tool("desk", {"request": "d", "context_id": "mcp:guessed"})
    assert tool.input_schema["required"] == ["request"]
    assert first.structured_content == data(first)
    assert [each.structured_content["result"] for each in (first, second, other)] == ["1", "2", "1"]
    assert second.structured_content["context_id"] == named != other.structured_content["context_id"]
    assert unknown.is_error
    assert "mcp:guessed" in words(unknown)


async def save(tool_context: ToolContext) -> str:
    """Save files."""
    picture = types.Part(inline_data=types.Blob(data=PNG, mime_type="image/png"))
    await tool_context.save_artifact("a dot.png", picture)
    await tool_context.save_artifact("user:notes.txt", types.Part(text="a note"))
    return "saved"


@pytest.mark.parametrize("mode", ERAS)
async def test_files_are_resources(mode: Any) -> None:
    """What a run has saved is linked in its result, and is read by its address; a connection lists its own."""
    async with served(tools=[save]) as url, Client(url, mode=mode) as client, Client(url, mode=mode) as other:
        result = await client.call_tool("save", {})
        links = [block for block in result.content if block.type == "resource_link"]
        read = [(await client.read_resource(link.uri)).contents[0] for link in links]
        listed = {each.name: each for each in (await client.list_resources()).resources}
        assert (await other.list_resources()).resources == []
        for uri in ("artifact://a%20dot.png", "artifact://../a%20dot.png", "artifact://%2e%2e%2fa", "artifact://"):
            with pytest.raises(MCPError, match=r"There is no file|Unknown resource"):
                await other.read_resource(uri)
    assert [link.name for link in links] == ["a dot.png", "user:notes.txt"]
    assert base64.b64decode(read[0].blob) == PNG
    assert read[1].text == "a note"
    if mode == "legacy":
        assert {name: each.uri for name, each in listed.items()} == {
            "a dot.png": "artifact://a%20dot.png",
            "user:notes.txt": "artifact://user%3Anotes.txt",
        }
        assert listed["a dot.png"].mime_type == "image/png"


async def test_instructions_are_prompts_on_request_alone() -> None:
    """No client reads how an agent is made unless the program says so."""
    agent = LlmAgent(name="desk", model=ScriptedModel([]), instruction="Be kind to {visitor}.")
    async with Client(to_mcp_server(agent)) as client:
        assert (await client.list_prompts()).prompts == []
        told = str(await client.list_tools())
    assert "kind" not in told
    async with Client(to_mcp_server(agent, prompts=True)) as client:
        (prompt,) = (await client.list_prompts()).prompts
        given = await client.get_prompt("desk")
    assert prompt.name == "desk"
    assert given.messages[0].content.text == "Be kind to {visitor}."


async def test_what_else_is_added_is_served() -> None:
    """It is the SDK's server: tools, resources and prompts of one's own go beside the agents."""
    server = to_mcp_server(counting(), name="both", instructions="Ask the desk.")

    @server.tool()
    def plain() -> str:
        """A tool of the SDK."""
        return "plain"

    @server.resource("notes://one")
    def notes() -> str:
        return "one note"

    async with Client(server) as client:
        names = [tool.name for tool in (await client.list_tools()).tools]
        told = [
            words(await client.call_tool("plain", {})),
            (await client.read_resource("notes://one")).contents[0].text,
        ]
        assert client.instructions == "Ask the desk."
    assert (names, told) == (["desk", "plain"], ["plain", "one note"])


def test_the_page_of_the_house_names_what_is_served() -> None:
    """The modules that serve are told of where a reader begins."""
    page = (Path(__file__).parents[3] / "flowloom" / "protocols" / "mcp" / "serving" / "__init__.py").read_text()
    modules = {path.name for path in (Path(__file__).parents[3] / "flowloom/protocols/mcp/serving").glob("*.py")}
    assert {name for name in modules if f"`{name}`" not in page} == {"__init__.py"}
