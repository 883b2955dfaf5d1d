"""`FallbackModel`: asks the next model when one fails."""

from __future__ import annotations

import logging
from collections.abc import AsyncGenerator, Callable, Iterable, Sequence
from contextlib import aclosing
from dataclasses import dataclass
from typing import Any, ClassVar, NoReturn, Self, cast

from pydantic import PrivateAttr

from flowloom.errors import (
    ConfigurationError,
    ModelError,
    ModelRateLimitError,
    ModelResponseError,
    ModelStreamError,
    ModelUnavailableError,
    quoted_list,
)
from flowloom.events.response import LlmResponse
from flowloom.events.wire import replace
from flowloom.models.base_llm import Backend, BaseLlm, as_response
from flowloom.models.failures import empty_stream
from flowloom.models.request import LlmRequest, note_dropped
from flowloom.models.server_tools import Asked
from flowloom.objects.notebook import named
from flowloom.wrappers.wrapper import close, provider_name_of, resolved

_log = logging.getLogger("flowloom.wrappers")

Reason = int | str | type[Exception] | Callable[[Exception], bool]
"""A failure for which the next model is asked: an HTTP status, a code, a class of errors, or a function that tells."""
METADATA = "fallback"
"""The key in `custom_metadata` of a complete response under which a `FallbackModel` says which model answered."""


def is_retryable(error: Exception) -> bool:
    """Whether a model error says that the same call may succeed later."""
    return isinstance(error, ModelError) and error.retryable


class FallbackModel(BaseLlm):
    """Asks the first of `models` (or of the models of these names), and the next one when it fails, and so on.

    `on` says for which failures the next one is asked: HTTP statuses, classes of errors, functions of an error, codes
    (of an error, or of a response that is one, such as `"SAFETY"`), or several of these. By default these are rate
    limits, providers that are not available, streams that broke, and all that is `retryable`; a request that was
    refused as it is would be refused again. A model that says nothing at all counts as a broken stream. With
    `retriable_status_codes`, as in google-adk, only these statuses count.

    If a model fails after a part of its answer was passed on, its error is raised, so that nothing is streamed twice.
    When all models have failed, the last error is raised: its text names all of them, and its `__cause__` is an
    `ExceptionGroup` of their errors.

    Each model is asked under its own name, whatever the request says. Which one answered stands in `model_version`
    (unless the model itself fills it) and in `custom_metadata["fallback"]` of the complete response.

    Requests are built before it is known which model answers, so it has the capabilities that all share:
    `output_schema_and_tools` and `keeps_call_ids` if all have them, the backend that takes least. Name and
    `provider_name` are the first one's.
    """

    DEFAULT_ON: ClassVar[tuple[Reason, ...]] = (
        ModelRateLimitError,
        ModelUnavailableError,
        ModelStreamError,
        is_retryable,
    )

    models: tuple[BaseLlm, ...]

    _reasons: _Reasons = PrivateAttr()

    def __init__(
        self,
        models: Sequence[BaseLlm | str],
        on: Reason | Iterable[Reason] | None = None,
        *,
        retriable_status_codes: Iterable[int] | None = None,
    ) -> None:
        if on is not None and retriable_status_codes is not None:
            raise ConfigurationError("`on` and `retriable_status_codes` say the same thing; give one of them.")
        if not models or isinstance(models, str):
            raise ConfigurationError(f"A `FallbackModel` needs a list of models, and was given {models!r}.")
        asked = tuple(resolved(model) for model in models)
        super().__init__(model=asked[0].model, models=asked)  # type: ignore[call-arg]
        given = on if retriable_status_codes is None else tuple(retriable_status_codes)
        self._reasons = _Reasons.of(self.DEFAULT_ON if given is None else given)

    @property
    def backend(self) -> Backend | None:
        """The one that takes least of those of the models: the Gemini API, another than Google's, Vertex AI."""
        backends = {model.backend for model in self.models}
        return "gemini_api" if "gemini_api" in backends else None if None in backends else "vertex_ai"

    @property
    def hosted(self) -> bool:
        return any(model.hosted for model in self.models)

    @property
    def missing_credentials(self) -> str | None:
        """What is missing for any of the models, the first that was named in front."""
        missing = [(model.model, model.missing_credentials) for model in self.models]
        return " ".join(f"`{name}`: {what}" for name, what in missing if what) or None

    @property
    def output_schema_and_tools(self) -> bool:
        return all(model.output_schema_and_tools for model in self.models)

    def server_tool_refusal(self, asked: Asked, functions: Sequence[str], model: str | None = None) -> str | None:
        return next(filter(None, (each.server_tool_refusal(asked, functions) for each in self.models)), None)

    @property
    def keeps_call_ids(self) -> bool:  # pyright: ignore[reportIncompatibleVariableOverride] - a class does not know it
        return all(model.keeps_call_ids for model in self.models)

    @property
    def provider_name(self) -> str | None:
        """The provider's name for telemetry, if the first model has one."""
        return provider_name_of(self.models[0])

    def connect(self, llm_request: LlmRequest) -> Any:
        return self.models[0].connect(_request_for(self.models[0], llm_request))

    async def aclose(self) -> None:
        """Close the connections of all models."""
        for model in self.models:
            await close(model)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The answer of the first model that does not fail. Raises the last error when all have failed."""
        failures: list[tuple[str, Exception]] = []
        last = len(self.models) - 1
        for place, model in enumerate(self.models):
            given = False
            try:
                calling = model.generate_content_async(_request_for(model, llm_request), stream)
                async with aclosing(calling) as responses:
                    async for response in responses:
                        as_response(response, model.model)
                        if not given and place != last:
                            self._reasons.check(llm_request, response, model.model)
                        given = True
                        yield response if response.partial else _signed(response, model.model, failures)
                if given:
                    return
                raise empty_stream(model.model)
            except Exception as error:
                if given:
                    raise
                failures.append((model.model, error))
                if not self._reasons.cover(error):
                    break
                if place != last:
                    _log.warning("The model `%s` failed, the next one is asked. %s", model.model, named(error))
        _raise_last(failures)


@dataclass(frozen=True)
class _Reasons:
    """Failures for which the next model is asked."""

    statuses: frozenset[int]
    codes: frozenset[str]
    classes: tuple[type[Exception], ...]
    tests: tuple[Callable[[Exception], bool], ...]

    @classmethod
    def of(cls, on: Reason | Iterable[Reason]) -> Self:
        one = isinstance(on, int | str | type) or not isinstance(on, Iterable)
        reasons = cast("list[Reason]", [on] if one else list(cast(Iterable[Reason], on)))
        for reason in reasons:
            if not (isinstance(reason, int | str) or callable(reason)):
                raise ConfigurationError(
                    f"{reason!r} is no failure to fall back on. Give an HTTP status, a code, a class of errors or a "
                    f"function of an error."
                )
        classes = tuple(each for each in reasons if isinstance(each, type))
        tests = tuple(each for each in reasons if callable(each) and not isinstance(each, type))
        statuses = frozenset(each for each in reasons if isinstance(each, int))
        return cls(statuses, frozenset(each for each in reasons if isinstance(each, str)), classes, tests)

    def cover(self, error: Exception) -> bool:
        """Whether the next model is asked for this error."""
        if isinstance(error, self.classes) or any(test(error) for test in self.tests):
            return True
        return isinstance(error, ModelError) and (error.status in self.statuses or error.code in self.codes)

    def check(self, request: LlmRequest, response: LlmResponse, name: str) -> None:
        """Raise for a response that is an error for which the next model is asked."""
        if response.error_code not in self.codes:
            return
        note_dropped(request, response)
        raise ModelResponseError(
            f"The model `{name}` answered with the error {response.error_code}: "
            f"{response.error_message or 'no reason was given'}",
            model=name,
            code=response.error_code,
        )


def _request_for(model: BaseLlm, request: LlmRequest) -> LlmRequest:
    """The request under the model's own name."""
    if request.model == model.model:
        return request
    return replace(request, model=model.model)


def _signed(response: LlmResponse, name: str, failures: list[tuple[str, Exception]]) -> LlmResponse:
    """The response with the name of the model that gave it, and of those that failed before."""
    metadata = response.custom_metadata or {}
    known: dict[str, Any] = metadata.get(METADATA) or {"answered_by": name}  # of a fallback inside of this one
    failed = [{"model": each, "error": named(error)} for each, error in failures] + known.get("failed", [])
    return replace(
        response,
        custom_metadata={**metadata, METADATA: {**known, "failed": failed} if failed else known},
        model_version=response.model_version or name,
    )


def _raise_last(failures: list[tuple[str, Exception]]) -> NoReturn:
    """Raise the last of several failures, with the others attached. Its text names the model of each."""
    *before, (_, last) = failures
    if not before:
        raise last
    if not isinstance(last, ModelError):
        for model, error in before:
            last.add_note(f"Before that, the model `{model}` failed. {named(error)}")
        raise last
    # the same class and attributes, with another text; subclasses may have any constructor
    summary = type(last).__new__(type(last))
    each = " ".join(f"[{model}] {error}" for model, error in failures)
    summary.args = (f"The models {quoted_list(model for model, _ in failures)} failed, one after another. {each}",)
    vars(summary).update(vars(last))
    raise summary from ExceptionGroup("What each model raised", [error for _, error in failures])
