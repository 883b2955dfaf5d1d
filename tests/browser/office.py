"""The agents that the browser tests talk to: they need no network, and do what they are told by the message."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import AsyncIterator
from typing import Any

from google.genai import types

from flowloom import FunctionTool, LlmAgent, LlmRequest, LlmResponse, ToolContext
from flowloom.testing import FunctionModel, call
from flowloom.testing.scripted import response_of

ANSWER = """## Three ways to Rome

The **night train** leaves at `22:10` and arrives at 08:05. A flight takes 90 minutes, and *almost* always lands.

1. Train: 79 €
2. Flight: 112 €
3. Bus: 41 €

| way | hours | price |
|---|---|---|
| train | 10 | 79 € |
| flight | 1.5 | 112 € |

```python
print(min(prices))
```

See [the timetable](https://example.com/timetable).
"""
HOSTILE = (
    """<img src=x onerror="window.hacked = 1"> <script>window.hacked = 2</script>
[click](javascript:window.hacked=3) [data](data:text/html,hi) [ok](https://example.com/ok)
![picture](https://evil.example/track.png) \u202egnp.exe
"""
    + "[" * 500
    + "]" * 500
)


def thought(text: str) -> types.Part:
    return types.Part(text=text, thought=True)


def last_words(request: LlmRequest) -> str:
    for part in reversed((request.contents[-1].parts if request.contents else None) or []):
        if part.text:
            return part.text
        if part.function_response is not None:
            return f"{part.function_response.name} said {part.function_response.response}"
    return ""


def usage(answer: Any, prompt: int = 120, output: int = 30) -> LlmResponse:
    """An answer with the tokens that it cost."""
    response = response_of(answer)
    response.usage_metadata = types.GenerateContentResponseUsageMetadata(
        prompt_token_count=prompt, candidates_token_count=output, total_token_count=prompt + output
    )
    return response


GROUNDED = types.GroundingMetadata(
    grounding_chunks=[
        types.GroundingChunk(web=types.GroundingChunkWeb(uri="https://example.com/rome", title="Rome in autumn")),
        types.GroundingChunk(web=types.GroundingChunkWeb(uri="https://example.org/weather", title="Weather archive")),
    ],
    grounding_supports=[
        types.GroundingSupport(
            segment=types.Segment(start_index=0, end_index=len("In October it is 21 °C in Rome.".encode())),
            grounding_chunk_indices=[0, 1],
        )
    ],
)


def answer_to(said: str) -> Any:
    """What the desk says to a message."""
    if said.startswith("weather"):
        return usage([thought("They want the weather. I should look it up."), call("get_weather", city="Rome")])
    if said.startswith("get_weather said"):
        return usage("It is **21 °C** in Rome, and dry.", 180, 14)
    if " said " in said:
        return usage(f"Done: {said}")
    if said.startswith("broken tool"):
        return usage([call("break_down")])
    if said.startswith("pay"):
        return usage([call("pay", euros=500, to="Bob", note="for the bill")])
    if said.startswith("several"):
        return usage([call("pay", euros=50, to="Bob", note="one"), call("pay", euros=60, to="Eve", note="two")])
    if said.startswith("book"):
        return usage([call("book", what="a table")])
    if said.startswith("flights"):
        return usage([call("transfer_to_agent", agent_name="flights")])
    if said.startswith("sources"):
        response = usage("In October it is 21 °C in Rome. Bring a coat for the evenings.")
        response.grounding_metadata = GROUNDED
        return response
    if said.startswith("file"):
        return usage([call("save_note", text="Buy milk")])
    if said.startswith("markdown"):
        return usage(ANSWER)
    if said.startswith("hostile"):
        return usage(HOSTILE)
    if said.startswith("endless line"):
        return usage("x" * 1_000_000)
    if said.startswith("fail"):
        return RuntimeError("model exploded")
    return usage(f"You said: {said}")


go_on = threading.Event()
"""Whether answers that are held up are said to their ends; see the fixture `held`."""


class OfficeModel(FunctionModel):
    """Streams its answers piece by piece; `slow` takes its time, `breaks` breaks in the middle, `held` waits there for
    `go_on`, and `think` behind its thought."""

    pause: float = 0.01

    async def generate_content_async(self, llm_request: LlmRequest, stream: bool = False) -> AsyncIterator[LlmResponse]:
        said = last_words(llm_request)
        kind, _, number = said.partition(" ")
        if kind not in ("slow", "breaks", "ticks", "think", "held"):
            async for response in super().generate_content_async(llm_request, stream=stream):
                yield response
            return
        count = int(number.split()[0]) if number[:1].isdigit() else 40
        words = [f"w{index} " for index in range(count)]
        parts = [thought("Let me think about it. "), "".join(words)] if kind == "think" else ["".join(words)]
        for index, word in enumerate(["Let me think about it. ", *words] if kind == "think" else words):
            if kind == "breaks" and index == count // 2:
                raise RuntimeError("the line went dead")
            while index == {"think": 1, "held": count // 2}.get(kind) and not go_on.is_set():  # noqa: ASYNC110
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.05 if kind in ("slow", "breaks") else 0.01)
            if stream:
                part = thought(word) if kind == "think" and index == 0 else types.Part(text=word)
                yield LlmResponse(content=types.Content(role="model", parts=[part]), partial=True)
        yield usage(parts)


def model() -> OfficeModel:
    return OfficeModel(lambda request: answer_to(last_words(request)), stream_chunks=True)


def get_weather(city: str) -> dict[str, Any]:
    """The weather in a city."""
    return {"city": city, "celsius": 21, "sky": "dry"}


def break_down() -> dict[str, Any]:
    """Never works."""
    raise ValueError("the machine is broken")


def pay(euros: int, to: str, note: str) -> str:
    """Pay a bill."""
    return f"paid {euros} to {to} ({note})"


def book(what: str, tool_context: ToolContext) -> str:
    """Book something."""
    people = tool_context.request_input("For how many?", response_schema={"type": "integer", "minimum": 1})
    return f"booked {what} for {people}"


async def save_note(text: str, tool_context: ToolContext) -> str:
    """Save a note."""
    await tool_context.save_artifact("note.txt", types.Part.from_text(text=text))
    tool_context.state["notes"] = 1
    return "saved"


def office() -> LlmAgent:
    """A desk, and an agent for flights that it hands over to."""
    flights = LlmAgent(name="flights", description="Knows flights.", instruction="Answer about flights.", model=model())
    return LlmAgent(
        name="desk",
        description="Answers questions of travellers.",
        instruction="Be brief, and kind.",
        model=model(),
        sub_agents=[flights],
        tools=[get_weather, break_down, FunctionTool(pay, require_confirmation=True), book, save_note],
    )
