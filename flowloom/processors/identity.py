"""The identity processor: who the agent is (spec §8.7)."""

from __future__ import annotations

import json

from flowloom.context import InvocationContext
from flowloom.models.request import LlmRequest


def identity(ctx: InvocationContext, request: LlmRequest) -> None:
    """One sentence with the agent's name, and one with its description.

    Reads: name, description and mode of the agent.
    Writes: `config.system_instruction`.
    Must come after: instructions, because a reader expects the agent's own words first.
    """
    agent = ctx.llm_agent
    if agent is None or agent.mode == "single_turn":
        return
    request.append_instructions(agent.derive("identity", _sentences, agent.name, agent.description))


def _sentences(name: str, description: str) -> str:
    quoted, purpose = (json.dumps(text, ensure_ascii=False) for text in (name, description))
    return f"You are the agent {quoted}." + (f" What you are for: {purpose}." if description else "")
