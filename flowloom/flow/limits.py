"""Landing softly: what an agent does when a limit was reached that is not to raise (decision 23)."""

from __future__ import annotations

from flowloom.errors import LimitExceededError
from flowloom.models.request import LlmRequest


def land(request: LlmRequest, limit: LimitExceededError) -> None:
    """Make the last request of an agent that reached a limit: no tools, and the instruction to sum up."""
    request.tools_dict.clear()
    request.config.tools = request.config.tool_config = None
    request.append_instructions(
        [
            f"The limit `{limit.limit}` of this run is reached, and no tool can be called any more. Answer now from what "
            f"you have: sum up what is done, and say what is not."
        ]
    )
