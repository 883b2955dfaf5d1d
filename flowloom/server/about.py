"""What the server says of itself and its apps (server spec §3, 1 to 5)."""

from __future__ import annotations

import asyncio
import logging
import sys
from importlib.metadata import version
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response

from flowloom.agents import BaseAgent, LlmAgent
from flowloom.runner.app import App
from flowloom.runner.routing import agents_of
from flowloom.server.problems import ProblemError
from flowloom.server.served import admit, principal_of, served_of
from flowloom.server.wire import answer, json_bytes

_log = logging.getLogger("flowloom.server")
router = APIRouter(tags=["apps"])
dev_router = APIRouter(tags=["apps"])


@router.get("/health")
async def health() -> dict[str, str]:
    """The process lives."""
    return {"status": "ok"}


@router.get("/version")
async def versions() -> dict[str, str]:
    """The versions of the server and its language."""
    return {
        "version": version("flowloom"),
        "language": "python",
        "language_version": ".".join(map(str, sys.version_info[:3])),
        "server": "flowloom",
    }


@router.get("/list-apps")
async def list_apps(request: Request, detailed: str = "") -> Response:
    """The names of the apps that those who ask may use; `detailed=true` tells what those are that can be loaded."""
    principal = principal_of(request)
    served = served_of(request)
    names = [name for name in await served.app_names() if principal.may_use(name)]
    if detailed.lower() not in ("true", "1", "yes", "on"):
        return answer(json_bytes(names))
    found: list[dict[str, Any]] = []
    for name in names:
        try:
            found.append(_summary(name, await served.app_of(name)) | {"agents": None})
        except ProblemError as problem:
            _log.info("`%s` is left out of the list: %s", name, problem)
    return answer(json_bytes({"apps": found}))


@router.get("/apps/{app_name}/app-info")
async def app_info(request: Request, app_name: str) -> Response:
    """An app's agents: what they are told, and their tools."""
    admit(request, app_name)
    app = await served_of(request).app_of(app_name)
    agents = {agent.name: await _agent_info(agent) for agent in agents_of(app.root_agent)}
    return answer(json_bytes(_summary(app_name, app) | {"agents": agents}))


@dev_router.get("/dev/apps/{app_name}/problem")
async def app_problem(request: Request, app_name: str) -> Response:
    """Why an app cannot be loaded: the traceback, for those who write it; null if it can."""
    admit(request, app_name)
    return answer(json_bytes({"traceback": await asyncio.to_thread(served_of(request).apps.problem_of, app_name)}))


def _summary(name: str, app: App) -> dict[str, Any]:
    return {
        "name": name,
        "rootAgentName": app.root_agent.name,
        "description": app.root_agent.description,
        "language": "python",
        "isComputerUse": False,
    }


async def _agent_info(agent: BaseAgent) -> dict[str, Any]:
    return {
        "name": agent.name,
        "description": agent.description,
        "instruction": _instruction_of(agent) if isinstance(agent, LlmAgent) else "",
        "tools": await _tools_of(agent) if isinstance(agent, LlmAgent) else [],
        "sub_agents": [child.name for child in agent.sub_agents],
    }


def _instruction_of(agent: LlmAgent) -> str:
    given: Any = agent.instruction
    if callable(given):
        return f"<InstructionProvider: {getattr(given, '__name__', type(given).__name__)}>"
    return str(given or "")


async def _tools_of(agent: LlmAgent) -> list[dict[str, Any]]:
    """What a model is told of an agent's tools. A toolset that cannot be listed has none, and is logged."""
    try:
        tools: list[Any] = list(await agent.canonical_tools())
    except Exception as error:
        _log.warning("The tools of `%s` cannot be listed.", agent.name, exc_info=error)
        return []
    declared = [tool.__declare__() for tool in tools if hasattr(tool, "__declare__")]
    return [
        {"functionDeclarations": [each.model_dump(mode="json", by_alias=True, exclude_none=True)]}
        for each in declared
        if each is not None
    ]
