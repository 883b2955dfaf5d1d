"""Tools that Anthropic runs: how they are asked for, and what comes of them, by real runs over a loopback server."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterator
from typing import Any

import pytest
from anthropic.types import Message
from kit import STREAMED, Chat
from models.wire_server import WireServer
from providers.anthropic_wire import messages_problem
from server_tools.anthropic_search import (
    CLAIM,
    FAILED,
    FOUND,
    HELLO,
    RAN,
    REST,
    RUN,
    SEARCHED,
    USE,
    message,
    reply,
)

from flowloom import AnthropicModel, BuiltInCodeExecutor, LlmAgent, RetryOptions
from flowloom.errors import UnsupportedFeatureError
from flowloom.interop.parsed import ParsedEvent
from flowloom.run_stream import run_stream_of
from flowloom.tools import ServerTool, code_execution, google_maps_grounding, google_search, url_context

STREAMS = pytest.mark.parametrize("stream", [False, True])
PRINTED = {**RAN, "content": {**RAN["content"], "content": []}}
SAY_DONE = {"type": "text", "text": "done"}


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


def claude(server: WireServer, model: str = "claude-sonnet-5-5") -> AnthropicModel:
    return AnthropicModel(model=model, base_url=server.url, retry_options=RetryOptions(attempts=1), cache=None)


def searcher(server: WireServer, *tools: Any, model: str = "claude-sonnet-5-5", **fields: Any) -> LlmAgent:
    return LlmAgent(name="root", model=claude(server, model), tools=tools, **fields)


def chat(agent: LlmAgent, stream: bool) -> Chat:
    return Chat(agent, config=STREAMED if stream else None)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def body_of(agent: LlmAgent, server: WireServer) -> Any:
    server.replies.append(reply(SAY_DONE, stream=False))
    await Chat(agent).say("go")
    return server.requests[-1].json


WRITTEN: dict[str, tuple[Any, dict[str, Any]]] = {
    "google_search": (google_search, {"type": "web_search_20260318", "name": "web_search"}),
    "web_search": (
        ServerTool("web_search", max_uses=3, allowed_domains=["a.example"], user_location={"city": "Wien"}),
        {
            "type": "web_search_20260318",
            "name": "web_search",
            "max_uses": 3,
            "allowed_domains": ["a.example"],
            "user_location": {"type": "approximate", "city": "Wien"},
        },
    ),
    "url_context": (url_context, {"type": "web_fetch_20260318", "name": "web_fetch"}),
    "web_fetch": (
        ServerTool("web_fetch", citations=True, max_content_tokens=900),
        {"type": "web_fetch_20260318", "name": "web_fetch", "citations": {"enabled": True}, "max_content_tokens": 900},
    ),
    "code_execution": (code_execution, {"type": "code_execution_20260521", "name": "code_execution"}),
    "raw": (
        ServerTool(raw={"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"}),
        {"type": "tool_search_tool_bm25_20251119", "name": "tool_search_tool_bm25"},
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
async def test_a_tool_is_asked_for_as_anthropic_has_it(server: WireServer, kind: str) -> None:
    """In the newest version that the model takes; the SDK's types know the request."""
    tool, expected = WRITTEN[kind]
    body = await body_of(searcher(server, tool), server)
    assert body["tools"] == [expected]
    assert messages_problem(body) is None


async def test_older_models_are_given_the_versions_that_they_know(server: WireServer) -> None:
    """The table says which."""
    tools = (google_search, url_context, code_execution)
    body = await body_of(searcher(server, *tools, model="claude-haiku-4-5"), server)
    assert [each["type"] for each in body["tools"]] == [
        "web_search_20250305",
        "web_fetch_20250910",
        "code_execution_20260521",
    ]
    assert messages_problem(body) is None


async def test_a_remote_mcp_server_is_asked_for_with_its_tools_and_the_beta_that_it_needs(server: WireServer) -> None:
    """The token stands with the server alone."""
    docs = ServerTool(
        "remote_mcp", server_url="https://d.example/mcp", server_label="docs", authorization="k", allowed_tools=["find"]
    )
    body = await body_of(searcher(server, docs), server)
    assert body["mcp_servers"] == [
        {"type": "url", "url": "https://d.example/mcp", "name": "docs", "authorization_token": "k"}
    ]
    assert body["tools"] == [
        {
            "type": "mcp_toolset",
            "mcp_server_name": "docs",
            "default_config": {"enabled": False},
            "configs": {"find": {"enabled": True}},
        }
    ]
    assert server.requests[-1].header("anthropic-beta") == ["mcp-client-2025-11-20"]


@pytest.mark.parametrize(
    ("tool", "told"),
    [
        (google_maps_grounding, ("google_maps", "Anthropic")),
        (ServerTool("file_search", vector_store_ids=["v"]), ("file_search", "native_or")),
        (ServerTool("web_search", blocked_domains=["x"], search_context_size="low"), ("`search_context_size`",)),
        (ServerTool("remote_mcp", server_url="https://d.example"), ("`server_label`",)),
        (ServerTool("web_search", filters={}), ("`filters`",)),
    ],
)
async def test_what_anthropic_does_not_have_is_refused_before_the_call(
    server: WireServer, tool: Any, told: tuple[str, ...]
) -> None:
    """The error names the model, the tool and what to do, and nothing is sent."""
    with pytest.raises(UnsupportedFeatureError) as raised:
        await Chat(searcher(server, tool)).say("go")
    assert all(each in str(raised.value) for each in ("claude-sonnet-5-5", *told))
    assert server.requests == []


async def test_a_built_in_code_executor_is_the_same_as_the_tool(server: WireServer) -> None:
    """Anthropic runs the code, and functions stand beside it."""
    body = await body_of(searcher(server, add, code_executor=BuiltInCodeExecutor()), server)
    assert [each["name"] for each in body["tools"]] == ["code_execution", "add"]


async def test_a_search_stands_beside_functions(server: WireServer) -> None:
    """Both are the model's to choose."""
    body = await body_of(searcher(server, google_search, add), server)
    assert [each["name"] for each in body["tools"]] == ["web_search", "add"]


@STREAMS
async def test_a_conversation_with_a_search_goes_back_as_it_came(server: WireServer, stream: bool) -> None:
    """Blocks, encrypted contents and citations of the first turn are in the second one, to the byte."""
    conversation = chat(searcher(server, google_search), stream)
    server.replies += [reply(*SEARCHED, stream=stream), reply(SAY_DONE, stream=stream)]
    await conversation.say("What does it cost?")
    await conversation.say("And where?")
    body = server.requests[-1].json
    assert json.dumps(body["messages"][1]["content"]) == json.dumps(SEARCHED)
    assert messages_problem(body) is None


@STREAMS
async def test_citations_point_at_the_words_that_they_support(server: WireServer, stream: bool) -> None:
    """In bytes of the text, whatever emoji and accents stand before them; each page is one source."""
    server.replies.append(reply(*SEARCHED, stream=stream))
    event = (await chat(searcher(server, google_search), stream).say("go"))[-1]
    grounding = event.grounding_metadata
    assert grounding is not None
    assert event.text == HELLO + CLAIM + REST + "."
    data = event.text.encode()
    supports = [
        (data[each.segment.start_index : each.segment.end_index].decode(), each.grounding_chunk_indices)
        for each in grounding.grounding_supports or ()
        if each.segment is not None
    ]
    assert supports == [(CLAIM, [0]), (REST, [1, 0])]
    assert [tuple(each) for each in ParsedEvent(event).sources] == [
        ("https://elan.example/menu", "Menu"),
        ("https://elan.example/", "Élan"),
    ]
    assert event.searches == 1


@STREAMS
async def test_a_search_is_a_call_of_the_provider(server: WireServer, stream: bool) -> None:
    """It starts, and finishes with what a person may see; what is encrypted is not shown."""
    server.replies.append(reply(*SEARCHED, stream=stream))
    events = await chat(searcher(server, google_search), stream).say("go")
    shown = [each.to_dict() for each in run_stream_of(events) if each.type.startswith("tool_call")]
    started, completed, finished = shown
    assert (started["callId"], started["name"], started["provider"]) == ("srvtoolu_1", "web_search", True)
    assert completed["args"] == USE["input"]
    assert finished["provider"]
    assert finished["result"]["results"][0]["url"] == "https://elan.example/menu"
    assert "RW5jcnlwdGVk" not in json.dumps(finished)


@STREAMS
async def test_a_search_that_failed_is_a_call_with_an_error(server: WireServer, stream: bool) -> None:
    """Its code is told."""
    server.replies.append(reply(USE, FAILED, SAY_DONE, stream=stream))
    events = await chat(searcher(server, google_search), stream).say("go")
    [finished] = [each.to_dict() for each in run_stream_of(events) if each.type == "tool_call_finished"]
    assert finished["error"] == "max_uses_exceeded"


async def test_a_call_is_shown_before_its_result_is_there(server: WireServer) -> None:
    """A stream tells that a search has begun."""
    server.replies.append(reply(*SEARCHED, stream=True))
    events = await chat(searcher(server, google_search), True).say("go")
    shown = [each.type for each in run_stream_of(events)]
    assert shown.index("tool_call_started") < shown.index("tool_call_finished")
    assert shown.index("tool_call_finished") < len(shown) - 1 - shown[::-1].index("text_delta")


@STREAMS
async def test_a_function_beside_a_search_is_called_and_the_search_goes_on_after_it(
    server: WireServer, stream: bool
) -> None:
    """A search without a result, beside a call of ours, is run by the provider once it has our result."""
    ours = {"type": "tool_use", "id": "toolu_1", "name": "add", "input": {"a": 1, "b": 2}}
    server.replies += [reply(USE, ours, stream=stream, stop="tool_use"), reply(FOUND, SAY_DONE, stream=stream)]
    events = await chat(searcher(server, google_search, add), stream).say("go")
    body = server.requests[-1].json
    assert body["messages"][1]["content"] == [USE, ours]
    assert [each["type"] for each in body["messages"][2]["content"]] == ["tool_result"]
    finished = [each.to_dict() for each in run_stream_of(events) if each.type == "tool_call_finished"]
    assert [(each["callId"], each["provider"]) for each in finished] == [("toolu_1", False), ("srvtoolu_1", True)]


@STREAMS
async def test_a_search_that_never_ran_is_not_given_back_once_the_user_says_more(
    server: WireServer, stream: bool
) -> None:
    """Anthropic refuses a conversation in which the turn is over and a call of its own has no result."""
    conversation = chat(searcher(server, google_search), stream)
    server.replies += [reply(SAY_DONE, USE, stream=stream, stop="max_tokens"), reply(SAY_DONE, stream=stream)]
    await conversation.say("go")
    await conversation.say("more")
    assert server.requests[-1].json["messages"][1]["content"] == [SAY_DONE]


@STREAMS
async def test_a_pause_is_continued_within_the_step(server: WireServer, stream: bool) -> None:
    """What was said goes back as it came, and the answer is one: text, sources, tokens."""
    halves = SEARCHED[:4], SEARCHED[4:]
    server.replies += [
        reply(
            *halves[0], stream=stream, stop="pause_turn", container={"id": "c_1", "expires_at": "2020-01-01T00:00:00Z"}
        ),
        reply(*halves[1], stream=stream),
    ]
    events = await chat(searcher(server, google_search), stream).say("go")
    assert [event.partial for event in events if not event.partial] == [None]
    first, second = [seen.json for seen in server.requests]
    assert second["messages"] == [*first["messages"], {"role": "assistant", "content": SEARCHED[:4]}]
    assert messages_problem({**second, "messages": first["messages"]}) is None
    assert second["container"] == "c_1"
    whole = events[-1]
    assert whole.text == HELLO + CLAIM + REST + "."
    assert whole.usage_metadata is not None
    assert whole.usage_metadata.candidates_token_count == 40
    assert whole.grounding_metadata is not None
    segment = (whole.grounding_metadata.grounding_supports or [])[0].segment
    assert segment is not None
    assert whole.text.encode()[segment.start_index : segment.end_index].decode() == CLAIM


async def test_an_answer_is_continued_ten_times_at_most(server: WireServer) -> None:
    """What there is then is the answer."""
    server.replies += [reply({"type": "text", "text": f"{n} "}, stream=False, stop="pause_turn") for n in range(12)]
    [event] = await Chat(searcher(server, google_search)).say("go")
    assert len(server.requests) == 11
    assert event.text == "0 1 2 3 4 5 6 7 8 9 10 "


@STREAMS
async def test_code_runs_again_where_it_ran_before(server: WireServer, stream: bool) -> None:
    """As long as its container is there; what it left there is found again."""
    later = (datetime.datetime.now(datetime.UTC) + datetime.timedelta(minutes=5)).isoformat()
    container = {"id": "container_1", "expires_at": later}
    conversation = chat(searcher(server, code_execution), stream)
    ran = (RUN, PRINTED, SAY_DONE)
    server.replies += [reply(*ran, stream=stream, container=container), reply(SAY_DONE, stream=stream)]
    await conversation.say("go")
    await conversation.say("again")
    assert server.requests[-1].json["container"] == "container_1"
    gone = {**container, "expires_at": "2020-01-01T00:00:00Z"}
    server.replies += [reply(*ran, stream=stream, container=gone), reply(SAY_DONE, stream=stream)]
    await conversation.say("go")
    await conversation.say("again")
    assert "container" not in server.requests[-1].json


async def test_other_agents_and_other_providers_are_not_shown_what_ran(server: WireServer) -> None:
    """They are told what was said."""
    other = LlmAgent(name="other", model=claude(server), disallow_transfer_to_parent=True)
    hand_over = {"type": "tool_use", "id": "toolu_9", "name": "transfer_to_agent", "input": {"agent_name": "other"}}
    server.replies += [reply(*SEARCHED, hand_over, stream=False, stop="tool_use"), reply(SAY_DONE, stream=False)]
    await Chat(searcher(server, google_search, sub_agents=[other])).say("go")
    sent = json.dumps(server.requests[-1].json["messages"], ensure_ascii=False)
    assert CLAIM in sent
    assert not any(each in sent for each in ("srvtoolu", "RW5jcnlwdGVk", "elan.example"))


def test_the_answers_of_these_tests_are_those_of_the_service() -> None:
    """The SDK's types read them."""
    read = Message.model_validate(message(*SEARCHED, RUN, RAN))
    kinds = [type(block).__name__ for block in read.content]
    assert kinds[2:4] == ["ServerToolUseBlock", "WebSearchToolResultBlock"]
