"""`agent_card_of`: the card that tells others what an agent of ours can do, and where (protocols spec §4)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from flowloom.agents import BaseAgent, LlmAgent
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
from flowloom.tools.base_tool import BaseTool

CALLS = "urn:flowloom:a2a:calls:v1"
"""The extension by which thoughts, calls and results are told."""
_VERSIONS = ("1.0", "0.3")
_TEXT, _JSON = "text/plain", "application/json"
_FILES = ("image/png", "image/jpeg", "application/pdf")


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

    It holds names and descriptions; no instruction, no key of a state and no path. `version` is that of the app, `push`
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
        default_input_modes=[_TEXT, _JSON, *_FILES],
        default_output_modes=[_TEXT, _JSON] if _is_structured(agent) else [_TEXT],
        skills=_skills(agent, requirements, whole_tree=whole_tree),
    )


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
    for tool in agent.own_tools if isinstance(agent, LlmAgent) else ():
        if isinstance(tool, BaseTool):
            examples: Any = (tool.custom_metadata or {}).get("examples") or ()
            made = _skill(f"{agent.name}-{tool.name}", tool.name, tool.description, "tool", examples, requirements)
            found.append(made)
    for child in agent.sub_agents:
        child_id = f"{agent.name}-{child.name}"
        found.append(_skill(child_id, child.name, child.description, "sub_agent", (), requirements))
        if whole_tree:
            found += _skills(child, requirements, whole_tree=True)[1:]
    return found


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
