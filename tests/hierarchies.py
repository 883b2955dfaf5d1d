"""Agents of every shape, to be explained, run and compared: twenty trees, each with what is said to it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from google.genai import types
from kit import event, named_call, result, text
from pydantic import BaseModel

from flowloom import (
    BaseAgent,
    BaseLlm,
    BaseToolset,
    BuiltInPlanner,
    Event,
    FunctionTool,
    LlmAgent,
    LocalCodeExecutor,
    LoopAgent,
    ParallelAgent,
    PlanReActPlanner,
    SequentialAgent,
    Template,
    exit_loop,
)


class Person(BaseModel):
    """Somebody."""

    name: str
    age: int | None = None


def add(a: int, b: int = 1) -> int:
    """Add two numbers."""
    return a + b


async def search(query: str, limit: int = 10) -> list[str]:
    """Search the archive.

    Args:
        query: what to look for
        limit: the most that is wanted
    """
    return [query] * limit


def send(to: Person, subject: str) -> dict[str, str]:
    """Send a letter."""
    return {"sent": subject}


class Archive(BaseToolset):
    """Two tools that are listed when they are needed."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return [FunctionTool(search), FunctionTool(add)]


def brief(ctx: Any, request: Any) -> None:
    """One more sentence."""
    request.append_instructions(["Use at most 20 words."])


async def slow(ctx: Any, request: Any) -> None:
    """A label, from an async processor."""
    request.config.labels = {**(request.config.labels or {}), "slow": "yes"}


def shorten(ctx: Any, request: Any) -> None:
    """Only the latest three contents."""
    del request.contents[:-3]


def note_state(*, callback_context: Any) -> None:
    callback_context.state["noted"] = "in time"


def warn(*, callback_context: Any, llm_request: Any) -> None:
    llm_request.append_instructions(["Be careful."])


def colder(*, call_next: Any, callback_context: Any, llm_request: Any) -> Any:
    llm_request.config.temperature = 0.1
    return call_next(llm_request)


def provided(ctx: Any) -> str:
    return f"Speak as {ctx.agent_name} does."


@dataclass(frozen=True)
class Hierarchy:
    """A tree of agents whose models are all `build`'s argument, and the conversation it is in."""

    build: Callable[[BaseLlm], BaseAgent]
    message: Any = "How are things?"
    history: Callable[[], list[Event]] = list
    state: dict[str, Any] = field(default_factory=dict)


def talk(name: str = "root") -> list[Event]:
    """Some turns with calls, a file and another agent in them."""
    photo = types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png", display_name="photo.png"))
    return [
        event("user", "What is 2 and 3?", photo),
        event(name, named_call("adk-1", "add", a=2, b=3)),
        event(name, result("adk-1", "add", {"result": 5})),
        event(name, text("Let me see.", thought=True), text("It is 5.")),
        event("user", "Ask the other one."),
        event("other", "I say 5, too."),
    ]


def one(model: BaseLlm) -> LlmAgent:
    return LlmAgent(name="root", model=model, instruction="Answer in one sentence.")


def described(model: BaseLlm) -> LlmAgent:
    config = types.GenerateContentConfig(temperature=0.3, stop_sequences=["END"], labels={"team": "a"})
    return LlmAgent(name="root", model=model, description="Knows things.", generate_content_config=config)


def with_tools(model: BaseLlm) -> LlmAgent:
    return LlmAgent(name="root", model=model, instruction="Use tools.", tools=[add, search, send])


def with_toolset(model: BaseLlm) -> LlmAgent:
    return LlmAgent(name="root", model=model, tools=[send, Archive(tool_name_prefix="archive")])


def coordinator(model: BaseLlm) -> LlmAgent:
    below = [
        LlmAgent(name="billing", model=model, description="Bills and payments.", tools=[add]),
        LlmAgent(name="support", model=model, description="Trouble with the product."),
    ]
    return LlmAgent(name="root", model=model, instruction="Find the right one.", sub_agents=below)


def three_deep(model: BaseLlm) -> LlmAgent:
    leaf = LlmAgent(name="leaf", description="The lowest.", instruction="Dig.")
    middle = LlmAgent(name="middle", description="In between.", sub_agents=[leaf], disallow_transfer_to_peers=True)
    beside = LlmAgent(name="beside", description="Next to it.")
    return LlmAgent(name="root", model=model, global_instruction="Be polite.", sub_agents=[middle, beside])


def templated(model: BaseLlm) -> LlmAgent:
    greeting = "Greet {user:name} in {city?}."
    return LlmAgent(name="root", model=model, instruction=greeting, global_instruction="For {app:firm}.")


def jinja(model: BaseLlm) -> LlmAgent:
    return LlmAgent(
        name="root", model=model, instruction=Template("{% for c in state.cities %}- {{ c }}\n{% endfor %}")
    )


def from_provider(model: BaseLlm) -> LlmAgent:
    return LlmAgent(name="root", model=model, instruction=provided)


def static(model: BaseLlm) -> LlmAgent:
    return LlmAgent(
        name="root", model=model, static_instruction="You are a guide.\n\nNever guess.", instruction="Now in {city}."
    )


def structured(model: BaseLlm) -> LlmAgent:
    return LlmAgent(name="root", model=model, output_schema=Person)


def structured_with_tools(model: BaseLlm) -> LlmAgent:
    return LlmAgent(name="root", model=model, output_schema=Person, tools=[search])


def planner(model: BaseLlm) -> LlmAgent:
    return LlmAgent(name="root", model=model, planner=PlanReActPlanner(), tools=[add])


def thinker(model: BaseLlm) -> LlmAgent:
    thinking = types.ThinkingConfig(include_thoughts=True, thinking_budget=512)
    return LlmAgent(name="root", model=model, planner=BuiltInPlanner(thinking_config=thinking))


def coder(model: BaseLlm) -> LlmAgent:
    return LlmAgent(name="root", model=model, code_executor=LocalCodeExecutor(), instruction="Compute.")


def pipeline(model: BaseLlm) -> SequentialAgent:
    first = LlmAgent(name="writer", model=model, instruction="Write.", output_key="draft")
    second = LlmAgent(name="editor", model=model, instruction="Edit {draft}.")
    return SequentialAgent(name="root", sub_agents=[first, second])


def fan_out(model: BaseLlm) -> SequentialAgent:
    sides = [LlmAgent(name=name, model=model, instruction=f"Look {name}.", tools=[add]) for name in ("left", "right")]
    judge = LlmAgent(name="judge", model=model, instruction="Compare.")
    return SequentialAgent(name="root", sub_agents=[ParallelAgent(name="both", sub_agents=sides), judge])


def loop(model: BaseLlm) -> LoopAgent:
    inner = LlmAgent(name="refiner", model=model, tools=[exit_loop], include_contents="none", instruction="Refine.")
    return LoopAgent(name="root", sub_agents=[inner], max_iterations=2)


def delegating(model: BaseLlm) -> LlmAgent:
    task = LlmAgent(name="booker", model=model, mode="task", description="Books.", output_schema=Person)
    once = LlmAgent(name="checker", model=model, mode="single_turn", description="Checks.")
    aside = LlmAgent(name="translator", model=model, description="Translates.")
    return LlmAgent(name="root", model=model, sub_agents=[task, once], tools=[aside, add])


def edited(model: BaseLlm) -> LlmAgent:
    flow = one(model).flow.without("identity").with_processor(brief, after="instructions")
    flow = flow.with_processor(shorten, after="contents").with_processor(slow)
    return LlmAgent(
        name="root",
        model=model,
        instruction="It was {noted}.",
        flow=flow,
        before_agent_callback=note_state,
        before_model_callback=warn,
        around_model=colder,
    )


STATE = {"city": "Rome", "user:name": "Ann", "app:firm": "Flows", "cities": ["Rome", "Oslo"]}

HIERARCHIES: dict[str, Hierarchy] = {
    "one": Hierarchy(one),
    "described": Hierarchy(described, history=talk),
    "with_tools": Hierarchy(with_tools, history=talk),
    "with_toolset": Hierarchy(with_toolset),
    "coordinator": Hierarchy(coordinator),
    "coordinator_handed_over": Hierarchy(coordinator, history=lambda: talk("billing")[:4]),
    "three_deep": Hierarchy(three_deep),
    "three_deep_at_the_leaf": Hierarchy(three_deep, history=lambda: talk("leaf")[:4]),
    "templated": Hierarchy(templated, state=STATE),
    "jinja": Hierarchy(jinja, state=STATE),
    "from_provider": Hierarchy(from_provider),
    "static": Hierarchy(static, history=talk, state=STATE),
    "structured": Hierarchy(structured),
    "structured_with_tools": Hierarchy(structured_with_tools),
    "planner": Hierarchy(planner, history=talk),
    "thinker": Hierarchy(thinker),
    "coder": Hierarchy(coder),
    "pipeline": Hierarchy(pipeline),
    "fan_out": Hierarchy(fan_out, history=talk),
    "loop": Hierarchy(loop, history=lambda: talk("refiner")),
    "delegating": Hierarchy(delegating),
    "edited": Hierarchy(edited, history=talk),
}
