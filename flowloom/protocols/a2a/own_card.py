"""`agent_card_of`: the card that tells others what an agent of ours can do, and where (protocols spec §4)."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from typing import Any

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.context.protocols import RunnableTool
from flowloom.errors import FlowloomError, error_text
from flowloom.processors.tools import is_toolset
from flowloom.protocols.a2a.asked import PENDING
from flowloom.protocols.a2a.sdk import (
    AgentCapabilities,
    AgentCard,
    AgentExtension,
    AgentInterface,
    AgentSkill,
    ParseDict,
    SecurityRequirement,
    SecurityScheme,
)
from flowloom.protocols.words import cleaned
from flowloom.runner.routing import agents_of
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.base_toolset import BaseToolset

CALLS = "urn:flowloom:a2a:calls:v1"
"""The extension by which thoughts, calls and results are told."""
_VERSIONS = ("1.0", "0.3")
_TEXT, _JSON = "text/plain", "application/json"
_log = logging.getLogger("flowloom.a2a")


def agent_card_of(
    agent: BaseAgent[Any],
    url: str,
    *,
    version: str = "1.0.0",
    push: bool = True,
    extensions: Sequence[str] = (),
    extended: bool = False,
    whole_tree: bool = False,
    security_schemes: Mapping[str, Any] | None = None,
    default_skill_security: Sequence[Mapping[str, Sequence[str]]] | None = None,
) -> AgentCard:
    """The card of `agent`, which is served at `url`: a skill for the agent, one for each of its tools and sub-agents.

    It holds names and descriptions; no instruction, no key of a state and no path. Tools of toolsets are not in it: see
    `ToolsetSkills`. What files it takes is what the models of the agents take. `version` is that of the app, `push`
    says whether notifications are sent, `extensions` are those of `to_a2a`, `extended` whether more is told after
    login: the card with the tools of the `whole_tree`. `security_schemes` by name, and `default_skill_security`, say
    what a caller has to bring along.
    """
    base = url.rstrip("/")
    requirements = [_requirement(each) for each in default_skill_security or ()]
    return AgentCard(
        name=agent.name,
        description=cleaned(agent.description) or f"The agent {agent.name}.",
        version=version,
        supported_interfaces=[
            AgentInterface(url=address, protocol_binding=binding, protocol_version=spoken)
            for spoken in _VERSIONS
            for binding, address in (("JSONRPC", f"{base}/"), ("HTTP+JSON", base))
        ],
        capabilities=AgentCapabilities(
            streaming=True, push_notifications=push, extended_agent_card=extended, extensions=_extensions(extensions)
        ),
        security_schemes={name: _scheme(each) for name, each in (security_schemes or {}).items()},
        security_requirements=[_requirement({name: []}) for name in security_schemes or {}],
        default_input_modes=[_TEXT, _JSON, *_files(agent)],
        default_output_modes=[_TEXT, _JSON] if _is_structured(agent) else [_TEXT],
        skills=_skills(agent, requirements, whole_tree=whole_tree),
    )


class ToolsetSkills:
    """A skill for each tool that the toolsets of `agent` list outside of runs, on the cards that are asked for.

    With `whole_tree` those of the agents below it are told, too; `security` is what a caller has to bring along. They
    are listed once. A toolset that cannot be listed costs its tools and a warning; the next card asks it again.
    """

    def __init__(
        self, agent: BaseAgent[Any], security: Sequence[Mapping[str, Sequence[str]]] | None, *, whole_tree: bool
    ) -> None:
        self._name, agents = agent.name, agents_of(agent) if whole_tree else [agent]
        own = [(each.name, tool) for each in agents if isinstance(each, LlmAgent) for tool in each.own_tools]
        self._toolsets: list[tuple[str, BaseToolset]] = [(name, each) for name, each in own if is_toolset(each)]
        self._requirements = [_requirement(each) for each in security or ()]
        self._skills: dict[int, list[AgentSkill]] = {}

    async def added(self, card: AgentCard, *_: Any) -> AgentCard:
        """The card with them; the rest is what the SDK says beside it."""
        for place, (owner, toolset) in enumerate(self._toolsets):
            if place in self._skills:
                continue
            try:
                tools = await toolset.get_tools_with_prefix(None)
            except Exception as error:
                _log.warning("The card of agent `%s` lacks tools: %s", self._name, error_text(error))
            else:
                self._skills[place] = [_tool_skill(owner, tool, self._requirements) for tool in tools]
        if not self._skills:
            return card
        whole = AgentCard()
        whole.CopyFrom(card)
        for place in sorted(self._skills):
            whole.skills.extend(self._skills[place])
        return whole


def _files(agent: BaseAgent[Any]) -> list[str]:
    """The types of files that the models of an agent, and of those below it, take."""
    types: dict[str, None] = {}
    for each in agents_of(agent):
        if isinstance(each, LlmAgent):
            try:
                types |= dict.fromkeys(each.canonical_model.media_types)
            except FlowloomError:
                continue  # no model, or one that is not there: whoever runs the agent is told
    return [*types]


def _extensions(served: Sequence[str]) -> list[AgentExtension]:
    told = [AgentExtension(uri=PENDING, description="What a task waits for is told as data, and answered so.")]
    if "calls" in served:
        told.append(AgentExtension(uri=CALLS, description="Thoughts, calls and their results are told, and marked."))
    return told


def _skills(
    agent: BaseAgent[Any], requirements: Sequence[SecurityRequirement], *, whole_tree: bool
) -> list[AgentSkill]:
    """What an agent can do: itself, its tools, its sub-agents. Each has an id of its own."""
    found = [_skill(agent.name, agent.name, agent.description, "agent", (), requirements)]
    own = agent.own_tools if isinstance(agent, LlmAgent) else ()
    found += [_tool_skill(agent.name, tool, requirements) for tool in own if isinstance(tool, BaseTool)]
    for child in agent.sub_agents:
        child_id = f"{agent.name}-{child.name}"
        found.append(_skill(child_id, child.name, child.description, "sub_agent", (), requirements))
        if whole_tree:
            found += _skills(child, requirements, whole_tree=True)[1:]
    return found


def _tool_skill(agent: str, tool: RunnableTool, requirements: Sequence[SecurityRequirement]) -> AgentSkill:
    metadata: dict[str, Any] = getattr(tool, "custom_metadata", None) or {}
    examples: Any = metadata.get("examples") or ()
    return _skill(f"{agent}-{tool.name}", tool.name, tool.description, "tool", examples, requirements)


def _skill(
    skill_id: str,
    name: str,
    description: str,
    tag: str,
    examples: Sequence[Any],
    requirements: Sequence[SecurityRequirement],
) -> AgentSkill:
    told = [examples] if isinstance(examples, str) else [str(each) for each in examples]
    return AgentSkill(
        id=skill_id,
        name=name,
        description=cleaned(description).strip() or f"{name}.",
        tags=[tag],
        examples=told,
        security_requirements=requirements,
    )


def _is_structured(agent: BaseAgent[Any]) -> bool:
    return isinstance(agent, LlmAgent) and agent.output_schema is not None


def _scheme(given: Any) -> SecurityScheme:
    """A security scheme: itself, or its JSON form."""
    return given if isinstance(given, SecurityScheme) else ParseDict(dict(given), SecurityScheme())


def _requirement(given: Mapping[str, Sequence[str]]) -> SecurityRequirement:
    schemes = {name: {"list": [*scopes]} for name, scopes in given.items()}
    return ParseDict({"schemes": schemes}, SecurityRequirement())
