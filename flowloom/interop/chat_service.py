"""Models as services of chat messages, and services of chat messages as models."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import aclosing
from typing import Any, ClassVar, Literal, Protocol, cast, overload, runtime_checkable

from pydantic import PrivateAttr

from flowloom.errors import (
    ConfigurationError,
    FlowloomError,
    IncompleteStreamError,
    ModelError,
    ModelResponseError,
)
from flowloom.events.response import LlmResponse
from flowloom.interop.chat_answers import (
    AgentResponse,
    AnswerWriter,
    TokenUsage,
    complete_response,
    partial_response,
)
from flowloom.interop.chat_messages import LLMServiceOptions
from flowloom.interop.chat_options import options_of, request_of
from flowloom.models.base_llm import BaseLlm
from flowloom.models.failures import is_network, is_timeout, status_error, unavailable
from flowloom.models.registry import LLMRegistry
from flowloom.models.request import LlmRequest
from flowloom.objects.notebook import named

__all__ = ["AgentResponse", "LLMService", "LlmService", "ServiceModel", "StreamOptions", "TokenUsage"]

_log = logging.getLogger("flowloom.models")
_UNNAMED = "service"
_OVER: Any = object()
"""Comes after the last answer of a stream."""


class StreamOptions(LLMServiceOptions):
    """Options that ask for a stream."""

    stream: Literal[True]  # pyright: ignore[reportIncompatibleVariableOverride, reportGeneralTypeIssues]


@runtime_checkable
class LLMService(Protocol):
    """Whatever answers conversations of chat messages."""

    async def run_llm(self, options: LLMServiceOptions) -> AgentResponse | AsyncIterator[AgentResponse]:
        """The answer to `options["messages"]`.

        With `options["stream"]` it may be an iterator instead: over pieces (`partial=True`), and then the whole, which
        repeats all of them. A service that cannot stream gives the whole in any case.
        """
        ...


class LlmService:
    """Any model as a service of chat messages.

    ```python
    service = LlmService(Gemini(model="gemini-2.5-flash"))
    answer = await service.run_llm({"messages": [{"role": "user", "content": "Hello!"}]})
    ```

    `model` is a `BaseLlm`, or the name of one (see `LLMRegistry`). Tools are declared to the model, and not run. Raises
    `ConfigurationError` for what is neither.
    """

    def __init__(self, model: BaseLlm | str) -> None:
        if not isinstance(model, BaseLlm | str):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"An `LlmService` takes a `BaseLlm`, or the name of a model, not {model!r:.80}.")
        self.model = LLMRegistry.new_llm(model) if isinstance(model, str) else model
        self._once = _Once("`%s` is left out of requests to `%s`: they have no such thing.", self.model.model)

    @property
    def hosted(self) -> bool:
        """Whether a call leaves this machine, as the model says."""
        return self.model.hosted

    @property
    def missing_credentials(self) -> str | None:
        """What to set before the model can be called, as the model says."""
        return self.model.missing_credentials

    @property
    def output_schema_and_tools(self) -> bool:
        """Whether a response format may stand beside tools, as the model says."""
        return self.model.output_schema_and_tools

    @overload
    async def run_llm(self, options: StreamOptions) -> AsyncGenerator[AgentResponse, None]: ...
    @overload
    async def run_llm(self, options: LLMServiceOptions) -> AgentResponse: ...
    async def run_llm(self, options: Any) -> AgentResponse | AsyncGenerator[AgentResponse, None]:
        """The model's answer, or with `stream` its pieces and then the whole. Nothing in `options` is changed.

        Raises `ChatMessageError`, which names the message, and `InputValidationError` for options that are not of the
        form they have to have; `UnsupportedFeatureError` for those that a model cannot be asked; and what the model
        raises, a `ModelError`. Errors of a stream are raised while it is read. Closing it ends the call.
        """
        request = request_of(cast(LLMServiceOptions, options), self._once.drop)
        request.model = request.model or self.model.model
        if cast(LLMServiceOptions, options).get("stream"):
            return self._stream(request)
        writer = AnswerWriter(request.model)
        answer: AgentResponse | None = None
        async with aclosing(self._responses(request, stream=False)) as responses:
            async for response in responses:
                if not response.partial:
                    answer = writer.whole(response)
        if answer is None:
            raise ModelResponseError(f"The model `{request.model}` gave no response.", model=request.model)
        return answer

    async def _stream(self, request: LlmRequest) -> AsyncGenerator[AgentResponse, None]:
        writer = AnswerWriter(request.model or "")
        whole: AgentResponse | None = None
        async with aclosing(self._responses(request, stream=True)) as responses:
            async for response in responses:
                if not response.partial:
                    whole = writer.whole(response)
                elif (piece := writer.piece(response)) is not None:
                    yield piece
        if whole is None:
            raise _incomplete(request.model or "")
        yield whole

    async def _responses(self, request: LlmRequest, *, stream: bool) -> AsyncGenerator[LlmResponse, None]:
        """What the model says; what it raises is a `FlowloomError`."""
        async with aclosing(self.model.generate_content_async(request, stream)) as responses:
            while True:
                try:
                    response = await anext(responses, None)
                except Exception as error:
                    raise _failure(error, request.model or "") from error
                if response is None:
                    return
                yield response


class ServiceModel(BaseLlm):
    """Any service of chat messages as a model, for agents.

    ```python
    agent = LlmAgent(name="helper", model=ServiceModel(my_service, model="gpt-5"))
    ```

    `model` is the name that the service is given in `options["model"]`; without one it is given none, unless it is an
    `LlmService`, whose model has a name.
    """

    service: Any
    """The service, an `LLMService`."""

    keeps_call_ids: ClassVar[bool] = True

    _once: _Once = PrivateAttr()

    def __init__(self, service: LLMService, model: str | None = None, **fields: Any) -> None:
        if not hasattr(service, "run_llm"):
            raise ConfigurationError(f"A {type(service).__name__} is no `LLMService`: it has no `run_llm(options)`.")
        inner = service.model.model if isinstance(service, LlmService) else _UNNAMED
        super().__init__(service=service, model=model or inner, **fields)  # pyright: ignore[reportCallIssue]
        self._once = _Once("`%s` is left out of what the service `%s` is asked: it has no words for it.", self.model)

    @property
    def hosted(self) -> bool:
        """Whether a call leaves this machine, as the service's own `hosted` says; False if it has none."""
        return bool(getattr(self.service, "hosted", False))

    @property
    def missing_credentials(self) -> str | None:
        """What the service's own `missing_credentials` says; None if it has none."""
        return getattr(self.service, "missing_credentials", None)

    @property
    def output_schema_and_tools(self) -> bool:
        """What the service's own `output_schema_and_tools` says; True if it has none."""
        return bool(getattr(self.service, "output_schema_and_tools", True))

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """Ask the service. Nothing in the request is changed.

        Raises `UnsupportedFeatureError` for what chat messages have no words for, `ModelResponseError` for an answer
        that is none, `IncompleteStreamError` for a stream without its whole; what the service raises becomes a
        `ModelError`, the cause attached. Closing the generator closes the service's stream.
        """
        name = llm_request.model or self.model
        remembers = isinstance(self.service, LlmService)
        options = options_of(llm_request, name, remembers=remembers, drop=self._once.drop)
        if name != _UNNAMED:
            options["model"] = name
        if stream:
            options["stream"] = True
        try:
            answer: Any = await self.service.run_llm(options)
        except Exception as error:
            raise _failure(error, name) from error
        if isinstance(answer, AgentResponse) and not answer.partial:
            yield complete_response(answer, name)
        elif hasattr(answer, "__aiter__"):
            async with aclosing(_read(aiter(cast(AsyncIterator[AgentResponse], answer)), name)) as responses:
                async for response in responses:
                    if stream or not response.partial:
                        yield response
        else:
            raise ModelResponseError(
                f"The service behind the model `{name}` answered with a {type(answer).__name__}; it has to be a whole "
                f"`AgentResponse`, or an async iterator of them.",
                model=name,
            )


async def _read(answers: AsyncIterator[AgentResponse], name: str) -> AsyncGenerator[LlmResponse, None]:
    """The responses of a stream of answers, the complete one last."""
    whole: LlmResponse | None = None
    try:
        while True:
            try:
                answer = await anext(answers, _OVER)
            except Exception as error:
                raise _failure(error, name) from error
            if answer is _OVER:
                break
            if not isinstance(answer, AgentResponse):  # pyright: ignore[reportUnnecessaryIsInstance]
                raise ModelResponseError(
                    f"The service behind the model `{name}` streams a {type(answer).__name__}; it has to be an "
                    f"`AgentResponse`.",
                    model=name,
                )
            if answer.partial:
                yield partial_response(answer, name)
            else:
                whole = complete_response(answer, name)
    finally:
        close = getattr(answers, "aclose", None)
        if close is not None:
            await close()
    if whole is None:
        raise _incomplete(name)
    yield whole


class _Once:
    """Says once of each thing that it is left out."""

    def __init__(self, text: str, model: str) -> None:
        self._text = text
        self._model = model
        self._said: set[str] = set()

    def drop(self, field: str) -> None:
        if field not in self._said:
            self._said.add(field)
            _log.warning(self._text, field, self._model)


def _incomplete(model: str) -> IncompleteStreamError:
    return IncompleteStreamError(
        f"The stream of the model `{model}` ended before its whole answer came. The connection may have broken.",
        model=model,
        retryable=True,
    )


def _failure(error: Exception, model: str) -> FlowloomError:
    """What to raise for what a service or a model raised."""
    if isinstance(error, FlowloomError):
        return error
    status: Any = getattr(error, "status_code", None)
    if isinstance(status, int):
        code: Any = getattr(error, "code", None)
        return status_error(status, None if code is None else str(code), str(error), model)
    for each in (error, error.__cause__):
        if each is not None and (isinstance(each, ConnectionError | TimeoutError) or is_network(each)):
            timed_out = isinstance(each, TimeoutError) or is_timeout(each)
            return unavailable(error, model, f"The service behind the model `{model}`", timed_out=timed_out)
    return ModelError(f"The service behind the model `{model}` failed: {named(error)}", model=model)
