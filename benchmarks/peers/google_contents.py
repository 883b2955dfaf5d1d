"""The script in google-genai's content types: made anew for each answer, as a model's adapter would."""

from __future__ import annotations

from google.genai import types

from benchmarks import script


def user(words: str = script.QUESTION) -> types.Content:
    """What the user says."""
    return types.Content(role="user", parts=[types.Part(text=words)])


def said(words: str) -> types.Content:
    """An answer of one text."""
    return types.Content(role="model", parts=[types.Part(text=words)])


def answer(case: str, contents: list[types.Content]) -> types.Content:
    """What the model says to these contents."""
    results = sum(part.function_response is not None for part in contents[-1].parts or ())
    found = script.answer(case, results)
    if isinstance(found, str):
        return said(found)
    return types.Content(
        role="model",
        parts=[types.Part(function_call=types.FunctionCall(name=call.name, args=dict(call.args))) for call in found],
    )


def exchange(case: str, number: int) -> list[tuple[str, types.Content]]:
    """One exchange of a history, with its authors."""
    if case != "big":
        return [("user", user()), ("root", said(script.DONE))]
    return called(number, {"page": script.BIG})


def called(number: int, response: dict[str, object]) -> list[tuple[str, types.Content]]:
    """A tool call and its result, with their authors."""
    call = types.FunctionCall(id=f"c{number}", name="add", args={"a": number, "b": 1})
    result = types.FunctionResponse(id=f"c{number}", name="add", response=response)
    return [
        ("root", types.Content(role="model", parts=[types.Part(function_call=call)])),
        ("root", types.Content(role="user", parts=[types.Part(function_response=result)])),
    ]
