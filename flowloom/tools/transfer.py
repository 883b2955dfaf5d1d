"""`transfer_to_agent`: handing the conversation to another agent (spec §11.4, §11.7)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from google.genai import types

from flowloom.context import Context
from flowloom.errors import ToolArgumentsError, closest_first, quoted_list
from flowloom.tools.base_tool import BaseTool

TRANSFER_TOOL = "transfer_to_agent"


def transfer_to_agent(agent_name: str, tool_context: Context) -> None:
    """Hand the conversation over to the agent of that name, which is better suited to answer.

    Args:
        agent_name: The agent to hand over to.
    """
    tool_context.actions.transfer_to_agent = agent_name


class TransferToAgentTool(BaseTool):
    """`transfer_to_agent` with the names that are allowed, `agent_names`, so that the model can choose no other."""

    def __init__(self, agent_names: Sequence[str]) -> None:
        super().__init__(
            name=TRANSFER_TOOL,
            description="Hand the conversation over to another agent that is better suited to answer.",
        )
        self.agent_names = tuple(agent_names)

    def _get_declaration(self) -> types.FunctionDeclaration:
        name = types.Schema(
            type=types.Type.STRING, description="The agent to hand over to.", enum=list(self.agent_names)
        )
        return types.FunctionDeclaration(
            name=self.name,
            description=self.description,
            parameters=types.Schema(type=types.Type.OBJECT, properties={"agent_name": name}, required=["agent_name"]),
        )

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Set the transfer. A name that is not allowed is an error that the model can mend (decision 5)."""
        name = args.get("agent_name")
        if not isinstance(name, str) or not name:
            raise ToolArgumentsError("`agent_name` is required: the name of the agent to hand over to, as a text.")
        if name not in self.agent_names:
            names = quoted_list(closest_first(name, self.agent_names))
            raise ToolArgumentsError(f"Agent `{name}` cannot be reached from here. Choose one of: {names}.")
        tool_context.actions.transfer_to_agent = name
        return {}
