"""What a server offers: agents that are asked, and tools as they are (protocols spec §2)."""

from __future__ import annotations

import inspect
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, cast, get_type_hints

from google.genai import types
from pydantic import TypeAdapter

from flowloom import processors
from flowloom.agents import BaseAgent
from flowloom.context import InvocationContext
from flowloom.context.protocols import RunnableTool, as_llm_agent
from flowloom.errors import ConfigurationError, ToolArgumentsError, ToolsetError
from flowloom.events.json_data import without_halves
from flowloom.models.request import LlmRequest
from flowloom.processors.tools import is_toolset
from flowloom.protocols.mcp.serving.callers import Caller, Request, failure
from flowloom.protocols.mcp.serving.calls import CallResult, ServedCall
from flowloom.protocols.mcp.serving.client_agent import RawResults, run_config_of
from flowloom.protocols.mcp.serving.conversations import Served, Where
from flowloom.protocols.mcp.serving.results import answer_blocks, result_of_tool, text_of
from flowloom.protocols.mcp.serving.sdk import INTERNAL_ERROR, MCPError, mcp
from flowloom.runner import RunResult
from flowloom.sessions import Session
from flowloom.tools import AgentTool, FunctionTool
from flowloom.tools.delegation import call_declaration, input_schema_of
from flowloom.tools.output import OutputSchema, arguments_schema, validated_arguments

_log = logging.getLogger("flowloom.mcp")
_CONTEXT_ID = {
    "type": "string",
    "description": "The conversation to go on with, as an earlier result names it. Leave it out to begin one.",
}
_HINTS = ("title", "readOnlyHint", "destructiveHint", "idempotentHint", "openWorldHint")
_NO_DATA = (str, bytes, bytearray, types.Part, types.Blob, types.Content, type(None))


class AgentOffer:
    """An agent as a tool: it takes a `request`, or what its input schema says, and gives its final answer."""

    def __init__(self, agent: BaseAgent[Any], served: Served) -> None:
        self.served, self.agent = served, agent
        source = input_schema_of(agent)
        self._structured = source is not None
        declared = call_declaration(agent, None if source is None else OutputSchema(source))
        self._input = OutputSchema(cast(dict[str, Any], declared.parameters_json_schema))
        llm_agent = as_llm_agent(agent)
        output = None if llm_agent is None else llm_agent.output_schema
        self._output = None if output is None else OutputSchema(output)
        self.tool = self._described()

    def _described(self) -> mcp.Tool:
        given, promised = self._input.json_schema, None if self._output is None else arguments_schema(self._output)
        if self.served.mode == "context":
            given = {**given, "properties": {**given.get("properties", {}), "context_id": _CONTEXT_ID}}
            answer = {"type": "string"} if self._output is None else self._output.json_schema
            inner = {key: value for key, value in answer.items() if key != "$defs"}
            promised = {
                "type": "object",
                "properties": {"result": inner, "context_id": {"type": "string"}},
                "required": ["result", "context_id"],
                **({"$defs": answer["$defs"]} if "$defs" in answer else {}),
            }
        described = self.agent.description.strip() or f"Ask the agent {self.agent.name}."
        return mcp.Tool(
            name=self.agent.name, description=described, input_schema=given, output_schema=promised, annotations=None
        )

    async def call(self, args: dict[str, Any], caller: Caller, request: Request) -> CallResult:
        """Ask the agent."""
        context_id = args.pop("context_id", None) if self.served.mode == "context" else None
        where = self.served.session_of(caller, context_id)
        if context_id is not None and not await self.served.known(where):
            return failure(f"There is no conversation `{context_id}`. Leave `context_id` out to begin one.")
        try:
            given = validated_arguments(self._input, args)
        except ToolArgumentsError as error:
            return failure(f"The arguments do not fit the parameters of `{self.agent.name}`. {error}")
        text = json.dumps(given, ensure_ascii=False) if self._structured else given["request"]
        message = types.Content(role="user", parts=[types.Part(text=text)])
        return await self._made(caller, request, where).answered(message, None)

    async def resume(
        self, state: Mapping[str, Any], given: Mapping[str, Any], caller: Caller, request: Request, where: Where
    ) -> CallResult:
        """Go on with what was asked."""
        return await self._made(caller, request, where).resumed(state, given)

    def _made(self, caller: Caller, request: Request, where: Where) -> ServedCall:
        async def told(result: RunResult[Any]) -> mcp.CallToolResult:
            return self._told(result, where)

        return ServedCall(self.served, caller, request, where, told, exact=False)

    def _told(self, result: RunResult[Any], where: Where) -> mcp.CallToolResult:
        last = next((event for event in reversed(result.events) if event.content or event.error_code), None)
        if last is not None and last.error_code and not result.text:
            return failure(f"`{self.agent.name}` gave no answer: {last.error_code}")
        text = without_halves(result.text)
        blocks, data = answer_blocks(text, result.events), None
        if self._output is not None and text:
            try:
                data = self._output.parse(text)
            except ToolArgumentsError as error:
                return failure(f"The answer of `{self.agent.name}` is not of the form that it promises. {error}")
            data = data if self._output.is_object else {"result": data}
        if self.served.mode == "context":
            plain = text if data is None else data if self._output and self._output.is_object else data["result"]
            data = {"result": plain, "context_id": self.served.context_of(where)}
            blocks = [mcp.TextContent(text=text_of(data)), *(b for b in blocks if not isinstance(b, mcp.TextContent))]
        return mcp.CallToolResult(content=blocks, structured_content=data)


class ToolOffers:
    """Tools as they are: functions, tools, and what toolsets list, which the agent of `served` runs."""

    def __init__(self, served: Served, raw: RawResults) -> None:
        self.served, self._raw = served, raw
        self._outputs: dict[int, tuple[Any, OutputSchema | None]] = {}
        self._seen: dict[str, RunnableTool] = {}
        """The tools of the latest listing. Whether one of them is a caller's, the run finds out that calls it."""
        own = cast(Any, served.runner.agent).own_tools
        self._fixed: Sequence[RunnableTool] | None = None if any(map(is_toolset, own)) else own

    async def tools(self, caller: Caller) -> dict[str, RunnableTool]:
        """The tools of a caller, by name. Raises `MCPError` if a toolset cannot be listed."""
        found = self._fixed
        if found is None:
            runner, where = self.served.runner, self.served.session_of(caller)
            session = Session(id=where.session_id, app_name=runner.app_name, user_id=where.user_id)
            ctx: InvocationContext = runner.make_context(session, None, None, None, None, None)
            try:
                listing = processors.tools(ctx, LlmRequest.empty(None))
                if listing is not None:
                    await listing
            except (ToolsetError, ConfigurationError) as error:
                _log.warning("The tools of `%s` cannot be listed.", runner.agent.name, exc_info=error)
                raise MCPError(INTERNAL_ERROR, f"The tools cannot be listed now ({type(error).__name__}).") from None
            found = ctx.tools or ()
        self._seen = {tool.name: tool for tool in found if _declared(tool) is not None}
        return self._seen

    async def named(self, name: str, caller: Caller) -> RunnableTool | None:
        """The tool called `name`; None if there is none. It is listed again only if it is not known."""
        known = self._seen.get(name)
        return (await self.tools(caller)).get(name) if known is None else known

    async def described(self, caller: Caller) -> list[mcp.Tool]:
        """The tools of a caller, as clients are told of them."""
        return [self._described(tool) for tool in (await self.tools(caller)).values()]

    def _described(self, tool: RunnableTool) -> mcp.Tool:
        declared = cast(types.FunctionDeclaration, _declared(tool))
        schema: Any = declared.parameters_json_schema
        if schema is None and declared.parameters is not None:
            schema = declared.parameters.json_schema.model_dump(mode="json", by_alias=True, exclude_none=True)
        output = self._output_of(tool)
        return mcp.Tool(
            name=tool.name,
            description=declared.description or None,
            input_schema={"type": "object", "properties": {}} if schema is None else {"type": "object", **schema},
            output_schema=None if output is None else arguments_schema(output),
            annotations=_annotations(tool),
        )

    def _output_of(self, tool: RunnableTool) -> OutputSchema | None:
        kept = self._outputs.get(id(tool))
        if kept is None or kept[0] is not tool:
            kept = self._outputs[id(tool)] = tool, _promised(tool)
            while self._fixed is None and len(self._outputs) > 10_000:
                del self._outputs[next(iter(self._outputs))]
        return kept[1]

    async def call(self, tool: RunnableTool, args: dict[str, Any], caller: Caller, request: Request) -> CallResult:
        """Call one of them."""
        config, call_id, message = run_config_of(tool.name, args)
        where = self.served.session_of(caller)
        return await self._made(tool, caller, request, where, call_id).answered(message, config)

    async def resume(
        self,
        tool: RunnableTool,
        state: Mapping[str, Any],
        given: Mapping[str, Any],
        caller: Caller,
        request: Request,
        where: Where,
    ) -> CallResult:
        """Go on with what was asked."""
        return await self._made(tool, caller, request, where, None).resumed(state, given)

    def _made(
        self, tool: RunnableTool, caller: Caller, request: Request, where: Where, call_id: str | None
    ) -> ServedCall:
        async def told(result: RunResult[Any]) -> mcp.CallToolResult:
            given = [answer for event in result.events for answer in event.get_function_responses()]
            answer = next((each for each in reversed(given) if each.name == tool.name), None)
            if answer is None:
                return failure(f"`{tool.name}` gave no result.")
            raw, output = self._raw.pop(answer.id or "", None), self._output_of(tool)
            if output is None and hasattr(tool, "raw_mcp_tool") and isinstance(raw, dict) and set(raw) == {"result"}:  # pyright: ignore[reportUnknownArgumentType]
                raw = cast(Any, raw["result"])  # a server's text, which stands there for a model
            return result_of_tool(answer, raw, output, tool.name)

        followed: bool = getattr(tool, "reports_progress", True)
        return ServedCall(self.served, caller, request, where, told, exact=True, followed=followed)


def _declared(tool: RunnableTool) -> types.FunctionDeclaration | None:
    return tool.__declare__()


def _annotations(tool: Any) -> mcp.ToolAnnotations:
    """What clients are told of a tool's ways: by a server that it comes from, else by its metadata, and whether a
    second call is as good as one."""
    known = getattr(tool, "annotations", None)
    if isinstance(known, mcp.ToolAnnotations):
        return known
    metadata: dict[str, Any] = tool.custom_metadata or {}
    told: dict[str, Any] = {**(metadata.get("annotations") or {}), **metadata}
    idempotent: bool = tool.__options__.idempotent
    hints: dict[str, Any] = {"idempotentHint": idempotent, **({} if idempotent else {"readOnlyHint": False})}
    return mcp.ToolAnnotations.model_validate({**hints, **{name: told[name] for name in _HINTS if name in told}})


def _promised(tool: Any) -> OutputSchema | None:
    """What a tool says that its results are like; None if it says nothing, or gives texts and files."""
    try:
        if isinstance(tool, AgentTool):
            agent = as_llm_agent(tool.agent)
            return None if agent is None or agent.output_schema is None else OutputSchema(agent.output_schema)
        raw = getattr(tool, "raw_mcp_tool", None)
        if raw is not None:
            return OutputSchema(raw.output_schema) if raw.output_schema else None
        declared = _declared(tool)
        if declared is not None and declared.response_json_schema is not None:
            return OutputSchema(declared.response_json_schema)
        return _returned(tool.func) if isinstance(tool, FunctionTool) else None
    except Exception as error:  # whatever describing a stranger's type may raise
        _log.debug("What `%s` returns cannot be described: %s", tool.name, error)
        return None


def _returned(func: Any) -> OutputSchema | None:
    """The data that a function's annotation says it returns."""
    called = func if inspect.isroutine(func) else type(func).__call__
    if inspect.isgeneratorfunction(called) or inspect.isasyncgenfunction(called):
        return None
    hint = get_type_hints(inspect.unwrap(called), include_extras=True).get("return", Any)
    if hint is Any or hint is object or _holds_no_data(hint):
        return None
    return OutputSchema(TypeAdapter[Any](hint).json_schema(mode="serialization", by_alias=False))


def _holds_no_data(hint: Any) -> bool:
    """Whether a type is that of a text or a file, or has one of these among its arguments."""
    if hint in _NO_DATA or hint is None:
        return True
    if inspect.isclass(hint) and issubclass(hint, _NO_DATA):
        return True
    inner: tuple[Any, ...] = getattr(hint, "__args__", ())
    return any(each in (types.Part, types.Blob, types.Content) for each in inner) or (
        bool(inner) and all(_holds_no_data(each) for each in inner)
    )
