"""What a server's results and errors become."""

from __future__ import annotations

import base64
import json
from pathlib import Path
from typing import Any

import pytest
from kit import Chat
from mcp_kit import Raw, asks, result_of, results_of
from raw_server import PNG

from flowloom.errors import ToolArgumentsError
from flowloom.protocols.mcp import McpProtocolError, McpToolError, McpTransportError
from flowloom.testing import call


async def test_texts_are_joined_by_blank_lines(tmp_path: Path) -> None:
    """Several texts are one result."""
    assert await result_of(Raw(tmp_path).toolset(), "texts") == {"result": "one\n\ntwo"}


async def test_structured_content_stands_for_texts_that_repeat_it(tmp_path: Path) -> None:
    """Texts are given beside it only if they say something else; `_meta` is kept from the model."""
    chat = Chat(asks(Raw(tmp_path).toolset(), [call("structured"), call("structured_and_more")], "ok"))
    answer = (await chat.say("go"))[1]
    plain, more = (each for each in answer.get_function_responses())
    assert plain.response == {"temperature": 21, "unit": "C"}
    assert more.response == {"result": {"temperature": 21}, "text": "It is warm."}
    assert answer.custom_metadata == {"tool_metadata": {plain.id: {"trace": "t1"}}}
    await chat.runner.close()


async def test_files_come_beside_the_result(tmp_path: Path) -> None:
    """Image, audio and blob: bytes and type as parts, and a mark in the text; links and texts by their address."""
    chat = Chat(asks(Raw(tmp_path).toolset(), [call("image"), call("audio"), call("resources")], "ok"))
    image, audio, resources = (await chat.say("go"))[1].get_function_responses()
    assert image.response == {"result": "a picture\n\n[image/png, 4 kB]"}
    for response, kind in ((image, "image/png"), (audio, "audio/wav")):
        (part,) = response.parts or []
        assert part.inline_data is not None
        assert (part.inline_data.mime_type, part.inline_data.data) == (kind, base64.b64decode(PNG))
    assert resources.response == {
        "result": "[file:///a.txt]\ninside\n\n[file:///a.pdf, application/pdf, 4 kB]\n\n"
        "[link to b (text/html): https://host/b]"
    }
    assert PNG[:40] not in json.dumps([each.response for each in (image, audio, resources)])
    await chat.runner.close()


async def test_a_type_that_the_model_cannot_take_is_kept_as_a_file(tmp_path: Path) -> None:
    """The result names it."""
    agent = asks(Raw(tmp_path).toolset(), call("audio"), "ok")
    agent.model.__dict__["provider_name"] = "anthropic"
    chat = Chat(agent)
    (response,) = (await chat.say("go"))[1].get_function_responses()
    assert response.parts is None
    assert "audio/wav, 4 kB: kept as the file `audio_" in (response.response or {})["result"]
    await chat.runner.close()


async def test_a_huge_result_is_cut(tmp_path: Path) -> None:
    """4 MB are not the model's to read; the whole is a file of the session."""
    chat = Chat(asks(Raw(tmp_path).toolset(timeout=20), call("huge"), "ok"))
    (response,) = (await chat.say("go"))[1].get_function_responses()
    text = (response.response or {})["result"]
    assert 262_144 < len(text) < 262_400
    assert "cut after 262 kB of 4.0 MB: all of it is in the file `huge_" in text
    await chat.runner.close()


async def test_the_three_kinds_of_errors_are_told_apart(tmp_path: Path) -> None:
    """The tool's own, the protocol's and the transport's; siblings keep their results, hooks see the classes."""
    seen: list[Exception] = []

    def note(*, error: Exception, **_: Any) -> None:
        seen.append(error)

    answers = [[call("fail"), call("refuse"), call("echo", text="x")], call("crash"), "ok"]
    agent = asks(Raw(tmp_path).toolset(), *answers)
    agent.on_tool_error_callback = note
    chat = Chat(agent)
    events = await chat.say("go")
    fail, refuse, echo, crash = (each.response or {} for event in events for each in event.get_function_responses())
    assert fail == {"error": "no such file: a.txt"}
    assert "did not take the call of `refuse`: quota exceeded (-32000)" in refuse["error"]
    assert echo == {"result": '{"text": "x"}'}
    assert "out of cheese" in crash["error"]
    assert {McpToolError, McpProtocolError, McpTransportError} == {type(error) for error in seen}
    await chat.runner.close()


async def test_an_error_of_a_tool_repeats_no_secret(tmp_path: Path) -> None:
    """What the server was given is taken out of its words."""
    toolset = Raw(tmp_path).toolset(env={"API_KEY": "s3cret-0123456789"})
    assert await result_of(toolset, "quote") == {"error": "not allowed with **********"}


@pytest.mark.parametrize(
    ("args", "told"), [({}, "'text'"), ({"text": 1}, "`text`"), ({"text": "a", "count": "b"}, "`count`")]
)
async def test_wrong_arguments_are_named_and_not_sent(tmp_path: Path, args: dict[str, Any], told: str) -> None:
    """They are checked before the call."""
    raw = Raw(tmp_path)
    toolset = raw.toolset()
    result = await result_of(toolset, "echo", **args)
    assert result["error"].startswith("The arguments of `echo` do not fit its parameters:")
    assert told in result["error"]
    assert raw.received("tools/call") == []
    assert issubclass(ToolArgumentsError, Exception)


async def test_arguments_are_sent_unchanged(tmp_path: Path) -> None:
    """Keys, null, big and round numbers."""
    raw = Raw(tmp_path, tools=[{"name": "echo", "inputSchema": {"type": "object"}}])
    args: dict[str, Any] = {"n": None, "one": 1.0, "big": 2**60, "ключ": ["x", {"a.b": False}]}
    await result_of(raw.toolset(), "echo", **args)
    sent = raw.received("tools/call")[0]["params"]["arguments"]
    assert json.dumps(sent) == json.dumps(args)


async def test_a_result_that_breaks_its_promise_is_an_error(tmp_path: Path) -> None:
    """`outputSchema` is checked."""
    output = {"type": "object", "properties": {"temperature": {"type": "string"}}, "required": ["temperature"]}
    tool = {"name": "structured", "inputSchema": {"type": "object"}, "outputSchema": output}
    missing = {"name": "texts", "inputSchema": {"type": "object"}, "outputSchema": output}
    raw = Raw(tmp_path, tools=[tool, missing])
    first, second = await results_of(raw.toolset(), call("structured"), call("texts"))
    assert "`temperature`: 21 is not of type 'string'" in first["error"]
    assert "not of the form that its server promises" in second["error"]


async def test_an_error_is_told_in_whatever_it_stands(tmp_path: Path) -> None:
    """In a resource with its address, and as JSON where there is data alone."""
    toolset = Raw(tmp_path).toolset()
    told = await results_of(toolset, call("fail_elsewhere"), call("fail_as_data"))
    assert told == [{"error": "[file:///log]\ndisk full"}, {"error": '{"code": null, "why": "größer"}'}]
