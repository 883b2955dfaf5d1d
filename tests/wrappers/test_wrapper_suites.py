"""Every wrapper, and all of them around each other, keep the rules of models."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from contextlib import aclosing
from typing import Any, ClassVar

import pytest
from kit import STREAMED, Chat, story
from providers.test_suites_providers import TestGemini as GeminiRules

from flowloom import (
    BaseLlm,
    CachedModel,
    ConfigurationError,
    FallbackModel,
    Gemini,
    LimitedModel,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    OfflineModel,
    RetryModel,
    RetryOptions,
)
from flowloom.errors import ModelUnavailableError
from flowloom.testing import FunctionModel, ModelRequestBlockedError, ScriptedModel, block_model_requests, call
from flowloom.testing.suites import ModelSuite
from flowloom.testing.suites.loop import in_loop
from flowloom.testing.suites.model_answers import LONG_TEXT, TEXT, request


def wrapped(kind: str, inner: BaseLlm) -> BaseLlm:
    """`inner` in a wrapper of that name."""
    once = RetryOptions(attempts=1)
    if kind == "retry":
        return RetryModel(inner, once)
    if kind == "fallback":
        return FallbackModel([ScriptedModel([ModelUnavailableError("Down.")] * 9, model="down"), inner])
    if kind == "limited":
        return LimitedModel(inner, concurrency=2, requests_per_minute=100, tokens_per_minute=10**6)
    if kind == "cached":
        return CachedModel(inner)
    return RetryModel(LimitedModel(FallbackModel([inner]), concurrency=1), once)


class Waiting(ScriptedModel):
    """Waits before each response, so that it can be cancelled."""

    stream_chunks: bool = True

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        async with aclosing(super().generate_content_async(llm_request, stream)) as responses:
            async for response in responses:
                await asyncio.sleep(0)
                yield response


class Scripted(ModelSuite):
    kind: ClassVar[str]

    def make_model(self, answers: Sequence[LlmResponse]) -> BaseLlm:
        return wrapped(self.kind, Waiting(answers))

    def make_failing_model(self) -> BaseLlm:
        return wrapped(self.kind, ScriptedModel([ModelUnavailableError("Down.")]))


class OverHttp(GeminiRules):
    """Around the Gemini adapter, which talks to a server on this machine; what goes wrong there included."""

    kind: ClassVar[str]

    def adapter(self, url: str, *, patient: bool) -> BaseLlm:  # type: ignore[override]
        return wrapped(self.kind, super().adapter(url, patient=patient))


class SameAnswer(ModelSuite):
    """For a cache: the rules that ask the same twice and want two answers hold the other way round."""

    async def _texts(self, count: int, stream: bool) -> list[str]:
        model = await self._model(TEXT, LONG_TEXT)

        async def ask() -> str:
            async with aclosing(model.generate_content_async(request(), stream)) as responses:
                return [response async for response in responses][-1].text

        if count == 1:
            return [await ask(), await ask()]
        return list(await asyncio.gather(*(ask() for _ in range(count))))

    @in_loop
    async def test_calls_one_after_another_get_their_own_answers(self) -> None:
        for stream in (False, True):
            assert await self._texts(1, stream) == [TEXT.text] * 2

    @in_loop
    async def test_concurrent_calls_do_not_mix(self) -> None:
        for stream in (False, True):
            assert await self._texts(6, stream) == [TEXT.text] * 6


@pytest.mark.soak
class TestRetry(Scripted):
    kind = "retry"


@pytest.mark.soak
class TestFallback(Scripted):
    kind = "fallback"


@pytest.mark.soak
class TestLimited(Scripted):
    kind = "limited"


@pytest.mark.soak
class TestCached(SameAnswer, Scripted):
    kind = "cached"


class TestAllButTheCache(Scripted):
    kind = "all"


@pytest.mark.soak
class TestCachedOverHttp(SameAnswer, OverHttp):
    kind = "cached"


@pytest.mark.soak
class TestAllButTheCacheOverHttp(OverHttp):
    """A retry around limits around a fallback: what each of them does to an answer would show."""

    kind = "all"


@pytest.mark.soak
class TestAFilledCache(ModelSuite):
    """Compared with itself: what the first call gave, each further one gives."""

    scripted = False

    async def make_model(self, answers: Sequence[LlmResponse]) -> CachedModel:
        model = CachedModel(FunctionModel(lambda request: TEXT))
        async for _ in model.generate_content_async(request()):
            pass
        return model


def test_a_wrapper_says_of_itself_what_the_model_says() -> None:
    """Agents are shown the inner model: its name, backend and abilities."""

    class Other(ScriptedModel):
        model: str = "other"
        keeps_call_ids: ClassVar[bool] = True
        provider_name: str = "somebody"

        @property
        def hosted(self) -> bool:
            return True

        @property
        def output_schema_and_tools(self) -> bool:
            return True

        @property
        def backend(self) -> Any:
            return "vertex_ai"

        @property
        def missing_credentials(self) -> str | None:
            return "Set KEY."

    said = ("other", True, True, True, "vertex_ai", "somebody")
    for kind in ("retry", "limited", "cached", "all"):
        model: Any = wrapped(kind, Other())
        names = ("model", "keeps_call_ids", "hosted", "output_schema_and_tools", "backend", "provider_name")
        assert tuple(getattr(model, name) for name in names) == said, kind
        assert "Set KEY." in model.missing_credentials
    plain: Any = wrapped("all", ScriptedModel())
    assert (plain.keeps_call_ids, plain.hosted, plain.output_schema_and_tools, plain.backend) == (
        False,
        False,
        False,
        None,
    )
    assert plain.missing_credentials is None


@pytest.mark.parametrize("kind", ["retry", "limited", "cached", "all"])
async def test_a_wrapper_hands_on_what_is_no_question(kind: str) -> None:
    """Live connections, and the end: models that hold nothing need no `aclose`."""

    class Open(ScriptedModel):
        closed: int = 0

        def connect(self, llm_request: LlmRequest) -> str:
            return f"a connection of {llm_request.model}"

        async def aclose(self) -> None:
            self.closed += 1

    inner = Open(model="live")
    model: Any = wrapped(kind, inner)
    assert model.connect(LlmRequest(model="live")) == "a connection of live"
    await model.aclose()
    assert inner.closed == 1
    await wrapped(kind, ScriptedModel()).aclose()  # type: ignore[attr-defined]


@pytest.mark.parametrize("wrapper", [RetryModel, CachedModel])
def test_what_is_no_model_is_refused(wrapper: Any) -> None:
    with pytest.raises(ConfigurationError, match="no model"):
        wrapper(3)


@pytest.mark.parametrize("wrapper", [RetryModel, CachedModel])
def test_a_model_is_looked_up_by_its_name(wrapper: Any) -> None:
    assert isinstance(wrapper("offline").inner, OfflineModel)
    assert wrapper(model="offline").model == "offline"


async def test_a_hosted_model_is_as_forbidden_in_a_test_as_without_wrappers() -> None:
    inner = Gemini(model="gemini-2.5-flash", api_key="key")
    for kind in ("retry", "fallback", "limited", "cached", "all"):
        with block_model_requests() as guard:
            chat = Chat(LlmAgent(name="root", model=wrapped(kind, inner)))
            with pytest.raises(ModelRequestBlockedError):
                await chat.say("Hello?")
            assert guard.blocked


@pytest.mark.parametrize("stream", [False, True])
async def test_an_agent_with_all_of_them_runs_as_without(stream: bool) -> None:
    """Tool calls, results and answers are those of the bare model; the second time nobody is asked."""

    def look(at: str) -> str:
        """Look."""
        return f"{at} is there"

    answers = [call("look", at="it"), "There."]
    bare = Chat(LlmAgent(name="root", model=ScriptedModel(answers, stream_chunks=True), tools=[look]))
    config = STREAMED if stream else None
    expected = [line for line in story(await bare.say("Is it?", run_config=config)) if "~" not in line]
    inner = ScriptedModel(answers, stream_chunks=True)
    model = CachedModel(wrapped("all", inner))
    for session in ("s1", "s2"):
        chat = Chat(LlmAgent(name="root", model=model, tools=[look]), session_id=session)
        found = story(await chat.say("Is it?", run_config=config))
        assert [line for line in found if "~" not in line] == expected
    inner.assert_complete()
    assert (model.hits, model.misses) == (2, 2)
