"""What an LLM agent is made of, and what it refuses to be made of."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any, Literal

import pytest
from google.genai import types
from kit import Chat, agent, call, context, declared_names, model, requests_of, said, story

from flowloom import (
    AgentTool,
    BaseTool,
    ConfigurationError,
    Event,
    FunctionTool,
    InvocationContext,
    LlmAgent,
    LLMRegistry,
)
from flowloom.errors import DuplicateToolError, ModelNotConfiguredError, ModelNotFoundError, ToolSignatureError


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


async def add_later(a: int, b: int) -> int:
    """Add."""
    return a + b


async def test_functions_tools_and_agents_become_tools() -> None:
    root = agent("root", "done", tools=[add, FunctionTool(add_later, name="later"), LlmAgent(name="expert")])
    await Chat(root).say("go")
    assert declared_names(requests_of(root)[0]) == ["add", "later", "expert"]
    assert isinstance(requests_of(root)[0].tools_dict["expert"], AgentTool)


@pytest.mark.parametrize("bad", [3, "add", None])
def test_what_is_no_tool_is_refused_when_the_agent_is_built(bad: Any) -> None:
    with pytest.raises(ConfigurationError, match="`root`"):
        LlmAgent(name="root", tools=[bad])


def test_a_signature_that_cannot_be_described_is_refused_when_the_agent_is_built() -> None:
    def bad(a: Any, /) -> None: ...

    with pytest.raises(ToolSignatureError, match=r"`bad`.*`a.*positional"):
        LlmAgent(name="root", tools=[bad])


def test_decision_10_two_tools_of_one_name_are_refused_when_the_agent_is_built() -> None:
    with pytest.raises(DuplicateToolError, match=r"`root`.*`add`") as caught:
        LlmAgent(name="root", tools=[add, BaseTool(name="add", description="")])
    assert "FunctionTool" in str(caught.value)
    assert "BaseTool" in str(caught.value)


def test_a_model_name_is_resolved_when_the_agent_is_built() -> None:
    with pytest.raises(ModelNotFoundError, match=r"`gemnii-2\.5`"):
        LlmAgent(name="root", model="gemnii-2.5")


@pytest.mark.parametrize(
    "fields",
    [
        {"system_instruction": "x"},
        {"tools": [types.Tool()]},
        {"response_schema": {"type": "OBJECT"}},
        {"response_json_schema": {"type": "object"}},
    ],
    ids=lambda fields: next(iter(fields)),
)
def test_a_config_field_that_the_agent_owns_is_refused_with_the_remedy(fields: dict[str, Any]) -> None:
    with pytest.raises(ConfigurationError, match=f"`{next(iter(fields))}`.*Use the agent's"):
        LlmAgent(name="root", generate_content_config=types.GenerateContentConfig(**fields))


def test_an_output_schema_that_cannot_be_described_is_refused_when_the_agent_is_built() -> None:
    class Opaque:
        pass

    with pytest.raises(ConfigurationError, match="schema"):
        LlmAgent(name="root", output_schema=Opaque)


def test_the_model_is_inherited_from_above() -> None:
    child = LlmAgent(name="child")
    mine = model()
    LlmAgent(name="root", model=mine, sub_agents=[child])
    assert child.canonical_model is mine


def test_without_any_model_the_default_model_counts() -> None:
    default = model()
    LlmAgent.set_default_model(default)
    try:
        assert LlmAgent(name="a").canonical_model is default
    finally:
        LlmAgent.set_default_model(None)
    with pytest.raises(ModelNotConfiguredError, match="`a`"):
        _ = LlmAgent(name="a").canonical_model


def test_a_default_model_does_not_hide_that_of_an_agent_above() -> None:
    LlmAgent.set_default_model(model(model="default"))
    try:
        child = LlmAgent(name="child")
        LlmAgent(name="root", model=model(model="roots"), sub_agents=[child])
        assert child.canonical_model.model == "roots"
    finally:
        LlmAgent.set_default_model(None)


def test_a_registered_name_makes_its_model() -> None:
    LLMRegistry.register(r"house-.*", lambda name: model(model=name))
    try:
        assert LlmAgent(name="a", model="house-1").canonical_model.model == "house-1"
    finally:
        LLMRegistry.unregister(r"house-.*")


async def test_tools_that_are_changed_between_runs_count_from_the_next_one() -> None:
    root = agent("root", "one", "two")
    chat = Chat(root)
    await chat.say("go")
    root.tools.append(add)
    await chat.say("go")
    assert [declared_names(request) for request in requests_of(root)] == [[], ["add"]]


def test_fields_may_be_set_and_are_used_from_then_on() -> None:
    root = agent("root", before_model_callback=None)
    assert root.flow.callbacks.before_model == ()
    root.before_model_callback = lambda **_: None
    assert len(root.flow.callbacks.before_model) == 1


async def test_include_contents_none_shows_the_current_turn_only() -> None:
    root = agent("root", "one", "two", include_contents="none")
    chat = Chat(root)
    await chat.say("first")
    await chat.say("second")
    assert [len(request.contents) for request in requests_of(root)] == [1, 1]


def test_agents_are_compared_by_identity() -> None:
    one, two = LlmAgent(name="a"), LlmAgent(name="a")
    assert one != two
    assert len({one, two}) == 2


async def test_the_context_of_an_agent_below_is_its_own() -> None:
    child = LlmAgent(name="child")
    root = LlmAgent(name="root", sub_agents=[child])
    below = context(root).below(child)
    assert (below.path, below.parent, below.root) == ("root.child", root, root)


class Greeter(LlmAgent):
    """Says hello before its model does."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        yield Event(content=said("hello"))
        async for event in super()._run_async_impl(ctx):
            yield event


async def test_a_class_may_do_something_around_the_flow_of_its_agents() -> None:
    chat = Chat(Greeter(name="root", model=model("how are you?"), output_key="asked"))
    assert story(await chat.say("go")) == ["root: hello", "root: how are you?"]
    assert (await chat.state())["asked"] == "how are you?"


@pytest.mark.parametrize(("mode", "answer"), [("task", call("finish_task", result="ok")), ("single_turn", "ok")])
async def test_an_agent_of_such_a_class_answers_the_call_that_delegates_to_it(
    mode: Literal["task", "single_turn"], answer: Any
) -> None:
    below = Greeter(name="below", model=model(answer), mode=mode)
    events = await Chat(agent("root", call("below", request="go"), "done", sub_agents=[below])).say("go")
    told = [each.response for event in events for each in event.get_function_responses() if each.name == "below"]
    assert (told, story(events)[-1]) == ([{"result": "ok"}], "root: done")
