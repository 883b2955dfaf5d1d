"""Where the OpenAI adapter sends requests, with which key, and what it says of itself."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from models.wire_server import WireServer
from providers.sdk_kit import answers, whole

from flowloom import ConfigurationError, LLMRegistry, OpenAIModel

ANSWER = whole({"model": "m", "choices": [{"message": {"content": "ok"}, "finish_reason": "stop"}]})


@pytest.fixture(autouse=True)
def _no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "OPENAI_ORG_ID", "OPENAI_PROJECT_ID", "OLLAMA_HOST"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def server() -> Iterator[WireServer]:
    with WireServer(ANSWER) as running:
        yield running


NAMES = {
    "openai/gpt-5": ("gpt-5", "chat", "https://api.openai.com/v1"),
    "openai-responses/gpt-5": ("gpt-5", "responses", "https://api.openai.com/v1"),
    "openai/org/model": ("org/model", "chat", "https://api.openai.com/v1"),
    "ollama/llama3:8b": ("llama3:8b", "chat", "http://127.0.0.1:11434/v1"),
    "http://localhost:8000/v1#qwen/qwen3": ("qwen/qwen3", "chat", "http://localhost:8000/v1"),
    "https://host.example/api#m": ("m", "chat", "https://host.example/api"),
}


@pytest.mark.parametrize("name", NAMES)
def test_names_lead_to_servers(name: str) -> None:
    made = LLMRegistry.new_llm(name)
    assert isinstance(made, OpenAIModel)
    assert (made.model, made.api, made.url) == NAMES[name]


@pytest.mark.parametrize(
    ("host", "url"),
    [
        ("0.0.0.0", "http://127.0.0.1:11434/v1"),
        ("10.0.0.7:8080", "http://10.0.0.7:8080/v1"),
        ("https://models.example", "https://models.example:443/v1"),
        ("[::1]:9000", "http://[::1]:9000/v1"),
    ],
)
def test_ollama_is_found_by_its_own_variable(monkeypatch: pytest.MonkeyPatch, host: str, url: str) -> None:
    monkeypatch.setenv("OLLAMA_HOST", host)
    assert OpenAIModel.from_name("ollama/llama3").url == url


async def test_the_environment_names_the_server_and_the_key(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"{server.url}/v9")
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    monkeypatch.setenv("OPENAI_ORG_ID", "org")
    monkeypatch.setenv("OPENAI_PROJECT_ID", "project")
    llm = OpenAIModel(model="m")
    assert not llm.hosted
    await answers(llm)
    seen = server.requests[0]
    assert seen.path == "/v9/chat/completions"
    names = ("authorization", "openai-organization", "openai-project")
    assert [seen.header(name) for name in names] == [["Bearer secret"], ["org"], ["project"]]


async def test_the_key_of_the_environment_does_not_leak_to_other_servers(
    server: WireServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "secret")
    await answers(OpenAIModel(model="m", base_url=server.url))
    assert "secret" not in str(server.requests[0].headers)


async def test_without_a_key_the_first_call_says_what_to_set() -> None:
    llm = OpenAIModel(model="gpt-5")
    assert llm.hosted
    with pytest.raises(ConfigurationError, match="OPENAI_API_KEY"):
        await answers(llm)


async def test_a_key_may_come_later(server: WireServer, monkeypatch: pytest.MonkeyPatch) -> None:
    llm = OpenAIModel(model="m")
    monkeypatch.setenv("OPENAI_BASE_URL", server.url)
    assert (await answers(llm))[-1].text == "ok"


def test_a_key_is_not_shown() -> None:
    llm = OpenAIModel(model="m", api_key="secret", headers={"authorization": "secret"})
    assert "secret" not in repr(llm)
    assert "secret" not in llm.model_dump_json()
