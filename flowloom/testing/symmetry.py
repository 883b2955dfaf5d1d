"""`assert_symmetric`: whether a run ends the same, streamed and not."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

from flowloom.agents import BaseAgent
from flowloom.context import RunConfig, StreamingMode
from flowloom.events import Event
from flowloom.inspection import EventsView, diff, write_sections
from flowloom.plugins import ModelOverride
from flowloom.runner.message import Message
from flowloom.runner.runner import InMemoryRunner
from flowloom.testing.frozen_clock import frozen
from flowloom.testing.scripted import Answer, ScriptedModel

CHUNK_SIZES = (1, 7, 1000)


async def assert_symmetric(
    agent: BaseAgent,
    script: Iterable[Answer],
    message: Message = "Hello.",
    *,
    chunk_sizes: Sequence[int] = CHUNK_SIZES,
    state: dict[str, Any] | None = None,
) -> list[Event]:
    """Answer `message` by `agent` on `script`, unstreamed, then streamed in pieces of each of `chunk_sizes`
    (characters); raise `AssertionError` if the complete events or the state are not the same, or a streamed text is not
    what its pieces add up to.

    The script answers for all agents of the tree, in order; each run begins with `state`. Tools are run each time.
    Returns the complete events.
    """
    answers: Any = list(script) if isinstance(script, Iterator) else script
    whole, state_after = await _run(agent, answers, message, state, None)
    expected = EventsView(whole)
    for size in chunk_sizes:
        events, streamed_state = await _run(agent, answers, message, state, size)
        _assert_pieces_add_up(events, size)
        found = EventsView([event for event in events if not event.partial])
        difference = diff(write_sections(expected.sections), write_sections(found.sections))
        if difference.differences or expected != found:
            raise AssertionError(f"Streamed in pieces of {size}, the run is another one:\n{difference}")
        if streamed_state != state_after:
            raise AssertionError(
                f"Streamed in pieces of {size}, the run leaves the state {streamed_state}, not {state_after}."
            )
    return whole


async def _run(
    agent: BaseAgent, answers: list[Any], message: Message, state: dict[str, Any] | None, size: int | None
) -> tuple[list[Event], dict[str, Any]]:
    model = ScriptedModel(answers, stream_chunks=size is not None, chunk_size=size or 1)
    mode = StreamingMode.NONE if size is None else StreamingMode.SSE
    config = RunConfig(streaming_mode=mode)
    runner = InMemoryRunner(agent, plugins=[ModelOverride(model)])  # not closed: the agent's toolsets are used again
    service, app_name = runner.session_service, runner.app_name
    user_id, session_id = "user", "symmetry"
    with frozen():
        await service.create_session(app_name=app_name, user_id=user_id, session_id=session_id, state=state)
        run = runner.run_async(user_id=user_id, session_id=session_id, new_message=message, run_config=config)
        events = [event async for event in run]
        session = await service.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
    assert session is not None
    return events, session.state


def _assert_pieces_add_up(events: Iterable[Event], size: int) -> None:
    pieces: dict[tuple[str, str | None], str] = {}
    for event in events:
        stream = (event.author, event.branch)
        if event.partial:
            pieces[stream] = pieces.get(stream, "") + event.text
            continue
        streamed = pieces.pop(stream, "")
        if streamed and streamed != event.text:
            raise AssertionError(
                f"Streamed in pieces of {size}, the pieces add up to {streamed!r}, but the complete event of "
                f"`{event.author}` says {event.text!r}."
            )
