"""`LlmService`: a model asked with chat messages."""

from __future__ import annotations

import dataclasses
import json
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing
from typing import Any

import pytest
from google.genai import types
from kit import declared_names, named_call, result, said, system_text, text, user

from flowloom import BaseLlm, FunctionTool, InputValidationError, LlmRequest, LlmResponse, ModelError, OfflineModel
from flowloom.errors import (
    ChatMessageError,
    ConfigurationError,
    IncompleteStreamError,
    ModelRateLimitError,
    ModelResponseError,
    UnsupportedFeatureError,
)
from flowloom.events.parts import call_piece
from flowloom.interop import AgentResponse, ChatMessage, LLMService, LlmService
from flowloom.testing import FunctionModel, ScriptedModel, call, dropped, truncated

HELLO: ChatMessage = {"role": "user", "content": "Hello."}
WEATHER: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": "weather",
        "description": "The weather of a city.",
        "parameters": {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]},
    },
}
TIME: dict[str, Any] = {"type": "function", "function": {"name": "time"}}


async def request_for(*messages: Any, **options: Any) -> LlmRequest:
    """What the model is asked."""
    model = ScriptedModel(["Hi."])
    await LlmService(model).run_llm({"messages": messages or [HELLO], **options})
    return model.requests[0]


async def answer_to(response: Any, **options: Any) -> AgentResponse:
    return await LlmService(ScriptedModel([response])).run_llm({"messages": [HELLO], **options})


async def streamed(model: BaseLlm, **options: Any) -> list[AgentResponse]:
    answers = await LlmService(model).run_llm({"messages": [HELLO], "stream": True, **options})
    return [each async for each in answers]


def asking(*calls: tuple[str, str, str]) -> ChatMessage:
    return {
        "role": "assistant",
        "content": "",
        "tool_calls": [
            {"id": call_id, "type": "function", "function": {"name": name, "arguments": arguments}}
            for call_id, name, arguments in calls
        ],
    }


class TestRequest:
    async def test_system_messages_at_the_start_are_the_instruction(self) -> None:
        request = await request_for(
            {"role": "system", "content": "Be brief."},
            {"role": "developer", "content": [{"type": "text", "text": "Be "}, {"type": "text", "text": "kind."}]},
            HELLO,
        )
        assert system_text(request) == "Be brief.\n\nBe kind."
        assert request.contents == [user("Hello.")]

    async def test_system_messages_further_on_stay_in_their_places_as_the_users(self) -> None:
        request = await request_for(
            HELLO, {"role": "system", "content": "Be brief."}, {"role": "assistant", "content": "Hi."}, HELLO
        )
        assert request.contents == [user("Hello."), user("Be brief."), said("Hi."), user("Hello.")]
        assert not request.config.system_instruction

    async def test_an_instruction_is_text(self) -> None:
        image = {"type": "image_url", "image_url": {"url": "https://example.com/a.png"}}
        with pytest.raises(UnsupportedFeatureError) as caught:
            await request_for({"role": "system", "content": [image]})
        assert caught.value.field == "messages[0].content"

    async def test_results_of_several_tools_are_one_content(self) -> None:
        request = await request_for(
            HELLO,
            asking(("a", "weather", '{"city": "Rome"}'), ("b", "time", "{}")),
            {"role": "tool", "tool_call_id": "b", "content": "9:00"},
            {"role": "tool", "tool_call_id": "a", "content": '{"sky": "blue"}'},
            HELLO,
            asking(("c", "time", "{}")),
            {"role": "tool", "tool_call_id": "c", "content": "9:01"},
        )
        assert request.contents == [
            user("Hello."),
            said(named_call("a", "weather", city="Rome"), named_call("b", "time")),
            user(result("b", "time", {"result": "9:00"}), result("a", "weather", {"sky": "blue"})),
            user("Hello."),
            said(named_call("c", "time")),
            user(result("c", "time", {"result": "9:01"})),
        ]

    async def test_messages_that_say_nothing_are_not_sent(self) -> None:
        request = await request_for(HELLO, {"role": "assistant", "content": None}, {"role": "user", "content": ""})
        assert request.contents == [user("Hello.")]

    async def test_tools_are_declared_in_any_form(self) -> None:
        def find(city: str) -> str:
            """Find a city."""
            return city

        request = await request_for(tools=[WEATHER, TIME, FunctionTool(find, name="search"), find])
        assert declared_names(request) == list(request.tools_dict) == ["weather", "time", "search", "find"]
        [group] = request.config.tools or ()
        assert isinstance(group, types.Tool)
        declared = (group.function_declarations or [])[0]
        assert declared.description == "The weather of a city."
        assert declared.parameters_json_schema == WEATHER["function"]["parameters"]

    @pytest.mark.parametrize(
        ("choice", "mode", "names"),
        [
            ("auto", "AUTO", None),
            ("none", "NONE", None),
            ("required", "ANY", None),
            ({"type": "function", "function": {"name": "time"}}, "ANY", ["time"]),
        ],
    )
    async def test_tool_choice(self, choice: Any, mode: str, names: list[str] | None) -> None:
        request = await request_for(tools=[WEATHER, TIME], tool_choice=choice)
        assert request.config.tool_config == types.ToolConfig(
            function_calling_config=types.FunctionCallingConfig(
                mode=types.FunctionCallingConfigMode(mode), allowed_function_names=names
            )
        )

    @pytest.mark.parametrize(
        ("options", "expected"),
        [
            ({"temperature": 0.5, "top_p": 0.9, "top_k": 3}, {"temperature": 0.5, "top_p": 0.9, "top_k": 3}),
            ({"max_tokens": 5}, {"max_output_tokens": 5}),
            ({"max_tokens": 5, "max_completion_tokens": 7}, {"max_output_tokens": 7}),
            ({"stop": "END"}, {"stop_sequences": ["END"]}),
            ({"stop": ["A", "B"]}, {"stop_sequences": ["A", "B"]}),
            ({"seed": 1, "presence_penalty": 0.1}, {"seed": 1, "presence_penalty": 0.1}),
            ({"frequency_penalty": 0.2}, {"frequency_penalty": 0.2}),
            ({"logprobs": True}, {"response_logprobs": True}),
            ({"logprobs": True, "top_logprobs": 2}, {"response_logprobs": True, "logprobs": 2}),
            ({"response_format": {"type": "text"}}, {}),
            ({"response_format": {"type": "json_object"}}, {"response_mime_type": "application/json"}),
            (
                {
                    "response_format": {
                        "type": "json_schema",
                        "json_schema": {"name": "a", "schema": {"type": "object"}},
                    }
                },
                {"response_mime_type": "application/json", "response_json_schema": {"type": "object"}},
            ),
            ({"reasoning_effort": "none"}, {"thinking_config": types.ThinkingConfig(thinking_budget=0)}),
            ({"reasoning_effort": "medium"}, {"thinking_config": types.ThinkingConfig(thinking_budget=8192)}),
            ({"temperature": None, "tools": None, "tool_choice": None, "stop": None, "n": 1, "logprobs": False}, {}),
        ],
    )
    async def test_settings(self, options: dict[str, Any], expected: dict[str, Any]) -> None:
        request = await request_for(**options)
        assert request.config.model_dump(exclude_none=True) == types.GenerateContentConfig(**expected).model_dump(
            exclude_none=True
        )

    async def test_the_model_of_the_options_goes_before(self) -> None:
        assert (await request_for()).model == "scripted"
        assert (await request_for(model="other")).model == "other"

    async def test_the_options_are_not_changed(self) -> None:
        options: Any = {"messages": [HELLO, asking(("a", "time", "{}"))], "tools": [WEATHER, TIME], "stop": ["A"]}
        before = json.dumps(options)
        await LlmService(ScriptedModel(["Hi."])).run_llm(options)
        assert json.dumps(options) == before

    async def test_options_that_change_nothing_are_left_out_with_one_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        service = LlmService(ScriptedModel(["Hi.", "Hi."]))
        strict = {"type": "function", "function": {"name": "weather", "strict": True}}
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                await service.run_llm({"messages": [HELLO], "user": "ann", "tools": [strict]})  # type: ignore[typeddict-unknown-key, list-item]
        assert [record.getMessage().split()[0] for record in caplog.records] == ["`user`", "`tools[].function.strict`"]

    @pytest.mark.parametrize(
        ("options", "field", "reason"),
        [
            ({"temprature": 1}, "temprature", "the closest is `temperature`"),
            ({"n": 2}, "n", "several answers"),
            ({"tools": [{"type": "web_search"}]}, "tools[0].type", "tools are functions here"),
        ],
    )
    async def test_options_without_words_in_a_request_are_refused(
        self, options: dict[str, Any], field: str, reason: str
    ) -> None:
        with pytest.raises(UnsupportedFeatureError, match=reason) as caught:
            await request_for(**options)
        assert caught.value.field == field

    @pytest.mark.parametrize(
        ("options", "reason"),
        [
            ({"temperature": "hot"}, "`temperature`: Input should be a valid number"),
            ({"reasoning_effort": "huge"}, "there are `none`, `minimal`"),
            ({"response_format": {"type": "yaml"}}, "`response_format` is {'type': 'yaml'}"),
            ({"tool_choice": "any"}, "`tool_choice` is 'any'"),
            (
                {"tool_choice": {"type": "function", "function": {"name": "map"}}, "tools": [TIME]},
                "the tools are `time`",
            ),
            ({"tools": ["time"]}, "`tools[0]` is a str, and no tool"),
            ({"tools": 5}, "The option `tools` is a list of tools. It was given a int"),
            ({"tools": TIME}, "The option `tools` is a list of tools. It was given a dict"),
            ({"tools": [{"type": "function"}]}, "`tools[0]` has no `function` with a `name`"),
            ({"tools": [{"type": "function", "function": {"name": "time", "description": 1}}]}, "cannot be declared"),
        ],
    )
    async def test_options_of_another_form_are_refused(self, options: dict[str, Any], reason: str) -> None:
        with pytest.raises(InputValidationError) as caught:
            await request_for(**options)
        assert reason in str(caught.value)

    async def test_a_message_of_another_form_is_refused_by_its_place(self) -> None:
        with pytest.raises(ChatMessageError) as caught:
            await request_for(HELLO, {"role": "user"})
        assert caught.value.index == 1

    async def test_messages_are_required(self) -> None:
        with pytest.raises(InputValidationError, match="The options have no `messages`"):
            await LlmService(ScriptedModel([])).run_llm({})  # type: ignore[typeddict-item]

    @pytest.mark.parametrize("options", [None, 5, "Hi", [HELLO], {5: 5}])
    async def test_options_are_a_dict_of_names(self, options: Any) -> None:
        with pytest.raises(InputValidationError, match="a dict with `messages`, not"):
            await LlmService(ScriptedModel([])).run_llm(options)

    @pytest.mark.parametrize("model", [None, 5, ScriptedModel])
    def test_what_is_no_model_is_refused(self, model: Any) -> None:
        with pytest.raises(ConfigurationError, match="takes a `BaseLlm`, or the name of a model, not"):
            LlmService(model)

    def test_a_model_may_be_given_by_its_name(self) -> None:
        service = LlmService("offline")
        assert isinstance(service.model, OfflineModel)
        assert isinstance(service, LLMService)


USAGE = types.GenerateContentResponseUsageMetadata(
    prompt_token_count=10,
    tool_use_prompt_token_count=2,
    candidates_token_count=5,
    thoughts_token_count=3,
    cached_content_token_count=4,
    total_token_count=20,
)


class TestAnswer:
    async def test_text(self) -> None:
        answer = await answer_to(LlmResponse(content=said("Hi ", "you."), model_version="m-1"))
        assert answer == AgentResponse("Hi you.", [], "stop", model="m-1")
        assert answer.message == {"role": "assistant", "content": "Hi you."}

    async def test_calls(self) -> None:
        answer = await answer_to(said("I look.", named_call("a", "weather", city="Rome"), named_call("b", "time")))
        assert answer.content == "I look."
        assert answer.finish_reason == "tool_calls"
        assert [*answer.tool_calls] == asking(("a", "weather", '{"city":"Rome"}'), ("b", "time", "{}"))["tool_calls"]
        assert answer.message == {"role": "assistant", "content": "I look.", "tool_calls": answer.tool_calls}

    async def test_nothing(self) -> None:
        answer = await answer_to(said())
        assert (answer.content, [*answer.tool_calls], answer.finish_reason) == (None, [], "stop")

    async def test_calls_without_ids_get_some(self) -> None:
        answer = await answer_to([call("time"), call("time")])
        ids = {each["id"] for each in answer.tool_calls}
        assert len(ids) == 2
        assert "" not in ids

    async def test_thoughts_are_apart(self) -> None:
        answer = await answer_to(said(text("Hm.", thought=True), "Hi."))
        assert (answer.reasoning, answer.content) == ("Hm.", "Hi.")

    async def test_token_counts(self) -> None:
        answer = await answer_to(LlmResponse(content=said("Hi."), usage_metadata=USAGE))
        assert answer.usage == {
            "prompt_tokens": 12,
            "completion_tokens": 8,
            "total_tokens": 20,
            "prompt_tokens_details": {"cached_tokens": 4},
            "completion_tokens_details": {"reasoning_tokens": 3},
        }

    @pytest.mark.parametrize(
        ("response", "expected"),
        [
            (LlmResponse(content=said("Hi."), finish_reason=types.FinishReason.MAX_TOKENS), "length"),
            (LlmResponse(content=said("Hi."), finish_reason=types.FinishReason.RECITATION), "content_filter"),
            (LlmResponse(content=said("Hi."), finish_reason=types.FinishReason.LANGUAGE), "language"),
            (LlmResponse(error_code="SAFETY", finish_reason=types.FinishReason.SAFETY), "content_filter"),
            (LlmResponse(error_code="PROHIBITED_CONTENT", error_message="Blocked."), "content_filter"),
            (LlmResponse(error_code="JAILBREAK"), "content_filter"),
            (LlmResponse(error_code="MALFORMED_FUNCTION_CALL"), "malformed_function_call"),
        ],
    )
    async def test_why_it_ended(self, response: LlmResponse, expected: str) -> None:
        assert (await answer_to(response)).finish_reason == expected

    async def test_the_message_brings_thoughts_and_signatures_back_to_the_model(self) -> None:
        first = said(
            text("Hm.", thought=True),
            types.Part(function_call=types.FunctionCall(id="a", name="time", args={}), thought_signature=b"signed"),
        )
        model = ScriptedModel([first, "It is 9:00."])
        service = LlmService(model)
        messages: list[ChatMessage] = [HELLO]
        messages.append((await service.run_llm({"messages": messages})).message)
        messages.append({"role": "tool", "tool_call_id": "a", "content": "9:00"})
        await service.run_llm({"messages": messages})
        assert model.requests[1].contents[1] == first

    async def test_a_changed_answer_has_nothing_to_remember(self) -> None:
        answer = await answer_to(said(text("Hm.", thought=True), "Hi."))
        assert answer.response is not None
        assert dataclasses.replace(answer, content="Bye.").response is None


class TestErrors:
    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_models_error_is_raised_as_it_is(self, stream: bool) -> None:
        error = ModelRateLimitError("Slow down.", retry_after=5)
        with pytest.raises(ModelRateLimitError) as caught:
            await run(ScriptedModel([error]), stream)
        assert caught.value is error

    @pytest.mark.parametrize("stream", [False, True])
    async def test_anything_else_that_a_model_raises_becomes_a_model_error(self, stream: bool) -> None:
        with pytest.raises(ModelError, match="RuntimeError: It broke") as caught:
            await run(ScriptedModel([RuntimeError("It broke.")]), stream)
        assert isinstance(caught.value.__cause__, RuntimeError)

    @pytest.mark.parametrize("stream", [False, True])
    async def test_a_reported_error_is_raised(self, stream: bool) -> None:
        with pytest.raises(ModelResponseError, match=r"INTERNAL.*Out of order") as caught:
            await run(ScriptedModel([LlmResponse(error_code="INTERNAL", error_message="Out of order.")]), stream)
        assert caught.value.code == "INTERNAL"

    async def test_a_reported_error_that_is_an_exception_is_raised(self) -> None:
        error = ModelRateLimitError("Slow down.")
        with pytest.raises(ModelRateLimitError):
            await answer_to(LlmResponse(error_code="429", error=error))

    async def test_a_model_that_says_nothing_is_an_error(self) -> None:
        with pytest.raises(ModelResponseError, match="`scripted` gave no response"):
            await answer_to(truncated("Hi."))

    @pytest.mark.parametrize("after", [0, 1])
    async def test_a_stream_without_its_whole_is_an_error(self, after: int) -> None:
        with pytest.raises(IncompleteStreamError, match="`scripted` ended before its whole answer came"):
            await streamed(ScriptedModel([truncated("It is sunny in Rome.", after=after)]))

    async def test_the_pieces_before_an_error_are_given(self) -> None:
        model = ScriptedModel([dropped("It is sunny in Rome.", after=2)])
        answers = await LlmService(model).run_llm({"messages": [HELLO], "stream": True})
        assert [(await anext(answers)).content for _ in range(2)] == ["It is su", "nny in R"]
        with pytest.raises(ModelError, match="broke off"):
            await anext(answers)


async def run(model: BaseLlm, stream: bool) -> Any:
    if stream:
        return await streamed(model)
    return await LlmService(model).run_llm({"messages": [HELLO]})


def pieces(*parts: types.Part) -> list[LlmResponse]:
    """A stream of these parts, one by one."""
    return [LlmResponse(content=said(part), partial=True) for part in parts]


class TestStream:
    async def test_pieces_come_first_and_the_whole_is_last(self) -> None:
        content = said(text("Let me see.", thought=True), "It is sunny in Rome.", named_call("a", "time"))
        answers = await streamed(ScriptedModel([content], stream_chunks=True))
        *partials, whole = answers
        assert [each.partial for each in answers] == [True] * len(partials) + [False]
        assert "".join(each.content or "" for each in partials) == whole.content == "It is sunny in Rome."
        assert "".join(each.reasoning or "" for each in partials) == whole.reasoning == "Let me see."
        assert [call for each in partials for call in each.tool_calls] == [*whole.tool_calls]
        assert whole == await answer_to(content)

    async def test_arguments_come_as_the_text_that_the_model_writes(self) -> None:
        """Joined by the id of their call they are the arguments of the whole, to the letter."""
        written = ['{"city": ', '"Rome",', ' "days": 1.0}']
        parts = [call_piece("a", "weather", each, more=True) for each in written]
        whole = LlmResponse(content=said(named_call("a", "weather", city="Rome", days=1.0)))
        *partials, last = await streamed(ScriptedModel([[*pieces(*parts), whole]]))
        calls = [call for each in partials for call in each.tool_calls]
        assert [call["function"]["arguments"] for call in calls] == written
        assert {(call["id"], call["function"]["name"]) for call in calls} == {("a", "weather")}
        assert last.tool_calls[0]["function"]["arguments"] == "".join(written)

    async def test_arguments_that_come_leaf_by_leaf_are_given_once_they_are_whole(self) -> None:
        def leaf(path: str, value: str, more: bool) -> types.Part:
            leaves = [types.PartialArg(json_path=path, string_value=value)]
            return types.Part(
                function_call=types.FunctionCall(id="a", name="weather", partial_args=leaves, will_continue=more)
            )

        parts = [leaf("$.city", "Ro", True), leaf("$.city", "me", True), leaf("$.unit", "C", False)]
        whole = LlmResponse(content=said(named_call("a", "weather", city="Rome", unit="C")))
        *partials, last = await streamed(ScriptedModel([[*pieces(*parts), whole]]))
        assert [[*each.tool_calls] for each in partials] == [[*last.tool_calls]]
        assert last.tool_calls[0]["function"]["arguments"] == '{"city":"Rome","unit":"C"}'

    async def test_a_call_without_an_id_has_one_in_all_pieces_and_the_whole(self) -> None:
        *partials, whole = await streamed(ScriptedModel([[call("time"), call("time")]], stream_chunks=True))
        shown = [each["id"] for partial in partials for each in partial.tool_calls]
        assert shown == [each["id"] for each in whole.tool_calls]
        assert len({*shown}) == 2

    async def test_pieces_that_say_nothing_are_left_out(self) -> None:
        empty = LlmResponse(content=said(), partial=True, usage_metadata=USAGE)
        [whole] = await streamed(ScriptedModel([[empty, LlmResponse(content=said("Hi."))]]))
        assert whole.content == "Hi."

    async def test_a_stream_that_is_left_ends_the_call(self) -> None:
        ended: list[str] = []

        async def talk(request: LlmRequest) -> AsyncGenerator[LlmResponse, None]:
            try:
                while True:
                    yield LlmResponse(content=said("On and on."), partial=True)
            finally:
                ended.append("talk")

        answers = await LlmService(FunctionModel(talk)).run_llm({"messages": [HELLO], "stream": True})
        async with aclosing(answers):
            assert (await anext(answers)).content == "On and on."
        assert ended == ["talk"]
