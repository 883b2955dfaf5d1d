"""What people decide counts for what they were asked: a prompt of the server's, or the call itself; and once."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import mcp_types as mcp
import pytest
from kit import Chat
from mcp.server.lowlevel import Server
from mcp_kit import Raw, asks
from serving_kit import listening

from flowloom import McpToolset, PendingCall, pending_calls
from flowloom.protocols.mcp import StreamableHTTPConnectionParams
from flowloom.testing import call


async def asked(chat: Chat) -> PendingCall:
    (pending,) = pending_calls(await chat.stored())
    return pending


def told(events: list[Any]) -> Any:
    """The result of the last call."""
    return [each.response for event in events for each in event.get_function_responses()][-1]


class Asking:
    """A server of the newer era, whose tool asks for these prompts, one after the other, and gives what came of it."""

    def __init__(self, *prompts: str) -> None:
        self.prompts = prompts
        self.calls = 0

    async def listed(self, *_: Any) -> mcp.ListToolsResult:
        return mcp.ListToolsResult(tools=[mcp.Tool(name="ask", input_schema={"type": "object"})])

    async def called(self, _: Any, params: mcp.CallToolRequestParams) -> mcp.CallToolResult | mcp.InputRequiredResult:
        said = json.loads(params.request_state or "[]")
        self.calls += params.request_state is None
        for answer in (params.input_responses or {}).values():
            assert isinstance(answer, mcp.CreateMessageResult)
            assert isinstance(answer.content, mcp.TextContent)
            said.append(answer.content.text)
        if len(said) == len(self.prompts):
            return mcp.CallToolResult(content=[mcp.TextContent(text=" ".join(said))])
        message = mcp.SamplingMessage(role="user", content=mcp.TextContent(text=self.prompts[len(said)]))
        prompt = mcp.CreateMessageRequestParams(messages=[message], max_tokens=9)
        requests: dict[str, Any] = {"p": mcp.CreateMessageRequest(params=prompt)}
        return mcp.InputRequiredResult(input_requests=requests, request_state=json.dumps(said))

    def served(self) -> Any:
        app = Server("asking", on_list_tools=self.listed, on_call_tool=self.called).streamable_http_app()
        return listening(app)


def toolset(port: int, **options: Any) -> McpToolset:
    where = StreamableHTTPConnectionParams(url=f"http://127.0.0.1:{port}/mcp")
    return McpToolset(connection_params=where, sampling=True, **options)


@pytest.mark.parametrize("prompts", [("One?",), ("One?", "Two?"), ("One?", "One?")])
@pytest.mark.parametrize("kept", [True, False])
async def test_a_person_gives_leave_for_each_prompt_of_a_server_of_the_newer_era(
    prompts: tuple[str, ...], kept: bool
) -> None:
    """The call goes on with what its server has said meanwhile. One that was given up begins anew; what was decided
    before counts in it, in order."""
    server = Asking(*prompts)
    answers = ["a"] if len(prompts) == 1 else ["a", "b"] if kept else ["a", "a", "b"]
    async with server.served() as port:
        wait = {} if kept else {"elicitation_wait": 0.0}
        chat = Chat(asks(toolset(port, **wait), call("ask"), *answers, "ok"))
        events = await chat.say("go")
        for prompt in prompts:
            pending = await asked(chat)
            assert pending.payload["messages"][0]["content"]["text"] == prompt
            events = await chat.answer(pending.approve())
        assert told(events) == {"result": " ".join(["a", "b"][: len(prompts)])}
        assert server.calls == (1 if kept else 1 + len(prompts))
        await chat.runner.close()


async def test_pages_of_a_server_of_the_newer_era_are_visited_once() -> None:
    """Each, though their addresses are made anew for each call."""
    number = itertools.count()

    def page(name: str) -> mcp.ElicitRequest:
        url = f"https://login.example/{name}?state={next(number)}"
        return mcp.ElicitRequest(params=mcp.ElicitRequestURLParams(message="Sign in", url=url, elicitation_id=name))

    async def called(_: Any, params: mcp.CallToolRequestParams) -> mcp.CallToolResult | mcp.InputRequiredResult:
        if params.input_responses is None:
            return mcp.InputRequiredResult(input_requests={"a": page("a"), "b": page("b")}, request_state="s")
        said = [each.action for each in params.input_responses.values() if isinstance(each, mcp.ElicitResult)]
        return mcp.CallToolResult(content=[mcp.TextContent(text=f"{sorted(params.input_responses)} {said}")])

    app = Server("pages", on_list_tools=Asking().listed, on_call_tool=called).streamable_http_app()
    async with listening(app) as port:
        chat = Chat(asks(toolset(port), call("ask"), "ok"))
        events = await chat.say("go")
        for name in "ab":
            pending = await asked(chat)
            assert pending.authorization_url.startswith(f"https://login.example/{name}?")  # type: ignore[union-attr]
            events = await chat.answer(pending.consent("https://login.example/done"))
        assert told(events) == {"result": "['a', 'b'] ['accept', 'accept']"}
        assert next(number) == 2
        await chat.runner.close()


async def test_leave_for_a_call_is_none_for_its_prompts() -> None:
    """Each is asked for, and a refused prompt is no refused call."""
    server = Asking("One?")
    async with server.served() as port:
        chat = Chat(asks(toolset(port, require_confirmation=True), call("ask"), "ok"))
        await chat.say("go")
        first = await asked(chat)
        assert (first.payload, server.calls) == (None, 0)
        await chat.answer(first.approve())
        second = await asked(chat)
        assert second.payload["maxTokens"] == 9
        events = await chat.answer(second.reject())
        assert "asked was refused" in told(events)["error"]
        await chat.runner.close()


async def test_an_approved_call_that_waits_at_its_server_asks_for_its_prompt(tmp_path: Path) -> None:
    """Also after a question that a person has answered meanwhile."""
    chat = Chat(asks(Raw(tmp_path).toolset(sampling=True, require_confirmation=True), call("elicit_sample"), "w", "ok"))
    await chat.say("go")
    await chat.answer((await asked(chat)).approve())
    await chat.answer((await asked(chat)).reply({"name": "Ann"}))
    pending = await asked(chat)
    assert (pending.kind, pending.payload["systemPrompt"]) == ("confirmation", "Be brief.")
    events = await chat.answer(pending.approve())
    assert json.loads(told(events)["result"])["content"]["text"] == "w"
    await chat.runner.close()


@pytest.mark.parametrize(("name", "approves"), [("sample", True), ("sample", False), ("elicit_url", True)])
async def test_leave_that_comes_too_late_makes_no_call_again(tmp_path: Path, name: str, approves: bool) -> None:
    """As with any other question: the waiting call was cancelled, and may have done part of its work."""
    raw = Raw(tmp_path)
    chat = Chat(asks(raw.toolset(elicitation_wait=0.1, sampling=True), call(name), "ok"))
    await chat.say("go")
    await raw.until("notifications/cancelled", 1)
    pending = await asked(chat)
    yes = pending.approve if pending.kind == "confirmation" else lambda: pending.consent("https://login.example/done")
    events = await chat.answer(yes() if approves else pending.reject())
    assert "too late" in told(events)["error"]
    assert len(raw.received("tools/call")) == 1
    await chat.runner.close()


async def test_leave_for_a_call_is_none_for_a_description_that_has_changed_since(tmp_path: Path) -> None:
    """The difference is shown first; who confirms it approves the call with it."""
    first, later = ([{"name": "echo", "description": each, "inputSchema": {"type": "object"}}] for each in ("a", "b"))
    raw = Raw(tmp_path, tools=first, tools_later=later)
    chat = Chat(asks(raw.toolset(pin_tools=True, require_confirmation=True), call("echo", a=1), "ok"))
    await chat.say("go")
    await chat.answer((await asked(chat)).approve())
    pending = await asked(chat)
    assert '+  "description": "b",' in pending.payload["diff"]
    assert raw.received("tools/call") == []
    events = await chat.answer(pending.approve())
    assert told(events) == {"result": '{"a": 1}'}
    await chat.runner.close()
