"""Serving over MCP: agents and tools of ours for the clients of others (protocols spec §2).

Begin here; then `server.py` (what the SDK asks), `offers.py` (agents and tools as a client sees them), `calls.py` (one
call as a run), and what these need: `callers.py` (who asks), `conversations.py` (in which session), `client_agent.py`
(the run of a tool without a model), `results.py`, `elicitation.py`, `artifacts.py`. `sdk.py` names what is the SDK's.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Literal

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.asgi import Auth
from flowloom.errors import ConfigurationError, DuplicateToolError
from flowloom.processors.tools import is_toolset
from flowloom.protocols.mcp.serving.client_agent import RawResults, client_agent
from flowloom.protocols.mcp.serving.conversations import Served, SessionMode
from flowloom.protocols.mcp.serving.offers import AgentOffer, ToolOffers
from flowloom.protocols.mcp.serving.server import AgentServer
from flowloom.runner import App, InMemoryRunner, Runner
from flowloom.tools import BaseTool, BaseToolset
from flowloom.tools.delegation import DelegateTool, FinishTaskTool

__all__ = ["AgentServer", "to_mcp_server"]
ServedTool = Callable[..., Any] | BaseTool | BaseToolset | BaseAgent[Any]


def to_mcp_server(
    agent: BaseAgent[Any] | App[Any] | None = None,
    *,
    tools: Sequence[ServedTool] | None = None,
    name: str | None = None,
    instructions: str | None = None,
    runner: Runner[Any] | None = None,
    session: SessionMode = "connection",
    expose: Literal["agent", "tools", "both"] = "agent",
    prompts: bool = False,
    allowed_hosts: Sequence[str] = (),
    auth: Auth | None = None,
) -> AgentServer:
    """An MCP server with one tool, named as the agent: it takes a `request`, and gives the agent's final answer.

    `agent` may be an `App`, whose plugins and settings then count.

    `expose="tools"` serves the agent's tools in its place, `"both"` both; `tools` are served besides: functions, tools,
    toolsets, and agents to be asked. They have the names, descriptions and schemas that a model would be told.

    `name` is the server's, by default the agent's; `instructions` are what clients are told of it; `prompts` serves the
    agent's own instruction as a prompt. `runner` runs the agent, and its services keep what there is to keep, by
    default in memory. With `session="connection"` the calls of a connection are one conversation, with `"call"` each is
    one of its own; so are the calls of clients over HTTP that speak 2026-07-28, which has no connections. With
    `"context"` an agent's result names its conversation, and a call that names it goes on with it. `allowed_hosts` are
    the names that it may be asked by over HTTP, beside those of this machine; an address that others reach needs them.
    `auth` says who asks, and so whose the sessions are.

    Raises `ConfigurationError` for what is no agent or tool, and where there is nothing to serve, `DuplicateToolError`
    for two of one name, and `MissingExtraError` without the SDK.
    """
    own_runner = runner
    if isinstance(agent, App):
        if runner is not None:
            raise ConfigurationError("Give `to_mcp_server` an app, or a `runner` with one.")
        own_runner, agent = InMemoryRunner(agent), agent.root_agent
    elif agent is None and tools is None and runner is not None:
        agent = runner.agent
    _check(agent, expose, bare=tools is None)
    shown = [agent] if agent is not None and expose != "tools" else []
    shown += [each for each in tools or () if isinstance(each, BaseAgent)]
    own = [each for each in tools or () if not isinstance(each, BaseAgent)]
    called = name or (agent.name if agent is not None else shown[0].name if shown else "tools")
    raw, runners = RawResults(), _Runners(own_runner, called if agent is None else agent.name, owned=runner is None)
    offers = [AgentOffer(each, runners.served(each, session, first=number == 0)) for number, each in enumerate(shown)]
    like = None
    if expose != "agent" and isinstance(agent, LlmAgent):
        own = [*_own_tools(agent), *own]
        like = agent
    offered = None
    if own:
        by_itself = client_agent(_agent_name(called), own, like, raw)
        offered = ToolOffers(runners.served(by_itself, session, first=not shown, allow=True), raw)
    if not offers and offered is None:
        raise ConfigurationError("There is nothing to serve. Give `to_mcp_server` an agent, or `tools`.")
    _check_names(offers, own)
    told = {each.name: each.instruction for each in shown if isinstance(each, LlmAgent) and prompts}
    return AgentServer(
        called,
        instructions=instructions,
        agents=offers,
        tools=offered,
        prompts={each: text for each, text in told.items() if isinstance(text, str) and text},
        allowed_hosts=allowed_hosts,
        auth=auth,
        closing=runners.close,
    )


class _Runners:
    """The runners of what is served: the given one, which is the server's own or not, and those that are made here,
    which are closed with the server."""

    def __init__(self, given: Runner[Any] | None, app_name: str, *, owned: bool) -> None:
        self._given, self._owned = given, owned
        self._app_name = app_name if given is None else given.app_name
        self._made: list[Runner[Any]] = [given] if given is not None and owned else []

    def served(self, agent: BaseAgent[Any], mode: SessionMode, *, first: bool, allow: bool = False) -> Served:
        """`agent` with a runner: the given one if that is its own, else one that shares its services.

        The sessions of the `first` bear the plain names. `allow` lets several runs go on in one session.
        """
        given, suffix = self._given, "" if first else f":{agent.name}" + (":tools" if allow else "")
        if given is not None and agent is given.agent:
            return Served(given, mode, suffix, owned=self._owned)
        if given is None:
            runner: Runner[Any] = InMemoryRunner(agent, app_name=self._app_name)
            runner.concurrency = "allow" if allow else runner.concurrency
        else:
            runner = Runner(
                app_name=self._app_name,
                agent=agent,
                session_service=given.session_service,
                artifact_service=given.artifact_service,
                memory_service=given.memory_service,
                credential_service=given.credential_service,
                plugins=given.plugin_manager.plugins,
                effects=given.effects,
                observers=given.observers,
                concurrency="allow" if allow else given.concurrency,
                confirm=given.confirm,
            )
        self._made.append(runner)
        return Served(runner, mode, suffix, owned=self._owned)

    async def close(self) -> None:
        """Close what was made here."""
        for runner in self._made:
            await runner.close()


def _check(agent: Any, expose: str, *, bare: bool) -> None:
    """Raise `ConfigurationError` for what cannot be served; `bare` says that there are no other tools."""
    if agent is not None and not isinstance(agent, BaseAgent):
        raise ConfigurationError(f"`to_mcp_server` takes an agent, not a `{type(agent).__name__}`.")
    if expose not in ("agent", "tools", "both"):
        raise ConfigurationError(f"`expose` is `{expose}`; it takes `agent`, `tools` or `both`.")
    if expose == "tools" and bare and not (isinstance(agent, LlmAgent) and agent.tools):  # pyright: ignore[reportUnknownMemberType]
        told = "no agent is given" if agent is None else f"`{agent.name}` has none of its own"
        raise ConfigurationError(f'`expose="tools"` serves the tools of an agent, but {told}.')


def _own_tools(agent: LlmAgent[Any]) -> list[Any]:
    """The tools of an agent that a client can call: not those that the model's provider runs, nor the engine's own."""
    left_out = (DelegateTool, FinishTaskTool)
    return [
        each
        for each in agent.own_tools
        if is_toolset(each) or (not isinstance(each, left_out) and each.__declare__() is not None)
    ]


def _check_names(offers: Sequence[AgentOffer], tools: Sequence[Any]) -> None:
    seen = {offer.agent.name for offer in offers}
    if len(seen) < len(offers):
        raise DuplicateToolError("Two of the agents to serve have the same name. Give one of them another.")
    for tool in tools:
        name = getattr(tool, "name", None) or getattr(tool, "__name__", None)
        if not is_toolset(tool) and name in seen:
            raise DuplicateToolError(f"An agent and a tool to serve are both called `{name}`. Rename one of them.")


def _agent_name(name: str) -> str:
    """A name that agents may have."""
    kept = "".join(char if char.isalnum() else "_" for char in name)
    return kept if kept[:1].isalpha() and kept != "user" else f"tools_{kept}"
