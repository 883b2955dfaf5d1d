"""What a person may answer, and what it becomes."""

from __future__ import annotations

from typing import Any

import kit
import pytest
from google.genai import types
from pydantic import BaseModel

from flowloom import FunctionTool, HumanModel, LlmRequest, LlmResponse
from flowloom.errors import ModelRequestError
from flowloom.human import UnfitAnswerError
from flowloom.testing import call
from human.person import add, agent, answering, chat, refusal_of, said

ADD = types.FunctionCall(name="add", args={"a": 1, "b": 2})


def request(**config: Any) -> LlmRequest:
    """A question with the tool `add`."""
    made = LlmRequest(contents=[kit.user("1 + 2?")], config=types.GenerateContentConfig(**config))
    made.append_tools([FunctionTool(add)])
    return made


async def given(model: HumanModel, asked: LlmRequest, *, stream: bool = False) -> list[LlmResponse]:
    return [each async for each in model.generate_content_async(asked, stream)]


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ("Three.", ["Three."]),
        (types.Part(text="Three."), ["Three."]),
        (kit.said("Three."), ["Three."]),
        (["Well: ", types.Part(text="three.")], ["Well: ", "three."]),
        (ADD, ["add(1, 2)"]),
        (call("add", a=1, b=2), ["add(1, 2)"]),
        (["I add.", ADD], ["I add.", "add(1, 2)"]),
        ([ADD, call("add", a=3, b=4)], ["add(1, 2)", "add(3, 4)"]),
    ],
)
async def test_an_answer_is_a_text_or_parts_or_calls(answer: Any, shown: list[str]) -> None:
    [response] = await given(answering(answer), request())
    assert response.content is not None
    assert response.content.role == "model"
    assert response.finish_reason is types.FinishReason.STOP
    found = [
        f"{part.function_call.name}({', '.join(map(str, (part.function_call.args or {}).values()))})"
        if part.function_call
        else part.text
        for part in response.content.parts or ()
    ]
    assert found == shown


async def test_calls_get_ids_and_keep_those_that_they_have() -> None:
    named = types.FunctionCall(id="mine", name="add", args={"a": 1})
    [response] = await given(answering([named, ADD, ADD]), request())
    ids = [each.id for each in response.get_function_calls()]
    assert ids[0] == "mine"
    assert len({*ids, None}) == 4
    assert ADD.id is None


async def test_a_streamed_answer_comes_in_a_piece_and_then_whole() -> None:
    """The call has the same id in both."""
    piece, whole = await given(answering(["I add.", ADD]), request(), stream=True)
    assert (piece.partial, whole.partial) == (True, None)
    assert (piece.text, whole.text) == ("I add.", "I add.")
    [shown], [final] = piece.get_function_calls(), whole.get_function_calls()
    assert shown.id == final.id is not None


async def test_a_streamed_run_ends_as_an_unstreamed_one() -> None:
    model = answering([ADD], "Three.", [ADD], "Three.")
    plain = kit.story(await chat(agent(model, tools=[add])).say("1 + 2?"))
    streamed = kit.story(await chat(agent(model, tools=[add]), config=kit.STREAMED).say("1 + 2?"))
    assert plain == ["adder: add(a=1, b=2)", "adder: add -> {'sum': 3}", "adder: Three."]
    assert [line for line in streamed if "~" not in line] == plain


async def test_a_whole_response_is_given_as_it_is() -> None:
    """It is not checked, so that one can play a model that errs."""
    usage = types.GenerateContentResponseUsageMetadata(total_token_count=9)
    content = types.Content(role="model", parts=[call("subtract", c="x")])
    response = LlmResponse(content=content, usage_metadata=usage, finish_reason=types.FinishReason.MAX_TOKENS)
    [got] = await given(answering(response), request())
    assert [each.name for each in got.get_function_calls()] == ["subtract"]
    assert (got.usage_metadata, got.finish_reason) == (usage, types.FinishReason.MAX_TOKENS)
    assert content.parts is not None
    assert content.parts[0].function_call is not None
    assert content.parts[0].function_call.id is None


async def test_a_response_may_be_an_error() -> None:
    for stream in (False, True):
        [got] = await given(answering(LlmResponse(error_code="SAFETY")), request(), stream=stream)
        assert got.error_code == "SAFETY"


async def test_an_exception_is_raised_as_the_models_failure() -> None:
    error = ModelRequestError("I do not answer that.")
    with pytest.raises(ModelRequestError) as caught:
        await given(answering(error), request())
    assert caught.value is error


async def test_a_failure_is_an_event_of_the_run() -> None:
    with pytest.raises(ModelRequestError):
        await said(conversation := chat(agent(answering(ModelRequestError("No.")))), "1 + 2?")
    assert kit.story(await conversation.stored()) == ["user: 1 + 2?", "adder: !ModelRequestError"]


# -- what does not fit -----------------------------------------------------------------------------


@pytest.mark.parametrize("nothing", ["", "  ", [], [""], kit.said(), types.Part(text="")])
async def test_an_answer_says_something(nothing: Any) -> None:
    assert "says nothing" in str(await refusal_of(request(), nothing))


@pytest.mark.parametrize("answer", [7, None, {"text": "Three."}, [["Three."]]])
async def test_what_is_no_answer_is_refused(answer: Any) -> None:
    assert "is no part of an answer" in str(await refusal_of(request(), answer))


async def test_a_piece_of_a_response_is_refused() -> None:
    assert "Give the complete one" in str(await refusal_of(request(), LlmResponse(partial=True)))


async def test_a_call_of_no_declared_tool_is_refused() -> None:
    error = await refusal_of(request(), call("ad", a=1))
    assert isinstance(error, UnfitAnswerError)
    assert str(error) == "There is no tool `ad` to call. The tools are `add`."
    assert (error.tool, error.field) == ("ad", None)


@pytest.mark.parametrize(
    ("args", "field", "reason"),
    [
        ({"a": "one"}, "a", 'must be a valid number; got "one"'),
        ({"b": 2}, "a", "is missing"),
        ({"a": 1, "c": 2}, "c", "is not allowed here"),
    ],
)
async def test_arguments_that_do_not_fit_are_refused_with_their_field(
    args: dict[str, Any], field: str, reason: str
) -> None:
    error = await refusal_of(request(), [ADD, types.FunctionCall(name="add", args=args)])
    assert isinstance(error, UnfitAnswerError)
    assert (error.tool, error.field) == ("add", field)
    assert error.request_id
    assert f"`{field}`: {reason}" in str(error)


async def test_two_calls_of_one_id_are_refused() -> None:
    same = types.FunctionCall(id="same", name="add", args={"a": 1})
    assert "same id" in str(await refusal_of(request(), [same, same]))


async def test_a_refused_answer_can_be_mended() -> None:
    model = HumanModel()

    def answer(waiting: Any) -> None:
        with pytest.raises(UnfitAnswerError):
            model.answer(waiting.id, call("add", a="one"))
        model.answer(waiting.id, call("add", a=1))

    model.subscribe(answer)
    [response] = await given(model, request())
    assert response.get_function_calls()[0].args == {"a": 1}


# -- what the request asks for ---------------------------------------------------------------------


class Sum(BaseModel):
    total: int


SCHEMAS: list[Any] = [
    Sum,
    {"type": "object", "properties": {"total": {"type": "integer"}}, "required": ["total"]},
    types.Schema(type=types.Type.OBJECT, properties={"total": types.Schema(type=types.Type.INTEGER)}),
]


@pytest.mark.parametrize("schema", SCHEMAS, ids=["model", "json", "gemini"])
async def test_a_text_is_json_of_the_response_schema(schema: Any) -> None:
    asked = LlmRequest()
    asked.set_output_schema(schema)
    assert "is not JSON" in str(await refusal_of(asked, "Three."))
    error = await refusal_of(asked, '{"total": "three"}')
    assert isinstance(error, UnfitAnswerError)
    assert (error.tool, error.field) == (None, "total")
    [response] = await given(answering('{"total": 3}'), asked)
    assert response.text == '{"total": 3}'


async def test_a_json_schema_in_the_config_counts_too() -> None:
    schema = {"type": "object", "properties": {"total": {"type": "integer"}}}
    asked = LlmRequest(config=types.GenerateContentConfig(response_json_schema=schema))
    assert "is not JSON" in str(await refusal_of(asked, "Three."))


async def test_calls_come_before_the_json() -> None:
    """An agent with an output schema and tools: the person calls first, and gives the JSON in the end."""
    model = answering(["I add.", ADD], '{"total": 3}')
    declared: list[list[str]] = []
    model.subscribe(ended=lambda waiting: declared.append([form.name for form in waiting.tools]))
    events = await chat(agent(model, tools=[add], output_schema=Sum)).say("1 + 2?")
    assert kit.story(events)[-1] == 'adder: {"total": 3}'
    assert declared == [["add"], ["add"]]


async def test_a_request_may_forbid_calls() -> None:
    config = {"tool_config": types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="NONE"))}  # type: ignore[arg-type]
    assert "There is no tool" in str(await refusal_of(request(**config), ADD))


async def test_a_request_may_ask_for_a_call() -> None:
    config = {"tool_config": types.ToolConfig(function_calling_config=types.FunctionCallingConfig(mode="ANY"))}  # type: ignore[arg-type]
    assert "asks for a call" in str(await refusal_of(request(**config), "Three."))
