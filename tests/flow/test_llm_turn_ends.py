"""What ends the turn of an agent with a model, and what goes on in it."""

from __future__ import annotations

from typing import Any

import pytest
from kit import Chat, agent, approve, pending, requests_of, story

from flowloom import FunctionTool
from flowloom.testing import call


@pytest.mark.parametrize("below", [[], ["helper"]], ids=["alone", "with a task agent"])
async def test_a_confirmed_result_that_is_not_summed_up_ends_the_turn(below: list[str]) -> None:
    """Also of an agent that could have delegated, and has not."""

    def book(tool_context: Any) -> str:
        tool_context.actions.skip_summarization = True
        return "booked"

    helpers = [agent(name, mode="task") for name in below]
    root = agent("root", call("book"), tools=[FunctionTool(book, require_confirmation=True)], sub_agents=helpers)
    chat = Chat(root)
    [request] = pending(await chat.say("go"))
    assert story(await chat.answer(approve(request))) == ["root: book -> {'result': 'booked'}"]
    assert len(requests_of(root)) == 1
