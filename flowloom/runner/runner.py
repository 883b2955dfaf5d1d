"""`Runner`: runs an app's agents on sessions (spec §18)."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Generator, Sequence
from copy import copy
from inspect import iscoroutinefunction
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Generic, Literal, Required, Self, TypedDict, Unpack

from google.genai import types

from flowloom import compaction, plugins, processors
from flowloom.agents import BaseAgent, LlmAgent, RunConfig
from flowloom.agents.base_agent import OutputT
from flowloom.artifacts import BaseArtifactService, InMemoryArtifactService
from flowloom.auth.service import BaseCredentialService, InMemoryCredentialService
from flowloom.context import DirectEffects, Effects, InvocationContext, Run
from flowloom.context.observer import Observer
from flowloom.context.observer import observers as observers_of_all
from flowloom.context.progress import Progress
from flowloom.context.run_config import default_run_config
from flowloom.errors import ConfigurationError, NotSupportedError, SessionNotFoundError
from flowloom.events import Event
from flowloom.flow.pipeline import Processor, Step, compile_steps
from flowloom.memory import BaseMemoryService, InMemoryMemoryService
from flowloom.models import BaseLlm, LLMRegistry
from flowloom.objects.notebook import say
from flowloom.objects.settings import check_kinds
from flowloom.plugins import BasePlugin, ModelOverride, PluginManager
from flowloom.processors.model_choice import model_of
from flowloom.runner.app import App
from flowloom.runner.handle import RunHandle
from flowloom.runner.message import Message
from flowloom.runner.rounds import Rounds, result_of
from flowloom.runner.routing import agents_of, check_tree, find_agent_to_run
from flowloom.runner.sync import iterate_sync, run_sync
from flowloom.sessions import BaseSessionService, InMemorySessionService, Session
from flowloom.telemetry import step_logs
from flowloom.tools.agent_tool import AgentTool

if TYPE_CHECKING:
    from flowloom.run_stream import RunStreamEvent
    from flowloom.runner.pending import Confirm
    from flowloom.runner.result import RunResult

# Python names it in the error for an argument that is missing or unknown: users know the methods of a runner.
Rounds.__init__.__qualname__ = "Runner.run"


class RunArguments(TypedDict, total=False):
    """What a run is given by keyword: the parameters of `Runner.run_async` but those of google-adk's alone."""

    user_id: Required[str]
    session_id: Required[str]
    invocation_id: str | None
    new_message: Message | None
    state_delta: dict[str, Any] | None
    run_config: RunConfig | None


class Runner(Generic[OutputT]):
    """Runs an agent, or an `App`, on the sessions of a service.

    Each run takes one message of a user, stores it, lets the agent answer, and stores every event before it is
    yielded. Close the runner (`async with`, or `close`) to close its plugins and toolsets.

    `session_service`, `artifact_service`, `memory_service` and `credential_service` keep sessions, files, memories and
    credentials; without the second and third, tools have none, the last is made in memory. `plugins` are asked after
    those of the app; each may take `plugin_close_timeout` seconds to close. `auto_create_session` makes sessions that
    do not exist. `effects` replaces what the flow does to the world; `observers` see what it does. When a session has a
    run already, `concurrency` lets a second one wait (`queue`), refuses it with a `SessionBusyError` (`reject`), or
    runs both (`allow`). A process that died elsewhere blocks the session of its run for `lease_seconds`; a run that did
    not renew its lease for so long may find its session taken over, and ends with `RunLostError`. `confirm` decides in
    the process itself about tool calls that need a person's approval: True, False, a `ToolConfirmation`, or None to
    leave it open.

    Type checkers know a runner by what its agent's `output_schema` makes: `Runner[City]` gives a `RunResult[City]`.

    `app_name` wins over the app's own name. Raises `ConfigurationError` without an agent or app name, and for both an
    `app` and an `agent`, `DuplicateAgentError` for two agents of one name.
    """

    app_version = "1.0.0"
    """The version of its app."""

    def __init__(
        self,
        *,
        app: App[OutputT] | None = None,
        app_name: str | None = None,
        agent: BaseAgent[OutputT] | None = None,
        plugins: Sequence[BasePlugin] | None = None,
        session_service: BaseSessionService,
        artifact_service: BaseArtifactService | None = None,
        memory_service: BaseMemoryService | None = None,
        credential_service: BaseCredentialService | None = None,
        plugin_close_timeout: float = 5.0,
        auto_create_session: bool = False,
        effects: Effects | None = None,
        observers: Sequence[Observer] = (),
        concurrency: Literal["queue", "reject", "allow"] = "queue",
        lease_seconds: float = 30.0,
        confirm: Confirm | None = None,
    ) -> None:
        check_kinds(app=(app, App), agent=(agent, BaseAgent), session_service=(session_service, BaseSessionService))
        if app is not None:
            if agent is not None:
                raise ConfigurationError("Give either `app` or `agent`: the app holds its own.")
            agent, plugins, app_name = app.root_agent, [*app.plugins, *(plugins or ())], app_name or app.name
        if agent is None or not app_name:
            raise ConfigurationError("A runner needs an `app`, or an `app_name` and an `agent`.")
        check_tree(agent)
        agents = agents_of(agent)
        self.tasks = frozenset(each.name for each in agents if isinstance(each, LlmAgent) and each.mode == "task")
        self.takes_words = any(map(attrgetter("takes_words"), agents))
        self.app_name = app_name
        self.agent: BaseAgent[OutputT] = agent
        self.session_service = session_service
        self.artifact_service = artifact_service
        self.memory_service = memory_service
        self.credential_service = credential_service or InMemoryCredentialService()
        self.auto_create_session = auto_create_session
        self.plugin_manager = PluginManager(plugins, plugin_close_timeout)
        self._compaction: compaction.BackgroundCompaction | None = None
        self._extra: tuple[Step, ...] = ()
        if app is not None:
            self.take_settings(app)
        self.effects: Effects = effects or DirectEffects()
        self.observers = tuple(observers)
        self.concurrency: Literal["queue", "reject", "allow"] = concurrency
        self.lease_seconds = lease_seconds
        self.confirm = confirm

    def take_settings(self, app: App) -> None:
        """What an app asks for beside its agents: steps of every flow, and work after runs."""
        self.app_version = app.version
        extra: list[Processor] = []
        if app.events_compaction_config is not None:
            self._compaction = compaction.BackgroundCompaction(app.events_compaction_config)
            extra.append(processors.Compaction(app.events_compaction_config))
        if app.context_cache_config is not None:
            extra.append(processors.ContextCaching(app.context_cache_config))
        self._extra = compile_steps(extra)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *exc_info: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the plugins, the toolsets of all agents, and the connections of those of other services."""
        toolsets: dict[int, Any] = {}
        todo = agents_of(self.agent)
        while todo:
            agent = todo.pop()
            if iscoroutinefunction(getattr(agent, "close", None)):
                toolsets[id(agent)] = agent
            for tool in agent.own_tools if isinstance(agent, LlmAgent) else ():
                if callable(getattr(tool, "close", None)):
                    toolsets[id(tool)] = tool
                elif isinstance(tool, AgentTool) and isinstance(tool.agent, BaseAgent):
                    todo.extend(agents_of(tool.agent))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        if self._compaction is not None:
            await self._compaction.aclose()
        await self.plugin_manager.close(toolsets.values())

    # -- running ------------------------------------------------------------------------------------

    def run_async(
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

        `new_message` is the message, for the session `session_id` of the user `user_id`. A message of function
        responses resumes the run that called. `invocation_id` without a message resumes an invocation that was
        interrupted, paused or cut off, from what the log tells: results that are there are used, calls that were under
        way are made again. `state_delta` is stored with the message. Without any of them the agent goes on from the
        history. `run_config` holds the settings of the run. With `yield_user_message` the event of the message is
        yielded first; when `abort_signal` is set, the run stops after the next event.

        Raises `SessionNotFoundError`, `InvocationNotFoundError`, `SessionBusyError` (with `concurrency="reject"`),
        `RunLostError` if another run has taken the session over (it stores nothing more), and whatever else ends the
        run, after one error event was stored; the history stays legal.
        """
        return Rounds(
            self,
            user_id=user_id,
            session_id=session_id,
            invocation_id=invocation_id,
            new_message=new_message,
            state_delta=state_delta,
            run_config=run_config,
            yield_user_message=yield_user_message,
            abort_signal=abort_signal,
        ).events()

    def start(self, **arguments: Unpack[RunArguments]) -> RunHandle[OutputT]:
        """`run_async` as a thing one holds: it runs by itself, and can be read, paused, cancelled and waited for.

        `arguments` are those of `RunArguments`.
        """
        return RunHandle(Rounds(self, **arguments))

    async def run_to_result(self, **arguments: Unpack[RunArguments]) -> RunResult[OutputT]:
        """Answer a message, and say what came of it. `arguments` are those of `RunArguments`. Raises as `run_async`
        does."""
        return await result_of(Rounds(self, **arguments))

    async def run_stateless(
        self,
        message: Message,
        *,
        user_id: str = "user",
        state: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
    ) -> RunResult[OutputT]:
        """Answer a message in a session of its own, of which nothing is kept: neither state, files nor memories.

        `state` is what the session begins with, `user_id` whose it is, `run_config` the settings of the run. Raises as
        `run_async` does.
        """
        host = copy(self)
        host.concurrency, host._compaction = "allow", None
        host.session_service = InMemorySessionService()
        host.artifact_service, host.memory_service = InMemoryArtifactService(), InMemoryMemoryService()
        session = await host.session_service.create_session(app_name=self.app_name, user_id=user_id, state=state)
        run = Rounds(host, user_id=user_id, session_id=session.id, new_message=message, run_config=run_config)
        return await result_of(run)

    def run_stream(self, **arguments: Unpack[RunArguments]) -> AsyncGenerator[RunStreamEvent, None]:
        """Answer a message as typed events for a user interface, streamed unless `run_config` says otherwise.

        `arguments` are those of `RunArguments`. What ends the run is told by the last events, and not raised. Closing
        the stream ends the run; for a run that can also be paused or cancelled, see `start` and `RunHandle.stream`.
        """
        rounds = Rounds(self, **arguments)
        rounds.stream_models()
        return rounds.typed(rounds.events())

    # -- from synchronous code -----------------------------------------------------------------------------

    def run(self, **arguments: Unpack[RunArguments]) -> Generator[Event, None, None]:
        """`run_async` for synchronous code. One loop serves all calls of a thread, of any runner.

        `arguments` are those of `RunArguments`. Within a running event loop, as in a notebook, the run has a loop in a
        thread of its own, and the running one waits. Close the generator (or leave it) to end the run.
        """
        return iterate_sync(self.run_async(**arguments))

    def run_to_result_sync(self, **arguments: Unpack[RunArguments]) -> RunResult[OutputT]:
        """`run_to_result` for synchronous code (see `run`), with the same `arguments`."""
        return run_sync(self.run_to_result(**arguments))

    def run_stateless_sync(
        self,
        message: Message,
        *,
        user_id: str = "user",
        state: dict[str, Any] | None = None,
        run_config: RunConfig | None = None,
    ) -> RunResult[OutputT]:
        """`run_stateless` for synchronous code (see `run`), with the same `message`, `user_id`, `state` and
        `run_config`.
        """
        return run_sync(self.run_stateless(message, user_id=user_id, state=state, run_config=run_config))

    def run_stream_sync(self, **arguments: Unpack[RunArguments]) -> Generator[RunStreamEvent, None, None]:
        """`run_stream` for synchronous code (see `run`), with the same `arguments`."""
        return iterate_sync(self.run_stream(**arguments))

    def run_live(self, **_: Any) -> AsyncGenerator[Event, None]:
        """Not supported in this release; raises `NotSupportedError`."""
        raise NotSupportedError("Live (bidirectional) runs are not supported yet. Use `run_async` with SSE streaming.")

    async def run_debug(
        self,
        user_messages: Message | Sequence[Message],
        *,
        user_id: str = "debug_user_id",
        session_id: str = "debug_session_id",
        run_config: RunConfig | None = None,
        quiet: bool = False,
        verbose: bool = False,
    ) -> list[Event]:
        """Answer one or several messages in a session that is made when needed; returns all events.

        `user_messages`: one, or a list of them; `user_id` and `session_id` name the session, `run_config` holds the
        settings of the runs. Unless `quiet`, what is said is printed; if `verbose`, thoughts, calls and results, too.
        """
        messages: Sequence[Any] = user_messages if isinstance(user_messages, list | tuple) else [user_messages]
        where: dict[str, Any] = {"user_id": user_id, "session_id": session_id}
        await self.session_service.get_or_create_session(app_name=self.app_name, **where)
        collected: list[Event] = []
        for message in messages:
            async for event in self.run_async(**where, new_message=message, run_config=run_config):
                collected.append(event)
                said = plugins.LoggingPlugin().told(event.content) if verbose else event.text
                if said and not quiet and not event.partial:
                    say(f"{event.author}: {said}")
        return collected

    async def rewind_async(self, *, user_id: str, session_id: str, rewind_before_invocation_id: str) -> None:
        """Go back to before the invocation of the id `rewind_before_invocation_id`, in the session of `user_id` and
        `session_id`: its events and later ones are no longer shown, its state is undone.

        Nothing is deleted. Raises `HistoryError` if the session has no such invocation.
        """
        session = await self.open_session(user_id, session_id, None)
        await self.session_service.rewind(session, before_invocation_id=rewind_before_invocation_id)

    # -- parts of a run -------------------------------------------------------------------------------

    async def open_session(self, user_id: str, session_id: str, run_config: RunConfig | None) -> Session:
        """The session `session_id` of the user `user_id`, as far as `run_config.get_session_config` reads it.

        Raises `SessionNotFoundError`, unless sessions are made as they are named.
        """
        names: dict[str, Any] = {"app_name": self.app_name, "user_id": user_id, "session_id": session_id}
        config = None if run_config is None else run_config.get_session_config
        session = await self.session_service.get_session(**names, config=config)
        if session is None and self.auto_create_session:
            session = await self.session_service.get_or_create_session(**names)
        if session is not None:
            return session
        raise SessionNotFoundError(
            f"There is no session `{session_id}` of user `{user_id}` in app `{self.app_name}`. Create it with "
            f"`session_service.create_session`, or give the runner `auto_create_session=True`."
        )

    def make_context(
        self,
        session: Session,
        message: types.Content | None,
        run_config: RunConfig | None,
        invocation_id: str | None,
        answered: Event | None,
        progress: Progress | None,
    ) -> InvocationContext:
        """The context of the agent that answers `message` in `session`, or that made the call which it answers
        first (`answered`, the event of that).

        `invocation_id` and `progress` are those of the invocation it resumes, if it does; `run_config` holds the
        settings of the run.
        """
        if invocation_id is None:
            invocation_id = "" if answered is None else answered.invocation_id
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
            progress=progress,
            extra_steps=self._extra,
            observers=observers_of_all() + self.observers + step_logs(),
        )
        # who spoke last goes on, if the root is not alone
        events: Sequence[Event] = session.history.kept(session.events) if self.agent.sub_agents else session.events
        if progress is not None:
            if progress.interrupted:
                events = events[: progress.beginning_in(events)]
                run.user_content = progress.message
            else:  # another run may be about those, with another answer
                run.leave_open(*(made.id for made in run.ledger.open(run.invocation_id)))
        agent, lineage = find_agent_to_run(self.agent, events, answered)
        ctx = InvocationContext(agent=agent, lineage=lineage, run=run)
        ctx.recorded = True
        ctx.resumed = progress is not None
        return ctx

    def after_run(self, ctx: InvocationContext) -> None:
        """What is done in the background when a run has ended well."""
        if self._compaction is not None:
            model = model_of(ctx) if ctx.llm_agent is not None else None
            self._compaction.after_run(ctx.session, ctx.session_service, model)


class InMemoryRunner(Runner[OutputT]):
    """A runner with services in memory, which creates sessions on first use.

    It takes an agent, or an `App` with all that belongs to it. `model` answers for all agents (see `ModelOverride`), so
    that either can be put under test as it is.
    """

    def __init__(
        self,
        agent: BaseAgent[OutputT] | App[OutputT] | None = None,
        *,
        model: BaseLlm | str | None = None,
        app_name: str | None = None,
        plugins: Sequence[BasePlugin] | None = None,
        app: App[OutputT] | None = None,
        plugin_close_timeout: float = 5.0,
        effects: Effects | None = None,
        observers: Sequence[Observer] = (),
        concurrency: Literal["queue", "reject", "allow"] = "queue",
        confirm: Confirm | None = None,
    ) -> None:
        if isinstance(agent, App):
            if app is not None:
                raise ConfigurationError("Two apps were given, as `agent` and as `app`. Give one.")
            agent, app = None, agent
        if model is not None:
            plugins = [*(plugins or ()), ModelOverride(LLMRegistry.new_llm(model) if isinstance(model, str) else model)]
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
            concurrency=concurrency,
            confirm=confirm,
        )
