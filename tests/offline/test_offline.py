"""The offline model: sensible for any agent, deterministic, and always at an end."""

from __future__ import annotations

import asyncio
import json
import re
from typing import Any, Literal

import pytest
from google.genai import types
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from kit import STREAMED, Chat, approve, call, collect, examples, open_calls, pending, requests_of, story, user
from kit import agent as scripted
from pydantic import BaseModel, Field

from flowloom import (
    AgentTool,
    BaseTool,
    FunctionTool,
    LlmAgent,
    LLMRegistry,
    LlmRequest,
    LlmResponse,
    LoopAgent,
    SequentialAgent,
    exit_loop,
)
from flowloom.errors import ModelRequestError
from flowloom.offline.model import OfflineModel


class Counting(OfflineModel):
    """The offline model, with a count of its calls."""

    calls: int = 0

    def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> Any:
        self.calls += 1
        return super().generate_content_async(llm_request, stream)


class Declared(BaseTool):
    """A tool of any schema, with a fixed result."""

    def __init__(self, name: str, description: str, schema: dict[str, Any], outcome: Any) -> None:
        super().__init__(name=name, description=description)
        self.schema = schema
        self.outcome = outcome

    def _get_declaration(self) -> types.FunctionDeclaration:
        return types.FunctionDeclaration(
            name=self.name, description=self.description, parameters_json_schema=self.schema
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any:
        if isinstance(self.outcome, Exception):
            raise self.outcome
        return self.outcome


def offline_agent(name: str = "helper", **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=fields.pop("model", None) or OfflineModel(), **fields)


async def arguments(function: Any, message: str) -> dict[str, Any] | None:
    """What the model calls a function with for a message; None when it does not call it."""
    events = await Chat(offline_agent(tools=[function])).say(message)
    found = [each.args for event in events for each in event.get_function_calls()]
    return found[0] if found else None


# -- laws ----------------------------------------------------------------------------------------------

WORDS = (
    "book flight hotel city Oslo Rome Ann 3 12.5 EUR weather send mail find the and to from in for ? . x1 no".split()
)
messages = st.lists(st.sampled_from(WORDS), max_size=12).map(" ".join) | st.text(max_size=40)
names = st.sampled_from("find_flight book_flight send_mail get_weather search list_all city_info exit_now".split())
types_of = st.sampled_from(
    [
        {"type": "string"},
        {"type": "integer"},
        {"type": "number"},
        {"type": "boolean"},
        {"type": "string", "enum": ["EUR", "USD"]},
        {"type": "string", "format": "date"},
        {"type": "array", "items": {"type": "string"}},
        {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None},
        {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
        {},
    ]
)
parameters = st.dictionaries(st.sampled_from("city origin to name date count query flight_id flag".split()), types_of)
outcomes = st.sampled_from(
    [None, {}, {"error": "no"}, "text", [], [{"city": "Oslo"}], {"flight_id": "x1"}, 3, ValueError("broken")]
)


@st.composite
def tools(draw: st.DrawFn) -> list[Declared]:
    made: list[Declared] = []
    for name in draw(st.lists(names, unique=True, max_size=5)):
        properties = draw(parameters)
        required = [key for key in properties if draw(st.booleans())]
        schema = {"type": "object", "properties": properties, "required": required}
        made.append(Declared(name, draw(st.sampled_from(["", "Find a flight.", "Send it."])), schema, draw(outcomes)))
    return made


async def conversation(given_tools: list[Declared], said: list[str], **options: Any) -> tuple[list[str], int]:
    """The story of a conversation about these tools, and the most model calls a turn took."""
    model = Counting()
    chat = Chat(offline_agent(tools=list(given_tools), model=model), **options)
    told: list[str] = []
    most = 0
    for message in said:
        before = model.calls
        told += [line for line in story(await chat.say(message or "?")) if "~" not in line.split(":")[0]]
        most = max(most, model.calls - before)
    assert not open_calls(await chat.stored())
    return told, most


@settings(max_examples=examples(60), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tools(), st.lists(messages, min_size=1, max_size=3))
def test_any_agent_comes_to_an_end(given_tools: list[Declared], said: list[str]) -> None:
    """A turn takes at most as many model calls as there are tools, and two more."""
    _, most = asyncio.run(conversation(given_tools, said))
    assert most <= len(given_tools) + 2


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(tools(), st.lists(messages, min_size=1, max_size=2))
def test_the_same_again_and_the_same_streamed(given_tools: list[Declared], said: list[str]) -> None:
    """There is no chance in it, and streaming changes nothing but the pieces."""
    first = asyncio.run(conversation(given_tools, said))
    assert asyncio.run(conversation(given_tools, said)) == first
    assert asyncio.run(conversation(given_tools, said, config=STREAMED)) == first


@settings(max_examples=examples(40), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(messages, min_size=1, max_size=3))
def test_agents_that_can_hand_over_in_a_circle_come_to_an_end(said: list[str]) -> None:
    """Each agent gets the conversation once in a turn at most."""

    async def run() -> int:
        model = Counting()
        children = [
            LlmAgent(name=name, description=text, include_contents=contents)  # type: ignore[arg-type]
            for name, text, contents in (
                ("flights", "Find and book a flight.", "default"),
                ("hotels", "Find a hotel in a city.", "none"),
                ("mail", "Send a mail about the weather.", "default"),
            )
        ]
        chat = Chat(offline_agent("desk", description="The flight desk.", sub_agents=children, model=model))
        most = 0
        for message in said:
            before = model.calls
            await chat.say(message or "?")
            most = max(most, model.calls - before)
        return most

    assert asyncio.run(run()) <= 8


# -- how it speaks ---------------------------------------------------------------------------------------


async def test_it_says_what_it_is() -> None:
    """Each text begins with the label, and the model version says offline."""
    events = await Chat(offline_agent(instruction="Be kind.")).say("Why is the sky blue?")
    assert events[-1].text.startswith("[offline] ")
    assert events[-1].model_version == "offline"


async def test_a_stream_is_words_and_then_the_whole() -> None:
    """Partial responses first; the complete one repeats them."""
    request = LlmRequest(contents=[user("hello there")])
    responses = [each async for each in OfflineModel().generate_content_async(request, stream=True)]
    assert [each.partial for each in responses[:-1]] == [True] * (len(responses) - 1)
    assert "".join(each.text for each in responses[:-1]) == responses[-1].text
    assert responses[-1].partial is None
    assert responses[-1].finish_reason is types.FinishReason.STOP


async def test_an_empty_request_is_answered() -> None:
    """Nothing to go on is no reason to fail."""
    responses: list[LlmResponse] = [each async for each in OfflineModel().generate_content_async(LlmRequest())]
    assert responses[0].text.startswith("[offline]")


ODD_SCHEMAS: list[Any] = [
    True,
    False,
    {"anyOf": [True, {"type": "null"}]},
    {"anyOf": {"type": "string"}},
    {"$ref": "#/$defs/Any"},
    {"$ref": "#/$defs/Missing"},
    {"type": "array", "items": [{"type": "string"}]},
    {"type": "array", "items": True, "minItems": 2},
    {"type": "array", "minItems": 10**12},
    {"type": "string", "minLength": 10**12},
    {"type": "integer", "minimum": "5"},
    {"type": "number", "minimum": float("inf")},
    {"enum": 5},
    {"required": 5, "properties": {"a": None}},
    {"required": [5, {}], "properties": {5: {"type": "string"}}},
    None,
    "string",
    5,
]
"""Booleans and lists of items are legal; the others are what servers of tools write all the same."""


@pytest.mark.parametrize("schema", ODD_SCHEMAS, ids=lambda schema: str(schema)[:40])
async def test_a_schema_of_any_form_is_filled(schema: Any) -> None:
    held = {"type": "object", "properties": {"value": schema}, "required": ["value"], "$defs": {"Any": True}}
    tool = types.FunctionDeclaration(name="label", description="Label a value.", parameters_json_schema=held)
    for config in (
        types.GenerateContentConfig(tools=[types.Tool(function_declarations=[tool])]),
        types.GenerateContentConfig(response_json_schema=held),
        types.GenerateContentConfig(response_json_schema=schema if isinstance(schema, bool) else held),
    ):
        for message in ("Label the value Rome.", "hm"):
            request = LlmRequest(contents=[user(message)], config=config)
            [response] = [each async for each in OfflineModel().generate_content_async(request)]
            assert response.error_code is None
            assert response.content is not None


@pytest.mark.parametrize("field", ["response_schema", "response_json_schema"])
@pytest.mark.parametrize("schema", [[], [1], "x", 3], ids=repr)
async def test_what_is_no_schema_of_an_answer_is_a_typed_error(field: str, schema: Any) -> None:
    """It names the setting, and what stands there."""
    config = types.GenerateContentConfig.model_construct(**{field: schema})
    with pytest.raises(ModelRequestError, match=f"`config.{field}` is {re.escape(repr(schema))}"):
        await anext(OfflineModel().generate_content_async(LlmRequest(config=config)))


@pytest.mark.parametrize("message", ["add " + "9" * 400, '{"a":' * 100_000], ids=["huge number", "nested message"])
async def test_no_message_is_too_much(message: str) -> None:
    numbers = {"type": "object", "properties": {"first": {"type": "integer"}}, "required": ["first"]}
    root = LlmAgent(name="root", model=OfflineModel(), tools=[Declared("add", "Add numbers.", numbers, "added")])
    assert (await Chat(root).say(message))[-1].text.startswith("[offline]")


async def test_the_request_is_not_changed() -> None:
    """It only reads."""
    root = scripted("root", call("look", city="Rome"), "Done.", tools=[Declared("look", "Look.", {}, "seen")])
    await Chat(root).say("look at Rome")
    request = requests_of(root)[-1]
    before = request.model_dump(mode="json")
    _ = [each async for each in OfflineModel().generate_content_async(request)]
    assert request.model_dump(mode="json") == before


def test_it_is_registered() -> None:
    """`offline` is a model's name like any other."""
    assert isinstance(LLMRegistry.new_llm("offline"), OfflineModel)


# -- what it calls ---------------------------------------------------------------------------------------


def find_flight(origin: str, destination: str, day: str = "", seats: int = 1, direct: bool = False) -> dict[str, Any]:
    """Find a flight between two cities."""
    return {"flights": [{"flight_id": "F77", "price": 120}]}


def send_mail(address: str, subject: str) -> str:
    """Send an e-mail message to somebody."""
    return "sent"


async def test_the_tool_that_fits_is_called_once_and_its_result_told() -> None:
    """Name and description decide; the answer comes from the result."""
    events = await Chat(offline_agent(tools=[send_mail, find_flight])).say("flights from Oslo to Rome please")
    assert story(events) == [
        "helper: find_flight(origin='Oslo', destination='Rome')",
        "helper: find_flight -> {'flights': [{'flight_id': 'F77', 'price': 120}]}",
        "helper: [offline] 1 flight:\n- flight id F77, price 120",
    ]


@pytest.mark.parametrize(
    ("message", "expected"),
    [
        ("a flight to Rome from Oslo", {"origin": "Oslo", "destination": "Rome"}),
        (
            "flight from Oslo to Rome on 2026-03-01 for 3",
            {"origin": "Oslo", "destination": "Rome", "day": "2026-03-01"},
        ),
        ("find 2 seats on a flight from Oslo to Rome", {"origin": "Oslo", "destination": "Rome", "seats": 2}),
        ("direct flight from Oslo to Rome", {"origin": "Oslo", "destination": "Rome", "direct": True}),
        ("flight from Oslo to Rome, not direct", {"origin": "Oslo", "destination": "Rome", "direct": False}),
    ],
)
async def test_arguments_by_name_and_type(message: str, expected: dict[str, Any]) -> None:
    """Places by their prepositions, dates, numbers beside their nouns, flags by their words."""
    assert await arguments(find_flight, message) == expected


async def test_numbers_in_order() -> None:
    """Numbers without nouns go to the parameters in their order."""

    def add(first: float, second: float) -> float:
        """Add two numbers."""
        return first + second

    assert await arguments(add, "add 2.5 and 1,000") == {"first": 2.5, "second": 1000}


async def test_quotations_lists_and_choices() -> None:
    """A quotation is free text, a list takes all, a choice takes the value that occurs."""

    def label_photo(title: str, colour: Literal["red", "green"], tags: list[str]) -> str:
        """Label a photo."""
        return "ok"

    found = await arguments(label_photo, 'label the photo "At Sea" in green with "boat" and "wind"')
    assert found == {"title": "At Sea", "colour": "green", "tags": ["boat", "wind"]}


async def test_what_is_missing_is_asked_for_and_the_answer_goes_on() -> None:
    """No call with made-up arguments; the next message completes the first."""
    chat = Chat(offline_agent(tools=[find_flight]))
    assert story(await chat.say("find a flight to Rome")) == [
        "helper: [offline] I can do that (find flight), but I need to know more. Please tell me: origin."
    ]
    assert story(await chat.say("Oslo"))[0] == "helper: find_flight(origin='Oslo', destination='Rome')"


async def test_two_questions_are_two_calls_at_once() -> None:
    """Independent parts of a message are called side by side."""

    def get_weather(city: str) -> str:
        """Tell the weather."""
        return "Sunny."

    events = await Chat(offline_agent(tools=[get_weather, find_flight])).say(
        "What is the weather in Rome? Find a flight from Oslo to Bergen"
    )
    assert [each.name for each in events[0].get_function_calls()] == ["get_weather", "find_flight"]
    assert len(events) == 3


async def test_errors_are_told() -> None:
    """A tool that fails is part of the answer, and not called again."""

    def find_ship(city: str) -> str:
        """Find a ship."""
        raise ValueError("The harbour is closed.")

    events = await Chat(offline_agent(tools=[find_ship])).say("find a ship in Oslo")
    assert events[-1].text == "[offline] Find ship did not work: The harbour is closed."


async def test_confirmation_goes_both_ways() -> None:
    """The call waits; the answer tells what came of the decision."""
    for confirmed, told in ((True, "sent"), (False, "rejected")):
        chat = Chat(offline_agent(tools=[FunctionTool(send_mail, require_confirmation=True)]))
        asked = pending(await chat.say('send a mail to ann@example.com about "Lunch"'))
        events = await chat.answer(*[approve(each, confirmed) for each in asked])
        assert told in events[-1].text


# -- its part among other agents ----------------------------------------------------------------------------


async def test_it_hands_over_to_the_agent_that_fits() -> None:
    """By name and description, and back when nothing fits."""
    ships = LlmAgent(name="ships", description="Finds a ship or ferry.")
    planes = LlmAgent(name="planes", description="Finds a plane or flight.")
    chat = Chat(offline_agent("desk", description="Front desk.", sub_agents=[ships, planes]))
    assert [event.author for event in await chat.say("I want to take a ferry")] == ["desk", "desk", "ships"]
    assert [event.author for event in await chat.say("a flight, please")] == ["ships", "ships", "planes"]


async def test_a_writer_uses_what_others_said() -> None:
    """An agent without tools answers from what it heard in this turn."""
    first = scripted("scout", "The beach is empty.")
    team = SequentialAgent(name="team", sub_agents=[first, offline_agent("writer", instruction="Write a report.")])
    events = await Chat(team).say("How is the beach?")
    assert "scout: The beach is empty." in events[-1].text


async def test_a_reviewer_approves_in_the_end() -> None:
    """It remarks once, then leaves the loop, without a limit on the rounds."""
    loop = LoopAgent(name="loop", sub_agents=[offline_agent("writer"), offline_agent("critic", tools=[exit_loop])])
    events = await Chat(loop).say("Write about bees")
    assert [event.author for event in events if event.text] == ["writer", "critic", "writer"]


class Trip(BaseModel):
    city: str
    nights: int = Field(ge=1)
    kind: str = "holiday"
    stops: list[str] = Field(min_length=1)


async def test_a_response_schema_is_filled() -> None:
    """Without tools the answer is JSON that fits."""
    chat = Chat(offline_agent(output_schema=Trip, output_key="trip"))
    await chat.say("4 nights in Rome")
    trip = (await chat.state())["trip"]
    assert (trip["city"], trip["nights"]) == ("Rome", 4)


async def test_an_answer_by_tool_is_filled() -> None:
    """With tools the structured answer is given by `set_model_response`, after they ran."""
    chat = Chat(offline_agent(output_schema=Trip, tools=[find_flight]))
    events = await chat.say("find a flight from Oslo to Rome for 4 nights")
    names = [each.name for event in events for each in event.get_function_calls()]
    assert names == ["find_flight", "set_model_response"]
    assert json.loads(events[-1].text)["nights"] == 4


async def test_a_task_is_finished() -> None:
    """An agent in task mode does its work and reports by `finish_task`."""

    def count_sheep(number: int) -> str:
        """Count sheep."""
        return f"Counted {number}."

    worker = LlmAgent(name="sheep", description="Counts sheep.", mode="task", tools=[count_sheep])
    events = await Chat(offline_agent("boss", sub_agents=[worker])).say("count 7 sheep")
    assert "finish_task" in [each.name for event in events for each in event.get_function_calls()]
    assert events[-1].author == "boss"
    assert "Counted 7." in events[-1].text


async def test_an_agent_as_a_tool() -> None:
    """The inner agent gets the request, and its answer is told."""
    inner = offline_agent("planes", description="Finds a flight.", tools=[find_flight])
    events = await collect(
        Chat(offline_agent("desk", tools=[AgentTool(inner)])).runner.run_async(
            user_id="ann", session_id="s1", new_message="find a flight from Oslo to Rome"
        )
    )
    assert "F77" in events[-1].text
