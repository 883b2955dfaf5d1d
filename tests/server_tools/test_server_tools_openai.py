"""Tools that OpenAI runs: how they are asked for, and what comes of them, by real runs over a loopback server."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from kit import STREAMED, Chat
from models.gemini_kit import answers as responses
from models.gemini_kit import ask
from models.gemini_wire import text, whole
from models.wire_server import Reply, WireServer
from openai.types.responses import Response, ResponseInputItemParam, ToolParam
from pydantic import TypeAdapter
from server_tools.openai_search import (
    APPROVAL,
    CALLED,
    CLAIM,
    CODE,
    FAILED,
    FIRST,
    LISTED,
    REASONING,
    SAID,
    SEARCH,
    SEARCHED,
    SECOND,
    message,
    reply,
    response,
)

from flowloom import BuiltInCodeExecutor, Gemini, LlmAgent, OpenAIModel, RetryOptions, pending_calls
from flowloom.errors import UnsupportedFeatureError
from flowloom.interop.parsed import ParsedEvent
from flowloom.run_stream import run_stream_of
from flowloom.tools import ServerTool, code_execution, enterprise_web_search, google_search, url_context

STREAMS = pytest.mark.parametrize("stream", [False, True])
DONE = message(9, "done")
DOCS = ServerTool("remote_mcp", server_url="https://d.example/mcp", server_label="docs", require_approval="always")
ONCE = RetryOptions(attempts=1)


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


def gpt(server: WireServer, **fields: Any) -> OpenAIModel:
    fields = {"api": "responses", "dialect": "openai", **fields}
    return OpenAIModel(model="gpt-5", base_url=f"{server.url}/v1", retry_options=ONCE, **fields)


def searcher(server: WireServer, *tools: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name="root", model=gpt(server), tools=tools, **fields)


def chat(agent: LlmAgent, stream: bool) -> Chat:
    return Chat(agent, config=STREAMED if stream else None)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def body_of(agent: LlmAgent, server: WireServer) -> Any:
    server.replies.append(reply(DONE, stream=False))
    await Chat(agent).say("go")
    return server.requests[-1].json


WRITTEN: dict[str, tuple[Any, dict[str, Any]]] = {
    "google_search": (google_search, {"type": "web_search"}),
    "web_search": (
        ServerTool("web_search", allowed_domains=["a.example"], user_location={"city": "Wien"}),
        {
            "type": "web_search",
            "filters": {"allowed_domains": ["a.example"]},
            "user_location": {"type": "approximate", "city": "Wien"},
        },
    ),
    "code_execution": (code_execution, {"type": "code_interpreter", "container": {"type": "auto"}}),
    "file_search": (
        ServerTool("file_search", vector_store_ids=["vs_1"], max_num_results=4),
        {"type": "file_search", "vector_store_ids": ["vs_1"], "max_num_results": 4},
    ),
    "image_generation": (
        ServerTool("image_generation", quality="low"),
        {"type": "image_generation", "quality": "low"},
    ),
    "remote_mcp": (
        DOCS,
        {
            "type": "mcp",
            "server_url": "https://d.example/mcp",
            "server_label": "docs",
            "require_approval": "always",
        },
    ),
    "raw": (ServerTool(raw={"type": "local_shell"}), {"type": "local_shell"}),
}


@pytest.mark.parametrize("kind", WRITTEN)
async def test_a_tool_is_asked_for_as_openai_has_it(server: WireServer, kind: str) -> None:
    """The SDK's types know the entry."""
    tool, expected = WRITTEN[kind]
    body = await body_of(searcher(server, tool), server)
    assert body["tools"] == [expected]
    TypeAdapter(ToolParam).validate_python(expected)


async def test_a_built_in_code_executor_is_the_same_as_the_tool(server: WireServer) -> None:
    """Alone, or beside the tool, which stands there once; chat completions run no code."""
    expected = [{"type": "code_interpreter", "container": {"type": "auto"}}]
    for tools in ([], [code_execution]):
        assert (await body_of(searcher(server, *tools, code_executor=BuiltInCodeExecutor()), server))[
            "tools"
        ] == expected
    asked = len(server.requests)
    with pytest.raises(UnsupportedFeatureError, match=r"code_execution.*openai-responses/"):
        await Chat(LlmAgent(name="root", model=gpt(server, api="chat"), code_executor=BuiltInCodeExecutor())).say("go")
    assert len(server.requests) == asked


async def test_what_code_printed_is_asked_for(server: WireServer) -> None:
    """Without that, it does not come."""
    assert (await body_of(searcher(server, code_execution), server))["include"] == ["code_interpreter_call.outputs"]


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        (url_context, ("web_fetch", "native_or")),
        (enterprise_web_search, ("enterprise_web_search", "OpenAI")),
        (ServerTool("web_search", max_uses=2), ("`max_uses`", "`allowed_domains`")),
        (ServerTool("file_search"), ("`vector_store_ids`",)),
    ],
)
async def test_what_openai_does_not_have_is_refused_before_the_call(
    server: WireServer, tool: Any, told: tuple[str, ...]
) -> None:
    """The error names the model, the tool and what to do, and nothing is sent."""
    with pytest.raises(UnsupportedFeatureError) as raised:
        await Chat(searcher(server, tool)).say("go")
    assert all(each in str(raised.value) for each in ("gpt-5", *told))
    assert server.requests == []


async def test_chat_completions_run_no_tools(server: WireServer) -> None:
    """The error says where they are; a function takes their place."""
    with pytest.raises(UnsupportedFeatureError, match=r"web_search.*openai-responses/"):
        await Chat(LlmAgent(name="root", model=gpt(server, api="chat"), tools=[google_search])).say("go")
    assert server.requests == []
    either = LlmAgent(name="root", model=gpt(server, api="chat"), tools=[google_search.native_or(add)])
    server.replies.append(said("done"))
    await Chat(either).say("go")
    assert [each["function"]["name"] for each in server.requests[-1].json["tools"]] == ["add"]


def said(text: str) -> Reply:
    """An answer of chat completions."""
    choice = {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": text}}
    return Reply([json.dumps({"id": "c", "object": "chat.completion", "choices": [choice]}).encode()])


async def test_a_search_stands_beside_functions(server: WireServer) -> None:
    """Both are the model's to choose."""
    body = await body_of(searcher(server, google_search, add), server)
    assert [each["type"] for each in body["tools"]] == ["web_search", "function"]


@STREAMS
async def test_a_conversation_with_a_search_goes_back_as_it_came(server: WireServer, stream: bool) -> None:
    """Thoughts, searches and messages with their sources of the first turn are in the second one."""
    conversation = chat(searcher(server, google_search), stream)
    server.replies += [reply(*SEARCHED, stream=stream), reply(DONE, stream=stream)]
    await conversation.say("What does it cost?")
    await conversation.say("And where?")
    sent = server.requests[-1].json["input"][1:-1]
    assert sent == SEARCHED
    assert json.dumps(sent[1:]) == json.dumps(SEARCHED[1:])
    for item in sent:
        TypeAdapter(ResponseInputItemParam).validate_python(item)


@STREAMS
async def test_citations_point_at_the_words_that_they_support(server: WireServer, stream: bool) -> None:
    """In bytes of the whole text, though OpenAI counts the characters of each message."""
    server.replies.append(reply(*SEARCHED, stream=stream))
    event = (await chat(searcher(server, google_search), stream).say("go"))[-1]
    grounding = event.grounding_metadata
    assert grounding is not None
    assert event.text == SAID + SECOND
    data = event.text.encode()
    segments = [each.segment for each in grounding.grounding_supports or () if each.segment is not None]
    words = [data[each.start_index : each.end_index].decode() for each in segments]
    assert words == [each.text for each in segments] == [CLAIM, "opens at eight"]
    assert [source.title for source in ParsedEvent(event).sources] == ["Menu", "Hours"]
    assert event.searches == 2


@STREAMS
async def test_what_ran_is_a_call_of_the_provider(server: WireServer, stream: bool) -> None:
    """It starts and finishes once, with what it was asked and what it gave."""
    server.replies.append(reply(SEARCH, CODE, FAILED, DONE, stream=stream))
    events = await chat(searcher(server, google_search, code_execution), stream).say("go")
    shown = [each.to_dict() for each in run_stream_of(events) if each.type.startswith("tool_call")]
    assert all(each["provider"] for each in shown if each["type"] != "tool_call_arguments_completed")
    started = [(each["callId"], each["name"]) for each in shown if each["type"] == "tool_call_started"]
    assert started == [("ws_1", "web_search"), ("ci_1", "code_execution"), ("ci_2", "code_execution")]
    search, code, failed = [each for each in shown if each["type"] == "tool_call_finished"]
    assert search["result"] == {"status": "completed"}
    assert code["result"]["outputs"] == [{"type": "logs", "logs": "42\n"}]
    assert failed["error"] == "The tool is failed."
    assert shown[-2]["args"] == {"code": "print(42)"}


async def test_a_search_is_shown_before_it_is_done(server: WireServer) -> None:
    """A stream tells that it has begun."""
    server.replies.append(reply(*SEARCHED, stream=True))
    events = await chat(searcher(server, google_search), True).say("go")
    shown = [each.type for each in run_stream_of(events)]
    assert shown.index("tool_call_started") < shown.index("tool_call_finished") < shown.index("text_delta")


@STREAMS
@pytest.mark.parametrize("decision", [True, False])
async def test_an_approval_for_a_remote_server_is_a_confirmation(
    server: WireServer, stream: bool, decision: bool
) -> None:
    """The run waits for a person; the decision goes back to the provider, which makes the call."""
    agent = searcher(server, DOCS)
    conversation = chat(agent, stream)
    server.replies += [reply(LISTED, APPROVAL, stream=stream), reply(CALLED, DONE, stream=stream)]
    await conversation.say("Erase it.")
    [pending] = pending_calls(await conversation.stored())
    assert (pending.name, pending.args) == ("docs", {"tool": "erase", "arguments": {"page": "é"}})
    events = await conversation.answer(pending.approve() if decision else pending.reject())
    sent = server.requests[-1].json["input"][1:]
    assert sent[:2] == [LISTED, APPROVAL]
    approval = {"type": "mcp_approval_response", "approval_request_id": "mcpr_1", "approve": decision}
    assert sent[2:] == [approval]
    TypeAdapter(ResponseInputItemParam).validate_python(approval)
    [finished] = [each.to_dict() for each in run_stream_of(events) if each.to_dict().get("callId") == "mcp_1"][-1:]
    assert (finished["name"], finished["result"]["output"]) == ("erase", "gone")


async def test_a_conversation_moves_to_another_provider(server: WireServer) -> None:
    """What OpenAI ran stays behind; what it said goes along."""
    conversation = Chat(searcher(server, google_search))
    server.replies.append(reply(*SEARCHED, stream=False))
    events = await conversation.say("What does it cost?")
    with WireServer() as google:
        gemini = Gemini(model="gemini-3-pro", base_url=google.url, api_key="key", retry_options=ONCE)
        history = [event.content for event in events if event.content is not None]
        google.replies.append(whole(text("Hm.")))
        await responses(gemini, ask(*history))
        parts = google.requests[-1].json["contents"][0]["parts"]
    assert parts == [{"text": SAID}, {"text": SECOND}]


async def test_words_that_were_changed_go_back_without_what_stood_around_them(server: WireServer) -> None:
    """Where a callback edits an answer, its sources do not fit any more."""

    def shorten(callback_context: Any, llm_response: Any) -> Any:
        for part in (llm_response.content and llm_response.content.parts) or ():
            if part.text == SECOND:
                part.text = "Changed."
        return llm_response

    conversation = Chat(searcher(server, google_search, after_model_callback=shorten))
    server.replies += [reply(*SEARCHED, stream=False), reply(DONE, stream=False)]
    await conversation.say("go")
    await conversation.say("go on")
    sent = server.requests[-1].json["input"][1:-1]
    assert sent[-2] == FIRST
    assert sent[-1]["content"] == [{"type": "output_text", "text": "Changed."}]


def test_the_answers_of_these_tests_are_those_of_the_service() -> None:
    """The SDK's types read them."""
    read = Response.model_validate(response(*SEARCHED, CODE, LISTED, APPROVAL, CALLED))
    assert [item.type for item in read.output][:2] == ["reasoning", "web_search_call"]
    assert REASONING["id"] == "rs_1"
