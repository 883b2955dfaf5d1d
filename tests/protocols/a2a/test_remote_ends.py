"""Turns of remote agents that end early: cancelled, out of time, broken off, unreachable."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from a2a.types import AgentCapabilities
from a2a_peer import Peer, Talk, peer
from kit import WHERE, Chat
from opentelemetry import trace
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from starlette.responses import Response

from flowloom import RemoteA2aAgent
from flowloom.protocols.a2a import RemoteAgentError, RemoteAgentTimeoutError


async def never_ends(talk: Talk) -> None:
    await talk.begin()
    await talk.status("working", "on it")
    await talk.chunk("a", "It ")
    await asyncio.sleep(60)


async def cancelled_in(other: Peer, seconds: float = 60.0) -> list[str]:
    """The tasks that were cancelled, once there is one."""
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(seconds):
            while not other.cancelled:  # noqa: ASYNC110
                await asyncio.sleep(0.01)
    return other.cancelled


@contextlib.asynccontextmanager
async def nothing_left() -> AsyncIterator[None]:
    """No task outlives the block, but for the one that the other side's library keeps for all its streams."""
    before = asyncio.all_tasks()
    yield
    await asyncio.sleep(0)
    left = [repr(task) for task in asyncio.all_tasks() - before]
    assert [each for each in left if "sse_starlette" not in each] == []


@pytest.mark.parametrize("streaming", [True, False], ids=["streamed", "polled"])
async def test_cancelling_the_run_cancels_the_task(streaming: bool) -> None:
    """`CancelTask` is sent, and the history says that the run was cancelled."""
    async with nothing_left(), peer(never_ends, capabilities=AgentCapabilities(streaming=streaming)) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url, polling_seconds=0.1))
        handle = chat.runner.start(**WHERE, new_message="a")
        async for event in handle:
            if event.author == "weather":  # so that the task is known here
                break
        handle.cancel()
        result = await handle.result()
        await chat.runner.close()
        assert result.status == "cancelled"
        assert await cancelled_in(other) == [other.heard[0].task_id]


async def test_leaving_the_stream_cancels_the_task() -> None:
    """A consumer that breaks off ends the remote task, too."""
    async with nothing_left(), peer(never_ends) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        events = chat.runner.run_async(**WHERE, new_message="a")
        async for event in events:
            if event.text == "It ":
                break
        await events.aclose()
        await chat.runner.close()
        assert await cancelled_in(other) == [other.heard[0].task_id]


async def test_a_turn_out_of_time_cancels_the_task() -> None:
    """The error names the agent and says what to do."""
    async with nothing_left(), peer(never_ends) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url, timeout=2.0))
        with pytest.raises(RemoteAgentTimeoutError, match=r"`weather` did not finish within 2 s"):
            await chat.say("a")
        await chat.runner.close()
        assert await cancelled_in(other) == [other.heard[0].task_id]


async def test_a_service_that_does_not_confirm_costs_two_seconds() -> None:
    """The request for the task's end is awaited for two seconds, and no longer."""

    async with peer(never_ends) as other:

        async def stubborn(context, queue) -> None:
            await asyncio.sleep(30)

        other.cancel = stubborn
        chat = Chat(RemoteA2aAgent("weather", other.url))
        handle = chat.runner.start(**WHERE, new_message="a")
        async for event in handle:
            if event.text == "It ":
                break
        began = asyncio.get_running_loop().time()
        handle.cancel()
        result = await handle.result()
        took = asyncio.get_running_loop().time() - began
        await chat.runner.close()
    assert result.status == "cancelled"
    assert 1.5 < took < 15


async def test_an_unreachable_agent_is_an_error_with_its_name_and_address() -> None:
    """Nothing listens there: the run fails within the timeout, and says so."""
    chat = Chat(RemoteA2aAgent("weather", "http://127.0.0.1:9/"))
    async with asyncio.timeout(60):
        result = await chat.runner.start(**WHERE, new_message="a").result()
    await chat.runner.close()
    assert result.status == "failed"
    assert isinstance(result.error, RemoteAgentError)
    assert "`weather`" in str(result.error)
    assert "http://127.0.0.1:9/" in str(result.error)


async def test_an_agent_that_goes_away_is_an_error_with_its_name_and_address() -> None:
    """Its card was there, its service is not any more."""

    async def script(talk: Talk) -> None:
        await talk.answer("ok")

    async with peer(script) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        await chat.say("a")
    with pytest.raises(RemoteAgentError, match=f"`weather` at {other.url}"):
        await chat.say("b")
    await chat.runner.close()


async def test_an_answer_without_a_word_is_an_error() -> None:
    """A stream that ends at once is no silence."""

    def mute(app: Any) -> Any:
        async def answer(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http" and scope["path"] == "/":
                headers = {"content-type": "text/event-stream"}
                await Response(b"", headers=headers)(scope, receive, send)
            else:
                await app(scope, receive, send)

        return answer

    async with peer(never_ends, behind=mute) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        with pytest.raises(RemoteAgentError, match="without a word"):
            await chat.say("a")
        await chat.runner.close()


async def test_closing_twice_is_quiet_and_the_agent_works_again() -> None:
    """A closed connection is made anew."""

    async def script(talk: Talk) -> None:
        await talk.answer("ok")

    async with peer(script) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        await chat.say("a")
        await chat.runner.close()
        await asyncio.create_task(chat.runner.close())
        events = await chat.say("b")
        await chat.runner.close()
    assert events[-1].text == "ok"


def test_an_agent_works_in_two_event_loops() -> None:
    """One loop after the other has a connection of its own."""

    async def script(talk: Talk) -> None:
        await talk.answer("ok")

    remote = RemoteA2aAgent("weather", "http://127.0.0.1:1/")

    async def talk_once() -> str:
        async with peer(script) as other:
            remote.agent_card = other.url
            chat = Chat(remote)
            events = await chat.say("a")
            await chat.runner.close()
            return events[-1].text

    assert [asyncio.run(talk_once()), asyncio.run(talk_once())] == ["ok", "ok"]


def test_the_import_loads_no_sdk() -> None:
    """Naming the class, and making an agent, loads neither the SDK nor a network library."""
    import subprocess
    import sys

    code = (
        "import sys; from flowloom import RemoteA2aAgent; RemoteA2aAgent('a', 'https://a.example'); "
        "print([name for name in ('a2a', 'google.protobuf', 'starlette', 'uvicorn') if name in sys.modules])"
    )
    told = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert told.stdout.strip() == "[]"


async def test_a_turn_has_a_span_and_passes_the_trace_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """The service gets the `traceparent`; the span names agent and task, and holds no word."""

    async def script(talk: Talk) -> None:
        await talk.begin()
        await talk.chunk("a", "private answer")
        await talk.status("completed")

    exporter, provider = InMemorySpanExporter(), TracerProvider()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    monkeypatch.setattr(trace, "_TRACER_PROVIDER", provider)
    async with peer(script) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        await chat.say("private words")
        await chat.runner.close()
    [sent] = [span for span in exporter.get_finished_spans() if span.name == "a2a.send_message"]
    assert sent.attributes["a2a.task_id"] == other.heard[0].task_id
    assert other.headers[0]["traceparent"].split("-")[1] == f"{sent.context.trace_id:032x}"
    assert "private" not in str(dict(sent.attributes))
