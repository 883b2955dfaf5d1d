"""Calls that a run was cut off in are made again by the run that resumes it: once, unless their tool is idempotent."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from google.genai import types
from kit import WHERE, Chat, agent, approve, collect, event, named_call, open_calls, pending, result, story

from flowloom import (
    AgentTool,
    BaseAgent,
    BasePlugin,
    CallbackContext,
    Event,
    Flow,
    FunctionTool,
    LlmAgent,
    LongRunningFunctionTool,
    RunConfig,
    ToolContext,
)
from flowloom.log.answers import subject_call_id
from flowloom.log.marks import AGENT_TOOL_CALL, REPEATED, is_from_agent_tool

ran: list[str] = []


@pytest.fixture(autouse=True)
def fresh() -> None:
    ran.clear()


def pay(to: str) -> str:
    """Pay."""
    ran.append(to)
    return "paid"


def payer(*, idempotent: bool) -> LlmAgent:
    return agent("root", "done", tools=[FunctionTool(pay, idempotent=idempotent)])


async def resumed(root: BaseAgent, *log: Event) -> list[Event]:
    """What a run gives that goes on with an invocation of which the log has these events."""
    chat = Chat(root)
    session = await chat.runner.session_service.create_session(app_name="app", **WHERE)
    for each in (event("user", "go"), *log):
        each.invocation_id = "e-1"
        await chat.runner.session_service.append_event(session, each)
    return await collect(chat.runner.run_async(**WHERE, invocation_id="e-1"))


def calls() -> Event:
    return event("root", named_call("c1", "pay", to="ann"), named_call("c2", "pay", to="bob"))


def mark(*call_ids: str) -> Event:
    """What a run says before it makes calls again."""
    return event("root", actions={"agent_state": {REPEATED: [*call_ids]}})


def marked(events: list[Event]) -> list[str]:
    return [each for made in events for each in (made.actions.agent_state or {}).get(REPEATED, ())]


BOTH = ["root: pay -> {'result': 'paid'}", "root: pay -> {'result': 'paid'}", "root: done"]


async def test_calls_are_made_again_and_an_event_says_so_before() -> None:
    """So that a run which is cut off again knows it."""
    events = await resumed(payer(idempotent=False), calls())
    assert marked(events[:1]) == marked(events) == ["c1", "c2"]
    assert (story(events), ran) == (BOTH, ["ann", "bob"])


async def test_a_call_that_was_made_again_is_not_made_a_third_time() -> None:
    """The model is told that nothing is known of it; the other one is made."""
    events = await resumed(payer(idempotent=False), calls(), mark("c1"))
    assert (marked(events), ran) == (["c2"], ["bob"])
    told = {answer.id: answer.response for each in events for answer in each.get_function_responses()}
    assert "interrupted twice" in (told["c1"] or {})["error"]
    assert told["c2"] == {"result": "paid"}
    [refused] = [each for each in events if [answer.id for answer in each.get_function_responses()] == ["c1"]]
    assert refused.content is not None
    assert (refused.content.role, refused.get_function_responses()[0].name) == ("user", "pay")
    assert events[-1].text == "done"


@pytest.mark.parametrize("before", [[], [mark("c1"), mark("c1")]], ids=["always", "since a later release"])
async def test_a_call_of_an_idempotent_tool_is_made_again_without_a_word(before: list[Event]) -> None:
    """However often."""
    events = await resumed(payer(idempotent=True), calls(), *before)
    assert (marked(events), story(events), ran) == ([], BOTH, ["ann", "bob"])


async def test_a_call_that_has_its_result_is_not_made_again() -> None:
    """The other one of the same answer is."""
    events = await resumed(payer(idempotent=False), calls(), event("root", result("c1", "pay", {"result": "paid"})))
    assert (marked(events), ran) == (["c2"], ["bob"])


async def test_a_call_that_a_person_has_approved_is_made_for_the_first_time() -> None:
    """Only a run that resumes one which was cut off in it makes it again."""
    tool = FunctionTool(pay, idempotent=False, require_confirmation=True)
    chat = Chat(agent("root", named_call("c1", "pay", to="ann"), "done", tools=[tool]))
    [request] = pending(await chat.say("go"))
    assert marked(await chat.answer(approve(request))) == []
    stored = await chat.stored()
    said = next(at for at, each in enumerate(stored) if each.author == "user" and each.get_function_responses())
    events = await resumed(agent("root", "done", tools=[tool]), *stored[1 : said + 1])
    assert (marked(events), ran) == (["c1"], ["ann", "ann"])


def order(what: str) -> None:
    """Order something, which takes days."""


def noticed(callback_context: CallbackContext) -> None:
    callback_context.state["turns"] = callback_context.state.get("turns", 0) + 1


@pytest.mark.parametrize("kind", ["a result", "an approval"])
async def test_an_answer_is_not_lost_if_the_run_is_cut_off_behind_a_change_of_state(kind: str) -> None:
    """What a callback changes before the agent begins is no sign that the agent has used the answer."""
    tools = [LongRunningFunctionTool(order) if kind == "a result" else FunctionTool(order, require_confirmation=True)]
    root = agent("root", named_call("c1", "order", what="x"), "done", tools=tools, before_agent_callback=noticed)
    chat = Chat(root)
    asked = await chat.say("go")
    events = await chat.answer(approve(pending(asked)[-1]) if kind == "an approval" else result("c1", "order", {}))
    assert events[-1].text == "done"
    log = await chat.stored()
    for cut in range(len(log) - len(events), len(log)):
        again = agent("root", "done", tools=tools, before_agent_callback=noticed)
        assert (await resumed(again, *log[1:cut]))[-1].text == "done"


@pytest.mark.parametrize("answered", [False, True], ids=["resumed", "with another answer"])
async def test_a_call_that_a_person_has_approved_is_not_made_a_third_time(answered: bool) -> None:
    """By a run that resumes the one that was cut off twice in it, nor by one that carries out another decision."""
    tool = FunctionTool(pay, idempotent=False, require_confirmation=True)
    both = [named_call("c1", "pay", to="ann"), named_call("c2", "pay", to="bob")]
    chat = Chat(agent("root", both, "so far", tools=[tool]))
    one, two = pending(await chat.say("go"))
    await chat.answer(approve(one))
    log = await chat.stored()
    del log[next(at for at, each in enumerate(log) if each.author == "user" and each.get_function_responses()) + 1 :]
    cut = Chat(agent("root", "done", tools=[tool]))
    session = await cut.runner.session_service.create_session(app_name="app", **WHERE)
    marks = mark("c1")
    marks.invocation_id = log[0].invocation_id
    for each in (*log, marks):
        await cut.runner.session_service.append_event(session, each)
    events = await (cut.answer(approve(two)) if answered else cut.say(None, invocation_id=log[0].invocation_id))
    told = {answer.id: answer.response for each in events for answer in each.get_function_responses()}
    assert "interrupted twice" in (told["c1"] or {})["error"]
    assert (ran, told.get("c2")) == ((["ann", "bob"], {"result": "paid"}) if answered else (["ann"], None))


async def test_a_long_running_call_that_the_run_stopped_before_begins_without_a_report() -> None:
    """Nothing stands in the place of its result, which comes later; the mark keeps it from beginning twice."""
    begun: list[str] = []

    def order(what: str) -> None:
        """Order something, which takes days."""
        begun.append(what)

    stops = RunConfig(pause_on_tool_calls=["order"])
    chat = Chat(agent("root", named_call("c1", "order", what="x"), "done", tools=[LongRunningFunctionTool(order)]))
    first = await chat.say("go", run_config=stops)
    events = await chat.say(None, invocation_id=first[0].invocation_id)
    assert (marked(events), story(events), begun) == (["c1"], [], ["x"])
    assert await chat.say(None, invocation_id=first[0].invocation_id) == []
    assert begun == ["x"]


@pytest.mark.parametrize(("idempotent", "most"), [(False, 2), (True, 4)])
async def test_a_call_that_the_run_stopped_before_is_made_twice_at_most(idempotent: bool, most: int) -> None:
    """Unless its tool is idempotent: each run that makes it says so first, also the one that does for the first time,
    so that the next one knows of it if that is cut off."""
    logs: list[list[Event]] = []

    def pay(to: str, tool_context: ToolContext) -> str:
        """Pay."""
        logs.append([*tool_context.session.events])
        return "paid"

    tools = [FunctionTool(pay, idempotent=idempotent)]
    chat = Chat(agent("root", named_call("c1", "pay", to="ann"), tools=tools))
    await chat.say("go", run_config=RunConfig(pause_on_tool_calls=True))
    logs.append(await chat.stored())
    for run in (1, 2, 3, 4):
        events = await resumed(agent("root", "done", tools=tools), *logs[-1][1:])
        assert (len(logs) - 1, events[-1].text) == (min(run, most), "done")
        assert marked(events) == (["c1"] if not idempotent and run <= most else [])


async def test_an_agent_as_a_tool_that_is_answered_is_called_twice_at_most() -> None:
    """Each run that is given the answer says so before, so that those which were cut off in the agent are counted: the
    client sends its result again after each of them."""

    def helper() -> LlmAgent:
        tools = [LongRunningFunctionTool(order), FunctionTool(pay, idempotent=False)]
        said = [named_call("c2", "order", what="x")] if not ran else [named_call("c3", "pay", to="ann"), "helped"]
        return agent("helper", *said, tools=tools)

    chat = Chat(agent("root", named_call("c1", "helper", request="pay"), tools=[AgentTool(helper())]))
    await chat.say("go")
    log = await chat.stored()
    for run in (1, 2, 3):
        ran.append(f"run {run}")
        chat = Chat(agent("root", "done", tools=[AgentTool(helper())]))
        session = await chat.runner.session_service.create_session(app_name="app", **WHERE)
        for each in log:
            await chat.runner.session_service.append_event(session, each)
        events = await chat.answer(result("c2", "order", {"status": "here"}))
        assert (marked(events), events[-1].text) == (["c1"] if run < 3 else [], "done")
        said = await chat.stored()
        log = said[: next(at for at, each in enumerate(said) if each.id == events[0].id) + 1]
    assert ran == ["run 1", "ann", "run 2", "ann", "run 3"]


async def test_calls_that_the_run_stopped_before_are_made_beside_one_of_no_tool() -> None:
    """The model is told that there is none."""
    both = [named_call("c1", "pray", to="bob"), named_call("c2", "pay", to="ann")]
    stops = RunConfig(pause_on_tool_calls=True)
    chat = Chat(agent("root", both, "done", tools=[FunctionTool(pay, idempotent=False)]))
    first = await chat.say("go", run_config=stops)
    events = await chat.say(None, invocation_id=first[0].invocation_id)
    assert (ran, marked(events), events[-1].text) == (["ann"], ["c2"], "done")
    told = {answer.id: answer.response or {} for each in events for answer in each.get_function_responses()}
    assert "There is no tool `pray`" in told["c1"]["error"]
    assert told["c2"] == {"result": "paid"}


def ask() -> None:
    """Ask the user."""
    ran.append("ask")


def handing(names: str, calls: list[str]) -> LlmAgent:
    """Agents that hand over, each to the next, of which the last one pays; callbacks tell of themselves."""
    below: list[LlmAgent] = []
    for name in reversed(names):
        answers = ["done"] if name == names[-1] else []
        told: dict[str, Any] = {
            f"{when}_agent_callback": lambda callback_context, name=name, when=when: calls.append(f"{when} {name}")
            for when in ("before", "after")
        }
        below = [
            agent(
                name,
                *answers,
                tools=[FunctionTool(pay, idempotent=True), LongRunningFunctionTool(ask)],
                sub_agents=below,
                **told,
            )
        ]
    return below[0]


@pytest.mark.parametrize(
    ("names", "asks"), [("ab", ""), ("ab", "a"), ("abc", ""), ("abc", "a"), ("abc", "b"), ("abcd", "b")]
)
async def test_agents_that_handed_over_wait_for_those_that_were_cut_off(names: str, asks: str) -> None:
    """None begins anew, also if it had asked the user before; each ends behind the one that it handed over to."""
    log: list[Event] = []
    for number, (giver, taker) in enumerate(pairwise(names)):
        if giver == asks:
            log.append(event(giver, named_call("q1", "ask"), long_running_tool_ids=["q1"]))
            log.append(event("user", result("q1", "ask", {"answer": "yes"})))
        handed = [event(giver, named_call(f"t{number}", "transfer_to_agent", agent_name=taker))]
        handed.append(event(giver, result(f"t{number}", "transfer_to_agent", {"result": None})))
        handed[1].actions.transfer_to_agent = taker
        log += handed
    log.append(event(names[-1], named_call("c1", "pay", to="ann")))
    for cut in (len(log), len(log) - 1):
        ran.clear()
        calls: list[str] = []
        events = await resumed(handing(names, calls), *log[:cut])
        assert ran == (["ann"] if cut == len(log) else [])
        begun = [] if cut == len(log) else [f"before {names[-1]}"]
        under_way = names[max(names.find(asks), 0) :]  # a run that is answered begins at the agent that had asked
        assert calls == [*begun, *(f"after {name}" for name in reversed(under_way))]
        assert events[-1].text == "done"


@pytest.mark.parametrize(
    ("first", "then", "answered"),
    [(["pray"], ["pray"], []), (["pray"], ["other"], ["c1"]), (["pray"], False, ["c1"]), ([], ["pray"], ["c1"])],
    ids=["still", "another", "no more", "cut off"],
)
async def test_a_call_that_the_client_executes_waits_for_it_and_no_other_of_no_tool(
    first: list[str], then: list[str] | bool, answered: list[str]
) -> None:
    """The client has declared it for this run, and the run before stopped at it for that reason."""
    said = [named_call("c1", "pray")]
    chat = Chat(agent("root", *([said] if first else []), *["done"] * len(answered)))
    goes_on = RunConfig(pause_on_tool_calls=then)
    if first:
        [stopped] = await chat.say("go", run_config=RunConfig(pause_on_tool_calls=first))
        events = await chat.say(None, invocation_id=stopped.invocation_id, run_config=goes_on)
    else:
        session = await chat.runner.session_service.create_session(app_name="app", **WHERE)
        for each in (event("user", "go"), event("root", *said)):
            each.invocation_id = "e-1"
            await chat.runner.session_service.append_event(session, each)
        events = await chat.say(None, invocation_id="e-1", run_config=goes_on)
    told = {answer.id: answer.response or {} for each in events for answer in each.get_function_responses()}
    assert [each for each in told if "There is no tool `pray`" in told[each]["error"]] == [*told] == answered


@pytest.mark.parametrize("stopped", [True, False])
async def test_a_long_running_call_that_has_begun_does_not_begin_again_beside_one_that_is_made(stopped: bool) -> None:
    """Whether the run before stopped at the calls, and one after it was cut off in them; or was cut off itself."""
    tools = [FunctionTool(pay, idempotent=True), LongRunningFunctionTool(ask)]
    both = [named_call("c1", "ask"), named_call("c2", "pay", to="bob")]
    if stopped:
        first = Chat(agent("root", both, tools=tools))
        await first.say("go", run_config=RunConfig(pause_on_tool_calls=True))
        log = [*(await first.stored())[1:], mark("c1")]
    else:
        log = [event("root", *both, long_running_tool_ids=["c1"])]
    root = agent("root", "done", tools=tools)
    events = await resumed(root, *log)
    assert (ran, marked(events)) == (["bob"], [])
    assert [answer.id for each in events for answer in each.get_function_responses()] == ["c2"]


async def test_what_was_asked_is_not_asked_again_and_what_was_not_is() -> None:
    """Wherever the run was cut off behind the results: a decision and an input are asked for in events of their own."""

    def wonder(tool_context: ToolContext) -> Any:
        return tool_context.request_input("Why?")

    tools = [FunctionTool(pay, require_confirmation=True), FunctionTool(wonder)]
    both = [named_call("c1", "pay", to="ann"), named_call("c2", "wonder")]
    chat = Chat(agent("root", both, tools=tools))
    await chat.say("go")
    stored = (await chat.stored())[1:]
    assert len(stored) == 4
    for cut in range(2, len(stored) + 1):
        events = await resumed(agent("root", tools=tools), *stored[:cut])
        requests = [call for each in (*stored[:cut], *events) for call in each.get_function_calls()][2:]
        about = [subject_call_id(request) for request in requests]
        assert (sorted(map(str, about)), ran) == (["c1", "c2"], [])


async def test_a_call_that_another_invocation_has_left_is_not_made() -> None:
    chat = Chat(payer(idempotent=True))
    session = await chat.runner.session_service.create_session(app_name="app", **WHERE)
    left = [event("user", "go"), event("root", named_call("c0", "pay", to="eve"))]
    here = [event("user", "go on"), event("root", named_call("c1", "pay", to="ann"))]
    for each, invocation_id in zip([*left, *here], ["e-0", "e-0", "e-1", "e-1"], strict=True):
        each.invocation_id = invocation_id
        await chat.runner.session_service.append_event(session, each)
    await collect(chat.runner.run_async(**WHERE, invocation_id="e-1"))
    assert ran == ["ann"]


def inside(call_id: str) -> dict[str, Any]:
    """What tells that an event is of the agent as a tool behind a call."""
    return {"isolation_scope": call_id, "custom_metadata": {AGENT_TOOL_CALL: call_id}}


def called(*names: str, waits: bool = False) -> list[Event]:
    """Agents as tools, each called by the one before it, by `c1`, `c2` and so on. The last one had its result, and was
    cut off; or it waits for one from elsewhere."""
    below = [event(names[0], named_call("c1", names[1], request="pay"))]
    for number, (author, name) in enumerate(pairwise(names[1:]), 2):
        below.append(event(author, named_call(f"c{number}", name, request="pay"), **inside(f"c{number - 1}")))
    last, ids = f"c{len(names) - 1}", {"p1"} if waits else None
    below.append(event(names[-1], named_call("p1", "pay", to="ann"), long_running_tool_ids=ids, **inside(last)))
    return below if waits else [*below, event(names[-1], result("p1", "pay", {"result": "paid"}), **inside(last))]


class Fails(BasePlugin):
    """Ends a run before its first agent."""

    async def before_run_callback(self, **_: Any) -> None:
        raise ValueError("no")


async def log_behind(root: LlmAgent, *log: Event, answer: types.Part | None = None) -> list[Event]:
    """The log behind a run that goes on with the first invocation of this one, and that fails before its first agent;
    what agents as tools have left there left out."""
    chat = Chat(root, plugins=[Fails(name="fails")])
    session = await chat.runner.session_service.create_session(app_name="app", **WHERE)
    for each in (event("user", "go"), *log):
        each.invocation_id = each.invocation_id or "e-1"
        await chat.runner.session_service.append_event(session, each)
    with pytest.raises(ValueError, match="no"):
        await (chat.say(None, invocation_id="e-1") if answer is None else chat.answer(answer))
    return [each for each in await chat.stored() if not is_from_agent_tool(each)]


@pytest.mark.parametrize("names", [("root", "a"), ("root", "a", "b"), ("root", "a", "b", "c")], ids=len)
@pytest.mark.parametrize("waits", [False, True], ids=["cut off", "waits"])
async def test_calls_of_agents_that_were_cut_off_are_answered_if_the_run_that_goes_on_does_not_reach_them(
    names: tuple[str, ...], waits: bool
) -> None:
    """However deep they are. Nothing is left without a result but what waits, at its end, for one from elsewhere."""
    root = agent("root", tools=[AgentTool(agent("a"))])
    behind = await log_behind(root, *called(*names, waits=waits))
    assert open_calls(behind) == ({"c1"} if waits else set())
    assert {each.author for each in behind} == {"user", "root"}


async def test_a_call_is_left_open_if_one_of_the_agents_below_it_waits() -> None:
    """Another one beside that may have been cut off."""
    log = [
        event("root", named_call("c1", "a", request="pay")),
        event("a", named_call("c2", "b", request="pay"), named_call("c3", "b", request="pay"), **inside("c1")),
        event("b", named_call("p1", "pay", to="ann"), **inside("c2")),
        event("b", result("p1", "pay", {"result": "paid"}), **inside("c2")),
        event("b", named_call("p2", "pay", to="bob"), long_running_tool_ids={"p2"}, **inside("c3")),
    ]
    root = agent("root", tools=[AgentTool(agent("a"))])
    for cut in range(len(log) - 2, len(log) + 1):
        assert open_calls(await log_behind(root, *log[:cut])) == ({"c1"} if cut == len(log) else set())


async def test_a_call_is_answered_beside_one_whose_agent_waits() -> None:
    log = [
        event("root", named_call("c1", "a", request="pay"), named_call("c2", "a", request="pay")),
        event("a", named_call("p1", "pay", to="ann"), long_running_tool_ids={"p1"}, **inside("c1")),
        event("a", named_call("p2", "pay", to="bob"), **inside("c2")),
    ]
    root = agent("root", tools=[AgentTool(agent("a"))])
    assert open_calls(await log_behind(root, *log)) == {"c1"}


async def test_a_call_that_delegates_is_answered_if_an_agent_as_a_tool_below_it_was_cut_off() -> None:
    """It does not wait for anything."""
    helper = agent("helper", tools=[AgentTool(agent("a"))], mode="task")
    log = called("helper", "a")
    log[0].isolation_scope = "t1"
    delegated = event("root", named_call("t1", "helper", request="pay"))
    assert open_calls(await log_behind(agent("root", sub_agents=[helper]), delegated, *log)) == set()


async def test_a_call_that_delegates_is_left_open_if_its_agent_waits_since_a_later_message() -> None:
    """A task goes on over many of them, and its call belongs to the first one."""
    helper = agent("helper", tools=[LongRunningFunctionTool(order)], mode="task")
    log = [
        event("root", named_call("t1", "helper", request="pay")),
        event("helper", "Which one?", isolation_scope="t1"),
        event("user", "That one.", isolation_scope="t1", invocation_id="e-2"),
        event("helper", named_call("o1", "order", what="x"), long_running_tool_ids={"o1"}, isolation_scope="t1"),
    ]
    log[-1].invocation_id = "e-2"
    assert open_calls(await log_behind(agent("root", sub_agents=[helper]), *log)) == {"t1"}


@pytest.mark.parametrize("begun", [False, True])
async def test_calls_that_another_invocation_has_left_are_not_answered(begun: bool) -> None:
    """Cut off or not begun, they belong to a run that resumes that."""
    log = called("root", "a") if begun else called("root", "a")[:1]
    for each in log:
        each.invocation_id = "e-0"
    assert open_calls(await log_behind(agent("root", tools=[AgentTool(agent("a"))]), *log)) == {"c1"}


async def test_a_run_with_an_answer_leaves_the_calls_that_it_does_not_reach() -> None:
    """Another run may be about them, with another answer; one without a message answers them."""
    tools = [AgentTool(agent("a")), LongRunningFunctionTool(order), pay]
    log = called("root", "a")
    log[0] = event(
        "root",
        named_call("c1", "a", request="pay"),
        named_call("c2", "pay", to="bob"),
        named_call("o1", "order", what="x"),
        long_running_tool_ids={"o1"},
    )
    assert open_calls(await log_behind(agent("root", tools=tools), *log, answer=result("o1", "order", {}))) == {
        "c1",
        "c2",
    }
    assert open_calls(await log_behind(agent("root", tools=tools), *log)) == set()


async def test_a_handover_is_made_again_beside_a_call_of_a_tool() -> None:
    """Though no tool that the agent was given has its name."""
    root = agent("root", "done", tools=[pay], sub_agents=[agent("helper", "helped")])
    log = event("root", named_call("c1", "pay", to="ann"), named_call("c2", "transfer_to_agent", agent_name="helper"))
    events = await resumed(root, log)
    assert ran == ["ann"]
    assert [each.text for each in events if each.author == "helper"] == ["helped"]


async def test_a_call_that_is_made_again_and_fails_ends_the_run() -> None:
    """As one that is made for the first time."""

    def fail() -> str:
        """Fail."""
        raise ValueError("no")

    root = agent("root", "done", tools=[fail], tool_errors="raise")
    with pytest.raises(ValueError, match="no"):
        await resumed(root, event("root", named_call("c1", "fail")))


async def test_an_agent_as_a_tool_that_waits_is_not_called_again_beside_a_call_that_is() -> None:
    """A run without a message does not answer what it waits for."""
    helper = agent("helper", tools=[LongRunningFunctionTool(pay)])
    inner: dict[str, Any] = {"isolation_scope": "c1", "custom_metadata": {AGENT_TOOL_CALL: "c1"}}
    log = [
        event("root", named_call("c1", "helper", request="pay"), named_call("c3", "pay", to="bob")),
        event("helper", named_call("c2", "pay", to="ann"), long_running_tool_ids={"c2"}, **inner),
        event("helper", result("c2", "pay", {"status": "pending"}), **inner),
    ]

    def called(tool: Any, *_: Any, **__: Any) -> None:
        ran.append(tool.name)

    await resumed(agent("root", tools=[AgentTool(helper), pay], before_tool_callback=called), *log)
    assert ran == ["pay", "bob"]


async def test_an_agent_as_a_tool_that_was_cut_off_goes_on() -> None:
    """With the results that it has."""
    inner: dict[str, Any] = {"isolation_scope": "c1", "custom_metadata": {AGENT_TOOL_CALL: "c1"}}
    log = [
        event("root", named_call("c1", "helper", request="pay")),
        event("helper", named_call("c2", "pay", to="ann"), **inner),
        event("helper", result("c2", "pay", {"result": "paid"}), **inner),
    ]
    helper = agent("helper", "helped", tools=[pay])
    events = await resumed(agent("root", "done", tools=[AgentTool(helper)]), *log)
    assert (story(events)[-2:], ran) == (["root: helper -> {'result': 'helped'}", "root: done"], [])


async def test_a_call_of_a_tool_that_was_not_long_running_when_it_was_called_is_made_again() -> None:
    """Nobody was told to wait for its result."""
    events = await resumed(agent("root", "done", tools=[LongRunningFunctionTool(pay)]), calls())
    assert (marked(events), ran) == ([], ["ann", "bob"])


async def test_a_call_is_answered_also_in_a_flow_that_resolves_no_tools() -> None:
    """There is none of its name, the model is told."""
    root = agent("root", "done", tools=[pay], flow=Flow().without("tools").without("tool_declarations"))
    events = await resumed(root, calls())
    assert all("There is no tool `pay`" in line for line in story(events)[:2])
    assert (ran, events[-1].text) == ([], "done")
