"""The answers that all engines' models give: the same content types, made anew for each answer."""

from __future__ import annotations

from google.genai import types

CHUNKS = 200
BIG = "x" * 20_000
QUESTION = "Please go on."
ROOT_INSTRUCTION = "You are a helper."
HELPER_INSTRUCTION = "You are the helper."


def text(words: str) -> types.Content:
    """An answer of one text."""
    return types.Content(role="model", parts=[types.Part(text=words)])


def calls(name: str, *arguments: dict[str, object]) -> types.Content:
    """An answer that calls one function, as often as there are arguments."""
    return types.Content(
        role="model",
        parts=[types.Part(function_call=types.FunctionCall(name=name, args=dict(args))) for args in arguments],
    )


def answer(case: str, contents: list[types.Content]) -> types.Content:
    """What the model says in a case: a call for a user's text, a text for results."""
    last = (contents[-1].parts or [types.Part()])[-1]
    if last.function_response is not None:
        return text("It is done.")
    if case == "transfer":
        return calls("transfer_to_agent", {"agent_name": "helper"})
    if case in ("tool", "concurrent"):
        return calls("add", {"a": 1, "b": 2})
    if case == "async_tools":
        return calls("wait", *({"seconds": 0.02} for _ in range(20)))
    if case == "blocking_tools":
        return calls("block", *({"seconds": 0.05} for _ in range(8)))
    return text("It is done.")


def exchange(case: str, number: int) -> list[tuple[str, types.Content]]:
    """One exchange of a history, with its authors."""
    if case != "big":
        question = types.Content(role="user", parts=[types.Part(text=QUESTION)])
        return [("user", question), ("root", text("It is done."))]
    call = types.FunctionCall(id=f"c{number}", name="add", args={"a": number, "b": 1})
    result = types.FunctionResponse(id=f"c{number}", name="add", response={"page": BIG})
    return [
        ("root", types.Content(role="model", parts=[types.Part(function_call=call)])),
        ("root", types.Content(role="user", parts=[types.Part(function_response=result)])),
    ]
