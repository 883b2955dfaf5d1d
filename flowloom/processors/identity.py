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
    text: str | None = agent.derived.get("identity")
    if text is None:
        text = f"You are the agent {_quoted(agent.name)}."
        if agent.description:
            text += f" What you are for: {_quoted(agent.description)}."
        agent.derived["identity"] = text
    request.append_instructions((text,))


def _quoted(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)
