"""Agents that are called like functions: `task` and `single_turn` (cases area 21)."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncGenerator
from typing import Any, Literal

import pytest
from google.genai import types
from journal import Journal
from kit import (
    STREAMED,
    Chat,
    agent,
    approve,
    call,
    collect,
    context,
    declarations,
    declared_names,
    event,
    hand_to,
    named_call,
    open_calls,
    pending,
    requests_of,
    result,
    shown,
    story,
    system_text,
    text,
)
from pydantic import BaseModel

from flowloom import (
    AgentTool,
    BaseTool,
    ConfigurationError,
    Event,
    Flow,
    FunctionTool,
    InMemoryRunner,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    SequentialAgent,
    ToolContext,
)
from flowloom.errors import InvocationNotFoundError


class Facts(BaseModel):
    city: str
    people: int


class Order(BaseModel):
    item: str
    count: int = 1


def finish(**args: Any) -> types.Part:
    return call("finish_task", **args)


def task(name: str, *answers: Any, **fields: Any) -> LlmAgent:
    return agent(name, *answers, mode="task", **fields)


def single(name: str, *answers: Any, **fields: Any) -> LlmAgent:
    return agent(name, *answers, mode="single_turn", **fields)


def responses(events: list[Event], name: str) -> list[Any]:
    return [r.response for e in events for r in e.get_function_responses() if r.name == name]


def look_up(city: str) -> int:
    """Look up."""
    return 700_000


def double(n: int) -> int:
    """Double."""
    return n * 2


async def test_01_a_tasks_result_is_handed_to_a_function_tool_once() -> None:
    """Chat->task->tool."""
    doubled: list[int] = []

    def keep(people: int) -> str:
        """Keep."""
        doubled.append(people)
        return "kept"

    worker = task(
        "worker", call("look_up", city="Oslo"), finish(city="Oslo", people=7), tools=[look_up], output_schema=Facts
    )
    root = agent(
        "root", call("worker", request="count"), call("keep", people=7), "done", tools=[keep], sub_agents=[worker]
    )
    chat = Chat(root)
    events = await chat.say("go")
    assert responses(events, "worker") == [{"city": "Oslo", "people": 7}]
    assert doubled == [7]
    assert events[-1].text == "done"
    assert open_calls(await chat.stored()) == set()


async def test_02_two_tasks_in_one_turn_have_their_own_scopes_and_both_results_come_before_the_final_text() -> None:
    """Two tasks in sequence in one turn."""
    one, two = task("one", finish(result="A")), task("two", finish(result="B"))
    root = agent("root", call("one", request="a"), call("two", request="b"), "both", sub_agents=[one, two])
    events = await Chat(root).say("go")
    assert responses(events, "one") == [{"result": "A"}]
    assert responses(events, "two") == [{"result": "B"}]
    scopes = {a: {e.isolation_scope for e in events if e.author == a} for a in ("one", "two", "root")}
    assert scopes["root"] == {None}
    assert len(scopes["one"] | scopes["two"]) == 2
    assert None not in scopes["one"] | scopes["two"]
    assert "A" not in str(shown(requests_of(two)[0]))
    assert events[-1].text == "both"


async def test_02_two_tasks_called_at_once_are_both_done() -> None:
    one, two = task("one", finish(result="A")), task("two", finish(result="B"))
    root = agent("root", [call("one", request="a"), call("two", request="b")], "both", sub_agents=[one, two])
    events = await Chat(root).say("go")
    assert len(requests_of(root)) == 2
    assert shown(requests_of(root)[1])[-2:] == ["user: one -> {'result': 'A'}", "user: two -> {'result': 'B'}"]
    assert events[-1].text == "both"


async def test_03_a_single_turn_agent_has_one_round_and_no_history_of_the_coordinator() -> None:
    """Single_turn | one LLM round, no coordinator history, structured reply as FR."""
    helper = single("helper", '{"city": "Oslo", "people": 7}', output_schema=Facts)
    root = agent("root", call("helper", request="count Oslo"), "done", sub_agents=[helper])
    chat = Chat(root)
    await chat.say("secret context")
    assert len(requests_of(helper)) == 1
    lines = " ".join(shown(requests_of(helper)[0]))
    assert "count Oslo" in lines
    assert "secret context" not in lines
    assert shown(requests_of(root)[1])[-1] == "user: helper -> {'result': {'city': 'Oslo', 'people': 7}}"


async def test_04_two_single_turn_agents_in_parallel_give_both_results() -> None:
    """Two single_turn in parallel | both results, race free."""
    one, two = single("one", "A"), single("two", "B")
    root = agent("root", [call("one", request="a"), call("two", request="b")], "both", sub_agents=[one, two])
    events = await Chat(root).say("go")
    assert responses(events, "one") == [{"result": "A"}]
    assert responses(events, "two") == [{"result": "B"}]
    assert len({e.branch for e in events if e.author in ("one", "two") and e.text}) == 2


async def test_04_one_single_turn_agent_may_be_called_twice_at_once() -> None:
    helper = single("helper", "A", "B")
    root = agent("root", [call("helper", request="a"), call("helper", request="b")], "both", sub_agents=[helper])
    events = await Chat(root).say("go")
    assert responses(events, "helper") == [{"result": "A"}, {"result": "B"}]
    assert ["a" in str(shown(r)[0]) for r in requests_of(helper)] == [True, False] or len(requests_of(helper)) == 2


async def test_05_a_chat_agent_below_the_root_delegates() -> None:
    """Chat->chat->task | transfer then delegation from a non-root chat."""
    worker = task("worker", finish(result="W"))
    middle = agent("middle", call("worker", request="w"), "middle done", sub_agents=[worker])
    root = agent("root", hand_to("middle"), sub_agents=[middle])
    events = await Chat(root).say("go")
    assert responses(events, "worker") == [{"result": "W"}]
    assert [e.author for e in events if e.text] == ["middle"]


async def test_06_a_task_asks_the_user_and_goes_on_with_the_reply() -> None:
    """Task HITL | pause without closing FR; reply stamped with open scope; tool resumes; finish; final text."""
    worker = task("worker", "Which city?", call("look_up", city="Oslo"), finish(result="700k"), tools=[look_up])
    root = agent("root", call("worker", request="count"), "done", sub_agents=[worker])
    chat = Chat(root)
    first = await chat.say("go")
    assert first[-1].text == "Which city?"
    assert responses(first, "worker") == []
    assert len(requests_of(root)) == 1
    scope = first[-1].isolation_scope
    second = await chat.say("Oslo")
    stored = await chat.stored()
    assert next(e for e in stored if e.text == "Oslo").isolation_scope == scope
    assert "user: Oslo" in shown(requests_of(worker)[1])
    assert responses(second, "worker") == [{"result": "700k"}]
    assert second[-1].text == "done"
    assert "Oslo" not in str([line for line in shown(requests_of(root)[1]) if line == "user: Oslo"])


async def test_a_task_that_asks_the_user_leaves_the_tasks_behind_it_open() -> None:
    """They are done when it is."""
    one, two = task("one", "Which?", finish(result="A")), task("two", finish(result="B"))
    root = agent("root", [call("one", request="a"), call("two", request="b")], "both", sub_agents=[one, two])
    chat = Chat(root)
    assert story(await chat.say("go"))[2:] == ["one: Which?"]
    second = await chat.say("This.")
    assert [(r.name, r.response) for e in second for r in e.get_function_responses() if r.name != "finish_task"] == [
        ("one", {"result": "A"}),
        ("two", {"result": "B"}),
    ]
    assert {e.author for e in second if e.get_function_responses()} == {"one", "two", "user"}
    assert second[-1].text == "both"


async def test_while_a_task_asks_the_user_nobody_above_its_coordinator_goes_on() -> None:
    """Control is with the task."""
    worker = task("worker", "Which city?", finish(result="700k"))
    desk = agent("desk", call("worker", request="count"), "done", sub_agents=[worker])
    root = agent("root", hand_to("desk"), sub_agents=[desk])
    chat = Chat(root)
    assert (await chat.say("go"))[-1].text == "Which city?"
    assert (await chat.say("Oslo"))[-1].text == "done"
    assert len(requests_of(root)) == 1


@pytest.mark.parametrize("kept", [3, 4])
async def test_a_task_that_was_cut_off_while_it_finished_is_finished_by_who_resumes(kept: int) -> None:
    """Its result is its call's: its model is not asked again."""
    whole = Chat(
        agent("root", call("worker", request="count"), "done", sub_agents=[task("worker", finish(result="7"))])
    )
    await whole.say("go")
    log = (await whole.stored())[:kept]
    worker = task("worker", "never")
    chat = Chat(agent("root", "done", sub_agents=[worker]))
    session = await chat.runner.session_service.create_session(app_name="app", user_id="ann", session_id="s1")
    for each in log:
        await chat.runner.session_service.append_event(session, each)
    resumed = chat.runner.run_async(user_id="ann", session_id="s1", invocation_id=log[-1].invocation_id)
    assert story(await collect(resumed))[-2:] == ["user: worker -> {'result': '7'}", "root: done"]
    assert requests_of(worker) == []


NOT_BEGUN = {
    "error": "Control goes to agent `helper` first, so this task was not begun. Call it again if it is still needed."
}


@pytest.mark.parametrize("first", ["handover", "task"])
async def test_a_task_beside_a_handover_is_told_to_be_not_begun_before_the_other_agent_speaks(first: str) -> None:
    """The handover comes first (decision 7), and nothing was interrupted: one event answers both, in call order."""
    calls = [named_call("h", "transfer_to_agent", agent_name="helper"), named_call("w", "worker", request="count")]
    worker, helper = task("worker", "never"), agent("helper", "I help.")
    chat = Chat(agent("root", calls if first == "handover" else calls[::-1], sub_agents=[worker, helper]))
    events = await chat.say("go")
    answers = [result("h", "transfer_to_agent", {}), result("w", "worker", NOT_BEGUN)]
    assert events[1].content is not None
    assert events[1].content.parts == (answers if first == "handover" else answers[::-1])
    assert story(events)[-1] == "helper: I help."
    assert "not begun" in str(shown(requests_of(helper)[0]))
    assert requests_of(worker) == []


@pytest.mark.parametrize("beside", [[], [call("look")]], ids=["alone", "beside another call"])
async def test_a_task_whose_callback_hands_over_is_told_to_be_not_begun(beside: list[types.Part]) -> None:
    def look() -> str:
        """Look."""
        return "seen"

    def hands_over(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
        tool_context.actions.transfer_to_agent = "helper" if tool.name == "worker" else None

    subs = [task("worker", "never"), agent("helper", "I help.")]
    asked = [call("worker", request="count"), *beside]
    root = agent("root", asked, "never", sub_agents=subs, tools=[look], before_tool_callback=hands_over)
    events = await Chat(root).say("go")
    assert responses(events, "worker") == [NOT_BEGUN]
    assert story(events)[-1] == "helper: I help."


INTERRUPTED = {"error": "The run failed before this call gave a result: broke"}


@pytest.mark.parametrize(("policy", "told"), [("return", NOT_BEGUN), ("raise", INTERRUPTED)])
async def test_a_task_beside_a_handover_that_an_error_stops_is_no_matter_of_the_handover(
    policy: Any, told: Any
) -> None:
    def breaks() -> None:
        """Break."""
        raise ValueError("broke")

    calls = [hand_to("helper"), call("worker", request="count"), call("breaks")]
    subs = [task("worker", "never"), agent("helper", "I help.")]
    chat = Chat(agent("root", calls, "never", sub_agents=subs, tools=[breaks], tool_errors=policy))
    with pytest.raises(ValueError, match="broke") if policy == "raise" else contextlib.nullcontext():
        await chat.say("go")
    assert responses(await chat.stored(), "worker") == [told]


async def test_a_task_beside_a_handover_is_not_begun_though_another_call_has_begun() -> None:
    """A call that is answered later keeps nothing from going on."""

    def order() -> None:
        """Order: the goods come later."""

    calls = [hand_to("helper"), call("worker", request="count"), call("order")]
    subs = [task("worker", "never"), agent("helper", "I help.")]
    events = await Chat(agent("root", calls, sub_agents=subs, tools=[LongRunningFunctionTool(order)])).say("go")
    assert responses(events, "worker") == [NOT_BEGUN]
    assert story(events)[-1] == "helper: I help."


async def test_what_a_callback_writes_for_a_task_stands_on_an_event_that_lists_no_calls() -> None:
    """The task has not begun work that is answered later: it goes on at once."""

    def notes(tool: BaseTool, args: dict[str, Any], tool_context: ToolContext) -> None:
        tool_context.state["asked"] = tool.name

    worker = task("worker", finish(result="W"))
    root = agent("root", call("worker", request="count"), "done", sub_agents=[worker], before_tool_callback=notes)
    events = await Chat(root).say("go")
    [written] = [each for each in events if each.actions.state_delta]
    assert (written.actions.state_delta, written.long_running_tool_ids) == ({"asked": "worker"}, None)
    assert events[-1].text == "done"


async def test_a_task_that_was_not_begun_can_be_called_again() -> None:
    worker, helper = task("worker", finish(result="W")), agent("helper", hand_to("root"))
    asked = [[hand_to("helper"), call("worker", request="count")], call("worker", request="count"), "done"]
    root = agent("root", *asked, sub_agents=[worker, helper])
    events = await Chat(root).say("go")
    assert responses(events, "worker") == [NOT_BEGUN, {"result": "W"}]
    assert events[-1].text == "done"


async def test_a_task_beside_a_handover_is_not_begun_by_who_resumes() -> None:
    """The log that a process leaves when it dies in the other agent."""
    asked = [hand_to("helper"), call("worker", request="count")]
    whole = Chat(agent("root", asked, sub_agents=[task("worker", "never"), agent("helper", "I help.")]))
    await whole.say("go")
    log = (await whole.stored())[:3]
    worker = task("worker", "never")
    chat = Chat(agent("root", "never", sub_agents=[worker, agent("helper", "I help again.")]))
    session = await chat.runner.session_service.create_session(app_name="app", user_id="ann", session_id="s1")
    for each in log:
        await chat.runner.session_service.append_event(session, each)
    resumed = chat.runner.run_async(user_id="ann", session_id="s1", invocation_id=log[-1].invocation_id)
    assert story(await collect(resumed)) == ["helper: I help again."]
    assert responses(await chat.stored(), "worker") == [NOT_BEGUN]


async def test_a_task_comes_before_a_handover_to_an_agent_that_cannot_be_reached() -> None:
    worker = task("worker", finish(result="W"))
    root = agent("root", [hand_to("nobody"), call("worker", request="count")], "done", sub_agents=[worker])
    events = await Chat(root).say("go")
    assert responses(events, "worker") == [{"result": "W"}]


async def test_a_coordinator_takes_no_step_of_its_own_before_the_task_that_goes_on() -> None:
    """Nor one too many when it goes on itself: each of its steps asks its model."""
    steps: list[str] = []

    def count(ctx: InvocationContext, request: LlmRequest) -> None:
        steps.append(ctx.agent.name)

    worker = task("worker", "Which city?", finish(result="700k"))
    answers = [call("worker", request="count"), named_call("c1", "order"), "done"]
    tools = [LongRunningFunctionTool(order)]
    flow = Flow().with_processor(count)
    chat = Chat(agent("root", *answers, sub_agents=[worker], tools=tools, flow=flow))
    await chat.say("go")
    await chat.say("Oslo")
    assert (await chat.answer(result("c1", "order", {"ok": True})))[-1].text == "done"
    assert steps == ["root"] * 3


async def test_07_a_result_that_fails_validation_is_tried_again() -> None:
    """finish_task validation failure | error result, retry succeeds."""
    worker = task("worker", finish(city="Oslo", people="many"), finish(city="Oslo", people=7), output_schema=Facts)
    root = agent("root", call("worker", request="count"), "done", sub_agents=[worker])
    events = await Chat(root).say("go")
    first, second = responses(events, "finish_task")
    assert "people" in first["error"]
    assert "error" not in second
    assert responses(events, "worker") == [{"city": "Oslo", "people": 7}]


async def test_08_a_task_and_a_function_called_together_are_both_answered() -> None:
    """Task tool + function tool | deferred vs immediate FR routed correctly."""
    worker = task("worker", finish(result="W"))
    calls = [named_call("t", "worker", request="w"), named_call("f", "double", n=4)]
    root = agent("root", calls, "done", tools=[double], sub_agents=[worker])
    chat = Chat(root)
    events = await chat.say("go")
    answered = {r.id: r.response for e in events for r in e.get_function_responses() if r.id in ("t", "f")}
    assert answered == {"t": {"result": "W"}, "f": {"result": 8}}
    assert len(requests_of(root)) == 2
    assert open_calls(await chat.stored()) == set()


async def test_09_the_last_active_peer_goes_on_in_the_next_turn() -> None:
    """Peers | last active peer continues next turn."""
    one = agent("one", hand_to("two"))
    two = agent("two", "two here", "two again")
    chat = Chat(agent("root", hand_to("one"), sub_agents=[one, two]))
    await chat.say("go")
    assert story(await chat.say("more")) == ["two: two again"]


def order() -> None:
    """Order."""


async def rewind(chat: Chat, events: list[Event]) -> None:
    """Go back to before these events."""
    target = events[0].invocation_id
    await chat.runner.rewind_async(user_id="ann", session_id="s1", rewind_before_invocation_id=target)


@pytest.mark.parametrize("kind", [SequentialAgent, LoopAgent, ParallelAgent])
def test_10_a_task_agent_is_no_member_of_a_workflow(kind: Any) -> None:
    """Task agent as static node | rejected."""
    with pytest.raises(ConfigurationError, match="worker"):
        InMemoryRunner(kind(name="row", sub_agents=[task("worker")]))


@pytest.mark.parametrize("mode", ["chat", "single_turn", None])
async def test_10_chat_and_single_turn_agents_are(mode: Literal["chat", "single_turn"] | None) -> None:
    row = SequentialAgent(name="row", sub_agents=[agent("worker", "done", mode=mode)])
    assert story(await Chat(row).say("go")) == ["worker: done"]


@pytest.mark.parametrize("mode", ["task", "single_turn"])
def test_10_a_root_that_is_an_llm_agent_is_in_chat_mode(mode: Any) -> None:
    """Spec 18.6: unset is chat, any other mode is an error."""
    with pytest.raises(ConfigurationError, match=r"`root`|root"):
        InMemoryRunner(agent("root", mode=mode))


async def test_11_a_single_turn_agent_chains_two_tools_and_sees_its_own_history() -> None:
    """Single_turn chaining two tools | sees own tool history; two FCs."""
    helper = single(
        "helper", call("look_up", city="Oslo"), call("double", n=700_000), "1.4 million", tools=[look_up, double]
    )
    root = agent("root", call("helper", request="x"), "done", sub_agents=[helper])
    events = await Chat(root).say("go")
    last = shown(requests_of(helper)[2])
    assert [line for line in last if "->" in line] == [
        "user: look_up -> {'result': 700000}",
        "user: double -> {'result': 1400000}",
    ]
    assert responses(events, "helper") == [{"result": "1.4 million"}]


# -- finish_task ------------------------------------------------------------------------------------


def declaration_of(asked: LlmAgent, name: str, at: int = 0) -> types.FunctionDeclaration:
    return next(d for d in declarations(requests_of(asked)[at]) if d.name == name)


@pytest.mark.parametrize(
    ("schema", "keys"),
    [(Facts, {"city", "people"}), *((s, {"result"}) for s in (None, str, int, bool, float, list[str], list[Facts]))],
)
async def test_finish_task_takes_the_output_and_wraps_what_is_no_object(schema: Any, keys: set[str]) -> None:
    """finish_task | schemas none / object / string / int / bool / number / arrays; wrapper key."""
    worker = task("worker", "What?", output_schema=schema)
    root = agent("root", call("worker", request="x"), sub_agents=[worker])
    await Chat(root).say("go")
    declared = declaration_of(worker, "finish_task")
    assert set(declared.parameters_json_schema["properties"]) == keys
    assert set(declared.parameters_json_schema["required"]) == keys
    assert "finish_task" in system_text(requests_of(worker)[0])


@pytest.mark.parametrize(
    ("schema", "args", "response"),
    [
        (None, {"result": "W"}, {"result": "W"}),
        (Facts, {"city": "Oslo", "people": 1}, {"city": "Oslo", "people": 1}),
        (str, {"result": "W"}, {"output": "W"}),
        (int, {"result": 3}, {"output": 3}),
        (bool, {"result": True}, {"output": True}),
        (float, {"result": 1.5}, {"output": 1.5}),
        (list[str], {"result": ["a"]}, {"output": ["a"]}),
        (list[Facts], {"result": [{"city": "x", "people": 1}]}, {"output": [{"city": "x", "people": 1}]}),
    ],
)
async def test_a_tasks_output_is_the_result_of_its_call(schema: Any, args: dict[str, Any], response: Any) -> None:
    worker = task("worker", finish(**args), output_schema=schema)
    events = await Chat(agent("root", call("worker", request="x"), "done", sub_agents=[worker])).say("go")
    assert responses(events, "worker") == [response]
    assert "result" in responses(events, "finish_task")[0]


async def test_the_end_of_a_task_is_no_final_answer_and_has_its_output() -> None:
    """Who takes the text of the first final event gets the answer; the result of `finish_task` holds the data."""
    worker = task("worker", finish(city="Oslo", people=7), output_schema=Facts)
    chat = Chat(agent("root", call("worker", request="count"), "seven live there", sub_agents=[worker]))
    events = await chat.say("go")
    assert [each.text for each in events if each.is_final_response()] == ["seven live there"]
    [end] = [each for each in await chat.stored() if each.output is not None]
    assert (end.author, end.output) == ("worker", {"city": "Oslo", "people": 7})
    assert end.actions.skip_summarization is None
    assert len(requests_of(worker)) == 1


@pytest.mark.parametrize(
    ("schema", "args"),
    [(None, {}), (None, {"result": 3}), (Facts, {"city": "x"}), (int, {"result": "x"}), (int, {"value": 3})],
)
async def test_a_bad_result_is_an_error_for_the_task_and_does_not_end_it(schema: Any, args: dict[str, Any]) -> None:
    """finish_task | missing / wrong type / non-map | error."""
    worker = task("worker", finish(**args), "I need help", output_schema=schema)
    events = await Chat(agent("root", call("worker", request="x"), sub_agents=[worker])).say("go")
    assert "error" in responses(events, "finish_task")[0]
    assert responses(events, "worker") == []


# -- how delegates are declared ---------------------------------------------------------------------


@pytest.mark.parametrize("mode", ["task", "single_turn"])
@pytest.mark.parametrize(("schema", "keys"), [(None, {"request"}), (Order, {"item", "count"})])
async def test_a_delegate_is_declared_by_name_description_and_input(mode: Any, schema: Any, keys: set[str]) -> None:
    """Default and custom schema; description trimmed; no response schema."""
    worker = agent("worker", mode=mode, input_schema=schema, description="  Works. \n")
    root = agent("root", "done", sub_agents=[worker])
    await Chat(root).say("go")
    declared = declaration_of(root, "worker")
    assert declared.description == "Works."
    assert set(declared.parameters_json_schema["properties"]) == keys
    assert (declared.response, declared.response_json_schema) == (None, None)


async def test_a_delegate_is_no_target_of_a_transfer() -> None:
    root = agent("root", "done", sub_agents=[task("worker"), single("helper")])
    await Chat(root).say("go")
    assert declared_names(requests_of(root)[0]) == ["worker", "helper"]


async def test_arguments_that_do_not_fit_are_told_to_the_coordinator() -> None:
    worker = task("worker", finish(result="W"), input_schema=Order)
    root = agent("root", call("worker", count="x"), call("worker", item="tea"), "done", sub_agents=[worker])
    events = await Chat(root).say("go")
    first, second = responses(events, "worker")
    assert "item" in first["error"]
    assert second == {"result": "W"}


async def test_the_delegate_is_given_the_arguments_of_its_call() -> None:
    worker = task("worker", finish(result="W"), input_schema=Order)
    await Chat(agent("root", call("worker", item="tea"), "done", sub_agents=[worker])).say("go")
    assert "tea" in shown(requests_of(worker)[0])[0]


# -- what a single turn comes to --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("answers", "fields", "response"),
    [
        (["words"], {}, {"result": "words"}),
        ([[text("hm", thought=True), text("words")]], {}, {"result": "words"}),
        ([call("look_up", city="x"), "words"], {"tools": [look_up]}, {"result": "words"}),
        (['{"city": "x", "people": 1}'], {"output_schema": Facts}, {"result": {"city": "x", "people": 1}}),
    ],
)
async def test_the_final_text_is_the_result(answers: list[Any], fields: dict[str, Any], response: Any) -> None:
    """Output processing | text / thoughts skipped / FC event / valid schema."""
    root = agent("root", call("helper", request="x"), "done", sub_agents=[single("helper", *answers, **fields)])
    assert responses(await Chat(root).say("go"), "helper") == [response]


@pytest.mark.parametrize(
    ("answers", "fields"),
    [(["not json"] * 3, {"output_schema": Facts}), ([""], {}), (['{"city": 1}'] * 3, {"output_schema": Facts})],
)
async def test_no_answer_or_one_that_does_not_fit_is_an_error_result(
    answers: list[Any], fields: dict[str, Any]
) -> None:
    """Output processing | invalid / blank."""
    root = agent("root", call("helper", request="x"), "done", sub_agents=[single("helper", *answers, **fields)])
    events = await Chat(root).say("go")
    assert set(responses(events, "helper")[0]) == {"error"}
    assert events[-1].text == "done"


async def test_an_agent_that_failed_is_told_of_with_its_error() -> None:
    helper = single("helper", LlmResponse(error_code="SAFETY"))
    root = agent("root", call("helper", request="x"), "done", sub_agents=[helper])
    assert responses(await Chat(root).say("go"), "helper") == [{"error": "Agent `helper` failed (SAFETY)."}]


async def test_an_agent_that_failed_behind_what_it_said_is_told_of_with_its_error() -> None:
    """What it has said beside a call that waited is not its answer."""
    ordering = LongRunningFunctionTool(lambda what: None, name="order")
    said_first = ["I order it.", named_call("o1", "order", what="x")]
    helper = single("helper", said_first, LlmResponse(error_code="SAFETY"), tools=[ordering])
    chat = Chat(agent("root", call("helper", request="x"), "done", sub_agents=[helper]))
    await chat.say("go")
    events = await chat.answer(result("o1", "order", {}))
    assert responses(events, "helper") == [{"error": "Agent `helper` failed (SAFETY)."}]


async def test_a_change_of_state_behind_the_answer_leaves_it_the_answer() -> None:
    class Notes(LlmAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield event(self.name, "Here.")
            yield event(self.name, actions={"state_delta": {"seen": True}})

    root = agent("root", call("helper", request="x"), "done", sub_agents=[Notes(name="helper", mode="single_turn")])
    assert responses(await Chat(root).say("go"), "helper") == [{"result": "Here."}]


async def test_partial_events_are_no_result() -> None:
    helper = single("helper")
    helper.model = agent("x", "a long answer in pieces").model
    helper.model.stream_chunks = True  # type: ignore[union-attr]
    root = agent("root", call("helper", request="x"), "done", sub_agents=[helper])
    events = await Chat(root, config=STREAMED).say("go")
    assert responses(events, "helper") == [{"result": "a long answer in pieces"}]


async def test_a_delegates_output_key_is_written() -> None:
    helper = single("helper", "words", output_key="said")
    chat = Chat(agent("root", call("helper", request="x"), "done", sub_agents=[helper]))
    await chat.say("go")
    assert (await chat.state())["said"] == "words"


# -- resuming ---------------------------------------------------------------------------------------


async def test_an_open_delegation_of_an_earlier_turn_runs_before_the_coordinator() -> None:
    """Resume | unresolved delegation from an earlier turn | re-dispatched before the coordinator runs."""
    worker = task("worker", finish(result="W"))
    root = agent("root", "done", sub_agents=[worker])
    ctx = context(root, event("user", "go"), event("root", named_call("c1", "worker", request="x")))
    events = await collect(root.run_async(ctx))
    assert responses(events, "worker") == [{"result": "W"}]
    assert events[-1].text == "done"
    assert len(requests_of(root)) == 1


async def test_a_task_that_waits_for_a_long_running_tool_goes_on_when_its_result_is_there() -> None:
    def ask() -> None:
        """Ask."""

    worker = task("worker", named_call("c1", "ask"), finish(result="W"), tools=[LongRunningFunctionTool(ask)])
    root = agent("root", call("worker", request="x"), "done", sub_agents=[worker])
    chat = Chat(root)
    first = await chat.say("go")
    assert responses(first, "worker") == []
    second = await chat.answer(result("c1", "ask", {"ok": True}))
    assert responses(second, "worker") == [{"result": "W"}]
    assert second[-1].text == "done"


async def test_a_task_that_was_rewound_is_open_no_more() -> None:
    """The message after a rewind is the coordinator's, as if the task had never been called."""
    worker = task("worker", "Which one?", "never")
    root = agent("root", call("worker", request="x"), "Hello.", sub_agents=[worker])
    chat = Chat(root)
    await rewind(chat, await chat.say("go"))
    assert story(await chat.say("Hi.")) == ["root: Hello."]
    assert shown(requests_of(root)[-1]) == ["user: Hi."]


async def test_words_beside_an_agent_tool_that_waits_are_the_coordinators() -> None:
    """Only a task talks with the user: what another agent left that was called is no place for their words."""
    inner = agent("inner", call("order"), tools=[LongRunningFunctionTool(order)])
    root = agent(
        "root", call("inner", request="x"), "Hello.", sub_agents=[task("worker", "W")], tools=[AgentTool(inner)]
    )
    chat = Chat(root)
    await chat.say("go")
    await chat.say("Hi.")
    assert "user: Hi." in shown(requests_of(root)[-1])


async def test_words_beside_the_approval_of_an_agent_tool_that_then_waits_are_answered_once() -> None:
    """The agent that was approved goes on first; what it leaves open is no reason to ask its caller twice."""

    def ask(tool: Any, tool_context: Any, **_: Any) -> Any:
        if tool.name == "inner" and tool_context.tool_confirmation is None:
            tool_context.request_confirmation(hint="May it?")
            return {"status": "asked"}
        return None

    def begin() -> dict[str, str]:
        return {"status": "begun"}

    inner = agent("inner", call("begin"), "begun", tools=[LongRunningFunctionTool(begin)])
    root = agent("root", call("inner", request="x"), "Fine.", tools=[AgentTool(inner)], before_tool_callback=ask)
    chat = Chat(root)
    [request] = pending(await chat.say("go"))
    assert story(await chat.answer(approve(request), text("Please.")))[-2:] == ["inner: begun", "root: Fine."]


async def test_words_beside_a_single_turn_that_waits_are_the_coordinators() -> None:
    """A call that is answered in one turn is no place for the user's words either."""
    quick = agent("quick", call("order"), mode="single_turn", tools=[LongRunningFunctionTool(order)])
    root = agent("root", call("quick", request="x"), "Hello.", sub_agents=[task("worker", "W"), quick])
    chat = Chat(root)
    await chat.say("go")
    await chat.say("Hi.")
    assert "user: Hi." in shown(requests_of(root)[-1])


async def test_a_call_that_was_rewound_cannot_be_answered() -> None:
    """Whoever answers it is told so, and nothing of the message is stored."""
    chat = Chat(agent("root", named_call("c1", "order"), "never", tools=[LongRunningFunctionTool(order)]))
    await rewind(chat, await chat.say("go"))
    before = await chat.stored()
    with pytest.raises(InvocationNotFoundError):
        await chat.answer(result("c1", "order", {"ok": True}))
    assert await chat.stored() == before


async def test_an_agent_that_was_handed_over_to_in_a_rewound_turn_does_not_go_on() -> None:
    """Who spoke last is found in what was not rewound."""
    root = agent("root", "Hello.", hand_to("other"), "Again.", sub_agents=[agent("other", "Here.", "never")])
    chat = Chat(root)
    await chat.say("go")
    await rewind(chat, await chat.say("the other one"))
    assert story(await chat.say("Hi.")) == ["root: Again."]


async def test_three_levels_of_tasks_give_their_results_upwards() -> None:
    inner = task("inner", finish(result="I"))
    outer = task("outer", call("inner", request="i"), finish(result="O"), sub_agents=[inner])
    root = agent("root", call("outer", request="o"), "done", sub_agents=[outer])
    chat = Chat(root)
    events = await chat.say("go")
    assert responses(events, "inner") == [{"result": "I"}]
    assert responses(events, "outer") == [{"result": "O"}]
    assert events[-1].text == "done"
    assert open_calls(await chat.stored()) == set()


# -- single turns at once ------------------------------------------------------------------------------------------


async def test_single_turns_of_one_answer_run_at_once_with_one_merged_event() -> None:
    """Each starts before any ends; the responses stand in the order of the calls, beside that of a tool."""
    both = asyncio.Barrier(2)

    async def meet() -> str:
        """Meet."""
        await asyncio.wait_for(both.wait(), 60)
        return "met"

    experts = [single(name, call("meet"), f"{name} knows", tools=[meet]) for name in ("one", "two")]
    asked = [call("two", request="x"), call("double", n=4), call("one", request="y")]
    root = agent("root", asked, "done", sub_agents=experts, tools=[double])
    events = await Chat(root).say("go")
    (merged,) = [e for e in events if e.author == "root" and e.get_function_responses()]
    told = [(answer.name, answer.response) for answer in merged.get_function_responses()]
    assert told == [
        ("two", {"result": "two knows"}),
        ("double", {"result": 8}),
        ("one", {"result": "one knows"}),
    ]


async def test_one_agent_can_be_called_twice_by_one_answer() -> None:
    """Each call has a branch and a scope of its own, so that neither sees the other."""
    expert = single("expert", "an answer", "an answer")
    root = agent("root", [call("expert", request="x"), call("expert", request="y")], "done", sub_agents=[expert])
    events = await Chat(root).say("go")
    assert responses(events, "expert") == [{"result": "an answer"}] * 2
    assert len({e.branch for e in events if e.author == "expert"}) == 2
    assert all("an answer" not in str(shown(each)) for each in requests_of(expert))


async def test_what_an_agent_that_runs_as_a_tool_says_beside_a_single_turn_is_not_seen() -> None:
    """Unless the config of the run says so."""
    clerk = AgentTool(agent("clerk", "clerk knows"))
    calls = [call("clerk", request="x"), call("expert", request="y")]
    root = agent("root", calls, "done", tools=[clerk], sub_agents=[single("expert", "expert knows")])
    events = await Chat(root).say("go")
    assert "clerk" not in {each.author for each in events}


async def test_a_single_turn_that_fails_ends_the_others() -> None:
    """No task is left behind, and the error is that of the agent."""
    begun, ended = asyncio.Event(), asyncio.Event()

    async def linger() -> str:
        """Linger."""
        begun.set()
        try:
            await asyncio.sleep(60)
        finally:
            ended.set()
        return "late"

    async def follow() -> str:
        """Follow."""
        await begun.wait()
        return "followed"

    slow = single("slow", call("linger"), "never", tools=[linger])
    failing = single("failing", call("follow"), ValueError("boom"), tools=[follow])
    root = agent("root", [call("slow", request="x"), call("failing", request="y")], sub_agents=[slow, failing])
    with pytest.raises(ValueError, match="boom"):
        await Chat(root).say("go")
    assert ended.is_set()


async def test_a_single_turn_that_waits_keeps_the_answers_of_the_others() -> None:
    """What is done is done: only the one that waits goes on when the answer is there."""
    gated = LongRunningFunctionTool(func=look_up)
    waiting = single("waiting", call("look_up", city="Bonn"), "waited", tools=[gated])
    quick = single("quick", "quick knows")
    root = agent(
        "root", [call("waiting", request="x"), call("quick", request="y")], "done", sub_agents=[waiting, quick]
    )
    chat = Chat(root)
    events = await chat.say("go")
    assert responses(events, "quick") == [{"result": "quick knows"}]
    assert responses(events, "waiting") == []
    assert len(requests_of(quick)) == 1


async def test_a_task_that_is_called_beside_a_single_turn_comes_after_it() -> None:
    """A task may converse with the user: it has control alone, and its answer is an event of its own."""
    chore = task("chore", finish(result="chore is done"))
    expert = single("expert", "expert knows")
    asked = [call("chore", request="x"), call("expert", request="y")]
    events = await Chat(agent("root", asked, "done", sub_agents=[chore, expert])).say("go")
    answers = [[r.name for r in e.get_function_responses()] for e in events if e.get_function_responses()]
    assert answers == [["expert"], ["finish_task"], ["chore"]]


async def test_what_was_decided_comes_first_then_a_single_turn_that_waited_and_then_the_task_beside_it() -> None:
    """Of the calls of one answer, in a run that is resumed."""

    def pay() -> str:
        """Pay."""
        return "paid"

    paying = FunctionTool(pay, require_confirmation=True)
    expert = single("expert", call("pay"), "expert knows", tools=[paying])
    asked = [call("chore", request="x"), call("expert", request="y"), call("pay")]
    chore = task("chore", finish(result="chore is done"))
    chat = Chat(agent("root", asked, "done", tools=[paying], sub_agents=[chore, expert]))
    waiting = pending(await chat.say("go"))
    events = await chat.answer(*map(approve, waiting))
    answers = [(e.author, r.name) for e in events for r in e.get_function_responses()]
    assert answers == [
        ("root", "pay"),
        ("expert", "pay"),
        ("root", "expert"),
        ("chore", "finish_task"),
        ("user", "chore"),
    ]
    assert story(events)[-1] == "root: done"


@pytest.mark.parametrize("inner", ["single_turn", "task"])
@pytest.mark.parametrize("outer", ["single_turn", "task"])
@pytest.mark.parametrize("handed_over", [False, True])
async def test_an_agent_that_calls_waits_for_one_that_is_called_by_the_one_that_it_has_called(
    outer: Literal["single_turn", "task"], inner: Literal["single_turn", "task"], handed_over: bool
) -> None:
    """An answer goes to the innermost one, and what comes of it to each that has called."""

    def pay() -> str:
        """Pay."""
        return "paid"

    def called(name: str, mode: Literal["single_turn", "task"], *answers: Any, **fields: Any) -> LlmAgent:
        last = finish(result=f"{name} is done") if mode == "task" else f"{name} is done"
        return agent(name, *answers, last, mode=mode, **fields)

    payer = called("payer", inner, call("pay"), tools=[FunctionTool(pay, require_confirmation=True)])
    expert = called("expert", outer, call("payer", request="pay"), sub_agents=[payer])
    root = agent("desk", call("expert", request="go"), "done", sub_agents=[expert])
    if handed_over:
        root = agent("root", hand_to("desk"), sub_agents=[root])
    chat = Chat(root)
    asked = pending(await chat.say("go"))
    events = await chat.answer(*map(approve, asked))
    answered = [(r.name, r.response) for e in events for r in e.get_function_responses() if r.name != "finish_task"]
    assert answered == [
        ("pay", {"result": "paid"}),
        ("payer", {"result": "payer is done"}),
        ("expert", {"result": "expert is done"}),
    ]
    assert story(events)[-1] == "desk: done"


async def test_an_agent_that_calls_waits_for_one_that_the_one_it_has_called_has_handed_over_to() -> None:
    def pay() -> str:
        """Pay."""
        return "paid"

    def hand_on(tool_context: ToolContext) -> str:
        """Hand the case on."""
        tool_context.actions.transfer_to_agent = "payer"
        return "handed on"

    payer = agent("payer", call("pay"), "It is paid.", tools=[FunctionTool(pay, require_confirmation=True)])
    expert = single("expert", call("hand_on"), tools=[hand_on], sub_agents=[payer])
    chat = Chat(agent("root", call("expert", request="go"), "done", sub_agents=[expert]))
    asked = pending(await chat.say("go"))
    assert story(await chat.answer(*map(approve, asked)))[-1] == "root: done"


async def test_single_turns_that_wait_together_go_on_together_each_on_its_own_branch() -> None:
    """Their answers are one event in call order, each by its name; what they do has keys of their calls' own."""

    def pay() -> str:
        """Pay."""
        return "paid"

    def waiting(name: str) -> LlmAgent:
        answers = call("pay"), f"{name} is done", f"{name} again"
        return single(name, *answers, tools=[FunctionTool(pay, require_confirmation=True)])

    calls = [named_call("c1", "a", request="go"), named_call("c2", "b", request="go")]
    again = named_call("c3", "b", request="go")
    root = agent("root", calls, again, "all done", sub_agents=[waiting("a"), waiting("b")])
    effects = Journal(invocation="first:")
    chat = Chat(SequentialAgent(name="row", sub_agents=[root]), effects=effects)
    asked = pending(await chat.say("go"))
    effects.invocation = "then:"
    events = await chat.answer(*map(approve, asked))
    [both] = [each for each in events if {r.id for r in each.get_function_responses()} & {"c1", "c2"}]
    assert [(r.id, r.name, r.response) for r in both.get_function_responses()] == [
        ("c1", "a", {"result": "a is done"}),
        ("c2", "b", {"result": "b is done"}),
    ]
    places = {("a", "a@c1"), ("b", "b@c2"), ("b", "b@c3"), ("root", None)}
    assert {(each.author, each.branch) for each in events} == places
    assert sorted(key for key in effects.given if key.startswith("then:") and "/model/" in key) == [
        "then:row.root/0/tool/0/row.root.a/0/model/0",
        "then:row.root/0/tool/1/row.root.b/0/model/0",
        "then:row.root/1/model/0",
        "then:row.root/1/tool/0/row.root.b/0/model/0",
        "then:row.root/2/model/0",
    ]


async def test_a_delegates_branch_is_within_that_of_its_coordinator() -> None:
    root = agent("root", named_call("c1", "a", request="go"), "done", sub_agents=[single("a", "here")])
    other = agent("other", "hi")
    events = await Chat(ParallelAgent(name="both", sub_agents=[root, other])).say("go")
    assert {each.author: each.branch for each in events} == {
        "root": "both.root",
        "a": "both.root.a@c1",
        "other": "both.other",
    }
