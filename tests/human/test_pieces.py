"""An answer that is said piece by piece, before it is complete."""

from __future__ import annotations

import asyncio
from typing import Any

import kit
import pytest
from google.genai import types
from pydantic import BaseModel

from flowloom import HumanModel, LlmRequest, LlmResponse
from flowloom.human import RequestNotFoundError, RequestOverError, UnfitAnswerError, WaitingRequest
from human.person import first_of


def asking(model: HumanModel, *, stream: bool = True, **config: Any) -> asyncio.Task[list[tuple[bool, list[Any]]]]:
    """A call of the model: for each response whether it is partial, and its texts, thoughts in brackets."""

    async def responses() -> list[tuple[bool, list[Any]]]:
        asked = LlmRequest(contents=[kit.user("1 + 2?")], config=types.GenerateContentConfig(**config))
        return [
            (bool(each.partial), [f"({part.text})" if part.thought else part.text for part in each.content.parts or ()])
            async for each in model.generate_content_async(asked, stream)
            if each.content is not None
        ]

    return asyncio.ensure_future(responses())


@pytest.mark.parametrize("stream", [True, False])
async def test_a_piece_that_is_said_while_the_answer_is_given_costs_none_of_it(stream: bool) -> None:
    """Both may come at the same time, from several threads."""
    model = HumanModel()
    call = asking(model, stream=stream)
    waiting = await first_of(model)

    class Interrupted(list[Any]):
        def __iter__(self) -> Any:
            model.say(waiting.id, "Wait. ")
            return super().__iter__()

    model.answer(waiting.id, Interrupted(["It is 3.", types.Part(text="Sure.", thought=True)]))
    assert (await call)[-1] == (False, ["Wait. It is 3.", "(Sure.)"])


async def test_a_run_that_streams_is_given_each_piece_at_once() -> None:
    """A piece is a partial response; the complete one has all of them, and the rest."""
    model = HumanModel()
    call = asking(model)
    waiting = await first_of(model)
    assert waiting.streaming
    model.say(waiting.id, types.Part(text="I add.", thought=True))
    model.say(waiting.id, "The sum ")
    model.say(waiting.id, "is ")
    assert model.pending() == [waiting]
    model.answer(waiting.id, "three.")
    assert await call == [
        (True, ["(I add.)"]),
        (True, ["The sum "]),
        (True, ["is "]),
        (True, ["three."]),
        (False, ["(I add.)", "The sum is three."]),
    ]


async def test_an_answer_may_end_with_its_last_piece() -> None:
    """An empty rest is no part of it."""
    model = HumanModel()
    call = asking(model)
    waiting = await first_of(model)
    model.say(waiting.id, "Three.")
    model.answer(waiting.id, [])
    assert await call == [(True, ["Three."]), (False, ["Three."])]


async def test_a_run_that_does_not_stream_is_given_the_whole() -> None:
    """It has no partial response."""
    model = HumanModel()
    call = asking(model, stream=False)
    waiting = await first_of(model)
    assert not waiting.streaming
    model.say(waiting.id, "The sum is ")
    model.answer(waiting.id, "three.")
    assert await call == [(False, ["The sum is three."])]


async def test_a_model_may_be_cut_off_after_what_it_said() -> None:
    """The pieces stay, beside the error."""
    model = HumanModel()
    call = asking(model)
    waiting = await first_of(model)
    model.say(waiting.id, "The sum")
    model.answer(waiting.id, LlmResponse(error_code="MAX_TOKENS"))
    assert await call == [(True, ["The sum"]), (False, ["The sum"])]


class Sum(BaseModel):
    sum: int


async def test_the_pieces_together_have_to_fit_the_response_schema() -> None:
    """A rest that is no JSON by itself fits, if the whole does."""
    model = HumanModel()
    call = asking(model, response_schema=Sum)
    waiting = await first_of(model)
    model.say(waiting.id, '{"sum":')
    with pytest.raises(UnfitAnswerError):
        model.answer(waiting.id, " three}")
    model.answer(waiting.id, " 3}")
    assert (await call)[-1] == (False, ['{"sum": 3}'])


@pytest.mark.parametrize(
    "piece",
    [types.FunctionCall(name="add"), "", [], types.Part(inline_data=types.Blob(data=b"x")), RuntimeError("no")],
    ids=["call", "nothing", "no parts", "file", "error"],
)
async def test_only_text_is_said_before_the_answer_is_complete(piece: Any) -> None:
    """All else is refused, and the request goes on waiting."""
    model = HumanModel()
    call = asking(model)
    waiting = await first_of(model)
    with pytest.raises(UnfitAnswerError) as refusal:
        model.say(waiting.id, piece)
    assert refusal.value.request_id == waiting.id
    model.answer(waiting.id, "Three.")
    assert (await call)[-1] == (False, ["Three."])


async def test_nothing_is_said_to_a_request_that_is_over() -> None:
    """As with an answer, it is told why."""
    model = HumanModel()
    with pytest.raises(RequestNotFoundError):
        model.say("none", "Three.")
    call = asking(model)
    waiting: WaitingRequest = await first_of(model)
    call.cancel()
    await asyncio.wait([call])
    with pytest.raises(RequestOverError):
        model.say(waiting.id, "Three.")
