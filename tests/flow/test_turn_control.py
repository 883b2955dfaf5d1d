"""When a turn goes on and when it ends (cases, areas 4 and 5; spec §1.3, §1.4)."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from typing import Any

import pytest
from google.genai import types
from kit import STREAMED, Chat, agent, collect, context, event, named_call, requests_of, said, story, text

from flowloom import (
    BaseAgent,
    BaseLlm,
    BaseToolset,
    Event,
    InvocationContext,
    LlmAgent,
    LlmRequest,
    LlmResponse,
    RunConfig,
)
from flowloom.errors import IncompleteStreamError, LlmCallsLimitExceededError
from flowloom.flow.llm_turn import MAX_THOUGHT_TURNS
from flowloom.flow.model_call import is_thought_only
from flowloom.testing import call


def thought(words: str = "hm", **fields: Any) -> types.Part:
    return text(words, thought=True, **fields)


THOUGHTS: list[tuple[str, Event, bool]] = [
    ("thought text only", event("a", thought()), True),
    ("two thoughts", event("a", thought(), thought("more")), True),
    ("thought + answer", event("a", thought(), "yes"), False),
    ("answer", event("a", "yes"), False),
    ("FC", event("a", named_call("c", "x")), False),
    ("thought + signed FC", event("a", thought(), named_call("c", "x")), False),
    ("thought + signature-only part", event("a", thought(), types.Part(thought_signature=b"s")), False),
    ("partial thought", event("a", thought(), partial=True), False),
    ("no content", Event(author="a"), False),
]


@pytest.mark.parametrize(("given", "expected"), [t[1:] for t in THOUGHTS], ids=[t[0] for t in THOUGHTS])
def test_what_is_nothing_but_thoughts(given: Event, expected: bool) -> None:
    assert is_thought_only(given) is expected


async def test_after_a_thought_only_turn_the_model_is_asked_again() -> None:
    """Model called twice, text surfaced."""
    root = agent("root", LlmResponse(content=said(thought())), "an answer")
    assert (await Chat(root).say("go"))[-1].text == "an answer"
    assert len(requests_of(root)) == 2


async def test_a_model_may_think_for_three_steps_in_a_row_before_it_answers() -> None:
    root = agent("root", *[LlmResponse(content=said(thought()))] * MAX_THOUGHT_TURNS, "an answer")
    assert story(await Chat(root).say("go")) == [*["root: (hm)"] * MAX_THOUGHT_TURNS, "root: an answer"]


async def test_an_agent_run_directly_streams_as_its_config_says() -> None:
    """Agent run directly (no runner), RunConfig = SSE | model receives stream=true, no crash."""
    asked: list[bool] = []

    class Noting(BaseLlm):
        async def generate_content_async(
            self, llm_request: LlmRequest, stream: bool = False
        ) -> AsyncGenerator[LlmResponse, None]:
            asked.append(stream)
            yield LlmResponse(content=said("hi"))

    root = LlmAgent(name="root", model=Noting(model="n"))
    await collect(root.run_async(context(root, event("user", "go"), run_config=STREAMED)))
    assert asked == [True]


async def test_a_stream_that_ends_on_a_partial_event_is_a_typed_error() -> None:
    root = agent("root", [LlmResponse(content=said("half"), partial=True)])
    with pytest.raises(IncompleteStreamError, match="`root`"):
        await Chat(root, config=STREAMED).say("go")


async def test_an_endless_tool_loop_reaches_the_limit() -> None:
    """Max_llm_calls reached | typed error."""

    def again() -> None:
        """Again."""

    root = agent("root", *(call("again") for _ in range(9)), tools=[again])
    with pytest.raises(LlmCallsLimitExceededError, match="max_llm_calls"):
        await Chat(root, config=RunConfig(max_llm_calls=5)).say("go")
    assert len(requests_of(root)) == 5


class Editing(BaseToolset):
    """Writes into the request."""

    def __init__(self, error: Exception | None = None) -> None:
        super().__init__()
        self.error = error

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return []

    async def process_llm_request(self, *, tool_context: Any, llm_request: LlmRequest) -> None:
        if self.error is not None:
            raise self.error
        llm_request.append_instructions(["Edited by a toolset."])


class Silent(BaseToolset):
    """Has no hook of its own."""

    async def get_tools(self, readonly_context: Any = None) -> list[Any]:
        return []


async def test_an_agent_that_is_no_llm_agent_and_one_without_toolsets_are_no_error() -> None:
    """Toolset | agent isn't an LLM agent / no toolsets | no error."""

    class Custom(BaseAgent):
        async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
            yield Event(author=self.name, content=said("custom"))

    assert (await Chat(Custom(name="c")).say("go"))[-1].text == "custom"
    assert (await Chat(agent("root", "hi")).say("go"))[-1].text == "hi"


async def test_an_error_of_a_toolsets_hook_is_the_runs() -> None:
    """Toolset request hook raises | error."""
    with pytest.raises(RuntimeError, match="hook broke"):
        await Chat(agent("root", "hi", tools=[Editing(RuntimeError("hook broke"))])).say("go")


async def test_the_model_sees_what_a_toolsets_hook_wrote() -> None:
    """One toolset without hook, one that edits request | success, edit visible."""
    root = agent("root", "hi", tools=[Silent(), Editing()])
    await Chat(root).say("go")
    assert "Edited by a toolset." in str(requests_of(root)[0].config.system_instruction)
