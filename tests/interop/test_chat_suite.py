"""`ModelSuite` over `ServiceModel`: with an `LlmService` inside, and with a service that knows nothing but JSON."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncIterator, Sequence
from typing import Any

import pytest

from flowloom import LlmResponse
from flowloom.errors import ModelUnavailableError
from flowloom.interop import AgentResponse, LlmService, LLMServiceOptions, ServiceModel
from flowloom.testing import ScriptedModel
from flowloom.testing.suites import ModelSuite


def scripted(answers: Sequence[LlmResponse]) -> LlmService:
    return LlmService(ScriptedModel(answers, stream_chunks=True))


class ByJson:
    """A service whose questions and answers cross a wire: nothing is remembered on the way."""

    def __init__(self, inner: LlmService) -> None:
        self.inner = inner
        self.asked: list[Any] = []

    async def run_llm(self, options: LLMServiceOptions) -> AgentResponse | AsyncIterator[AgentResponse]:
        self.asked.append(json.loads(json.dumps(options)))
        answer = await self.inner.run_llm(self.asked[-1])
        if isinstance(answer, AgentResponse):
            return on_the_wire(answer)
        return (on_the_wire(each) async for each in answer)


def on_the_wire(answer: AgentResponse) -> AgentResponse:
    data = json.loads(json.dumps(dataclasses.asdict(dataclasses.replace(answer))))
    del data["response"]
    return AgentResponse(**data)


class WithoutStreams:
    """A service that gives the whole answer in any case."""

    def __init__(self, inner: LlmService) -> None:
        self.inner = inner

    async def run_llm(self, options: LLMServiceOptions) -> AgentResponse:
        asked: LLMServiceOptions = {**options, "stream": False}
        return on_the_wire(await self.inner.run_llm(asked))


DOWN = ScriptedModel([ModelUnavailableError("The model is down.")])


# What is not in chat messages; an `LlmService` keeps it beside them.
NOT_IN_MESSAGES = frozenset(
    {
        "thoughts_in_between",
        "recitation",
        "recitation_at_once",
        "prohibited_at_once",
        "tool_tokens",
        "logprobs",
        "citation",
        "grounding",
    }
)


@pytest.mark.soak
class TestServiceModel(ModelSuite):
    def make_model(self, answers: Sequence[LlmResponse]) -> ServiceModel:
        return ServiceModel(scripted(answers))

    def make_failing_model(self) -> ServiceModel:
        return ServiceModel(LlmService(DOWN.model_copy(deep=True)))


class TestServiceModelOverJson(ModelSuite):
    signatures = False
    lacks = NOT_IN_MESSAGES

    def make_model(self, answers: Sequence[LlmResponse]) -> ServiceModel:
        return ServiceModel(ByJson(scripted(answers)), model="far")

    def sent(self, model: Any) -> Sequence[Any]:
        return model.service.asked

    def make_failing_model(self) -> ServiceModel:
        return ServiceModel(ByJson(LlmService(DOWN.model_copy(deep=True))))


@pytest.mark.soak
class TestServiceModelThatCannotStream(ModelSuite):
    signatures = False
    lacks = NOT_IN_MESSAGES

    def make_model(self, answers: Sequence[LlmResponse]) -> ServiceModel:
        return ServiceModel(WithoutStreams(scripted(answers)))

    def make_failing_model(self) -> ServiceModel:
        return ServiceModel(WithoutStreams(LlmService(DOWN.model_copy(deep=True))))


@pytest.mark.soak
class TestServiceModelInAServiceModel(ModelSuite):
    """Four conversions one after another are as good as one."""

    signatures = False
    lacks = NOT_IN_MESSAGES

    def make_model(self, answers: Sequence[LlmResponse]) -> ServiceModel:
        return ServiceModel(ByJson(LlmService(ServiceModel(ByJson(scripted(answers))))))

    def make_failing_model(self) -> ServiceModel:
        return ServiceModel(LlmService(ServiceModel(LlmService(DOWN.model_copy(deep=True)))))
