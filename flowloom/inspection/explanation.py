"""`explain`: the request that an agent would send, without sending it."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Iterable, Mapping, Sequence
from typing import Any, TypeGuard, cast

from google.genai import types

from flowloom.agents import BaseAgent
from flowloom.artifacts import BaseArtifactService, InMemoryArtifactService
from flowloom.context import InvocationContext, RunConfig
from flowloom.errors import ConfigurationError, InputValidationError
from flowloom.events import Event
from flowloom.events.parts import content_of, text_part
from flowloom.inspection.assembly import Assembly, Recording, RehearsalEffects, Tracing, rehearsal_of, rehearse
from flowloom.memory import BaseMemoryService, InMemoryMemoryService
from flowloom.objects.given import is_several
from flowloom.objects.settings import check_kinds
from flowloom.plugins import BasePlugin
from flowloom.runner.app import App
from flowloom.runner.message import Message, content_given
from flowloom.runner.routing import position_of
from flowloom.runner.runner import Runner
from flowloom.sessions import InMemorySessionService, Session
from flowloom.sessions.admission import check_message

Said = Event | Message | tuple[str, str]
"""An entry of a history: an event; a message (a text is the user's, a content of the role `model` that of the explained
agent); or an author and a text."""


async def explain(
    agent: BaseAgent | App,
    message: Message | None = None,
    *,
    session: Session | None = None,
    state: dict[str, Any] | None = None,
    history: Sequence[Said] | None = None,
    run_config: RunConfig | None = None,
    plugins: Sequence[BasePlugin] | None = None,
    artifact_service: BaseArtifactService | None = None,
    memory_service: BaseMemoryService | None = None,
) -> Assembly:
    """The first request that `agent` would send to a model in answer to `message`, and how it comes about.

    It is a run that ends before the model call, on a copy of `session` (a new one if none is given) with `history` and
    `state` added, by the settings `run_config`: it stores nothing, asks no model, runs no tool, and makes no telemetry.
    It does all else that a run does before the model: it calls callbacks, plugins (those of an `App`, and `plugins`)
    and instruction providers, and lists toolsets. Given the root of a tree, the agent that would answer
    is explained; given one of its sub-agents, that one. Artifacts and memory are those of `artifact_service` and
    `memory_service`, and empty if none is given.

    Raises what a run would raise before it asks the model, `InputValidationError` for a history that is none, and
    `ConfigurationError` for an agent, a session or a state that is none.
    """
    recording = Recording()
    runner = Rehearsal(agent, recording, session, state, history, plugins, artifact_service, memory_service)
    await rehearse(runner.answer(message, run_config))
    found = recording.assembly(runner.explained.name)
    if not found.steps and not runner.explained.is_llm_agent:
        found.without_flow = type(runner.explained).__name__
    return found


class Rehearsal(Runner):
    """A runner whose runs are about a copy of a session, and end where they would ask a model."""

    def __init__(
        self,
        agent: BaseAgent | App,
        recording: Tracing,
        session: Session | None,
        state: dict[str, Any] | None,
        history: Sequence[Said] | None,
        plugins: Sequence[BasePlugin] | None,
        artifact_service: BaseArtifactService | None,
        memory_service: BaseMemoryService | None,
    ) -> None:
        app, agent = (agent, agent.root_agent) if isinstance(agent, App) else (None, agent)
        if not isinstance(agent, BaseAgent):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise ConfigurationError(f"An agent or an `App` is expected, not a `{type(agent).__name__}`.")
        self.start_session = session_for(
            session, state, events_of_history(() if history is None else history, agent.name)
        )
        """What runs begin with."""
        sessions = InMemorySessionService()
        sessions.adopt(self.start_session)
        super().__init__(
            app=app,
            agent=agent.root_agent if app is None else None,
            app_name=self.start_session.app_name,
            plugins=plugins,
            session_service=sessions,
            artifact_service=artifact_service or InMemoryArtifactService(),
            memory_service=memory_service or InMemoryMemoryService(),
        )
        self.explained = agent
        """The agent that answers."""
        self._recording = recording

    def answer(self, message: Message | None, run_config: RunConfig | None) -> AsyncGenerator[Event, None]:
        """A run on the copy of the session."""
        start = self.start_session
        return self.run_async(user_id=start.user_id, session_id=start.id, new_message=message, run_config=run_config)

    def make_context(self, *args: Any, **kwargs: Any) -> InvocationContext:
        ctx = super().make_context(*args, **kwargs)
        ctx.run = rehearsal_of(ctx.run, self._recording)
        ctx.run.effects = RehearsalEffects(self.effects, self._recording)
        if self.explained is self.agent:
            return ctx
        position = position_of(self.agent, self.explained.name)
        assert position is not None
        explained = ctx.at(*position)
        explained.resumed = ctx.resumed
        return explained


def _is_pair(said: object) -> TypeGuard[tuple[str, str]]:
    return isinstance(said, tuple) and [*map(type, cast(Any, said))] == [str, str]


def session_for(session: Session | None, state: dict[str, Any] | None, events: Iterable[Event]) -> Session:
    """A copy of a session, or a new one, with more state and events."""
    check_kinds(session=(session, Session), state=(state, Mapping))
    if session is None:
        session = Session(id="explained", app_name="app", user_id="user")
    merged = {**session.state, **(state or {})}
    return session.model_copy(update={"state": merged, "events": [*session.events, *events]})


def events_of_history(history: Iterable[Said], agent: str) -> list[Event]:
    """A history as events; contents of the role `model` are the agent's. Raises `InputValidationError`."""
    if not is_several(history):
        raise InputValidationError(f"`history` takes a list, as `[{history!r:.60}]`.")
    events: list[Event] = []
    for said in history:
        if isinstance(said, Event):
            events.append(said)
        elif _is_pair(said):
            author, text = said
            content = content_of("user" if author == "user" else "model", [text_part(text)])
            events.append(Event(author=author, content=content))
        elif isinstance(said, str | types.Content | types.Part | dict | list):
            content = content_given(said)
            if content.role != "model":
                check_message(content)
            events.append(Event(author=agent if content.role == "model" else "user", content=content))
        else:
            raise InputValidationError(
                f"{said!r} is no entry of a history. Give an `Event`, a message, or an author and a text as a pair: "
                f"`('user', 'Hello')`."
            )
    return events
