"""The agent of the night shift. It counts shelves, which takes a while, and orders what is missing, which a person has
to approve."""

import asyncio
import os
from collections.abc import AsyncGenerator

from google.genai import types

from flowloom import BaseLlm, FunctionTool, LlmAgent, LlmRequest, LlmResponse, ToolContext

from . import ledger

SHELVES = 6
SECONDS = 0.5
"""How long it takes to count a shelf."""


async def count_shelf(number: int, tool_context: ToolContext) -> dict[str, int]:
    """Count what is on a shelf.

    Args:
        number: The shelf, from 1.
    """
    ledger.note(os.getpid(), tool_context.idempotency_key, f"shelf {number}")
    await asyncio.sleep(SECONDS)
    return {"shelf": number, "boxes": 10 - number}


def order_boxes(boxes: int, tool_context: ToolContext) -> str:
    """Order boxes, and pay for them.

    Args:
        boxes: How many.
    """
    ledger.pay(tool_context.idempotency_key, boxes)
    return f"Ordered {boxes} boxes."


class NightModel(BaseLlm):
    """What a model would say, so that the example needs no key: one shelf after the other, then the order."""

    model: str = "night"

    async def generate_content_async(
        self, llm_request: LlmRequest, stream: bool = False
    ) -> AsyncGenerator[LlmResponse, None]:
        """The next step, by what the tools have answered so far."""
        parts = [part for content in llm_request.contents for part in content.parts or []]
        done = [part.function_response for part in parts if part.function_response is not None]
        counted = sum(each.name == "count_shelf" for each in done)
        if counted < SHELVES:
            said = _call("count_shelf", number=counted + 1)
        elif not any(each.name == "order_boxes" for each in done):
            said = _call("order_boxes", boxes=sum(range(1, SHELVES + 1)))
        else:
            said = types.Part(text=f"{SHELVES} shelves are counted. {(done[-1].response or {}).get('result', '')}")
        yield LlmResponse(content=types.Content(role="model", parts=[said]))


def _call(name: str, **args: int) -> types.Part:
    return types.Part(function_call=types.FunctionCall(name=name, args=dict(args)))


root_agent = LlmAgent(
    name="night_shift",
    model=NightModel(),
    instruction="Count all shelves, then order what is missing.",
    tools=[count_shelf, FunctionTool(order_boxes, require_confirmation=True)],
)
