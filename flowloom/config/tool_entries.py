"""The tools that a file names: built-in ones, the program's, those of packages, servers, documents and skills."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from importlib import import_module
from pathlib import Path
from typing import Any, Protocol, cast

from flowloom import tools as built_in
from flowloom.agents import BaseAgent
from flowloom.agents.llm_agent import Tool
from flowloom.config.documents import Document
from flowloom.config.forms import McpServerConfig, OpenApiDocumentConfig, ToolArgsConfig
from flowloom.config.problems import KeyPath, closest
from flowloom.config.references import Imports, LookupProblem
from flowloom.config.variables import always, filled_in
from flowloom.errors import ConfigurationError, FlowloomError
from flowloom.tools import BaseTool, BaseToolset

_GOOGLE = "google.adk.tools."
_NOT_TOOLS = ("ToolConfirmation", "ToolContext", "BaseTool", "BaseToolset")


class Loading(Protocol):
    """What entries need of the loading of their file."""

    @property
    def imports(self) -> Imports:
        """What files may import."""
        ...

    @property
    def allow_stdio(self) -> bool:
        """Whether files may start MCP servers."""
        ...

    @property
    def tools(self) -> Mapping[str, Tool]:
        """The program's tools, by the names that files have for them."""
        ...

    def agent_of(self, document: Document, path: KeyPath, reference: dict[str, str]) -> BaseAgent | None:
        """The agent that a reference names."""
        ...

    def inside(self, document: Document, path: KeyPath, given: str) -> Path:
        """The file or folder that a path in a document names."""
        ...


def tool_of(loading: Loading, document: Document, path: KeyPath, entry: Any) -> Tool | None:
    """The tool, or toolset, of one entry; what keeps it from being made becomes a problem, and then there is none."""
    given: dict[str, Any] = {"name": entry} if isinstance(entry, str) else entry
    kind = next((key for key in _MAKERS if key in given), "name")
    try:
        if kind == "name":
            return _named(loading, document, path, given)
        return _MAKERS[kind](loading, document, (*path, kind), given[kind])
    except LookupProblem as error:
        document.note((*path, "name") if isinstance(entry, dict) else path, str(error))
    except FlowloomError as error:
        document.note(path, str(error))
    except Exception as error:  # of a user's own class or function
        document.note(path, f"The tool could not be made: {type(error).__name__}: {error}")
    return None


def _named(loading: Loading, document: Document, path: KeyPath, entry: dict[str, Any]) -> Tool:
    name = cast(str, entry["name"])
    args = cast("dict[str, Any] | None", filled_in(document, (*path, "args"), entry.get("args")))
    if name in loading.tools:
        found = loading.tools[name]
    else:
        short = name.rpartition(".")[2] if name.startswith(_GOOGLE) else name
        if short in _CLASSES:
            return _CLASSES[short](loading, document, path, args or {})
        found = (
            _built_in(loading, short)
            if "." not in short
            else loading.imports.find(name, document.file.resolve().parent)
        )
    return _made(found, args, document, name)


def _built_in(loading: Loading, name: str) -> Any:
    names = [each for each in built_in.__all__ if each not in _NOT_TOOLS]
    if name not in names:
        known = [*loading.tools, *_CLASSES, *names]
        raise LookupProblem(f"There is no tool `{name}`. {closest(name, known)}")
    return getattr(built_in, name)


def _made(found: Any, args: Mapping[str, Any] | None, document: Document, name: str) -> Tool:
    """The tool that a name stands for: itself, or what its class or its function makes of `args`."""
    if isinstance(found, (BaseTool, BaseToolset)):
        if args:
            raise ConfigurationError(f"`{name}` is a tool already, and takes no `args`.")
        return found
    if inspect.isclass(found) and issubclass(found, (BaseTool, BaseToolset)):
        from_config = getattr(found, "from_config", None)
        if from_config is not None:
            return from_config(ToolArgsConfig(**(args or {})), str(document.file))
        return cast("Callable[..., Tool]", found)(**(args or {}))
    if not callable(found):
        raise ConfigurationError(f"`{name}` is a `{type(found).__name__}`, and neither a function nor a tool.")
    function = cast("Callable[..., Any]", found)
    return function(ToolArgsConfig(**args)) if args else function


def _agent_tool(loading: Loading, document: Document, path: KeyPath, args: dict[str, Any]) -> Tool:
    where = (*path, "args")
    unknown = [key for key in args if key not in ("agent", "skip_summarization")]
    for key in unknown:
        document.note((*where, key), f"There is no such key. {closest(str(key), ['agent', 'skip_summarization'])}")
    reference: Any = args.get("agent")
    if isinstance(reference, str):
        reference = {"config_path": reference}
    named = cast("dict[str, Any]", reference) if isinstance(reference, dict) else {}
    if set(named) not in ({"config_path"}, {"code"}) or not all(isinstance(each, str) for each in named.values()):
        raise ConfigurationError("`AgentTool` takes `args: {agent: {config_path: FILE}}`, or `{code: NAME}`.")
    skips = args.get("skip_summarization")
    if not isinstance(skips, bool | None):
        raise ConfigurationError(f"`skip_summarization` of `AgentTool` is `{skips}`; it has to be true or false.")
    agent = loading.agent_of(document, (*where, "agent"), named)
    if agent is None:
        raise ConfigurationError("The agent of this tool cannot be made.")
    return built_in.AgentTool(agent, skip_summarization=bool(skips))


def _long_running(loading: Loading, document: Document, path: KeyPath, args: dict[str, Any]) -> Tool:
    if set(args) != {"func"} or not isinstance(args["func"], str):
        raise ConfigurationError("`LongRunningFunctionTool` takes `args: {func: my_package.module.function}`.")
    return built_in.LongRunningFunctionTool(loading.imports.find(args["func"], document.file.resolve().parent))


def _mcp(loading: Loading, document: Document, path: KeyPath, entry: dict[str, Any]) -> Tool:
    """The toolset of an `mcp:` entry."""
    given = McpServerConfig.model_validate(filled_in(document, path, entry))
    if given.command is not None:
        _check_leave(loading, given.command)
    protocol = import_module("flowloom.protocols.mcp")
    if given.command is not None:
        server = {"command": given.command, "args": given.args, "env": given.env, "cwd": given.cwd}
        connection = protocol.StdioConnectionParams(
            server_params={key: value for key, value in server.items() if value is not None}, timeout=given.timeout
        )
    else:
        kind = "SseConnectionParams" if given.transport == "sse" else "StreamableHTTPConnectionParams"
        connection = getattr(protocol, kind)(url=given.url, headers=given.headers, timeout=given.timeout)
    return protocol.McpToolset(
        connection_params=connection,
        tool_filter=given.tool_filter,
        tool_name_prefix=given.tool_name_prefix,
        require_confirmation=given.require_confirmation,
        pin_tools=given.pin_tools,
        on_unavailable=given.on_unavailable,
        use_mcp_resources=given.use_mcp_resources,
        use_server_instructions=given.use_server_instructions,
    )


_GOOGLE_CONNECTIONS = {
    "stdio_server_params": "StdioConnectionParams",
    "stdio_connection_params": "StdioConnectionParams",
    "sse_connection_params": "SseConnectionParams",
    "streamable_http_connection_params": "StreamableHTTPConnectionParams",
}


def _mcp_toolset(loading: Loading, document: Document, path: KeyPath, args: dict[str, Any]) -> Tool:
    """The toolset of `name: McpToolset`, whose `args` google-adk's files have."""
    kinds = [kind for kind in _GOOGLE_CONNECTIONS if args.get(kind) is not None]
    if len(kinds) != 1:
        raise ConfigurationError(f"`McpToolset` takes one of `{'`, `'.join(_GOOGLE_CONNECTIONS)}` in its `args`.")
    given = _mapping(args.pop(kinds[0]), kinds[0])
    if kinds[0].startswith("stdio"):
        server = given if kinds[0] == "stdio_server_params" else _mapping(given.get("server_params"), "server_params")
        _check_leave(loading, str(server.get("command", "")))
        given = {"server_params": server} if given is server else given
    protocol = import_module("flowloom.protocols.mcp")
    connection = getattr(protocol, _GOOGLE_CONNECTIONS[kinds[0]])(**given)
    return protocol.McpToolset(connection_params=connection, **{k: v for k, v in args.items() if v is not None})


def _mapping(value: Any, key: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"`{key}` of `McpToolset` has to be a mapping.")
    return cast("dict[str, Any]", value)


def _check_leave(loading: Loading, command: str) -> None:
    if not loading.allow_stdio:
        raise ConfigurationError(
            f"This starts the program `{command}`, which this file has no leave to do: `allow_stdio=True`, or "
            f"`--allow_stdio` on the command line, gives it."
        )


def _openapi(loading: Loading, document: Document, path: KeyPath, entry: dict[str, Any]) -> Tool:
    """The toolset of an `openapi:` entry."""
    given = OpenApiDocumentConfig.model_validate(filled_in(document, path, entry))
    file = loading.inside(document, (*path, "spec_path"), given.spec_path)
    headers = given.headers
    return import_module("flowloom.protocols.openapi").OpenAPIToolset(
        spec_path=str(file),
        base_url=given.base_url,
        server_variables=given.server_variables,
        credentials=given.credentials,
        header_provider=None if headers is None else always(headers),
        timeout=given.timeout,
        tool_filter=given.tool_filter,
        tool_name_prefix=given.tool_name_prefix,
        require_confirmation=given.require_confirmation,
        allow_private_network_access=given.allow_private_network_access,
    )


def _skills(loading: Loading, document: Document, path: KeyPath, entry: str) -> Tool:
    """The toolset of a `skills:` entry."""
    folder = loading.inside(document, path, entry)
    skills = import_module("flowloom.skills")
    return skills.SkillToolset(skills.load_skills_from_dir(folder))


_Maker = Callable[[Loading, Document, KeyPath, Any], Tool]
_MAKERS: dict[str, _Maker] = {"mcp": _mcp, "openapi": _openapi, "skills": _skills}
_CLASSES: dict[str, _Maker] = {
    "AgentTool": _agent_tool,
    "LongRunningFunctionTool": _long_running,
    "McpToolset": _mcp_toolset,
    "MCPToolset": _mcp_toolset,
}
