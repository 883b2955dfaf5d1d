"""The body of a request is the one that google-genai's own client sends."""

from __future__ import annotations

from collections.abc import Iterator
from enum import Enum
from typing import Any, Literal

import pytest
from google import genai
from google.genai import types
from google.oauth2.credentials import Credentials
from kit import result, said, text, user
from models.wire_server import Reply, WireServer
from pydantic import BaseModel
from pydantic.alias_generators import to_camel

from flowloom import LlmRequest
from flowloom.interop import request_to_json
from flowloom.testing import call

USERS_OWN = ("args", "response", "labels", "parameters_json_schema", "responseJsonSchema", "properties", "headers")


class City(BaseModel):
    """A place."""

    name: str
    size: int | None = None
    kind: Literal["town", "village"]


class Trip(BaseModel):
    cities: list[City]
    home: City | None = None
    scores: dict[str, float]


class Color(Enum):
    RED = "red"
    BLUE = "blue"


HISTORY = [
    user("a file and a photo", types.Part(file_data=types.FileData(file_uri="gs://a", mime_type="image/png"))),
    user(types.Part(inline_data=types.Blob(data=b"\xfb\xff", mime_type="image/png"), thought_signature=b"\xfe\xff")),
    said(text("hm", thought=True), call("f", a=1, b={"c_d": [None, 0.5]})),
    user(result("c1", "f", {"some_key": True})),
    said(
        types.Part(executable_code=types.ExecutableCode(code="1", language=types.Language.PYTHON)),
        types.Part(code_execution_result=types.CodeExecutionResult(outcome=types.Outcome.OUTCOME_OK, output="1")),
    ),
    user(types.Part(text="", video_metadata=types.VideoMetadata(start_offset="1.5s", fps=2))),
]
DECLARED = types.FunctionDeclaration(
    name="f", parameters=types.Schema(type=types.Type.OBJECT, properties={"a_b": types.Schema(type=types.Type.STRING)})
)
BY_SCHEMA = types.FunctionDeclaration(name="g", parameters_json_schema={"type": "object", "any_name": {}})

BOTH: dict[str, dict[str, Any]] = {
    "nothing": {},
    "a text": {"system_instruction": "Be brief."},
    "a content": {"system_instruction": types.Content(role="system", parts=[types.Part(text="a")])},
    "a part": {"system_instruction": types.Part(text="a", thought=True)},
    "texts and parts": {"system_instruction": ["a", types.Part(text="b")]},
    "a file": {"system_instruction": types.File(uri="gs://a", mime_type="text/plain")},
    "sampling": {
        "temperature": 0.7,
        "top_p": 0.5,
        "top_k": 3,
        "seed": 4,
        "candidate_count": 2,
        "stop_sequences": ["."],
    },
    "penalties": {"presence_penalty": 0.1, "frequency_penalty": -0.1, "max_output_tokens": 7, "candidate_count": 2},
    "log probabilities": {"response_logprobs": True, "logprobs": 3},
    "media": {"response_modalities": ["TEXT", "IMAGE"], "media_resolution": "MEDIA_RESOLUTION_LOW"},
    "a picture": {"image_config": types.ImageConfig(aspect_ratio="1:1", image_size="1K")},
    "thinking": {"thinking_config": types.ThinkingConfig(include_thoughts=True, thinking_budget=7)},
    "thinking by level": {"thinking_config": types.ThinkingConfig(thinking_level="LOW")},
    "a voice": {"speech_config": "Kore"},
    "a cache": {"cached_content": "cachedContents/1"},
    "a tier": {"service_tier": "flex"},
    "the rest of an answer": {"continuation_token": b"\xfb\xff"},
    "declarations": {"tools": [types.Tool(function_declarations=[DECLARED, BY_SCHEMA])]},
    "tools of Google's": {"tools": [{"google_search": {}}, {"code_execution": {}}, {"url_context": {}}]},
    "calling": {
        "tool_config": types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(mode="ANY", allowed_function_names=["f"])
        )
    },
    "safety": {"safety_settings": [types.SafetySetting(category="HARM_CATEGORY_HARASSMENT", threshold="BLOCK_NONE")]},
    "a schema": {"response_schema": types.Schema(type=types.Type.ARRAY, items=types.Schema(type=types.Type.STRING))},
    "a class": {"response_schema": City},
    "an enum": {"response_schema": Color},
    "a JSON schema": {"response_json_schema": {"type": "object", "properties": {"snake_case": {}}}},
    "a schema as data": {"response_schema": {"type": "object", "properties": {"a": {"type": "string"}}}},
    "transcription": {"audio_transcription_config": types.AudioTranscriptionConfig(word_timestamp=True)},
    "what is the client's own": {
        "automatic_function_calling": types.AutomaticFunctionCallingConfig(disable=True),
        "automatic_continuation": False,
    },
}
GEMINI_API: dict[str, dict[str, Any]] = {
    "storage": {"store": True},
    "civic answers": {"enable_enhanced_civic_answers": True},
    "servers": {"tools": [types.Tool(mcp_servers=[types.McpServer(name="m")])]},
    "a search in files": {"tools": [types.Tool(file_search=types.FileSearch(file_search_store_names=["a"], top_k=2))]},
}
VERTEX: dict[str, dict[str, Any]] = {
    "labels": {"labels": {"team_name": "a"}},
    "routing": {"routing_config": {"auto_mode": {"model_routing_preference": "BALANCED"}}},
    "a choice of models": {"model_selection_config": {"feature_selection_preference": "BALANCED"}},
    "armor": {"model_armor_config": {"prompt_template_name": "a"}},
    "times in audio": {"audio_timestamp": True},
    "where answers go": {"generation_output_config": {"output_uri_prefix": "gs://a"}},
    "the form of pictures": {"image_config": {"output_mime_type": "image/png", "output_compression_quality": 3}},
    "a nested class": {"response_schema": Trip},
    "a retrieval": {"tools": [{"retrieval": {"vertex_ai_search": {"datastore": "d"}}}]},
    "safety by method": {"safety_settings": [{"category": "HARM_CATEGORY_HARASSMENT", "method": "SEVERITY"}]},
}


def camel(data: Any) -> Any:
    """google-genai's body in one spelling: it mixes two. Names that are the user's own stay as they are."""
    if isinstance(data, list):
        return [camel(item) for item in data]
    if not isinstance(data, dict):
        return data
    return {to_camel(key): own(item) if key in USERS_OWN else camel(item) for key, item in data.items()}


def own(data: Any) -> Any:
    """Names of properties are the user's, and below them there are schemas again."""
    if isinstance(data, dict):
        return {key: camel(item) if isinstance(item, dict) and "type" in item else item for key, item in data.items()}
    return data


def options(server: WireServer) -> types.HttpOptions:
    """A client without certificates: reading them takes longer than all else here."""
    return types.HttpOptions(base_url=server.url, client_args={"verify": False}, async_client_args={"verify": False})


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer(Reply([b'{"candidates": [{"content": {"parts": [{"text": "ok"}]}}]}'])) as running:
        yield running


def sent(client: genai.Client, server: WireServer, settings: dict[str, Any]) -> Any:
    """The body of google-genai's request."""
    with client:
        client.models.generate_content(
            model="gemini-x", contents=HISTORY, config=types.GenerateContentConfig(**settings)
        )
    return camel(server.requests[-1].json)


def ours(settings: dict[str, Any]) -> Any:
    request = LlmRequest(model="gemini-x", contents=HISTORY, config=types.GenerateContentConfig(**settings))
    return {"generationConfig": {}} | request_to_json(request)  # google-genai sends an empty one too


@pytest.mark.parametrize("settings", [*BOTH.values(), *GEMINI_API.values()], ids=[*BOTH, *GEMINI_API])
def test_the_body_for_the_gemini_api_is_google_genais(server: WireServer, settings: dict[str, Any]) -> None:
    client = genai.Client(vertexai=False, api_key="k", http_options=options(server))
    assert ours(settings) == sent(client, server, settings)


@pytest.mark.parametrize("settings", [*BOTH.values(), *VERTEX.values()], ids=[*BOTH, *VERTEX])
def test_the_body_for_vertex_ai_is_google_genais(server: WireServer, settings: dict[str, Any]) -> None:
    if "cached_content" in settings:  # there it is completed with the client's own project
        settings = {"cached_content": "projects/p/locations/l/cachedContents/1"}
    client = genai.Client(
        vertexai=True,
        project="p",
        location="l",
        credentials=Credentials("token"),
        http_options=options(server),
    )
    assert ours(settings) == sent(client, server, settings)
