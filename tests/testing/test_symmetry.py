"""Streamed equals unstreamed, or the test says where it does not."""

from __future__ import annotations

from typing import Any

import pytest
from hierarchies import HIERARCHIES
from inspection.requests import asked
from kit import agent, said, story

from flowloom import LlmRequest, LlmResponse
from flowloom.testing import assert_symmetric, call


def add(a: int) -> int:
    """Add."""
    return a


async def test_a_run_with_tools_is_symmetric() -> None:
    events = await assert_symmetric(agent("root", tools=[add]), [call("add", a=1), "The sum is one."])
    assert story(events) == ["root: add(a=1)", "root: add -> {'result': 1}", "root: The sum is one."]


@pytest.mark.parametrize("name", ["one", "coordinator", "pipeline", "fan_out", "edited"])
async def test_hierarchies_are_symmetric(name: str) -> None:
    await assert_symmetric(HIERARCHIES[name].build(asked([])), ["An answer of some words."] * 3)


async def test_a_processor_that_treats_streams_otherwise_is_found() -> None:
    def shout(ctx: Any, request: LlmRequest, response: LlmResponse) -> None:
        if not response.partial and ctx.run.streaming and response.content is not None:
            response.content = said("LOUD")

    root = agent("root")
    louder = agent("root", flow=root.flow.with_response_processor(shout))
    with pytest.raises(AssertionError, match=r"(?s)pieces of 1.*LOUD"):
        await assert_symmetric(louder, ["quiet"])


async def test_pieces_that_do_not_add_up_are_found() -> None:
    def swallow(ctx: Any, request: LlmRequest, response: LlmResponse) -> None:
        if response.partial:
            response.content = said("?")

    root = agent("root", flow=agent("root").flow.with_response_processor(swallow))
    with pytest.raises(AssertionError, match="the pieces add up to"):
        await assert_symmetric(root, ["quiet"])


async def test_state_that_depends_on_streaming_is_found() -> None:
    def count(*, callback_context: Any, llm_response: LlmResponse) -> None:
        callback_context.state["n"] = callback_context.state.get("n", 0) + 1

    with pytest.raises(AssertionError, match="another one"):
        await assert_symmetric(agent("root", after_model_callback=count), ["a text of some length"])
