"""What the lower rooms need to know of agents and tools, which live above them."""

from __future__ import annotations

from collections.abc import AsyncGenerator, Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol, TypeVar

from google.genai import types

from flowloom.context.hooks import Callbacks, FlowCallbacks
from flowloom.events.event import Event
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest

if TYPE_CHECKING:
    from flowloom.context.context import Context, ReadonlyContext
    from flowloom.context.invocation import InvocationContext
    from flowloom.context.run_config import Limits


_T = TypeVar("_T")


class RunnableTool(Protocol):
    """A tool as the flow uses it; `tools.BaseTool` is the class to derive from."""

    name: str
    description: str
    is_long_running: bool
    defers_response: bool
    timeout: float | None
    retries: int
    idempotent: bool

    @property
    def declaration(self) -> types.FunctionDeclaration | None: ...
    async def run_async(self, *, args: dict[str, Any], tool_context: Context) -> Any: ...
    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None: ...


class RunnableToolset(Protocol):
    """A toolset as the flow uses it; `tools.BaseToolset` is the class to derive from."""

    async def get_tools_with_prefix(
        self, readonly_context: ReadonlyContext | None = None
    ) -> Sequence[RunnableTool]: ...
    async def process_llm_request(self, *, tool_context: Context, llm_request: LlmRequest) -> None: ...


class Planner(Protocol):
    """Lets a model plan before it acts; `planners.BasePlanner` is the class to derive from."""

    def build_planning_instruction(self, readonly_context: ReadonlyContext, llm_request: LlmRequest) -> str | None: ...
    def process_planning_response(
        self, callback_context: Context, response_parts: list[types.Part]
    ) -> list[types.Part] | None: ...


class AnyAgent(Protocol):
    """An agent of any kind."""

    is_llm_agent: ClassVar[bool]

    @property
    def name(self) -> str: ...
    @property
    def description(self) -> str: ...
    @property
    def sub_agents(self) -> Sequence[AnyAgent]: ...
    @property
    def before_agent_callbacks(self) -> Callbacks: ...
    @property
    def after_agent_callbacks(self) -> Callbacks: ...
    def derive(self, name: Any, make: Callable[[], _T], *on: Any) -> _T:
        """What `make` computes from agents' fields; made again when one is set, or `on` is another."""
        ...

    def run_async(self, parent_context: InvocationContext) -> AsyncGenerator[Event, None]: ...
    def run_body(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """The agent's own work, without its callbacks."""
        ...


class AnyFlow(Protocol):
    """A flow as the rooms below it know it."""

    @property
    def callbacks(self) -> FlowCallbacks: ...


class AnyLlmAgent(AnyAgent, Protocol):
    """An agent that works through a flow and a model."""

    @property
    def flow(self) -> AnyFlow: ...
    @property
    def model(self) -> str | BaseLlm: ...
    @property
    def own_model(self) -> BaseLlm | None:
        """The model set on this agent itself; None if it inherits one."""
        ...

    @property
    def instruction(self) -> Any: ...
    @property
    def global_instruction(self) -> Any: ...
    @property
    def static_instruction(self) -> Any: ...
    @property
    def on_missing(self) -> Literal["error", "empty", "keep"]: ...
    @property
    def tools(self) -> Sequence[Any]: ...
    @property
    def own_tools(self) -> Sequence[RunnableTool | RunnableToolset]:
        """`tools` with plain functions made tools, and the tools that delegation adds."""
        ...

    @property
    def generate_content_config(self) -> types.GenerateContentConfig | None: ...
    @property
    def mode(self) -> Literal["chat", "task", "single_turn"] | None: ...
    @property
    def disallow_transfer_to_parent(self) -> bool: ...
    @property
    def disallow_transfer_to_peers(self) -> bool: ...
    @property
    def include_contents(self) -> Literal["default", "none"]: ...
    @property
    def input_schema(self) -> Any: ...
    @property
    def output_schema(self) -> Any: ...
    @property
    def output_key(self) -> str | None: ...
    @property
    def output_retries(self) -> int: ...
    @property
    def planner(self) -> Any: ...
    @property
    def code_executor(self) -> Any: ...
    @property
    def limits(self) -> Limits | None: ...
    @property
    def tool_errors(self) -> Literal["return", "raise"] | None: ...


def as_llm_agent(agent: AnyAgent | None) -> AnyLlmAgent | None:
    """The agent, if it works through a flow and a model; else None."""
    return agent if agent is not None and agent.is_llm_agent else None  # pyright: ignore[reportReturnType]
