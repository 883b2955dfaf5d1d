"""When a server is asked for its tools, and what becomes of what it lists."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import Any

import pytest
from kit import Chat
from mcp_kit import Raw, asks

from flowloom.errors import DuplicateToolError
from flowloom.testing import call

PLAIN = {"type": "object"}


def listed(*names: str) -> list[dict[str, Any]]:
    return [{"name": name, "description": name, "inputSchema": PLAIN} for name in names]


async def names_of(toolset: Any) -> list[str]:
    try:
        return [tool.name for tool in await toolset.get_tools_with_prefix()]
    finally:
        await toolset.close()


async def test_a_list_is_asked_for_once_per_agent_run(tmp_path: Path) -> None:
    """Not per step; a server that tells of no changes is asked again in the next run."""
    raw = Raw(tmp_path)
    chat = Chat(asks(raw.toolset(), call("echo", text="a"), call("echo", text="b"), "ok", "again"))
    await chat.say("go")
    assert len(raw.received("tools/list")) == 1
    await chat.say("again")
    assert len(raw.received("tools/list")) == 2
    await chat.runner.close()


async def test_a_server_that_tells_of_changes_is_not_asked_again(tmp_path: Path) -> None:
    """Later runs keep the list."""
    raw = Raw(tmp_path, list_changed=True)
    chat = Chat(asks(raw.toolset(), "one", "two", "three"))
    for word in ("a", "b", "c"):
        await chat.say(word)
    assert len(raw.received("tools/list")) == 1
    await chat.runner.close()


async def test_a_list_is_kept_for_as_long_as_the_program_says(tmp_path: Path) -> None:
    """`tool_list_cache_ttl_seconds` stands in for what the server does not promise."""
    raw = Raw(tmp_path)
    chat = Chat(asks(raw.toolset(tool_list_cache_ttl_seconds=60), "one", "two"))
    await chat.say("a")
    await chat.say("b")
    assert len(raw.received("tools/list")) == 1
    await chat.runner.close()


async def test_a_storm_of_changes_costs_one_listing(tmp_path: Path) -> None:
    """A thousand notifications: the next step declares the new tools, and the gone one is an error with names."""
    raw = Raw(tmp_path, list_changed=True, tools=listed("echo", "change"), tools_later=listed("echo", "texts"))
    toolset = raw.toolset()
    agent = asks(toolset, call("change", times=1000), [call("change"), call("texts")], "ok")
    chat = Chat(agent)
    events = await chat.say("go")
    assert len(raw.received("tools/list")) == 2
    declared = [
        [each.name for group in request.config.tools or [] for each in group.function_declarations or []]
        for request in agent.model.requests  # type: ignore[union-attr]
    ]
    assert declared == [["echo", "change"], ["echo", "texts"], ["echo", "texts"]]
    gone, new = [each.response for event in events for each in event.get_function_responses()][1:]
    assert "no tool `change`" in gone["error"]
    assert "`texts`" in gone["error"]
    assert new == {"result": "one\n\ntwo"}
    await chat.runner.close()


async def test_all_pages_are_read(tmp_path: Path) -> None:
    """Each page by its cursor."""
    many = [f"t{number}" for number in range(23)]
    raw = Raw(tmp_path, tools=listed(*many), page=5)
    assert await names_of(raw.toolset()) == many
    assert len(raw.received("tools/list")) == 5


@pytest.mark.parametrize("endless", ["loop", "on"])
async def test_endless_paging_ends(tmp_path: Path, endless: str) -> None:
    """A cursor that comes twice ends the list, and so does the thousandth page."""
    raw = Raw(tmp_path, tools=listed("a"), page=1, endless=endless)
    assert await names_of(raw.toolset(timeout=20)) == ["a"]
    assert len(raw.received("tools/list")) == (2 if endless == "loop" else 1000)


async def test_at_most_ten_thousand_tools_are_taken(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The rest is left out, with a warning."""
    raw = Raw(tmp_path, many=10_500, page=2100)
    toolset = raw.toolset(timeout=30)
    with caplog.at_level(logging.WARNING, "flowloom.mcp"):
        assert len(await names_of(toolset)) == 10_000
    assert "more tools than are taken" in caplog.text


async def test_names_are_made_fit_and_the_originals_go_over_the_wire(tmp_path: Path) -> None:
    """A dotted name is called by what the model knows, and known to the server by its own; a prefix comes first."""
    raw = Raw(tmp_path, tools=listed("echo"))
    toolset = raw.toolset(tool_name_prefix="far.away")
    chat = Chat(asks(toolset, call("far_away_echo", a=1), "ok"))
    events = await chat.say("go")
    assert events[1].get_function_responses()[0].response == {"result": '{"a": 1}'}
    assert raw.received("tools/call")[0]["params"]["name"] == "echo"
    await chat.runner.close()


async def test_the_engines_names_are_left_out(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """With a warning that names them."""
    raw = Raw(tmp_path, tools=listed("transfer_to_agent", "exit_loop", "adk_request_input", "echo"))
    assert await names_of(raw.toolset()) == ["echo"]
    assert "`transfer_to_agent`" in caplog.text


async def test_two_tools_of_one_name_name_their_servers(tmp_path: Path) -> None:
    """In one server and in two: an error that says where they come from."""
    raw, other = Raw(tmp_path, tools=listed("echo")), Raw(tmp_path, tools=listed("echo"), number=2)
    twice = Raw(tmp_path, tools=listed("echo", "echo"))
    with pytest.raises(DuplicateToolError, match=r"raw_server\.py.*two tools named `echo`"):
        await names_of(twice.toolset())
    first, second = raw.toolset(), other.toolset()
    chat = Chat(asks(first, "ok").clone(update={"tools": [first, second]}))
    with pytest.raises(DuplicateToolError, match=r"McpTool echo of .*raw_server\.py.* and <McpTool echo of"):
        await chat.say("go")
    await chat.runner.close()


async def test_one_bad_tool_does_not_take_the_list_away(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """What has no name is left out; a schema that cannot be used takes any arguments."""
    tools = [
        {"description": "nameless", "inputSchema": PLAIN},
        {"name": "no_schema"},
        {"name": "odd", "inputSchema": {"type": "object", "properties": {"a": {"$ref": "#/$defs/gone"}}}},
        {"name": "text", "inputSchema": "text"},
        {"name": "echo", "description": 7, "inputSchema": PLAIN},
        *listed("fine"),
    ]
    toolset = Raw(tmp_path, tools=tools).toolset()
    found = await toolset.get_tools()
    assert [tool.name for tool in found] == ["no_schema", "odd", "text", "fine"]
    assert [tool.declaration.parameters_json_schema for tool in found] == [PLAIN] * 4  # type: ignore[union-attr]
    assert "leads nowhere" in caplog.text
    await toolset.close()


@pytest.mark.parametrize(
    ("given", "declared"),
    [
        ({"type": "object", "properties": []}, PLAIN),
        ({"properties": {"a": {"type": "string"}}}, {"type": "object", "properties": {"a": {"type": "string"}}}),
        ({"type": ["object", "null"], "title": "t"}, {"type": "object", "title": "t"}),
        ({"type": "object", "required": "a"}, PLAIN),
        ({"type": "object", "properties": {"a": []}}, PLAIN),
        ({"type": "object", "$schema": 5}, PLAIN),
    ],
)
async def test_a_schema_is_taken_as_servers_mean_it(
    tmp_path: Path, given: dict[str, Any], declared: dict[str, Any]
) -> None:
    """Without a type, or with an empty list for an empty object; what is none takes any arguments, and its own tool is
    all that it costs."""
    toolset = Raw(tmp_path, tools=[{"name": "odd", "inputSchema": given}, *listed("fine")]).toolset()
    found = {tool.name: tool.declaration for tool in await toolset.get_tools()}
    assert found.keys() == {"odd", "fine"}
    assert found["odd"].parameters_json_schema == declared  # type: ignore[union-attr]
    await toolset.close()


@pytest.mark.parametrize(
    "wrong", [{"outputSchema": {"type": "string"}}, {"outputSchema": {"properties": []}}, {"annotations": "none"}]
)
async def test_what_a_tool_may_be_without_costs_no_tool(
    tmp_path: Path, wrong: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """It is left out where it cannot be read, with a warning; the rest of the tool stays."""
    schema = {"type": "object", "properties": {"text": {"type": "string"}}}
    toolset = Raw(tmp_path, tools=[{"name": "echo", "inputSchema": schema, **wrong}, *listed("fine")]).toolset()
    found = {tool.name: tool.declaration for tool in await toolset.get_tools()}
    assert found.keys() == {"echo", "fine"}
    assert found["echo"].parameters_json_schema == schema  # type: ignore[union-attr]
    assert f"left out: {next(iter(wrong))}" in caplog.text
    await toolset.close()


async def test_a_schema_is_declared_as_it_came(tmp_path: Path) -> None:
    """Order, references, unions, constants and formats are kept."""
    schema = {
        "type": "object",
        "required": ["z"],
        "properties": {
            "z": {"$ref": "#/$defs/day"},
            "a": {"anyOf": [{"type": "integer"}, {"const": "all"}], "description": "How many\u200b."},
        },
        "$defs": {"day": {"type": "string", "format": "date"}},
        "additionalProperties": False,
    }
    toolset = Raw(tmp_path, tools=[{"name": "t", "inputSchema": schema}]).toolset()
    (tool,) = await toolset.get_tools()
    declared: Any = tool.declaration.parameters_json_schema  # type: ignore[union-attr]
    schema["properties"]["a"]["description"] = "How many."  # type: ignore[index]
    assert declared == schema
    assert [*declared], [*declared["properties"]] == ([*schema], ["z", "a"])
    await toolset.close()


async def test_a_filter_takes_the_servers_names_and_the_models(tmp_path: Path) -> None:
    """Either names a tool; a predicate is asked."""
    raw = Raw(tmp_path, tools=listed("a.b", "c", "d"))
    assert await names_of(raw.toolset(tool_filter=["a.b", "c"])) == ["a_b", "c"]
    assert await names_of(raw.toolset(tool_filter=["a_b"])) == ["a_b"]
    assert await names_of(raw.toolset(tool_filter=lambda tool, context: tool.name == "d")) == ["d"]


async def test_a_filter_that_names_no_tool_is_warned_of(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """Once for a listing, with the nearest name; what the server or the model calls a tool is known."""
    toolset = Raw(tmp_path, tools=listed("a.b", "find")).toolset(tool_filter=["a.b", "a_b", "fnd"])
    assert [tool.name for tool in await toolset.get_tools_with_prefix()] == ["a_b"]
    (told,) = [record.getMessage() for record in caplog.records if "tool_filter" in record.getMessage()]
    assert told == f"`tool_filter` names `fnd`, but {toolset.address} has no such tool. Did you mean `find`?"
    await toolset.close()
