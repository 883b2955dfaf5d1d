"""Every adapter keeps the rules of models over true HTTP, in its provider's own wire format."""

from __future__ import annotations

import random
from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import pytest
from google.genai import types
from models.answer_server import AnswerServer, Said
from models.gemini_wire import GeminiServer
from models.wire_server import closed_port
from providers.anthropic_wire import MessagesServer
from providers.openai_wire import ChatServer
from providers.responses_wire import ResponsesServer

from flowloom import AnthropicModel, BaseLlm, Gemini, LlmResponse, OpenAIModel, RetryOptions
from flowloom.testing.suites import ModelSuite
from flowloom.testing.suites.model_answers import TEXT
from flowloom.testing.suites.model_faults import Fault

PATIENCE = 0.25
"""Seconds that a backend of these tests may be silent, where it is made to be."""
GOOGLES_REASONS = frozenset({"recitation", "recitation_at_once", "prohibited_at_once", "malformed_call"})
NOT_GEMINI = GOOGLES_REASONS | {"tool_tokens", "grounding", "signed_text", "signed_call"}


class Adapter(ModelSuite):
    """Streams are cut anywhere, the same each time, and have comments in them."""

    speaks: ClassVar[type[AnswerServer]]
    servers: dict[int, AnswerServer]

    @abstractmethod
    def adapter(self, url: str, *, patient: bool) -> BaseLlm:
        """The adapter, without retries. One that is not `patient` gives up after `PATIENCE`."""

    def make_model(self, answers: Sequence[LlmResponse]) -> BaseLlm:
        return self._connected(answers, patient=True)

    def make_failing_model(self) -> BaseLlm:
        return self._connected([], patient=True)

    def make_faulty_model(self, fault: Fault) -> BaseLlm:
        if fault.name == "unreachable":
            return self.adapter(f"http://127.0.0.1:{closed_port()}", patient=True)
        return self._connected([fault, TEXT], patient="silent" not in fault.name)

    def sent(self, model: BaseLlm) -> list[Any]:
        return self.servers[id(model)].bodies

    def _connected(self, answers: Iterable[Said], *, patient: bool) -> BaseLlm:
        server = self.speaks(answers, cuts=random.Random(4711), keep_alive=True)
        server.__enter__()
        model = self.adapter(server.url, patient=patient)
        self.__dict__.setdefault("servers", {})[id(model)] = server
        return model

    async def close(self, part: Any) -> None:
        await part.aclose()
        server = self.__dict__.get("servers", {}).pop(id(part), None)
        if server is not None:
            server.__exit__(None, None, None)


class TestGemini(Adapter):
    speaks = GeminiServer
    lacks = frozenset({"hidden_thought"})

    def adapter(self, url: str, *, patient: bool) -> Gemini:
        options = None if patient else types.HttpOptions(timeout=int(PATIENCE * 1000))
        return Gemini(
            model="gemini-2.5-flash",
            base_url=url,
            api_key="key",
            http_options=options,
            retry_options=RetryOptions(attempts=1),
        )


class OverSdk(Adapter):
    def fields(self, url: str, *, patient: bool) -> dict[str, Any]:
        once = RetryOptions(attempts=1)
        return {"base_url": url, "api_key": "key", "timeout": 60.0 if patient else PATIENCE, "retry_options": once}


class TestChatCompletions(OverSdk):
    speaks = ChatServer
    signatures = False
    lacks = NOT_GEMINI | {"thoughts_in_between"}

    def adapter(self, url: str, *, patient: bool) -> OpenAIModel:
        return OpenAIModel(model="gpt-5", dialect="openai", **self.fields(url, patient=patient))


@pytest.mark.soak
class TestResponses(OverSdk):
    speaks = ResponsesServer
    lacks = NOT_GEMINI | {"call_without_id"}

    def adapter(self, url: str, *, patient: bool) -> OpenAIModel:
        return OpenAIModel(model="gpt-5", api="responses", **self.fields(url, patient=patient))


@pytest.mark.soak
class TestAnthropic(OverSdk):
    speaks = MessagesServer
    lacks = NOT_GEMINI | {"call_without_id", "logprobs"}
    model: ClassVar[str] = "claude-sonnet-4-5"

    def adapter(self, url: str, *, patient: bool) -> AnthropicModel:
        return AnthropicModel(model=self.model, **self.fields(url, patient=patient))


class OmittingServer(MessagesServer):
    """Gives the signature of a thought that is not shown, as newer models do."""

    omits = True


class TestNewerClaude(TestAnthropic):
    speaks = OmittingServer
    model = "claude-sonnet-5-5"
