"""What an agent is shown of a history (cases, areas 8 and 9; spec §9.1 to §9.5, §9.9, §9.10)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types
from kit import agent, context, event, named_call, result, shown, text, user

from flowloom import BaseAgent, Event, Flow, InvocationContext, LlmAgent, LlmRequest, RunConfig
from flowloom.events.event import UNFIT_OUTPUT
from flowloom.log import Viewer
from flowloom.models.contents import special_contents
from flowloom.processors import Contents
from flowloom.testing import call

LEAD = "user: For context, this happened elsewhere in the conversation:"


async def seen(*events: Event, by: LlmAgent | None = None, **where: Any) -> list[str]:
    """What `root` is shown, a line for each part."""
    root = by or agent("root")
    return shown((await root.flow.assemble(context(root, *events, **where))).request)


def none() -> LlmAgent:
    return agent("root", include_contents="none")


@pytest.mark.parametrize("include", ["none", "default"])
async def test_no_events_no_contents(include: Any) -> None:
    assert await seen(by=agent("root", include_contents=include)) == []


async def test_two_user_messages() -> None:
    """Default | both; none | last only."""
    log = [event("user", "one"), event("user", "two")]
    assert await seen(*log) == ["user: one", "user: two"]
    assert await seen(*log, by=none()) == ["user: two"]


FOREIGN = [
    event("helper", call("look")),
    event("helper", result("c0", "look", {"n": 1})),
    event("helper", "found it"),
    event("root", named_call("c1", "use")),
    event("root", result("c1", "use", {})),
]


async def test_another_agents_call_result_and_text_are_told_as_context() -> None:
    """Default | three context messages + own FC."""
    assert await seen(*FOREIGN) == [
        LEAD,
        "user: [helper] called tool `look` with parameters: {}",
        LEAD,
        'user: [helper] tool `look` returned: {"n":1}',
        LEAD,
        "user: [helper] said: found it",
        "model: use()",
        "model: use -> {}",
    ]


async def test_none_begins_with_the_other_agents_last_text() -> None:
    assert (await seen(*FOREIGN, by=none()))[:2] == [LEAD, "user: [helper] said: found it"]


@pytest.mark.parametrize("signature", [None, b"signed"])
async def test_what_another_agent_showed_is_shown_as_it_is(signature: bytes | None) -> None:
    """Signed or not; a signature alone, and what is empty, is told to no one."""
    image = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"), thought_signature=signature)
    said = event("helper", image, types.Part(thought_signature=b"alone"), types.Part(text=""))
    root = agent("root")
    [content] = (await root.flow.assemble(context(root, said))).request.contents
    assert (content.parts or [])[1:] == [image]
    assert await seen(event("helper", types.Part(thought_signature=b"alone"))) == []


async def test_all_that_another_agent_said_and_showed_is_told_in_its_order() -> None:
    """But for an answer that did not fit, which is told once it does."""
    image = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    said = event("helper", "look", image, "nice?", custom_metadata={"mark": 1})
    root = agent("root")
    [content] = (await root.flow.assemble(context(root, said))).request.contents
    assert [part.text for part in (content.parts or [])[1:]] == ["[helper] said: look", None, "[helper] said: nice?"]
    assert await seen(event("helper", "{}", custom_metadata={UNFIT_OUTPUT: "a field is missing"})) == []


async def test_code_that_another_agent_ran_is_told_unless_its_provider_ran_it() -> None:
    """Then its result stands in the same answer."""
    code = types.Part(executable_code=types.ExecutableCode(code="1 + 1", language=types.Language.PYTHON))
    gave = types.Part(code_execution_result=types.CodeExecutionResult(output="2", outcome=types.Outcome.OUTCOME_OK))
    root = agent("root")
    for parts, told in (([code], [code]), ([code, gave], [])):
        shown = (await root.flow.assemble(context(root, event("helper", "so:", *parts)))).request.contents
        assert (shown[0].parts or [])[2:] == told


def test_contents_say_whose_rule_they_go_by() -> None:
    """If it is not the usual one."""

    def all_of_it(event: Event, viewer: Viewer) -> bool:
        return True

    assert repr(Contents()) == "Contents()"
    assert repr(Contents(visible=all_of_it)) == "Contents(visible=all_of_it)"


async def test_missing_arguments_are_told_as_null() -> None:
    """`null` args rendering."""
    bare = types.Part(function_call=types.FunctionCall(name="look"))
    assert (await seen(event("helper", bare)))[1] == "user: [helper] called tool `look` with parameters: null"


@pytest.mark.parametrize("include", ["none", "default"])
async def test_an_agents_own_events_are_all_shown(include: Any) -> None:
    """Only own events | all three (no pivot => everything)."""
    log = [event("root", "mine"), event("root", named_call("c1", "use")), event("root", result("c1", "use", {}))]
    assert await seen(*log, by=agent("root", include_contents=include)) == [
        "model: mine",
        "model: use()",
        "model: use -> {}",
    ]


async def test_an_event_of_another_scope_begins_no_turn() -> None:
    """None + scope | unscoped user turn followed by a scoped one, unscoped agent."""
    log = [event("user", "mine"), event("user", "a task's", isolation_scope="t1")]
    assert await seen(*log, by=none()) == ["user: mine"]


async def test_a_siblings_reply_begins_no_turn() -> None:
    """None + branch | own-branch user input then sibling-branch reply."""
    log = [event("user", "mine", branch="side.root"), event("other", "theirs", branch="side.other")]
    assert await seen(*log, by=none(), branch="side.root") == ["user: mine"]


async def test_a_handover_begins_no_turn() -> None:
    """The agent that was handed over to sees the question, not just that it was called."""
    handed = event("boss", result("c1", "transfer_to_agent", {}), actions={"transfer_to_agent": "root"})
    log = [
        event("user", "the question"),
        event("boss", named_call("c1", "transfer_to_agent", agent_name="root")),
        handed,
    ]
    assert (await seen(*log, by=none()))[0] == "user: the question"


async def test_a_handover_beside_other_calls_begins_no_turn() -> None:
    """What else was called in the same answer takes the question from the agent as little."""
    calls = [named_call("c1", "look"), named_call("c2", "transfer_to_agent", agent_name="root")]
    results = [result("c1", "look", {}), result("c2", "transfer_to_agent", {})]
    log = [
        event("user", "the question"),
        event("boss", text("One moment."), *calls),
        event("boss", *results, actions={"transfer_to_agent": "root"}),
    ]
    assert (await seen(*log, by=none()))[0] == "user: the question"


async def test_an_agent_without_a_model_is_shown_nothing() -> None:
    """Non-LLM agent | request untouched."""

    class Custom(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            return
            yield

    request = LlmRequest()
    Contents()(context(Custom(name="c"), event("user", "hi")), request)
    assert request.contents == []


async def test_events_without_content_are_skipped() -> None:
    assert await seen(Event(author="user"), event("user", "hi"), Event(author="root")) == ["user: hi"]


async def test_a_branch_sees_itself_and_what_is_above_it() -> None:
    """Agent at branch1.task1; events branch1, branch1.task1, branch12, branch2, none | 1st, 2nd, last visible."""
    log = [event("user", str(b), branch=b) for b in ("branch1", "branch1.task1", "branch12", "branch2", None)]
    assert await seen(*log, branch="branch1.task1") == ["user: branch1", "user: branch1.task1", "user: None"]


SCOPED = [event("user", str(scope), isolation_scope=scope) for scope in ("task-1", "task-2", None)]


async def test_a_scoped_agent_sees_its_scope_only() -> None:
    assert (await seen(*SCOPED, isolation_scope="task-1"))[-1] == "user: task-1"
    assert "user: task-2" not in await seen(*SCOPED, isolation_scope="task-1")


async def test_an_unscoped_agent_sees_what_has_no_scope() -> None:
    assert await seen(*SCOPED) == ["user: None"]


@pytest.mark.parametrize("none", ["", None])
async def test_an_empty_scope_is_none_and_so_is_an_empty_branch(none: str | None) -> None:
    """As another program may have stored it."""
    log = [event("user", "one", isolation_scope=""), event("user", "two", branch=""), event("user", "three")]
    for branch in (none, "side"):
        assert await seen(*log, isolation_scope=none, branch=branch) == ["user: one", "user: two", "user: three"]


@pytest.mark.parametrize(
    ("name", "call_id"),
    [("adk_request_confirmation", "r1"), ("adk_request_credential", "r1"), ("adk_request_input", "adk-input-1")],
)
async def test_requests_to_the_client_and_their_answers_are_hidden(name: str, call_id: str) -> None:
    """Confirmation FC + confirmation FR | nothing; credential request FC | nothing; a tool's question | nothing."""
    asked = event("root", named_call(call_id, name), long_running_tool_ids=[call_id])
    assert await seen(asked, event("user", result(call_id, name, {}))) == []


@pytest.mark.parametrize("name", ["adk_request_confirmation", "adk_request_credential"])
async def test_what_another_agents_model_calls_by_their_names_is_hidden(name: str) -> None:
    """The model that made the call is shown it, with its error."""
    made = named_call("c1", name), result("c1", name, {"error": "no tool"})
    own, foreign = ([event(author, "so", made[0]), event(author, made[1])] for author in ("root", "helper"))
    assert await seen(*own) == ["model: so", f"model: {name}()", f"model: {name} -> {{'error': 'no tool'}}"]
    assert await seen(*foreign) == [LEAD, "user: [helper] said: so"]


async def test_a_call_for_input_with_an_id_from_elsewhere_is_shown() -> None:
    """It is a tool of another program, whose calls have ids of their own."""
    asked = event("root", named_call("c1", "adk_request_input"), long_running_tool_ids=["c1"])
    assert await seen(asked, event("user", result("c1", "adk_request_input", {"n": 1}))) == [
        "model: adk_request_input()",
        "user: adk_request_input -> {'n': 1}",
    ]


async def test_words_beside_a_confirmation_are_shown() -> None:
    """Decision 30: a mixed message is stored, and the model consulted."""
    answer = result("r1", "adk_request_confirmation", {"confirmed": True})
    assert await seen(event("user", answer, text("and hurry"))) == ["user: and hurry"]


async def test_transcriptions_of_one_speaker_are_one_text() -> None:
    """Input chunks, output chunks, input | three texts: merged user, merged model, user."""

    def heard(kind: str, words: str) -> Event:
        return Event(
            author="user" if kind == "input" else "root", **{f"{kind}_transcription": types.Transcription(text=words)}
        )

    log = [
        heard("input", "hel"),
        heard("input", "lo"),
        heard("output", "hi "),
        heard("output", "you"),
        heard("input", "ok"),
    ]
    assert await seen(*log) == ["user: hello", "model: hi you", "user: ok"]


async def test_another_agents_thoughts_are_dropped_unless_asked_for() -> None:
    """Other agent event with thought part | thought dropped (decision 15)."""
    log = [
        event("user", "q"),
        event("helper", text("secret", thought=True), "public"),
        event("helper", text("x", thought=True)),
    ]
    assert await seen(*log) == ["user: q", LEAD, "user: [helper] said: public"]
    shown_all = await seen(*log, run_config=RunConfig(include_thoughts_from_other_agents=True))
    assert "user: [helper] said: secret" in shown_all
    empty = event("helper", text("", thought=True), types.Part(thought=True))
    assert await seen(empty, run_config=RunConfig(include_thoughts_from_other_agents=True)) == []


async def test_an_answer_to_another_agents_call_is_told_as_well() -> None:
    """The user's result for a long-running call of another agent is no orphan."""
    asked = event("helper", named_call("c1", "ask"), long_running_tool_ids=["c1"])
    told = await seen(event("user", "q"), asked, event("user", result("c1", "ask", {"v": "yes"})))
    assert told[-1] == 'user: [user] tool `ask` returned: {"v":"yes"}'


DELEGATION = event("boss", named_call("t1", "root", request="count"))


ANSWER = result("t9", "root", {"result": "done"})


async def test_a_task_begins_with_what_was_asked_for() -> None:
    """Scope == delegating FC id, task mode | first content = JSON of FC args, then history."""
    asked = event("user", "so?", isolation_scope="t1")
    lines = await seen(DELEGATION, asked, by=agent("root", mode="task"), isolation_scope="t1")
    assert lines == ['user: {"request": "count"}', "user: so?"]


async def test_a_single_turn_is_told_that_nobody_will_answer() -> None:
    lines = await seen(DELEGATION, by=agent("root", mode="single_turn"), isolation_scope="t1")
    assert lines[0] == 'user: {"request": "count"}'
    assert "Nobody will answer" in lines[1]


async def test_a_task_without_a_call_begins_with_the_users_message() -> None:
    lines = await seen(by=agent("root", mode="task"), isolation_scope="t9", user_content=user("do it"))
    assert lines == ["user: do it"]


@pytest.mark.parametrize(
    "log",
    [[event("boss", named_call("t9", "root"))], [event("boss", named_call("t9", "root", n=1)), event("boss", ANSWER)]],
    ids=["asked for nothing", "reported already"],
)
async def test_a_task_whose_call_tells_nothing_new_begins_with_the_users_message(log: list[Event]) -> None:
    lines = await seen(*log, by=agent("root", mode="task"), isolation_scope="t9", user_content=user("do it"))
    assert lines == ["user: do it"]


async def test_a_task_of_which_nobody_says_anything_begins_with_nothing() -> None:
    assert await seen(by=agent("root", mode="task"), isolation_scope="t9") == []


async def test_a_single_turn_is_shown_what_came_since_the_latest_input() -> None:
    log = [event("user", "old"), event("root", "then"), event("user", "new")]
    assert await seen(*log, by=agent("root", mode="single_turn")) == ["user: new"]


async def test_an_instruction_that_changes_stands_behind_the_results_of_calls() -> None:
    """Results follow their calls."""
    log = [event("user", "go"), event("root", named_call("c1", "dig")), event("user", result("c1", "dig", {"v": 1}))]
    told = await seen(*log, by=agent("root", static_instruction="Rules.", instruction="Now."))
    assert told == ["user: go", "model: dig()", "user: dig -> {'v': 1}", "user: Now."]


async def test_the_rule_of_who_sees_what_can_be_replaced() -> None:
    def only_mine(event: Event, viewer: Any) -> bool:
        return event.author == viewer.agent

    root = agent("root", flow=Flow().with_processor(Contents(visible=only_mine), replace="contents"))
    assert await seen(event("user", "hi"), event("root", "mine"), by=root) == ["model: mine"]


async def test_contents_of_this_run_only_come_first() -> None:
    config = RunConfig(model_input_context=[user("today is Monday")])
    assert await seen(event("user", "hi"), run_config=config) == ["user: today is Monday", "user: hi"]


def test_what_needs_a_look_is_found_behind_what_a_run_adds_before() -> None:
    """Later processors look at nothing else."""
    image = types.Part(inline_data=types.Blob(data=b"x", mime_type="image/png"))
    root, config = agent("root"), RunConfig(model_input_context=[user("before"), user("all")])
    log = [event("user", "look:"), event("user", image)]
    request = LlmRequest()
    Contents()(context(root, *log, run_config=config), request)
    assert [index for index, _ in special_contents(request.contents)] == [3]


async def test_a_task_is_told_in_its_own_letters() -> None:
    """As it was asked for."""
    log = [event("root", named_call("c1", "helper", request="größer"))]
    assert await seen(*log, isolation_scope="c1") == ['user: {"request": "größer"}']
