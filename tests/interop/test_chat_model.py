"""`ServiceModel`: a service of chat messages as an agent's model."""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable
from contextlib import aclosing
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, named_call, result, said, story, text, user

from flowloom import BaseLlm, ConfigurationError, LlmAgent, LlmRequest, LlmResponse, ModelError
from flowloom.errors import (
    IncompleteStreamError,
    ModelRateLimitError,
    ModelRequestError,
    ModelResponseError,
    ModelUnavailableError,
    UnsupportedFeatureError,
)
from flowloom.interop import AgentResponse, LlmService, LLMServiceOptions, ServiceModel, ToolCall
from flowloom.models.turns import CONTINUE, NO_RESULT
from flowloom.testing import ScriptedModel, call

Answer = Any
TIME: ToolCall = {"id": "a", "type": "function", "function": {"name": "time", "arguments": '{"zone": "CET"}'}}


class Service:
    """A service of somebody else's. It gives these answers: one, an error, or a list of pieces to be streamed."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers) or [AgentResponse("Hi.")]
        self.asked: list[Any] = []
        self.closed = 0

    async def run_llm(self, options: LLMServiceOptions) -> AgentResponse | AsyncIterator[AgentResponse]:
        self.asked.append(options)
        answer = self.answers.pop(0)
        if isinstance(answer, list):
            return self._stream(answer)
        if isinstance(answer, Exception):
            raise answer
        return answer

    async def _stream(self, answers: list[Answer]) -> AsyncIterator[AgentResponse]:
        try:
            for each in answers:
                if isinstance(each, Exception):
                    raise each
                yield each
        finally:
            self.closed += 1


def piece(content: str | None = None, **fields: Any) -> AgentResponse:
    return AgentResponse(content, partial=True, **fields)


def request(*contents: types.Content, **config: Any) -> LlmRequest:
    return LlmRequest(contents=list(contents) or [user("Hello.")], config=types.GenerateContentConfig(**config))


async def responses(model: BaseLlm, given: LlmRequest | None = None, stream: bool = False) -> list[LlmResponse]:
    return [each async for each in model.generate_content_async(given or request(), stream)]


async def options_for(*contents: types.Content, **config: Any) -> Any:
    """What a service is asked."""
    service = Service()
    await responses(ServiceModel(service), request(*contents, **config))
    return service.asked[0]


def declared(*names: str) -> list[types.Tool]:
    return [types.Tool(function_declarations=[types.FunctionDeclaration(name=name) for name in names])]


def calling(mode: str, *names: str) -> types.ToolConfig:
    config = types.FunctionCallingConfig(
        mode=types.FunctionCallingConfigMode(mode), allowed_function_names=list(names) or None
    )
    return types.ToolConfig(function_calling_config=config)


class TestQuestion:
    async def test_the_instruction_is_the_first_message(self) -> None:
        options = await options_for(user("Hello."), said("Hi."), user("Bye."), system_instruction="Be brief.")
        assert options == {
            "messages": [
                {"role": "system", "content": "Be brief."},
                {"role": "user", "content": "Hello."},
                {"role": "assistant", "content": "Hi."},
                {"role": "user", "content": "Bye."},
            ]
        }

    async def test_a_conversation_is_completed_as_providers_ask_for(self) -> None:
        """Each call has a result, and the last word is the user's."""
        options = await options_for(user("Hello."), said(named_call("a", "time")), said("One.", "Two."))
        assert options["messages"][2:] == [
            {"role": "tool", "tool_call_id": "a", "content": f'{{"error":"{NO_RESULT}"}}'},
            {"role": "assistant", "content": "One.Two."},
            {"role": "user", "content": CONTINUE},
        ]

    async def test_results_stand_behind_their_calls_and_those_of_no_call_are_texts(self) -> None:
        options = await options_for(
            said(named_call("a", "time")),
            user("Be quick.", result("a", "time", {"hour": 9})),
            said("A moment."),
            user(result("b", "map", {"city": "Rome"}), "And?"),
        )
        assert options["messages"][1:] == [
            {"role": "tool", "tool_call_id": "a", "content": '{"hour":9}'},
            {"role": "user", "content": "Be quick."},
            {"role": "assistant", "content": "A moment."},
            {
                "role": "user",
                "content": [
                    {"type": "text", "text": 'Result of `map`: {"city":"Rome"}'},
                    {"type": "text", "text": "And?"},
                ],
            },
        ]

    async def test_empty_texts_are_not_sent(self) -> None:
        options = await options_for(user("One.", ""), said("", "Two."), user("", "Three.", "Four."))
        assert [each["content"] for each in options["messages"]] == [
            "One.",
            "Two.",
            [{"type": "text", "text": "Three."}, {"type": "text", "text": "Four."}],
        ]

    async def test_messages_that_say_nothing_are_not_sent(self) -> None:
        options = await options_for(user("Hello."), said(text("Hm.", thought=True)), user(""), user("Hello?"))
        assert [each["content"] for each in options["messages"]] == ["Hello.", "Hello?"]

    @pytest.mark.parametrize(
        ("config", "expected"),
        [
            ({"temperature": 0.5, "top_p": 0.9, "seed": 1}, {"temperature": 0.5, "top_p": 0.9, "seed": 1}),
            ({"max_output_tokens": 5, "stop_sequences": ["END"]}, {"max_tokens": 5, "stop": ["END"]}),
            ({"presence_penalty": 0.1, "frequency_penalty": 0.2}, {"presence_penalty": 0.1, "frequency_penalty": 0.2}),
            ({"thinking_config": types.ThinkingConfig(thinking_budget=1024)}, {"reasoning_effort": "low"}),
            ({"response_mime_type": "application/json"}, {"response_format": {"type": "json_object"}}),
            (
                {"response_mime_type": "application/json", "response_json_schema": {"type": "object", "title": "A"}},
                {
                    "response_format": {
                        "type": "json_schema",
                        "json_schema": {"name": "A", "schema": {"type": "object", "title": "A"}, "strict": False},
                    }
                },
            ),
            ({"response_modalities": ["TEXT"], "candidate_count": 1, "stop_sequences": []}, {}),
        ],
    )
    async def test_settings(self, config: dict[str, Any], expected: dict[str, Any]) -> None:
        options = await options_for(**config)
        del options["messages"]
        assert options == expected

    @pytest.mark.parametrize(
        ("config", "tools", "choice"),
        [
            (None, ["time", "map"], None),
            (calling("AUTO"), ["time", "map"], "auto"),
            (calling("NONE"), ["time", "map"], "none"),
            (calling("ANY"), ["time", "map"], "required"),
            (calling("ANY", "map"), ["time", "map"], {"type": "function", "function": {"name": "map"}}),
            (calling("ANY", "map", "time", "other"), ["time", "map"], "required"),
        ],
    )
    async def test_tools_and_their_choice(self, config: Any, tools: list[str], choice: Any) -> None:
        options = await options_for(tools=declared("time", "map"), tool_config=config)
        assert options["tools"] == [{"type": "function", "function": {"name": name}} for name in tools]
        assert options.get("tool_choice") == choice

    async def test_several_tools_to_choose_from_are_the_only_ones(self) -> None:
        options = await options_for(tools=declared("time", "map", "plan"), tool_config=calling("ANY", "time", "plan"))
        assert [each["function"]["name"] for each in options["tools"]] == ["time", "plan"]
        assert options["tool_choice"] == "required"

    @pytest.mark.parametrize(
        ("config", "field"),
        [
            ({"cached_content": "caches/1"}, "config.cached_content"),
            ({"response_logprobs": True}, "config.response_logprobs"),
            ({"candidate_count": 2}, "config.candidate_count"),
            ({"response_modalities": ["AUDIO"]}, "config.response_modalities"),
            ({"response_mime_type": "text/x.enum"}, "config.response_mime_type"),
            ({"tools": [types.Tool(google_search=types.GoogleSearch())]}, "config.tools[0].google_search"),
        ],
    )
    async def test_what_messages_have_no_words_for_is_refused(self, config: dict[str, Any], field: str) -> None:
        with pytest.raises(UnsupportedFeatureError) as caught:
            await options_for(**config)
        assert caught.value.field == field

    async def test_what_is_harmless_to_lose_is_left_out_with_one_warning(
        self, caplog: pytest.LogCaptureFixture
    ) -> None:
        model = ServiceModel(Service(AgentResponse("Hi."), AgentResponse("Hi.")))
        thought = said(text("Hm.", thought=True), text("Hi.", thought_signature=b"signed"))
        thinking: dict[str, Any] = {"thinking_config": types.ThinkingConfig(include_thoughts=True)}
        with caplog.at_level(logging.WARNING):
            for _ in range(2):
                await responses(model, request(user("Hello."), thought, user("Hello?"), top_k=3, **thinking))
        assert [record.getMessage().split("` ")[0].strip("`") for record in caplog.records] == [
            "config.top_k",
            "thoughts of the model",
            "signatures of thoughts",
            "config.thinking_config.include_thoughts",
        ]

    async def test_a_service_of_flowloom_gets_all_that_was_there(self, caplog: pytest.LogCaptureFixture) -> None:
        """Thoughts, signatures, calls without ids and how parts are grouped reach the model behind it."""
        contents = [
            user("Hello."),
            said(text("Hm.", thought=True), text("I look.", thought_signature=b"signed"), call("time"), call("time")),
            user(result(None, "time", {"hour": 9}), result(None, "time", {"hour": 10})),
            said(text("Well.", thought=True)),
            user("And?"),
        ]
        inner = ScriptedModel(["Hi."])
        with caplog.at_level(logging.WARNING):
            await responses(ServiceModel(LlmService(inner)), request(*contents))
        assert inner.requests[0].contents == contents
        assert not caplog.records

    async def test_the_model_is_named_if_it_has_a_name(self) -> None:
        given = request()
        given.model = "other"
        for model, asked, expected in [
            (ServiceModel(Service()), request(), None),
            (ServiceModel(Service(), model="gpt-5"), request(), "gpt-5"),
            (ServiceModel(Service(), model="gpt-5"), given, "other"),
        ]:
            await responses(model, asked)
            assert model.service.asked[0].get("model") == expected
        assert ServiceModel(LlmService(ScriptedModel([], model="m"))).model == "m"

    async def test_a_stream_is_asked_for(self) -> None:
        service = Service([AgentResponse("Hi.")])
        await responses(ServiceModel(service), stream=True)
        assert service.asked[0]["stream"] is True

    def test_what_cannot_be_asked_is_no_service(self) -> None:
        with pytest.raises(ConfigurationError, match=r"A str is no `LLMService`: it has no `run_llm"):
            ServiceModel("gpt-5")  # type: ignore[arg-type]

    def test_where_it_answers_is_what_the_service_says(self) -> None:
        class Hosted(ScriptedModel):
            @property
            def hosted(self) -> bool:
                return True

        assert not ServiceModel(Service()).hosted
        assert not ServiceModel(LlmService(ScriptedModel([]))).hosted
        assert ServiceModel(LlmService(Hosted([]))).hosted


class TestAnswer:
    async def test_all_of_an_answer_is_in_the_response(self) -> None:
        answer = AgentResponse(
            "Hi.",
            [TIME],
            "tool_calls",
            {
                "prompt_tokens": 10,
                "completion_tokens": 8,
                "total_tokens": 18,
                "prompt_tokens_details": {"cached_tokens": 4},
                "completion_tokens_details": {"reasoning_tokens": 3},
            },
            "m-1",
            "Hm.",
        )
        [response] = await responses(ServiceModel(Service(answer)))
        assert response.content == said(text("Hm.", thought=True), "Hi.", named_call("a", "time", zone="CET"))
        assert response.finish_reason == types.FinishReason.STOP
        assert response.model_version == "m-1"
        assert response.usage_metadata == types.GenerateContentResponseUsageMetadata(
            prompt_token_count=10,
            candidates_token_count=5,
            total_token_count=18,
            cached_content_token_count=4,
            thoughts_token_count=3,
        )

    async def test_arguments_that_are_no_json_are_kept_as_text(self) -> None:
        broken: Any = {**TIME, "function": {"name": "time", "arguments": '{"zone": '}}
        [response] = await responses(ServiceModel(Service(AgentResponse(tool_calls=[broken]))))
        assert response.content == said(named_call("a", "time", **{"$": '{"zone": '}))

    async def test_calls_without_ids_get_some(self) -> None:
        nameless: ToolCall = {**TIME, "id": ""}
        [response] = await responses(ServiceModel(Service(AgentResponse(tool_calls=[nameless, nameless]))))
        ids = {each.id for each in response.get_function_calls()}
        assert len(ids) == 2
        assert all(ids)

    @pytest.mark.parametrize(
        ("finish", "expected"),
        [
            ("stop", "STOP"),
            ("length", "MAX_TOKENS"),
            ("content_filter", "SAFETY"),
            ("language", "LANGUAGE"),
            ("tired", "OTHER"),
            (None, "STOP"),
        ],
    )
    async def test_why_it_ended(self, finish: str | None, expected: str) -> None:
        [response] = await responses(ServiceModel(Service(AgentResponse("Hi.", finish_reason=finish))))
        assert response.finish_reason == types.FinishReason(expected)

    async def test_an_answer_held_back_is_an_error_by_its_reason(self) -> None:
        [response] = await responses(ServiceModel(Service(AgentResponse(finish_reason="content_filter"))))
        assert (response.error_code, response.content) == ("SAFETY", None)

    async def test_a_stream_is_pieces_and_then_the_whole(self) -> None:
        def called(arguments: str) -> AgentResponse:
            return piece(tool_calls=[{**TIME, "function": {"name": "time", "arguments": arguments}}])

        whole = AgentResponse("Hi you.", [TIME], reasoning="Hm.")
        service = Service(
            [piece(reasoning="Hm."), piece("Hi "), piece("you."), called('{"zo'), called('ne": "CET"}'), whole]
        )
        *partials, complete = await responses(ServiceModel(service), stream=True)
        assert all(each.partial for each in partials)
        assert "".join(each.text for each in partials) == complete.text == "Hi you."
        arguments = [each.string_value for shown in partials for each in call_pieces(shown)]
        assert arguments == ['{"zo', 'ne": "CET"}']
        assert complete.content == said(text("Hm.", thought=True), "Hi you.", named_call("a", "time", zone="CET"))

    async def test_a_service_that_streams_unasked_is_read_to_its_end(self) -> None:
        [response] = await responses(ServiceModel(Service([piece("Hi."), AgentResponse("Hi.")])))
        assert response.text == "Hi."

    async def test_a_stream_that_is_left_is_closed(self) -> None:
        service = Service([piece("Hi."), piece("Hi."), AgentResponse("Hi.Hi.")])
        async with aclosing(ServiceModel(service).generate_content_async(request(), True)) as stream:
            await anext(stream)
        assert service.closed == 1


def call_pieces(response: LlmResponse) -> list[types.PartialArg]:
    return [each for called in response.get_function_calls() for each in called.partial_args or ()]


class StatusError(Exception):
    """As HTTP libraries raise them."""

    def __init__(self, status: int) -> None:
        super().__init__(f"status {status}")
        self.status_code = status


BROKEN: dict[str, tuple[Callable[[], Exception], type[ModelError], bool]] = {
    "rate": (lambda: StatusError(429), ModelRateLimitError, True),
    "server": (lambda: StatusError(503), ModelUnavailableError, True),
    "request": (lambda: StatusError(400), ModelRequestError, False),
    "network": (lambda: ConnectionResetError("gone"), ModelUnavailableError, True),
    "silence": (lambda: TimeoutError(), ModelUnavailableError, True),
    "anything": (lambda: KeyError("choices"), ModelError, False),
}


class TestErrors:
    @pytest.mark.parametrize("case", BROKEN)
    @pytest.mark.parametrize("stream", [False, True])
    async def test_what_a_service_raises_becomes_a_model_error(self, case: str, stream: bool) -> None:
        make, kind, retryable = BROKEN[case]
        error = make()
        with pytest.raises(kind) as caught:
            await responses(ServiceModel(Service([piece("Hi."), error] if stream else error)), stream=stream)
        assert type(caught.value) is kind
        assert caught.value.retryable is retryable
        assert caught.value.__cause__ is error

    async def test_a_model_error_is_raised_as_it_is(self) -> None:
        error = ModelRateLimitError("Slow down.")
        with pytest.raises(ModelRateLimitError) as caught:
            await responses(ServiceModel(Service(error)))
        assert caught.value is error

    @pytest.mark.parametrize("wrong", [None, 5, {"content": "Hi."}], ids=lambda it: type(it).__name__)
    async def test_what_is_no_answer_in_a_stream_is_named(self, wrong: Any) -> None:
        with pytest.raises(ModelResponseError, match=f"`service` streams a {type(wrong).__name__}; it has to be"):
            await responses(ServiceModel(Service([piece("Hi."), wrong])), stream=True)

    @pytest.mark.parametrize("answers", [[], [piece("Hi.")]])
    async def test_a_stream_without_its_whole_is_an_error(self, answers: list[AgentResponse]) -> None:
        with pytest.raises(IncompleteStreamError, match="`service` ended before its whole answer came"):
            await responses(ServiceModel(Service(answers)), stream=True)

    @pytest.mark.parametrize(
        ("answer", "reason"),
        [
            ({"content": "Hi."}, "answered with a dict; it has to be a whole `AgentResponse`"),
            (piece("Hi."), "answered with a AgentResponse; it has to be a whole"),
            (AgentResponse(5), "`content` is no text: 5"),  # type: ignore[arg-type]
            (AgentResponse(tool_calls=[{"id": "a"}]), r"`tool_calls\[0\]` is no tool call"),  # type: ignore[typeddict-item]
        ],
    )
    async def test_an_answer_of_another_form_is_an_error(self, answer: Any, reason: str) -> None:
        with pytest.raises(ModelResponseError, match=reason):
            await responses(ServiceModel(Service(answer)))


def get_time(zone: str) -> dict[str, int]:
    """The time in a zone."""
    return {"hour": 9}


@pytest.mark.parametrize("config", [None, STREAMED])
@pytest.mark.parametrize(
    "wrapped", [lambda model: ServiceModel(LlmService(model)), lambda model: ServiceModel(Relay(model))]
)
async def test_an_agent_has_the_same_history_with_its_model_behind_a_service(config: Any, wrapped: Any) -> None:
    def answers() -> list[Any]:
        return [[text("I look."), named_call("a", "get_time", zone="CET"), call("get_time", zone="UTC")], "It is 9:00."]

    stories: list[list[str]] = []
    for wrap in (lambda model: model, wrapped):
        model = ScriptedModel(answers())
        agent = LlmAgent(name="clock", model=wrap(model), instruction="Tell the time.", tools=[get_time])
        chat = Chat(agent, config=config)
        await chat.say("What time is it?")
        stories.append(story(await chat.stored()))
        assert len(model.requests) == 2
        [results] = [each for each in model.requests[1].contents if each.parts and each.parts[0].function_response]
        assert len(results.parts or ()) == 2
    assert stories[0] == stories[1]


class Relay:
    """A service of somebody else's around one of flowloom's, so that nothing is remembered."""

    def __init__(self, model: BaseLlm) -> None:
        self.inner = LlmService(model)

    async def run_llm(self, options: LLMServiceOptions) -> AgentResponse:
        messages: Any = [dict(each) for each in options["messages"]]
        answer = await self.inner.run_llm({**options, "messages": messages, "stream": False})
        return AgentResponse(answer.content, answer.tool_calls, answer.finish_reason)
