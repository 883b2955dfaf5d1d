"""Models for tests: answers from a list, or from a function."""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Sequence
from inspect import isawaitable
from typing import Any, cast

from google.genai import types
from pydantic import PrivateAttr

from flowloom.errors import FlowloomError
from flowloom.events.parts import content_of, text_part
from flowloom.events.wire import shallow_copy
from flowloom.models import BaseLlm, LlmRequest, LlmResponse

Answer = LlmResponse | types.Content | str | types.Part | Sequence[types.Part] | Exception
"""What a model says: a response, or something that becomes one; an exception is raised."""


class ScriptExhaustedError(FlowloomError, AssertionError):
    """A scripted model was asked more often than it has answers, or less often."""


def response_of(answer: Answer) -> LlmResponse:
    """An answer as a complete response."""
    if isinstance(answer, LlmResponse):
        return answer
    if isinstance(answer, str):
        content = content_of("model", [text_part(answer)])
    elif isinstance(answer, types.Part):
        content = content_of("model", [answer])
    elif isinstance(answer, types.Content):
        content = answer
    else:
        content = content_of("model", list(answer))  # type: ignore[arg-type]
    return LlmResponse.unvalidated({"content": content})


def call(name: str, /, **args: Any) -> types.Part:
    """A part that calls the function `name`."""
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


def snapshot(request: LlmRequest) -> LlmRequest:
    """The request as it is now: later changes of its lists and config do not reach the copy."""
    copy = shallow_copy(request)
    fields = vars(copy)
    fields["contents"] = list(request.contents)
    fields["config"] = shallow_copy(request.config)
    fields["tools_dict"] = dict(request.tools_dict)
    return copy


def chunks_of(response: LlmResponse, size: int = 8) -> list[LlmResponse]:
    """The partial responses by which `response` would be streamed: text in pieces of `size` characters, other parts
    whole. The pieces joined are the response."""
    pieces: list[LlmResponse] = []
    for part in (response.content.parts if response.content is not None else None) or ():
        if not part.text or part.thought_signature is not None:
            parts = [part]
        else:
            parts = [
                text_part(part.text[at : at + size], thought=part.thought) for at in range(0, len(part.text), size)
            ]
        pieces.extend(
            LlmResponse.unvalidated({"content": content_of("model", [piece]), "partial": True}) for piece in parts
        )
    return pieces


class ScriptedModel(BaseLlm):
    """Answers from a list, in order, and keeps every request.

    An answer is a text, a part (see `call`), a list of parts, a `Content`, an `LlmResponse`, an exception to be
    raised, or a list of `LlmResponse`s to be yielded one by one. With `stream_chunks`, answers are also streamed in
    pieces when the run streams. Asking for more than is there raises `ScriptExhaustedError`; `assert_complete`
    raises it when something is left.
    """

    model: str = "scripted"
    stream_chunks: bool = False
    chunk_size: int = 8
    requests: list[LlmRequest] = []  # noqa: RUF012 - pydantic copies it
    """The requests so far, as they were when the model was asked."""

    _answers: list[Any] = PrivateAttr(default_factory=list)

    def __init__(self, answers: Iterable[Answer | list[LlmResponse]] = (), **fields: Any) -> None:
        super().__init__(**fields)
        self._answers = list(answers)

    def assert_complete(self) -> None:
        """Raise `ScriptExhaustedError` if not every answer was asked for."""
        if self._answers:
            raise ScriptExhaustedError(
                f"Model `{self.model}` has {len(self._answers)} answers left after {len(self.requests)} calls; the "
                f"next is {self._answers[0]!r}."
            )

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        self.requests.append(snapshot(llm_request))
        if not self._answers:
            raise ScriptExhaustedError(
                f"Model `{self.model}` was asked {len(self.requests)} times, but its script has only "
                f"{len(self.requests) - 1} answers."
            )
        answer: Any = self._answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        several = cast(list[Any], answer if isinstance(answer, list) else [])
        if several and isinstance(several[0], LlmResponse):
            for each in several:
                yield each
            return
        response = response_of(cast(Answer, answer))
        if stream and self.stream_chunks:
            for chunk in chunks_of(response, self.chunk_size):
                yield chunk
        yield response


class FunctionModel(BaseLlm):
    """Answers by a function of the request: `(request) -> answer`, sync, async, or an async generator of responses."""

    model: str = "function"
    function: Callable[[LlmRequest], Answer | Awaitable[Answer] | AsyncIterator[LlmResponse]]
    stream_chunks: bool = False
    chunk_size: int = 8

    def __init__(self, function: Callable[[LlmRequest], Any], **fields: Any) -> None:
        super().__init__(function=function, **fields)  # type: ignore[call-arg]

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        given: Any = self.function(llm_request)
        if hasattr(given, "__aiter__"):
            try:
                async for response in given:
                    yield response
            finally:
                close = getattr(given, "aclose", None)
                if close is not None:
                    await close()
            return
        answer: Any = await given if isawaitable(given) else given
        if isinstance(answer, Exception):
            raise answer
        response = response_of(cast(Answer, answer))
        if stream and self.stream_chunks:
            for chunk in chunks_of(response, self.chunk_size):
                yield chunk
        yield response
