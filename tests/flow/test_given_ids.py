"""The ids of the calls of a streamed answer: the same in its pieces and at its end, and each call's own."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, event, said

from flowloom import LlmAgent, LlmRequest, LlmResponse, LongRunningFunctionTool, pending_calls
from flowloom.events.wire import replace
from flowloom.testing import FunctionModel


def look(n: int = 0, m: int = 0) -> int:
    """Look."""
    return n


def calls(call_id: str | None = None, /, **fields: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name="look", **fields))


def piece(call_id: str, name: str | None = "look", **fields: Any) -> types.Part:
    """A piece of a call whose arguments are streamed."""
    some = [types.PartialArg(json_path="$", string_value="{")]
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, partial_args=some, **fields))


async def ids(*pieces: types.Part, whole: list[types.Part], before: str | None = None) -> tuple[list[Any], list[Any]]:
    """The ids in the pieces of an answer, and in the whole."""
    asked: list[LlmRequest] = []

    async def answer(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        asked.append(request)
        for each in pieces if len(asked) == 1 else ():
            yield LlmResponse(content=said(each), partial=True)
        yield LlmResponse(content=said(*(whole if len(asked) == 1 else ["done"])))

    chat = Chat(LlmAgent(name="root", model=FunctionModel(answer), tools=[look]), config=STREAMED)
    if before is not None:
        asked.append(LlmRequest())
        await chat.say("hello")
        await chat.runner.session_service.append_event(await chat.session(), event("root", calls(before, args={})))
        asked.clear()
    events = [each for each in await chat.say("go") if each.get_function_calls()]
    return tuple(
        [call.id for each in events if bool(each.partial) is partial for call in each.get_function_calls()]
        for partial in (True, False)
    )  # type: ignore[return-value]


async def test_a_call_without_an_id_has_the_same_one_in_pieces_and_at_the_end() -> None:
    """Whatever the order of its arguments; equal calls have one each, and one that comes at the end its own."""
    one = calls(args={"n": 1, "m": 2})
    partial, whole = await ids(one, one, whole=[calls(args={"m": 2, "n": 1}), calls(args={"n": 3}), one])
    assert [whole[0], whole[2]] == partial
    assert len({*whole}) == 3
    assert all(each.startswith("adk-") for each in whole)


async def test_equal_calls_that_come_at_the_end_alone_have_an_id_each() -> None:
    """Though another one that was shown before has not come yet."""
    again = calls(args={"n": 2})
    _, whole = await ids(calls(args={"n": 1}), whole=[again, again])
    assert len({*whole}) == 2


def begin(n: int) -> None:
    """Begin."""


def streamed(*responses: LlmResponse, tool: Any = look, **fields: Any) -> Chat:
    """A streamed conversation with a model that gives these responses, and then says that it is done."""
    asked: list[LlmRequest] = []

    async def answer(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        asked.append(request)
        for each in responses if len(asked) == 1 else [LlmResponse(content=said("done"))]:
            yield each

    return Chat(LlmAgent(name="root", model=FunctionModel(answer), tools=[tool], **fields), config=STREAMED)


@pytest.mark.parametrize("pieces", [0, 1])
async def test_equal_calls_of_two_complete_responses_have_an_id_each(pieces: int) -> None:
    """Each the one of its own pieces; both wait, if their tool gives its result later."""
    response = LlmResponse(content=said(calls(args={"n": 1})))
    answer = [replace(response, partial=True)] * pieces + [response]
    chat = streamed(*answer, *answer, tool=LongRunningFunctionTool(begin, name="look"))
    events = await chat.say("go")
    made = [each.get_function_calls()[0].id for each in events if each.get_function_calls()]
    assert len({*made}) == 2
    assert made == sorted(made, key=made.index)
    assert [each.id for each in pending_calls(await chat.stored())] == [*dict.fromkeys(made)]


@pytest.mark.parametrize("more", [{}, {"m": 2}])
async def test_what_a_callback_makes_anew_of_a_call_without_an_id_is_that_call(more: dict[str, int]) -> None:
    """In its piece and at its end; also if the callback leaves the id out, and gives other arguments."""

    def anew(llm_response: LlmResponse, **_: Any) -> LlmResponse | None:
        made = [calls(args={**(each.args or {}), **more}) for each in llm_response.get_function_calls()]
        return LlmResponse(content=said(*made)) if made else None

    response = LlmResponse(content=said(calls(args={"n": 1}), calls(args={"n": 1})))
    chat = streamed(replace(response, partial=True), response, after_model_callback=anew)
    shown, given = [
        [call.id for call in each.get_function_calls()] for each in await chat.say("go") if each.get_function_calls()
    ]
    assert shown == given
    assert len({*shown}) == 2


@pytest.mark.parametrize("given", [None, "m1"])
@pytest.mark.parametrize("breaks", [True, False])
async def test_a_call_has_one_id_however_often_a_wrapper_asks(breaks: bool, given: str | None) -> None:
    """In the pieces of an answer that broke off, in those of the next, and at its end; also if the wrapper asks about
    an answer before it passes that on."""
    whole = LlmResponse(content=said(calls(given, args={})))
    asked: list[LlmRequest] = []

    async def answer(request: LlmRequest) -> AsyncIterator[LlmResponse]:
        asked.append(request)
        if len(asked) > 2:
            yield LlmResponse(content=said("done"))
            return
        yield replace(whole, partial=True)
        if breaks and len(asked) == 1:
            raise ValueError("broken")
        yield whole

    async def again(call_next: Any, llm_request: LlmRequest, **_: Any) -> AsyncIterator[LlmResponse]:
        try:
            async for response in call_next(llm_request):
                if not (breaks or response.partial):
                    assert [each async for each in call_next(llm_request)]
                yield response
        except ValueError:
            async for response in call_next(llm_request):
                yield response

    root = LlmAgent(name="root", model=FunctionModel(answer), tools=[look], around_model=again)
    events = await Chat(root, config=STREAMED).say("go")
    made = [each.get_function_calls()[0].id for each in events if each.get_function_calls()]
    assert len(made) == 2 + breaks
    assert len({*made}) == 1


async def test_an_id_that_a_model_gives_twice_is_two_ids_in_the_same_order() -> None:
    """In the pieces, and at the end."""
    twice = [calls("m1", args={"n": 1}), calls("m1", args={"n": 2})]
    partial, whole = await ids(*twice, whole=twice)
    assert partial == whole
    assert whole[0] == "m1"
    assert whole[1].startswith("adk-")


async def test_pieces_of_one_call_have_one_id() -> None:
    """By whatever a piece is told from another call: its arguments, its end, its missing name."""
    whole = [calls("m1", args={"n": 1})]
    for pieces in (
        [
            piece("m1", will_continue=True),
            piece("m1", None, will_continue=True),
            piece("m1", None, will_continue=False),
        ],
        [piece("m1"), piece("m1")],
        [calls("m1"), calls("m1", will_continue=False)],
        [calls("m1", will_continue=True), calls("m1", args={"n": 1})],
        [calls("m1"), types.Part(function_call=types.FunctionCall(id="m1"))],
    ):
        assert await ids(*pieces, whole=whole) == (["m1"] * len(pieces), ["m1"])


async def test_an_id_that_the_session_has_is_another_in_all_pieces() -> None:
    """Each call of a session has one of its own."""
    partial, whole = await ids(calls("m1"), whole=[calls("m1", args={})], before="m1")
    assert partial == whole
    assert whole[0].startswith("adk-")
