"""What came of a run."""

from __future__ import annotations

from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, hand_to, said
from kit import text as words
from pydantic import BaseModel

from flowloom import (
    AgentTool,
    Context,
    FunctionTool,
    InMemoryRunner,
    LlmAgent,
    LlmResponse,
    LongRunningFunctionTool,
    ParallelAgent,
    PendingCall,
    RunResult,
    SequentialAgent,
    ToolConfirmation,
    ToolContext,
    answers,
)
from flowloom.errors import CallbackError
from flowloom.testing import call
from runner.situations import held


class Sum(BaseModel):
    total: int


def using(answer: Any, tokens: int) -> LlmResponse:
    """An answer that took so many tokens, three of them for the question."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=3, candidates_token_count=tokens - 3, total_token_count=tokens
    )
    return LlmResponse(content=said(answer), usage_metadata=usage)


def note(key: str, value: Any, tool_context: ToolContext) -> str:
    """Note."""
    tool_context.state[key] = value
    return "noted"


async def ran(root: Any, message: Any = "go", **options: Any) -> RunResult:
    return await held(Chat(root), message, **options).result()


@pytest.mark.parametrize("config", [None, STREAMED], ids=["plain", "streamed"])
async def test_the_text_is_the_final_answer_without_thoughts_or_pieces(config: Any) -> None:
    answer = [words("hm", thought=True), words("hello "), words("you")]
    result = await ran(
        agent("root", [words("I look"), call("note", key="a", value=1)], answer, tools=[note]), run_config=config
    )
    assert (result.status, result.text, result.output) == ("final", "hello you", None)
    assert not any(event.partial for event in result.events)


async def test_of_a_sequence_it_is_what_the_last_member_said() -> None:
    result = await ran(SequentialAgent(name="row", sub_agents=[agent("a", "one"), agent("b", "two")]))
    assert result.text == "two"


async def test_of_parallel_agents_it_is_what_came_last() -> None:
    root = ParallelAgent(
        name="side",
        sub_agents=[
            agent("a", call("note", key="a", value=1), "one", tools=[note]),
            agent("b", "two"),
        ],
    )
    result = await ran(root)
    assert (result.text, result.state_delta) == ("one", {"a": 1})
    assert {event.text for event in result.events if event.text} == {"one", "two"}


async def test_after_handing_over_it_is_the_other_agents() -> None:
    result = await ran(agent("root", hand_to("helper"), "never", sub_agents=[agent("helper", "helped")]))
    assert result.text == "helped"


@pytest.mark.parametrize("with_tools", [False, True])
async def test_the_output_is_data_if_the_agent_has_a_schema(with_tools: bool) -> None:
    answer = call("set_model_response", total=3) if with_tools else '{"total": 3}'
    root = agent("root", answer, output_schema=Sum, output_key="sum", tools=[note] if with_tools else [])
    result = await ran(root)
    assert (result.status, result.output, result.state_delta) == ("final", Sum(total=3), {"sum": {"total": 3}})
    assert '"total"' in result.text


async def test_the_output_is_that_of_the_agent_that_answered_last() -> None:
    schema = agent("a", '{"total": 3}', output_schema=Sum)
    assert (await ran(SequentialAgent(name="row", sub_agents=[schema, agent("b", "two")]))).output is None
    schema = agent("a", '{"total": 3}', output_schema=Sum)
    assert (await ran(SequentialAgent(name="row", sub_agents=[agent("b", "two"), schema]))).output == Sum(total=3)


async def test_the_state_delta_has_the_later_change_of_each_key() -> None:
    calls = [call("note", key="a", value=1), call("note", key="user:b", value=2)]
    root = agent("root", calls, call("note", key="a", value=3), "done", tools=[note])
    assert (await ran(root)).state_delta == {"a": 3, "user:b": 2}


async def test_temporary_state_is_no_change() -> None:
    root = agent("root", call("note", key="temp:a", value=1), "done", tools=[note])
    assert (await ran(root)).state_delta == {}


async def test_usage_is_summed_over_sub_agents_and_agent_tools() -> None:
    tool = AgentTool(agent("tool", using("t", 100)))
    helper = agent("helper", using(call("tool", request="x"), 10), using("done", 1000), tools=[tool])
    result = await ran(agent("root", using(hand_to("helper"), 10000), "never", sub_agents=[helper]))
    assert result.usage.total_tokens == 11110
    assert result.usage.input_tokens == 12
    assert (result.model_calls, result.tool_calls) == (4, 2)


async def test_usage_is_summed_over_parallel_branches_and_delegated_agents() -> None:
    clerk = agent("clerk", using("clerk", 100), mode="single_turn")
    a = agent("a", using(call("clerk", request="x"), 10), using("a", 10), sub_agents=[clerk])
    result = await ran(ParallelAgent(name="side", sub_agents=[a, agent("b", using("b", 1))]))
    assert (result.usage.total_tokens, result.model_calls) == (121, 4)


# -- what waits ----------------------------------------------------------------------------------------------


def pay(amount: int) -> dict[str, int]:
    """Pay."""
    return {"paid": amount}


def payer(name: str = "root", *then: Any) -> LlmAgent:
    tool = FunctionTool(pay, require_confirmation=True)
    return agent(name, using(call("pay", amount=5), 10), *then or (using("paid", 10),), tools=[tool])


async def test_a_run_that_waits_for_a_person_is_paused() -> None:
    chat = Chat(payer())
    result = await held(chat).result()
    assert (result.status, result.error) == ("paused", None)
    (waiting,) = result.pending
    assert (waiting.kind, waiting.name, waiting.args, waiting.agent) == ("confirmation", "pay", {"amount": 5}, "root")
    assert waiting.invocation_id == result.invocation_id
    last = await held(chat, answers(waiting.approve())).result()
    assert (last.status, last.text, last.pending) == ("final", "paid", [])
    assert last.invocation_id == result.invocation_id


@pytest.mark.parametrize("first", ["payer", "talker"])
async def test_a_branch_that_waits_pauses_the_run_whoever_speaks_last(first: str) -> None:
    talker = agent("talker", *([call("note", key="a", value=1)] * 3), "talked", tools=[note])
    members = [payer("payer"), talker]
    root = ParallelAgent(name="side", sub_agents=members if first == "payer" else members[::-1])
    chat = Chat(root)
    result = await held(chat).result()
    assert (result.status, [each.agent for each in result.pending]) == ("paused", ["payer"])
    last = await held(chat, answers(result.pending[0].approve())).result()
    assert (last.status, last.text, last.pending) == ("final", "paid", [])


async def test_as_long_as_one_of_several_waits_the_run_is_paused() -> None:
    tool = FunctionTool(pay, require_confirmation=True)
    chat = Chat(agent("root", [call("pay", amount=1), call("pay", amount=2)], "paid", "paid", tools=[tool]))
    first = await held(chat).result()
    assert [each.args for each in first.pending] == [{"amount": 1}, {"amount": 2}]
    second = await held(chat, answers(first.pending[1].approve())).result()
    assert (second.status, [each.args for each in second.pending]) == ("paused", [{"amount": 1}])
    last = await held(chat, answers(first.pending[0].reject("too much"))).result()
    assert (last.status, last.text, last.pending) == ("final", "paid", [])


@pytest.mark.parametrize("report", [None, {"status": "pending"}])
async def test_a_long_running_tool_waits_for_its_result(report: Any) -> None:
    def order() -> Any:
        """Order."""
        return report

    model_answers = [call("order"), *(["ordered"] if report else []), "it came"]
    chat = Chat(agent("root", *model_answers, tools=[LongRunningFunctionTool(order)]))
    first = await held(chat).result()
    assert (first.status, first.text) == ("paused", "ordered" if report else "")
    assert [(each.kind, each.name) for each in first.pending] == [("tool", "order")]
    last = await held(chat, answers(first.pending[0].reply({"status": "here"}))).result()
    assert (last.status, last.text, last.pending) == ("final", "it came", [])


async def test_a_question_to_a_person_waits() -> None:
    async def ask(tool_context: Context) -> Any:
        """Ask."""
        return await tool_context.request_input("How many?", response_schema=None)

    chat = Chat(agent("root", call("ask"), "thanks", tools=[ask]))
    first = await held(chat).result()
    assert [(each.kind, each.message) for each in first.pending] == [("input", "How many?")]
    assert first.status == "paused"
    last = await held(chat, answers(first.pending[0].reply("three"))).result()
    assert (last.status, last.text, last.pending) == ("final", "thanks", [])


async def test_an_agent_tool_that_waits_pauses_the_run() -> None:
    chat = Chat(agent("root", call("payer", request="x"), "done", tools=[AgentTool(payer("payer"))]))
    first = await held(chat).result()
    assert (first.status, [(each.agent, each.name) for each in first.pending]) == ("paused", [("payer", "pay")])
    last = await held(chat, answers(first.pending[0].approve())).result()
    assert (last.status, last.text, last.pending) == ("final", "done", [])


async def test_another_message_is_another_run_for_which_nothing_waits() -> None:
    chat = Chat(payer("root", "never mind"))
    await held(chat).result()
    result = await held(chat, "never mind").result()
    assert (result.status, result.pending) == ("final", [])


# -- answering in the process ----------------------------------------------------------------------------------


def asking(confirm: Any, *then: Any) -> InMemoryRunner:
    return InMemoryRunner(payer("root", *then), confirm=confirm)


async def answered_by(confirm: Any, *then: Any) -> RunResult:
    return await asking(confirm, *then).run_to_result(user_id="u", session_id="s", new_message="go")


async def test_confirm_answers_at_once_and_the_result_is_that_of_all_turns() -> None:
    asked: list[PendingCall] = []

    async def confirm(pending: PendingCall) -> bool:
        asked.append(pending)
        return True

    result = await answered_by(confirm)
    assert (result.status, result.text, result.pending) == ("final", "paid", [])
    assert [(each.name, each.args) for each in asked] == [("pay", {"amount": 5})]
    assert (result.usage.total_tokens, result.model_calls) == (20, 2)
    assert len({event.invocation_id for event in result.events}) == 1
    responses = [answer.response for event in result.events for answer in event.get_function_responses()]
    assert {"paid": 5} in responses


async def test_confirm_may_refuse_and_change_and_leave_it_open() -> None:
    result = await answered_by(lambda _: False)
    assert result.status == "final"
    assert {"paid": 5} not in [a.response for event in result.events for a in event.get_function_responses()]
    result = await answered_by(lambda _: ToolConfirmation(confirmed=True, edited_args={"amount": 3}))
    assert {"paid": 3} in [a.response for event in result.events for a in event.get_function_responses()]
    result = await answered_by(lambda _: None)
    assert (result.status, len(result.pending)) == ("paused", 1)


@pytest.mark.parametrize("answer", ["no", 1, {"confirmed": False}])
async def test_confirm_answers_yes_or_no_and_nothing_else(answer: Any) -> None:
    """A text that says no is not taken for a yes."""
    runner = asking(lambda _: answer)
    with pytest.raises(CallbackError, match="confirm"):
        await runner.run_to_result(user_id="u", session_id="s", new_message="go")
    session = await runner.session_service.get_session(app_name=runner.app_name, user_id="u", session_id="s")
    assert session is not None
    assert {"paid": 5} not in [a.response for event in session.events for a in event.get_function_responses()]


async def test_a_confirm_that_raises_fails_the_run_and_the_call_waits_still() -> None:
    def confirm(_: PendingCall) -> bool:
        raise KeyError("nobody there")

    runner = asking(confirm)
    result = await runner.start(user_id="u", session_id="s", new_message="go").result()
    assert (result.status, type(result.error)) == ("failed", KeyError)
    (waiting,) = result.pending
    runner.confirm = None
    last = await runner.run_to_result(user_id="u", session_id="s", new_message=answers(waiting.approve()))
    assert (last.status, last.text) == ("final", "paid")


async def test_confirm_is_asked_again_and_again() -> None:
    result = await answered_by(lambda _: True, call("pay", amount=6), call("pay", amount=7), "paid it all")
    assert (result.text, result.model_calls) == ("paid it all", 4)
