"""Texts that would break out of where they are shown, or stall it, and an agent that is made of them."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom import FunctionTool, HumanModel, LlmAgent, LlmRequest, ToolContext
from flowloom.testing import FunctionModel, call

MARKUP = (
    """<img src=x onerror="window.hacked = 1"> <script>window.hacked = 2</script> """
    """<a href="javascript:window.hacked=3"> [click](javascript:window.hacked=4) """
    """![p](https://evil.example/track.png) \u202egnp.exe"""
)
BRACKETS = "[" * 500 + "(" * 500
LINE = "endless" * 150_000
"""More than a million characters without a space."""
LONG = f"{MARKUP} {BRACKETS} {LINE}"


def answer(request: LlmRequest) -> Any:
    """A call with hostile arguments, and then the hostile words."""
    last = (request.contents[-1].parts or [])[-1]
    if last.function_response is None:
        return [types.Part(text=LONG, thought=True), call("keep", text=LONG)]
    return LONG


async def keep(text: str, tool_context: ToolContext) -> dict[str, Any]:
    """Keep a text."""
    await tool_context.save_artifact("<b>note<b>.txt", types.Part.from_text(text=text))
    tool_context.state["<i>note<i>"] = text
    return {"<b>kept<b>": text}


keep.__doc__ = f"Keep a text. {LONG}"


def hostile_agent() -> LlmAgent:
    """Its instruction, description, tool, calls, results, state, artifacts and answers are hostile and long."""
    return LlmAgent(
        name="desk",
        description=LONG,
        instruction=lambda context: LONG,
        model=FunctionModel(answer),
        tools=[keep],
        sub_agents=[LlmAgent(name="other", description=MARKUP, instruction=LONG, model=FunctionModel(answer))],
    )


def keep_it(text: str) -> str:
    """Keep a text, if that is approved."""
    return "kept"


def asking_agent() -> LlmAgent:
    """A person is its model, and its tool needs approval."""
    tools = [FunctionTool(keep_it, require_confirmation=True)]
    return LlmAgent(name="desk", instruction=lambda context: LONG, model=HumanModel(), tools=tools)


def hostile_events() -> list[dict[str, Any]]:
    """Events to be imported, for what no run brings about: names, codes, sources, code."""
    content = {
        "role": "model",
        "parts": [
            {"functionCall": {"id": "c1", "name": MARKUP, "args": {MARKUP: LONG}}},
            {"functionResponse": {"id": "c1", "name": MARKUP, "response": {"error": LONG}}},
            {"executableCode": {"code": LONG, "language": "PYTHON"}},
            {"codeExecutionResult": {"outcome": "OUTCOME_OK", "output": LONG}},
            {"text": "Words with a source."},
        ],
    }
    chunks = [{"web": {"uri": "javascript:window.hacked=5", "title": LONG}}]
    grounding = {
        "groundingChunks": chunks,
        "groundingSupports": [{"segment": {"startIndex": 0, "endIndex": 5}, "groundingChunkIndices": [0]}],
    }
    said = {"author": "user", "content": {"role": "user", "parts": [{"text": LONG}]}}
    broken = {"author": "desk", "errorCode": MARKUP, "errorMessage": LONG}
    events = [said, {"author": "desk", "content": content, "groundingMetadata": grounding}, broken]
    return [
        {"id": f"e{index}", "invocationId": "i1", "timestamp": 1_700_000_000 + index, **event}
        for index, event in enumerate(events)
    ]
