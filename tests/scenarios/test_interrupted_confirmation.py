"""A run that is interrupted while it carries out what a person has approved (decisions 22 and 31)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from kit import Chat, agent, approve, collect, context, event, open_calls, pending

from flowloom import FunctionTool
from flowloom.testing import call


class Till:
    """A tool that pays, and can be interrupted while it does."""

    def __init__(self) -> None:
        self.begun: list[int] = []
        self.ended: list[int] = []

    async def pay(self, amount: int) -> str:
        """Pay."""
        self.begun.append(amount)
        await asyncio.sleep(0)
        self.ended.append(amount)
        return "paid"


async def interrupted(till: Till, turns: int) -> tuple[Chat, Any, bool]:
    """A chat whose approved call was cancelled so many turns of the event loop after the approval."""
    tool = FunctionTool(till.pay, require_confirmation=True)
    chat = Chat(agent("root", call("pay", amount=5), "first", "second", "third", tools=[tool]))
    (request,) = pending(await chat.say("pay"))
    run = asyncio.create_task(chat.answer(approve(request)))
    for _ in range(turns):
        await asyncio.sleep(0)
    cancelled = run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    return chat, request, cancelled


async def test_the_history_stays_legal_and_can_be_continued() -> None:
    turns, cancelled = 0, True
    while cancelled:
        turns += 1
        chat, _, cancelled = await interrupted(Till(), turns)
        assert open_calls(await chat.stored()) == set()
        assert (await chat.say("and now?"))[-1].is_final_response()


async def test_a_call_that_had_begun_is_told_to_be_interrupted() -> None:
    """The placeholder does not stay the last word on a tool that may have done its work."""
    turns, cancelled = 0, True
    while cancelled:
        turns += 1
        till = Till()
        chat, _, cancelled = await interrupted(till, turns)
        answers = [r for each in await chat.stored() for r in each.get_function_responses() if r.name == "pay"]
        assert len(answers) == 1 + len(till.begun)


async def test_a_call_that_is_interrupted_below_the_runner_is_told_too() -> None:
    """There is nothing that the run resumes: the log alone tells it what was approved."""
    begun = asyncio.Event()

    async def pay(amount: int) -> None:
        """Pay."""
        begun.set()
        await asyncio.Event().wait()

    tool = FunctionTool(pay, require_confirmation=True)
    chat = Chat(agent("root", call("pay", amount=5), tools=[tool]))
    (request,) = pending(await chat.say("pay"))
    log = await chat.stored()
    root = agent("root", "done", tools=[tool])
    ctx = context(root, *log, event("user", approve(request), invocation_id=log[-1].invocation_id))
    run = asyncio.create_task(collect(root.run_async(ctx)))
    await begun.wait()
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    (told,) = ctx.session.events[-1].get_function_responses()
    assert (told.name, "interrupted" in (told.response or {})["error"]) == ("pay", True)


async def test_the_same_approval_again_does_not_run_it_twice() -> None:
    """Already answered | not dispatched again."""
    turns, cancelled = 0, True
    while cancelled:
        turns += 1
        till = Till()
        chat, request, cancelled = await interrupted(till, turns)
        before = list(till.begun)
        await chat.answer(approve(request))
        if before:
            assert till.begun == before


@pytest.mark.parametrize("approved_again", [True, False])
async def test_a_call_that_had_not_begun_can_still_be_approved(approved_again: bool) -> None:
    """Interrupted before the message was taken, nothing is lost."""
    till = Till()
    tool = FunctionTool(till.pay, require_confirmation=True)
    chat = Chat(agent("root", call("pay", amount=5), "first", "second", tools=[tool]))
    (request,) = pending(await chat.say("pay"))
    run = asyncio.create_task(chat.answer(approve(request)))
    run.cancel()
    await asyncio.gather(run, return_exceptions=True)
    assert till.begun == []
    await (chat.answer(approve(request)) if approved_again else chat.say("no, wait"))
    assert till.ended == ([5] if approved_again else [])
