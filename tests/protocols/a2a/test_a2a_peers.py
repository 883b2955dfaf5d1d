"""Clients and servers of others with ours: the JavaScript SDK, and google-adk, each in an environment of its own."""

from __future__ import annotations

import asyncio
import json
import socket
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import pytest
from a2a_peer import served
from kit import WHERE, text
from peers import alone_in, missing, npm_packages

from benchmarks.engines import GOOGLE_ADK, HOMES, install
from flowloom import InMemoryRunner, LlmAgent, LlmRequest, RemoteA2aAgent, SequentialAgent, answers, request_input
from flowloom.protocols.a2a import to_a2a
from flowloom.server.serving import bound_socket
from flowloom.testing import FunctionModel, call

JS_SDK = "@a2a-js/sdk@1.3.0"
HERE = Path(__file__).parent
pytestmark = [pytest.mark.soak, pytest.mark.timeout(600)]


def js_sdk() -> Path:
    """The folder of the JavaScript SDK."""
    return npm_packages(HOMES / "a2a-js", JS_SDK) / "@a2a-js" / "sdk"


def google_adk() -> str:
    """The interpreter of an environment with google-adk and the SDK of A2A."""
    try:
        with alone_in(HOMES / "locks"):
            python = install(GOOGLE_ADK).python
            if subprocess.run([python, "-c", "import a2a, uvicorn"], capture_output=True).returncode:
                needed = ["a2a-sdk[http-server]>=1.2,<2", "uvicorn"]
                subprocess.run([python, "-m", "pip", "install", "-q", *needed], check=True, capture_output=True)
    except (subprocess.CalledProcessError, OSError) as error:
        missing(f"google-adk could not be installed into an environment of its own: {error}")
    return python


def story_agent() -> LlmAgent:
    """An agent without an end, whose answer depends on the words alone."""

    async def dig() -> str:
        """Dig."""
        await asyncio.sleep(60)
        return "done"

    def answer(request: LlmRequest) -> Any:
        parts = request.contents[-1].parts or []
        response = next((part.function_response for part in parts if part.function_response), None)
        if response is not None:
            return f"Sunny in {(response.response or {}).get('result')}."
        words = next((part.text for part in parts if part.text), "")
        if words == "ask":
            return [call("adk_request_input", message="Which city?")]
        if words == "dig":
            return [call("dig")]
        if words == "count":
            return f"{sum(content.role == 'user' for content in request.contents)} messages"
        if words == "file":
            return f"{parts[1].inline_data.mime_type} {parts[1].inline_data.data!r}"
        return [text(f"You said: {words}")]

    return LlmAgent(name="desk", description="Answers.", model=FunctionModel(answer), tools=[dig, request_input])


async def test_the_javascript_client_is_served() -> None:
    """Send, stream, dialog, cancel, get, two contexts, a file, push notifications."""
    sdk = await asyncio.to_thread(js_sdk)
    bound = bound_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    async with served(to_a2a(story_agent(), port=port, allow_private_push=True), bound):
        process = await asyncio.create_subprocess_exec(
            "node",
            str(HERE / "js_client_story.mjs"),
            str(sdk),
            f"http://localhost:{port}",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
        )
        out, err = await asyncio.wait_for(process.communicate(), 60)
    assert process.returncode == 0, err.decode()[-2000:]
    told = json.loads(out)
    assert told["send"] == [3, "You said: Hello"]
    assert told["stream"] == "You said: Hello again"
    assert told["contexts"] == ["1 messages", "3 messages"]
    assert told["dialog"] == [6, "Which city?", "Sunny in Rome."]
    assert told["file"] == "text/plain b'abc'"
    assert told["get"] == [True, "You said: Hello"]
    assert told["cancel"] == 5
    assert told["push"] == [["t0ken", "task"], ["t0ken", "statusUpdate"], ["t0ken", "statusUpdate"]]


ADK_CLIENT = """
import asyncio, json, sys, warnings
warnings.simplefilter("ignore")
from google.adk.agents.remote_a2a_agent import RemoteA2aAgent
from google.adk.runners import InMemoryRunner
from google.genai import types

async def main(url):
    agent = RemoteA2aAgent(name="desk", agent_card=url + "/.well-known/agent-card.json")
    runner = InMemoryRunner(agent=agent, app_name="app")
    await runner.session_service.create_session(app_name="app", user_id="ann", session_id="s1")
    told = []
    for words in sys.argv[2:]:
        said = []
        message = types.Content(role="user", parts=[types.Part(text=words)])
        async for event in runner.run_async(user_id="ann", session_id="s1", new_message=message):
            for part in (event.content.parts if event.content else None) or []:
                if part.text and not event.partial and not part.thought:
                    said.append(part.text)
        told.append(said)
    print(json.dumps(told))

asyncio.run(main(sys.argv[1]))
"""

ADK_SERVER = """
import sys, warnings
warnings.simplefilter("ignore")
import uvicorn
from google.adk.a2a.utils.agent_to_a2a import to_a2a
from google.adk.agents import LlmAgent
from google.adk.models import BaseLlm, LlmResponse
from google.adk.tools import LongRunningFunctionTool
from google.genai import types

def book(city: str):
    '''Book.'''
    return {"status": "pending"}

class Echo(BaseLlm):
    async def generate_content_async(self, request, stream=False):
        parts = request.contents[-1].parts
        response = next((p.function_response for p in parts if p.function_response), None)
        words = next((p.text for p in parts if p.text), "")
        if response is not None:
            part = types.Part(text=f"Booked: {response.response}")
        elif words == "book":
            part = types.Part(function_call=types.FunctionCall(name="book", args={"city": "Rome"}))
        else:
            part = types.Part(text=f"You said: {words} ({len(request.contents)})")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))

agent = LlmAgent(name="desk", description="Answers.", model=Echo(model="echo"), tools=[LongRunningFunctionTool(book)])
port = int(sys.argv[1])
uvicorn.run(to_a2a(agent, port=port), port=port, log_level="warning")
"""


@contextmanager
def adk_server(python: str, folder: Path) -> Iterator[str]:
    """The address of google-adk's server of an agent."""
    script, log = folder / "server.py", folder / "server.log"
    script.write_text(ADK_SERVER)
    with bound_socket("127.0.0.1", 0) as free:
        port = free.getsockname()[1]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [python, str(script), str(port)], stdout=output, stderr=subprocess.STDOUT, cwd=folder
        )
    try:
        limit = time.monotonic() + 200
        while time.monotonic() < limit:
            with suppress(OSError), socket.create_connection(("127.0.0.1", port), 1):
                break
            assert process.poll() is None, log.read_text()[-3000:]
            time.sleep(0.2)
        yield f"http://localhost:{port}"
    finally:
        process.terminate()
        process.wait(20)


async def test_a_client_of_google_adk_is_served(tmp_path: Path) -> None:
    """Two turns in one context, and each answer once."""
    python = await asyncio.to_thread(google_adk)
    script = tmp_path / "client.py"
    script.write_text(ADK_CLIENT)
    bound = bound_socket("127.0.0.1", 0)
    port = bound.getsockname()[1]
    async with served(to_a2a(story_agent(), port=port), bound):
        process = await asyncio.create_subprocess_exec(
            python,
            str(script),
            f"http://localhost:{port}",
            "Hello",
            "count",
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            cwd=tmp_path,
        )
        out, err = await asyncio.wait_for(process.communicate(), 200)
    assert process.returncode == 0, err.decode()[-3000:]
    told = json.loads(out.decode().strip().splitlines()[-1])
    assert told == [["You said: Hello"], ["2 messages"]]


async def test_a_server_of_google_adk_is_asked(tmp_path: Path) -> None:
    """Its answers are stored, its context goes on, and a call that waits there is answered by its function response."""
    python = await asyncio.to_thread(google_adk)
    with adk_server(python, tmp_path) as url:
        runner = InMemoryRunner(SequentialAgent(name="flow", sub_agents=[RemoteA2aAgent("desk", url)]))
        first = await runner.run_to_result(**WHERE, new_message="Hello")
        second = await runner.run_to_result(**WHERE, new_message="again")
        asked = await runner.run_to_result(**WHERE, new_message="book")
        booked = await runner.run_to_result(**WHERE, new_message=answers(asked.pending[0].reply({"ticket": 7})))
        await runner.close()
    assert first.text == "You said: Hello (1)"
    assert second.text == "You said: again (3)"
    assert asked.status == "paused"
    assert "ticket" in booked.text
