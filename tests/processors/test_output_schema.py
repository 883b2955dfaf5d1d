"""Structured answers of agents that also have tools (cases area 15, decision 11)."""

from __future__ import annotations

import json
from typing import Any

import pytest
from google.genai import types
from kit import Chat, agent, call, context, declared_names, event, requests_of, result, story, system_text
from pydantic import BaseModel

from flowloom import BaseAgent, Context, Event, Gemini, LlmAgent, LlmRequest
from flowloom.errors import ToolArgumentsError
from flowloom.processors import basic, output_schema
from flowloom.testing import ScriptedModel
from flowloom.tools.confirmation import structured_final_event
from flowloom.tools.output import OutputSchema, SetModelResponseTool


class Weather(BaseModel):
    city: str
    temp: int


def add(a: int, b: int) -> int:
    """Add."""
    return a + b


class Capable(ScriptedModel):
    """A model that combines a schema with tools itself."""

    @property
    def output_schema_and_tools(self) -> bool:
        return True


def built(asked: Any) -> LlmRequest:
    request = LlmRequest()
    ctx = context(asked)
    basic(ctx, request)
    output_schema(ctx, request)
    return request


def test_gemini_2_5_on_the_gemini_api_with_a_tool_and_a_schema_answers_by_a_tool() -> None:
    """set_model_response registered + instruction mentions it; the config asks for no schema."""
    request = built(LlmAgent(name="a", model=Gemini(model="gemini-2.5-flash"), tools=[add], output_schema=Weather))
    assert declared_names(request) == ["set_model_response"]
    assert "set_model_response" in request.tools_dict
    assert "set_model_response" in system_text(request)
    assert request.config.response_schema is None
    assert request.config.response_mime_type is None


def test_without_tools_the_config_asks_for_the_schema() -> None:
    request = built(LlmAgent(name="a", model=Gemini(model="gemini-2.5-flash"), output_schema=Weather))
    assert declared_names(request) == []
    assert request.config.response_schema is Weather


def test_without_a_schema_nothing_is_added() -> None:
    request = built(LlmAgent(name="a", model=Gemini(model="gemini-2.5-flash"), tools=[add]))
    assert declared_names(request) == []
    assert system_text(request) == ""


def test_a_model_that_combines_both_itself_is_asked_for_the_schema() -> None:
    """Vertex Gemini 2.5 | no-op; the schema is in the config."""
    request = built(LlmAgent(name="a", model=Capable(), tools=[add], output_schema=Weather))
    assert declared_names(request) == []
    assert request.config.response_schema is Weather


def test_a_model_of_unknown_kind_answers_by_a_tool() -> None:
    request = built(agent("a", tools=[add], output_schema=Weather))
    assert declared_names(request) == ["set_model_response"]


def test_a_task_reports_by_finish_task_and_not_by_set_model_response() -> None:
    request = built(agent("a", tools=[add], output_schema=Weather, mode="task"))
    assert declared_names(request) == []


def test_an_agent_that_is_no_llm_agent_changes_nothing() -> None:
    request = LlmRequest()
    assert output_schema(context(BaseAgent(name="plain")), request) is None
    assert request == LlmRequest()


# -- the tool ---------------------------------------------------------------------------------------


async def ran(args: dict[str, Any], schema: Any = Weather) -> Any:
    tool = SetModelResponseTool(OutputSchema(schema))
    return await tool.run_async(args=args, tool_context=Context(context(agent("a")), function_call_id="c1"))


async def test_arguments_that_fit_are_the_result() -> None:
    assert await ran({"city": "Oslo", "temp": 7}) == {"city": "Oslo", "temp": 7}


@pytest.mark.parametrize("args", [{"city": "Oslo", "temp": "warm"}, {"city": "Oslo"}, {"town": "Oslo"}, {}])
async def test_arguments_that_do_not_fit_are_an_error(args: dict[str, Any]) -> None:
    """Tool | wrong type / missing required (extra key) | error / error."""
    with pytest.raises(ToolArgumentsError):
        await ran(args)


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (str, "x"),
        (int, 3),
        (list[int], [1, 2]),
        (list[Weather], [{"city": "Oslo", "temp": 1}]),
        ({"type": "array", "items": {"type": "string"}}, ["a"]),
        (types.Schema(type=types.Type.INTEGER), 4),
    ],
)
async def test_an_output_that_is_no_object_is_given_as_one_argument(schema: Any, value: Any) -> None:
    declaration = SetModelResponseTool(OutputSchema(schema)).declaration
    assert declaration is not None
    assert list(declaration.parameters_json_schema["properties"]) == ["result"]
    assert await ran({"result": value}, schema) == value


@pytest.mark.parametrize(
    "schema",
    [
        Weather,
        Weather.model_json_schema(),
        types.Schema(
            type=types.Type.OBJECT,
            properties={"city": types.Schema(type=types.Type.STRING), "temp": types.Schema(type=types.Type.INTEGER)},
            required=["city", "temp"],
        ),
    ],
)
async def test_a_schema_may_be_given_in_any_form(schema: Any) -> None:
    assert await ran({"city": "Oslo", "temp": 7}, schema) == {"city": "Oslo", "temp": 7}
    with pytest.raises(ToolArgumentsError):
        await ran({"city": 1, "temp": "x"}, schema)


# -- the final event --------------------------------------------------------------------------------


def results(name: str, response: dict[str, Any], output: Any) -> Event:
    return event("root", result("c1", name, response), actions={"set_model_response": output})


def test_the_final_event_is_the_agents_with_the_answer_as_json_text() -> None:
    """Final event | helper | author, branch, invocation id, role model, one text part = JSON."""
    ctx = context(agent("writer"), branch="b1", invocation_id="e-1")
    answer = {"city": "Oslo", "temp": 7}
    final = structured_final_event(ctx, results("set_model_response", answer, answer))
    assert final is not None
    assert (final.author, final.branch, final.invocation_id) == ("writer", "b1", "e-1")
    assert final.content is not None
    assert final.content.role == "model"
    assert len(final.content.parts or ()) == 1
    assert json.loads(final.text) == answer
    assert final.is_final_response()


def test_results_of_other_tools_make_no_final_event() -> None:
    """Extract | other name / none | empty / empty."""
    ctx = context(agent("writer"))
    assert structured_final_event(ctx, results("add", {"result": 1}, None)) is None
    assert structured_final_event(ctx, Event(author="writer")) is None


# -- a whole turn -----------------------------------------------------------------------------------

GOOD = call("set_model_response", city="Oslo", temp=7)
BAD = call("set_model_response", city="Oslo", temp="warm")


async def test_an_agent_with_tools_ends_with_the_answer_as_text() -> None:
    root = agent("root", call("add", a=1, b=2), GOOD, tools=[add], output_schema=Weather, output_key="weather")
    chat = Chat(root)
    events = await chat.say("go")
    assert events[-1].is_final_response()
    assert json.loads(events[-1].text) == {"city": "Oslo", "temp": 7}
    assert (await chat.state())["weather"] == {"city": "Oslo", "temp": 7}


async def test_decision_11_an_answer_that_fails_validation_goes_back_to_the_model() -> None:
    """(REC) set_model_response invalid | error FR goes back to model, no final event."""
    root = agent("root", BAD, GOOD, tools=[add], output_schema=Weather)
    events = await Chat(root).say("go")
    first_result = events[1].get_function_responses()[0]
    assert "error" in (first_result.response or {})
    assert "temp" in str(first_result.response)
    assert [e.is_final_response() for e in events] == [False, False, False, False, True]
    assert len(requests_of(root)) == 2


async def test_decision_11_only_a_valid_answer_ends_the_run() -> None:
    root = agent("root", BAD, BAD, GOOD, tools=[add], output_schema=Weather)
    events = await Chat(root).say("go")
    assert sum(e.is_final_response() for e in events) == 1
    assert json.loads(events[-1].text)["temp"] == 7


async def test_results_of_parallel_calls_are_kept_beside_the_answer() -> None:
    root = agent("root", [call("add", a=1, b=2), GOOD], tools=[add], output_schema=Weather)
    events = await Chat(root).say("go")
    assert story(events)[2:4] == [
        "root: add -> {'result': 3}",
        "root: set_model_response -> {'city': 'Oslo', 'temp': 7}",
    ]
    assert json.loads(events[-1].text) == {"city": "Oslo", "temp": 7}


LONDON = {"city": "London", "temp": 9}


@pytest.mark.parametrize(
    ("hook", "asked"), [("before_tool_callback", GOOD), ("after_tool_callback", GOOD), ("on_tool_error_callback", BAD)]
)
async def test_what_a_callback_gives_in_the_place_of_the_answer_is_the_answer(hook: str, asked: types.Part) -> None:
    root = agent("root", asked, tools=[add], output_schema=Weather, output_key="w", **{hook: lambda **_: LONDON})
    chat = Chat(root)
    events = await chat.say("go")
    assert json.loads(events[-1].text) == LONDON
    assert (await chat.state())["w"] == LONDON


@pytest.mark.parametrize("hook", ["before_tool_callback", "after_tool_callback"])
async def test_a_callback_may_give_a_list_as_the_tool_does(hook: str) -> None:
    asked = call("set_model_response", result=["a"])
    root = agent("root", asked, tools=[add], output_schema=list[str], **{hook: lambda **_: {"result": ["b"]}})
    assert json.loads((await Chat(root).say("go"))[-1].text) == ["b"]


async def test_decision_11_a_callbacks_answer_has_to_fit_too() -> None:
    """One that does not goes back to the model, and so does an error that a callback gives."""
    given = iter([{"city": 1}, {"error": "Not yet."}, None])
    root = agent(
        "root", GOOD, GOOD, GOOD, tools=[add], output_schema=Weather, before_tool_callback=lambda **_: next(given)
    )
    events = await Chat(root).say("go")
    assert [event.text for event in events if event.is_final_response() and event.text][-1:] == [
        '{"city": "Oslo", "temp": 7}'
    ]
    assert len(requests_of(root)) == 3


async def test_set_model_response_is_declared_before_transfer_and_the_agents_tools() -> None:
    child = agent("child")
    root = agent("root", GOOD, tools=[add], output_schema=Weather, sub_agents=[child])
    await Chat(root).say("go")
    assert declared_names(requests_of(root)[0]) == ["set_model_response", "transfer_to_agent", "add"]


async def test_an_answer_without_tools_is_parsed_for_the_output_key() -> None:
    root = agent("root", '{"city": "Oslo", "temp": 7}', output_schema=Weather, output_key="weather")
    chat = Chat(root)
    await chat.say("go")
    assert (await chat.state())["weather"] == {"city": "Oslo", "temp": 7}


async def test_a_list_may_be_the_output_of_an_agent_with_tools() -> None:
    root = agent(
        "root",
        call("set_model_response", result=["a", "b"]),
        tools=[add],
        output_schema=list[str],
        output_key="names",
    )
    chat = Chat(root)
    events = await chat.say("go")
    assert json.loads(events[-1].text) == ["a", "b"]
    assert (await chat.state())["names"] == ["a", "b"]
