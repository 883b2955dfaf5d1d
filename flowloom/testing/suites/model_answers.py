"""What models are told to answer in `ModelSuite`, and how two answers are compared."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom.events import LlmResponse
from flowloom.events.parts import content_of, text_part
from flowloom.models import LlmRequest
from flowloom.tools import FunctionTool

SIGNATURE = b"signed: the thought is mine"
"""The signature of a thought, as a backend gives it."""


def usage(
    prompt: int = 7,
    output: int = 5,
    *,
    cached: int | None = None,
    thoughts: int | None = None,
    tools: int | None = None,
) -> types.GenerateContentResponseUsageMetadata:
    """Token counts; `cached` are some of the prompt's, thoughts and tools come on top of prompt and output."""
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=output,
        cached_content_token_count=cached,
        thoughts_token_count=thoughts,
        tool_use_prompt_token_count=tools,
        total_token_count=prompt + output + (thoughts or 0) + (tools or 0),
    )


def answer(*parts: types.Part, finish: str = "STOP", **fields: Any) -> LlmResponse:
    """A complete answer with token counts. One without content that did not just end is an error."""
    reason = types.FinishReason(finish)
    values: dict[str, Any] = {"finish_reason": reason, "usage_metadata": usage(), **fields}
    if parts or finish == "STOP":
        values["content"] = content_of("model", list(parts))
    else:
        values["error_code"] = reason.value
    return LlmResponse(**values)


def text_answer(text: str, **fields: Any) -> LlmResponse:
    """A complete answer of one text."""
    return answer(text_part(text), **fields)


def thought(text: str, signature: bytes | None = None) -> types.Part:
    """A thought; hidden, if it has a signature and no text."""
    return types.Part(text=text, thought=True, thought_signature=signature)


def call(call_id: str | None, name: str, /, **args: Any) -> types.Part:
    """A call."""
    return types.Part(function_call=types.FunctionCall(id=call_id, name=name, args=args))


def _token(text: str, number: float) -> types.LogprobsResultCandidate:
    return types.LogprobsResultCandidate(token=text, log_probability=number)


_ODD = (
    'data: [DONE]\n\nevent: error\r\n\r\n: comment\n{"a": "\\"}\n'
    "\u2028\u2029\x85\x0b\x0c\x1c\x00\x7f\ufeff\t \\u0041 \\ud83e \u200b e\u0301 "
    "👩\u200d👩\u200d👧 العربية \U0010fffd end\n\n "
)
_ROME: dict[str, Any] = {"city": "Rome"}
_NUMBERS: dict[str, Any] = {
    "zero": 0,
    "one": 1,
    "negative": -42,
    "big": 2**53 + 1,
    "huge": 10**25,
    "whole": 3.0,
    "half": 0.5,
    "tiny": 1.5e-9,
    "all": [1, 2.5, -3],
}

TEXT = text_answer("It is sunny in Rome.")
LONG_TEXT = text_answer("Zeile für Zeile, 一行一行, 🧵\n\n" * 40)
THOUGHT = answer(thought("Let me think about it."), text_part("It is sunny in Rome."))
ONE_CALL = answer(call("call-1", "weather", city="Rome", options={"days": [1, 2], "unit": "°C", "exact": True}))
TWO_CALLS = answer(call("call-1", "weather", **_ROME), call("call-2", "weather", city="Oslo"))
TEXT_AND_CALL = answer(text_part("I look it up."), call("call-1", "weather", **_ROME))
EMPTY = answer()

ANSWERS: dict[str, LlmResponse] = {
    "text": TEXT,
    "long_text": LONG_TEXT,
    "odd_text": text_answer(_ODD),
    "one_letter": text_answer("é"),
    "blank_text": text_answer(" \n"),
    "json_text": text_answer('{"city": "Rom\\u0065", "days": [1, 2], "quote": "\\""}'),
    "empty": EMPTY,
    "thought": THOUGHT,
    "long_thought": answer(thought("Gedanke für Gedanke, 一思一想 🧠\n" * 30), text_part("Sunny.")),
    "signed_thought": answer(thought("Let me think.", SIGNATURE), text_part("Sunny.")),
    "hidden_thought": answer(thought("", SIGNATURE), text_part("Sunny.")),
    "thought_and_call": answer(thought("I have to look.", SIGNATURE), call("call-1", "weather", **_ROME)),
    "signed_text": answer(types.Part(text="Sunny.", thought_signature=SIGNATURE)),
    "signed_call": answer(
        types.Part(
            function_call=types.FunctionCall(id="call-1", name="weather", args=_ROME), thought_signature=SIGNATURE
        ),
        call("call-2", "weather", city="Oslo"),
    ),
    "thoughts_in_between": answer(
        thought("First this.", SIGNATURE), text_part("Sunny."), thought("Then that.", SIGNATURE), text_part("Warm.")
    ),
    "call": ONE_CALL,
    "call_without_arguments": answer(call("call-1", "weather")),
    "nested_arguments": answer(call("call-1", "weather", where={"in": [{"city": "Rome", "near": [[], {}, [{}]]}]})),
    "odd_arguments": answer(call("call-1", "weather", city=_ODD, **{"straße": "ü", "a.b[0]": '"', "": "no name"})),
    "number_arguments": answer(call("call-1", "weather", **_NUMBERS)),
    "empty_arguments": answer(
        call("call-1", "weather", none=None, no=False, text="", list=[], object={}, nulls=[None])
    ),
    "long_arguments": answer(call("call-1", "weather", city="Llanfairpwllgwyngyll " * 100)),
    "call_without_id": answer(call(None, "weather", **_ROME)),
    "two_calls": TWO_CALLS,
    "three_calls": answer(
        call("call-1", "weather", **_ROME), call("call-2", "tides", port="Ostia"), call("call-3", "weather")
    ),
    "equal_calls": answer(call("call-1", "weather", **_ROME), call("call-2", "weather", **_ROME)),
    "text_and_call": TEXT_AND_CALL,
    "text_and_calls": answer(
        text_part("I look up both."), call("call-1", "weather", **_ROME), call("call-2", "weather", city="Oslo")
    ),
    "cut_off": text_answer("It is sunny in", finish="MAX_TOKENS"),
    "cut_off_at_once": answer(finish="MAX_TOKENS"),
    "cut_off_in_thought": answer(thought("Let me think and", SIGNATURE), finish="MAX_TOKENS"),
    "filtered": text_answer("It is", finish="SAFETY"),
    "filtered_at_once": answer(finish="SAFETY"),
    "refusal": text_answer("I won't tell the weather.", finish="SAFETY", custom_metadata={"refusal": True}),
    "recitation": text_answer("It is", finish="RECITATION"),
    "recitation_at_once": answer(finish="RECITATION"),
    "prohibited_at_once": answer(finish="PROHIBITED_CONTENT"),
    "malformed_call": answer(finish="MALFORMED_FUNCTION_CALL"),
    "cached_tokens": text_answer("Sunny.", usage_metadata=usage(1000, 3, cached=900)),
    "thought_tokens": answer(
        thought("Hm.", SIGNATURE), text_part("Sunny."), usage_metadata=usage(10, 3, cached=4, thoughts=120)
    ),
    "tool_tokens": text_answer("Sunny.", usage_metadata=usage(10, 3, tools=40)),
    "logprobs": text_answer(
        "It's sunny",
        avg_logprobs=-0.5,
        logprobs_result=types.LogprobsResult(
            chosen_candidates=[_token("It's", -0.25), _token(" sunny", -0.75)],
            top_candidates=[
                types.LogprobsResultTopCandidates(candidates=[_token("It's", -0.25), _token("It", -1.5)]),
                types.LogprobsResultTopCandidates(candidates=[_token(" sunny", -0.75), _token(" warm", -1.0)]),
            ],
        ),
    ),
    "citation": text_answer(
        "It is sunny in Rome.",
        citation_metadata=types.CitationMetadata(
            citations=[
                types.Citation(uri="https://weather.example/rome", title="Rome today", start_index=0, end_index=20)
            ]
        ),
    ),
    "grounding": text_answer(
        "It is sunny in Rome.",
        grounding_metadata=types.GroundingMetadata(
            web_search_queries=["weather in Rome"],
            grounding_chunks=[
                types.GroundingChunk(web=types.GroundingChunkWeb(uri="https://weather.example/rome", title="Rome"))
            ],
        ),
    ),
}
"""All answers, by name."""

PLAIN = ("text", "long_text", "thought", "call", "two_calls", "text_and_call")
"""The answers that stand for the rest where a rule is about the form of responses."""


def weather(city: str) -> str:
    """The weather of a city."""
    return f"It is sunny in {city}."


def request() -> LlmRequest:
    """A question with history, system instruction, settings and a tool."""
    asked = call("call-0", "weather", city="Oslo")
    rainy = types.FunctionResponse(id="call-0", name="weather", response={"result": "It rains."})
    given = LlmRequest(
        contents=[
            types.Content(role="user", parts=[types.Part(text="How is the weather in Oslo?")]),
            types.Content(role="model", parts=[asked]),
            types.Content(role="user", parts=[types.Part(function_response=rainy)]),
            types.Content(role="model", parts=[types.Part(text="It rains in Oslo.")]),
            types.Content(role="user", parts=[types.Part(text="And in Rome?")]),
        ],
        config=types.GenerateContentConfig(system_instruction="You tell the weather.", temperature=0.5),
    )
    given.append_tools([FunctionTool(weather)])
    return given


def parts_of(response: LlmResponse) -> list[types.Part]:
    """The parts of a response."""
    return list((response.content.parts if response.content is not None else None) or ())


def joined(response: LlmResponse, thought: bool) -> str:
    """All text of a response, or all its thoughts."""
    return "".join(part.text or "" for part in parts_of(response) if bool(part.thought) is thought)


def outline(response: LlmResponse, *, ids: bool) -> dict[str, Any]:
    """What is compared of two responses; how text is cut into parts is not."""
    calls = [(call.id if ids else None, call.name, _exact(call.args or {})) for call in response.get_function_calls()]
    counted = response.usage_metadata
    return {
        "text": joined(response, False),
        "thoughts": joined(response, True),
        "calls": calls,
        "order": _order(response),
        "finish_reason": response.finish_reason,
        "error_code": response.error_code,
        "usage_metadata": {} if counted is None else _counts(counted),
        "logprobs": _logprobs(response),
        "citations": _citations(response),
        "grounding": _grounding(response),
    }


def _exact(value: Any) -> Any:
    """A value that is equal only to one of the same types: 1, 1.0 and True are three."""
    if isinstance(value, dict):
        return {name: _exact(each) for name, each in value.items()}  # pyright: ignore[reportUnknownVariableType]
    if isinstance(value, list):
        return [_exact(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
    return (type(value).__name__, value)


def _order(response: LlmResponse) -> list[str]:
    """What comes after what: thoughts, text, calls; pieces of one text are one."""
    order: list[str] = []
    for part in parts_of(response):
        kind = "call" if part.function_call is not None else "thought" if part.thought else "text"
        if (part.text or kind == "call") and (kind == "call" or order[-1:] != [kind]):
            order.append(kind)
    return order


def _counts(counted: types.GenerateContentResponseUsageMetadata) -> dict[str, int]:
    names = ("prompt", "candidates", "cached_content", "thoughts", "tool_use_prompt", "total")
    found = {name: getattr(counted, f"{name}_token_count", None) for name in names}
    return {name: count for name, count in found.items() if count}


def _logprobs(response: LlmResponse) -> Any:
    found = response.logprobs_result
    if found is None:
        return None
    chosen = [(each.token, each.log_probability) for each in found.chosen_candidates or ()]
    top = [
        [(each.token, each.log_probability) for each in tops.candidates or ()] for tops in found.top_candidates or ()
    ]
    average = response.avg_logprobs
    return chosen, top, None if average is None else round(average, 6)


def _citations(response: LlmResponse) -> list[dict[str, Any]]:
    found = response.citation_metadata
    return [_plain(each) for each in (found.citations if found is not None else None) or ()]


def _grounding(response: LlmResponse) -> dict[str, Any] | None:
    """The grounding, unless it tells only of what is cited: adapters may tell of citations in both ways."""
    found = response.grounding_metadata
    if found is None:
        return None
    cited = {each["uri"] for each in _citations(response) if "uri" in each}
    grounding = _plain(found)
    told = {each.get("web", {}).get("uri") for each in grounding.get("grounding_chunks", ())}
    if cited and told <= cited and grounding.keys() <= {"grounding_chunks", "grounding_supports"}:
        return None
    return grounding


def _plain(model: Any) -> dict[str, Any]:
    return model.model_dump(mode="json", exclude_none=True)


def assert_same_answer(expected: LlmResponse, found: LlmResponse, one: str, other: str, *, ids: bool) -> None:
    """Fail if two responses say different things."""
    ids = ids and all(call.id for call in expected.get_function_calls())
    mine, theirs = outline(expected, ids=ids), outline(found, ids=ids)
    for name, value in mine.items():
        assert value == theirs[name], f"{one} has `{name}` {value!r}; {other} has {theirs[name]!r}."
