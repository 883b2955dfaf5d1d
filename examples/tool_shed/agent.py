"""The warden of a shed of tools, for MCP clients: `flowloom mcp examples/tool_shed --expose both`."""

from flowloom import FunctionTool, LlmAgent
from flowloom.context import Context

SHED = {"hammer": 3, "ladder": 1, "saw": 2}


def list_shed(tool_context: Context) -> dict[str, int]:
    """How many of each tool are in the shed."""
    lent = tool_context.state.get("lent", [])
    return {tool: count - lent.count(tool) for tool, count in SHED.items()}


def borrow(tool: str, tool_context: Context) -> dict[str, list[str]]:
    """Borrow a tool of the shed."""
    if not list_shed(tool_context).get(tool):
        raise ValueError(f"There is no {tool} in the shed.")
    lent = [*tool_context.state.get("lent", []), tool]
    tool_context.state["lent"] = lent
    return {"lent": lent}


root_agent = LlmAgent(
    name="warden",
    model="gemini-2.5-flash",
    description="Knows what is in the shed, and lends it.",
    instruction="Say what is in the shed, and lend a tool only if you are asked to.",
    tools=[FunctionTool(list_shed, idempotent=True), FunctionTool(borrow, require_confirmation=True)],
)
