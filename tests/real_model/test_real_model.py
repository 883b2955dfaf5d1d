"""What holds whatever a real model says: over chat completions, the Responses API and Anthropic's Messages API."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, Literal

import pytest
from google.genai import types
from kit import named_call, result, user
from pydantic import BaseModel

from flowloom import (
    AnthropicModel,
    Event,
    InMemoryRunner,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    OpenAIModel,
    RunConfig,
    StreamingMode,
)
from flowloom.cli.loading import load_app
from flowloom.cli.model_choice import ModelChoice
from flowloom.errors import LlmCallsLimitExceededError, ModelError
from flowloom.models import BaseLlm

EXAMPLES = Path(__file__).parents[2] / "examples"
WIRES: dict[str, Callable[[str], BaseLlm]] = {
    "chat": lambda address: OpenAIModel(model="smollm2", base_url=f"{address}/v1"),
    "responses": lambda address: OpenAIModel(model="smollm2", base_url=f"{address}/v1", api="responses"),
    "anthropic": lambda address: AnthropicModel(model="smollm2", base_url=address, api_key="none"),
}
STREAMS = pytest.mark.parametrize("stream", [False, True], ids=["whole", "streamed"])


@pytest.fixture(params=WIRES)
def model(request: pytest.FixtureRequest, address: str) -> BaseLlm:
    """The model, over each wire."""
    return WIRES[request.param](address)


async def asked(model: BaseLlm, text: str, stream: bool = False, **config: Any) -> list[LlmResponse]:
    """All responses to a question."""
    settings = types.GenerateContentConfig(**{"max_output_tokens": 32, **config})
    request = LlmRequest(model=model.model, contents=[user(text)], config=settings)
    return [response async for response in model.generate_content_async(request, stream)]


def config(stream: bool) -> RunConfig:
    mode = StreamingMode.SSE if stream else StreamingMode.NONE
    return RunConfig(streaming_mode=mode, max_llm_calls=4)


async def said(agent: LlmAgent, text: str, *, session: str = "s1", stream: bool = False) -> list[Event]:
    """The events of a run that is over."""
    runner = InMemoryRunner(agent, app_name="real")
    return [
        event
        async for event in runner.run_async(
            user_id="ann", session_id=session, new_message=user(text), run_config=config(stream)
        )
    ]


@STREAMS
async def test_an_answer_has_text_and_says_what_it_took(model: BaseLlm, stream: bool) -> None:
    """Tokens in and out, as many as were allowed, and why the answer ended."""
    *pieces, whole = await asked(model, "Tell me about the sea.", stream)
    assert whole.text.strip()
    assert whole.error_code is None
    usage = whole.usage_metadata
    assert usage is not None
    assert (usage.prompt_token_count or 0) > 5
    assert 0 < (usage.candidates_token_count or 0) <= 32
    assert whole.finish_reason in (types.FinishReason.STOP, types.FinishReason.MAX_TOKENS)
    assert bool(pieces) is stream
    if stream:
        assert "".join(piece.text for piece in pieces) == whole.text
        assert all(piece.partial for piece in pieces)


async def test_an_answer_that_is_too_long_says_so(model: BaseLlm) -> None:
    """Its reason is that there were no more tokens; the server's Responses API gives no reason."""
    [answer] = await asked(model, "Write a long story about the sea.", max_output_tokens=4)
    assert answer.usage_metadata is not None
    assert answer.usage_metadata.candidates_token_count == 4
    told = types.FinishReason.STOP if getattr(model, "api", None) == "responses" else types.FinishReason.MAX_TOKENS
    assert answer.finish_reason == told


@STREAMS
async def test_a_run_is_a_conversation(model: BaseLlm, stream: bool) -> None:
    """Two turns of one session; the second one sends the first, and costs more tokens."""
    agent = LlmAgent(
        name="root", model=model, generate_content_config=types.GenerateContentConfig(max_output_tokens=16)
    )
    runner = InMemoryRunner(agent, app_name="real")
    tokens: list[int] = []
    for text in ("My name is Ann. Say hello.", "What is my name?"):
        result = await runner.run_to_result(
            user_id="ann", session_id="s1", new_message=user(text), run_config=config(stream)
        )
        assert result.text.strip()
        tokens.append(result.usage.input_tokens)
    assert 0 < tokens[0] < tokens[1]


@STREAMS
async def test_where_functions_are_declared_an_answer_is_text_or_calls_of_them(model: BaseLlm, stream: bool) -> None:
    """A call has an id of its own, and arguments that are an object; the request is one that the server takes."""
    schema = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
    declared = types.FunctionDeclaration(
        name="get_weather", description="Tells the weather of a city.", parameters_json_schema=schema
    )
    tools = [types.Tool(function_declarations=[declared])]
    answer = (await asked(model, "What is the weather in Rome?", stream, tools=tools))[-1]
    calls = answer.get_function_calls()
    assert answer.text.strip() or calls
    assert all(call.name == "get_weather" and call.id and isinstance(call.args, dict) for call in calls)
    assert len({call.id for call in calls}) == len(calls)


@STREAMS
async def test_a_call_and_its_result_are_part_of_a_conversation(model: BaseLlm, stream: bool) -> None:
    """The server takes a history with both, over each wire, and answers."""
    declared = types.FunctionDeclaration(name="get_weather", description="Tells the weather.")
    history = [
        user("What is the weather in Rome?"),
        types.Content(role="model", parts=[named_call("call-1", "get_weather", city="Rome")]),
        types.Content(role="user", parts=[result("call-1", "get_weather", {"result": "sunny, 28 degrees"})]),
    ]
    settings = types.GenerateContentConfig(max_output_tokens=24, tools=[types.Tool(function_declarations=[declared])])
    request = LlmRequest(model=model.model, contents=history, config=settings)
    answers = [response async for response in model.generate_content_async(request, stream)]
    assert answers[-1].text.strip() or answers[-1].get_function_calls()
    assert answers[-1].error_code is None


class Opinion(BaseModel):
    """What somebody thinks of a film."""

    mood: Literal["good", "bad"]
    stars: int


@STREAMS
async def test_an_answer_with_a_schema_is_data_of_that_schema(address: str, stream: bool) -> None:
    """Over chat completions, where the server takes schemas, the text is JSON of it."""
    responses = await asked(
        WIRES["chat"](address),
        "I loved that film! Five stars.",
        stream,
        max_output_tokens=64,
        response_schema=Opinion,
        response_mime_type="application/json",
    )
    assert Opinion.model_validate_json(responses[-1].text)


async def test_an_agent_has_its_answer_as_an_object(address: str) -> None:
    """`output_schema` of an agent, and what it leaves in the state."""
    agent = LlmAgent(name="critic", model=WIRES["chat"](address), output_schema=Opinion, output_key="opinion")
    events = await said(agent, "What a film! Five stars.")
    assert Opinion.model_validate(events[-1].actions.state_delta["opinion"])


@STREAMS
async def test_eight_at_once_do_not_mix(model: BaseLlm, stream: bool) -> None:
    """Each run has an answer, and tokens of its own."""
    agent = LlmAgent(
        name="root", model=model, generate_content_config=types.GenerateContentConfig(max_output_tokens=12)
    )
    runs = [said(agent, f"Say the number {number}.", session=f"s{number}", stream=stream) for number in range(8)]
    for events in await asyncio.gather(*runs):
        last = events[-1]
        assert last.text.strip()
        assert last.usage_metadata is not None
        assert 0 < (last.usage_metadata.candidates_token_count or 0) <= 12


async def test_a_stream_that_is_left_does_not_hold_up_the_next_answer(model: BaseLlm) -> None:
    """The connection goes, and the server's slot with it."""
    for _ in range(10):
        stream = model.generate_content_async(
            LlmRequest(model=model.model, contents=[user("Write a long story about the sea.")]), True
        )
        assert (await anext(stream)).partial
        await stream.aclose()
    assert (await asked(model, "Say hello."))[-1].text.strip()


async def test_a_prompt_that_does_not_fit_is_an_error_that_says_so(model: BaseLlm) -> None:
    """With the server's status; the next request is answered."""
    with pytest.raises(ModelError) as raised:
        await asked(model, "sea " * 6000)
    assert "400" in str(raised.value) or "context" in str(raised.value)
    assert (await asked(model, "Say hello."))[-1].text.strip()


@pytest.mark.parametrize("example", sorted(path.parent.name for path in EXAMPLES.glob("*/agent.py")))
async def test_an_example_runs_with_it(example: str, address: str) -> None:
    """Whatever the model says, the run ends, waits, or has made all calls of the model that it may; its history is
    legal: each call has one result, or waits."""
    app = load_app(EXAMPLES / example)
    choice = ModelChoice(app.agent, f"{address}/v1#smollm2", watched=False)
    runner = InMemoryRunner(app.agent, app_name="real", plugins=[*app.plugins, *choice.plugins])
    async with asyncio.timeout(600):
        try:
            await runner.run_to_result(
                user_id="ann", session_id="s1", new_message=user("Hello, what can you do?"), run_config=config(False)
            )
        except LlmCallsLimitExceededError:
            pass  # a loop that the model does not leave
    session = await runner.session_service.get_session(app_name="real", user_id="ann", session_id="s1")
    assert session is not None
    calls = [call.id for event in session.events for call in event.get_function_calls()]
    waiting = {call_id for event in session.events for call_id in event.long_running_tool_ids or ()}
    answered = [each.id for event in session.events for each in event.get_function_responses()]
    assert len(calls) == len(set(calls))
    assert set(calls) <= {*answered, *waiting}
    assert json.dumps([event.to_wire() for event in session.events])
    assert sum((event.usage_metadata.candidates_token_count or 0) for event in session.events if event.usage_metadata)
    await runner.close()
