"""`AutoModel`: calls every tool once with arguments made up from its schema, then answers."""

from __future__ import annotations

import datetime
import json
from typing import Annotated, Any, Literal

import pytest
from google.genai import types
from kit import STREAMED, Chat, collect, pending, story, user
from pydantic import BaseModel, Field

from flowloom import AgentTool, LlmAgent, LlmRequest, LoopAgent, ParallelAgent, SequentialAgent, ToolContext
from flowloom.testing.arguments import SchemaValueError
from flowloom.testing.auto_model import AutoModel
from flowloom.tools.exit_loop import exit_loop
from flowloom.tools.function_tool import LongRunningFunctionTool
from flowloom.tools.load_artifacts import load_artifacts


class Stay(BaseModel):
    city: str
    nights: int = Field(ge=1)


class Trip(Stay):
    board: Literal["none", "breakfast"] = "none"


def weather(city: str, day: datetime.date) -> str:
    """Tells the weather."""
    return f"{city} on {day:%d %B}: fine"


def book(trip: Trip, seats: int = 1) -> str:
    """Books a trip."""
    return f"{trip.city}, {trip.nights} nights"


def odd(code: Annotated[str, Field(pattern=r"^\p{Lu}{2}$")]) -> str:
    """Wants a text that is hard to make up."""
    return f"got {code}"


def auto(name: str = "root", model: AutoModel | None = None, **fields: Any) -> LlmAgent:
    return LlmAgent(name=name, model=model or AutoModel(), **fields)


def model_of(agent: LlmAgent) -> AutoModel:
    assert isinstance(agent.model, AutoModel)
    return agent.model


async def said(root: Any, message: str = "go", config: Any = None) -> list[str]:
    """The story of one turn."""
    return story(await Chat(root, config=config).say(message))


CALLS = [
    "root: weather(city='city', day='2024-01-01')",
    "root: book(trip={'city': 'city', 'nights': 1})",
]
RESULTS = [
    "root: weather -> {'result': 'city on 01 January: fine'}",
    "root: book -> {'result': 'city, 1 nights'}",
]


async def test_it_calls_every_tool_once_with_arguments_that_fit_and_then_says_so() -> None:
    """All at once, in the order in which they are declared."""
    assert await said(auto(tools=[weather, book])) == [*CALLS, *RESULTS, "root: I called `weather`, `book`."]


async def test_it_can_call_one_tool_at_a_time() -> None:
    expected = [CALLS[0], RESULTS[0], CALLS[1], RESULTS[1], "root: I called `weather`, `book`."]
    assert await said(auto(model=AutoModel(one_at_a_time=True), tools=[weather, book])) == expected


async def test_it_says_what_it_is_told_to() -> None:
    assert await said(auto(model=AutoModel(answer="Done."))) == ["root: Done."]
    assert await said(auto()) == ["root: I called no tool."]


async def test_tools_may_be_left_out() -> None:
    assert await said(auto(model=AutoModel(exclude=["weather"]), tools=[weather, book])) == [
        CALLS[1],
        RESULTS[1],
        "root: I called `book`.",
    ]


async def test_arguments_may_be_given() -> None:
    """They take the place of those that would be made up, which are not even tried."""
    given = AutoModel(arguments={"odd": {"code": "ÄÖ"}})
    assert (await said(auto(model=given, tools=[odd])))[1] == "root: odd -> {'result': 'got ÄÖ'}"


async def test_arguments_that_cannot_be_made_up_are_asked_for() -> None:
    """With the tool and the parameter."""
    with pytest.raises(SchemaValueError, match=r"`odd\.code`.*`arguments=`"):
        await said(auto(tools=[odd]))


async def test_every_turn_calls_every_tool_again() -> None:
    """What was called is looked for since the user's latest message."""
    chat = Chat(auto(tools=[weather]))
    first = story(await chat.say("go"))
    assert story(await chat.say("again")) == first


async def test_it_keeps_the_requests_as_they_were() -> None:
    root = auto(tools=[weather])
    await said(root)
    assert [len(request.contents) for request in model_of(root).requests] == [1, 3]
    request = LlmRequest(contents=[user("go")])
    await collect(model_of(root).generate_content_async(request))
    request.contents.append(user("more"))
    assert len(model_of(root).requests[2].contents) == 1


async def test_a_tool_that_fails_is_not_called_again() -> None:
    def fails() -> None:
        """Fails."""
        raise ValueError("no")

    lines = await said(auto(tools=[fails]))
    assert lines[0] == "root: fails()"
    assert lines[2:] == ["root: I called `fails`."]


async def test_a_long_running_tool_is_called_once_and_its_result_told() -> None:
    """The user's result is no new message."""
    chat = Chat(auto(tools=[LongRunningFunctionTool(weather)]))
    calls = pending(await chat.say("go"))
    answer = types.FunctionResponse(id=calls[0].id, name="weather", response={"result": "rain"})
    assert story(await chat.answer(types.Part(function_response=answer))) == ["root: I called `weather`."]


async def test_instructions_that_change_with_the_turn_are_no_message_of_the_user() -> None:
    """They stand among the contents, after the results; nothing is called twice for them."""
    root = auto(tools=[weather], static_instruction="Fixed.", instruction="Changing.")
    assert (await said(root))[-1] == "root: I called `weather`."
    assert "Changing." in str(model_of(root).requests[1].contents[-1])


async def test_files_that_a_tool_shows_are_no_message_of_the_user() -> None:
    async def keep(tool_context: ToolContext) -> None:
        """Keeps a file."""
        await tool_context.save_artifact("a.txt", types.Part(text="hello"))

    model = AutoModel(arguments={"load_artifacts": {"artifact_names": ["a.txt"]}}, one_at_a_time=True)
    root = auto(model=model, tools=[keep, load_artifacts])
    lines = await said(root)
    assert [line for line in lines if "(" in line] == ["root: keep()", "root: load_artifacts(artifact_names=['a.txt'])"]
    assert lines[-1] == "root: I called `keep`, `load_artifacts`."
    assert "hello" in str(model.requests[2].contents[-1])


async def test_it_streams_its_text_in_chunks() -> None:
    """As a scripted model does."""
    model = AutoModel(answer="one two", stream_chunks=True, chunk_size=4)
    assert await said(auto(model=model), config=STREAMED) == ["root~: one ", "root~: two", "root: one two"]


# -- structured answers ----------------------------------------------------------------------------------


SCHEMAS: list[tuple[Any, Any]] = [
    (Stay, {"city": "city", "nights": 1}),
    (list[int], []),
    ({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}, {"a": 0}),
    (types.Schema(type=types.Type.STRING, enum=["yes", "no"]), "yes"),
]


@pytest.mark.parametrize(("schema", "value"), SCHEMAS)
async def test_it_answers_json_of_the_schema_that_is_asked_for(schema: Any, value: Any) -> None:
    """Whatever form the schema has, and whatever text it would say otherwise."""
    chat = Chat(auto(model=AutoModel(answer="Done."), output_schema=schema, output_key="out"))
    events = await chat.say("go")
    assert json.loads(events[-1].text) == value
    assert (await chat.state())["out"] == value


async def test_it_answers_json_of_a_json_schema_in_the_request() -> None:
    """The second field of the config that may hold a schema."""
    config = types.GenerateContentConfig(response_json_schema={"type": "array", "items": {}, "minItems": 1})
    answers = await collect(AutoModel().generate_content_async(LlmRequest(config=config)))
    assert [answer.text for answer in answers] == ['["response"]']


@pytest.mark.parametrize("one_at_a_time", [False, True])
async def test_the_tool_that_delivers_the_answer_is_called_last_and_alone(one_at_a_time: bool) -> None:
    """`set_model_response` is declared first, but ends the turn."""
    model = AutoModel(one_at_a_time=one_at_a_time)
    root = auto(model=model, tools=[weather], output_schema=Trip)
    lines = await said(root)
    assert [line for line in lines if "(" in line] == [CALLS[0], "root: set_model_response(city='city', nights=1)"]
    assert len(model.requests) == 2


async def test_a_task_is_finished_last_and_alone() -> None:
    """Its coordinator calls the task like any function."""
    helper = auto("helper", mode="task", tools=[weather], description="Helps.")
    lines = await said(auto(sub_agents=[helper]))
    assert [line for line in lines if "(" in line] == [
        "root: helper(request='request')",
        "helper: weather(city='city', day='2024-01-01')",
        "helper: finish_task(result='result')",
    ]
    assert lines[-1] == "root: I called `helper`."


async def test_agents_that_are_tools_are_called() -> None:
    helper = auto("helper", tools=[weather], description="Helps.")
    assert await said(auto(tools=[AgentTool(helper)])) == [
        "root: helper(request='request')",
        "root: helper -> {'result': 'I called `weather`.'}",
        "root: I called `helper`.",
    ]


async def test_every_agent_of_a_workflow_takes_its_turn() -> None:
    """What others said is no message of the user."""
    model = AutoModel()
    names = ("a", "b", "c")
    members = [auto(name, model, tools=[weather]) for name in names]
    row = SequentialAgent(name="row", sub_agents=[members[0], ParallelAgent(name="side", sub_agents=members[1:])])
    lines = await said(row)
    assert sorted(line for line in lines if "I called" in line) == [f"{name}: I called `weather`." for name in names]
    assert len(lines) == 9


async def test_a_loop_is_left_by_its_tool() -> None:
    root = LoopAgent(name="loop", sub_agents=[auto("a", tools=[exit_loop])], max_iterations=9)
    assert await said(root) == ["a: exit_loop()", "a: exit_loop -> {}"]


# -- visiting ------------------------------------------------------------------------------------------


def hierarchy(model: AutoModel) -> LlmAgent:
    """Three floors, two of them with several agents."""
    below_a = [auto("a1", model), auto("a2", model)]
    below_b = [auto("b1", model, sub_agents=[auto("deep", model)])]
    return auto(
        "root",
        model,
        tools=[book],
        sub_agents=[auto("a", model, tools=[weather], sub_agents=below_a), auto("b", model, sub_agents=below_b)],
    )


EVERYBODY = ["root", "a", "a1", "a2", "b", "b1", "deep"]


async def test_it_hands_over_to_nobody_unless_it_is_told_to() -> None:
    model = AutoModel()
    assert await said(hierarchy(model)) == [CALLS[1], RESULTS[1], "root: I called `book`."]
    assert model.visited == []


async def test_it_visits_every_agent_of_a_hierarchy_once() -> None:
    """In one run, after the tools of each; the last one answers. Tools are not called again on the way back."""
    model = AutoModel(visit_agents=True)
    chat = Chat(hierarchy(model))
    lines = story(await chat.say("go"))
    assert model.visited == EVERYBODY
    assert [line for line in lines if "weather(" in line or "book(" in line] == [
        CALLS[1],
        "a: weather(city='city', day='2024-01-01')",
    ]
    assert [line for line in lines if line.startswith("a: transfer_to_agent(")] == [
        "a: transfer_to_agent(agent_name='a1')",
        "a: transfer_to_agent(agent_name='b')",
    ]
    assert lines[0] == CALLS[1]
    assert lines[2] == "root: transfer_to_agent(agent_name='a')"
    assert [line for line in lines if "I called" in line] == [lines[-1]]


async def test_it_goes_back_only_as_long_as_somebody_is_left() -> None:
    """A second run with the same model has nobody to visit."""
    model = AutoModel(visit_agents=True)
    chat = Chat(hierarchy(model))
    await chat.say("go")
    asked = len(model.requests)
    assert len(await chat.say("again")) == 1
    assert len(model.requests) == asked + 1


async def test_it_visits_along_one_way_streets() -> None:
    """An agent that may hand over to nobody ends the run; the next turn goes on from above."""
    model = AutoModel(visit_agents=True)
    single: dict[str, Any] = {"disallow_transfer_to_parent": True, "disallow_transfer_to_peers": True}
    chat = Chat(auto("root", model, sub_agents=[auto("a", model, **single), auto("b", model, **single)]))
    await chat.say("go")
    assert model.visited == ["root", "a"]
    await chat.say("more")
    assert model.visited == ["root", "a", "b"]


async def test_agents_reach_each_other_through_their_parent_where_peers_are_out_of_reach() -> None:
    model = AutoModel(visit_agents=True)
    below = {"a": [auto("a1", model)]}
    children = [auto(name, model, disallow_transfer_to_peers=True, sub_agents=below.get(name, [])) for name in "abc"]
    lines = await said(auto("root", model, sub_agents=children))
    assert [line for line in lines if "(" in line] == [
        "root: transfer_to_agent(agent_name='a')",
        "a: transfer_to_agent(agent_name='a1')",
        "a1: transfer_to_agent(agent_name='a')",
        "a: transfer_to_agent(agent_name='root')",
        "root: transfer_to_agent(agent_name='b')",
        "b: transfer_to_agent(agent_name='root')",
        "root: transfer_to_agent(agent_name='c')",
    ]
    assert lines[-1] == "c: I called no tool."


def refuse(tool: Any, args: dict[str, Any], tool_context: ToolContext) -> Any:
    """Lets nobody hand over."""
    return {"error": "not now"} if tool.name == "transfer_to_agent" else None


async def test_a_hand_over_that_fails_is_not_tried_for_ever() -> None:
    """The next agent is tried, and in the end the text is said."""
    model = AutoModel(visit_agents=True)
    root = auto("root", model, sub_agents=[auto("a", model), auto("b", model)], before_tool_callback=refuse)
    lines = await said(root)
    assert [line for line in lines if "(" in line] == [
        "root: transfer_to_agent(agent_name='a')",
        "root: transfer_to_agent(agent_name='b')",
    ]
    assert lines[-1] == "root: I called `transfer_to_agent`."


async def test_a_way_back_that_fails_is_not_tried_for_ever() -> None:
    model = AutoModel(visit_agents=True)
    stuck = auto("a", model, disallow_transfer_to_peers=True, before_tool_callback=refuse)
    lines = await said(auto("root", model, sub_agents=[stuck, auto("b", model)]))
    assert [line for line in lines if "(" in line][1:] == ["a: transfer_to_agent(agent_name='root')"]
    assert lines[-1].startswith("a: ")
    assert model.visited == ["root", "a"]


async def test_an_agent_hands_over_before_it_delivers_its_answer() -> None:
    """The last one delivers."""
    model = AutoModel(visit_agents=True)
    last = auto("a", model, output_schema=Stay, tools=[weather])
    lines = await said(auto("root", model, output_schema=Stay, tools=[weather], sub_agents=[last]))
    assert [line.partition("(")[0] for line in lines if "(" in line] == [
        "root: weather",
        "root: transfer_to_agent",
        "a: weather",
        "a: set_model_response",
    ]


async def test_the_hand_over_may_be_left_out() -> None:
    model = AutoModel(visit_agents=True, exclude=["transfer_to_agent"])
    assert await said(hierarchy(model)) == [CALLS[1], RESULTS[1], "root: I called `book`."]
