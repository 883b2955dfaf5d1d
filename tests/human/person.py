"""Runs of agents whose model is a person, and persons who answer."""

from __future__ import annotations

import asyncio
from contextlib import aclosing
from typing import Any

import kit

from flowloom import Event, HumanModel, LlmAgent, LlmRequest
from flowloom.human import Answer, HumanObserver, RequestOverError, WaitingRequest


def add(a: int, b: int = 1) -> dict[str, int]:
    """Add two numbers.

    Args:
        a: The first one.
    """
    return {"sum": a + b}


def answering(*answers: Answer, **fields: Any) -> HumanModel:
    """A model that is answered at once, in this order."""
    model, left = HumanModel(**fields), list(answers)
    model.subscribe(lambda waiting: model.answer(waiting.id, left.pop(0)))
    return model


def agent(model: HumanModel, name: str = "adder", **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=model, **fields)


def chat(root: Any, **options: Any) -> kit.Chat:
    """A conversation with an agent; it is seen how the requests come about."""
    return kit.Chat(root, observers=[HumanObserver()], **options)


def said(conversation: kit.Chat, message: str) -> asyncio.Task[list[Event]]:
    """A turn that goes on while the test answers."""
    return asyncio.ensure_future(conversation.say(message))


async def first_of(model: HumanModel) -> WaitingRequest:
    """The request that waits, or the next that comes."""
    async with aclosing(model.arrivals()) as arrivals:
        return await anext(arrivals)


async def waiting_for(request: LlmRequest) -> WaitingRequest:
    """How a request that is made by hand waits; it is not answered."""
    model = HumanModel()
    seen: list[WaitingRequest] = []
    model.subscribe(lambda waiting: (seen.append(waiting), model.answer(waiting.id, RuntimeError("enough"))))
    try:
        await anext(model.generate_content_async(request))
    except RuntimeError:
        pass
    return seen[0]


async def refusal_of(request: LlmRequest, answer: Any) -> Exception:
    """Why an answer to a request is not taken."""
    caught: list[Exception] = []
    model = HumanModel()

    def refused(waiting: WaitingRequest) -> None:
        try:
            model.answer(waiting.id, answer)
        except Exception as error:
            caught.append(error)
            assert model.pending() == [waiting]
            model.answer(waiting.id, RuntimeError("enough"))

    model.subscribe(refused)
    try:
        await anext(model.generate_content_async(request))
    except RuntimeError:
        pass
    assert caught, f"{answer!r} was taken"
    assert not isinstance(caught[0], RequestOverError)
    return caught[0]
