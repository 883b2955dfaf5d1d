"""What `explain` and views of requests tell of tools that the model's provider runs."""

from __future__ import annotations

import json
from typing import Any

from google.genai import types

from flowloom import BuiltInCodeExecutor, LlmAgent, LlmRequest
from flowloom.inspection import RequestView, diff, explain
from flowloom.tools import ServerTool, google_search

TOKEN, HEADER, KEY = "hunter2-hunter2-hunter2", "s3same-s3same-s3same", "op3n-op3n-op3n-op3n"


def docs(token: str = TOKEN) -> ServerTool:
    return ServerTool(
        "remote_mcp",
        server_url="https://d.example",
        server_label="docs",
        authorization=token,
        headers={"X-Key": HEADER},
    )


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def explained(*tools: Any, **fields: Any) -> Any:
    return await explain(LlmAgent(name="root", model="openai-responses/gpt-5", tools=tools, **fields), "hi")


async def test_a_server_tool_is_a_piece_of_the_request_with_an_author() -> None:
    """Each stands by itself, whether google-genai has a type for it or not."""
    shown = await explained(add, google_search, ServerTool("file_search", vector_store_ids=["v"]), docs())
    found = {each.path: each.by for each in shown.sections if "tools" in each.path}
    assert found == {
        "config.tools[0].function_declarations[add]": "tool_declarations",
        "config.tools[1].google_search": "tool_declarations",
        "server_tools[0]": "tool_declarations",
        "server_tools[1]": "tool_declarations",
    }


async def test_they_stand_among_the_tools_in_the_report() -> None:
    """With their kind and options; a code executor's tool is by its own processor."""
    report = str(await explained(ServerTool("web_search", max_uses=3), code_executor=BuiltInCodeExecutor()))
    tools = report[report.index("Tools (2)") : report.index("Contents (1)")]
    assert '{"kind": "web_search", "options": {"max_uses": 3}}  ← tool_declarations' in tools
    assert "code_execution: {}  ← code_execution" in tools


async def test_their_credentials_are_hidden() -> None:
    """In the report, the page, the data, and in what differs between two requests."""
    maps = types.Tool(google_maps=types.GoogleMaps(auth_config=types.AuthConfig(api_key=KEY)))
    raw = ServerTool(raw={"type": "mcp", "authorization_token": TOKEN, "options": [{"headers": {"X-Key": HEADER}}]})
    shown = await explained(docs(), maps, raw)
    requests = [LlmRequest.empty("m"), LlmRequest.empty("m")]
    docs().put_into(requests[0])
    docs(f"another-{TOKEN}").put_into(requests[1])
    views = [RequestView(each) for each in requests]
    told = [str(shown), shown.to_html(), json.dumps(shown.to_dict()), str(diff(*views)), *map(str, views)]
    for text in told:
        assert all(secret not in text for secret in (TOKEN, HEADER, KEY))
    assert "(hidden)" in told[0]
