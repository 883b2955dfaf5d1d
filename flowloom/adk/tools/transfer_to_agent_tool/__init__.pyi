# made from table.py by tests/adk/stubs.py

from flowloom.tools import TransferToAgentTool
from flowloom.tools import transfer_to_agent

__all__ = [
    "TransferToAgentTool",
    "transfer_to_agent",
]
