"""What a remote agent is told over the turns of a session, and where the conversation is kept."""

from __future__ import annotations

import pytest
from a2a.types import Message
from a2a.utils.errors import TaskNotFoundError
from a2a_peer import Talk, peer
from google.genai import types
from kit import WHERE, Chat, agent, hand_to, text, user

from flowloom import Event, InMemoryRunner, LlmAgent, RemoteA2aAgent, RunConfig, SqliteSessionService
from flowloom.errors import InputValidationError
from flowloom.testing import ScriptedModel, call

LEAD_IN = "For context, this happened elsewhere in the conversation:"


async def echoes(talk: Talk) -> None:
    await talk.begin()
    await talk.chunk("a", f"heard {len(talk.message.parts)}")
    await talk.status("completed")


def sent(message: Message) -> list[str]:
    return [part.text for part in message.parts]


async def test_a_turn_sends_what_is_new_in_one_context() -> None:
    """The second turn does not repeat the first, and goes to the same context as a new task."""
    async with peer(echoes) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        first, _ = await chat.say("a"), await chat.say("b")
        await chat.runner.close()
    assert [sent(message) for message in other.heard] == [["a"], ["b"]]
    assert other.heard[0].context_id == other.heard[1].context_id
    assert other.heard[0].task_id != other.heard[1].task_id
    assert first[-1].custom_metadata == {
        "a2a:context_id": other.heard[0].context_id,
        "a2a:task_id": other.heard[0].task_id,
    }


async def test_marks_that_are_no_texts_name_no_context() -> None:
    """Another writer of the session has given them to an event: the agent begins a context of its own."""
    async with peer(echoes) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        service = chat.runner.session_service
        session = await service.create_session(app_name="app", **WHERE)
        marks = {"a2a:context_id": 5, "a2a:task_id": ["x"]}
        await service.append_event(session, Event(author="weather", custom_metadata=marks))
        events = await chat.say("a")
        await chat.runner.close()
    assert events[-1].custom_metadata is not None
    assert events[-1].custom_metadata["a2a:context_id"] == other.heard[0].context_id


@pytest.mark.parametrize("key", ["a2a:context_id", "a2a:task_id", "a2a:login"])
async def test_whoever_starts_a_run_cannot_name_the_conversation(key: str) -> None:
    """What a front end forwards goes onto all events of a run, also onto those of an agent that was not reached: the
    next turn would speak in a conversation of another user's."""
    chat = Chat(RemoteA2aAgent("weather", "http://127.0.0.1:9/"))
    with pytest.raises(InputValidationError, match=f"`custom_metadata` has `{key}`"):
        await chat.say("a", run_config=RunConfig(custom_metadata={key: "theirs"}))
    await chat.runner.close()


async def test_others_words_are_sent_once_and_marked() -> None:
    """What other agents said since the last turn comes with their names; thoughts, calls and results do not."""
    model = ScriptedModel(
        [
            [types.Part(text="private thought", thought=True), call("look", key="secret")],
            [text("I looked."), hand_to("weather")],
            "Back at the root.",
            hand_to("weather"),
        ]
    )

    def look(key: str) -> dict[str, str]:
        """Look."""
        return {"result": "private result"}

    async with peer(echoes) as other:
        remote = RemoteA2aAgent("weather", other.url)
        root = LlmAgent(name="root", instruction="private instruction", model=model, tools=[look], sub_agents=[remote])
        chat = Chat(root)
        await chat.say("one", state_delta={"key": "private state"})
        await chat.say("two")
        await chat.say("three")
        await chat.runner.close()
    assert sent(other.heard[0]) == ["one", LEAD_IN, "[root] said: I looked."]
    assert sent(other.heard[1]) == ["two", LEAD_IN, "[root] said: Back at the root.", "three"]
    assert not any("private" in str(message) or "secret" in str(message) for message in other.heard)


async def test_files_are_sent_as_bytes_with_their_type_and_name() -> None:
    """Inline files travel as they are, files at addresses as addresses."""
    blob = types.Part(inline_data=types.Blob(data=b"\x89PNG", mime_type="image/png", display_name="sky.png"))
    link = types.Part(file_data=types.FileData(file_uri="https://a.example/b.pdf", mime_type="application/pdf"))
    async with peer(echoes) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        await chat.say(user(text("see"), blob, link))
        await chat.runner.close()
    [words, png, pdf] = other.heard[0].parts
    assert (words.text, png.raw, png.media_type, png.filename) == ("see", b"\x89PNG", "image/png", "sky.png")
    assert (pdf.url, pdf.media_type) == ("https://a.example/b.pdf", "application/pdf")


async def test_another_process_goes_on_in_the_context(tmp_path) -> None:
    """The context is in the stored events: a database brings it to a new process."""
    async with peer(echoes) as other:
        for words in ("a", "b"):
            async with SqliteSessionService(tmp_path / "s.db") as store:
                runner = InMemoryRunner(RemoteA2aAgent("weather", other.url))
                runner.session_service = store
                await runner.run_to_result(**WHERE, new_message=words)
                await runner.close()
    assert other.heard[0].context_id == other.heard[1].context_id
    assert [sent(message) for message in other.heard] == [["a"], ["b"]]


async def test_two_sessions_are_two_contexts() -> None:
    """One agent object in two sessions has a conversation in each."""
    async with peer(echoes) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        other_session = Chat(runner=chat.runner, session_id="s2")
        await chat.say("a")
        await other_session.say("b")
        await chat.runner.close()
    assert other.heard[0].context_id != other.heard[1].context_id


async def test_what_was_rewound_is_not_the_conversation() -> None:
    """After a rewind to before the first turn there is no context to go on in."""
    async with peer(echoes) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        events = await chat.say("a")
        await chat.runner.rewind_async(**WHERE, rewind_before_invocation_id=events[0].invocation_id)
        await chat.say("b")
        await chat.runner.close()
    assert other.heard[0].context_id != other.heard[1].context_id
    assert sent(other.heard[1]) == ["b"]


async def test_a_forgotten_task_is_tried_once_more_with_the_history() -> None:
    """A service that does not know the task any more gets the conversation, in a new context."""
    forgetting = False

    async def script(talk: Talk) -> None:
        await talk.begin()
        await talk.status("input-required", "Which city?") if not forgetting else await talk.answer("Sunny.")

    async def first(talk: Talk) -> None:
        await talk.begin()
        await talk.status("input-required", "Which city?")

    async with peer(first) as before:
        chat = Chat(RemoteA2aAgent("weather", before.url))
        await chat.say("How is it?")
        await chat.runner.close()
    async with peer(echoes) as after:
        runner = InMemoryRunner(RemoteA2aAgent("weather", after.url), app_name="app")
        runner.session_service = chat.runner.session_service
        told = await runner.run_to_result(**WHERE, new_message="Rome")
        await runner.close()
    assert told.status == "final"
    assert len(after.heard) == 1
    assert sent(after.heard[0]) == ["How is it?", "Rome"]
    assert after.heard[0].context_id != before.heard[0].context_id


async def test_a_context_builder_says_what_is_sent() -> None:
    """It replaces what is new, sync or async."""

    async def last_words(ctx) -> list[str]:
        return [f"summary of {len(ctx.session.events)} events"]

    async with peer(echoes) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url, context_builder=last_words))
        await chat.say("a")
        await chat.runner.close()
    assert sent(other.heard[0]) == ["summary of 1 events"]


async def test_a_stateless_agent_is_told_all_if_that_is_wanted() -> None:
    """Without a context of its own it knows nothing of earlier turns."""

    async def script(talk: Talk) -> None:
        await talk.queue.enqueue_event(Message(message_id="m", role=2, parts=[{"text": "ok"}]))

    async with peer(script) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url, full_history_when_stateless=True))
        await chat.say("a")
        await chat.say("b")
        await chat.runner.close()
    assert sent(other.heard[1]) == ["a", LEAD_IN, "[weather] said: ok", "b"]


async def test_a_loop_with_nothing_new_says_so() -> None:
    """A turn in which there is nothing to say asks nothing, and is not silent."""
    from flowloom import LoopAgent

    async with peer(echoes) as other:
        chat = Chat(LoopAgent(name="loop", max_iterations=2, sub_agents=[RemoteA2aAgent("weather", other.url)]))
        events: list[Event] = await chat.say("a")
        await chat.runner.close()
    assert len(other.heard) == 1
    assert [e.error_code for e in events if e.error_code] == ["A2A_NOTHING_TO_SAY"]


async def test_metadata_of_requests_is_the_providers() -> None:
    """`a2a_request_meta_provider` fills the request's metadata; nothing else does."""
    seen = []

    async def script(talk: Talk) -> None:
        seen.append(talk.context.metadata)
        await talk.answer("ok")

    async with peer(script) as other:
        remote = RemoteA2aAgent("weather", other.url, a2a_request_meta_provider=lambda ctx, m: {"tenant": ctx.user_id})
        chat = Chat(remote)
        await chat.say("a", state_delta={"key": 1})
        await chat.runner.close()
    assert seen == [{"tenant": "ann"}]


async def test_the_description_is_there_before_the_first_step_that_could_transfer() -> None:
    """It is the card's, once; a given one stays, and the card is not fetched for it."""
    root = agent("root", "Hm.", "Hm.", sub_agents=[])
    async with peer(echoes) as other:
        remote = RemoteA2aAgent("weather", other.url)
        root = agent("root", "Hm.", "Hm.", sub_agents=[remote])
        chat = Chat(root)
        await chat.say("a")
        await chat.say("b")
        await chat.runner.close()
        fetched = other.card_requests
        given = agent("root", "Hm.", sub_agents=[RemoteA2aAgent("weather", other.url, description="Mine.")])
        await Chat(given).say("a")
    told = str(root.model.requests[0].config.system_instruction)
    assert "weather: Knows the weather of every city." in told
    assert fetched == 1 == other.card_requests
    assert "weather: Mine." in str(given.model.requests[0].config.system_instruction)


async def test_a_missing_card_leaves_the_others_at_work(caplog) -> None:
    """A service that is down costs its description, with a warning; the root goes on."""
    root = agent("root", "Hm.", sub_agents=[RemoteA2aAgent("weather", "http://127.0.0.1:9/")])
    chat = Chat(root)
    events = await chat.say("a")
    await chat.runner.close()
    assert events[-1].text == "Hm."
    assert "weather" in caplog.text
    assert "127.0.0.1:9" in caplog.text


async def test_an_unknown_task_error_is_not_tried_without_end() -> None:
    """One try without the ids, and then the error that names agent and address."""

    async def script(talk: Talk) -> None:
        raise TaskNotFoundError

    async with peer(script) as other:
        chat = Chat(RemoteA2aAgent("weather", other.url))
        result = await chat.runner.start(**WHERE, new_message="a").result()
        await chat.runner.close()
    assert result.status == "failed"
    assert "weather" in str(result.error)
    assert other.url in str(result.error)
