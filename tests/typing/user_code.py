# pyright: strict
"""What users write, as a type checker in strict mode has to accept it."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import assert_type

from google.genai import types
from pydantic import BaseModel

from flowloom import (
    Agent,
    App,
    BaseAgent,
    BaseLlm,
    BasePlugin,
    BaseTool,
    CallbackContext,
    Event,
    Flow,
    FunctionTool,
    Gemini,
    InMemoryRunner,
    InvocationContext,
    Limits,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    RunConfig,
    RunHandle,
    Runner,
    RunResult,
    SequentialAgent,
    StreamingMode,
    Template,
    ToolContext,
)
from flowloom.adk.agents.llm_agent import LlmAgent as AdkAgent
from flowloom.adk.code_executors import UnsafeLocalCodeExecutor
from flowloom.adk.sessions import DatabaseSessionService
from flowloom.log import Viewer
from flowloom.processors import Contents
from flowloom.testing import ScriptedModel, call


def get_weather(city: str, tool_context: ToolContext) -> dict[str, str]:
    """Weather of a city."""
    tool_context.state["city"] = city
    return {"sky": "blue"}


def before_model(callback_context: CallbackContext, llm_request: LlmRequest) -> LlmResponse | None:
    return None if llm_request.contents else LlmResponse(error_code="EMPTY")


async def after_agent(callback_context: CallbackContext) -> types.Content | None:
    return None


class Shout(BaseTool):
    async def run_async(self, *, args: dict[str, object], tool_context: ToolContext) -> str:
        return str(args["words"]).upper()


class Echo(BaseLlm):
    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        yield LlmResponse(content=llm_request.contents[-1])


class Custom(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        for child in self.sub_agents:
            async for event in child.run_async(ctx):
                yield event


class Logging(BasePlugin):
    async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> Event | None:
        print(event.author, event.text)
        return None


def audit(ctx: InvocationContext, request: LlmRequest) -> None:
    request.append_instructions(["Be brief."])


def everything(event: Event, viewer: Viewer) -> bool:
    return event.branch == viewer.branch


flow = Flow().with_processor(audit, after="instructions").with_processor(Contents(everything), replace="contents")
weather = LlmAgent(
    name="weather",
    model=ScriptedModel([call("get_weather", city="Oslo"), "Blue."]),
    instruction=Template("Help {{ state.name }}."),
    tools=[get_weather, FunctionTool(get_weather, timeout=5), Shout(name="shout", description="Shout.")],
    before_model_callback=before_model,
    after_agent_callback=[after_agent],
    flow=flow,
)
custom = Custom(name="custom", sub_agents=[weather])
root = SequentialAgent(name="root", sub_agents=[custom, Agent(name="b", model=Echo(model="e"))])


async def main() -> list[str]:
    runner = InMemoryRunner(root, plugins=[Logging("log")])
    config = RunConfig(streaming_mode=StreamingMode.SSE, max_llm_calls=5)
    texts: list[str] = []
    async for event in runner.run_async(user_id="u", session_id="s", new_message="hi", run_config=config):
        texts.append(event.text)
        texts.extend(asked.name or "" for asked in event.get_function_calls())
    return texts


# -- constructors of users' own classes


class Counting(BaseAgent):
    rounds: int
    label: str = "x"


class Careful(LlmAgent):
    care: float = 0.5


tools = [get_weather]
members = [weather, Careful(name="careful", care=1, tools=tools)]
counting = Counting(name="counting", rounds=3, sub_agents=members)
counting.sub_agents.append(weather)
weather.tools.append(get_weather)
limited = RunConfig(limits=Limits(model_calls=3, agents={"a": Limits(seconds=2)}), labels={"a": "b"})
app = App(name="app", root_agent=counting, plugins=[Logging("log")])
model = Gemini(model="gemini-2.5-flash", api_key="k")
guarded = LlmAgent(
    name="guarded",
    model=model,
    mode="single_turn",
    sub_agents=(weather,),
    generate_content_config=types.GenerateContentConfig(temperature=0),
    before_model_callback=[before_model],
    output_schema={"type": "object"},
    limits=Limits(tool_calls=1),
    output_retries=1,
)


# -- structured answers


class City(BaseModel):
    name: str


capital = LlmAgent(name="capital", output_schema=City)
cities = LlmAgent(name="cities", output_schema=list[City])


class Geographer(LlmAgent[City]):
    continent: str


async def outputs() -> str:
    runner = InMemoryRunner(capital)
    result = await runner.run_to_result(user_id="u", session_id="s", new_message="hi")
    assert_type(result, RunResult[City])
    assert_type(result.output, City | None)
    handle: RunHandle[City] = Runner(
        app=App(name="app", root_agent=Geographer(name="g", continent="x")), session_service=runner.session_service
    ).start(user_id="u", session_id="s")
    assert_type((await handle.result()).raise_for_status().output, City | None)
    assert_type((await InMemoryRunner(cities).run_stateless("hi")).output, list[City] | None)
    assert_type(InMemoryRunner(capital).run_stateless_sync("hi"), RunResult[City])
    plain: RunResult = await InMemoryRunner(weather).run_stateless("hi")
    return result.output.name if result.output is not None else plain.text


moved = AdkAgent(name="moved", code_executor=UnsafeLocalCodeExecutor())
agents: list[LlmAgent] = [moved]
Runner(app_name="moved", agent=moved, session_service=DatabaseSessionService("sqlite://"))
