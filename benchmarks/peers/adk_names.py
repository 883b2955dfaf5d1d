"""The cases on flowloom and on google-adk, which have the same names and need the same code."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from benchmarks import script
from benchmarks.peers import google_contents
from benchmarks.toolbox import add, block, plus, several, wait

WHO = {"app_name": "bench", "user_id": "u"}


@dataclass(frozen=True)
class Names:
    """Where a package keeps what a case needs."""

    LlmAgent: Any
    BaseLlm: Any
    LlmResponse: Any
    Event: Any
    Runner: Any
    InMemorySessionService: Any
    RunConfig: Any
    StreamingMode: Any
    run_options: dict[str, Any] = field(default_factory=dict[str, Any])
    """Settings of all runs."""
    on_loop: Callable[[Any], Any] = lambda function: function
    """Makes a tool of a function that does not block."""


def scripted_model(names: Names) -> Any:
    """The class of a model that answers by the script."""

    class Scripted(names.BaseLlm):
        case: str

        async def generate_content_async(self, llm_request: Any, stream: bool = False) -> AsyncGenerator[Any, None]:
            if not stream:
                yield names.LlmResponse(content=google_contents.answer(self.case, llm_request.contents))
                return
            for _ in range(script.CHUNKS):
                yield names.LlmResponse(content=google_contents.said(script.PIECE), partial=True)
            yield names.LlmResponse(content=google_contents.said(script.PIECE * script.CHUNKS))

    return Scripted


def tree(names: Names, case: str, size: int) -> Any:
    """A root; a helper below it in the case `transfer`; `size` tools in `tools`, `size` agents in all in `tree`."""
    model = scripted_model(names)
    below: list[Any] = []
    quick = {"sync_tool": plus, "loop_tool": names.on_loop(plus)}.get(case, add)
    tools: list[Any] = [quick, wait, block] if case in script.TOOL_CASES else []
    if case == "transfer":
        helper = names.LlmAgent(
            name="helper",
            description="Helps.",
            instruction=script.HELPER_INSTRUCTION,
            model=model(model="m", case="helper"),
            disallow_transfer_to_parent=True,  # the next turn is the root's again
        )
        below = [helper]
    if case == "tree":
        below = [names.LlmAgent(name=f"agent_{n}", description=f"Knows about {n}.") for n in range(size - 1)]
    if case == "tools":
        tools = list(several(size))
    return names.LlmAgent(
        name="root",
        instruction=script.ROOT_INSTRUCTION,
        model=model(model="m", case=case),
        tools=tools,
        sub_agents=below,
    )


class RunnerEngine:
    """One case on a runner with sessions in memory; `size` is that of history, tools or tree."""

    def __init__(self, names: Names, case: str, size: int) -> None:
        self.names, self.case, self.size = names, case, size
        self.batch = script.turns_of(case)
        self.service = names.InMemorySessionService()
        agent = tree(names, case, size)
        self.runner = names.Runner(app_name="bench", agent=agent, session_service=self.service)
        streaming = {"streaming_mode": names.StreamingMode.SSE} if case == "stream" else {}
        self.config = names.RunConfig(**streaming, **names.run_options)
        self.sessions: list[Any] = []

    async def start(self) -> None:
        for old in self.sessions:
            await self.service.delete_session(**WHO, session_id=old.id)
        runs = script.RUNS if self.case == "concurrent" else 1
        self.sessions = [await self.service.create_session(**WHO) for _ in range(runs)]
        if self.case in script.HISTORIES:
            for number in range(self.size):
                for author, content in google_contents.exchange(self.case, number):
                    event = self.names.Event(author=author, invocation_id=f"i{number}", content=content)
                    await self.service.append_event(self.sessions[0], event)

    async def turn(self) -> str:
        if self.case == "concurrent":
            return min(await asyncio.gather(*(self.run(session.id) for session in self.sessions)))
        return await self.run(self.sessions[0].id)

    async def run(self, session_id: str) -> str:
        message = types.Content(role="user", parts=[types.Part(text=script.QUESTION)])
        last = ""
        async for event in self.runner.run_async(
            user_id="u", session_id=session_id, new_message=message, run_config=self.config
        ):
            if event.content is not None and event.content.parts:
                last = event.content.parts[0].text or ""
        return last
