"""What models are asked and told to answer in `ModelSuite`, and how two answers are compared."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom.events import LlmResponse
from flowloom.events.parts import content_of, text_part
from flowloom.models import LlmRequest
from flowloom.tools import FunctionTool


def answer(*parts: types.Part) -> LlmResponse:
    """A complete answer with token counts."""
    usage = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=7, candidates_token_count=5, total_token_count=12
    )
    return LlmResponse(
        content=content_of("model", list(parts)), finish_reason=types.FinishReason.STOP, usage_metadata=usage
    )


def text_answer(text: str) -> LlmResponse:
    """A complete answer of one text."""
    return answer(text_part(text))


def _call(call_id: str, name: str, /, **args: Any) -> types.Part:
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


TEXT = text_answer("It is sunny in Rome.")
LONG_TEXT = text_answer("Zeile für Zeile, 一行一行, 🧵\n\n" * 40)
THOUGHT = answer(text_part("Let me think about it.", thought=True), text_part("It is sunny in Rome."))
ONE_CALL = answer(_call("call-1", "weather", city="Rome", options={"days": [1, 2], "unit": "°C", "exact": True}))
TWO_CALLS = answer(_call("call-1", "weather", city="Rome"), _call("call-2", "weather", city="Oslo"))
TEXT_AND_CALL = answer(text_part("I look it up."), _call("call-1", "weather", city="Rome"))
EMPTY = answer()

ANSWERS = (TEXT, LONG_TEXT, THOUGHT, ONE_CALL, TWO_CALLS, TEXT_AND_CALL)
"""The answers that are not empty."""


def _weather(city: str) -> str:
    """The weather of a city."""
    return f"It is sunny in {city}."


def request() -> LlmRequest:
    """A question with history, system instruction, settings and a tool."""
    given = LlmRequest(
        contents=[
            types.Content(role="user", parts=[types.Part(text="How is the weather in Oslo?")]),
            types.Content(role="model", parts=[_call("call-0", "weather", city="Oslo")]),
            types.Content(
                role="user",
                parts=[
                    types.Part(
                        function_response=types.FunctionResponse(
                            id="call-0", name="weather", response={"result": "It rains."}
                        )
                    )
                ],
            ),
            types.Content(role="model", parts=[types.Part(text="It rains in Oslo.")]),
            types.Content(role="user", parts=[types.Part(text="And in Rome?")]),
        ],
        config=types.GenerateContentConfig(system_instruction="You tell the weather.", temperature=0.5),
    )
    given.append_tools([FunctionTool(_weather, name="weather")])
    return given


def joined(response: LlmResponse, thought: bool) -> str:
    """All text of a response, or all its thoughts."""
    parts = (response.content and response.content.parts) or ()
    return "".join(part.text or "" for part in parts if bool(part.thought) is thought)


def outline(response: LlmResponse, *, ids: bool) -> dict[str, Any]:
    """What is compared of two responses; how text is cut into parts is not."""
    calls = [(call.id if ids else None, call.name, call.args or {}) for call in response.get_function_calls()]
    usage = response.usage_metadata
    return {
        "text": joined(response, False),
        "thoughts": joined(response, True),
        "calls": calls,
        "finish_reason": response.finish_reason,
        "error_code": response.error_code,
        "total_token_count": usage.total_token_count if usage is not None else None,
    }


def assert_same_answer(expected: LlmResponse, found: LlmResponse, one: str, other: str, *, ids: bool) -> None:
    """Fail if two responses say different things."""
    mine, theirs = outline(expected, ids=ids), outline(found, ids=ids)
    for name, value in mine.items():
        assert value == theirs[name], f"{one} has `{name}` {value!r}; {other} has {theirs[name]!r}."
