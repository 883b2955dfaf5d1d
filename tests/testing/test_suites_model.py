"""`ModelSuite`: flowloom's own models pass, and each rule finds a model that breaks it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from pathlib import Path
from typing import Any, ClassVar

import pytest
from google.genai import types
from kit import said


from flowloom import (
    BaseLlm,
    Gemini,
    LlmRequest,
    LlmResponse,
    ModelError,
    ModelRequestError,
    ModelUnavailableError,
    OfflineModel,
)
from flowloom.models.contents import SharedContents
from flowloom.testing import FunctionModel, RecordingModel, ScriptedModel, chunks_of
from flowloom.testing.suites import ModelSuite

from .rules import breaks, rules_of


class TestScriptedModel(ModelSuite):
    def make_model(self, answers: Sequence[LlmResponse]) -> ScriptedModel:
        return ScriptedModel(answers, stream_chunks=True)

    def make_failing_model(self) -> ScriptedModel:
        return ScriptedModel([ModelUnavailableError("The model is down.")])


class TestScriptedModelThatDoesNotStream(ModelSuite):
    async def make_model(self, answers: Sequence[LlmResponse]) -> ScriptedModel:
        return ScriptedModel(answers)


class TestFunctionModel(ModelSuite):
    def make_model(self, answers: Sequence[LlmResponse]) -> FunctionModel:
        left = list(answers)
        return FunctionModel(lambda request: left.pop(0), stream_chunks=True)

    def make_failing_model(self) -> FunctionModel:
        return FunctionModel(lambda request: ModelUnavailableError("The model is down."))


class TestRecordingModel(ModelSuite):
    """While it records; what it plays is in the tests of cassettes."""

    @pytest.fixture(autouse=True)
    def _folder(self, tmp_path: Path) -> None:
        self.path = tmp_path / "calls.jsonl"

    def make_model(self, answers: Sequence[LlmResponse]) -> RecordingModel:
        return RecordingModel(ScriptedModel(answers, stream_chunks=True), self.path, mode="rewrite")

    def make_failing_model(self) -> RecordingModel:
        inner = ScriptedModel([ModelUnavailableError("The model is down.")])
        return RecordingModel(inner, self.path, mode="rewrite")


class TestOfflineModel(ModelSuite):
    scripted = False

    def make_model(self, answers: Sequence[LlmResponse]) -> OfflineModel:
        return OfflineModel()


class Model(ScriptedModel):
    """An honest model, as a base for dishonest ones."""

    stream_chunks: bool = True

    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        return [each async for each in ScriptedModel.generate_content_async(self, request, stream)]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        for response in await self.responses(llm_request, stream):
            yield response


class AlwaysStreams(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        return await super().responses(request, True)


class NeverCompletes(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        return [
            each.model_copy(update={"partial": stream or None}) for each in await super().responses(request, stream)
        ]


class CompletesWithoutText(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        *partials, complete = await super().responses(request, stream)
        return [*partials, complete.model_copy(update={"content": said()}) if stream else complete]


class RepeatsItself(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        *partials, complete = await super().responses(request, stream)
        return [*partials, *partials, complete]


class MakesIdsTwice(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        *partials, complete = [each.model_copy(deep=True) for each in await super().responses(request, stream)]
        for each in partials:
            for call in each.get_function_calls():
                call.id = "another"
        return [*partials, complete]


class HasOneId(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        copies = [each.model_copy(deep=True) for each in await super().responses(request, stream)]
        for each in copies:
            for call in each.get_function_calls():
                call.id = "call"
        return copies


class IsSilentOnNothing(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        found = await super().responses(request, stream)
        return found if found[-1].content and found[-1].content.parts else []


class AddsToTheRequest(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        request.append_instructions("Be brief.")
        return await super().responses(request, stream)


class AddsToTheHistory(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        if isinstance(request.contents, SharedContents):
            request.contents.plain()[-1].parts = [types.Part(text="And be brief.")]
        return await super().responses(request, stream)


class RemembersTheLast(Model):
    last: str = ""

    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        *partials, complete = await super().responses(request, stream)
        self.last += complete.text
        return [*partials, complete.model_copy(update={"content": said(self.last)})]


class HasOneBuffer(Model):
    text: str = ""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.text = ""
        for response in await self.responses(llm_request, stream):
            await asyncio.sleep(0)
            self.text += response.text if response.partial else ""
            yield response if response.partial else response.model_copy(update={"content": said(self.text)})


RUNNING: set[asyncio.Task[None]] = set()


class LeavesATask(Model):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        task = asyncio.create_task(asyncio.sleep(60))
        RUNNING.add(task)
        task.add_done_callback(RUNNING.discard)
        for response in await self.responses(llm_request, stream):
            yield response


class LeavesATaskWhenLeft(Model):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        task = asyncio.create_task(asyncio.sleep(60))
        for response in await self.responses(llm_request, stream):
            yield response
        task.cancel()


class RaisesAnything(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        try:
            return await super().responses(request, stream)
        except ModelError:
            raise RuntimeError("It did not work.") from None


class NamesNoModels(Model):
    @classmethod
    def supported_models(cls) -> list[str]:
        return ["gemini-("]


BROKEN: dict[str, type[Model]] = {
    "an_unstreamed_call_gives_one_complete_response": AlwaysStreams,
    "a_streamed_call_ends_with_one_complete_response": NeverCompletes,
    "a_stream_ends_as_the_unstreamed_answer_is": CompletesWithoutText,
    "partial_texts_join_to_the_complete_text": RepeatsItself,
    "calls_have_one_id_in_partial_and_complete_responses": MakesIdsTwice,
    "calls_in_one_answer_have_different_ids": HasOneId,
    "an_empty_answer_is_a_response_too": IsSilentOnNothing,
    "the_request_is_not_changed": AddsToTheRequest,
    "shared_contents_are_accepted_and_not_changed": AddsToTheHistory,
    "calls_one_after_another_get_their_own_answers": RemembersTheLast,
    "concurrent_calls_do_not_mix": HasOneBuffer,
    "a_stream_that_is_left_leaves_nothing": LeavesATaskWhenLeft,
    "a_call_leaves_nothing": LeavesATask,
    "failures_are_model_errors": RaisesAnything,
    "supported_models_are_regular_expressions": NamesNoModels,
}


class Suite(ModelSuite):
    model: ClassVar[type[Model]] = Model

    def make_model(self, answers: Sequence[LlmResponse]) -> BaseLlm:
        return self.model(answers)

    def make_failing_model(self) -> BaseLlm:
        return self.model([ModelRequestError("No.")])


def broken_suite(rule: str) -> type[Suite]:
    class Broken(Suite):
        model = BROKEN[rule]

    return Broken


@pytest.mark.parametrize("rule", BROKEN)
def test_a_model_that_breaks_a_rule_is_found(rule: str) -> None:
    breaks(broken_suite(rule), rule)


@pytest.mark.parametrize("rule", BROKEN)
def test_the_model_that_the_broken_ones_derive_from_keeps_all_rules(rule: str) -> None:
    getattr(Suite(), f"test_{rule}")()


def test_every_rule_is_shown_to_fail() -> None:
    assert rules_of(ModelSuite) == BROKEN.keys()


def test_an_answer_other_than_the_backends_is_found() -> None:
    class Deaf(ModelSuite):
        def make_model(self, answers: Sequence[LlmResponse]) -> FunctionModel:
            return FunctionModel(lambda request: "Something else.")

    breaks(Deaf, "an_unstreamed_call_gives_one_complete_response")


def test_a_model_that_answers_at_random_is_compared_with_itself() -> None:
    class Moody(ModelSuite):
        scripted = False

        def make_model(self, answers: Sequence[LlmResponse]) -> FunctionModel:
            count = iter(range(100))
            return FunctionModel(lambda request: f"Answer {next(count)}.")

    breaks(Moody, "calls_one_after_another_get_their_own_answers")


def test_failures_are_left_out_without_a_failing_model() -> None:
    with pytest.raises(pytest.skip.Exception, match="make_failing_model"):
        TestScriptedModelThatDoesNotStream().test_failures_are_model_errors()


def test_a_failure_that_says_nothing_is_found() -> None:
    class Mute(ModelSuite):
        def make_model(self, answers: Sequence[LlmResponse]) -> Model:
            return Model(answers)

        def make_failing_model(self) -> Model:
            return Model([ModelRequestError("")])

    breaks(Mute, "failures_are_model_errors")
