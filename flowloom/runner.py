"""`Runner`: runs an app's agents on sessions (spec §18)."""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import AsyncGenerator, Generator, Sequence
from typing import Any, Self, cast

from google.genai import types

from flowloom.agents import BaseAgent, LlmAgent, RunConfig
from flowloom.apps import App
from flowloom.artifacts import BaseArtifactService, InMemoryArtifactService
from flowloom.context import DirectEffects, Effects, InvocationContext, Run
from flowloom.context.hooks import first_answer, tell_all
from flowloom.context.run_config import default_run_config
from flowloom.errors import (
    ConfigurationError,
    DuplicateAgentError,
    HistoryError,
    InputValidationError,
    NotSupportedError,
    SessionNotFoundError,
)
from flowloom.events import Event, EventActions, new_id
from flowloom.events.parts import content_of, text_part
from flowloom.flow import settle_end, settle_failure
from flowloom.flow.delegation import open_task_scope
from flowloom.memory import BaseMemoryService, InMemoryMemoryService
from flowloom.observer import Observer
from flowloom.observer import observers as observers_of_all
from flowloom.plugins import BasePlugin, PluginManager
from flowloom.routing import Place, answered_calls, find_agent_to_run
from flowloom.sessions import BaseSessionService, InMemorySessionService, Session
from flowloom.tools.agent_tool import AgentTool

Message = types.Content | str | dict[str, Any]


class Runner:
    """Runs an agent, or an `App`, on the sessions of a service.

    Each run takes one message of a user, stores it, lets the agent answer, and stores every event before it is
    yielded. `auto_create_session` makes sessions that do not exist. `effects` replaces what the flow does to the
    world; `observers` see what it does. Close the runner (`async with`, or `close`) to close its plugins and toolsets.

    Raises `ConfigurationError` without an agent or app name, `DuplicateAgentError` for two agents of one name.
    """

    def __init__(
        self,
        *,
        app: App | None = None,
        app_name: str | None = None,
        agent: BaseAgent | None = None,
        plugins: Sequence[BasePlugin] | None = None,
        session_service: BaseSessionService,
        artifact_service: BaseArtifactService | None = None,
        memory_service: BaseMemoryService | None = None,
        credential_service: Any = None,
        plugin_close_timeout: float = 5.0,
        auto_create_session: bool = False,
        effects: Effects | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        if app is not None:
            if agent is not None or plugins is not None:
                raise ConfigurationError("Give either `app`, or `agent` and `plugins`: the app holds both already.")
            agent, plugins, app_name = app.root_agent, app.plugins, app_name or app.name
        if agent is None or not app_name:
            raise ConfigurationError("A runner needs an `app`, or an `app_name` and an `agent`.")
        check_tree(agent)
        self._has_tasks = any(isinstance(each, LlmAgent) and each.mode == "task" for each in agents_of(agent))
        self.app_name = app_name
        self.agent = agent
        self.session_service = session_service
        self.artifact_service = artifact_service
        self.memory_service = memory_service
        self.credential_service = credential_service
        self.auto_create_session = auto_create_session
        self.plugin_manager = PluginManager(plugins, plugin_close_timeout)
        self.effects: Effects = effects or DirectEffects()
        self.observers = tuple(observers)
        self._loop: asyncio.AbstractEventLoop | None = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the plugins, and the toolsets of all agents."""
        toolsets: dict[int, Any] = {}
        todo = agents_of(self.agent)
        while todo:
            agent = todo.pop()
            for tool in agent.own_tools if isinstance(agent, LlmAgent) else ():
                if hasattr(tool, "close"):
                    toolsets[id(tool)] = tool
                elif isinstance(tool, AgentTool) and isinstance(tool.agent, BaseAgent):
                    todo.extend(agents_of(tool.agent))
        await self.plugin_manager.close(toolsets.values())

    # -- running ------------------------------------------------------------------------------------

    async def run_async(
        self,
        *,
        user_id: str,
        session_id: str,
        invocation_id: str | None = None,
        new_message: Message | None = None,
        state_delta: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
        yield_user_message: bool = False,
        abort_signal: asyncio.Event | None = None,
    ) -> AsyncGenerator[Event, None]:
        """Answer a message; yields events as they happen, each stored before it is seen.

        A message of function responses goes on with the run that called. `state_delta` is stored with the message.
        Without a message the agent goes on from the history. Raises `SessionNotFoundError`, and whatever ends the
        run, after one error event was stored; the history stays legal.
        """
        session = await self._session(user_id, session_id, run_config)
        message = None if new_message is None else content_of_message(new_message)
        answered = answered_calls(session.events, message)
        ctx = self._context(session, message, run_config, invocation_id, answered)
        branch = answered[0].branch if answered else None
        hooks = ctx.run.hooks
        agen: AsyncGenerator[Event, None] | None = None
        try:
            ended = False
            if message is not None or state_delta:
                stored = await self._take_message(ctx, message, state_delta, branch)
                if yield_user_message:
                    yield stored
            if hooks.before_run:
                content = await first_answer(hooks.before_run, invocation_context=ctx)
                if content is not None:
                    ended = True
                    yield await ctx.run.record(ctx, ctx.new_event({"content": content}))
            if not ended:
                agen = ctx.agent.run_async(ctx)
                async for event in agen:
                    yield await ctx.run.record(ctx, event)
                    if abort_signal is not None and abort_signal.is_set():
                        break
        except Exception as error:
            for event in await settle_failure(ctx, error):
                yield event
            raise
        finally:
            await settle_end(ctx, agen)
            if hooks.after_run:
                await tell_all(hooks.after_run, invocation_context=ctx)

    def run(
        self,
        *,
        user_id: str,
        session_id: str,
        new_message: Message,
        state_delta: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
    ) -> Generator[Event, None, None]:
        """`run_async` for code without an event loop. One loop serves all calls of this runner.

        Raises `ConfigurationError` within a running event loop.
        """
        try:
            asyncio.get_running_loop()
        except RuntimeError:
            pass
        else:
            raise ConfigurationError("`Runner.run` was called within an event loop. Use `run_async` there.")
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            weakref.finalize(self, self._loop.close)
        loop = self._loop
        events = self.run_async(
            user_id=user_id,
            session_id=session_id,
            new_message=new_message,
            state_delta=state_delta,
            run_config=run_config,
        )
        try:
            while True:
                try:
                    event = loop.run_until_complete(events.__anext__())
                except StopAsyncIteration:
                    return
                yield event
        finally:
            loop.run_until_complete(events.aclose())

    def run_live(self, **_: Any) -> AsyncGenerator[Event, None]:
        """Not supported in this release; raises `NotSupportedError`."""
        raise NotSupportedError("Live (bidirectional) runs are not supported yet. Use `run_async` with SSE streaming.")

    async def run_debug(
        self,
        user_messages: Message | Sequence[Message],
        *,
        user_id: str = "debug_user",
        session_id: str = "debug_session",
        run_config: RunConfig | None = None,
        quiet: bool = False,
    ) -> list[Event]:
        """Answer one or several messages in a session that is made when needed; returns all events.

        Unless `quiet`, what is said is printed.
        """
        messages = user_messages if isinstance(user_messages, list | tuple) else [user_messages]
        found = await self.session_service.get_session(app_name=self.app_name, user_id=user_id, session_id=session_id)
        if found is None:
            await self.session_service.create_session(app_name=self.app_name, user_id=user_id, session_id=session_id)
        collected: list[Event] = []
        for message in messages:
            async for event in self.run_async(
                user_id=user_id,
                session_id=session_id,
                new_message=message,  # pyright: ignore[reportArgumentType] - narrowed by the check above
                run_config=run_config,
            ):
                collected.append(event)
                if not quiet and event.text and not event.partial:
                    print(f"{event.author}: {event.text}")
        return collected

    async def rewind_async(self, *, user_id: str, session_id: str, rewind_before_invocation_id: str) -> None:
        """Go back to before an invocation: its events and later ones are no longer shown, its state is undone.

        Nothing is deleted. Raises `HistoryError` if the session has no such invocation.
        """
        session = await self._session(user_id, session_id, None)
        before: dict[str, Any] = {}
        changed: set[str] = set()
        found = False
        for event in session.events:
            found = found or event.invocation_id == rewind_before_invocation_id
            if found:
                changed.update(event.actions.state_delta)
            else:
                before.update(event.actions.state_delta)
        if not found:
            raise HistoryError(f"Session `{session_id}` has no invocation `{rewind_before_invocation_id}` to rewind.")
        actions = EventActions(
            rewind_before_invocation_id=rewind_before_invocation_id,
            state_delta={key: before.get(key) for key in changed if not key.startswith(("app:", "user:"))},
        )
        event = Event(author="user", invocation_id="e-" + new_id(), actions=actions)
        await self.session_service.append_event(session, event)

    # -- parts of a run -------------------------------------------------------------------------------

    async def _session(self, user_id: str, session_id: str, run_config: RunConfig | None) -> Session:
        names: dict[str, Any] = {"app_name": self.app_name, "user_id": user_id, "session_id": session_id}
        config = None if run_config is None else run_config.get_session_config
        session = await self.session_service.get_session(**names, config=config)
        if session is not None:
            return session
        if self.auto_create_session:
            return await self.session_service.create_session(**names)
        raise SessionNotFoundError(
            f"There is no session `{session_id}` of user `{user_id}` in app `{self.app_name}`. Create it with "
            f"`session_service.create_session`, or give the runner `auto_create_session=True`."
        )

    def _context(
        self,
        session: Session,
        message: types.Content | None,
        run_config: RunConfig | None,
        invocation_id: str | None,
        answered: Sequence[Event],
    ) -> InvocationContext:
        if invocation_id is None:
            invocation_id = answered[0].invocation_id if answered else "e-" + new_id()
        run = Run(
            invocation_id=invocation_id,
            session=session,
            session_service=self.session_service,
            artifact_service=self.artifact_service,
            memory_service=self.memory_service,
            credential_service=self.credential_service,
            config=run_config or default_run_config(),
            user_content=message,
            hooks=self.plugin_manager.hooks,
            effects=self.effects,
            resume_authors={event.author for event in answered},
            observers=observers_of_all() + self.observers,
        )
        if answered:  # other calls of the run may wait still
            for event in session.events:
                if event.invocation_id == invocation_id:
                    run.follow(event)
            run.open_calls.clear()
        agent, lineage = self._place(session, answered)
        ctx = InvocationContext(agent=agent, lineage=lineage, run=run)
        ctx.recorded = True
        return ctx

    def _place(self, session: Session, answered: Sequence[Event]) -> Place:
        """Which agent answers, and the agents above it."""
        return find_agent_to_run(self.agent, session.events, answered)

    async def _take_message(
        self,
        ctx: InvocationContext,
        message: types.Content | None,
        state_delta: dict[str, Any] | None,
        branch: str | None,
    ) -> Event:
        """Store the user's message (spec §18.4); one that answers a call belongs to that call's branch."""
        run = ctx.run
        if message is not None:
            if run.hooks.on_user_message:
                replaced = await first_answer(run.hooks.on_user_message, invocation_context=ctx, user_message=message)
                message = cast(types.Content, message if replaced is None else replaced)
            if run.config.save_input_blobs_as_artifacts and run.artifact_service is not None:
                message = await self._save_blobs(ctx, message)
            run.user_content = message
        values: dict[str, Any] = {
            "author": "user",
            "branch": branch,
            "content": message,
            "isolation_scope": open_task_scope(run.session.events) if self._has_tasks else None,
        }
        if state_delta:
            values["actions"] = EventActions.unvalidated({"state_delta": dict(state_delta)})
        return await run.record(ctx, ctx.new_event(values), hooks=())

    async def _save_blobs(self, ctx: InvocationContext, message: types.Content) -> types.Content:
        assert ctx.artifact_service is not None
        parts: list[types.Part] = []
        for index, part in enumerate(message.parts or ()):
            if part.inline_data is None:
                parts.append(part)
                continue
            name = f"artifact_{ctx.invocation_id}_{index}"
            await ctx.artifact_service.save_artifact(
                app_name=ctx.app_name, user_id=ctx.user_id, session_id=ctx.session.id, filename=name, artifact=part
            )
            parts.append(text_part(f"The user uploaded a file. It is saved as the artifact `{name}`."))
        return content_of(message.role or "user", parts)


class InMemoryRunner(Runner):
    """A runner with services in memory, which makes sessions as they are named."""

    def __init__(
        self,
        agent: BaseAgent | None = None,
        *,
        app_name: str | None = None,
        plugins: Sequence[BasePlugin] | None = None,
        app: App | None = None,
        plugin_close_timeout: float = 5.0,
        effects: Effects | None = None,
        observers: Sequence[Observer] = (),
    ) -> None:
        super().__init__(
            app=app,
            app_name=app_name or (None if app is not None else "InMemoryRunner"),
            agent=agent,
            plugins=plugins,
            session_service=InMemorySessionService(),
            artifact_service=InMemoryArtifactService(),
            memory_service=InMemoryMemoryService(),
            plugin_close_timeout=plugin_close_timeout,
            auto_create_session=True,
            effects=effects,
            observers=observers,
        )


def agents_of(root: BaseAgent) -> list[BaseAgent]:
    """All agents of a tree, each once, the root first."""
    found: dict[int, BaseAgent] = {}
    todo = [root]
    while todo:
        agent = todo.pop()
        if id(agent) not in found:
            found[id(agent)] = agent
            todo.extend(reversed(agent.sub_agents))
    return list(found.values())


def check_tree(root: BaseAgent) -> None:
    """Raise `DuplicateAgentError` if two different agents of a tree have one name, `ConfigurationError` for a root
    that can only be called."""
    if isinstance(root, LlmAgent) and root.mode in ("task", "single_turn"):
        raise ConfigurationError(
            f"The root agent `{root.name}` is in mode `{root.mode}`, but nobody calls it. Use `chat`."
        )
    names: dict[str, BaseAgent] = {}
    for agent in agents_of(root):
        if names.setdefault(agent.name, agent) is not agent:
            raise DuplicateAgentError(
                f"Two agents below `{root.name}` are named `{agent.name}`. Histories go by name: rename one."
            )


def content_of_message(message: Message) -> types.Content:
    """A message as content. Raises `InputValidationError` for what is none."""
    if isinstance(message, str):
        content = content_of("user", [text_part(message)])
    elif isinstance(message, types.Content):
        content = message
    else:
        try:
            content = types.Content.model_validate(message)
        except ValueError as error:
            raise InputValidationError(
                f"{message!r} is no message. Give a text, a `types.Content`, or a dict with `role` and `parts`. {error}"
            ) from error
    if not content.parts:
        raise InputValidationError("The message has no parts. Give it a text, a file, or a function response.")
    return content if content.role else content.model_copy(update={"role": "user"})
