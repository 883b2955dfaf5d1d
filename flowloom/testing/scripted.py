"""Models for tests: answers from a list, or from a function, and what may go wrong with them."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from inspect import isawaitable
from itertools import pairwise
from typing import Any, TypedDict, Unpack, cast

from google.genai import types
from pydantic import PrivateAttr

from flowloom.errors import ConfigurationError, FlowloomError, ModelStreamError
from flowloom.events.clock import sleep
from flowloom.events.parts import content_of, parts_of, text_part
from flowloom.events.wire import make
from flowloom.models import BaseLlm, LlmRequest, LlmResponse
from flowloom.models.request import snapshot
from flowloom.objects.given import is_several
from flowloom.objects.notebook import count


class ScriptExhaustedError(FlowloomError, AssertionError):
    """A scripted model was asked more often than it has answers, or less often."""


# -- answers ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class FaultyAnswer:
    """An answer that comes late or not whole. `delayed`, `dropped` and `truncated` make it."""

    answer: Answer | list[LlmResponse]
    seconds: float = 0.0
    """How long the model waits before it."""
    after: int | None = None
    """After how many chunks it breaks off; None for never."""
    error: Exception | None = None
    """What is raised where it breaks off; None for a stream that just ends."""


Answer = LlmResponse | types.Content | str | types.Part | Sequence[types.Part | str] | Exception | FaultyAnswer
"""What a model says: a response, or something that becomes one; an exception is raised."""


def delayed(answer: Answer | list[LlmResponse], seconds: float) -> FaultyAnswer:
    """An `answer` before which the model waits for so many `seconds` (see `AnsweringModel.wait`)."""
    if seconds < 0:
        raise ConfigurationError(f"An answer cannot be delayed by {seconds} seconds; give 0 or more.")
    return FaultyAnswer(answer, seconds=float(seconds))


def dropped(answer: Answer | list[LlmResponse], after: int = 1, error: Exception | None = None) -> FaultyAnswer:
    """An `answer` whose connection breaks `after` so many chunks: `error` is raised then, a `ModelStreamError` by
    default.

    When the run streams, the chunks come in any case, `stream_chunks` or not; the complete response never does. When it
    does not, the error is raised at once.
    """
    chunks = _chunk_count(after)
    broken = ModelStreamError(f"The stream of a scripted answer broke off after {chunks} chunks.", retryable=True)
    return FaultyAnswer(answer, after=chunks, error=error or broken)


def truncated(answer: Answer | list[LlmResponse], after: int = 1) -> FaultyAnswer:
    """An `answer` that ends `after` so many chunks as if that were all: no error, and no complete response.

    When the run does not stream, the model says nothing at all.
    """
    return FaultyAnswer(answer, after=_chunk_count(after))


def _chunk_count(after: int) -> int:
    if after < 0:
        raise ConfigurationError(f"An answer cannot break off after {after} chunks; give 0 or more.")
    return after


def response_of(answer: Answer) -> LlmResponse:
    """An answer as a complete response; of a faulty one, what it would have been."""
    if isinstance(answer, LlmResponse):
        return answer
    if isinstance(answer, str):
        content = content_of("model", [text_part(answer)])
    elif isinstance(answer, types.Part):
        content = content_of("model", [answer])
    elif isinstance(answer, types.Content):
        content = answer
    elif isinstance(answer, FaultyAnswer):
        return response_of(cast(Answer, answer.answer))
    elif not isinstance(answer, Sequence) or not all(isinstance(each, str | types.Part) for each in answer):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise ConfigurationError(f"{answer!r:.80} is no answer of a model: see `ScriptedModel`.")
    else:
        content = content_of("model", [text_part(each) if isinstance(each, str) else each for each in answer])  # type: ignore[union-attr]
    return make(LlmResponse, content=content)


def call(name: str, /, **args: Any) -> types.Part:
    """A part that calls the function `name` with the arguments `args`."""
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


# -- streaming -------------------------------------------------------------------------------------


def chunks_of(response: LlmResponse, size: int = 8, *, cuts: Iterable[int] | None = None) -> list[LlmResponse]:
    """The partial responses by which `response` would be streamed: text in pieces of `size` characters (code points),
    other parts whole. The pieces joined are the response; equal responses have equal pieces.

    With `cuts` texts are cut there and nowhere else: positions in all the text of the response, thoughts included;
    a part's end is always one. Text that carries a signature stays whole. Raises `ConfigurationError` for a `size`
    below 1.
    """
    if size < 1:
        raise ConfigurationError(f"A chunk cannot have {size} characters; give 1 or more.")
    places = None if cuts is None else sorted(set(cuts))
    pieces: list[types.Part] = []
    start = 0
    for part in parts_of(response.content):
        text = part.text or ""
        if not text or part.thought_signature is not None:
            pieces.append(part)
        else:
            inner = range(size, len(text), size) if places is None else (place - start for place in places)
            ends = [0, *(at for at in inner if 0 < at < len(text)), len(text)]
            pieces += [text_part(text[at:end], thought=part.thought) for at, end in pairwise(ends)]
        start += len(text)
    return [make(LlmResponse, content=content_of("model", [each]), partial=True) for each in pieces]


Step = LlmResponse | Exception | float
"""What a model does: yields a response, raises an exception, waits some seconds."""


def steps_of(answer: Answer | list[LlmResponse], *, stream: bool, chunked: bool, size: int) -> Iterator[Step]:
    """What a model does to give `answer`, in order. `stream`: whether the run streams; `chunked`: whether a streamed
    answer comes in chunks of `size`."""
    if isinstance(answer, Exception):
        yield answer
        return
    if isinstance(answer, FaultyAnswer):
        yield from _faulty_steps(answer, stream=stream, chunked=chunked, size=size)
        return
    several = cast(list[Any], answer if isinstance(answer, list) else [])
    if several and isinstance(several[0], LlmResponse):
        unfit = next((each for each in several if not isinstance(each, LlmResponse | Exception | float | int)), None)
        if unfit is not None:
            raise ConfigurationError(f"A list of responses holds {unfit!r:.60}. Give each as an `LlmResponse`.")
        yield from several
        return
    response = response_of(cast(Answer, answer))
    if stream and chunked:
        yield from chunks_of(response, size)
    yield response


def _faulty_steps(faulty: FaultyAnswer, *, stream: bool, chunked: bool, size: int) -> Iterator[Step]:
    if faulty.seconds:
        yield faulty.seconds
    broken = faulty.after is not None
    left = faulty.after if stream and faulty.after is not None else 0
    for step in steps_of(faulty.answer, stream=stream, chunked=chunked or broken, size=size):
        if broken and isinstance(step, LlmResponse):
            if left == 0 or not step.partial:
                break
            left -= 1
        yield step
    if faulty.error is not None:
        yield faulty.error


# -- models ----------------------------------------------------------------------------------------


class AnsweringFields(TypedDict, total=False):
    """The fields of an `AnsweringModel`."""

    model: str
    stream_chunks: bool
    chunk_size: int


class AnsweringModel(BaseLlm):
    """What the models for tests share: a subclass says what is answered to a request, this says how it comes.

    With `stream_chunks`, answers are also streamed in pieces of `chunk_size` characters when the run streams.
    """

    stream_chunks: bool = False
    chunk_size: int = 8

    @abstractmethod
    def answer_to(self, request: LlmRequest) -> Any:
        """An answer or a list of `LlmResponse`s, an awaitable of either, or an async iterator of responses."""
        raise NotImplementedError

    async def wait(self, seconds: float) -> None:
        """Wait for so many `seconds`, as a delayed answer does: by the engine's clock, which a test may have frozen."""
        await sleep(seconds)

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        given = self.answer_to(llm_request)
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
        for step in steps_of(answer, stream=stream, chunked=self.stream_chunks, size=self.chunk_size):
            if isinstance(step, LlmResponse):
                yield step
            elif isinstance(step, Exception):
                raise step
            else:
                await self.wait(step)


class ScriptedModel(AnsweringModel):
    """Answers from a list, `answers`, in order, and keeps every request.

    An answer is a text, a part (see `call`), a list of these, a `Content`, an `LlmResponse`, an exception to be raised,
    one of these `delayed`, `dropped` or `truncated`, or a list of `LlmResponse`s to be yielded one by one. With
    `stream_chunks`, answers are also streamed in pieces when the run streams. Asking for more than is there raises
    `ScriptExhaustedError`; `assert_complete` raises it when something is left.
    """

    model: str = "scripted"
    requests: list[LlmRequest] = []  # noqa: RUF012 - pydantic copies it
    """The requests so far, as they were when the model was asked; `agent` and `step` say whose each of them is."""

    _answers: list[Any] = PrivateAttr(default_factory=list)

    def __init__(self, answers: Iterable[Answer | list[LlmResponse]] = (), **fields: Unpack[AnsweringFields]) -> None:
        super().__init__(**fields)
        if not is_several(answers):
            raise ConfigurationError(f"A `ScriptedModel` takes a list of answers, as `[{answers!r:.60}]`.")
        self._answers = list(answers)

    def assert_complete(self) -> None:
        """Raise `ScriptExhaustedError` if not every answer was asked for."""
        if self._answers:
            raise ScriptExhaustedError(
                f"Model `{self.model}` has {count(len(self._answers), 'answer')} left after "
                f"{count(len(self.requests), 'call')}; the next is {self._answers[0]!r}."
            )

    def answer_to(self, request: LlmRequest) -> Answer | list[LlmResponse]:
        """The next answer of the script."""
        self.requests.append(snapshot(request))
        if not self._answers:
            raise ScriptExhaustedError(
                f"Model `{self.model}` was asked {count(len(self.requests), 'time')}, but its script has only "
                f"{count(len(self.requests) - 1, 'answer')}."
            )
        return self._answers.pop(0)


class FunctionModel(AnsweringModel):
    """Answers by a `function` of the request: `(request) -> answer`, sync, async, or an async generator of
    responses.
    """

    model: str = "function"
    function: Callable[[LlmRequest], Answer | Awaitable[Answer] | AsyncIterator[LlmResponse]]

    def __init__(self, function: Callable[[LlmRequest], Any], **fields: Unpack[AnsweringFields]) -> None:
        super().__init__(function=function, **fields)  # type: ignore[call-arg]

    def answer_to(self, request: LlmRequest) -> Any:
        """What the function answers."""
        return self.function(request)
