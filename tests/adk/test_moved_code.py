"""A program that was written for google-adk runs when one word of its imports is another."""

from __future__ import annotations

import asyncio
import inspect
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from flowloom.adk.agents import LlmAgent
from flowloom.adk.models import Gemini
from flowloom.adk.runners import InMemoryRunner
from flowloom.errors import ConfigurationError
from flowloom.testing import ScriptedModel

PROGRAM = '''
from typing import AsyncGenerator, Optional

from google.adk import Agent
from google.adk.agents import BaseAgent, LlmAgent, SequentialAgent
from google.adk.agents.callback_context import CallbackContext
from google.adk.agents.invocation_context import InvocationContext
from google.adk.agents.readonly_context import ReadonlyContext
from google.adk.agents.run_config import RunConfig, StreamingMode
from google.adk.apps.app import App
from google.adk.artifacts import InMemoryArtifactService
from google.adk.code_executors import UnsafeLocalCodeExecutor
from google.adk.events import Event, EventActions
from google.adk.memory import InMemoryMemoryService
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.plugins.base_plugin import BasePlugin
from google.adk.runners import Runner
from google.adk.sessions import DatabaseSessionService
from google.adk.tools import BaseTool, FunctionTool, ToolContext
from google.genai import types


class Echo(BaseLlm):
    model: str = "echo"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        parts = llm_request.contents[-1].parts
        answer = parts[-1].function_response
        if answer is not None:
            part = types.Part(text=f"It is {answer.response}.")
        elif "count" in llm_request.tools_dict:
            part = types.Part(function_call=types.FunctionCall(name="count", args={"word": "abc"}))
        else:
            part = types.Part(text=f"{llm_request.config.system_instruction}|{parts[-1].text}")
        yield LlmResponse(content=types.Content(role="model", parts=[part]))


class Count(BaseTool):
    def __init__(self):
        self.declaration = types.FunctionDeclaration(name="count", description="Counts letters.")
        super().__init__(name="count", description="Counts letters.")

    def _get_declaration(self) -> Optional[types.FunctionDeclaration]:
        return self.declaration

    async def run_async(self, *, args: dict, tool_context: ToolContext):
        tool_context.state["letters"] = len(args["word"])
        return {"letters": len(args["word"])}


class Stamp(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        ctx.session = await ctx.session_service.get_session(
            app_name=ctx.app_name, user_id=ctx.user_id, session_id=ctx.session.id
        )
        yield Event(
            invocation_id=ctx.invocation_id,
            author=self.name,
            content=types.Content(role="model", parts=[types.Part(text=f"{len(ctx.session.events)} events")]),
            actions=EventActions(state_delta={"stamped": True}),
        )


class Seen(BasePlugin):
    def __init__(self):
        super().__init__(name="seen")
        self.models = 0

    async def before_model_callback(self, *, callback_context: CallbackContext, llm_request: LlmRequest):
        self.models += 1


def instruction(ctx: ReadonlyContext) -> str:
    return f"Serve {ctx.user_id}."


def pay(amount: int) -> str:
    """Pays."""
    return "paid"


async def main(url: str):
    counter = Agent(name="counter", model=Echo(), tools=[Count()], code_executor=UnsafeLocalCodeExecutor())
    speaker = LlmAgent(name="speaker", model=Echo(), instruction=instruction, output_key="said")
    seen = Seen()
    root = SequentialAgent(name="root", sub_agents=[counter, Stamp(name="stamp"), speaker])
    service = DatabaseSessionService(db_url=url)
    runner = Runner(
        app=App(name="moved", root_agent=root, plugins=[seen]),
        session_service=service,
        artifact_service=InMemoryArtifactService(),
        memory_service=InMemoryMemoryService(),
    )
    session = await service.create_session(app_name="moved", user_id="ann")
    said = []
    async for event in runner.run_async(
        user_id="ann",
        session_id=session.id,
        new_message=types.Content(role="user", parts=[types.Part(text="Go.")]),
        run_config=RunConfig(streaming_mode=StreamingMode.NONE),
    ):
        if event.content and event.content.parts[0].text:
            said.append((event.author, event.content.parts[0].text))
    kept = await service.get_session(app_name="moved", user_id="ann", session_id=session.id)
    missing = await FunctionTool(pay).run_async(args={}, tool_context=None)
    await runner.close()
    await service.close()
    return said, kept.state, seen.models, missing
'''


def test_a_program_for_google_adk_runs_by_another_word_in_its_imports() -> None:
    """Agents, tools, plugins, a database by its URL, a session that is set, and results as they are there."""
    names: dict[str, Any] = {"__name__": "moved"}
    exec(PROGRAM.replace("google.adk", "flowloom.adk"), names)
    said, state, models, missing = asyncio.run(names["main"]("sqlite+aiosqlite://"))
    assert said == [
        ("counter", "It is {'letters': 3}."),
        ("stamp", "4 events"),
        ("speaker", 'Serve ann.\n\nYou are the agent "speaker".|[stamp] said: 4 events'),
    ]
    assert (state["letters"], state["stamped"], state["said"]) == (3, True, said[2][1])
    assert models == 3
    assert list(missing) == ["error"]


@pytest.mark.parametrize(
    ("module", "name", "parameter", "own_parameter"),
    [
        ("artifacts", "FileArtifactService", "root_dir", "directory"),
        ("sessions.sqlite_session_service", "SqliteSessionService", "db_path", "path"),
        ("memory", "SqliteMemoryService", "db_path", "path"),
    ],
)
def test_what_is_kept_on_disk_is_made_by_the_parameter_of_google_adk(
    module: str, name: str, parameter: str, own_parameter: str, tmp_path: Path
) -> None:
    """A place is given once, by one name or the other."""
    service = getattr(import_module(f"flowloom.adk.{module}"), name)
    where = str(tmp_path / "kept")
    service(**{parameter: where})
    service(**{own_parameter: where})
    service(where)
    with pytest.raises(ConfigurationError, match=own_parameter):
        service()
    with pytest.raises(ConfigurationError, match=parameter):
        service(where, **{parameter: where})


async def test_the_session_of_debug_runs_is_called_as_in_google_adk() -> None:
    """Programs look it up afterwards."""
    runner = InMemoryRunner(LlmAgent(name="assistant", model=ScriptedModel(["Hi."])))
    await runner.run_debug("Hello", quiet=True)
    session = await runner.session_service.get_session(
        app_name=runner.app_name, user_id="debug_user_id", session_id="debug_session_id"
    )
    assert session is not None


def test_a_client_of_ones_own_is_refused() -> None:
    """A subclass that makes google-genai's client, as for google-adk, is told where its settings go."""

    class Global(Gemini):
        @property
        def api_client(self) -> Any:
            raise AssertionError

    with pytest.raises(ConfigurationError, match="`http_options`"):
        Global(model="gemini-2.5-flash")


@pytest.mark.parametrize(
    ("module", "name", "parameters"),
    [
        ("utils.instructions_utils", "inject_session_state", ["template", "readonly_context"]),
        ("skills", "load_skill_from_dir", ["skill_dir"]),
        ("skills", "load_skills_from_dir", ["skills_dir"]),
    ],
)
def test_functions_are_called_by_the_parameters_of_google_adk(module: str, name: str, parameters: list[str]) -> None:
    called = getattr(import_module(f"flowloom.adk.{module}"), name)
    assert [*inspect.signature(called).parameters] == parameters
