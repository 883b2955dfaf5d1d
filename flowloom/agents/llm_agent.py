"""`LlmAgent`: an agent that works through a flow and a model (spec §17.8)."""

# no annotations as texts: pydantic would compile each of the fields' by itself

from collections.abc import AsyncGenerator, Callable, Sequence
from inspect import isawaitable
from types import UnionType
from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Literal

from google.genai import types
from pydantic import BaseModel, Field, PrivateAttr

from flowloom import tools as tool_kinds
from flowloom.agents.base_agent import AgentCallbacks, BaseAgent, OutputT, callbacks_of
from flowloom.context import InvocationContext, Limits, ReadonlyContext
from flowloom.context.hooks import FlowCallbacks, as_callbacks
from flowloom.context.protocols import RunnableTool
from flowloom.errors import ConfigurationError, DuplicateToolError, ModelNotConfiguredError
from flowloom.events.event import Event
from flowloom.flow import Flow
from flowloom.flow.delegation import delegates_of
from flowloom.flow.llm_turn import LlmTurn
from flowloom.flow.turn import BodyTurn, Turn
from flowloom.models.base_llm import BaseLlm
from flowloom.models.registry import LLMRegistry
from flowloom.models.request import check_name
from flowloom.objects.settings import ReadBy, check_kinds, class_on_use, nothing
from flowloom.processors import Template
from flowloom.processors.output_schema import schema_of
from flowloom.processors.template import BraceTemplate
from flowloom.processors.tools import OwnTools, is_toolset
from flowloom.tools.agent_tool import AgentTool
from flowloom.tools.base_tool import BaseTool
from flowloom.tools.base_toolset import BaseToolset
from flowloom.tools.delegation import DelegateTool, FinishTaskTool

if TYPE_CHECKING:
    from flowloom.processors.code_executors import BaseCodeExecutor
    from flowloom.processors.planners import BasePlanner
else:
    BaseCodeExecutor = class_on_use("flowloom.processors.code_executors", "BaseCodeExecutor")
    BasePlanner = class_on_use("flowloom.processors.planners", "BasePlanner")

InstructionProvider = Callable[[ReadonlyContext], Any]
"""Gives an instruction from a read-only context; sync or async; what it returns is used verbatim."""

Tool = Annotated[Callable[..., Any] | BaseTool | BaseToolset | BaseAgent | types.Tool, ReadBy()]
"""What an agent can be given as a tool; looked at when the tools are made, with words of our own."""


def _made(kind: type[BaseModel]) -> ReadBy:
    """Values of a kind, or what makes one, or None."""
    return ReadBy(lambda it: it if isinstance(it, kind | None) else kind.model_validate(it, from_attributes=False))


_DEFAULT_FLOW = Flow()
_OWN_FIELDS_OF_CONFIG = {
    "system_instruction": "`instruction`",
    "tools": "`tools`",
    "response_schema": "`output_schema`",
    "response_json_schema": "`output_schema`",
}


class LlmAgent(BaseAgent[OutputT]):
    """An agent that a model speaks for.

    `model` is a model's name, or a `BaseLlm`; without one it is that of the nearest agent above. `instruction` may
    be a text in the brace dialect, a `Template`, or a provider. `tools` takes functions, tools and toolsets,
    and `types.Tool`s that the model's provider runs.
    `sub_agents` are transfer targets; those in mode `task` or `single_turn` are called like functions.
    `output_key` names the state key that takes the final answer, as JSON data if there is an `output_schema`. An answer
    that does not fit the schema goes back to the model, `output_retries` times; then the run ends with a
    `ModelResponseError`.
    `flow` replaces the default flow; the agent's callbacks are added to those of the flow.

    Raises, when it is built, `ModelNotFoundError`, `ToolSignatureError`, `DuplicateToolError` and other
    `ConfigurationError`s for what cannot run.
    """

    is_llm_agent: ClassVar[bool] = True
    DEFAULT_MODEL: ClassVar[str | BaseLlm | None] = None

    model: str | BaseLlm = ""
    """The model, or its name as `LLMRegistry` knows it; by default that of the nearest agent above."""
    instruction: str | Template | InstructionProvider = ""
    """What the agent is to do; placeholders are filled in from the state, before each model call."""
    global_instruction: str | Template | InstructionProvider = ""
    """What all agents of the tree are told; that of the root counts."""
    static_instruction: Any | None = None
    """A system instruction that never changes; `instruction` then stands with the contents, so that providers can
    cache what comes before it."""
    on_missing: Literal["error", "empty", "keep"] = "error"
    """What an instruction does with a variable that is not there."""
    if TYPE_CHECKING:  # given as any sequence, read as a list
        tools: list[Tool] = Field(init=False)
        _tools: Sequence[Tool] = Field(default=(), alias="tools")
    else:
        tools: list[Tool] = Field(default_factory=nothing)
        """Functions, tools, toolsets, agents that are called like functions, and `types.Tool`s of the provider."""
    generate_content_config: Annotated[types.GenerateContentConfig | None, _made(types.GenerateContentConfig)] = None
    """Settings of the model's calls; those that an agent has fields for are refused."""
    mode: Literal["chat", "task", "single_turn"] | None = None
    """How the agent above delegates: it hands over (`chat`, None), or calls this one like a function, which then may
    talk with the user (`task`) or answers at once (`single_turn`)."""
    disallow_transfer_to_parent: bool = False
    """Whether the agent may not hand over to the one above it."""
    disallow_transfer_to_peers: bool = False
    """Whether the agent may not hand over to its siblings."""
    include_contents: Literal["default", "none"] = "default"
    """Whether the agent sees the conversation, or its current turn only (`none`)."""
    input_schema: Annotated[type | dict[str, Any] | types.Schema | UnionType | None, ReadBy()] = None
    output_schema: Annotated[type[OutputT] | dict[str, Any] | types.Schema | UnionType | None, ReadBy()] = None
    output_key: str | None = None
    """The state key that takes the final answer."""
    output_retries: int = Field(default=2, ge=0)
    """How often the model is asked again, in one turn, for an answer that fits `output_schema`."""
    planner: BasePlanner | None = None
    """Has the model plan before it acts."""
    code_executor: BaseCodeExecutor | None = None
    """Runs the code that the model writes."""
    tool_errors: Literal["return", "raise"] | None = None
    """Whether a tool that raises gives the model an error result or ends the run; by default as the run says."""
    limits: Annotated[Limits | None, _made(Limits)] = None
    """What this agent may use in one run."""
    before_model_callback: AgentCallbacks = None
    """Called by `callback_context` and `llm_request`; a response takes the call's place."""
    after_model_callback: AgentCallbacks = None
    """Called by `callback_context` and `llm_response`, for partial ones too; another response takes its place."""
    on_model_error_callback: AgentCallbacks = None
    """Called by `callback_context`, `llm_request` and `error`; a response takes the error's place."""
    before_tool_callback: AgentCallbacks = None
    """Called by `tool`, `args` (which may be changed) and `tool_context`; a dict takes the tool's place."""
    after_tool_callback: AgentCallbacks = None
    """Called by `tool`, `args`, `tool_context` and `tool_response`; a dict takes the result's place."""
    on_tool_error_callback: AgentCallbacks = None
    """Called by `tool`, `args`, `tool_context` and `error`; a dict takes the error's place."""
    around_model: AgentCallbacks = None
    """Wraps each model call: called by `call_next`, `callback_context` and `llm_request`, the first outermost."""
    around_tool: AgentCallbacks = None
    """Wraps each tool call: called by `call_next`, `tool`, `args` and `tool_context`, the first outermost."""

    if TYPE_CHECKING:
        _given_flow: Flow | None = Field(default=None, alias="flow")
    else:
        _given_flow: Flow | None = PrivateAttr(default=None)

        def __init__(self, *, flow: Flow | None = None, **fields: Any) -> None:
            super().__init__(**fields)
            check_kinds(flow=(flow, Flow))
            self._given_flow = flow

    def _when_made(self) -> None:
        super()._when_made()
        self._check_config()
        for text, kind in ((self.instruction, ""), (self.global_instruction, "global ")):
            if isinstance(text, str) and "{" in text:
                self.derive(f"{kind}instruction", BraceTemplate, text)  # as it is asked for when a request is built
        if isinstance(self.model, str) and self.model:
            _ = self.own_model
        if self.output_schema is not None:
            schema_of(self)
        _ = self.own_tools

    def _check_config(self) -> None:
        config = self.generate_content_config
        for name, instead in _OWN_FIELDS_OF_CONFIG.items():
            if config is not None and getattr(config, name) is not None:
                raise ConfigurationError(
                    f"Agent `{self.name}` sets `{name}` in `generate_content_config`. Use the agent's {instead}."
                )

    # -- what runs ask of an agent ------------------------------------------------------------------

    @property
    def flow(self) -> Flow:
        """The flow in use: the given or the default one, with the agent's callbacks."""
        return self.derive("flow", lambda: (self._given_flow or _DEFAULT_FLOW).with_callbacks(self._own_callbacks()))

    def turn(self, ctx: InvocationContext) -> Turn:
        own_body = type(self)._run_async_impl is not LlmAgent._run_async_impl
        return BodyTurn(ctx) if own_body else LlmTurn(ctx, self.flow)

    def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        return self.flow.run(ctx)

    def _own_callbacks(self) -> FlowCallbacks:
        given = {hook: hook if hook.startswith("around_") else f"{hook}_callback" for hook in FlowCallbacks._fields}
        return FlowCallbacks(**{hook: as_callbacks(getattr(self, field)) for hook, field in given.items()})

    @classmethod
    def set_default_model(cls, model: str | BaseLlm | None) -> None:
        """The model of agents that have none and are below none that has one. None: they cannot run."""
        cls.DEFAULT_MODEL = model

    @property
    def own_model(self) -> BaseLlm | None:
        """The model set on this agent itself, or the default model if it is on top; None if it inherits one."""
        chosen = self.model
        if not chosen:
            if self.DEFAULT_MODEL is None or self.parent_agent is not None:
                return None
            chosen = self.DEFAULT_MODEL
        if isinstance(chosen, BaseLlm):
            return chosen
        return self.derive("model", LLMRegistry.new_llm, chosen)

    @property
    def canonical_model(self) -> BaseLlm:
        """The model that answers for this agent, below `parent_agent`. Raises `ModelNotConfiguredError`."""
        agent: BaseAgent | None = self
        while agent is not None:
            model = agent.own_model if isinstance(agent, LlmAgent) else None
            if model is not None:
                return model
            agent = agent.parent_agent
        raise ModelNotConfiguredError(f"Agent `{self.name}` has no model, and no agent above it has one.")

    def companion(self, **fields: Any) -> "LlmAgent[Any]":
        """Another agent, of these `fields`, for a tool of this one that needs an agent to do its work."""
        return LlmAgent(**fields)

    @property
    def own_tools(self) -> OwnTools:
        """`tools` with functions made tools, and the tools that delegation adds. Made again when they change."""
        return self.derive("tools", self._make_tools, *map(id, self.tools), *map(id, self.sub_agents))

    def _make_tools(self, *_: int) -> OwnTools:  # the ids say when, a tool may have an `__eq__` of its own
        made = OwnTools(self._as_tool(tool) for tool in self.tools)
        made.extend(DelegateTool(child) for child in delegates_of(self).values())
        if self.mode == "task":
            made.append(FinishTaskTool(self.output_schema, self.output_key))
        seen: dict[str, Any] = {}
        for tool in made:
            if is_toolset(tool):
                continue
            check_name(tool)
            twin = seen.setdefault(tool.name, tool)
            if twin is not tool:
                raise DuplicateToolError(
                    f"Agent `{self.name}` has two tools named `{tool.name}`: {twin!r} and {tool!r}. Rename one."
                )
        return made

    def _as_tool(self, tool: Any) -> Any:
        if isinstance(tool, BaseTool | BaseToolset):
            return tool
        if isinstance(tool, BaseAgent):
            return AgentTool(tool)  # pyright: ignore[reportUnknownArgumentType]
        if isinstance(tool, types.Tool):
            return tool_kinds.GoogleTool(tool)
        if callable(tool) and not (isinstance(tool, type) and issubclass(tool, BaseTool | BaseToolset | BaseAgent)):
            return tool_kinds.FunctionTool(tool)  # pyright: ignore[reportUnknownArgumentType]
        raise ConfigurationError(
            f"Agent `{self.name}` has {tool!r} among its tools. A tool is a function, or an object: a `BaseTool`, a "
            f"`BaseToolset` or an agent."
        )

    # -- what it was given in one form each, by google-adk's names (spec A2); the engine does not ask for it ---------

    canonical_before_model_callbacks = callbacks_of("before_model_callback")
    canonical_after_model_callbacks = callbacks_of("after_model_callback")
    canonical_on_model_error_callbacks = callbacks_of("on_model_error_callback")
    canonical_before_tool_callbacks = callbacks_of("before_tool_callback")
    canonical_after_tool_callbacks = callbacks_of("after_tool_callback")
    canonical_on_tool_error_callbacks = callbacks_of("on_tool_error_callback")

    async def canonical_model_async(self) -> BaseLlm:
        """`canonical_model`. Raises `ModelNotConfiguredError`."""
        return self.canonical_model

    async def canonical_instruction(self, ctx: ReadonlyContext) -> tuple[str, bool]:
        """`instruction` as written, or as its provider gives it; and whether no placeholder in it is filled in."""
        return await _text_of(self.instruction, ctx)

    async def canonical_global_instruction(self, ctx: ReadonlyContext) -> tuple[str, bool]:
        """`global_instruction`, as `canonical_instruction` gives the other."""
        return await _text_of(self.global_instruction, ctx)

    async def canonical_tools(self, ctx: ReadonlyContext | None = None) -> list[RunnableTool]:
        """`own_tools` with each toolset listed: filtered, and with its prefix.

        `ctx` is what toolsets are asked with; None outside of runs.
        """
        own: Sequence[Any] = self.own_tools
        listed = [await each.get_tools_with_prefix(ctx) if is_toolset(each) else (each,) for each in own]
        return [tool for tools in listed for tool in tools]


Agent = LlmAgent


async def _text_of(instruction: Any, ctx: ReadonlyContext) -> tuple[str, bool]:
    if isinstance(instruction, str | Template):
        return (instruction if isinstance(instruction, str) else instruction.source), False
    given = instruction(ctx)
    return str((await given if isawaitable(given) else given) or ""), True
