"""Models that break one rule each of `ModelSuite`, and the honest one that they derive from."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from typing import Any

from google.genai import types
from kit import said
from pydantic import PrivateAttr, TypeAdapter
from pydantic_core import to_jsonable_python

from flowloom import LlmRequest, LlmResponse, ModelError
from flowloom.errors import UnsupportedFeatureError
from flowloom.models.contents import SharedContents
from flowloom.testing import ScriptedModel, chunks_of
from flowloom.testing.suites.model_faults import Fault


def body_of(request: LlmRequest) -> Any:
    """A request as JSON data, as if it were sent."""
    contents = request.contents
    plain = contents.plain() if isinstance(contents, SharedContents) else contents
    given = {"contents": plain, "config": request.config.model_dump(exclude_none=True)}
    return to_jsonable_python(given, exclude_none=True, fallback=lambda schema: TypeAdapter(schema).json_schema())


def error_of(fault: Fault, stream: bool) -> ModelError:
    """The error that a model may make of a fault."""
    error = fault.errors(stream=stream)[0](
        f"The call failed: {fault.name}.",
        status=fault.status if isinstance(fault.status, int) else None,
        retryable=fault.retryable is True,
        retry_after=fault.retry_after,
    )
    error.__cause__ = OSError("the wire is cut") if fault.caused else None
    return error


class Model(ScriptedModel):
    """An honest model, as a base for dishonest ones."""

    stream_chunks: bool = True
    fault: Fault | None = None
    """What goes wrong in the next call."""

    _bodies: list[Any] = PrivateAttr(default_factory=list)

    @property
    def bodies(self) -> list[Any]:
        """What was sent."""
        return self._bodies

    def send(self, request: LlmRequest) -> None:
        self._bodies.append(body_of(request))

    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        return [each async for each in ScriptedModel.generate_content_async(self, request, stream)]

    async def faulty(self, fault: Fault, stream: bool) -> list[LlmResponse]:
        """What is given before a fault."""
        return chunks_of(fault.answer)[:3] if fault.partial and stream else []

    def error(self, fault: Fault, stream: bool) -> Exception:
        return error_of(fault, stream)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.send(llm_request)
        fault, self.fault = self.fault, None
        if fault is not None:
            for response in await self.faulty(fault, stream):
                yield response
            raise self.error(fault, stream)
        for response in await self.responses(llm_request, stream):
            yield response


class Changes(Model):
    """A model that changes the complete response; it is not changed itself."""

    def changed(self, response: LlmResponse) -> None:
        raise NotImplementedError

    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        *partials, complete = [each.model_copy(deep=True) for each in await super().responses(request, stream)]
        self.changed(complete)
        return [*partials, complete]


# -- answers ---------------------------------------------------------------------------------------


class HasOnlyFloats(Changes):
    def changed(self, response: LlmResponse) -> None:
        for call in response.get_function_calls():
            args = call.args or {}
            call.args = {name: float(value) if isinstance(value, int) else value for name, value in args.items()}


class ForgetsTheCache(Changes):
    def changed(self, response: LlmResponse) -> None:
        assert response.usage_metadata is not None
        response.usage_metadata.cached_content_token_count = None


class PutsThoughtsFirst(Changes):
    def changed(self, response: LlmResponse) -> None:
        assert response.content is not None
        response.content.parts = sorted(response.content.parts or [], key=lambda part: not part.thought)


class LosesSignatures(Changes):
    def changed(self, response: LlmResponse) -> None:
        for part in (response.content.parts if response.content is not None else None) or ():
            part.thought_signature = None


class LosesLogprobs(Changes):
    def changed(self, response: LlmResponse) -> None:
        response.logprobs_result = None


class LosesCitations(Changes):
    def changed(self, response: LlmResponse) -> None:
        response.citation_metadata = None


class TakesAllForTheEnd(Changes):
    def changed(self, response: LlmResponse) -> None:
        response.finish_reason = types.FinishReason.STOP


class ForgetsWhatItSaid(Model):
    """Sends nothing of what a model said."""

    def send(self, request: LlmRequest) -> None:
        body = body_of(request)
        body["contents"] = [content for content in body["contents"] if content["role"] == "user"]
        self._bodies.append(body)


class RefusesThoughts(Model):
    async def responses(self, request: LlmRequest, stream: bool) -> list[LlmResponse]:
        if any(part.thought for content in request.contents for part in content.parts or ()):
            raise ModelError("There are thoughts in the history.")
        return await super().responses(request, stream)


# -- requests --------------------------------------------------------------------------------------


class Forgets(Model):
    """Sends no system instruction, and tells nobody."""

    def send(self, request: LlmRequest) -> None:
        body = body_of(request)
        body["config"].pop("system_instruction", None)
        self._bodies.append(body)


class TurnsRoundResults(Model):
    def send(self, request: LlmRequest) -> None:
        body = body_of(request)
        body["contents"].reverse()
        self._bodies.append(body)


class SendsNothing(Model):
    def send(self, request: LlmRequest) -> None:
        """Nothing."""


class Refuses(Model):
    """Refuses a field of its own choice, before anything is sent."""

    field: str = "config.system_instruction"
    sends: bool = False

    def send(self, request: LlmRequest) -> None:
        if self.sends:
            super().send(request)
        raise UnsupportedFeatureError("This cannot be sent.", field=self.field)


class RefusesSystemTexts(Refuses):
    pass


class RefusesAnything(Refuses):
    field: str = "config"


class RefusesTooLate(Refuses):
    field: str = "config.seed"
    sends: bool = True


class Breaks(Model):
    def send(self, request: LlmRequest) -> None:
        raise KeyError("seed")


# -- faults ----------------------------------------------------------------------------------------


def failing(make: Callable[[ModelError], Exception]) -> type[Model]:
    """A model that raises something else than it should."""

    class Failing(Model):
        def error(self, fault: Fault, stream: bool) -> Exception:
            return make(super().error(fault, stream))  # type: ignore[arg-type]

    return Failing


def _without(name: str, value: Any) -> Callable[[ModelError], Exception]:
    def make(error: ModelError) -> Exception:
        setattr(error, name, value)
        return error

    return make


RaisesTheLibrarysError = failing(lambda error: ConnectionResetError("the wire is cut"))
RaisesTheWrongError = failing(lambda error: ModelError(str(error), status=error.status, retryable=error.retryable))
SaysNothing = failing(lambda error: type(error)("", status=error.status, retryable=error.retryable))
NamesNoStatus = failing(_without("status", None))
IsNeverToBeRetried = failing(_without("retryable", False))
ForgetsThePause = failing(_without("retry_after", None))
HidesTheCause = failing(_without("__cause__", None))


class GivesHalfOfAWhole(Model):
    async def faulty(self, fault: Fault, stream: bool) -> list[LlmResponse]:
        return chunks_of(fault.answer)[:1]


class SwallowsFaults(Model):
    """An answer that broke off is taken for whole."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        try:
            async for response in super().generate_content_async(llm_request, stream):
                yield response
        except ModelError:
            yield LlmResponse(content=said("It is sunny"))


class NeverRecovers(Model):
    async def faulty(self, fault: Fault, stream: bool) -> list[LlmResponse]:
        self.fault = fault
        return []


class TriesAgainUnseen(Model):
    """What it gave before the fault, it gives again."""

    async def faulty(self, fault: Fault, stream: bool) -> list[LlmResponse]:
        given = await super().faulty(fault, stream)
        return [*given, *given]


class HoldsBack(Model):
    async def faulty(self, fault: Fault, stream: bool) -> list[LlmResponse]:
        return []


class CompletesWhatBroke(Model):
    async def faulty(self, fault: Fault, stream: bool) -> list[LlmResponse]:
        given = await super().faulty(fault, stream)
        return [*given, given[0].model_copy(update={"partial": None})] if given else []


# -- the rest --------------------------------------------------------------------------------------


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


class LeavesATaskWhenCancelled(Model):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        task = asyncio.create_task(asyncio.sleep(60))
        await asyncio.sleep(0)
        for response in await self.responses(llm_request, stream):
            yield response
        task.cancel()


class NamesNoModels(Model):
    @classmethod
    def supported_models(cls) -> list[str]:
        return ["gemini-("]
