"""The cases on google-adk."""

from __future__ import annotations

from collections.abc import AsyncGenerator

from google.adk.agents import LlmAgent, RunConfig
from google.adk.agents.run_config import StreamingMode
from google.adk.events import Event
from google.adk.models import BaseLlm, LlmRequest, LlmResponse
from google.adk.runners import Runner
from google.adk.sessions import InMemorySessionService
from google.genai import types

from benchmarks import script
from benchmarks.bare import add, block, wait


class Model(BaseLlm):
    """Answers by the script."""

    case: str

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        if not stream:
            yield LlmResponse(content=script.answer(self.case, llm_request.contents))
            return
        for _ in range(script.CHUNKS):
            piece = types.Content(role="model", parts=[types.Part(text="chunk ")])
            yield LlmResponse(content=piece, partial=True)
        yield LlmResponse(content=types.Content(role="model", parts=[types.Part(text="chunk " * script.CHUNKS)]))


def tree(case: str, agents: int) -> LlmAgent:
    """A root that can hand over to `agents - 1` others."""
    below = [
        LlmAgent(
            name="helper", description="Helps.", instruction="You are the helper.", model=Model(model="m", case=case)
        )
    ]
    below += [LlmAgent(name=f"agent_{n}", description=f"Knows about {n}.") for n in range(agents - 2)]
    return LlmAgent(
        name="root",
        instruction="You are a helper.",
        model=Model(model="m", case=case),
        tools=[] if case in ("transfer", "tree") else [add, wait, block],
        sub_agents=below if agents > 1 else [],
    )


class Engine:
    """One case on google-adk."""

    def __init__(self, case: str, size: int) -> None:
        self.case = case
        self.size = size
        self.service = InMemorySessionService()
        agents = size if case == "tree" else 2 if case == "transfer" else 1
        self.runner = Runner(app_name="bench", agent=tree(case, agents), session_service=self.service)
        self.config = RunConfig(streaming_mode=StreamingMode.SSE if case == "stream" else StreamingMode.NONE)

    async def start(self) -> None:
        """A session with the history that the case asks for."""
        self.turns = 0
        await self.new_session()

    async def new_session(self) -> None:
        self.session = session = await self.service.create_session(app_name="bench", user_id="u")
        if self.case == "tree":
            return
        for number in range(self.size):
            for event in exchange(self.case, number):
                await self.service.append_event(session, event)
        if self.size:
            async for _ in self.events():  # a session that is in use has its view
                pass

    def events(self) -> AsyncGenerator[Event, None]:
        message = types.Content(role="user", parts=[types.Part(text="Please go on.")])
        return self.runner.run_async(
            user_id="u", session_id=self.session.id, new_message=message, run_config=self.config
        )

    async def turn(self, number: int) -> int:
        self.turns += 1
        if self.turns % 10 == 0 and not (self.size and self.case != "tree"):
            await self.new_session()
        seen = 0
        async for event in self.events():
            seen += event.content is not None
        return seen


def exchange(case: str, number: int) -> list[Event]:
    """One exchange of a history."""
    if case == "big":
        call = types.FunctionCall(id=f"c{number}", name="add", args={"a": number, "b": 1})
        answer = types.FunctionResponse(id=f"c{number}", name="add", response={"page": script.BIG})
        asked = types.Content(role="model", parts=[types.Part(function_call=call)])
        given = types.Content(role="user", parts=[types.Part(function_response=answer)])
    else:
        asked = types.Content(role="user", parts=[types.Part(text="Please go on.")])
        given = script.text("It is done.")
    return [
        Event(author="root" if case == "big" else "user", invocation_id=f"i{number}", content=asked),
        Event(author="root", invocation_id=f"i{number}", content=given),
    ]
