"""The registry of models: from names to adapters."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncGenerator

import pytest

from flowloom import BaseLlm, ConfigurationError, LlmAgent, LLMRegistry, LlmRequest, LlmResponse, OpenAIModel
from flowloom.errors import ModelNotFoundError


class House(BaseLlm):
    """A model whose names have an adapter's own form."""

    @classmethod
    def supported_models(cls) -> list[str]:
        return [r"house/.+"]

    @classmethod
    def from_name(cls, name: str) -> House:
        return cls(model=name.removeprefix("house/"))

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse()


@pytest.fixture
def _house() -> object:
    LLMRegistry.register(House)
    yield
    LLMRegistry.unregister(r"house/.+")


@pytest.mark.usefixtures("_house")
def test_a_class_is_registered_for_its_names() -> None:
    assert LLMRegistry.new_llm("house/brick").model == "brick"
    agent = LlmAgent(name="a", model="house/brick")
    assert agent.canonical_model.model == "brick"


def test_a_gemini_model_is_found_by_its_resource_name() -> None:
    """`models/...`, as Gemini's messages have it; the name stays as it was written."""
    assert type(LLMRegistry.new_llm("models/gemini-2.0-flash")) is type(LLMRegistry.new_llm("gemini-2.0-flash"))
    assert LLMRegistry.new_llm("models/gemini-2.0-flash").model == "models/gemini-2.0-flash"


@pytest.mark.usefixtures("_house")
def test_a_pattern_is_registered_once() -> None:
    with pytest.raises(ConfigurationError, match="registered already"):
        LLMRegistry.register(House)


@pytest.mark.usefixtures("_house")
def test_a_name_that_two_patterns_match_is_an_error() -> None:
    LLMRegistry.register(r"house/b.*", lambda name: House(model=name))
    try:
        with pytest.raises(ModelNotFoundError, match="several patterns"):
            LLMRegistry.new_llm("house/brick")
    finally:
        LLMRegistry.unregister(r"house/b.*")


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("gpt-5", "openai/gpt-5"),
        ("o3-mini", "openai/o3-mini"),
        ("claude-x", "anthropic/claude-x"),
        ("qwen3", "ollama/qwen3"),
    ],
)
def test_the_bare_name_of_a_known_model_is_an_error_with_a_hint(name: str, meant: str) -> None:
    with pytest.raises(ModelNotFoundError, match=meant):
        LLMRegistry.new_llm(name)


@pytest.mark.parametrize(("name", "extra"), [("openai/gpt-5", "openai"), ("anthropic/claude-x", "anthropic")])
def test_a_missing_sdk_is_named(name: str, extra: str) -> None:
    program = (
        "import sys\n"
        f"sys.modules[{extra!r}] = None\n"
        "from flowloom import LLMRegistry\n"
        "from flowloom.errors import MissingExtraError\n"
        "try:\n"
        f"    LLMRegistry.new_llm({name!r})\n"
        "except MissingExtraError as error:\n"
        "    print(error)\n"
    )
    run = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert f"flowloom[{extra}]" in run.stdout


def test_a_model_that_is_given_its_name_without_the_keyword_says_how() -> None:
    """The error speaks of the class that was called, and of no other."""
    with pytest.raises(TypeError, match=r"^OpenAIModel takes its fields by name only, as `OpenAIModel\(model='gpt'\)`"):
        OpenAIModel("gpt")  # type: ignore[misc] # pyright: ignore[reportCallIssue]
