"""Agents of every kind end in the same history and state, streamed or not (house: the laws of tests)."""

from __future__ import annotations

import re
from typing import Any

import pytest
from kit import STREAMED, Chat, agent, approve, pending, result, text

from flowloom import Event, FunctionTool, LlmAgent, LongRunningFunctionTool, RunConfig, ToolContext
from flowloom.inspection import EventsView
from flowloom.testing import call
from scenarios.leaving import KINDS, chunked, wait


def told(events: list[Event]) -> str:
    """The log, branch by branch."""
    return EventsView(sorted(events, key=lambda event: re.sub("adk-[0-9a-f-]*", "", event.branch or ""))).text


@pytest.mark.parametrize("kind", KINDS)
async def test_all_kinds_of_agents(kind: str) -> None:
    ends: list[Any] = []
    for config in (None, STREAMED):
        chat = Chat(KINDS[kind](wait), config=config)
        await chat.say("go")
        await chat.say("and now?")
        ends.append((told(await chat.stored()), await chat.state()))
    assert ends[0] == ends[1]


def pay(amount: int, tool_context: ToolContext) -> str:
    """Pay."""
    tool_context.state["paid"] = tool_context.state.get("paid", 0) + amount
    return "paid"


def ask() -> None:
    """Ask somebody."""


async def test_a_run_that_waits_for_a_person_and_goes_on() -> None:
    """A confirmation, a long-running call, and text beside both."""

    def payer() -> LlmAgent:
        tools = [FunctionTool(pay, require_confirmation=True), LongRunningFunctionTool(ask)]
        steps = [[text("thinking about it", thought=True), text("one moment"), call("pay", amount=3)], call("ask")]
        return LlmAgent(name="root", model=chunked(*steps, "all is settled"), tools=tools, output_key="said")

    ends: list[Any] = []
    for config in (None, STREAMED):
        chat = Chat(payer(), config=config)
        (request,) = pending(await chat.say("go"))
        (asked,) = pending(await chat.answer(approve(request)))
        await chat.answer(result(asked.id, "ask", {"answer": "yes"}))
        ends.append((told(await chat.stored()), await chat.state()))
    assert ends[0] == ends[1]
    assert ends[0][1] == {"paid": 3, "said": "all is settled"}


@pytest.mark.parametrize("fails", ["model", "callback", "limit"])
async def test_a_run_that_fails(fails: str) -> None:
    """The same error, the same event that tells of it, the same answers to calls that were cut off.

    With what was streamed of the answer, if anything was.
    """

    def after(callback_context: Any, llm_response: Any) -> None:
        if fails == "callback" and not llm_response.partial and "end" in str(llm_response.content):
            raise RuntimeError("callback failed")

    ends: list[Any] = []
    for streamed in (False, True):
        limit = 2 if fails == "limit" else 500
        config = RunConfig(max_llm_calls=limit, streaming_mode=STREAMED.streaming_mode if streamed else None)
        last: Any = ConnectionError("line cut") if fails == "model" else "the end of it"
        model = chunked([text("first this"), call("wait")], call("wait"), last)
        chat = Chat(LlmAgent(name="root", model=model, tools=[wait], after_model_callback=after), config=config)
        with pytest.raises(Exception, match=r"line cut|callback failed|max_llm_calls") as raised:
            await chat.say("go")
        events = await chat.stored()
        if streamed and fails == "callback":
            assert (events[-1].text, events[-1].interrupted) == ("the end of it", True)
            events[-1] = events[-1].model_copy(update={"content": None, "interrupted": None})
        ends.append((told(events), str(raised.value)))
    assert ends[0] == ends[1]


async def test_what_is_shown_in_pieces_is_the_whole() -> None:
    """The text of the partial events of an answer, joined, is that of the complete one; thoughts apart."""
    root = agent("root", tools=[wait])
    root.model = chunked(
        [text("a long thought about it", thought=True), text("and a long answer"), call("wait")], "x" * 99
    )
    pieces: dict[bool, str] = {True: "", False: ""}
    for event in await Chat(root, config=STREAMED).say("go"):
        whole = {True: "", False: ""}
        for part in (event.content and event.content.parts) or []:
            whole[bool(part.thought)] += part.text or ""
        if event.partial:
            pieces = {thought: pieces[thought] + whole[thought] for thought in pieces}
        elif not event.get_function_responses():
            assert whole == pieces
            pieces = {True: "", False: ""}
