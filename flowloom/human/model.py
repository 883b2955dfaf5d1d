"""`HumanModel`: a person answers in the place of a model."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Iterator, Sequence
from contextlib import aclosing
from typing import Any, ClassVar, cast

from pydantic import PrivateAttr

from flowloom.errors import ConfigurationError
from flowloom.events import clock
from flowloom.events.ids import new_id
from flowloom.events.response import LlmResponse
from flowloom.events.wire import fields_of
from flowloom.human.answers import Answer, outcome_of, piece_of, responses_of
from flowloom.human.queue import RequestQueue
from flowloom.human.request import WaitingRequest
from flowloom.models.aggregator import StreamingAggregator
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest


class HumanModel(BaseLlm):
    """A model whose requests wait until a person answers them.

    `pending` returns the waiting requests, `answer` answers one; both may be called from any thread. Any number of
    runs, on any number of event loops, may ask one model at the same time. With `timeout`, a request without an answer
    within so many seconds fails with `ModelUnavailableError`, its code `TIMEOUT`. Raises `ConfigurationError` for a
    `timeout` that is not above 0.
    """

    model: str = "human"
    timeout: float | None = None
    """How long a request waits, in seconds by the engine's clock; None for ever."""

    keeps_call_ids: ClassVar[bool] = True

    _queue: RequestQueue = PrivateAttr(default_factory=RequestQueue)

    def _when_made(self) -> None:
        super()._when_made()
        if self.timeout is not None and not self.timeout > 0:
            raise ConfigurationError(f"No person can answer within {self.timeout:g} seconds; give a `timeout` above 0.")

    @classmethod
    def supported_models(cls) -> list[str]:
        return ["human"]

    @property
    def output_schema_and_tools(self) -> bool:
        return True

    # -- those who answer ------------------------------------------------------------------------------

    def pending(self) -> list[WaitingRequest]:
        """The requests that wait for an answer, the oldest first."""
        return self._queue.pending()

    def answer(self, request_id: str, response: Answer) -> None:
        """Answer the request `request_id`: with a text, a `types.Part`, a `types.FunctionCall`, a list of these, a
        `types.Content`, a whole `LlmResponse` (which is not checked), or an exception, which the run then meets as the
        model's failure.

        Raises `UnfitAnswerError` for an answer that does not fit (a call of no declared tool, arguments that its schema
        does not allow, a text that is not the JSON asked for); the request goes on waiting. Raises
        `RequestNotFoundError` for an unknown id, and `RequestOverError` if it was answered, cancelled or has timed out.
        """
        waiting = self._queue.find(request_id)
        self._queue.settle(request_id, outcome_of(response, waiting))

    def say(self, request_id: str, piece: Answer) -> None:
        """Say a piece of the answer to the request `request_id`, which goes on waiting: text, or parts of text and
        thoughts. A run that streams shows it at once. `answer` then gives the rest, which may be an empty list.

        Raises `UnfitAnswerError` for what is no text, and else as `answer` does.
        """
        self._queue.say(request_id, piece_of(piece, self._queue.find(request_id)))

    def arrivals(self) -> AsyncGenerator[WaitingRequest, None]:
        """The requests that wait and those that come, each once, for `async for`. It never ends by itself."""
        return self._queue.arrivals()

    def subscribe(
        self,
        came: Callable[[WaitingRequest], object] | None = None,
        ended: Callable[[WaitingRequest], object] | None = None,
    ) -> Callable[[], None]:
        """Have `came` called with each request that waits or comes, `ended` with each that is over (see its `state`).

        They are called on the thread where it happens, and should return soon; `came` may answer at once. What they
        raise is logged. Returns a function that ends the subscription.
        """
        return self._queue.subscribe(came, ended)

    # -- those who ask ---------------------------------------------------------------------------------

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        waiting = WaitingRequest.of(
            llm_request,
            request_id=new_id(),
            model=self.model,
            came_at=clock.now(),
            timeout=self.timeout,
            streaming=stream,
        )
        aggregator = StreamingAggregator()
        async with aclosing(self._queue.answers(waiting, self.timeout)) as answers:
            async for answer in answers:
                if isinstance(answer, Exception):
                    raise answer
                if not isinstance(answer, list):
                    for response in responses_of(answer, aggregator, waiting.said, stream):
                        yield response
                elif stream:
                    yield aggregator.feed_parts(answer)


def people_in(model: BaseLlm) -> Iterator[HumanModel]:
    """The persons behind a model: itself, or those that it holds and may ask in its place."""
    if isinstance(model, HumanModel):
        yield model
        return
    for value in (*fields_of(model).values(), *(model.__pydantic_private__ or {}).values()):
        held = cast(Sequence[Any], value) if isinstance(value, list | tuple) else (value,)
        for each in held:
            if isinstance(each, BaseLlm):
                yield from people_in(each)
