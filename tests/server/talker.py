"""An agent that does what it is told, for tests of runs, and a client that sees the chunks of an answer."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import AsyncGenerator, Iterator
from contextlib import contextmanager
from typing import Any

from google.genai import types
from server.serving import PATIENCE, Running, last_words

from flowloom import FunctionTool, LlmAgent
from flowloom.models import BaseLlm, LlmRequest, LlmResponse
from flowloom.testing import call
from flowloom.tools import ToolContext


def told(*parts: types.Part | str, **fields: Any) -> LlmResponse:
    """A response of these parts."""
    made = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    return LlmResponse(content=types.Content(role="model", parts=made), **fields)


go_on = threading.Event()
"""Whether answers that are held up are said to their ends; see the fixture `held`."""


class TalkingModel(BaseLlm):
    """`say 3` says three words, `pace 3` slowly, `flood 3` long ones, `hang 3` and then nothing, `held 3` half of them
    until the test lets it go on; `tool NAME` calls a tool, `fail` fails, and all else is echoed."""

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        said = last_words(llm_request)
        kind, _, rest = said.partition(" ")
        if kind == "tool":
            yield told(call(rest))
            return
        if kind == "fail":
            if stream:
                yield told("partly ", partial=True)
            raise RuntimeError("model exploded")
        count = int(rest) if kind in ("say", "hang", "held", "pace", "flood") else 0
        word = "x" * 10_000 if kind == "flood" else "word"
        for number in range(count):
            while kind == "held" and number == count // 2 and not go_on.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0.005)
            if stream:
                yield told(f"{word}{number} ", partial=True)
            if kind == "pace":
                await asyncio.sleep(0.01)
        if kind == "hang":
            await asyncio.Event().wait()
        yield told("".join(f"{word}{number} " for number in range(count)) or f"You said: {said}")


async def wait() -> str:
    """Waits without end."""
    await asyncio.Event().wait()
    return "never"


async def save(tool_context: ToolContext) -> dict[str, str]:
    """Saves a file."""
    await tool_context.save_artifact("note.txt", types.Part(text="noted"))
    return {"saved": "note.txt"}


def book() -> dict[str, str]:
    """Books a flight."""
    return {"booked": "yes"}


def talker(name: str = "desk") -> LlmAgent:
    """The agent."""
    tools = [wait, save, FunctionTool(book, require_confirmation=True)]
    return LlmAgent(name=name, model=TalkingModel(model="talker"), tools=tools)


def body(session_id: str, said: str | None = "hello", **more: Any) -> dict[str, Any]:
    """The body of a request for a run."""
    message = None if said is None else {"role": "user", "parts": [{"text": said}]}
    return {"appName": "desk", "userId": "ann", "sessionId": session_id, "newMessage": message, **more}


def data_of(text: str) -> list[dict[str, Any]]:
    """The data of the frames of a stream."""
    return [json.loads(line.removeprefix("data: ")) for line in text.split("\n") if line.startswith("data: ")]


def run(server: Running, session: str, said: str | None = "hello", **more: Any) -> list[dict[str, Any]]:
    """The frames of a run that goes to its end."""
    answer = server.client.post("/run_sse", json=body(session, said, **more))
    assert answer.status_code == 200, answer.text
    return data_of(answer.text)


def stored(server: Running, session: str) -> list[dict[str, Any]]:
    """The events of a session."""
    return server.client.get(f"{server.sessions()}/{session}").json()["events"]


class Chunks:
    """An answer as its HTTP chunks."""

    def __init__(self, connection: socket.socket) -> None:
        self._file = connection.makefile("rb")
        self.status = int(self._file.readline().split()[1])
        self.headers: dict[str, str] = {}
        while line := self._file.readline().strip():
            key, _, value = line.decode().partition(":")
            self.headers[key.lower()] = value.strip()

    def __iter__(self) -> Iterator[bytes]:
        return self

    def __next__(self) -> bytes:
        size = int(self._file.readline(), 16)
        chunk = self._file.read(size)
        assert self._file.read(2) == b"\r\n"
        if not size:
            raise StopIteration
        return chunk

    def close(self) -> None:
        self._file.close()


def until(chunks: Chunks, text: str) -> str:
    """What came until a frame with this text."""
    seen = ""
    for chunk in chunks:
        seen += chunk.decode()
        if text in seen:
            return seen
    raise AssertionError(f"{text!r} did not come: {seen}")


@contextmanager
def stream(
    server: Running, path: str, given: dict[str, Any] | None = None, *, buffer: int | None = None, **headers: str
) -> Iterator[Chunks]:
    """An answer that is read chunk by chunk; leaving the block closes the connection."""
    host, port = server.url.removeprefix("http://").split(":")
    with socket.socket() as connection:
        if buffer is not None:
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, buffer)
        connection.settimeout(PATIENCE)
        connection.connect((host, int(port)))
        sent = b"" if given is None else json.dumps(given).encode()
        lines = [f"{'GET' if given is None else 'POST'} {path} HTTP/1.1", f"host: {host}:{port}"]
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        if given is not None:
            lines += ["content-type: application/json", f"content-length: {len(sent)}"]
        connection.sendall("\r\n".join([*lines, "", ""]).encode() + sent)
        chunks = Chunks(connection)
        try:
            yield chunks
        finally:
            chunks.close()


def runs_of(server: Running, session: str) -> list[dict[str, Any]]:
    """What the server lists as runs of a session."""
    return server.client.get(f"{server.sessions()}/{session}/runs").json()


def settled(server: Running, session: str) -> list[dict[str, Any]]:
    """The events of a session, when no run is under way in it."""
    key = ("desk", "ann", session)

    async def over() -> None:
        async with asyncio.timeout(PATIENCE):
            for each in server.served.runs.of(key):
                await each.ended.wait()

    server.call(over())
    return stored(server, session)
