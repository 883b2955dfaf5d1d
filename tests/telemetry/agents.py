"""Agents, models and runs that the telemetry tests share."""

from __future__ import annotations

from typing import Any

from google.genai import types

from flowloom import Event, InMemoryRunner, InvocationContext, LlmAgent, LlmResponse, RunConfig, StreamingMode
from flowloom.testing.scripted import ScriptedModel

SSE = RunConfig(streaming_mode=StreamingMode.SSE)
STOP = types.FinishReason.STOP


def answer(text: str, *, partial: bool | None = None, **fields: Any) -> LlmResponse:
    """A response of one text."""
    content = types.Content(role="model", parts=[types.Part(text=text)])
    return LlmResponse(content=content, partial=partial, **fields)


def usage(
    prompt: int, candidates: int, thoughts: int = 0, cached: int = 0
) -> types.GenerateContentResponseUsageMetadata:
    """Token counts."""
    return types.GenerateContentResponseUsageMetadata(
        prompt_token_count=prompt,
        candidates_token_count=candidates,
        thoughts_token_count=thoughts,
        cached_content_token_count=cached,
    )


def agent(answers: list[Any], name: str = "bot", **fields: Any) -> LlmAgent:
    """An agent with a scripted model."""
    return LlmAgent(name=name, model=ScriptedModel(answers), **fields)


async def run(root: Any, config: RunConfig | None = None, message: str = "hi", **fields: Any) -> list[Event]:
    """Run an agent in a new session to its end."""
    runner = InMemoryRunner(root, **fields)
    events = runner.run_async(user_id="u", session_id="s", new_message=message, run_config=config)
    return [event async for event in events]


def context(root: Any, **fields: Any) -> InvocationContext:
    """A place to run an agent below the runner."""
    message = types.Content(role="user", parts=[types.Part(text="hi")])
    return InvocationContext(agent=root, user_content=message, **fields)
