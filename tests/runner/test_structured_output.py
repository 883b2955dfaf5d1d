"""Structured answers: data in the log, an instance in the result, and asked for again if they do not fit."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import AsyncGenerator
from pathlib import Path
from typing import Any, Literal

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, approve, event, open_calls, pending, requests_of, said, shown, text
from pydantic import BaseModel, Field, SecretStr
from typing_extensions import TypedDict

from flowloom import (
    AgentTool,
    BaseAgent,
    BasePlugin,
    Event,
    EventActions,
    Flow,
    InvocationContext,
    Limits,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    LongRunningFunctionTool,
    LoopAgent,
    ParallelAgent,
    RunConfig,
    Runner,
    RunResult,
    SequentialAgent,
    SqliteSessionService,
    ToolContext,
)
from flowloom.errors import CallbackError, ModelResponseError
from flowloom.run_stream import RunStreamMapper
from flowloom.testing import call
from runner.situations import held


class City(BaseModel):
    name: str
    people: int | None = None


GOOD, BAD = '{"name": "Rome"}', '{"name": 7}'
BY_TOOL, BADLY = call("set_model_response", name="Rome"), call("set_model_response", name=7)


def look() -> str:
    """Look."""
    return "seen"


async def ran(root: Any, message: Any = "go", **options: Any) -> RunResult[Any]:
    return await held(Chat(root), message, **options).result()


def responses(events: list[Event], name: str) -> list[Any]:
    return [answer.response for each in events for answer in each.get_function_responses() if answer.name == name]


# -- what it comes to ---------------------------------------------------------------------------------


@dataclasses.dataclass
class Place:
    name: str


class Spot(TypedDict):
    name: str


NAMED: dict[str, Any] = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


@pytest.mark.parametrize("tools", [[], [look]], ids=["text", "tool"])
@pytest.mark.parametrize(
    ("schema", "output"),
    [
        (City, City(name="Rome")),
        (Place, Place("Rome")),
        (Spot, {"name": "Rome"}),
        (dict[str, str], {"name": "Rome"}),
        (NAMED, {"name": "Rome"}),
        (types.Schema.from_json_schema(json_schema=types.JSONSchema.model_validate(NAMED)), {"name": "Rome"}),
    ],
    ids=["model", "dataclass", "TypedDict", "dict", "JSON schema", "Schema"],
)
async def test_the_result_holds_what_the_schema_makes_and_the_log_holds_data(
    schema: Any, output: Any, tools: list[Any]
) -> None:
    root = agent("root", BY_TOOL if tools else GOOD, output_schema=schema, output_key="city", tools=tools)
    found = await ran(root)
    assert (found.status, found.output, type(found.output)) == ("final", output, type(output))
    assert found.state_delta == {"city": {"name": "Rome"}}
    assert json.loads(found.text) == {"name": "Rome"}


@pytest.mark.parametrize(
    ("schema", "answer", "output"),
    [(list[City], f"[{GOOD}]", [City(name="Rome")]), (Literal["a", "b"], '"b"', "b"), (int | None, "7", 7)],
)
async def test_a_schema_may_be_any_type(schema: Any, answer: str, output: Any) -> None:
    assert (await ran(agent("root", answer, output_schema=schema))).output == output


async def test_data_is_the_same_after_a_reload(tmp_path: Path) -> None:
    """Instances are in the result only: what the store gives back is what the run had."""
    service = SqliteSessionService(tmp_path / "s.db")
    root = agent("root", BY_TOOL, output_schema=City, output_key="city", tools=[look])
    runner = Runner(app_name="app", agent=root, session_service=service, auto_create_session=True)
    found = await runner.run_to_result(user_id="ann", session_id="s1", new_message="go")
    await service.close()
    again = SqliteSessionService(tmp_path / "s.db")
    session = await again.get_session(app_name="app", user_id="ann", session_id="s1")
    assert session is not None
    assert session.state == {"city": {"name": "Rome"}}
    assert [e.model_dump(mode="json") for e in session.events[1:]] == [e.model_dump(mode="json") for e in found.events]
    await again.close()


async def test_the_result_is_not_the_log() -> None:
    """What a user does to the output of a result changes no event and no state."""
    chat = Chat(agent("root", GOOD, output_schema=NAMED, output_key="city"))
    found = await held(chat).result()
    found.output["name"] = "Paris"
    assert (await chat.state())["city"] == {"name": "Rome"}
    assert found.events[-1].actions.state_delta["city"] == {"name": "Rome"}


class Aliased(BaseModel):
    city_name: str = Field(alias="cityName")


class Nullable(BaseModel):
    name: str | None


class Hidden(BaseModel):
    key: SecretStr


@pytest.mark.parametrize("tools", [[], [look]], ids=["text", "tool"])
@pytest.mark.parametrize(
    ("schema", "data"), [(Aliased, {"cityName": "Rome"}), (Nullable, {"name": None}), (Hidden, {"key": "k"})]
)
async def test_what_the_state_holds_can_be_read_again(schema: Any, data: Any, tools: list[Any]) -> None:
    """A model that writes other names or values than it reads loses nothing."""
    answer = call("set_model_response", **data) if tools else json.dumps(data)
    found = await ran(agent("root", answer, output_schema=schema, output_key="kept", tools=tools))
    assert (found.status, found.output) == ("final", schema.model_validate(data))
    assert schema.model_validate(found.state_delta["kept"]) == found.output


@pytest.mark.parametrize("answer", [f" {GOOD}\n", f"```json\n{GOOD}\n```", f"```\n{GOOD}```", f"```JSON {GOOD} ```"])
async def test_json_alone_is_accepted_in_a_code_block_too(answer: str) -> None:
    assert (await ran(agent("root", answer, output_schema=City))).output == City(name="Rome")


@pytest.mark.parametrize(
    "answer",
    [
        "",
        LlmResponse(content=said(), finish_reason=types.FinishReason.STOP),
        "Rome",
        f"{GOOD} I hope this helps.",
        f"Here it is:\n```json\n{GOOD}\n```",
        '{"name": "Rome", "people": NaN}',
        '{"name": "\\ud800"}',
        "[" * 100_000,
        LlmResponse(content=said('{"name": "Ro'), error_code="MAX_TOKENS", error_message="cut"),
    ],
)
async def test_anything_else_is_asked_for_again(answer: Any) -> None:
    """Nothing, words, words beside JSON, what is no JSON, what was cut off."""
    root = agent("root", answer, GOOD, output_schema=City, output_key="city")
    found = await ran(root)
    assert (found.output, found.state_delta, found.model_calls) == (City(name="Rome"), {"city": {"name": "Rome"}}, 2)


# -- asking again --------------------------------------------------------------------------------------


@pytest.mark.parametrize("config", [None, STREAMED], ids=["plain", "streamed"])
@pytest.mark.parametrize("key", [None, "city"])
async def test_decision_11_the_model_is_told_what_does_not_fit(config: Any, key: str | None) -> None:
    root = agent("root", "Rome", BAD, GOOD, output_schema=City, output_key=key)
    chat = Chat(root, config=config)
    events = [each for each in await chat.say("go") if not each.partial]
    assert [each.content.role for each in events if each.content] == ["model", "user", "model", "user", "model"]
    assert {each.author for each in events} == {"root"}
    assert [each.is_final_response() for each in events] == [False] * 4 + [True]
    assert [bool(each.actions.state_delta) for each in events] == [False] * 4 + [key is not None]
    assert "not JSON" in str(events[1].content)
    assert shown(requests_of(root)[2])[:3] == ["user: go", "model: Rome", shown(requests_of(root)[1])[2]]
    assert "`name`: must be a valid string; got 7" in shown(requests_of(root)[2])[-1]


async def test_an_agent_without_tools_is_asked_for_json_and_for_no_call() -> None:
    root = agent("root", BAD, GOOD, output_schema=City)
    await ran(root)
    assert "set_model_response" not in shown(requests_of(root)[1])[-1]


async def test_an_answer_that_fits_is_accepted_with_what_its_model_noted() -> None:
    noted = LlmResponse(content=said(GOOD), custom_metadata={"score": 3})
    found = await ran(agent("root", noted, output_schema=City))
    assert (found.output, found.events[0].custom_metadata) == (City(name="Rome"), {"score": 3})


async def test_decision_11_a_wrong_call_is_told_by_its_result() -> None:
    root = agent("root", BADLY, "Rome", BY_TOOL, output_schema=City, tools=[look])
    found = await ran(root)
    assert (found.output, found.model_calls) == (City(name="Rome"), 3)
    assert "set_model_response" in shown(requests_of(root)[2])[-1]
    assert [bool("error" in each) for each in responses(found.events, "set_model_response")] == [True, False]


async def test_a_text_that_fits_is_accepted_where_a_call_was_asked_for() -> None:
    assert (await ran(agent("root", GOOD, output_schema=City, tools=[look]))).output == City(name="Rome")


async def test_of_two_calls_in_one_answer_the_one_that_fits_counts() -> None:
    for pair in ([BADLY, BY_TOOL], [BY_TOOL, BADLY]):
        found = await ran(agent("root", pair, output_schema=City, tools=[look]))
        assert (found.status, found.output, found.text) == ("final", City(name="Rome"), GOOD)


@pytest.mark.parametrize("config", [None, STREAMED], ids=["plain", "streamed"])
@pytest.mark.parametrize("key", [None, "city"])
@pytest.mark.parametrize("retries", [0, 2])
@pytest.mark.parametrize(("wrong", "tools"), [(BAD, []), ("", []), (BADLY, [look]), ("Rome", [look])])
async def test_decision_11_then_the_run_fails(
    wrong: Any, tools: list[Any], retries: int, key: str | None, config: Any
) -> None:
    """One error is raised, one event tells of it, the history is legal, and the key is not written."""
    root = agent("root", *[wrong] * 3, output_schema=City, output_key=key, output_retries=retries, tools=tools)
    chat = Chat(root, config=config)
    with pytest.raises(ModelResponseError, match="root") as caught:
        await chat.say("go")
    assert ("The answer was" in str(caught.value)) == (wrong in (BAD, "Rome"))
    assert (f"in {retries + 1} tries" in str(caught.value)) == (retries > 0)
    assert caught.value.model == "scripted"
    stored = await chat.stored()
    assert len(requests_of(root)) == retries + 1
    assert [e.error_code for e in stored].count("ModelResponseError") == 1
    assert stored[-1].error_code == "ModelResponseError"
    assert (open_calls(stored), await chat.state()) == (set(), {})
    found = await ran(agent("root", wrong, output_schema=City, output_retries=0, tools=tools))
    assert (found.status, found.output, type(found.error)) == ("failed", None, ModelResponseError)


@pytest.mark.parametrize("content", [None, said(" ")], ids=["nothing", "blank"])
async def test_an_answer_that_is_an_error_is_not_asked_for_again(content: Any) -> None:
    refused = LlmResponse(content=content, error_code="SAFETY", error_message="blocked")
    found = await ran(agent("root", refused, GOOD, output_schema=City))
    assert (found.status, found.model_calls, type(found.error)) == ("failed", 1, ModelResponseError)
    assert "SAFETY" in str(found.error)
    assert "blocked" in str(found.error)
    assert "The answer was" not in str(found.error)


async def test_nothing_but_thoughts_is_no_answer() -> None:
    found = await ran(agent("root", *[text("hm", thought=True)] * 4, output_schema=City, output_key="city"))
    assert (found.status, found.output, type(found.error)) == ("failed", None, ModelResponseError)
    assert "nothing but thoughts" in str(found.error)
    assert found.state_delta == {}


async def test_the_output_of_a_run_that_fails_is_that_of_the_latest_agent_that_has_answered() -> None:
    class Picky(BasePlugin):
        async def on_event_callback(self, *, invocation_context: InvocationContext, event: Event) -> None:
            if event.author == "b":
                raise ValueError("not this one")

    both = SequentialAgent(
        name="both", sub_agents=[agent("a", GOOD, output_schema=City), agent("b", GOOD, output_schema=City)]
    )
    found = await held(Chat(both, plugins=[Picky(name="picky")])).result()
    assert (found.status, found.output) == ("failed", City(name="Rome"))


async def test_an_agent_without_a_schema_that_calls_for_one_is_told_that_it_has_no_such_tool_as_often() -> None:
    found = await ran(agent("root", *[BY_TOOL] * 5, "Well.", tools=[look]))
    assert (found.status, found.text) == ("final", "Well.")


async def test_thoughts_before_an_answer_are_none_that_does_not_fit() -> None:
    """The model goes on, and nobody tells it that something was wrong; it has all its tries still."""
    found = await ran(agent("root", text("hm", thought=True), GOOD, output_schema=City, output_retries=0))
    assert (found.status, found.output) == ("final", City(name="Rome"))
    assert [each.author for each in found.events if each.content and each.content.role == "user"] == []


async def test_thoughts_that_end_in_an_error_are_an_answer_that_failed() -> None:
    cut = LlmResponse(content=said(text("hm", thought=True)), error_code="MAX_TOKENS", error_message="cut")
    found = await ran(agent("root", cut, GOOD, output_schema=City))
    assert (found.status, found.model_calls, type(found.error)) == ("failed", 1, ModelResponseError)


async def test_what_a_processor_writes_without_words_is_no_answer() -> None:
    """The model is asked once, and not told that the answer does not fit."""

    def count(ctx: InvocationContext, request: LlmRequest) -> Event:
        return ctx.new_event({"actions": EventActions(state_delta={"asked": 1})})

    root = agent("root", GOOD, output_schema=City, flow=Flow().with_processor(count))
    found = await ran(root)
    assert (found.status, found.output, found.model_calls) == ("final", City(name="Rome"), 1)


async def test_an_answer_that_does_not_fit_keeps_what_its_model_noted() -> None:
    noted = LlmResponse(content=said(BAD), custom_metadata={"score": 3})
    found = await ran(agent("root", noted, GOOD, output_schema=City))
    assert (found.events[0].custom_metadata or {})["score"] == 3


async def test_a_processor_that_answers_in_another_form_has_the_model_told() -> None:
    def answer(ctx: InvocationContext, request: LlmRequest) -> Event | None:
        return None if requests_of(root) or len(ctx.session.events) > 1 else ctx.new_event({"content": said(BAD)})

    root = agent("root", GOOD, output_schema=City, flow=Flow().with_processor(answer))
    found = await ran(root)
    assert (found.output, found.model_calls) == (City(name="Rome"), 1)
    assert "`name`: must be a valid string; got 7" in shown(requests_of(root)[0])[-1]


async def test_without_a_schema_a_tool_may_have_any_name() -> None:
    """It is no answer that does not fit, however often it is called."""

    def set_model_response() -> str:
        """A tool of the user's own."""
        return "set"

    found = await ran(agent("root", *[call("set_model_response")] * 4, "done", tools=[set_model_response]))
    assert (found.status, found.text, found.model_calls) == ("final", "done", 5)


async def test_nothing_is_asked_again_once_the_agent_is_ended() -> None:
    def end(ctx: InvocationContext, request: LlmRequest, response: LlmResponse) -> None:
        ctx.end_invocation = True

    found = await ran(agent("root", BAD, GOOD, output_schema=City, flow=Flow().with_response_processor(end)))
    assert (found.status, found.model_calls, type(found.error)) == ("failed", 1, ModelResponseError)
    assert len(found.events) == 2


async def test_asking_again_is_a_model_call_like_any_other() -> None:
    root = agent("root", BAD, GOOD, output_schema=City)
    found = await ran(root, run_config=RunConfig(limits=Limits(model_calls=1)))
    assert (found.status, found.output) == ("limit", None)
    landed = agent("root", call("look"), BAD, output_schema=City, tools=[look])
    config = RunConfig(limits=Limits(model_calls=1, on_limit="summarise"))
    found = await ran(landed, run_config=config)
    assert (found.status, type(found.error), len(requests_of(landed))) == ("failed", ModelResponseError, 2)


async def test_each_turn_has_its_own_tries() -> None:
    root = agent("root", BAD, BAD, GOOD, BAD, BAD, GOOD, output_schema=City)
    chat = Chat(root)
    assert [(await held(chat).result()).status for _ in range(2)] == ["final", "final"]


async def test_words_beside_a_long_running_call_are_no_answer() -> None:
    answer = [text("I order it."), call("look")]
    root = agent("root", answer, BY_TOOL, output_schema=City, output_key="c", tools=[LongRunningFunctionTool(look)])
    found = await ran(root)
    assert (found.status, found.output) == ("paused", City(name="Rome"))


@pytest.mark.parametrize("asks", [True, False])
async def test_results_that_end_a_turn_without_words_are_no_answer_that_does_not_fit(asks: bool) -> None:
    """A confirmed tool that asks again, or whose result is shown as it is."""

    def book(tool_context: ToolContext) -> str:
        """Book."""
        if tool_context.tool_confirmation is None or asks:
            tool_context.request_confirmation()
        tool_context.actions.skip_summarization = True
        return "booked"

    chat = Chat(agent("root", call("book"), output_schema=City, tools=[book]))
    answered = (await chat.answer(approve(*pending(await chat.say("go")))))[0]
    assert answered.get_function_responses()
    assert answered.custom_metadata is None


# -- who is asked, who is told ---------------------------------------------------------------------------


async def test_other_agents_are_shown_the_answer_that_fits() -> None:
    first = agent("first", BAD, GOOD, output_schema=City)
    second = agent("second", "done")
    await ran(SequentialAgent(name="row", sub_agents=[first, second]))
    (asked,) = requests_of(second)
    assert sum("[first]" in line for line in shown(asked)) == 1
    assert "required form" not in str(shown(asked))


async def test_an_agent_without_history_is_shown_its_question_and_its_answers() -> None:
    root = agent("root", BAD, GOOD, output_schema=City, include_contents="none")
    await ran(root)
    assert shown(requests_of(root)[1])[:2] == ["user: go", f"model: {BAD}"]


@pytest.mark.parametrize("kind", [SequentialAgent, LoopAgent, ParallelAgent])
async def test_a_member_of_a_workflow_is_asked_again_and_fails_the_run(kind: Any) -> None:
    def tree(*answers: Any) -> BaseAgent:
        fields = {"max_iterations": 1} if kind is LoopAgent else {}
        return kind(name="all", sub_agents=[agent("one", *answers, output_schema=City, output_key="city")], **fields)

    found = await ran(tree(BAD, GOOD))
    assert (found.status, found.output, found.state_delta) == ("final", City(name="Rome"), {"city": {"name": "Rome"}})
    found = await ran(tree(BAD, BAD, BAD))
    assert (found.status, found.output, found.state_delta) == ("failed", None, {})


async def test_after_handing_over_it_is_the_others_answer() -> None:
    helper = agent("helper", BAD, GOOD, output_schema=City)
    root = agent("root", call("transfer_to_agent", agent_name="helper"), output_schema=City, sub_agents=[helper])
    assert (await ran(root)).output == City(name="Rome")


@pytest.mark.parametrize("how", ["single_turn", "agent tool"])
async def test_who_calls_an_agent_is_told_that_it_failed(how: str) -> None:
    def tree(*answers: Any) -> LlmAgent:
        helper = agent("helper", *answers, output_schema=City, mode="single_turn" if how == "single_turn" else None)
        below: dict[str, Any] = {"sub_agents": [helper]} if how == "single_turn" else {"tools": [AgentTool(helper)]}
        return agent("root", call("helper", request="x"), "done", **below)

    found = await ran(tree(BAD, GOOD))
    (answer,) = responses(found.events, "helper")
    assert (answer.get("result", answer), found.text) == ({"name": "Rome"}, "done")
    found = await ran(tree(BAD, BAD, BAD))
    (answer,) = responses(found.events, "helper")
    assert (found.status, found.text) == ("final", "done")
    assert "`name`" in answer["error"]


@pytest.mark.parametrize("how", ["single_turn", "agent tool"])
async def test_the_caller_is_given_the_answer_in_one_piece_and_nothing_beside_it(how: str) -> None:
    """Its parts are joined as they are; what a callback adds after the agent is none of it."""
    mode = "single_turn" if how == "single_turn" else None
    parts = [text('{"name": "Ro'), text('me"}')]
    after = {"after_agent_callback": lambda callback_context: said("checked")}
    helper = agent("helper", parts, output_schema=City, mode=mode, **after)
    below: dict[str, Any] = {"sub_agents": [helper]} if mode else {"tools": [AgentTool(helper)]}
    found = await ran(agent("root", call("helper", request="x"), "done", **below))
    (answer,) = responses(found.events, "helper")
    assert answer.get("result", answer) == {"name": "Rome"}


async def test_a_task_gives_its_result_by_finishing() -> None:
    """What it says is for the user; wrong results are told as often as other answers are, and then the caller is."""
    finish, wrong = call("finish_task", name="Rome"), call("finish_task", name=7)

    def tree(*answers: Any) -> LlmAgent:
        worker = agent("worker", *answers, mode="task", output_schema=City, output_key="city")
        return agent("root", call("worker", request="x"), "done", sub_agents=[worker])

    found = await ran(tree("Which one?"))
    assert (found.text, found.error, found.state_delta) == ("Which one?", None, {})
    found = await ran(tree(wrong, wrong, finish))
    assert (found.status, found.text, found.state_delta) == ("final", "done", {"city": {"name": "Rome"}})
    assert responses(found.events, "worker") == [{"name": "Rome"}]
    found = await ran(tree(wrong, wrong, wrong))
    assert (found.status, found.text, found.state_delta) == ("final", "done", {})
    assert "`name`" in responses(found.events, "worker")[0]["error"]


async def test_a_task_without_a_schema_has_as_many_tries_to_finish() -> None:
    worker = agent("worker", *[call("finish_task", result=7)] * 3, mode="task")
    found = await ran(agent("root", call("worker", request="x"), "done", sub_agents=[worker]))
    assert (found.status, found.text, len(requests_of(worker))) == ("final", "done", 3)
    told = responses(found.events, "worker")[0]["error"]
    assert told.startswith("Agent `worker` finished its task with no result that fits its output schema in 3 tries. ")


async def test_a_task_without_a_schema_keeps_its_result_as_text() -> None:
    worker = agent("worker", call("finish_task", result="tea"), mode="task", output_key="order")
    found = await ran(agent("root", call("worker", request="x"), "done", sub_agents=[worker]))
    assert found.state_delta == {"order": "tea"}


async def test_an_agent_that_no_tree_names_has_an_output_too() -> None:
    class Custom(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            async for each in agent("hidden", BAD, GOOD, output_schema=City).run_async(ctx):
                yield each

    assert (await ran(Custom(name="root"))).output == City(name="Rome")


async def test_a_callback_before_the_agent_answers_in_that_form_too() -> None:
    def answer(words: str) -> Any:
        return lambda callback_context: said(words)

    found = await ran(agent("root", output_schema=City, before_agent_callback=answer(GOOD)))
    assert found.output == City(name="Rome")
    found = await ran(agent("root", output_schema=City, before_agent_callback=answer("No.")))
    assert (found.status, type(found.error)) == ("failed", CallbackError)
    assert "`before_agent` of agent `root`" in str(found.error)


async def test_what_a_callback_adds_after_the_agent_is_not_its_answer() -> None:
    found = await ran(agent("root", GOOD, output_schema=City, after_agent_callback=lambda callback_context: said("ok")))
    assert (found.status, found.text, found.output) == ("final", "ok", City(name="Rome"))


async def test_a_user_interface_is_not_shown_the_message_as_the_agents_words() -> None:
    mapper = RunStreamMapper()
    told = [
        out for each in await Chat(agent("root", BAD, GOOD, output_schema=City)).say("go") for out in mapper.feed(each)
    ]
    assert "required form" not in str(told)


# -- after a kill ------------------------------------------------------------------------------------------


async def resumed(root: LlmAgent, *events: Event) -> RunResult[Any]:
    """The result of a run that goes on with an invocation of which the log has these events."""
    chat = Chat(root)
    session = await chat.runner.session_service.create_session(app_name="app", user_id="ann", session_id="s1")
    for each in (event("user", "go"), *events):
        each.invocation_id = "e-1"
        await chat.runner.session_service.append_event(session, each)
    return await held(chat, None, invocation_id="e-1").result()


async def test_an_answer_that_was_not_refused_yet_is_refused_by_who_resumes() -> None:
    first = await ran(agent("root", BAD, GOOD, output_schema=City))
    root = agent("root", GOOD, output_schema=City)
    found = await resumed(root, first.events[0])
    assert (found.status, found.output) == ("final", City(name="Rome"))
    assert "`name`" in shown(requests_of(root)[0])[-1]
    root = agent("root", GOOD, output_schema=City)
    assert (await resumed(root, *first.events[:2])).output == City(name="Rome")
    assert len(shown(requests_of(root)[0])) == 4


async def test_tries_are_counted_over_a_kill() -> None:
    first = await ran(agent("root", BAD, BAD, GOOD, output_schema=City))
    root = agent("root", BAD, GOOD, output_schema=City)
    found = await resumed(root, *first.events[:4])
    assert (type(found.error), len(requests_of(root))) == (ModelResponseError, 1)
    first = await ran(agent("root", call("look"), BAD, GOOD, output_schema=City, tools=[look]))
    root = agent("root", BAD, GOOD, output_schema=City, tools=[look])
    assert (await resumed(root, *first.events[:4])).output == City(name="Rome")


async def test_a_result_whose_answer_was_cut_off_is_answered_by_who_resumes() -> None:
    root = agent("root", BY_TOOL, output_schema=City, output_key="city", tools=[look])
    first = await ran(root)
    root = agent("root", "never", output_schema=City, output_key="city", tools=[look])
    found = await resumed(root, *first.events[:2])
    assert (found.output, found.state_delta) == (City(name="Rome"), {"city": {"name": "Rome"}})
    assert requests_of(root) == []


async def test_a_run_that_is_resumed_has_the_tries_that_are_left() -> None:
    chat = Chat(agent("root", BAD, BAD, GOOD, output_schema=City))
    log = await chat.say("go")
    later = Chat(agent("root", BAD, GOOD, output_schema=City))
    session = await later.runner.session_service.create_session(app_name="app", user_id="ann", session_id="s1")
    for each in (await chat.stored())[:-1]:
        await later.runner.session_service.append_event(session, each)
    found = await held(later, None, invocation_id=log[0].invocation_id).result()
    assert (found.status, found.model_calls, type(found.error)) == ("failed", 1, ModelResponseError)
