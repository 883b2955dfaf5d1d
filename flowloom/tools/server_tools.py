"""Tools that the provider of the model runs: search, pages, code, files, remote MCP servers (protocols spec §8).

A server tool is no function: it has no declaration, and nothing calls it here. It stands in the request, the model's
adapter writes it as its provider has it, and what comes of it is in the answer.
"""

from __future__ import annotations

from collections.abc import Callable
from difflib import get_close_matches
from typing import Any

from google.genai import types

from flowloom.context import Context
from flowloom.context.protocols import AnyAgent, AnyLlmAgent
from flowloom.errors import (
    ConfigurationError,
    ConfirmationRejectedError,
    ConfirmationRequiredError,
    quoted_list,
)
from flowloom.events.wire import fields_of
from flowloom.models.request import LlmRequest
from flowloom.models.server_tools import KIND_OF, asked_of, functions_in
from flowloom.tools.agent_tool import AgentTool
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.function_tool import FunctionTool

KINDS = (
    "web_search",
    "web_fetch",
    "code_execution",
    "file_search",
    "image_generation",
    "remote_mcp",
    "google_maps",
    "enterprise_web_search",
)
"""The kinds of tools that providers have; which one has which is in [server tools](server_tools.md)."""
_SEARCH_AGENT = (
    "You search the web. Answer the request that you are given from what Google Search finds, and say no more than "
    "that. Call no functions."
)


class ServerTool(BaseTool):
    """A tool that the provider of the model runs, in the words of no provider in particular.

    `kind` is one of `KINDS`; `options` set it up, such as `allowed_domains=`, `max_uses=` or `vector_store_ids=`. A
    model whose provider does not have the tool, or not that option of it, raises `UnsupportedFeatureError` before
    anything is sent. `raw` is sent in its place, as it is, for tools that are newer than this library; `kind` is then
    any word for it. `name` tells two tools of one kind apart; by default it is the kind. A remote MCP server goes by
    its `server_label`; where it asks for a person's approval (`require_approval`), the run waits for a confirmation.

    Raises `ConfigurationError` for a kind that is not known. Section 8 of the protocols specification.
    """

    def __init__(
        self, kind: str | None = None, *, raw: dict[str, Any] | None = None, name: str | None = None, **options: Any
    ) -> None:
        if raw is not None and options:
            raise ConfigurationError(f"A server tool has `raw` or options, not both: {quoted_list(options)}.")
        kind = KIND_OF.get(kind or "", kind) or str((raw or {}).get("type") or "")
        if raw is None and kind not in KINDS:
            near = get_close_matches(kind, KINDS, n=1)
            meant = f" Did you mean `{near[0]}`?" if near else ""
            raise ConfigurationError(
                f"`{kind}` is no kind of server tool; there are {quoted_list(KINDS)}.{meant} What is newer than these "
                f"is given as the provider has it: `ServerTool(raw={{...}})`."
            )
        super().__init__(
            name=options.get("server_label") or name or kind or "server_tool",
            description=f"`{kind}`, run by the provider of the model",
        )
        self.kind = kind
        self.options = options
        self.raw = raw

    def put_into(self, request: LlmRequest) -> None:
        """Ask for the tool in a `request`."""
        use: dict[str, Any] = {"kind": self.kind, "options": self.options}
        request.server_tools = [*(request.server_tools or ()), use if self.raw is None else {**use, "raw": self.raw}]

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        self.put_into(llm_request)
        if self.kind == "remote_mcp":
            llm_request.append_tools([self])  # not declared: the provider calls it for approval

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Have a person decide about a call of a remote MCP server's tool; the provider makes it then.

        `args` are the `tool` and its `arguments`. Raises what a function raises that needs confirmation.
        """
        if self.kind != "remote_mcp":
            return await super().run_async(args=args, tool_context=tool_context)
        decision = tool_context.tool_confirmation
        if decision is None:
            asked = (
                f"The MCP server `{self.name}` is to run `{args.get('tool')}`. Answer with `confirmed` true or false."
            )
            tool_context.request_confirmation(hint=asked)
            raise ConfirmationRequiredError(f"The call of `{args.get('tool')}` waits for a person's approval.")
        if not decision.confirmed:
            raise ConfirmationRejectedError(f"A person rejected the call of `{args.get('tool')}`.")
        return {"approved": True}

    def native_or(self, tool: Callable[..., Any] | BaseTool) -> NativeOrTool:
        """This tool where the model has it, and the function `tool` where it has not, or not beside other functions."""
        return NativeOrTool(self, tool if isinstance(tool, BaseTool) else FunctionTool(tool))

    def refusal(self, tool_context: Context, request: LlmRequest) -> str | None:
        """Why the model that is about to be asked with `request` cannot run the tool; None if it can."""
        ctx = tool_context.invocation_context
        beside = [tool.name for tool in ctx.tools or () if not isinstance(tool, ServerTool | NativeOrTool)]
        functions = list(dict.fromkeys([*functions_in(request), *beside]))
        alone = LlmRequest.empty(None)
        self.put_into(alone)
        if ctx.model is None:
            return None
        refusals = (ctx.model.server_tool_refusal(each, functions, request.model) for each in asked_of(alone))
        return next(filter(None, refusals), None)


class NativeOrTool(BaseTool):
    """A server tool where the model has it, else a function in its place; see `ServerTool.native_or`.

    `native` is the server tool, `function` what takes its place, under whose name both go.
    """

    def __init__(self, native: ServerTool, function: BaseTool) -> None:
        options = function.__options__
        super().__init__(
            name=function.name,
            description=function.description,
            is_long_running=function.is_long_running,
            timeout=options.timeout,
            retries=options.retries,
            idempotent=options.idempotent,
        )
        self.native = native
        self.function = function
        self.defers_response = function.defers_response

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        chosen = self.function if self.native.refusal(tool_context, llm_request) else self.native
        await chosen.process_llm_request(tool_context=tool_context, llm_request=llm_request)

    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any:
        """Call the function."""
        return await self.function.run_async(args=args, tool_context=tool_context)


class GoogleTool(ServerTool):
    """A server tool as google-genai writes it: `tool` is put into the request's config, where callbacks see it.

    An agent takes a `types.Tool` as it is, and makes this of it. Other providers than Google are given their own tool
    of the same kind. Raises `ConfigurationError` for one that declares functions, which have no code.
    """

    def __init__(self, tool: types.Tool, *, name: str | None = None) -> None:
        given = [field for field, value in fields_of(tool).items() if value is not None]
        if not given or "function_declarations" in given:
            raise ConfigurationError(
                "A `types.Tool` among an agent's tools is one that the model's provider runs, such as "
                "`types.Tool(google_search=types.GoogleSearch())`. Give functions as Python functions."
            )
        super().__init__(raw={}, name=name or "_and_".join(given))
        self.raw = None
        self.kind = KIND_OF.get(given[0], given[0])
        self.tool = tool

    def put_into(self, request: LlmRequest) -> None:
        known: list[Any] = [*(request.config.tools or ())]  # pyright: ignore[reportUnknownMemberType, reportUnknownArgumentType]
        if self.tool not in known:
            request.config.tools = [*known, self.tool]


class GoogleSearchTool(GoogleTool):
    """Google Search, which the model uses by itself; on other providers their own web search.

    `model` is asked in place of the agent's while the tool is there. With `bypass_multi_tools_limit`, a model that
    cannot search beside functions is given an agent that does nothing but search, as a function.
    """

    def __init__(self, *, bypass_multi_tools_limit: bool = False, model: str | None = None) -> None:
        super().__init__(types.Tool(google_search=types.GoogleSearch()))
        self.bypass_multi_tools_limit = bypass_multi_tools_limit
        self.model = model

    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None:
        agent = tool_context.invocation_context.llm_agent
        if self.bypass_multi_tools_limit and agent is not None and self.refusal(tool_context, llm_request) is not None:
            model = self.model or tool_context.invocation_context.model
            llm_request.append_tools([agent.derive("google_search_agent", _search_agent, agent, model)])
            return
        if self.model is not None:
            llm_request.model = self.model
        self.put_into(llm_request)


def _search_agent(agent: AnyLlmAgent, model: Any) -> GoogleSearchAgentTool:
    return GoogleSearchAgentTool(
        agent.companion(
            name="google_search_agent",
            model=model,
            description="Searches the web with Google Search, and answers from what it finds.",
            instruction=_SEARCH_AGENT,
            tools=[google_search],
        )
    )


class GoogleSearchAgentTool(AgentTool):
    """An `agent` that does nothing but search, as a function: for models that cannot search beside functions.

    The grounding of its answer is left in the state, under `temp:grounding_metadata`.
    """

    def __init__(self, agent: AnyAgent) -> None:
        super().__init__(agent, propagate_grounding_metadata=True)


class UrlContextTool(GoogleTool):
    """Pages that the user or the model names, which the model reads by itself."""

    def __init__(self) -> None:
        super().__init__(types.Tool(url_context=types.UrlContext()))


class EnterpriseWebSearchTool(GoogleTool):
    """Google's search for enterprises, on Vertex AI."""

    def __init__(self) -> None:
        super().__init__(types.Tool(enterprise_web_search=types.EnterpriseWebSearch()))


class GoogleMapsGroundingTool(GoogleTool):
    """Google Maps, which the model uses by itself."""

    def __init__(self) -> None:
        super().__init__(types.Tool(google_maps=types.GoogleMaps()))


google_search = GoogleSearchTool()
url_context = UrlContextTool()
code_execution = ServerTool("code_execution")
enterprise_web_search = EnterpriseWebSearchTool()
google_maps_grounding = GoogleMapsGroundingTool()
