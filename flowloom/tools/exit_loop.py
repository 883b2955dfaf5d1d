"""`exit_loop`: leaving the surrounding loop (spec §14.12)."""

from __future__ import annotations

from typing import Any

from flowloom.context import Context


def exit_loop(tool_context: Context) -> dict[str, Any]:
    """Leave the loop. Call it only when you are told to, once the work is good enough."""
    tool_context.actions.escalate = True
    tool_context.actions.skip_summarization = True
    return {}
