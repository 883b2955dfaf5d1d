"""What was streamed of an answer that was stopped: kept, stored, and shown to the model as its own words."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from kit import STREAMED, WHERE, Chat, agent, hand_to, model, named_call, requests_of, said, shown, text, user

from flowloom import (
    AgentTool,
    BaseAgent,
    BasePlugin,
    Event,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    ParallelAgent,
    PostgresSessionService,
    RunConfig,
    SequentialAgent,
    SqliteSessionService,
)
from flowloom.run_stream import MessageCompleted, RunFinished, run_stream_of
from flowloom.sessions.sql_service import SqlSessionService
from flowloom.testing import FunctionModel, call, dropped, truncated
from runner.situations import held, legal

PIECES = [text("let me think", thought=True), "Once upon ", "a time", named_call("c", "look")]
FORWARDING = RunConfig(streaming_mode=STREAMED.streaming_mode, forward_agent_tool_events=True)
SERVER_DOWN = ConnectionError("line cut")


class Talker:
    """A model that streams some pieces of an answer and then hangs, or fails; asked again it says `ok`."""

    def __init__(self, *pieces: Any, failure: Exception | None = None) -> None:
        self.pieces = pieces or PIECES
        self.failure = failure
        self.told = asyncio.Event()
        self.requests: list[LlmRequest] = []

    def __call__(self, request: LlmRequest) -> AsyncIterator[LlmResponse]:
        self.requests.append(request)
        return self._speak() if len(self.requests) == 1 else self._say("ok")

    async def _say(self, words: str) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=said(words))

    async def _speak(self) -> AsyncIterator[LlmResponse]:
        for piece in self.pieces:
            yield LlmResponse(content=said(piece), partial=True)
        self.told.set()
        if self.failure is not None:
            raise self.failure
        await asyncio.Event().wait()

    def agent(self, name: str = "root", **fields: Any) -> LlmAgent:
        return LlmAgent(name=name, model=FunctionModel(self), **fields)


def kept(events: list[Event]) -> list[tuple[str, str]]:
    """Who was cut off, and what is kept of it."""
    return [(each.author, each.text) for each in events if each.interrupted]


async def cancel(chat: Chat, *talkers: Talker) -> tuple[Any, list[Event]]:
    """Cancel a run when these models have spoken: its result, and what is stored."""
    run = held(chat)
    for talker in talkers:
        await talker.told.wait()
    run.cancel()
    return await run.result(), await chat.stored()


@pytest.fixture(params=["sqlite", "postgres"])
def open_store(request: pytest.FixtureRequest, tmp_path: Path) -> Callable[[], SqlSessionService]:
    """Opens one and the same store, as often as it is called."""
    if request.param == "sqlite":
        return lambda: SqliteSessionService(tmp_path / "s.db")
    dsn: str = request.getfixturevalue("postgres_dsn")
    return lambda: PostgresSessionService(dsn)


async def test_a_cancelled_run_keeps_what_was_streamed(open_store: Callable[[], SqlSessionService]) -> None:
    """The event that tells of the end has the text, under the id of its partials, without thoughts and calls; it is
    in the result, stored, and next time the model's own words."""
    talker = Talker()
    service = open_store()
    root = talker.agent(output_key="answer")
    chat = Chat(root, config=STREAMED)
    chat.runner.session_service = service
    result, stored = await cancel(chat, talker)
    end = stored[-1]
    assert (end.text, end.interrupted, end.error_code) == ("Once upon a time", True, "RunCancelledError")
    assert [part.text for part in end.content.parts] == ["Once upon a time"]  # type: ignore[union-attr]
    assert {each.id for each in result.events} == {end.id}
    assert result.text == "Once upon a time"
    assert result.output is None
    assert await chat.state() == {}
    legal(stored)
    chat.runner.session_service = open_store()
    await chat.say("go on")
    assert shown(talker.requests[1]) == ["user: go", "model: Once upon a time", "user: go on"]
    await service.close()
    await chat.runner.session_service.close()


@pytest.mark.parametrize("way", ["break", "cancel", "timeout", "abort"])
async def test_a_consumer_that_leaves_leaves_the_text_behind(way: str) -> None:
    """A run that nobody listens to any more has an event that keeps what they heard."""
    talker, stop = Talker(), asyncio.Event()
    chat = Chat(talker.agent(), config=STREAMED)
    ids: set[str] = set()

    async def listen() -> None:
        options: dict[str, Any] = {"run_config": STREAMED, "abort_signal": stop}
        async with aclosing(chat.runner.run_async(**WHERE, new_message="go", **options)) as events:
            async for each in events:
                ids.add(each.id)
                if each.text == "a time":
                    if way == "break":
                        break
                    if way == "abort":
                        stop.set()

    async def listen_in_time() -> None:
        async with limit:
            await listen()

    limit = asyncio.timeout(None)
    task = asyncio.create_task(listen_in_time())
    await talker.told.wait() if way in ("cancel", "timeout") else None
    if way == "cancel":
        task.cancel()
    if way == "timeout":
        limit.reschedule(asyncio.get_running_loop().time())
    await asyncio.gather(task, return_exceptions=True)
    end = (await chat.stored())[-1]
    assert (end.author, end.text, end.interrupted) == ("root", "Once upon a time", True)
    assert ids == {end.id}
    assert [each.status for each in run_stream_of(await chat.stored()) if isinstance(each, RunFinished)] == [
        "cancelled"
    ]


@pytest.mark.parametrize(
    "answer",
    [
        dropped("Once upon a time", after=2, error=SERVER_DOWN),
        truncated("Once upon a time", after=2),
    ],
    ids=["raises", "ends early"],
)
async def test_a_failure_in_mid_answer_keeps_the_text_in_the_one_error_event(answer: Any) -> None:
    """The error event of the failed agent holds what it had said."""
    root = agent("root", answer, "ok")
    chat = Chat(root, config=STREAMED)
    run = held(chat)
    result = await run.result()
    assert result.error is not None
    [end] = [each for each in await chat.stored() if each.error_code]
    assert (end.error_code, end.text, end.interrupted) == (type(result.error).__name__, "Once upon a time", True)
    assert result.text == "Once upon a time"
    assert result.events[-1].error is result.error
    await chat.say("more")
    assert shown(requests_of(root)[1]) == ["user: go", "model: Once upon a time", "user: more"]


async def test_an_error_that_a_model_answers_keeps_the_text() -> None:
    """A complete response that is an error says nothing itself, so what was streamed is in it."""
    stream = [LlmResponse(content=said("Once"), partial=True), LlmResponse(error_code="SAFETY", error_message="no")]
    events = await Chat(agent("root", stream), config=STREAMED).say("go")
    assert len({each.id for each in events}) == 1
    assert (events[-1].text, events[-1].error_code, events[-1].interrupted) == ("Once", "SAFETY", True)


async def test_each_branch_keeps_its_own_text() -> None:
    """Of agents side by side each has an event; the end of the run is told once."""
    talkers = [Talker("one "), Talker("two ")]
    both = ParallelAgent(name="both", sub_agents=[t.agent(n) for t, n in zip(talkers, ("a", "b"), strict=True)])
    result, stored = await cancel(Chat(both, config=STREAMED), *talkers)
    assert sorted(kept(stored)) == [("a", "one "), ("b", "two ")]
    assert sorted(each.branch or "" for each in stored if each.interrupted) == ["both.a", "both.b"]
    assert len([each for each in stored if each.error_code]) == 1
    assert result.status == "cancelled"

    failing = Talker("two ", failure=SERVER_DOWN)
    talker = Talker("one ")
    both = ParallelAgent(name="both", sub_agents=[talker.agent("a"), failing.agent("b")])
    chat = Chat(both, config=STREAMED)
    with pytest.raises(ConnectionError):
        await chat.say("go")
    stored = await chat.stored()
    assert sorted(kept(stored)) == [("a", "one "), ("b", "two ")]
    assert [(each.author, each.error_code) for each in stored if each.error_code] == [("b", "ConnectionError")]


class Careful(BaseAgent):
    """Catches what its member raises, or leaves it in mid-answer, and says something itself, or nothing."""

    leaves: bool = False
    silent: bool = False

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        with contextlib.suppress(ConnectionError):
            async with aclosing(self.sub_agents[0].run_async(ctx)) as events:
                async for each in events:
                    yield each
                    if self.leaves and each.text == "a time":
                        break
        if not self.silent:
            yield ctx.new_event({"content": said("sorry")})


async def test_the_error_is_told_with_the_text_of_the_branch_that_failed() -> None:
    """Though another branch spoke after it."""
    talker = Talker("one ")

    async def answer(_: LlmRequest) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=said("two "), partial=True)
        spoken.set()
        await talker.told.wait()
        raise SERVER_DOWN

    spoken = asyncio.Event()

    async def wait(**_: Any) -> None:
        await spoken.wait()

    waits = talker.agent("a", before_agent_callback=wait)
    failing = LlmAgent(name="b", model=FunctionModel(answer))
    chat = Chat(ParallelAgent(name="both", sub_agents=[waits, failing]), config=STREAMED)
    with pytest.raises(ConnectionError):
        await chat.say("go")
    stored = await chat.stored()
    assert kept(stored) == [("a", "one "), ("b", "two ")]
    assert [each.author for each in stored if each.error_code] == ["b"]


async def test_what_is_kept_has_the_time_of_the_end() -> None:
    """The log stays in the order of its times, though the text began before another branch was done."""
    talker = Talker()
    waits = asyncio.Event()

    async def answer(_: LlmRequest) -> LlmResponse:
        await talker.told.wait()
        await asyncio.sleep(0.002)
        waits.set()
        return LlmResponse(content=said("done"))

    other = LlmAgent(name="other", model=FunctionModel(answer))
    chat = Chat(ParallelAgent(name="root", sub_agents=[talker.agent("slow"), other]), config=STREAMED)
    run = held(chat)
    await waits.wait()
    await asyncio.sleep(0.01)
    run.cancel()
    await run.result()
    times = [each.timestamp for each in await chat.stored()]
    assert times == sorted(times)


@pytest.mark.parametrize("leaves", [False, True], ids=["fails", "is left"])
async def test_an_agent_that_catches_a_failure_of_its_member_keeps_that_ones_text(leaves: bool) -> None:
    """It stands in the log where it was said, as the member's own, and no end of a run is told."""
    talker = Talker(failure=None if leaves else SERVER_DOWN)
    root = Careful(name="root", sub_agents=[talker.agent("member")], leaves=leaves)
    chat = Chat(SequentialAgent(name="flow", sub_agents=[root, agent("last", "bye")]), config=STREAMED)
    events = await chat.say("go")
    stored = await chat.stored()
    said_by = [(each.author, each.text) for each in stored[1:]]
    assert said_by == [("member", "Once upon a time"), ("root", "sorry"), ("last", "bye")]
    assert kept(stored) == [("member", "Once upon a time")]
    assert [each.id for each in events if not each.partial] == [each.id for each in stored[1:]]
    assert len({each.id for each in events if each.author == "member"}) == 1
    [*_, end] = run_stream_of(stored)
    assert isinstance(end, RunFinished)
    assert end.status == "final"


async def test_branches_that_were_given_up_keep_their_texts_before_the_run_ends() -> None:
    """Also if nothing is said after them; a later failure has its own author and text."""
    failing, talker = Talker("two ", failure=SERVER_DOWN), Talker("one ")
    both = ParallelAgent(name="both", sub_agents=[talker.agent("a"), failing.agent("b")])
    careful = Careful(name="root", sub_agents=[both], silent=True)
    chat = Chat(careful, config=STREAMED)
    await chat.say("go")
    assert sorted(kept(await chat.stored())) == [("a", "one "), ("b", "two ")]

    first, last = Talker("half ", failure=SERVER_DOWN), Talker("more ", failure=TimeoutError("too late"))
    careful = Careful(name="root", sub_agents=[first.agent("first")], silent=True)
    chat = Chat(SequentialAgent(name="flow", sub_agents=[careful, last.agent("last")]), config=STREAMED)
    with pytest.raises(TimeoutError):
        await chat.say("go")
    stored = await chat.stored()
    assert kept(stored) == [("first", "half "), ("last", "more ")]
    assert [(each.author, each.text) for each in stored if each.error_code] == [("last", "more ")]


async def test_handovers_and_sequences_keep_the_text_of_who_spoke() -> None:
    """The one that was speaking is the author, and goes on where it was."""
    talker = Talker("half a ")
    root = agent("root", hand_to("child"), sub_agents=[talker.agent("child")])
    _, stored = await cancel(Chat(root, config=STREAMED), talker)
    assert kept(stored) == [("child", "half a ")]
    legal(stored)

    talker = Talker("half a ")
    chat = Chat(SequentialAgent(name="flow", sub_agents=[agent("first", "done"), talker.agent("second")]))
    chat.config = STREAMED
    result, stored = await cancel(chat, talker)
    assert kept(stored) == [("second", "half a ")]
    events = [e async for e in chat.runner.run_async(**WHERE, invocation_id=result.invocation_id)]
    assert [(each.author, each.text) for each in events] == [("second", "ok")]


async def test_an_agent_that_runs_as_a_tool_keeps_its_text_in_the_scope_of_its_call() -> None:
    """What was heard of it is stored as its own, and its caller's model is shown the error of the call alone."""
    talker = Talker("half a ")
    root = agent("root", call("inner", request="go"), "ok", tools=[AgentTool(talker.agent("inner"))])
    chat = Chat(root, config=FORWARDING)
    result, stored = await cancel(chat, talker)
    assert kept(stored) == [("inner", "half a ")]
    assert stored[-1].author == "root"
    assert result.text == ""
    legal(stored)
    await chat.say("more")
    assert not any("half a" in line for line in shown(requests_of(root)[1]))


async def test_what_was_complete_is_not_kept_twice() -> None:
    """A run that is stopped between answers, or in a tool, has nothing to keep."""
    gate = asyncio.Event()

    async def hang() -> str:
        """Hang."""
        gate.set()
        await asyncio.Event().wait()
        return ""

    answer = [text("let me look: "), call("hang")]
    chat = Chat(LlmAgent(name="root", model=model(answer, stream_chunks=True), tools=[hang]), config=STREAMED)
    run = held(chat)
    await gate.wait()
    run.cancel()
    result = await run.result()
    assert kept(result.events) == []
    assert result.text == ""


async def test_a_wrapper_that_begins_again_leaves_what_was_said_last() -> None:
    """What was streamed before the model was asked again is no part of the answer."""

    async def again(call_next: Any, llm_request: Any, **_: Any) -> AsyncIterator[LlmResponse]:
        for _attempt in range(2):
            try:
                async for response in call_next(llm_request):
                    yield response
            except ConnectionError:
                continue
        raise SERVER_DOWN

    answers = [dropped(words, after=1, error=SERVER_DOWN) for words in ("first try", "Once")]
    chat = Chat(agent("root", *answers, around_model=again), config=STREAMED)
    with pytest.raises(ConnectionError):
        await chat.say("go")
    assert kept(await chat.stored()) == [("root", "Once")]


async def test_what_a_wrapper_says_before_it_asks_the_model_stays_part_of_the_answer() -> None:
    """It is none that begins again."""

    async def greeting(call_next: Any, llm_request: Any, **_: Any) -> AsyncIterator[LlmResponse]:
        yield LlmResponse(content=said("Hello. "), partial=True)
        async for response in call_next(llm_request):
            yield response

    chat = Chat(agent("root", dropped("Once", after=1, error=SERVER_DOWN), around_model=greeting), config=STREAMED)
    with pytest.raises(ConnectionError):
        await chat.say("go")
    assert kept(await chat.stored()) == [("root", "Hello. Once")]


async def test_plugins_see_the_text_that_is_kept() -> None:
    """It goes the way of every event: a plugin may redact it before it is stored."""

    class Redact(BasePlugin):
        async def on_event_callback(self, *, event: Event, **_: Any) -> Event | None:
            if event.partial or not event.text:
                return None
            return event.model_copy(update={"content": said("[redacted]")})

    talker = Talker()
    _, stored = await cancel(Chat(talker.agent(), config=STREAMED, plugins=[Redact(name="redact")]), talker)
    assert stored[-1].text == "[redacted]"


async def test_the_run_stream_closes_the_message() -> None:
    """The message that was broken off is completed, marked, under the id of the stored event."""
    talker = Talker(failure=SERVER_DOWN)
    chat = Chat(talker.agent())
    typed = [each async for each in chat.runner.run_stream(**WHERE, new_message="go")]
    [message] = [each for each in typed if isinstance(each, MessageCompleted)]
    assert (message.text, message.thoughts, message.interrupted) == ("Once upon a time", "let me think", True)
    assert message.event_id == message.message_id == (await chat.stored())[-1].id
    assert typed[-1].status == "failed"  # type: ignore[union-attr]


async def test_an_unstreamed_run_has_nothing_to_keep() -> None:
    """Nobody has seen anything of an answer that never came."""
    chat = Chat(agent("root", dropped("Once upon a time")))
    with pytest.raises(Exception, match="broke off"):
        await chat.say("go")
    assert kept(await chat.stored()) == []


async def test_a_run_below_the_runner_keeps_the_text_too() -> None:
    """An agent that is run by hand has the same end."""
    ctx = InvocationContext(agent=Talker(failure=SERVER_DOWN).agent(), user_content=user("go"), run_config=STREAMED)
    with pytest.raises(ConnectionError):
        async for _ in ctx.agent.run_async(ctx):  # type: ignore[attr-defined]
            pass
    assert kept(ctx.session.events) == [("root", "Once upon a time")]
