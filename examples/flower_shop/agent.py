"""A florist behind a page of its own: it looks into the shop's stock, paints the page, and asks before it sells.

`python -m examples.flower_shop` serves the page; the page and the agent speak AG-UI.
"""

from flowloom import FunctionTool, LlmAgent, ToolContext

STOCK = {"roses": 12, "tulips": 40, "lilies": 0}


def stock(flower: str) -> dict[str, int | str]:
    """How many of a flower are there: roses, tulips or lilies."""
    return {"flower": flower, "pieces": STOCK.get(flower, 0)}


def sell(flower: str, pieces: int, tool_context: ToolContext) -> str:
    """Sell some pieces of a flower."""
    tool_context.state["basket"] = [*tool_context.state.get("basket", []), f"{pieces} {flower}"]
    return f"{pieces} {flower} are sold."


root_agent = LlmAgent(
    name="florist",
    model="gemini-2.5-flash",
    description="Sells flowers.",
    instruction="Answer questions about the shop's flowers with your tools. Colour the page if you are asked to.",
    tools=[stock, FunctionTool(sell, require_confirmation=True)],
)
