"""One history whether tools are functions, operations or an MCP server's; and laws of what is sent."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kit import Chat, agent, examples
from protocols.openapi.service import Received, Reply, Service, get

from flowloom import McpToolset
from flowloom.errors import ToolArgumentsError
from flowloom.protocols.mcp import StdioConnectionParams
from flowloom.protocols.openapi.naming import argument_names, operation_name
from flowloom.protocols.openapi.styles import Parameter, path_text, query_pairs
from flowloom.testing import call


async def weather(city: str, days: int = 1) -> dict[str, Any]:
    """Say how the weather is."""
    return {"city": city, "days": days, "sunny": True}


MCP_SERVER = '''
from mcp.server.mcpserver import MCPServer

server = MCPServer("weather")


@server.tool()
def weather(city: str, days: int = 1) -> dict[str, object]:
    """Say how the weather is."""
    return {"city": city, "days": days, "sunny": True}


server.run()
'''


async def test_the_history_is_that_of_functions(service: Service, tmp_path: Path) -> None:
    """The same calls, arguments, results and order, event by event."""

    def answer(request: Received) -> Reply:
        values = dict(pair.split("=") for pair in request.query.split("&"))
        return Reply({"city": unquote(values["city"]), "days": int(values.get("days", 1)), "sunny": True})

    service.answer = answer
    city = {"name": "city", "in": "query", "required": True, "schema": {"type": "string"}}
    days = {"name": "days", "in": "query", "schema": {"type": "integer", "default": 1}}
    toolset = service.toolset({"/weather": get(city, days, operationId="weather", summary="Say how the weather is.")})
    (tmp_path / "weather.py").write_text(MCP_SERVER)
    params = StdioConnectionParams({"command": sys.executable, "args": [str(tmp_path / "weather.py")]}, timeout=60)
    histories: list[Any] = []
    for tool in (weather, toolset, McpToolset(connection_params=params)):
        script = [
            [call("weather", city="Rome"), call("weather", city="Zürich", days=2)],
            call("weather", city="x"),
            "Sunny.",
        ]
        chat = Chat(agent("root", *script, tools=[tool]))
        await chat.say("How is it?")
        told = [
            event.model_dump(mode="json", exclude={"id", "timestamp", "invocation_id"}) for event in await chat.stored()
        ]
        text = json.dumps(told)
        for number, name in enumerate(_ids(told)):
            text = text.replace(name, f"call-{number}")
        histories.append(json.loads(text))
        await chat.runner.close()
    assert histories[0] == histories[1]
    assert histories[0] == histories[2]
    assert threading.active_count() < 20


def _ids(events: list[Any]) -> list[str]:
    parts = [part for event in events for part in (event.get("content") or {}).get("parts", [])]
    found = [part["function_call"]["id"] for part in parts if part.get("function_call")]
    return list(dict.fromkeys(found))


def test_the_import_loads_no_library() -> None:
    """Nor does making a toolset read its document."""
    code = (
        "import sys; from flowloom import OpenAPIToolset; from flowloom.protocols.openapi import RestApiTool;"
        "OpenAPIToolset(spec_str='{}');"
        "print([m for m in ('yaml', 'jsonschema', 'referencing', 'starlette', 'uvicorn') if m in sys.modules])"
    )
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert ran.stdout.strip() == "[]"


# -- laws: what is written can be read back by the rules of the specification ------------------------------------------

TEXT = st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=8)
LISTS = st.lists(TEXT, min_size=1, max_size=4)
OBJECTS = st.dictionaries(TEXT, TEXT, min_size=1, max_size=4)


def query(style: str, *, explode: bool, name: str = "p") -> Parameter:
    return Parameter(name, "query", "p", style, explode)


@settings(max_examples=examples(300), deadline=None)
@given(TEXT, TEXT, LISTS, OBJECTS)
def test_a_query_can_be_read_back(name: str, text: str, items: list[str], held: dict[str, str]) -> None:
    """Texts, lists and objects in style `form`, objects in `deepObject`; and it is ASCII without a separator."""
    pairs = [each.split("=") for each in query_pairs(query("form", explode=True, name=name), text)]
    assert [[unquote(k), unquote(v)] for k, v in pairs] == [[name, text]]
    (pair,) = query_pairs(query("form", explode=False), items)
    assert pair.isascii()
    assert [unquote(each) for each in pair.partition("=")[2].split(",")] == items
    exploded = query_pairs(query("form", explode=True), items)
    assert [unquote(each.partition("=")[2]) for each in exploded] == items
    flat = query_pairs(query("form", explode=False), held)[0].partition("=")[2].split(",")
    assert dict(zip(map(unquote, flat[::2]), map(unquote, flat[1::2]), strict=True)) == held
    pairs = [each.split("=") for each in query_pairs(query("form", explode=True), held)]
    assert {unquote(k): unquote(v) for k, v in pairs} == held
    deep = [each.split("=") for each in query_pairs(query("deepObject", explode=True), held)]
    assert {unquote(k)[2:-1]: unquote(v) for k, v in deep} == held


@settings(max_examples=examples(200), deadline=None)
@given(LISTS, st.sampled_from([("spaceDelimited", "%20", " "), ("pipeDelimited", "%7C", "|")]))
def test_delimited_lists_can_be_read_back_or_are_refused(items: list[str], style: tuple[str, str, str]) -> None:
    """A value that has the delimiter itself is refused."""
    name, joint, delimiter = style
    if any(delimiter in each for each in items):
        with pytest.raises(ToolArgumentsError):
            query_pairs(query(name, explode=False), items)
        return
    (pair,) = query_pairs(query(name, explode=False), items)
    assert [unquote(each) for each in pair.partition("=")[2].split(joint)] == items


@settings(max_examples=examples(300), deadline=None)
@given(TEXT | LISTS | OBJECTS, st.sampled_from(["simple", "label", "matrix"]), st.booleans())
def test_a_path_can_be_read_back_and_leads_nowhere(value: Any, style: str, explode: bool) -> None:
    """One segment, which is not `.` or `..`, and names no other path."""
    parameter = Parameter("p", "path", "p", style, explode, required=True)
    try:
        text = path_text(parameter, value)
    except ToolArgumentsError:
        return
    assert text.isascii()
    assert not {"/", "?", "#", "\\"} & {*text}
    assert not {".", ".."} & {*unquote(text).replace("\\", "/").split("/")} - {text}
    if isinstance(value, str):
        assert unquote(text.removeprefix(";p=").removeprefix("." if style == "label" else "")) == value
    if isinstance(value, list):
        separators = {"simple": ",", "label": "." if explode else ",", "matrix": ";p=" if explode else ","}
        bare = text.removeprefix(";p=") if style == "matrix" else text.removeprefix("." if style == "label" else "")
        if separators[style] != ".":  # a value may have a dot, which is not encoded
            assert [unquote(each) for each in bare.split(separators[style])] == value


@settings(max_examples=examples(300), deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from(["path", "query", "header", "cookie", "body"]), TEXT), unique=True),
    st.booleans(),
)
def test_arguments_have_names_of_their_own(parameters: list[tuple[str, str]], preserve: bool) -> None:
    """As many as parameters, all of which a model takes, and the same each time."""
    names = argument_names(parameters, preserve=preserve)
    assert len({*names}) == len(parameters)
    assert all(len(name) <= 64 and name.replace("-", "_").isidentifier() and name.isascii() for name in names)
    assert argument_names(parameters, preserve=preserve) == names


@settings(max_examples=examples(100), deadline=None)
@given(st.none() | TEXT, TEXT)
def test_operations_have_names_that_models_take(identity: str | None, path: str) -> None:
    """Whatever their id or path is."""
    name = operation_name(identity, "get", path, preserve=False)
    assert len(name) <= 64
    assert name.replace("-", "_").isidentifier()
