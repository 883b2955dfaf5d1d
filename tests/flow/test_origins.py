"""Errors keep their type, and a note says which component of which step of which agent raised them."""

from __future__ import annotations

import re
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from functools import partial
from typing import Any

import pytest
from jinja2.sandbox import SecurityError
from kit import STREAMED, Chat, agent, model

from flowloom import (
    AgentTool,
    BaseAgent,
    BasePlugin,
    BaseToolset,
    Event,
    InvocationContext,
    LlmAgent,
    LlmResponse,
    SequentialAgent,
    Template,
)
from flowloom.context import Observer
from flowloom.errors import TemplateError
from flowloom.plugins import ModelOverride
from flowloom.processors import BasePlanner
from flowloom.testing import call


class OddError(Exception):
    """An error of user code."""


def fail(*_: Any, **__: Any) -> Any:
    raise OddError("no")


async def fail_later(*_: Any, **__: Any) -> Any:
    raise OddError("no")


def tool() -> str:
    """Work."""
    return "fine"


class FailingPlugin(BasePlugin):
    def __init__(self, hook: str) -> None:
        super().__init__("failing")
        setattr(self, hook, fail_later)


class FailingSet(BaseToolset):
    async def get_tools(self, readonly_context: Any = None) -> Any:
        raise OddError("no")


class FailingPlanner(BasePlanner):
    def build_planning_instruction(self, *_: Any, **__: Any) -> Any:
        raise OddError("no")

    def process_planning_response(self, *_: Any, **__: Any) -> Any:
        raise OddError("no")


class AnswerPlanner(FailingPlanner):
    def build_planning_instruction(self, *_: Any, **__: Any) -> Any:
        return None


class FailingObserver(Observer):
    def event_recorded(self, *_: Any) -> None:
        raise OddError("no")


class FailingModelObserver(Observer):
    def model_asked(self, *_: Any) -> None:
        raise OddError("no")


async def around_model(call_next: Any, callback_context: Any, llm_request: Any) -> AsyncIterator[LlmResponse]:
    async for response in call_next(llm_request):
        yield response
    raise OddError("no")


async def around_tool(call_next: Any, **_: Any) -> Any:
    raise OddError("no")


def root(*answers: Any, **fields: Any) -> LlmAgent:
    return agent("root", *(answers or ("done",)), **fields)


def calling(**fields: Any) -> Chat:
    return Chat(root(call("tool"), "done", tools=[tool], tool_errors="raise", **fields))


def failing_tool(function: Any) -> Chat:
    function.__name__ = "broken"
    return Chat(root(call("broken"), tools=[function], tool_errors="raise"))


def broken() -> str:
    """Fail."""
    raise OddError("no")


async def broken_later() -> str:
    """Fail."""
    raise OddError("no")


OWN = ("before_agent", "after_agent", "before_model", "after_model", "before_tool", "after_tool")
OF_PLUGINS = ("on_user_message", "before_run", "on_event", "before_agent", "before_model", "after_run")
RAISES: dict[str, tuple[Callable[[], Chat], str]] = {
    **{hook: (partial(calling, **{f"{hook}_callback": fail}), "callback `fail`") for hook in OWN},
    **{
        f"{hook}, async": (partial(calling, **{f"{hook}_callback": fail_later}), "callback `fail_later`")
        for hook in OWN
    },
    **{
        f"{hook} of a plugin": (
            partial(Chat, root(), plugins=[FailingPlugin(f"{hook}_callback")]),
            "callback `fail_later`",
        )
        for hook in OF_PLUGINS
    },
    "a model": (lambda: Chat(root(OddError("no"))), "model `scripted`"),
    "a streamed model": (lambda: Chat(root(OddError("no")), config=STREAMED), "model `scripted`"),
    "a model below ModelOverride": (
        lambda: Chat(root(), plugins=[ModelOverride(model(OddError("no"), model="other"))]),
        "model `other`",
    ),
    "on_model_error": (lambda: Chat(root(ValueError("x"), on_model_error_callback=fail)), "callback `fail`"),
    "a tool": (lambda: failing_tool(broken), "tool `broken`"),
    "an async tool": (lambda: failing_tool(broken_later), "tool `broken`"),
    "an instruction provider": (lambda: Chat(root(instruction=fail)), "processor `instructions`"),
    "a toolset": (lambda: Chat(root(tools=[FailingSet()])), "processor `tools`"),
    "a planner": (lambda: Chat(root(planner=FailingPlanner())), "processor `planning`"),
    "a planner, of an answer": (lambda: Chat(root(planner=AnswerPlanner())), "processor `planning_response`"),
    "an observer": (lambda: Chat(root(), observers=[FailingObserver()]), "observer `FailingObserver`"),
    "an observer of models": (lambda: Chat(root(), observers=[FailingModelObserver()]), "model `scripted`"),
    "around_model": (lambda: Chat(root(around_model=around_model)), "model `scripted`"),
    "around_tool": (lambda: calling(around_tool=around_tool), "tool `tool` (around it: `around_tool`)"),
}


@pytest.mark.parametrize(("chat", "component"), RAISES.values(), ids=RAISES)
async def test_an_error_of_user_code_says_where_it_came_from(chat: Callable[[], Chat], component: str) -> None:
    """Its type stays; one note names the component, the step and the agent, and stands there once."""
    with pytest.raises(OddError) as caught:
        await chat().say("go")
    notes = caught.value.__notes__
    assert sum(f"in {component}" in note and bool(re.search(r"step \d of agent `root`", note)) for note in notes) == 1
    assert len(notes) == len(set(notes))


class FailingAgent(BaseAgent):
    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        raise OddError("no")
        yield


async def test_an_error_of_a_custom_agent_names_it() -> None:
    """Alone, and within a workflow, of which nothing is noted."""
    for top in (FailingAgent(name="custom"), SequentialAgent(name="both", sub_agents=[FailingAgent(name="custom")])):
        with pytest.raises(OddError) as caught:
            await Chat(top).say("go")
        assert caught.value.__notes__ == ["in `_run_async_impl`, step 0 of agent `custom`"]


async def test_an_error_of_an_agent_that_a_custom_agent_runs_names_that_one_alone() -> None:
    class Around(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            async for event in self.sub_agents[0].run_async(ctx):
                yield event

    with pytest.raises(OddError) as caught:
        await Chat(Around(name="around", sub_agents=[root(OddError("no"))])).say("go")
    assert caught.value.__notes__ == ["in model `scripted`, step 0 of agent `root`"]


@pytest.mark.parametrize(
    ("written", "kind"),
    [
        ("{{ ''.__class__.__mro__ }}", SecurityError),
        ("{{ 1 / 0 }}", ZeroDivisionError),
        ("{{ 'a' + 1 }}", TypeError),
        ("{{ state.items.x.y }}", TemplateError),
    ],
)
async def test_an_error_of_a_template_while_it_renders_says_where(written: str, kind: type[Exception]) -> None:
    """Its type stays; notes name the instruction, the agent, and the step."""
    with pytest.raises(kind) as caught:
        await Chat(root(instruction=Template(written))).say("go")
    notes = " ".join(caught.value.__notes__)
    assert "in processor `instructions`, step 0 of agent `root`" in notes
    assert "instruction of agent `root`" in notes


async def test_an_error_of_an_inner_agent_names_both_places_once() -> None:
    """The agent that raised, and the call of the one above it."""
    inner = agent("inner", OddError("no"))
    with pytest.raises(OddError) as caught:
        await Chat(root(call("inner", request="x"), tools=[AgentTool(inner)], tool_errors="raise")).say("go")
    assert caught.value.__notes__ == [
        "in model `scripted`, step 0 of agent `inner`",
        "in tool `inner`, step 0 of agent `root`",
    ]
