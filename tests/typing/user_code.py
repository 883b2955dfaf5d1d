# pyright: strict
"""What users write, as a type checker in strict mode has to accept it."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from google.genai import types

from flowloom import (
    Agent,
    BaseAgent,
    BaseLlm,
    BasePlugin,
    BaseTool,
    CallbackContext,
    Contents,
    Event,
    Flow,
    FunctionTool,
    InMemoryRunner,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    RunConfig,
    SequentialAgent,
    StreamingMode,
    Template,
    ToolContext,
    Viewer,
)
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
