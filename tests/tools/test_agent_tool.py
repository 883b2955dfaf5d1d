"""An agent as a tool (decision 32, cases area 24)."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from google.genai import types
from kit import WHERE, Chat, agent, call, context, declarations, model, named_call, requests_of, shown, story
from pydantic import BaseModel

from flowloom import (
    AgentTool,
    BasePlugin,
    Context,
    InMemoryRunner,
    InvocationContext,
    LimitExceededError,
    Limits,
    LlmAgent,
    LlmResponse,
    LoopAgent,
    RunConfig,
    SequentialAgent,
    ToolContext,
    exit_loop,
)
from flowloom.context import DirectEffects, EffectKey
from flowloom.context.threads import Threads


class City(BaseModel):
    name: str
    country: str = "no"


class Weather(BaseModel):
    temp: int


def expert(*answers: Any, **fields: Any) -> LlmAgent:
    return agent("expert", *answers, description=" Knows. \n", **fields)


def asking(child: Any, *answers: Any, **fields: Any) -> LlmAgent:
    tool = child if isinstance(child, AgentTool) else AgentTool(child)
    given = answers or (call("expert", request="Why?"), "done")
    return agent("root", *given, tools=[tool], **fields)


def response(events: Any) -> Any:
    return next(r.response for e in events for r in e.get_function_responses())


def test_without_a_schema_it_takes_one_request() -> None:
    declared = AgentTool(expert()).declaration
    assert declared is not None
    assert (declared.name, declared.description) == ("expert", "Knows.")
    schema = declared.parameters_json_schema
    assert schema["properties"].keys() == {"request"}
    assert schema["required"] == ["request"]


def test_with_an_input_schema_it_takes_that() -> None:
    declared = AgentTool(expert(input_schema=City)).declaration
    assert declared is not None
    assert declared.parameters_json_schema["properties"].keys() == {"name", "country"}


def test_a_composite_agent_takes_the_input_of_its_first_child() -> None:
    row = SequentialAgent(name="row", sub_agents=[expert(input_schema=City), LlmAgent(name="other")])
    declared = AgentTool(row).declaration
    assert declared is not None
    assert "country" in declared.parameters_json_schema["properties"]


async def test_the_answer_is_the_result() -> None:
    child = expert("Because.")
    events = await Chat(asking(child)).say("go")
    assert story(events) == ["root: expert(request='Why?')", "root: expert -> {'result': 'Because.'}", "root: done"]


async def test_decision_32_the_child_has_a_history_of_its_own() -> None:
    child = expert("one", "two")
    root = asking(child, call("expert", request="A?"), call("expert", request="B?"), "done")
    chat = Chat(root)
    await chat.say("go")
    assert [shown(request) for request in requests_of(child)] == [["user: A?"], ["user: B?"]]
    assert "A?" not in str([e.text for e in await chat.stored()])


async def test_decision_32_the_child_shares_state_both_ways() -> None:
    def note(tool_context: ToolContext) -> str:
        """Note."""
        seen = tool_context.state["topic"]
        tool_context.state["found"] = f"about {seen}"
        tool_context.state["user:seen"] = True
        return "noted"

    child = expert(call("note"), "ok", tools=[note], instruction="On {topic}.", output_key="answer")
    chat = Chat(asking(child))
    events = await chat.say("go", state_delta={"topic": "rain"})
    state = await chat.state()
    assert {k: state.get(k) for k in ("found", "user:seen", "answer")} == {
        "found": "about rain",
        "user:seen": True,
        "answer": "ok",
    }
    results = next(e for e in events if e.get_function_responses())
    assert results.actions.state_delta.keys() >= {"found", "answer"}


async def test_decision_32_the_child_shares_artifacts() -> None:
    async def save(tool_context: ToolContext) -> int:
        """Save."""
        before = await tool_context.load_artifact("in.txt")
        assert before is not None
        return await tool_context.save_artifact("out.txt", types.Part(text=(before.text or "").upper()))

    async def put(callback_context: Any) -> None:
        await callback_context.save_artifact("in.txt", types.Part(text="abc"))

    child = expert(call("save"), "ok", tools=[save])
    chat = Chat(asking(child, before_agent_callback=put))
    events = await chat.say("go")
    results = next(e for e in events if e.get_function_responses())
    assert results.actions.artifact_delta == {"out.txt": 0}
    assert chat.runner.artifact_service is not None
    found = await chat.runner.artifact_service.load_artifact(
        app_name="app", user_id="ann", session_id="s1", filename="out.txt"
    )
    assert found is not None
    assert found.text == "ABC"


def counted(answer: Any, tokens: int) -> LlmResponse:
    usage = types.GenerateContentResponseUsageMetadata(prompt_token_count=tokens, total_token_count=tokens)
    parts = [answer] if isinstance(answer, types.Part) else [types.Part(text=answer)]
    return LlmResponse(content=types.Content(role="model", parts=parts), usage_metadata=usage)


async def test_decision_32_its_usage_is_the_parents() -> None:
    child = expert(counted("x", 10))
    root = asking(child, counted(call("expert", request="?"), 1), counted("done", 2))
    ctx = context(root, user_content=types.Content(role="user", parts=[types.Part(text="go")]))
    await ctx.start()
    async for _ in root.run_async(ctx):
        pass
    assert ctx.usage.total_tokens == 13


async def test_decision_32_its_events_are_the_parents_to_see() -> None:
    child = expert("Because.")
    chat = Chat(asking(child, named_call("c1", "expert", request="Why?"), "done"))
    events = await chat.say("go", run_config=RunConfig(forward_agent_tool_events=True))
    inner = [e for e in events if e.author == "expert"]
    assert [e.text for e in inner] == ["Because."]
    assert all((e.custom_metadata or {}).get("agent_tool_call_id") == "c1" for e in inner)
    assert [e.author for e in await chat.stored()] == ["user", "root", "root", "root"]


async def test_its_events_are_its_own_also_beside_an_agent_whose_events_are_seen() -> None:
    """The events of a sub-agent that is called like a function are the conversation's."""
    clerk = agent("clerk", "Here.", mode="single_turn")
    root = asking(expert("Because."), [call("expert", request="Why?"), call("clerk", request="x")], "done")
    root.sub_agents = [clerk]
    assert [e.author for e in await Chat(root).say("go")] == ["root", "clerk", "root", "root"]


async def test_limits_of_the_run_count_its_model_calls() -> None:
    root = asking(expert("x"), call("expert", request="?"), "never")
    config = RunConfig(limits=Limits(model_calls=2))
    with pytest.raises(LimitExceededError):
        await Chat(root, config=config).say("go")


async def test_arguments_are_checked_against_the_input_schema() -> None:
    child = expert("fine", input_schema=City)
    root = asking(child, call("expert", country="x"), call("expert", name="Oslo"), "done")
    events = await Chat(root).say("go")
    assert "name" in str(response(events))
    assert shown(requests_of(child)[0]) == ['user: {"name": "Oslo", "country": "no"}'] or "Oslo" in str(
        requests_of(child)[0].contents
    )
    assert len(requests_of(child)) == 1


async def test_the_answer_is_data_when_there_is_an_output_schema() -> None:
    assert response(await Chat(asking(expert('{"temp": 7}', output_schema=Weather))).say("go")) == {"temp": 7}


@pytest.mark.parametrize("answer", ["warm", '{"temp": "warm"}'])
async def test_an_answer_that_does_not_fit_is_an_error_for_the_model(answer: str) -> None:
    told = response(await Chat(asking(expert(answer, output_schema=Weather))).say("go"))
    assert set(told) == {"error"}


async def test_an_agent_that_says_nothing_gives_an_empty_result() -> None:
    def silent(callback_context: Any) -> Any:
        return types.Content(role="model", parts=[])

    told = response(await Chat(asking(expert(before_agent_callback=silent))).say("go"))
    assert told in ({}, {"result": ""})


async def test_thoughts_are_no_part_of_the_answer() -> None:
    child = expert([types.Part(text="hm", thought=True), types.Part(text="Because.")])
    assert response(await Chat(asking(child)).say("go")) == {"result": "Because."}


async def test_skip_summarization_shows_the_answer_as_it_is() -> None:
    root = asking(AgentTool(expert("Because."), skip_summarization=True), call("expert", request="Why?"))
    events = await Chat(root).say("go")
    assert len(requests_of(root)) == 1
    assert events[-1].is_final_response()
    assert response(events) == {"result": "Because."}
    assert events[-1].text == "Because."


def look(tool_context: ToolContext) -> dict[str, int]:
    """Look."""
    tool_context.actions.skip_summarization = True
    return {"answer": 42}


async def test_an_agent_that_shows_the_result_of_a_tool_as_it_is_has_answered_with_it() -> None:
    """Whatever it had said before; several results are a list."""
    for calls, answer in (
        ([call("look")], {"answer": 42}),
        ([types.Part(text="I look."), call("look")], {"answer": 42}),
        ([call("look"), call("look")], {"result": [{"answer": 42}, {"answer": 42}]}),
    ):
        assert response(await Chat(asking(expert(calls, tools=[look]))).say("go")) == answer


async def test_leaving_a_loop_is_no_answer() -> None:
    """What was said last is."""
    checker = agent("checker", call("exit_loop"), tools=[exit_loop])
    loop = LoopAgent(name="expert", sub_agents=[agent("writer", "The draft."), checker])
    assert response(await Chat(asking(loop)).say("go")) == {"result": "The draft."}


async def test_what_is_shown_as_it_is_is_what_callbacks_make_of_it() -> None:
    """A callback that replaces the answer has taken out what nobody is to see."""
    root = asking(AgentTool(expert("The code is 4711."), skip_summarization=True), call("expert", request="Why?"))
    root.after_tool_callback = lambda tool, args, tool_context, tool_response: {"answer": "verhüllt"}
    events = await Chat(root).say("go")
    assert response(events) == {"answer": "verhüllt"}
    assert events[-1].text == '{"answer": "verhüllt"}'


async def test_an_agent_that_fails_is_an_error_for_the_model() -> None:
    child = expert(RuntimeError("model is down"))
    events = await Chat(asking(child)).say("go")
    assert "model is down" in str(response(events))
    assert events[-1].text == "done"


class Watcher(BasePlugin):
    def __init__(self) -> None:
        super().__init__("watcher")
        self.agents: list[str] = []

    async def before_agent_callback(self, *, agent: Any, callback_context: Context) -> None:
        self.agents.append(agent.name)


@pytest.mark.parametrize(("included", "seen"), [(True, ["root", "expert"]), (False, ["root"])])
async def test_the_parents_plugins_see_it_if_they_are_included(included: bool, seen: list[str]) -> None:
    watcher = Watcher()
    await Chat(asking(AgentTool(expert("x"), include_plugins=included)), plugins=[watcher]).say("go")
    assert watcher.agents == seen


async def test_the_same_agent_may_run_twice_at_once() -> None:
    child = LlmAgent(name="expert", model=model("one", "two"), description="Knows.")
    root = asking(child, [call("expert", request="A?"), call("expert", request="B?")], "done")
    events = await Chat(root).say("go")
    answers = [r.response for e in events for r in e.get_function_responses()]
    assert sorted(str(a) for a in answers) == ["{'result': 'one'}", "{'result': 'two'}"]


async def test_an_agent_among_the_tools_is_made_a_tool() -> None:
    root = agent("root", call("expert", request="?"), "done", tools=[expert("x")])
    await Chat(root).say("go")
    assert declarations(requests_of(root)[0])[0].name == "expert"


async def test_effect_keys_of_the_child_stand_below_its_call() -> None:
    """Two calls of one agent never share the key of an effect."""
    keys: list[str] = []

    class Recording(DirectEffects):
        def call_model(self, ctx: InvocationContext, *args: Any) -> Any:
            keys.append(str(ctx.effect_key("model")))
            return super().call_model(ctx, *args)

    root = asking(expert("x", "y"), [call("expert", request="A?"), call("expert", request="B?")], "done")
    await Chat(root, effects=Recording()).say("go")
    assert len(set(keys)) == len(keys) == 4
    assert keys[0] == str(EffectKey("root", 0, "model", 0))


async def test_an_agent_that_runs_as_a_tool_waits_for_no_blocking_call_beside_it(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nor gives it up: the call beside it ends later, with its result."""
    monkeypatch.setattr(Threads, "GRACE_SECONDS", 0.05)
    over = threading.Event()

    class Told(BasePlugin):
        async def after_run_callback(self, *, invocation_context: InvocationContext) -> None:
            over.set()

    def wait() -> str:
        return "let go" if over.wait(timeout=10) else "waited in vain"

    helper = AgentTool(expert("helped"))
    root = agent("root", [call("wait"), call("expert", request="?")], "done", tools=[wait, helper])
    runner = InMemoryRunner(root, plugins=[Told("told")])
    result = await runner.run_to_result(**WHERE, new_message="go")
    assert [answer.response for each in result.events for answer in each.get_function_responses()] == [
        {"result": "let go"},
        {"result": "helped"},
    ]
