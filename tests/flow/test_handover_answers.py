"""Where a transfer leads to, and what answers the call of a `single_turn` sub-agent."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import (
    WHERE,
    Chat,
    agent,
    approve,
    collect,
    context,
    event,
    named_call,
    pending,
    requests_of,
    said,
    story,
    text,
)
from pydantic import BaseModel

from flowloom import Event, Flow, FunctionTool, InvocationContext, LlmAgent, LlmRequest, LlmResponse, ToolContext
from flowloom.errors import AgentNotFoundError, Halt
from flowloom.flow.handover import place_of_target
from flowloom.testing import call


class City(BaseModel):
    name: str


def tree() -> tuple[LlmAgent, tuple[LlmAgent, ...]]:
    """An agent with two above its parent, and those above it."""
    here = agent("here", sub_agents=[agent("below")])
    parent = agent("parent", sub_agents=[here, agent("beside")])
    higher = agent("higher", sub_agents=[parent])
    return here, (agent("top", sub_agents=[higher]), higher, parent)


@pytest.mark.parametrize(
    ("name", "above"),
    [
        ("below", ["top", "higher", "parent", "here"]),
        ("beside", ["top", "higher", "parent"]),
        ("parent", ["top", "higher"]),
    ],
)
def test_an_agent_that_is_handed_over_to_stands_where_it_is_in_the_tree(name: str, above: list[str]) -> None:
    """Below this one, beside it, or above it."""
    here, lineage = tree()
    place = place_of_target(context(here, lineage=lineage), name)
    assert (place.agent.name, [each.name for each in place.lineage]) == (name, above)


def test_an_agent_out_of_reach_is_named_with_those_in_reach_the_closest_first() -> None:
    """A transfer to it may come from a processor, too, which no tool has looked at."""
    here, lineage = tree()
    with pytest.raises(
        AgentNotFoundError, match=r"Agent `here` cannot hand over to `besides`\. It reaches: `beside`, "
    ) as e:
        place_of_target(context(here, lineage=lineage), "besides")
    for name in ("`below`", "`parent`", "`sub_agents`", "allow the transfer"):
        assert name in str(e.value)
    with pytest.raises(AgentNotFoundError, match="Agent `alone` cannot hand over to `below`"):
        place_of_target(context(agent("alone")), "below")


async def answered(helper: LlmAgent) -> Any:
    """What the call of an agent is answered with."""
    root = agent("root", named_call("c1", "helper", request="help"), "done", sub_agents=[helper])
    events = await Chat(root).say("go")
    found = [(each.id, each.name, each.response) for event in events for each in event.get_function_responses()]
    [(call_id, name, response)] = [each for each in found if each[1] == "helper"]
    assert (call_id, name) == ("c1", "helper")
    return response


def halts(ctx: InvocationContext, request: LlmRequest) -> None:
    raise Halt


def notice(ctx: InvocationContext, request: LlmRequest) -> Event:
    return event("clock", "It is noon.")


def says(words: str) -> Any:
    return lambda callback_context: said(words)


def shows(tool_context: ToolContext) -> dict[str, str]:
    tool_context.actions.skip_summarization = True
    return {"city": "Rome"}


FAILED = LlmResponse(error_code="SAFETY", error_message="not this")


@pytest.mark.parametrize(
    ("answers", "fields", "response"),
    [
        (["Rome"], {}, {"result": "Rome"}),
        ([[call("look"), "Wait."], "Rome"], {"tools": [lambda: "seen"]}, {"result": "Rome"}),
        ([said()], {}, "without saying or calling anything"),
        (["  "], {}, {"error": "Agent `helper` ended without an answer."}),
        ([], {"flow": Flow([halts], [])}, {"error": "Agent `helper` ended without an answer."}),
        (['{"name": "Rome"}'], {"output_schema": City}, {"result": {"name": "Rome"}}),
        (['{"name": 3}', '{"name": "Rome"}'], {"output_schema": City}, {"result": {"name": "Rome"}}),
        ([FAILED], {}, "SAFETY"),
        (['{"name": 3}'], {"output_schema": City, "output_retries": 0}, "output schema"),
        ([], {"flow": Flow([notice, halts], [])}, {"error": "Agent `helper` ended without an answer."}),
        ([], {"before_agent_callback": says("Rome")}, {"result": "Rome"}),
        (
            [],
            {"before_agent_callback": says('{"name": "Rome"}'), "output_schema": City},
            {"result": {"name": "Rome"}},
        ),
        ([[text("I look."), call("look")]], {"tools": [shows]}, {"city": "Rome"}),
        ([call("look")], {"tools": [shows], "output_schema": City}, {"city": "Rome"}),
        (["Rome"], {"after_agent_callback": says("Checked.")}, {"result": "Rome"}),
    ],
    ids=(
        "text last nothing blank halted schema mended failed unfit another-says before before-schema shown shown-form "
        "after"
    ).split(),
)
async def test_what_a_single_turn_says_last_answers_its_call(answers: Any, fields: Any, response: Any) -> None:
    """In the form of its schema; or why there is none."""
    for tool in fields.get("tools", ()):
        tool.__name__ = "look"
    found = await answered(agent("helper", *answers, mode="single_turn", **fields))
    if isinstance(response, str):
        assert [*found] == ["error"]
        assert response in found["error"]
    else:
        assert found == response


@pytest.mark.parametrize(("schema", "response"), [(None, {"result": "Rome"}), (City, "not JSON")], ids=["same", "new"])
async def test_a_run_that_was_cut_off_behind_the_agent_gives_its_caller_the_same_answer(
    schema: Any, response: Any
) -> None:
    """Not what a callback has added after the agent; an error, if the agent has been given a schema since."""
    helper = agent("helper", "Rome", mode="single_turn", after_agent_callback=says("Checked."))
    root = agent("root", named_call("c1", "helper", request="help"), "done", sub_agents=[helper])
    log = await Chat(root).say("go")
    stored = [event("user", "go", invocation_id=log[0].invocation_id), *log[:3]]
    assert stored[-1].text == "Checked."
    helper = agent("helper", mode="single_turn", output_schema=schema)
    later = Chat(agent("root", "done", sub_agents=[helper]))
    session = await later.runner.session_service.create_session(app_name="app", **WHERE)
    for each in stored:
        await later.runner.session_service.append_event(session, each)
    events = await collect(later.runner.run_async(**WHERE, invocation_id=log[0].invocation_id))
    [told] = [each.response for each in events[0].get_function_responses()]
    assert told == response or response in str((told or {})["error"])
    assert story(events)[1:] == ["root: done"]


async def test_a_message_to_a_task_goes_past_its_caller() -> None:
    """Which builds no request while the task goes on."""
    built: list[str] = []

    def count(ctx: InvocationContext, request: LlmRequest) -> None:
        built.append(ctx.agent.name)

    worker = agent("worker", "Which one?", "And which colour?", mode="task")
    root = agent("root", call("worker", request="x"), sub_agents=[worker], flow=Flow().with_processor(count))
    chat = Chat(root)
    await chat.say("go")
    assert [each.text for each in await chat.say("the big one")] == ["And which colour?"]
    assert (built, len(requests_of(root))) == (["root"], 1)


async def test_a_task_of_nothing_but_thoughts_stays_open() -> None:
    """Its caller is told nothing yet: the user may say more."""
    worker = agent("worker", *[types.Part(text="Hm.", thought=True)] * 4, call("finish_task", result="ok"), mode="task")
    chat = Chat(agent("root", call("worker", request="x"), "done", sub_agents=[worker]))
    assert story(await chat.say("go"))[-1] == "worker: !MODEL_RETURNED_ONLY_THOUGHTS"
    assert story(await chat.say("go on"))[-1] == "root: done"


async def test_a_task_that_has_finished_beside_a_call_that_waits_is_over_once_that_is_decided() -> None:
    """Whatever it says then: the result of its call is there."""

    def book() -> str:
        """Book."""
        return "booked"

    calls = [call("finish_task", result="ok"), call("book")]
    worker = agent("worker", calls, "Booked.", mode="task", tools=[FunctionTool(book, require_confirmation=True)])
    chat = Chat(agent("root", named_call("c1", "worker", request="x"), "done", sub_agents=[worker]))
    [request] = pending(await chat.say("go"))
    told = story(await chat.answer(approve(request)))
    assert told[-2:] == ["user: worker -> {'result': 'ok'}", "root: done"]
