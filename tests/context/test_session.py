"""`InvocationContext.session`: it can be set, as agents of google-adk do that load it anew."""

from __future__ import annotations

from collections.abc import AsyncGenerator
from contextlib import aclosing
from pathlib import Path

import pytest
from kit import agent, shown

from flowloom import (
    BaseAgent,
    ConfigurationError,
    Event,
    InMemorySessionService,
    InvocationContext,
    Runner,
    SqliteSessionService,
)
from flowloom.sessions import BaseSessionService


class Reloading(BaseAgent):
    """Loads the session anew, leaves something out, and lets its member go on with that."""

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        service, session = ctx.session_service, ctx.session
        loaded = await service.get_session(app_name=ctx.app_name, user_id=ctx.user_id, session_id=session.id)
        assert loaded is not None
        loaded.state["seen"] = "anew"
        ctx.session = loaded
        assert ctx.session is loaded
        async with aclosing(self.sub_agents[0].run_async(ctx)) as events:
            async for event in events:
                yield event


@pytest.mark.parametrize("kind", ["memory", "sqlite"])
async def test_a_run_goes_on_with_the_session_that_is_set(kind: str, tmp_path: Path) -> None:
    """Its state and its log are read; what follows is stored once, under the run's lease."""
    service: BaseSessionService = InMemorySessionService() if kind == "memory" else SqliteSessionService(tmp_path / "a")
    member = agent("member", "first", "second", instruction="{seen}")
    root = Reloading(name="root", sub_agents=[member])
    async with Runner(app_name="a", agent=root, session_service=service, auto_create_session=True) as runner:
        for message in ("one", "two"):
            result = await runner.run_to_result(user_id="u", session_id="s", new_message=message)
            assert result.text == {"one": "first", "two": "second"}[message]
        session = await service.get_session(app_name="a", user_id="u", session_id="s")
    assert session is not None
    told = [part.text for event in session.events for part in (event.content and event.content.parts) or ()]
    assert told == ["one", "first", "two", "second"]
    last = member.model.requests[-1]  # type: ignore[union-attr]
    assert shown(last)[0].endswith("one")
    assert "anew" in str(last.config.system_instruction)


@pytest.mark.parametrize("name", ["session", "user_content", "effects"])
async def test_a_copy_of_a_place_cannot_have_what_is_the_runs(name: str) -> None:
    """What all agents of a run share is refused in the copy of one's place, and not ignored."""
    ctx = InvocationContext(agent=BaseAgent(name="a"))
    with pytest.raises(ConfigurationError, match=f"`{name}`"):
        ctx.model_copy(update={"branch": "b", name: None})
    assert ctx.model_copy(update={"branch": "b"}).branch == "b"
