"""Hooks of a remote agent, and how it says it is."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest
from a2a.types import Message
from a2a_peer import Talk, peer
from kit import Chat, text

from flowloom import Event, RemoteA2aAgent
from flowloom.errors import ConfigurationError
from flowloom.events.parts import content_of
from flowloom.protocols.a2a import (
    A2aCardRequestConfig,
    A2aRemoteAgentConfig,
    CardRequestInterceptor,
    RemoteAgentError,
    RequestInterceptor,
)


async def echoes(talk: Talk) -> None:
    await talk.begin()
    await talk.chunk("a", "heard")
    await talk.status("completed")


async def asked(config: A2aRemoteAgentConfig) -> tuple[list[Event], list[Message]]:
    """What a turn with hooks stores, and what the agent has heard."""
    async with peer(echoes) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url, config=config))
        events = await chat.say("a")
        await chat.runner.close()
    return events, other.heard


async def test_hooks_see_what_is_sent_and_what_comes_of_it() -> None:
    """The message is the one that the hook gives, and events are as it leaves them; in the order of the hooks."""

    def hook(mark: str) -> RequestInterceptor:
        async def before(ctx: Any, message: Message, params: Any) -> Any:
            message.parts.add(text=mark)
            return message, params

        async def after(ctx: Any, said: Any, event: Event) -> Event | None:
            return None if event.partial else event.model_copy(update={"error_code": (event.error_code or "") + mark})

        return RequestInterceptor(before, after)

    events, heard = await asked(A2aRemoteAgentConfig(request_interceptors=[hook("1"), hook("2")]))
    assert [part.text for part in heard[0].parts] == ["a", "1", "2"]
    assert [(event.text, event.error_code) for event in events] == [("heard", "12")]


async def test_a_hook_may_answer_in_the_agents_place() -> None:
    """Its event is the answer, and nothing is sent."""

    async def before(ctx: Any, message: Message, params: Any) -> Any:
        return ctx.new_event({"content": content_of("model", [text("No.")])}), params

    events, heard = await asked(A2aRemoteAgentConfig(request_interceptors=[RequestInterceptor(before)]))
    assert ([event.text for event in events], heard) == (["No."], [])


async def test_metadata_of_a_request_is_the_hooks_to_change() -> None:
    """Beside what the provider gives."""

    async def before(ctx: Any, message: Message, params: Any) -> Any:
        assert params.request_metadata is None
        params.request_metadata = {"tier": "gold"}
        message.metadata.update({"seen": True})
        return message, params

    _, heard = await asked(A2aRemoteAgentConfig(request_interceptors=[RequestInterceptor(before)]))
    assert dict(heard[0].metadata) == {"seen": True}


async def test_parts_are_read_by_a_reader_of_the_programs_own() -> None:
    """It gives a part, several, or none."""
    events, _ = await asked(A2aRemoteAgentConfig(a2a_part_converter=lambda part: [text(part.text.upper()), text("!")]))
    assert [part.text for part in events[-1].content.parts] == ["HEARD", "!"]


@pytest.mark.parametrize("wanted", [True, "namespaced"])
async def test_a_conversation_may_begin_in_the_sessions_own_context(wanted: Any) -> None:
    """As it is, or told apart from those of other apps and users."""
    async with peer(echoes) as other:
        config = A2aRemoteAgentConfig(forward_session_id_as_context_id=wanted)
        chat = Chat(RemoteA2aAgent("weather", other.url, config=config))
        await chat.say("a")
        session = "\0".join((chat.runner.app_name, "ann", "s1"))
        await chat.runner.close()
    assert other.heard[0].context_id == ("s1" if wanted is True else hashlib.sha256(session.encode()).hexdigest())


async def test_the_card_is_fetched_with_the_headers_of_its_hooks() -> None:
    """They go with the card alone."""
    seen: list[tuple[str, bool]] = []

    def watched(app: Any) -> Any:
        async def watching(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                seen.append((scope["method"], (b"x-card", b"key") in scope["headers"]))
            await app(scope, receive, send)

        return watching

    async def headers(ctx: Any) -> A2aCardRequestConfig:
        return A2aCardRequestConfig({"X-Card": "key"})

    async with peer(echoes, behind=watched) as other:
        config = A2aRemoteAgentConfig(card_request_interceptors=[CardRequestInterceptor(headers)])
        chat = Chat(RemoteA2aAgent("weather", other.url, config=config))
        await chat.say("a")
        await chat.runner.close()
    assert seen == [("GET", True), ("POST", False)]


@pytest.mark.parametrize("given", [object(), {"request_interceptors": []}])
def test_a_config_of_another_kind_is_refused(given: Any) -> None:
    """With the class that it has to be."""
    with pytest.raises(ConfigurationError, match="A2aRemoteAgentConfig"):
        RemoteA2aAgent("weather", "http://localhost:1", config=given)


@pytest.mark.parametrize("kind", ["message", "task", "status_update", "artifact_update"])
def test_converters_of_whole_updates_are_refused(kind: str) -> None:
    """The error says what does their work."""
    with pytest.raises(ConfigurationError, match="a2a_part_converter"):
        A2aRemoteAgentConfig(**{f"a2a_{kind}_converter": lambda *_: None})


async def test_an_agent_says_how_its_connection_is() -> None:
    """Idle before the first turn, connected with a card, failed with the reason when it could not be asked."""
    async with peer(echoes) as other:
        remote = RemoteA2aAgent("weather", other.url, timeout=30)
        chat = Chat(remote)
        before = remote.status()
        await chat.say("a")
        during = remote.status()
    with pytest.raises(RemoteAgentError):
        await chat.say("b")
    after = remote.status()
    await chat.runner.close()
    assert (before.state, before.skills, before.seconds_since_card) == ("idle", None, None)
    assert (during.state, during.last_error, during.reconnects) == ("connected", None, 0)
    assert during.seconds_since_card is not None
    assert after.state == "failed"
    assert "weather" in (after.last_error or "")
    assert remote.status().state == "idle"
