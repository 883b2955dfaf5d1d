"""`ModelOverride`: who answers in the place of the agents' own models."""

from __future__ import annotations

from contextlib import aclosing

import pytest
from kit import WHERE, Chat, agent, collect, model, requests_of

from flowloom.plugins import ModelOverride
from flowloom.testing import call


def look() -> str:
    """Look."""
    return "seen"


@pytest.mark.parametrize(("replaces", "text"), [(True, "in its place"), (False, "itself")])
async def test_it_answers_for_an_agent_whose_turn_had_begun_before_the_run_if_it_replaces_its_model(
    replaces: bool, text: str
) -> None:
    """Though callbacks before the agent are not asked again; a plugin that chooses none leaves the choice of others."""
    root = agent("root", call("look"), "itself", tools=[look])
    chat = Chat(root)
    stream = chat.runner.run_async(**WHERE, new_message="go")
    async with aclosing(stream):
        async for event in stream:
            if event.get_function_responses():
                break
    plugins = chat.runner.plugin_manager
    plugins.register_plugin(ModelOverride(model("in its place"), replaces=lambda own: replaces and own is root.model))
    plugins.register_plugin(ModelOverride(model("never"), replaces=lambda own: False, name="other"))
    [said] = await collect(chat.runner.run_async(**WHERE, invocation_id=event.invocation_id))
    assert (said.text, len(requests_of(root))) == (text, 1 + (not replaces))
