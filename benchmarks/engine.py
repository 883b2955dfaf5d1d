"""The cases on flowloom and on google-adk, which have the same names and need the same code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from importlib import import_module
from typing import Any

from google.genai import types

from benchmarks import script
from benchmarks.bare import add, block, wait

HOMES = {
    "flowloom": dict.fromkeys(("agents", "models", "events", "runners", "sessions"), "flowloom"),
    "google-adk": {room: f"google.adk.{room}" for room in ("agents", "models", "events", "runners", "sessions")},
}
RUNS = 500
"""How many runs of the case `concurrent` go on at once."""


def engine(package: str, case: str, size: int) -> Any:
    """One case on a package; `size` is the number of exchanges in the history, or of agents in the tree."""
    rooms = {room: import_module(module) for room, module in HOMES[package].items()}
    agents, models, events = rooms["agents"], rooms["models"], rooms["events"]
    sse = import_module("google.adk.agents.run_config" if package == "google-adk" else "flowloom").StreamingMode.SSE

    class Model(models.BaseLlm):
        """Answers by the script."""

        case: str

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:
            if not stream:
                yield models.LlmResponse(content=script.answer(self.case, llm_request.contents))
                return
            for _ in range(script.CHUNKS):
                piece = types.Content(role="model", parts=[types.Part(text="chunk ")])
                yield models.LlmResponse(content=piece, partial=True)
            whole = types.Content(role="model", parts=[types.Part(text="chunk " * script.CHUNKS)])
            yield models.LlmResponse(content=whole)

    def tree() -> Any:
        """A root that can hand over to a helper in the case `transfer`, and to `size - 1` others in `tree`."""
        below = []
        if case == "transfer":
            model = Model(model="m", case="text")
            below = [
                agents.LlmAgent(
                    name="helper",
                    description="Helps.",
                    instruction=script.HELPER_INSTRUCTION,
                    model=model,
                    disallow_transfer_to_parent=True,  # the next turn is the root's again
                )
            ]
        if case == "tree":
            below = [agents.LlmAgent(name=f"agent_{n}", description=f"Knows about {n}.") for n in range(size - 1)]
        return agents.LlmAgent(
            name="root",
            instruction=script.ROOT_INSTRUCTION,
            model=Model(model="m", case=case),
            tools=[add, wait, block] if case in ("tool", "concurrent", "async_tools", "blocking_tools") else [],
            sub_agents=below,
        )

    class Engine:
        """The case, on sessions that are begun anew after ten turns unless they have a history."""

        def __init__(self) -> None:
            self.service = rooms["sessions"].InMemorySessionService()
            self.runner = rooms["runners"].Runner(app_name="bench", agent=tree(), session_service=self.service)
            self.config = agents.RunConfig(streaming_mode=sse) if case == "stream" else agents.RunConfig()
            self.turns = 0
            self.session: Any = None

        async def start(self) -> None:
            if self.session is not None:
                await self.service.delete_session(app_name="bench", user_id="u", session_id=self.session.id)
            self.session = await self.service.create_session(app_name="bench", user_id="u")
            if case in ("history", "big"):
                for number in range(size):
                    for author, content in script.exchange(case, number):
                        event = events.Event(author=author, invocation_id=f"i{number}", content=content)
                        await self.service.append_event(self.session, event)
                await self.run(self.session.id)  # a session that is in use has been shown to its agent before

        async def run(self, session_id: str) -> int:
            message = types.Content(role="user", parts=[types.Part(text=script.QUESTION)])
            seen = 0
            async for event in self.runner.run_async(
                user_id="u", session_id=session_id, new_message=message, run_config=self.config
            ):
                seen += event.content is not None
            return seen

        async def turn(self) -> int:
            self.turns += 1
            if case == "concurrent":
                sessions = [await self.service.create_session(app_name="bench", user_id="u") for _ in range(RUNS)]
                await asyncio.gather(*(self.run(session.id) for session in sessions))
                for session in sessions:
                    await self.service.delete_session(app_name="bench", user_id="u", session_id=session.id)
                return RUNS
            if self.turns % 10 == 0 and case not in ("history", "big"):
                await self.start()
            return await self.run(self.session.id)

    return Engine()
