"""Tools that Gemini runs: how they are asked for, and what comes of them, by real runs over a loopback server."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat
from models.gemini_wire import answer, streamed, text, whole
from models.wire_server import WireServer
from server_tools.gemini_search import CHUNKS, CLAIM, ENTRY, SAID, grounded, grounding, support, whole_of

from flowloom import AgentTool, Event, Gemini, LlmAgent, LlmRequest, RetryOptions
from flowloom.errors import ConfigurationError, UnsupportedFeatureError
from flowloom.interop.parsed import ParsedEvent
from flowloom.run_stream import ToolCallFinished, ToolCallStarted, UsageReported, run_stream_of
from flowloom.tools import (
    GoogleSearchAgentTool,
    GoogleSearchTool,
    ServerTool,
    code_execution,
    enterprise_web_search,
    google_maps_grounding,
    google_search,
    url_context,
)


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


def gemini(server: WireServer, model: str = "gemini-2.5-flash", **fields: Any) -> Gemini:
    return Gemini(model=model, base_url=server.url, api_key="key", retry_options=RetryOptions(attempts=1), **fields)


def searcher(server: WireServer, *tools: Any, model: str = "gemini-2.5-flash", **fields: Any) -> LlmAgent:
    vertex = {"vertexai": True} if fields.pop("vertex", False) else {}
    return LlmAgent(name="root", model=gemini(server, model, **vertex), tools=tools, **fields)


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def body_of(agent: LlmAgent, server: WireServer) -> Any:
    server.replies.append(whole(text("done")))
    await Chat(agent).say("go")
    return server.requests[-1].json


WRITTEN: dict[str, tuple[Any, dict[str, Any]]] = {
    "google_search": (google_search, {"googleSearch": {}}),
    "web_search": (ServerTool("web_search"), {"googleSearch": {}}),
    "url_context": (url_context, {"urlContext": {}}),
    "web_fetch": (ServerTool("web_fetch"), {"urlContext": {}}),
    "code_execution": (code_execution, {"codeExecution": {}}),
    "file_search": (
        ServerTool("file_search", file_search_store_names=["fileSearchStores/s"], top_k=3),
        {"fileSearch": {"file_search_store_names": ["fileSearchStores/s"], "top_k": 3}},
    ),
    "remote_mcp": (
        ServerTool("remote_mcp", server_label="docs", server_url="https://docs.example/mcp", authorization="k"),
        {
            "mcpServers": [
                {
                    "name": "docs",
                    "streamable_http_transport": {
                        "url": "https://docs.example/mcp",
                        "headers": {"Authorization": "Bearer k"},
                    },
                }
            ]
        },
    ),
    "google_maps": (google_maps_grounding, {"googleMaps": {}}),
    "a type of google-genai": (types.Tool(google_search=types.GoogleSearch()), {"googleSearch": {}}),
    "raw": (ServerTool(raw={"google_search": {}}), {"googleSearch": {}}),
}


@pytest.mark.parametrize("kind", WRITTEN)
async def test_a_tool_is_asked_for_as_gemini_has_it(server: WireServer, kind: str) -> None:
    """A server tool is an entry of its own among the request's tools, and declares no function."""
    tool, expected = WRITTEN[kind]
    assert (await body_of(searcher(server, tool), server))["tools"] == [expected]


async def test_the_search_for_enterprises_is_there_on_vertex_ai(server: WireServer) -> None:
    """So are domains that a search leaves out."""
    search = ServerTool("web_search", blocked_domains=["spam.example"])
    body = await body_of(searcher(server, enterprise_web_search, search, vertex=True), server)
    assert body["tools"] == [{"enterpriseWebSearch": {}}, {"googleSearch": {"exclude_domains": ["spam.example"]}}]


REFUSED: dict[str, tuple[Any, str, tuple[str, ...]]] = {
    "a kind of others": (ServerTool("image_generation"), "gemini-2.5-flash", ("image_generation", "native_or")),
    "an old model": (google_search, "gemini-1.5-pro", ("web_search", "gemini-1.5-pro", "from version 2.0")),
    "an option of others": (
        ServerTool("web_search", max_uses=2),
        "gemini-2.5-flash",
        ("`max_uses`", "blocked_domains"),
    ),
    "what is missing": (ServerTool("file_search"), "gemini-2.5-flash", ("`file_search_store_names`",)),
    "a tool of Vertex AI": (enterprise_web_search, "gemini-2.5-flash", ("Vertex AI", "the Gemini API")),
}


@pytest.mark.parametrize("case", REFUSED)
async def test_what_the_model_cannot_run_is_refused_before_the_call(server: WireServer, case: str) -> None:
    """The error names the model, the tool and what to do, and nothing is sent."""
    tool, model, told = REFUSED[case]
    with pytest.raises(UnsupportedFeatureError) as raised:
        await Chat(searcher(server, tool, model=model)).say("go")
    assert all(each in str(raised.value) for each in (model, *told))
    assert server.requests == []


async def test_a_search_beside_a_function_is_refused_where_the_model_cannot_combine_them(server: WireServer) -> None:
    """Gemini 2 answers such a request with an error that names no tool."""
    with pytest.raises(
        UnsupportedFeatureError, match=r"gemini-2\.5-flash.*web_search.*`add`.*bypass_multi_tools_limit"
    ):
        await Chat(searcher(server, google_search, add)).say("go")
    assert server.requests == []


async def test_a_search_beside_a_function_is_sent_to_a_model_that_combines_them(server: WireServer) -> None:
    """Gemini 3 does, and shows what it ran so that it can be given back."""
    body = await body_of(searcher(server, google_search, add, model="gemini-3-pro"), server)
    assert [list(tool) for tool in body["tools"]] == [["googleSearch"], ["functionDeclarations"]]
    assert body["toolConfig"] == {"includeServerSideToolInvocations": True}


async def test_the_limit_is_bypassed_by_an_agent_that_searches(server: WireServer) -> None:
    """The model calls it as a function; its answer has been searched for, and its sources are in the state."""
    agent = searcher(server, GoogleSearchTool(bypass_multi_tools_limit=True), add)
    asked = {"functionCall": {"name": "google_search_agent", "args": {"request": "the menu"}}}
    server.replies += [whole(asked), grounded(stream=False), whole(text("Nine euros."))]
    chat = Chat(agent)
    events = await chat.say("What does it cost?")
    first, search, _ = [seen.json for seen in server.requests]
    assert [each["name"] for each in first["tools"][0]["functionDeclarations"]] == ["google_search_agent", "add"]
    assert search["tools"] == [{"googleSearch": {}}]
    [answer] = [each for event in events for each in event.get_function_responses()]
    assert answer.response == {"result": SAID}


async def test_the_limit_is_not_bypassed_where_there_is_none(server: WireServer) -> None:
    """Alone, or for a model that combines them, the search is the model's own."""
    alone = await body_of(searcher(server, GoogleSearchTool(bypass_multi_tools_limit=True)), server)
    assert alone["tools"] == [{"googleSearch": {}}]
    newer = searcher(server, GoogleSearchTool(bypass_multi_tools_limit=True), add, model="gemini-3-flash")
    assert (await body_of(newer, server))["tools"][0] == {"googleSearch": {}}


async def test_a_search_has_a_model_of_its_own(server: WireServer) -> None:
    """`GoogleSearchTool(model=...)` is asked in place of the agent's."""
    await body_of(searcher(server, GoogleSearchTool(model="gemini-2.5-pro")), server)
    assert "gemini-2.5-pro:" in server.requests[-1].path


async def test_a_function_takes_the_place_of_a_tool_that_the_model_does_not_have(server: WireServer) -> None:
    """And only there."""

    def draw(what: str) -> str:
        """Draw."""
        return what

    missing = await body_of(searcher(server, ServerTool("image_generation").native_or(draw)), server)
    assert [each["name"] for each in missing["tools"][0]["functionDeclarations"]] == ["draw"]
    native = await body_of(searcher(server, ServerTool("web_fetch").native_or(draw)), server)
    assert native["tools"] == [{"urlContext": {}}]


async def test_a_function_takes_the_place_of_a_tool_that_cannot_stand_beside_functions(server: WireServer) -> None:
    """It is called like any function."""

    def look_up(what: str) -> str:
        """Look it up."""
        return f"about {what}"

    agent = searcher(server, google_search.native_or(look_up), add)
    server.replies += [whole({"functionCall": {"name": "look_up", "args": {"what": "x"}}}), whole(text("done"))]
    events = await Chat(agent).say("go")
    [answer] = [each for event in events for each in event.get_function_responses()]
    assert answer.response == {"result": "about x"}


@pytest.mark.parametrize("stream", [False, True])
async def test_what_a_search_found_is_grounding_and_sources(server: WireServer, stream: bool) -> None:
    """Streamed or not, the supports point at the words that they support, in bytes; the HTML for hosts is kept."""
    server.replies.append(grounded(stream=stream))
    events = await Chat(searcher(server, google_search), config=STREAMED if stream else None).say("go")
    last = events[-1]
    assert not last.partial
    found = last.grounding_metadata
    assert found is not None
    assert [source.url for source in ParsedEvent(last).sources] == [each["web"]["uri"] for each in CHUNKS]
    assert found.search_entry_point is not None
    assert found.search_entry_point.rendered_content == ENTRY["renderedContent"]
    assert supported(last) == [CLAIM, "It opens at eight."]


async def test_what_a_stream_tells_of_a_search_in_turns_is_told_together(server: WireServer) -> None:
    """Queries in one chunk, sources in another."""
    first, last = answer(text("Found.")), answer(finish="STOP")
    first["candidates"][0]["groundingMetadata"] = {"groundingChunks": CHUNKS}
    last["candidates"][0]["groundingMetadata"] = {"webSearchQueries": ["menu"]}
    server.replies.append(streamed(first, last))
    event = (await Chat(searcher(server, google_search), config=STREAMED).say("go"))[-1]
    assert (event.searches, len(ParsedEvent(event).sources)) == (1, 2)


MENU, LOCKED = "https://elan.example/menu", "https://elan.example/staff"


def pages(**read: str) -> dict[str, Any]:
    """What Gemini says of the pages that it was to read, and whether it could."""
    addresses = {"menu": MENU, "locked": LOCKED}
    told = [
        {"retrievedUrl": addresses[name], "urlRetrievalStatus": f"URL_RETRIEVAL_STATUS_{how}"}
        for name, how in read.items()
    ]
    return {"urlMetadata": told}


@pytest.mark.parametrize("stream", [False, True])
async def test_pages_that_gemini_read_are_sources(server: WireServer, stream: bool) -> None:
    """Those that it could read, once each; what it says of the others is kept beside them."""
    first, last = answer(text("Crème brûlée.")), answer(finish="STOP")
    if stream:
        first["candidates"][0]["urlContextMetadata"] = pages(menu="UNSPECIFIED")
        last["candidates"][0]["urlContextMetadata"] = pages(locked="PAYWALL", menu="SUCCESS")
        server.replies.append(streamed(first, last))
    else:
        first["candidates"][0] |= {
            "urlContextMetadata": pages(menu="SUCCESS", locked="PAYWALL"),
            "finishReason": "STOP",
        }
        first["candidates"][0]["groundingMetadata"] = {"groundingChunks": CHUNKS[:1]}
        server.replies.append(whole_of(first))
    chat = Chat(searcher(server, url_context), config=STREAMED if stream else None)
    event = (await chat.say(f"What is on {MENU} and {LOCKED}?"))[-1]
    told = event.url_context_metadata
    assert told is not None
    assert told.url_metadata is not None
    assert {page.retrieved_url for page in told.url_metadata} == {MENU, LOCKED}
    assert [source.url for source in ParsedEvent(event).sources] == [MENU]
    assert Event.model_validate(event.to_wire()).url_context_metadata == told


def supported(event: Any) -> list[str]:
    """The words that each support of an event points at."""
    data = event.text.encode()
    segments = [each.segment for each in event.grounding_metadata.grounding_supports]
    return [data[each.start_index or 0 : each.end_index].decode() for each in segments]


async def test_supports_of_an_answer_in_several_parts_point_into_its_text(server: WireServer) -> None:
    """Gemini counts from the beginning of a part, thoughts included."""
    first, second = "Crème 🍮: ", "It costs 9 €."
    parts = (text("Hm é.", thought=True), text(first), {"executableCode": {"code": "1"}}, text(second))
    metadata = grounding(support("9 €.", 0, within=second, part=3), support("Crème", 1, within=first, part=1))
    server.replies.append(grounded(*parts, stream=False, metadata=metadata))
    [event] = await Chat(searcher(server, google_search)).say("go")
    assert supported(event) == ["9 €.", "Crème"]


async def test_a_run_counts_what_tools_took_and_how_often_was_searched(server: WireServer) -> None:
    """Tokens of results, and searches, in the run stream."""
    server.replies.append(grounded(stream=False))
    events = await Chat(searcher(server, google_search)).say("go")
    [reported] = [each for each in run_stream_of(events) if isinstance(each, UsageReported)]
    assert (reported.usage.tool_tokens, reported.usage.searches) == (30, 2)


RAN = (
    {"executableCode": {"code": "print(6 * 7)", "language": "PYTHON"}, "thoughtSignature": "c2lnbg=="},
    {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": "42\n"}},
    {"text": "It is 42."},
)


@pytest.mark.parametrize("stream", [False, True])
async def test_code_that_gemini_ran_is_a_call_of_the_provider(server: WireServer, stream: bool) -> None:
    """It starts and finishes once, and no tool of ours is called."""
    server.replies.append(grounded(*RAN, stream=stream, metadata={}))
    events = await Chat(searcher(server, code_execution), config=STREAMED if stream else None).say("go")
    shown = list(run_stream_of(events))
    [started] = [each for each in shown if isinstance(each, ToolCallStarted)]
    [finished] = [each for each in shown if isinstance(each, ToolCallFinished)]
    assert (started.name, started.provider, finished.provider) == ("code_execution", True, True)
    assert (finished.call_id, finished.error) == (started.call_id, None)
    assert finished.result == {"outcome": "OUTCOME_OK", "output": "42\n"}


MADE = (
    {
        "toolCall": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "args": {"queries": ["x"]}},
        "thoughtSignature": "c2lnbg==",
    },
    {
        "toolResponse": {"id": "s1", "toolType": "GOOGLE_SEARCH_WEB", "response": {"search_suggestions": "y"}},
        "thoughtSignature": "c2lnbmVk",
    },
)


@pytest.mark.parametrize("parts", [RAN, (*MADE, {"text": "Found."})])
@pytest.mark.parametrize("stream", [False, True])
async def test_what_gemini_ran_goes_back_as_it_came(server: WireServer, parts: Any, stream: bool) -> None:
    """The next turn has the parts with their signatures, unchanged and in order."""
    agent = searcher(server, google_search, code_execution)
    chat = Chat(agent, config=STREAMED if stream else None)
    server.replies += [grounded(*parts, stream=stream, metadata={}) for _ in range(2)]
    await chat.say("go")
    await chat.say("and then?")
    assert server.requests[-1].json["contents"][1]["parts"] == list(parts)


@pytest.mark.parametrize("stream", [False, True])
async def test_a_search_of_gemini_3_is_a_call_of_the_provider(server: WireServer, stream: bool) -> None:
    """Its name is that of the tool, its arguments are the model's."""
    server.replies.append(grounded(*MADE, {"text": "Found."}, stream=stream, metadata={}))
    events = await Chat(searcher(server, google_search), config=STREAMED if stream else None).say("go")
    shown = [each for each in run_stream_of(events) if each.type.startswith("tool_call")]
    assert [each.type for each in shown] == ["tool_call_started", "tool_call_arguments_completed", "tool_call_finished"]
    assert shown[1].to_dict()["args"] == {"queries": ["x"]}
    assert {each.to_dict()["name"] for each in shown} == {"google_search"}


async def test_what_a_provider_ran_is_not_shown_to_other_agents(server: WireServer) -> None:
    """They are told what the agent said."""
    other = LlmAgent(name="other", model=gemini(server), disallow_transfer_to_parent=True)
    agent = searcher(server, google_search, model="gemini-3-pro", sub_agents=[other])
    hand_over = {"functionCall": {"name": "transfer_to_agent", "args": {"agent_name": "other"}}}
    server.replies += [whole(*MADE, *RAN, hand_over), whole(text("Mine."))]
    await Chat(agent).say("go")
    told = [part for content in server.requests[-1].json["contents"] for part in content["parts"]]
    assert {name for part in told for name in part} == {"text"}
    assert any("It is 42." in part["text"] for part in told)


def test_a_kind_that_is_none_is_refused_when_the_tool_is_made() -> None:
    """With the nearest one that there is."""
    with pytest.raises(ConfigurationError, match="Did you mean `web_search`"):
        ServerTool("websearch")


def test_a_type_of_google_genai_that_declares_functions_is_no_tool_of_an_agent() -> None:
    """There is no code to call."""
    declared = types.Tool(function_declarations=[types.FunctionDeclaration(name="f")])
    with pytest.raises(ConfigurationError, match="Python functions"):
        LlmAgent(name="root", tools=[declared])


def test_an_agent_that_searches_is_a_tool_that_leaves_its_sources() -> None:
    """As in google-adk."""
    tool = GoogleSearchAgentTool(LlmAgent(name="searcher", tools=[google_search]))
    assert isinstance(tool, AgentTool)
    assert tool.propagate_grounding_metadata


def test_a_request_without_server_tools_has_none() -> None:
    """What is not asked for costs nothing and changes no name of a request."""
    assert LlmRequest.empty("m").server_tools is None
