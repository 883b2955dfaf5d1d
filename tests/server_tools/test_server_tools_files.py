"""Files that a provider's tools make become artifacts, whoever the provider is."""

from __future__ import annotations

import base64
import json
import logging
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import pytest
from google.genai import types
from kit import STREAMED, WHERE, Chat, model, said, text
from models.gemini_wire import answer, streamed
from models.wire_server import Reply, WireServer
from server_tools import anthropic_search, openai_search

from flowloom import AnthropicModel, BaseLlm, Gemini, InMemoryArtifactService, LlmAgent, OpenAIModel, RetryOptions
from flowloom.events.response import LlmResponse
from flowloom.models.server_parts import made_file
from flowloom.tools import ServerTool, code_execution

ONCE = RetryOptions(attempts=1)
PICTURE = b"\x89PNG picture"
STREAMS = pytest.mark.parametrize("stream", [False, True])


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer() as server:
        yield server


async def files_of(model: BaseLlm, tool: Any, stream: bool) -> tuple[dict[str, tuple[str, bytes]], list[Any]]:
    """The artifacts of a run with their types, and its stored events."""
    chat = Chat(
        LlmAgent(name="root", model=model, tools=[] if tool is None else [tool]), config=STREAMED if stream else None
    )
    await chat.say("Draw.")
    service = chat.runner.artifact_service
    assert isinstance(service, InMemoryArtifactService)
    found: dict[str, tuple[str, bytes]] = {}
    for name in await service.list_artifact_keys(app_name="app", **WHERE):
        part = await service.load_artifact(app_name="app", filename=name, **WHERE)
        assert part is not None
        assert part.inline_data is not None
        found[name] = (part.inline_data.mime_type or "", part.inline_data.data or b"")
    return found, await chat.stored()


async def test_an_answer_that_a_model_gives_twice_has_its_files_each_time() -> None:
    """Saving them changes nothing of what the model holds."""
    drawn = LlmResponse(content=said(made_file("plot.png", "draw", "image/png", PICTURE), text("There.")))
    chat = Chat(LlmAgent(name="root", model=model([drawn], [drawn])))
    await chat.say("Draw.")
    await chat.say("Again.")
    service = chat.runner.artifact_service
    assert service is not None
    assert await service.list_versions(app_name="app", filename="plot.png", **WHERE) == [0, 1]
    assert drawn.content is not None
    assert len(drawn.content.parts or ()) == 2


async def test_files_without_a_name_or_a_kind_are_saved_and_others_than_files_are_not() -> None:
    """The name tells contents apart; a folder is no name."""

    def nameless(**fields: Any) -> types.Part:
        made = made_file("", "draw", "image/png", b"")
        made.inline_data = types.Blob(**fields)
        return made

    parts = [
        nameless(mime_type="image/png"),
        made_file("..", "draw", "image/png", PICTURE),
        nameless(data=b"raw"),
        text("There."),
    ]
    files, _ = await files_of(model([LlmResponse(content=said(*parts))]), None, False)
    assert files == {
        f"file_{crc32(PICTURE):08x}.png": ("image/png", PICTURE),
        f"file_{crc32(b'raw'):08x}": ("application/octet-stream", b"raw"),
    }


async def test_a_file_that_cannot_be_saved_stays_in_the_answer_and_the_others_are_saved() -> None:
    class Full(InMemoryArtifactService):
        async def save_artifact(self, *, filename: str, **fields: Any) -> int:
            if filename == "big.png":
                raise OSError("The disk is full.")
            return await super().save_artifact(filename=filename, **fields)

    drawn = [made_file(name, "draw", "image/png", PICTURE) for name in ("big.png", "small.png")]
    chat = Chat(LlmAgent(name="root", model=model([LlmResponse(content=said(*drawn, text("There.")))])))
    chat.runner.artifact_service = service = Full()
    await chat.say("Draw.")
    assert await service.list_artifact_keys(app_name="app", **WHERE) == ["small.png"]
    assert [part.inline_data.display_name for part in held(await chat.stored())] == ["big.png"]


def held(events: list[Any]) -> list[Any]:
    """The parts of the history that hold bytes."""
    return [part for event in events if event.content for part in event.content.parts if part.inline_data]


@STREAMS
async def test_a_picture_that_gemini_drew_by_code_is_an_artifact(server: WireServer, stream: bool) -> None:
    """It stays in the answer, too, because Gemini is given back what it has run."""
    data = base64.b64encode(PICTURE).decode()
    parts = (
        {"executableCode": {"code": "plot()", "language": "PYTHON"}},
        {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": ""}},
        {"inlineData": {"mimeType": "image/png", "data": data}},
        {"text": "There."},
    )
    whole = Reply([json.dumps(answer(*parts, finish="STOP")).encode()])
    server.replies.append(streamed(*(answer(each) for each in parts), answer(finish="STOP")) if stream else whole)
    model = Gemini(model="gemini-2.5-flash", base_url=server.url, api_key="key", retry_options=ONCE)
    files, events = await files_of(model, code_execution, stream)
    assert list(files.values()) == [("image/png", PICTURE)]
    assert next(iter(files)).endswith(".png")
    assert len(held(events)) == 1


@STREAMS
async def test_a_file_that_code_at_anthropic_wrote_is_an_artifact(server: WireServer, stream: bool) -> None:
    """It is fetched by its id, and not kept in the history."""
    about = {
        "id": "file_1",
        "type": "file",
        "filename": "plot.png",
        "mime_type": "image/png",
        "size_bytes": 12,
        "created_at": "2026-01-01T00:00:00Z",
    }
    run = (anthropic_search.RUN, anthropic_search.RAN, {"type": "text", "text": "There."})
    server.replies += [
        anthropic_search.reply(*run, stream=stream),
        Reply([json.dumps(about).encode()]),
        Reply([PICTURE], content_type="image/png"),
    ]
    model = AnthropicModel(model="claude-sonnet-5-5", base_url=server.url, retry_options=ONCE)
    files, events = await files_of(model, code_execution, stream)
    assert files == {"plot.png": ("image/png", PICTURE)}
    assert held(events) == []
    assert [seen.path.partition("?")[0] for seen in server.requests[1:]] == [
        "/v1/files/file_1",
        "/v1/files/file_1/content",
    ]


@STREAMS
async def test_a_file_that_code_at_openai_wrote_is_an_artifact(server: WireServer, stream: bool) -> None:
    """It is fetched from its container."""
    cited = {
        "type": "container_file_citation",
        "container_id": "cntr_1",
        "file_id": "cfile_1",
        "filename": "plot.png",
        "start_index": 0,
        "end_index": 5,
    }
    said = openai_search.message(1, "There.", cited)
    server.replies += [
        openai_search.reply(openai_search.CODE, said, stream=stream),
        Reply([PICTURE], content_type="application/binary"),
    ]
    files, events = await files_of(gpt(server), code_execution, stream)
    assert files == {"plot.png": ("image/png", PICTURE)}
    assert held(events) == []
    assert server.requests[1].path == "/v1/containers/cntr_1/files/cfile_1/content"


@STREAMS
async def test_a_picture_that_openai_made_is_an_artifact(server: WireServer, stream: bool) -> None:
    """Its bytes come with the answer."""
    item = {
        "id": "ig_1",
        "type": "image_generation_call",
        "status": "completed",
        "result": base64.b64encode(PICTURE).decode(),
        "revised_prompt": "a cat",
    }
    server.replies.append(openai_search.reply(item, openai_search.message(1, "There."), stream=stream))
    files, _ = await files_of(gpt(server), ServerTool("image_generation"), stream)
    assert files == {"ig_1.png": ("image/png", PICTURE)}


async def test_a_file_that_cannot_be_fetched_is_told_of_and_no_more(
    server: WireServer, caplog: pytest.LogCaptureFixture
) -> None:
    """The answer is there all the same."""
    run = (anthropic_search.RUN, anthropic_search.RAN, {"type": "text", "text": "There."})
    server.replies.append(anthropic_search.reply(*run, stream=False))
    model = AnthropicModel(model="claude-sonnet-5-5", base_url=server.url, retry_options=ONCE)
    with caplog.at_level(logging.WARNING):
        files, events = await files_of(model, code_execution, False)
    assert files == {}
    assert events[-1].text == "There."
    assert "could not be downloaded" in caplog.text


def gpt(server: WireServer) -> OpenAIModel:
    return OpenAIModel(
        model="gpt-5", api="responses", dialect="openai", base_url=f"{server.url}/v1", retry_options=ONCE
    )
