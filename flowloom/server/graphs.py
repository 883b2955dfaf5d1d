"""The tree of an app's agents, as data and as pictures (server spec §3: 27 to 30). Development server only."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from typing import Any

from fastapi import APIRouter, Request
from fastapi.responses import Response
from pydantic_core import to_jsonable_python

from flowloom.agents import BaseAgent
from flowloom.events.event import Event
from flowloom.models.base_llm import BaseLlm
from flowloom.processors import Template
from flowloom.runner.app import App
from flowloom.server.problems import ProblemError
from flowloom.server.served import admit, served_of
from flowloom.server.wire import answer, json_bytes
from flowloom.tools.base_tool import BaseTool

router = APIRouter(tags=["dev"])

Edge = tuple[str, str]

_SHORT_ID = re.compile(r"[A-Za-z_]\w*", re.ASCII)
_RESERVED = {"node", "edge", "graph", "digraph", "subgraph", "strict"}
_LIGHT = {
    "back": "#F8FAFC", "fill": "#FFFFFF", "line": "#94A3B8", "text": "#0F172A",
    "edge": "#64748B", "lit": "#69CB87", "lit_text": "#0F172A",
}  # fmt: skip
_DARK = {
    "back": "#0F172A", "fill": "#1E293B", "line": "#475569", "text": "#F8FAFC",
    "edge": "#94A3B8", "lit": "#16A34A", "lit_text": "#FFFFFF",
}  # fmt: skip
_ICONS = {"agent": ("#42A5F5", "✦"), "tool": ("#6B7280", "🔧")}


@router.get("/dev/apps/{app_name}/build_graph")
async def build_graph(request: Request, app_name: str) -> Response:
    """An app's agents with their settings, as google-adk's web UI reads them."""
    app = await _app(request, app_name)
    told: dict[str, Any] = {"name": app.name, "root_agent": _agent_data(app.root_agent)}
    if app.plugins:
        told["plugins"] = [{"name": plugin.name} for plugin in app.plugins]
    for name in ("context_cache_config", "resumability_config"):
        value = getattr(app, name)
        if value is not None:
            told[name] = _plain(value)
    readme = _readme(request, app_name)
    return answer(json_bytes(told | ({"readme": readme} if readme else {})))


@router.get("/dev/apps/{app_name}/build_graph_image")
async def build_graph_image(
    request: Request, app_name: str, dark_mode: bool = False, node: str = ""
) -> dict[str, dict[str, str]]:
    """The picture of an app's agents in DOT, or of those below the agent at the path `node`."""
    agent: BaseAgent | None = (await _app(request, app_name)).root_agent
    for name in filter(None, node.split("/")):
        agent = next((each for each in agent.sub_agents if each.name == name), None) if agent is not None else None
    if agent is None:
        raise ProblemError(404, "node_not_found", f"Node not found: {node}")
    return {node: {"dotSrc": _dot(agent, dark=dark_mode)}}


@router.get("/dev/apps/{app_name}/graph")
async def app_graph(request: Request, app_name: str, dark_mode: bool = False) -> dict[str, str]:
    """The picture of an app's agents in DOT."""
    return {"dotSrc": _dot((await _app(request, app_name)).root_agent, dark=dark_mode)}


@router.get("/dev/apps/{app_name}/users/{user_id}/sessions/{session_id}/events/{event_id}/graph")
async def event_graph(
    request: Request, app_name: str, user_id: str, session_id: str, event_id: str, dark_mode: bool = True
) -> dict[str, str]:
    """The same with what an event was about lit; empty if there is no such event."""
    admit(request, app_name, user_id)
    served = served_of(request)
    session = await served.sessions.get_session(app_name=app_name, user_id=user_id, session_id=session_id)
    event = next((each for each in session.events if each.id == event_id), None) if session is not None else None
    if event is None:
        return {}
    return {"dotSrc": _dot((await _app(request, app_name)).root_agent, dark=dark_mode, lit=_edges_of(event))}


async def _app(request: Request, app_name: str) -> App:
    admit(request, app_name)
    return await served_of(request).app_of(app_name)


def _readme(request: Request, app_name: str) -> str | None:
    folder = served_of(request).apps.folder_of(app_name)
    try:
        return None if folder is None else (folder / "README.md").read_text(encoding="utf-8")
    except (OSError, ValueError):
        return None


# -- as data ---------------------------------------------------------------------------------------


def _agent_data(agent: BaseAgent) -> dict[str, Any]:
    told: dict[str, Any] = {}
    for name in type(agent).model_fields:
        value = getattr(agent, name)
        if value is None or "callback" in name or name.startswith("around_"):
            continue
        if name == "sub_agents":
            told[name] = [_agent_data(child) for child in agent.sub_agents]
        elif name == "tools":
            told[name] = [{"name": tool, "type": "tool"} for tool in _tools_of(agent)]
        elif isinstance(value, BaseLlm):
            told[name] = value.model
        elif isinstance(value, Template):
            told[name] = value.source
        elif not callable(value):
            told[name] = _plain(value)
    return told


def _plain(value: Any) -> Any:
    """A value as JSON; what JSON has no form for, as text."""
    return to_jsonable_python(value, exclude_none=True, fallback=str, inf_nan_mode="strings", bytes_mode="base64")


def _tools_of(agent: BaseAgent) -> list[str]:
    """The names of an agent's own tools; a toolset has that of its class."""
    below = {child.name for child in agent.sub_agents}
    names = [_tool_name(tool) for tool in getattr(agent, "tools", None) or ()]
    return [name for name in names if name not in below]


def _tool_name(tool: Any) -> str:
    if isinstance(tool, BaseTool | BaseAgent):
        return tool.name
    return getattr(tool, "__name__", None) or type(tool).__name__


# -- as a picture ----------------------------------------------------------------------------------


def _edges_of(event: Event) -> list[Edge]:
    """What an event was about: calls, their results, or its author alone."""
    calls, results = event.get_function_calls(), event.get_function_responses()
    if calls:
        return [(event.author, call.name or "") for call in calls]
    if results:
        return [(result.name or "", event.author) for result in results]
    return [(event.author, "")]


def _dot(root: BaseAgent, *, dark: bool, lit: Sequence[Edge] = ()) -> str:
    """A tree of agents and their tools in DOT; the ids of nodes are their names."""
    colours = _DARK if dark else _LIGHT
    agents = list(_agents(root))
    kinds = {tool: "tool" for agent in agents for tool in _tools_of(agent)} | {each.name: "agent" for each in agents}
    edges = [(agent.name, child.name) for agent in agents for child in agent.sub_agents]
    edges += [(agent.name, tool) for agent in agents for tool in _tools_of(agent)]
    shining = {name for edge in lit for name in edge}
    lines = [
        "digraph {",
        f'\tgraph [bgcolor="{colours["back"]}" fontname=Helvetica nodesep=0.5 pad=0.5 ranksep=0.8 splines=spline]',
        f'\tnode [color="{colours["line"]}" fillcolor="{colours["fill"]}" fontcolor="{colours["text"]}" '
        f'fontname=Helvetica fontsize=12 margin="0.25,0.15" penwidth=1.5 shape=rect style="rounded,filled"]',
        f'\tedge [arrowhead=vee arrowsize=0.7 color="{colours["edge"]}" fontname=Helvetica fontsize=10 penwidth=1.2]',
    ]
    lines += [_node(name, kinds[name], colours, lit=name in shining) for name in dict.fromkeys(_order(agents, kinds))]
    lines += [_edge(edge, kinds, colours, lit) for edge in dict.fromkeys(edges)]
    return "\n".join([*lines, "}", ""])


def _agents(agent: BaseAgent) -> Iterator[BaseAgent]:
    yield agent
    for child in agent.sub_agents:
        yield from _agents(child)


def _order(agents: Sequence[BaseAgent], kinds: dict[str, str]) -> list[str]:
    return [*(agent.name for agent in agents), *kinds]


def _node(name: str, kind: str, colours: dict[str, str], *, lit: bool) -> str:
    colour, icon = _ICONS[kind]
    style = "rounded,filled,dashed" if kind == "tool" else "rounded,filled"
    shown = f'fillcolor="{colours["lit"]}" fontcolor="{colours["lit_text"]}" ' if lit else ""
    label = f'<<FONT COLOR="{colour}" POINT-SIZE="14">{icon}</FONT> {html.escape(name)}>'
    return f'\t{_id(name)} [label={label} {shown}style="{style}" tooltip={kind.title()}]'


def _edge(edge: Edge, kinds: dict[str, str], colours: dict[str, str], lit: Sequence[Edge]) -> str:
    given = ["style=dashed"] if kinds[edge[1]] == "tool" else []
    if edge in lit:
        given.append(f'color="{colours["lit"]}" penwidth=2')
    elif (edge[1], edge[0]) in lit:
        given.append(f'color="{colours["lit"]}" penwidth=2 dir=back')
    return f"\t{_id(edge[0])} -> {_id(edge[1])}" + (f" [{' '.join(given)}]" if given else "")


def _id(name: str) -> str:
    """A name as DOT writes it: in quotes, unless it is an identifier."""
    if _SHORT_ID.fullmatch(name) and name.lower() not in _RESERVED:
        return name
    return '"' + name.replace("\\", "\\\\").replace('"', '\\"') + '"'
