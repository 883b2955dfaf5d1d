"""`InvocationContext`: where an agent stands in a run."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from functools import cached_property
from typing import Any, Protocol, Self

from google.genai import types

from flowloom.artifacts import BaseArtifactService, InMemoryArtifactService
from flowloom.context.effects import DIRECT_EFFECTS, EffectKey
from flowloom.context.hooks import NO_CALLBACKS, NO_HOOKS, FlowCallbacks, Hooks
from flowloom.context.protocols import AnyAgent, Effects, RunnableTool, as_llm_agent
from flowloom.context.run import Run
from flowloom.context.run_config import RunConfig, default_run_config
from flowloom.context.totals import Usage
from flowloom.errors import ConfigurationError, quoted_list
from flowloom.events.actions import no_actions
from flowloom.events.event import Event, NodeInfo
from flowloom.events.ids import new_id
from flowloom.events.response import LlmResponse
from flowloom.events.wire import make
from flowloom.log.ledger import Place
from flowloom.memory import BaseMemoryService, InMemoryMemoryService
from flowloom.models.base_llm import BaseLlm
from flowloom.sessions.in_memory import InMemorySessionService
from flowloom.sessions.service import BaseSessionService
from flowloom.sessions.session import Session


class _HookSource(Protocol):
    @property
    def hooks(self) -> Hooks: ...


_IN_MEMORY: Any = object()
"""Stands for a service that is not given: the run gets one of its own, in memory."""


class InvocationContext:
    """An agent's place in a run: the run's services and settings, the agent, its branch and scope.

    The runner makes one; for tests, and to run an agent, a flow or a single processor below the runner, build one by
    hand: `InvocationContext(agent=agent, user_content=...)`. The services are `session_service`, `artifact_service`,
    `memory_service` and `credential_service`: those that are not given are made in memory, but for credentials; None
    means that there is none. The message `user_content` is not appended to the session; `start` does that.

    Parameters beside: `session` (its log is what the agent sees), `invocation_id` (by default a new one), `run_config`
    (the run's settings), `plugin_manager` (whose plugins are called), `effects` (through which models, tools, time and
    chance are reached), `branch` (of the parallel branch), `isolation_scope` (of a delegated task), `lineage` (the
    agents above this one, root first; by default those that `parent_agent` names), `run` (to share that of another
    context; the services are then those of it).
    """

    # what few places have is the class's until it is set; what steps read is set by `__init__`, and reads faster
    end_invocation: bool = False
    """Set it to stop this agent before its next model call."""
    escalated: bool = False
    """Whether an event of the agent's turn escalated, for the agents that run others."""
    recorded: bool = False
    """Whether the runner, or the agent that runs this one, takes the events into the session."""
    agent_span: Any = None
    """The telemetry context of the agent's span, if spans are recorded."""
    model: BaseLlm | None = None
    """The model that answers for the agent, once it was asked for (see `model_of`)."""
    tools: Sequence[RunnableTool] | None = None
    """The agent's tools, toolsets resolved; the `tools` processor sets it, once per agent run."""
    outbox: asyncio.Queue[Any] | None = None
    """Where agents that run as tools put their events, while the flow forwards them; None ends it."""
    progress_box: Callable[[Any, dict[str, Any]], None] | None = None
    """Takes how far a call is: its context, and what it tells."""
    delegate: Callable[[types.FunctionCall, int], Awaitable[dict[str, Any] | None]] | None = None
    """Runs the agent that a call is for, while the calls of an answer are run; None as its response: it comes later."""
    path_prefix: str = ""
    """What comes before the path of an agent that runs as a tool: the key of its call."""
    node_path: str = ""
    """The turn of a workflow's member that this is, `flow@1/writer@2`; empty outside workflows."""
    resumed: bool = False
    """Whether an earlier run of the invocation had reached this place; this run resumes it."""
    node_info: NodeInfo | None = None
    """`node_path` as the events carry it."""
    answer_id: str | None = None
    """The id of the events of the answer that is being streamed: its complete event has it, too."""
    _path: str | None = None

    def __init__(
        self,
        *,
        agent: AnyAgent,
        session: Session | None = None,
        session_service: BaseSessionService | None = None,
        artifact_service: BaseArtifactService | None = _IN_MEMORY,
        memory_service: BaseMemoryService | None = _IN_MEMORY,
        credential_service: Any = None,
        invocation_id: str | None = None,
        user_content: types.Content | None = None,
        run_config: RunConfig | None = None,
        plugin_manager: _HookSource | None = None,
        effects: Effects = DIRECT_EFFECTS,
        branch: str | None = None,
        isolation_scope: str | None = None,
        lineage: tuple[AnyAgent, ...] | None = None,
        run: Run | None = None,
    ) -> None:
        if run is None:
            if session is None:
                session = Session(id=new_id(), app_name="app", user_id="user")
            if session_service is None:
                session_service = InMemorySessionService()
                session_service.adopt(session)
            run = Run(
                invocation_id=invocation_id or "",
                session=session,
                session_service=session_service,
                artifact_service=InMemoryArtifactService() if artifact_service is _IN_MEMORY else artifact_service,
                memory_service=InMemoryMemoryService() if memory_service is _IN_MEMORY else memory_service,
                credential_service=credential_service,
                config=run_config or default_run_config(),
                user_content=user_content,
                hooks=NO_HOOKS if plugin_manager is None else plugin_manager.hooks,
                effects=effects,
            )
        self.run = run
        self.agent = agent
        self.llm_agent = as_llm_agent(agent)
        """The agent, if it works through a flow and a model; else None."""
        self.branch = branch
        self.isolation_scope = isolation_scope
        self.lineage: tuple[AnyAgent, ...] = _parents_of(agent) if lineage is None else lineage
        self.end_invocation = self.escalated = self.resumed = False
        self.path_prefix = self.node_path = ""
        self.model = self.tools = self.node_info = self.answer_id = self._path = None
        if not run.invocation_id:
            run.invocation_id = "e-" + run.effects.new_id(self)

    # -- the run's ------------------------------------------------------------------------------

    @property
    def invocation_id(self) -> str:
        """The id of this run, `e-<uuid>`."""
        return self.run.invocation_id

    @property
    def session(self) -> Session:
        """The session as this run sees it. One that is set, as when it was loaded anew, is that of the whole run."""
        return self.run.session

    @session.setter
    def session(self, value: Session) -> None:
        run, before = self.run, self.run.session
        if (value.app_name, value.user_id, value.id) == (before.app_name, before.user_id, before.id):
            value.guard(before.fence)
        run.session, run.message_seen = value, (0, None)

    @property
    def session_service(self) -> BaseSessionService:
        """Where the run's events are stored."""
        return self.run.session_service

    @property
    def artifact_service(self) -> BaseArtifactService | None:
        """Where files are kept, if there is such a service."""
        return self.run.artifact_service

    @property
    def memory_service(self) -> BaseMemoryService | None:
        """Where memories are kept, if there is such a service."""
        return self.run.memory_service

    @property
    def credential_service(self) -> Any:
        """Where the credentials of users are kept: a `BaseCredentialService`, or None."""
        return self.run.credential_service

    @property
    def run_config(self) -> RunConfig:
        """The settings of the run."""
        return self.run.config

    @property
    def user_content(self) -> types.Content | None:
        """The message that started the run."""
        return self.run.user_content

    @property
    def effects(self) -> Effects:
        """What the run does to the world, and asks of it."""
        return self.run.effects

    @property
    def app_name(self) -> str:
        """The app that the session belongs to."""
        return self.run.session.app_name

    @property
    def user_id(self) -> str:
        """The user that the session belongs to."""
        return self.run.session.user_id

    @property
    def usage(self) -> Usage:
        """Tokens used by the run so far, sub-agents and agent tools included."""
        return self.run.totals.usage

    # -- the agent's ----------------------------------------------------------------------------

    @property
    def path(self) -> str:
        """The agent's place in the tree: the names from the root down, joined by dots."""
        if self._path is None:
            self._path = self.path_prefix + ".".join([agent.name for agent in (*self.lineage, self.agent)])
        return self._path

    @property
    def parent(self) -> AnyAgent | None:
        """The agent above this one in this run's tree."""
        return self.lineage[-1] if self.lineage else None

    @property
    def root(self) -> AnyAgent:
        """The agent at the top of this run's tree."""
        return self.lineage[0] if self.lineage else self.agent

    @property
    def place(self) -> Place:
        """Where in the run what the agent does is recorded."""
        return Place(self.agent.name, self.branch or None, self.isolation_scope or None, self.node_path)

    @cached_property
    def callbacks(self) -> FlowCallbacks:
        """The callbacks of the flow that runs; those of the agent's own flow if none was set."""
        return NO_CALLBACKS if self.llm_agent is None else self.llm_agent.flow.callbacks

    @property
    def step(self) -> int:
        """How many model steps this agent has begun in this run, this one not counted."""
        return self.run.steps.get(self.path, 0)

    def model_copy(self, *, update: Mapping[str, Any] | None = None) -> Self:
        """The same place with the attributes in `update` changed; the run is shared.

        Raises `ConfigurationError` for what is the run's, or follows from other attributes.
        """
        new = object.__new__(type(self))
        new.__dict__.update(self.__dict__)
        new._path = None
        if update:
            if derived := _DERIVED.intersection(update):
                raise ConfigurationError(
                    f"The copy of a context cannot have another {quoted_list(sorted(derived))}: it shares the run. "
                    f"Make a context of its own by `InvocationContext(...)`; a `session` that is set on a context is "
                    f"that of the whole run."
                )
            new.__dict__.update(update)
            if "agent" in update:
                new.llm_agent = as_llm_agent(new.agent)
                new.model = new.tools = None
                new.__dict__.pop("callbacks", None)
        return new

    def at(self, agent: AnyAgent, lineage: tuple[AnyAgent, ...]) -> Self:
        """The context of another agent of the same run, on the same branch."""
        new = self.model_copy(update={"agent": agent, "lineage": lineage})
        new.end_invocation = new.escalated = new.resumed = False
        new.answer_id = None
        return new

    def below(self, agent: AnyAgent) -> Self:
        """The context of one of this agent's sub-agents."""
        return self.at(agent, (*self.lineage, self.agent))

    def once(self, what: str) -> bool:
        """Whether this is the first time in this run that `what` is done at this place."""
        mark = (f"{self.node_path} {self.path} {self.branch} {self.isolation_scope}", what)
        if mark in self.run.done_once:
            return False
        self.run.done_once |= {mark}
        return True

    def workflow_path(self) -> str:
        """The node path of this agent as a workflow, `flow@1`: its own, or a new one for each time it is entered."""
        if self.node_path.rpartition("/")[2].rpartition("@")[0] == self.agent.name:
            return self.node_path
        path = f"{self.node_path}/{self.agent.name}" if self.node_path else self.agent.name
        run = self.run
        count = run.entries.get(path)
        if count is None:
            count = 0 if run.progress is None else run.progress.entries(path)
        if not self.resumed or not count:
            count += 1
        run.entries[path] = count
        return f"{path}@{count}"

    def member(self, agent: AnyAgent, workflow: str, turn: int = 1) -> Self:
        """The context of a member of the workflow that this agent is, in its turn number `turn`, from 1.

        `workflow` is the path of the workflow (see `workflow_path`).
        """
        new = self.below(agent)
        new.node_path = f"{workflow}/{agent.name}@{turn}"
        new.node_info = make(NodeInfo, path=new.node_path)
        return new

    def effect_key(self, kind: str, n: int | None = None) -> EffectKey:
        """The key of the effect `n` of this `kind`, by default of the next one (see `EffectKey`)."""
        path, step = self.path, self.step
        if n is None:
            n = self.count_effects(kind, 1)
        return EffectKey(path, step, kind, n, (self.run.attempts or {}).get((path, step, kind, n), 0))

    def count_effects(self, kind: str, count: int) -> int:
        """The number of the first of `count` effects of a `kind` (`model`, `tool`, ...) that come now, in this step."""
        counter, counts = (self.path, self.step, kind), self.run.effect_counts
        first = counts.get(counter, 0)
        counts[counter] = first + count
        return first

    def inside_call(self, index: int) -> Self:
        """The place of what the tool call at `index` of this step does itself: keys of its effects stand below its."""
        return self.model_copy(update={"path_prefix": f"{self.effect_key('tool', index)}/"})

    # -- events ---------------------------------------------------------------------------------

    def new_event(self, values: dict[str, Any]) -> Event:
        """An event of this agent, here and now; `values` are its fields, not validated."""
        return make(Event, self._here_and_now(values, None))

    def _here_and_now(self, values: dict[str, Any], event_id: str | None) -> dict[str, Any]:
        """The fields of an event of this agent, here and now, with these `values`."""
        run = self.run
        effects = run.effects
        return {
            "node_info": self.node_info,
            "invocation_id": run.invocation_id,
            "author": self.agent.name,
            "branch": self.branch,
            "isolation_scope": self.isolation_scope,
            "id": event_id or effects.new_id(self),
            "timestamp": effects.now(self),
            "actions": values["actions"] if "actions" in values else no_actions(),
            **values,
        }

    def response_event(self, response: LlmResponse, values: dict[str, Any]) -> Event:
        """An event of this agent that carries a model's response, and `values`: other fields of the event.

        The partial ones and the complete one share an id.
        """
        here = self._here_and_now(values, self.answer_id)
        self.answer_id = here["id"] if response.partial else None
        return Event.carrying(response, here)

    async def start(self) -> Event | None:
        """Append the user's message to the session, as a runner does before an agent runs."""
        if self.user_content is None:
            return None
        content = self.run.keyring.receive(self.user_content, self.session.events)
        event = self.new_event({"author": "user", "content": content})
        return await self.run.record(self, event, hooks=())


_DERIVED = frozenset(name for name in dir(InvocationContext) if isinstance(getattr(InvocationContext, name), property))
"""What no context has of its own: it is the run's, or follows from other attributes."""


def _parents_of(agent: AnyAgent) -> tuple[AnyAgent, ...]:
    above: AnyAgent | None = getattr(agent, "parent_agent", None)
    return () if above is None else (*_parents_of(above), above)
