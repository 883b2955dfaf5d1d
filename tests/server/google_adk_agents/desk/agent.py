"""A desk that google-adk's server and ours serve alike: what the user says decides what its scripted model does."""

import asyncio
import re

try:
    from google.adk.agents import LlmAgent
    from google.adk.models import BaseLlm, LlmResponse
    from google.adk.tools import FunctionTool, ToolContext
except ModuleNotFoundError:
    from flowloom.adk.agents import LlmAgent
    from flowloom.adk.models import BaseLlm, LlmResponse
    from flowloom.adk.tools import FunctionTool, ToolContext
from google.genai import types

USAGE = types.GenerateContentResponseUsageMetadata(prompt_token_count=7, candidates_token_count=5, total_token_count=12)
PNG = b"\x89PNG\r\n\x1a\n\xff\xfe\xfb"


def said(*parts, partial=None):
    """An answer of these parts."""
    parts = [types.Part(text=part) if isinstance(part, str) else part for part in parts]
    ends = {} if partial else {"usage_metadata": USAGE, "finish_reason": types.FinishReason.STOP}
    return LlmResponse(content=types.Content(role="model", parts=parts), partial=partial, **ends)


def thought(text):
    return types.Part(text=text, thought=True)


def call(name, args):
    return types.Part(function_call=types.FunctionCall(name=name, args=args))


CALLS = {
    "weather": ("weather", {"city": "Oslo"}),
    "pay": ("pay", {"euros": 50}),
    "note": ("note", {"text": "milk"}),
    "draw": ("draw", {"name": "plan.png"}),
    "broken": ("broken", {}),
    "transfer": ("transfer_to_agent", {"agent_name": "flights"}),
}


class Scripted(BaseLlm):
    """Answers by the first word that the user said last."""

    async def generate_content_async(self, llm_request, stream=False):
        last = llm_request.contents[-1].parts[-1]
        if last.function_response is not None and last.function_response.name != "transfer_to_agent":
            yield said(f"The result of {last.function_response.name} is here.")
            return
        words = [part.text for content in llm_request.contents for part in content.parts if content.role == "user"]
        word, *rest = next(filter(None, reversed(words)), "nothing").split()
        if self.model == "flights-model":
            if stream:
                yield said("Flights ", partial=True)
                yield said("here.", partial=True)
            yield said("Flights here.")
        elif word in CALLS:
            yield said(call(*CALLS[word]))
        elif word == "both":
            yield said("I look it up.", call(*CALLS["weather"]), call("weather", {"city": "Rome"}))
        elif word == "think":
            if stream:
                yield said(thought("One "), partial=True)
                yield said(thought("moment."), partial=True)
                yield said("Here ", partial=True)
                yield said("it is.", partial=True)
            yield said(thought("One moment."), "Here it is.")
        elif word == "explode":
            raise RuntimeError("model exploded")
        elif word == "crack":
            yield said("It began ", partial=True)
            raise RuntimeError("model cracked")
        elif word == "slow":
            for number in range(300):
                yield said(f"word{number} ", partial=True)
                await asyncio.sleep(0.2)
            yield said("".join(f"word{number} " for number in range(300)))
        elif word == "lines":
            yield said("a\u2028b\u2029c\u0085d <é>")
        elif word == "limit":
            yield LlmResponse(error_code="RESOURCE_EXHAUSTED", error_message="Too much was asked.")
        else:
            text = f"{self.model} heard: {' '.join([word, *rest])}"
            if stream:
                for piece in re.findall(r" ?[^ ]+", text):
                    yield said(piece, partial=True)
            yield said(text)


def weather(city: str) -> dict:
    """Says what the weather is like."""
    return {"city": city, "degrees": 3}


def pay(euros: int) -> str:
    """Pays an amount."""
    return f"paid {euros}"


def note(text: str, tool_context: ToolContext) -> str:
    """Keeps a note."""
    tool_context.state["note"] = text
    tool_context.state["user:notes"] = 1
    tool_context.state["nothing"] = None
    return "kept"


async def draw(name: str, tool_context: ToolContext) -> str:
    """Draws a picture."""
    await tool_context.save_artifact(name, types.Part(inline_data=types.Blob(data=PNG, mime_type="image/png")))
    return "drawn"


def broken() -> str:
    """Fails."""
    raise ValueError("tool broke")


flights = LlmAgent(name="flights", description="Knows flights.", model=Scripted(model="flights-model"))
root_agent = LlmAgent(
    name="desk",
    description="Helps with everything.",
    instruction="You are a desk.",
    model=Scripted(model="desk-model"),
    tools=[weather, FunctionTool(pay, require_confirmation=True), note, draw, broken],
    sub_agents=[flights],
)
