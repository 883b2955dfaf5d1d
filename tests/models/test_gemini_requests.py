"""What the Gemini adapter sends beyond contents: settings, files, credentials of either kind (spec §23)."""

from __future__ import annotations

import json
import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa
from gemini_kit import adapter, answers, ask, vertex
from google.genai import types
from google.oauth2 import service_account
from kit import said, user
from models.gemini_wire import text, whole
from models.wire_server import Reply, WireServer
from providers.sdk_kit import at, call, inline, result

from flowloom import Gemini, LlmRequest
from flowloom.errors import UnsupportedFeatureError
from flowloom.models.signatures import ANTHROPIC, OPENAI, signed

SETTINGS = "GOOGLE_GENAI_USE_VERTEXAI GOOGLE_GENAI_USE_ENTERPRISE GOOGLE_API_KEY GEMINI_API_KEY GOOGLE_CLOUD_PROJECT"
SETTINGS += " GOOGLE_CLOUD_LOCATION GOOGLE_GEMINI_BASE_URL GOOGLE_VERTEX_BASE_URL GOOGLE_GENAI_API_VERSION"
SETTINGS += " GOOGLE_APPLICATION_CREDENTIALS"


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in SETTINGS.split():
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer(whole(text("ok"))) as running:
        yield running


async def body_of(model: Gemini, server: WireServer, *contents: types.Content, **config: Any) -> Any:
    await answers(model, ask(*contents, **config))
    return server.requests[-1].json


BODIES: dict[str, tuple[dict[str, Any], str, Any]] = {
    "cached content": ({"cached_content": "cachedContents/1"}, "cachedContent", "cachedContents/1"),
    "thinking": (
        {"thinking_config": types.ThinkingConfig(include_thoughts=True, thinking_budget=7)},
        "generationConfig.thinkingConfig",
        {"include_thoughts": True, "thinking_budget": 7},
    ),
    "safety settings": (
        {
            "safety_settings": [
                types.SafetySetting(
                    category=types.HarmCategory.HARM_CATEGORY_HARASSMENT,
                    threshold=types.HarmBlockThreshold.BLOCK_NONE,
                )
            ]
        },
        "safetySettings",
        [{"category": "HARM_CATEGORY_HARASSMENT", "threshold": "BLOCK_NONE"}],
    ),
    "stop sequences and seed": ({"stop_sequences": ["."], "seed": 3}, "generationConfig.seed", 3),
    "a JSON schema": (
        {"response_mime_type": "application/json", "response_json_schema": {"type": "object"}},
        "generationConfig.responseJsonSchema",
        {"type": "object"},
    ),
    "calling mode": (
        {
            "tools": [types.Tool(function_declarations=[types.FunctionDeclaration(name="f")])],
            "tool_config": types.ToolConfig(
                function_calling_config=types.FunctionCallingConfig(
                    mode=types.FunctionCallingConfigMode.ANY, allowed_function_names=["f"]
                )
            ),
        },
        "toolConfig.functionCallingConfig",
        {"mode": "ANY", "allowedFunctionNames": ["f"]},
    ),
    "search": ({"tools": [types.Tool(google_search=types.GoogleSearch())]}, "tools", [{"googleSearch": {}}]),
}


@pytest.mark.parametrize("kind", BODIES)
async def test_settings_have_their_places_in_the_body(server: WireServer, kind: str) -> None:
    config, place, expected = BODIES[kind]
    found = await body_of(adapter(server), server, **config)
    for name in place.split("."):
        found = found[name]
    assert found == expected


async def test_files_are_sent_as_bytes_or_by_address(server: WireServer) -> None:
    body = await body_of(adapter(server), server, user(inline("image/png"), at("video/mp4", "gs://b/a.mp4")))
    assert body["contents"][0]["parts"] == [
        {"inlineData": {"mimeType": "image/png", "data": "ZGF0YQ=="}},
        {"fileData": {"mimeType": "video/mp4", "fileUri": "gs://b/a.mp4"}},
    ]


@pytest.mark.parametrize("maker", [ANTHROPIC, OPENAI])
async def test_thoughts_of_other_providers_stay_behind(server: WireServer, maker: bytes) -> None:
    """Gemini refuses signatures that are not its own; a call keeps going without."""
    thought = types.Part(text="hm", thought=True, thought_signature=signed(maker, "x" * 50))
    made = call("f", "c1")
    made.thought_signature = signed(maker, "y")
    body = await body_of(adapter(server), server, said(thought, made), user(result("f", "c1", r=1)))
    assert body["contents"][0]["parts"] == [{"functionCall": {"id": "c1", "name": "f", "args": {}}}]


async def test_a_setting_of_the_other_backend_is_refused_by_name(server: WireServer) -> None:
    with pytest.raises(UnsupportedFeatureError, match="model_armor_config") as raised:
        await answers(adapter(server), ask(model_armor_config=types.ModelArmorConfig()))
    assert raised.value.field == "config.model_armor_config"


async def test_labels_are_sent_on_vertex_ai_alone(server: WireServer, caplog: pytest.LogCaptureFixture) -> None:
    server.replies.append(whole(text("ok")))
    with caplog.at_level(logging.WARNING, "flowloom.models"):
        assert "labels" not in await body_of(adapter(server), server, labels={"a": "b"})
    assert "config.labels" in caplog.text
    assert (await body_of(vertex(server), server, labels={"a": "b"}))["labels"] == {"a": "b"}


@pytest.mark.parametrize("instruction", ["Begin.", types.Content(parts=[types.Part(text="Begin.")])])
async def test_a_system_instruction_alone_gets_a_user_turn(server: WireServer, instruction: Any) -> None:
    """The API wants contents; the adapter adds the user's turn (decision 4), and changes nothing of the request."""
    request = LlmRequest(config=types.GenerateContentConfig(system_instruction=instruction))
    server.replies.append(whole(text("ok")))
    await answers(adapter(server), request)
    [content] = server.requests[0].json["contents"]
    assert content["role"] == "user"
    assert content["parts"][0]["text"]
    assert list(request.contents) == []


@pytest.mark.parametrize("make", [adapter, vertex])
@pytest.mark.parametrize("stream", [False, True])
async def test_a_name_with_its_prefix_is_sent_as_the_api_wants_it(server: WireServer, make: Any, stream: bool) -> None:
    """`models/x` of a request that was read from JSON is the model `x`, on both services."""
    server.replies += [whole(text("ok"))] * 2
    paths: list[str] = []
    for name in ("gemini-x", "models/gemini-x"):
        request = ask()
        request.model = name
        await answers(make(server), request, stream=stream)
        paths.append(server.requests[-1].path)
    assert paths[0] == paths[1]
    assert "models/models" not in paths[0]


async def test_the_environment_names_the_version(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("GOOGLE_GENAI_API_VERSION", "v9")
    monkeypatch.setenv("GOOGLE_GEMINI_BASE_URL", server.url)
    await answers(Gemini(api_key="key"))
    assert server.requests[0].path.startswith("/v9/models/")


@pytest.fixture
def account(tmp_path: Path) -> dict[str, Any]:
    """A service account whose sign-in service is on this machine; the address is filled in by the test."""
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    pem = key.private_bytes(
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
    ).decode()
    return {
        "type": "service_account",
        "project_id": "p",
        "private_key_id": "1",
        "private_key": pem,
        "client_email": "bot@p.iam.gserviceaccount.com",
        "client_id": "1",
    }


TOKEN = Reply([json.dumps({"access_token": "t1", "expires_in": 3600, "token_type": "Bearer"}).encode()])


@pytest.mark.parametrize("how", ["given", "found"])
async def test_a_service_account_signs_in_to_vertex_ai(
    account: dict[str, Any], how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Credentials are given to the adapter, or found by the variable that Google's tools use."""
    with WireServer(TOKEN) as sign_in, WireServer(whole(text("ok"))) as server:
        account["token_uri"] = f"{sign_in.url}/token"
        fields: dict[str, Any] = {"vertexai": True, "project": "p", "location": "l", "base_url": server.url}
        if how == "given":
            fields["credentials"] = service_account.Credentials.from_service_account_info(
                account, scopes=["https://www.googleapis.com/auth/cloud-platform"]
            )
        else:
            file = tmp_path / "account.json"
            file.write_text(json.dumps(account))
            monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(file))
        await answers(Gemini(model="gemini-2.5-flash", **fields))
        assert sign_in.requests[0].path == "/token"
        seen = server.requests[0]
    assert seen.header("authorization") == ["Bearer t1"]
    assert seen.path == "/v1beta1/projects/p/locations/l/publishers/google/models/gemini-2.5-flash:generateContent"
