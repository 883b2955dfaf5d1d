"""Agents with sessions for the curves of the processors, on flowloom and on google-adk.

A plain agent has a template, tools, other agents and files in its history. One in full has a planner, a code executor
and an output schema as well; the processors that are about these read the whole history or change the request much, so
that only they are measured on it, and the others are not disturbed by them.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from importlib import import_module
from inspect import isawaitable
from typing import Any

from google.genai import types
from pydantic import BaseModel

from benchmarks.passes import Place, measure
from benchmarks.peers import google_contents
from benchmarks.peers.adk_names import WHO, Names, scripted_model
from benchmarks.toolbox import several

IN_FULL = ("planning", "nl_planning", "code_execution", "output_schema")
"""The processors that are measured on an agent in full as well."""


@dataclass(frozen=True)
class Sizes:
    """What grows, one at a time."""

    history: int = 10
    """Events."""
    tools: int = 3
    agents: int = 3
    """Agents in the tree, the root counted."""
    placeholders: int = 1
    """Placeholders in the instruction."""
    template: int = 200
    """Characters of the instruction."""
    result: int = 100
    """Bytes of one tool result in the history."""
    inline: int = 100
    """Bytes of one file in the history."""


class Answer(BaseModel):
    """The output schema."""

    text: str
    score: int


def instruction(placeholders: int, characters: int) -> str:
    """A template of a length with so many placeholders, spread evenly."""
    written = [f"{{key_{number}}}" for number in range(placeholders)]
    filler = max(1, (characters - sum(map(len, written))) // placeholders)
    sentence = "Answer in one sentence, and stay polite. "
    text = (sentence * (filler // len(sentence) + 1))[:filler]
    return "".join(text + each for each in written)


def agent(names: Names, model: Any, sizes: Sizes, features: dict[str, Any]) -> Any:
    """The root of the tree."""
    below = [names.LlmAgent(name=f"agent_{n}", description=f"Knows about {n}.") for n in range(sizes.agents - 1)]
    return names.LlmAgent(
        name="root",
        description="Answers questions.",
        instruction=instruction(sizes.placeholders, sizes.template),
        model=model,
        tools=list(several(sizes.tools)),
        sub_agents=below,
        generate_content_config=types.GenerateContentConfig(temperature=0.5, max_output_tokens=1000),
        **features,
    )


def contents(sizes: Sizes) -> list[tuple[str, types.Content]]:
    """The history with its authors: a file and a tool result first, then talk, last the user's."""
    blob = types.Blob(data=b"x" * sizes.inline, mime_type="image/png", display_name="picture.png")
    file = types.Content(role="user", parts=[types.Part(inline_data=blob), types.Part(text="Look.")])
    found = [("user", file), *google_contents.called(0, {"page": "x" * sizes.result})]
    while len(found) < sizes.history - 1:
        found += google_contents.exchange("history", len(found))
    return [*found[: sizes.history - 1], ("user", google_contents.user())]


async def session(names: Names, sizes: Sizes) -> tuple[Any, Any]:
    """A service, and a session in it with its history."""
    service = names.InMemorySessionService()
    state = {f"key_{number}": f"value {number}" for number in range(sizes.placeholders)}
    made = await service.create_session(**WHO, state=state)
    for number, (author, content) in enumerate(contents(sizes)):
        event = names.Event(author=author, invocation_id=f"i{number // 2}", content=content)
        await service.append_event(made, event)
    return service, made


class _Place:
    """An agent with a session; the session is made by the first pass."""

    def __init__(self, names: Names, root: Any, sizes: Sizes) -> None:
        self.names, self.agent, self.sizes = names, root, sizes
        self.service: Any = None
        self.session: Any = None
        self.grown = 0

    async def begin(self) -> None:
        if self.service is None:
            self.service, self.session = await session(self.names, self.sizes)

    async def grow(self) -> None:
        self.grown += 1
        author, content = google_contents.exchange("history", 0)[self.grown % 2]
        event = self.names.Event(author=author, invocation_id=f"n{self.grown}", content=content)
        await self.service.append_event(self.session, event)


class FlowloomPlace(_Place):
    """flowloom's default request processors."""

    def __init__(self, names: Names, root: Any, sizes: Sizes) -> None:
        super().__init__(names, root, sizes)
        self.context = import_module("flowloom").InvocationContext
        self.request = import_module("flowloom").LlmRequest
        name_of = import_module("flowloom.flow.pipeline").name_of
        processors = import_module("flowloom.processors").REQUEST_PROCESSORS
        self.steps = [(name_of(processor), processor) for processor in processors]

    async def one_pass(self) -> dict[str, int]:
        await self.begin()
        ctx = self.context(
            agent=self.agent,
            session=self.session,
            session_service=self.service,
            user_content=self.session.events[-1].content,
        )
        request = self.request.empty(None)
        spent: dict[str, int] = {}
        for name, processor in self.steps:
            started = time.perf_counter_ns()
            produced = processor(ctx, request)
            if isawaitable(produced):
                await produced
            spent[name] = time.perf_counter_ns() - started
        return spent


class AdkPlace(_Place):
    """google-adk's default request processors, those of its tools included."""

    def __init__(self, names: Names, root: Any, sizes: Sizes) -> None:
        super().__init__(names, root, sizes)
        self.context = import_module("google.adk.agents.invocation_context").InvocationContext
        self.request = import_module("google.adk.models").LlmRequest
        self.steps = [(each.name or type(each).__name__, each) for each in root._llm_flow._iter_request_processors()]

    async def one_pass(self) -> dict[str, int]:
        await self.begin()
        ctx = self.context(
            invocation_id=f"p{self.grown}",
            agent=self.agent,
            session=self.session,
            session_service=self.service,
            user_content=self.session.events[-1].content,
            run_config=self.names.RunConfig(),
        )
        request = self.request()
        spent: dict[str, int] = {}
        for name, processor in self.steps:
            started = time.perf_counter_ns()
            async for _ in processor.run_async(ctx, request):
                pass
            spent[name] = time.perf_counter_ns() - started
        return spent


async def measure_all(module: str, axis: str, size: int, seconds: float) -> dict[str, Any]:
    """Every processor on a plain agent, and those of `IN_FULL` on an agent that has what they are about."""
    found = await measure(place(module, axis, size, plain=True), seconds / 2)
    full = await measure(place(module, axis, size), seconds / 2)
    found["rows"] |= {f"{name}, in use": kinds for name, kinds in full["rows"].items() if name in IN_FULL}
    return found


def place(module: str, axis: str, size: int, *, plain: bool = False) -> Place:
    """An agent with a session, everything small but `axis`."""
    sizes = replace(Sizes(), **{axis: size})
    names = import_module(f"benchmarks.peers.{module}").NAMES
    make, features = _flowloom if module == "flowloom" else _adk
    model = scripted_model(names)
    if module == "flowloom":
        model = type("GeminiLike", (model,), {"backend": property(lambda _: "gemini_api")})
    root = agent(names, model(model="m", case="text"), sizes, {} if plain else features())
    return make(names, root, sizes)


def _flowloom_features() -> dict[str, Any]:
    planners = import_module("flowloom.processors.planners")
    executors = import_module("flowloom.processors")
    return {
        "planner": planners.PlanReActPlanner(),
        "code_executor": executors.LocalCodeExecutor(),
        "output_schema": Answer,
    }


def _adk_features() -> dict[str, Any]:
    planners = import_module("google.adk.planners")
    executors = import_module("google.adk.code_executors")
    return {
        "planner": planners.PlanReActPlanner(),
        "code_executor": executors.UnsafeLocalCodeExecutor(),
        "output_schema": Answer,
    }


_Made = tuple[Callable[[Names, Any, Sizes], Place], Callable[[], dict[str, Any]]]
_flowloom: _Made = (FlowloomPlace, _flowloom_features)
_adk: _Made = (AdkPlace, _adk_features)
