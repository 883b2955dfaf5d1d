"""Where the final answer is kept (cases area 20: output_key, state lifecycle, seed; decision 18)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, call, collect, context, event, hand_to, requests_of, shown, text, user
from pydantic import BaseModel

from flowloom import (
    AgentTool,
    BaseAgent,
    Event,
    Flow,
    FunctionTool,
    InvocationContext,
    LlmRequest,
    LlmResponse,
    RunConfig,
    ToolContext,
)


class Weather(BaseModel):
    temp: int


def note() -> str:
    """Note."""
    return "noted"


async def kept(*answers: Any, **fields: Any) -> dict[str, Any]:
    chat = Chat(agent("root", *answers, output_key="out", **fields))
    await chat.say("go")
    return await chat.state()


async def test_the_final_text_is_kept() -> None:
    """Output_key | match | set."""
    assert await kept("answer") == {"out": "answer"}


async def test_without_a_key_nothing_is_kept() -> None:
    """Output_key | unset | skip."""
    chat = Chat(agent("root", "answer"))
    await chat.say("go")
    assert await chat.state() == {}


async def test_what_another_agent_says_is_not_kept() -> None:
    """Output_key | other author | skip."""
    chat = Chat(agent("root", hand_to("sub"), output_key="out", sub_agents=[agent("sub", "mine")]))
    await chat.say("go")
    assert await chat.state() == {}


async def test_what_a_processor_says_in_another_name_is_not_kept() -> None:
    def notice(ctx: InvocationContext, request: LlmRequest) -> Event:
        return event("clock", "It is noon.")

    root = agent("root", LlmResponse(), output_key="out", flow=Flow().with_processor(notice))
    chat = Chat(root)
    assert (await chat.say("go"))[0].text == "It is noon."
    assert await chat.state() == {}


async def test_authors_are_compared_with_their_case() -> None:
    """Output_key | case mismatch | skip."""
    chat = Chat(agent("Root", hand_to("root"), output_key="out", sub_agents=[agent("root", "mine", output_key="low")]))
    await chat.say("go")
    assert await chat.state() == {"low": "mine"}


async def test_partial_events_write_nothing() -> None:
    """Output_key | partial | skip."""
    chat = Chat(agent("root", output_key="out"), config=STREAMED)
    chat.runner.agent.model = agent("x", "a long answer in pieces").model  # type: ignore[attr-defined]
    chat.runner.agent.model.stream_chunks = True  # type: ignore[attr-defined]
    events = await chat.say("go")
    assert [e.actions.state_delta for e in events if e.partial] == [{}] * 3
    assert events[-1].actions.state_delta == {"out": "a long answer in pieces"}


@pytest.mark.parametrize("answer", ["", "  \n"])
async def test_decision_18_an_empty_text_writes_nothing(answer: str) -> None:
    assert await kept(answer) == {}


async def test_several_text_parts_are_joined() -> None:
    """Output_key | multi parts | joined."""
    assert await kept([text("one "), text("two")]) == {"out": "one two"}


async def test_decision_18_thoughts_are_not_kept() -> None:
    assert await kept([text("hm", thought=True), text("answer")]) == {"out": "answer"}


async def test_decision_18_text_beside_a_call_is_not_final_and_not_kept() -> None:
    """(REC) output_key | FC event with key | no write."""
    chat = Chat(agent("root", [text("wait"), call("note")], "answer", tools=[note], output_key="out"))
    events = await chat.say("go")
    assert [e.actions.state_delta for e in events] == [{}, {}, {"out": "answer"}]


@pytest.mark.parametrize(("schema", "out"), [(None, '{"temp": 7}'), (Weather, {"temp": 7})])
async def test_an_answer_that_a_tool_shows_as_it_is_is_kept(schema: Any, out: Any) -> None:
    """`skip_summarization`: the result is the answer."""
    tool = AgentTool(agent("sub", '{"temp": 7}'), skip_summarization=True)
    assert await kept(call("sub", request="go"), tools=[tool], output_schema=schema) == {"out": out}


async def test_an_answer_beside_a_call_that_waits_for_a_person_is_not_kept() -> None:
    tools = [AgentTool(agent("sub", "mine"), skip_summarization=True), FunctionTool(note, require_confirmation=True)]
    assert await kept([call("sub", request="go"), call("note")], tools=tools) == {}


async def test_decision_18_it_is_parsed_when_there_is_a_schema() -> None:
    assert await kept('{"temp": 7}', output_schema=Weather) == {"out": {"temp": 7}}


async def test_a_final_text_is_kept_even_if_it_was_cut_off() -> None:
    cut = LlmResponse(content=user("half"), error_code="MAX_TOKENS", error_message="cut")
    assert await kept(cut) == {"out": "half"}


async def test_the_key_may_have_a_scope() -> None:
    chat = Chat(agent("root", "answer", output_key="user:out"))
    await chat.say("go")
    other = Chat(runner=chat.runner, session_id="s2")
    chat.runner.agent.model = agent("x", "later").model  # type: ignore[attr-defined]
    await other.say("go")
    assert (await chat.state())["user:out"] == "later"


async def test_an_after_agent_callback_reads_it() -> None:
    seen: list[Any] = []
    root = agent("root", "answer", output_key="out")
    root.after_agent_callback = lambda callback_context: seen.append(callback_context.state.get("out"))
    await Chat(root).say("go")
    assert seen == ["answer"]


@pytest.mark.parametrize("config", [None, STREAMED])
async def test_state_goes_through_a_session_stage_by_stage(config: RunConfig | None) -> None:
    """State lifecycle | root with callbacks, tools, output key | keys visible at each stage; events in order."""
    seen: dict[str, list[str]] = {}

    def look(stage: str) -> Any:
        def hook(**given: Any) -> None:
            ctx = given.get("callback_context") or given["tool_context"]
            seen.setdefault(stage, sorted(ctx.state.to_dict()))
            ctx.state[stage] = True

        return hook

    def work(tool_context: ToolContext) -> str:
        """Work."""
        seen["tool"] = sorted(tool_context.state.to_dict())
        tool_context.state["tool"] = True
        return "worked"

    root = agent(
        "root",
        call("work"),
        "answer",
        tools=[work],
        output_key="out",
        before_agent_callback=look("1before_agent"),
        before_model_callback=look("2before_model"),
        after_model_callback=look("3after_model"),
        before_tool_callback=look("4before_tool"),
        after_tool_callback=look("5after_tool"),
        after_agent_callback=look("6after_agent"),
    )
    chat = Chat(root, config=config)
    events = await chat.say("go")
    assert seen["2before_model"] == ["1before_agent"]
    assert seen["3after_model"] == ["1before_agent", "2before_model"]
    assert seen["4before_tool"] == ["1before_agent", "2before_model", "3after_model"]
    assert seen["tool"] == [*seen["4before_tool"], "4before_tool"]
    assert seen["5after_tool"] == sorted([*seen["tool"], "tool"])
    assert "out" in seen["6after_agent"]
    state = await chat.state()
    assert state.keys() == {*seen, "out"}
    stored = await chat.stored()
    assert [e.id for e in stored[1:]] == [e.id for e in events]
    merged: dict[str, Any] = {}
    for each in stored:
        merged.update(each.actions.state_delta)
    assert merged == state


async def test_context_for_one_run_is_shown_before_the_history_and_not_stored() -> None:
    """Seed | visible in view, not in real session, positioned before later events."""
    root = agent("root", "one", "two")
    chat = Chat(root)
    await chat.say("go", run_config=RunConfig(model_input_context=[user("seed")]))
    await chat.say("more")
    first, second = requests_of(root)
    assert shown(first) == ["user: seed", "user: go"]
    assert "user: seed" not in shown(second)
    assert "seed" not in str(await chat.stored())


async def test_a_session_seeded_with_events_is_seen_in_order() -> None:
    root = agent("root", "done")
    ctx = context(root, event("user", "before"), event("root", "answer"), event("user", "go"))
    await collect(root.run_async(ctx))
    assert shown(requests_of(root)[0]) == ["user: before", "model: answer", "user: go"]


async def test_a_custom_agent_keeps_nothing_by_key() -> None:
    class Custom(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(author="root", content=types.Content(role="model", parts=[text("x")]))

    chat = Chat(agent("root", hand_to("mine"), output_key="out", sub_agents=[Custom(name="mine")]))
    await chat.say("go")
    assert await chat.state() == {}
