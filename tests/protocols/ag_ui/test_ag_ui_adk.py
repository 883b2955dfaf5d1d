"""One script on both engines: google-adk behind ag-ui-adk, and ours behind `to_ag_ui` (docs/migrating.md)."""

from __future__ import annotations

import asyncio
import json
import os
import subprocess
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager, suppress
from pathlib import Path
from typing import Any

import httpx
import pytest
from ag_ui_adk_story import SAID, add, pay, responses
from ag_ui_verifier import verify
from peers import alone_in, missing
from test_ag_ui import COLOUR, page_of

from benchmarks.engines import HOMES, EngineSpec, install
from flowloom import BaseLlm, FunctionTool, LlmAgent, LlmResponse
from flowloom.server.serving import bound_socket

PEER = EngineSpec("ag-ui-adk", "", frozenset(), "", "ag-ui-adk==0.11.*", "ag-ui-adk", "ag-ui-adk")
START = 120.0
"""Seconds in which the other side has to answer: its imports take long on a busy machine."""
pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


class StoryModel(BaseLlm):
    """Says what the story wants."""

    async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[LlmResponse, None]:
        async for response in responses(llm_request.contents, LlmResponse):
            yield response


class Side:
    """One of the two, as a page sees it."""

    def __init__(self, http: httpx.AsyncClient, path: str) -> None:
        self.http, self.path = http, path

    def asked(self, words: str, *more: dict[str, Any]) -> dict[str, Any]:
        messages = [{"id": "u", "role": "user", "content": words}, *more]
        context = [{"description": "Cart", "value": "2 shoes"}]
        given = {"threadId": words, "runId": "r", "messages": messages, "tools": [COLOUR], "context": context}
        return {"json": {**given, "state": {}, "forwardedProps": {}}, "headers": {"accept": "text/event-stream"}}

    async def run(self, words: str, *more: dict[str, Any]) -> list[dict[str, Any]]:
        """The events of a run on words that a thread of their own begins with."""
        answered = await self.http.post(self.path, **self.asked(words, *more))
        assert answered.status_code == 200, answered.text
        lines = [line for line in answered.text.splitlines() if line.startswith("data:")]
        events = [json.loads(line.removeprefix("data:")) for line in lines]
        verify(events)
        return events

    async def leave(self, words: str) -> None:
        """Ask for a run, and go away after some of its events."""
        async with self.http.stream("POST", self.path, **self.asked(words)) as answered:
            seen = 0
            async for line in answered.aiter_lines():
                seen += "TEXT_MESSAGE_CONTENT" in line
                if seen == 5:
                    return

    async def said(self) -> int:
        return (await self.http.get("/said")).json()["pieces"]


class Ours(Side):
    async def said(self) -> int:
        return SAID["pieces"]


@pytest.fixture
async def sides() -> AsyncIterator[tuple[Side, Side]]:
    """Theirs and ours."""
    desk = LlmAgent(
        name="desk", model=StoryModel(model="story"), tools=[add, FunctionTool(pay, require_confirmation=True)]
    )
    async with theirs() as peer, page_of(desk, user="ann") as page:
        yield peer, Ours(page.http, "/")


@asynccontextmanager
async def theirs() -> AsyncIterator[Side]:
    """The peer in an environment of its own, which is made once and kept."""
    with alone_in(HOMES / "locks"):
        try:
            python = await asyncio.to_thread(lambda: install(PEER).python)
        except (subprocess.CalledProcessError, OSError) as error:
            missing(f"ag-ui-adk could not be installed into an environment of its own: {error}")
    with bound_socket("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    script = Path(__file__).with_name("ag_ui_adk_peer.py")
    environment = {**os.environ, "PYTHONPATH": "", "PYTHONWARNINGS": "ignore"}
    process = await asyncio.create_subprocess_exec(python, script, str(port), env=environment, stderr=-1)
    try:
        async with httpx.AsyncClient(base_url=f"http://127.0.0.1:{port}", trust_env=False, timeout=60) as http:
            side = Side(http, "/run")
            async with asyncio.timeout(START):
                while process.returncode is None:
                    with suppress(httpx.TransportError):
                        await side.said()
                        break
                    await asyncio.sleep(0.2)
            assert process.returncode is None, (await process.communicate())[1]
            yield side
    finally:
        with suppress(ProcessLookupError):
            process.terminate()
        await process.communicate()


def of(events: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] == kind]


def shape(events: list[dict[str, Any]]) -> list[Any]:
    """What a page makes of a run: its texts, calls, results and end, whatever their ids are."""
    kinds = ("RUN_STARTED", "TEXT_MESSAGE_", "TOOL_CALL_", "RUN_FINISHED", "RUN_ERROR")
    made: list[Any] = []
    for event in events:
        if event["type"].startswith(kinds):
            data = event.get("content") or (event.get("delta") if event["type"] == "TOOL_CALL_ARGS" else None)
            shown = json.loads(data) if data else event.get("delta")
            made.append((event["type"], event.get("toolCallName"), shown, event.get("message")))
    return made


def called(events: list[dict[str, Any]], content: str) -> list[dict[str, Any]]:
    """A page's messages after a call of its own tool."""
    (start,) = of(events, "TOOL_CALL_START")
    function = {"name": start["toolCallName"], "arguments": "{}"}
    call = {"id": start["toolCallId"], "type": "function", "function": function}
    answered = {"id": "m", "role": "tool", "toolCallId": start["toolCallId"], "content": content}
    return [{"id": "a", "role": "assistant", "toolCalls": [call]}, answered]


async def test_what_both_tell_of_one_script(sides: tuple[Side, Side]) -> None:
    """Words, a call with its result, a call of the page's with its answer, and a failure are the same; where they
    differ, docs/migrating.md says so."""
    runs: dict[str, tuple[Any, Any]] = {}
    for words in ("hello", "add", "colour", "fail", "pay", "cart"):
        runs[words] = tuple([await side.run(words) for side in sides])  # type: ignore[assignment]
    for words in ("hello", "add", "colour", "fail"):
        assert shape(runs[words][0]) == shape(runs[words][1]), words
    answers = [
        await side.run("colour", *called(events, '{"done": true}'))
        for side, events in zip(sides, runs["colour"], strict=True)
    ]
    assert shape(answers[0]) == shape(answers[1])
    # what waits
    theirs, ours = runs["pay"]
    assert [event["toolCallName"] for event in of(theirs, "TOOL_CALL_START")] == ["pay", "adk_request_confirmation"]
    assert [event["toolCallName"] for event in of(ours, "TOOL_CALL_START")] == ["pay"]
    assert "outcome" not in theirs[-1]
    assert ours[-1]["outcome"]["type"] == "interrupt"
    theirs, ours = runs["colour"]
    assert "outcome" not in theirs[-1]
    assert ours[-1]["outcome"]["pendingToolCallIds"] == [of(ours, "TOOL_CALL_START")[0]["toolCallId"]]
    # what the page tells, who speaks, what it took, and what the state holds
    texts = ["".join(event["delta"] for event in of(run, "TEXT_MESSAGE_CONTENT")) for run in runs["cart"]]
    assert texts == ["I see nothing.", "I see shoes."]
    theirs, ours = runs["hello"]
    names = [of(run, "TEXT_MESSAGE_START")[0].get("name") for run in (theirs, ours)]
    assert names == [None, "desk"]
    assert [bool(of(run, "STEP_STARTED")) for run in (theirs, ours)] == [False, True]
    assert ["usage" in run[-1] for run in (theirs, ours)] == [False, True]
    kept = [
        set(of(run, "STATE_SNAPSHOT")[-1]["snapshot"]) if of(run, "STATE_SNAPSHOT") else set() for run in (theirs, ours)
    ]
    assert "_ag_ui_context" in kept[0]
    assert kept[1] == set()


async def test_a_page_that_leaves_ends_our_run_and_not_theirs(sides: tuple[Side, Side]) -> None:
    """The model says no more, or all it had to say."""
    goes_on: list[bool] = []
    for side in sides:
        await side.leave("long")
        await asyncio.sleep(0.5)
        said = await side.said()
        await asyncio.sleep(0.5)
        goes_on.append(await side.said() > said)
    assert goes_on == [True, False]
