"""Ids of events: all of one answer have the id under which it is stored and traced."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import Any

from kit import STREAMED, Chat, agent, hand_to, model, said, text

from flowloom import AgentTool, BasePlugin, Event, LlmAgent, LlmResponse, ParallelAgent, RunConfig
from flowloom.processors import BaseCodeExecutor, CodeExecutionResult
from flowloom.run_stream import MessageCompleted, TextDelta
from flowloom.testing import call, dropped

LONG = "one two three four"


def look() -> str:
    """Look."""
    return "seen"


def streaming(name: str, *answers: Any, **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=model(*answers, stream_chunks=True), **fields)


def check(events: list[Event]) -> list[str]:
    """Every run of partial events of one speaker is followed by its complete event, under the same id; these ids."""
    open_ids: dict[tuple[Any, ...], str] = {}
    found: list[str] = []
    for each in events:
        speaker = (each.author, each.branch)
        if each.partial:
            assert open_ids.setdefault(speaker, each.id) == each.id
        elif speaker in open_ids:
            found.append(open_ids.pop(speaker))
            assert each.id == found[-1]
    assert not open_ids
    assert len(set(found)) == len(found)
    return found


async def test_partial_events_have_the_id_of_the_complete_one() -> None:
    """One id for each answer: of its pieces, and of what is stored."""
    thoughts = [text("let me see, let me see", thought=True), text(LONG), call("look")]
    chat = Chat(streaming("root", thoughts, LONG, tools=[look]), config=STREAMED)
    events = await chat.say("go")
    ids = check(events)
    assert len(ids) == 2
    assert set(ids) <= {each.id for each in await chat.stored()}


async def test_messages_of_the_run_stream_have_the_ids_of_their_events() -> None:
    """The id of a message is that of the stored event, from its first delta on."""
    chat = Chat(streaming("root", LONG))
    shown = [each async for each in chat.runner.run_stream(user_id="ann", session_id="s1", new_message="go")]
    stored = (await chat.stored())[-1].id
    assert {each.message_id for each in shown if isinstance(each, TextDelta | MessageCompleted)} == {stored}


async def test_answers_of_one_call_have_an_id_each() -> None:
    """A model that gives several complete responses gives several answers."""
    pieces = [LlmResponse(content=said(words), partial=True) for words in ("a", "b", "c", "d")]
    whole = [LlmResponse(content=said(words)) for words in ("ab", "cd", "e")]
    stream = [*pieces[:2], whole[0], *pieces[2:], whole[1], whole[2]]
    events = await Chat(agent("root", stream), config=STREAMED).say("go")
    assert len(check(events)) == 2
    assert len({each.id for each in events}) == 3


async def test_what_callbacks_and_plugins_replace_keeps_its_id() -> None:
    """A response or an event that is replaced stands where the one before stood."""

    class Louder(BasePlugin):
        async def on_event_callback(self, *, event: Event, **_: Any) -> Event | None:
            return Event(author=event.author, content=said(event.text.upper()), partial=event.partial)

    def shorter(llm_response: LlmResponse, **_: Any) -> LlmResponse:
        return LlmResponse(content=said(llm_response.text[:2]), partial=llm_response.partial)

    chat = Chat(streaming("root", LONG, after_model_callback=shorter), plugins=[Louder(name="louder")], config=STREAMED)
    events = await chat.say("go")
    assert check(events) == [(await chat.stored())[-1].id]
    assert events[-1].text == "ON"


async def test_an_error_callbacks_answer_has_the_id_of_what_was_streamed() -> None:
    """The answer in the place of a model that failed in mid-answer completes that answer."""
    root = agent("root", dropped(LONG), on_model_error_callback=lambda **_: LlmResponse(content=said("sorry")))
    events = await Chat(root, config=STREAMED).say("go")
    assert len(check(events)) == 1
    assert events[-1].text == "sorry"


async def test_code_that_is_run_keeps_the_id_of_the_answer() -> None:
    """The event with the code is the complete one of what was streamed; that with the result is another."""

    class Executor(BaseCodeExecutor):
        def execute_code(self, ctx: Any, code_input: Any) -> CodeExecutionResult:
            return CodeExecutionResult(stdout="2")

    events = await Chat(
        streaming("root", "so: ```python\n1 + 1\n```", "done, it is two", code_executor=Executor()), config=STREAMED
    ).say("go")
    assert len(check(events)) == 2
    assert len({each.id for each in events if not each.partial}) == 3


async def test_every_agent_streams_under_ids_of_its_own() -> None:
    """Handing over, working side by side and running as a tool: no answer has another's id."""
    child = streaming("child", LONG)
    check(await Chat(streaming("root", hand_to("child"), sub_agents=[child]), config=STREAMED).say("go"))
    both = ParallelAgent(name="both", sub_agents=[streaming("a", LONG), streaming("b", LONG)])
    assert len(check(await Chat(both, config=STREAMED).say("go"))) == 2
    outer = streaming("outer", call("child2", request="go"), LONG, tools=[AgentTool(streaming("child2", LONG))])
    config = RunConfig(streaming_mode=STREAMED.streaming_mode, forward_agent_tool_events=True)
    events = await Chat(outer, config=config).say("go")
    assert len({each.id for each in events if each.author == "child2"}) == 1


async def test_a_wrapper_that_asks_again_gives_one_answer() -> None:
    """What a wrapper passes on is one answer, however often it asks for it."""

    async def again(call_next: Any, llm_request: Any, **_: Any) -> AsyncIterator[LlmResponse]:
        try:
            async for response in call_next(llm_request):
                yield response
        except Exception:
            async for response in call_next(llm_request):
                yield response

    root = streaming("root", dropped(LONG), LONG, around_model=again)
    assert len(check(await Chat(root, config=STREAMED).say("go"))) == 1
