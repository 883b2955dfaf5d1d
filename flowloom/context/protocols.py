"""What the lower rooms need to know of agents, tools, contexts and effects, which live above them.

What agents, tools and effects are given is an `InvocationContext` (`ctx`, `parent_context`) or a `Context` (the rest).
Those stand above this module, too: they are `Any` here, and the classes that implement a protocol name them.
"""

from __future__ import annotations

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Sequence
from typing import Any, ClassVar, Literal, NamedTuple, Protocol, TypeVar

from google.genai import types

from flowloom.context.hooks import FlowCallbacks
from flowloom.context.run_config import Limits
from flowloom.events.clock import now, sleep
from flowloom.events.event import Event
from flowloom.events.ids import new_id
from flowloom.events.response import LlmResponse
from flowloom.log.ledger import Place
from flowloom.models.base_llm import BaseLlm
from flowloom.models.request import LlmRequest

_T = TypeVar("_T")


class CallOptions(NamedTuple):
    """How calls of a tool are made: within how many seconds, how often again, and whether once more is as once."""

    timeout: float | None = None
    retries: int = 0
    idempotent: bool = True


class RunnableTool(Protocol):
    """A tool as the flow uses it; `tools.BaseTool` is the class to derive from."""

    name: str
    description: str
    is_long_running: bool
    defers_response: bool
    __options__: CallOptions

    def __declare__(self) -> types.FunctionDeclaration | None: ...
    async def run_async(self, *, args: dict[str, Any], tool_context: Any) -> Any: ...
    async def process_llm_request(self, *, tool_context: Any, llm_request: LlmRequest) -> None: ...


class AnyAgent(Protocol):
    """An agent of any kind."""

    is_llm_agent: ClassVar[bool]
    name: str
    description: str
    before_agent_callback: Any
    after_agent_callback: Any

    @property
    def sub_agents(self) -> Sequence[AnyAgent]: ...
    def derive(self, name: Any, make: Callable[..., _T], *on: Any) -> _T:
        """What `make(*on)` computes from agents' fields; made again when one is set, or `on` is another."""
        ...

    def run_async(self, parent_context: Any) -> AsyncGenerator[Event, None]: ...
    def _run_async_impl(self, ctx: Any) -> AsyncGenerator[Event, None]:
        """What a custom agent does, without its callbacks."""
        ...

    def turn(self, ctx: Any) -> Any:
        """The agent's `Turn` at a place in a run."""
        ...


class AnyWorkflowAgent(AnyAgent, Protocol):
    """An agent that runs others; `agents.WorkflowAgent` is the class to derive from."""

    contains_escalation: ClassVar[bool]

    def following(self, latest: Any, ctx: Any) -> AnyAgent | Sequence[AnyAgent] | None:
        """The agent that comes after the member whose turn was the latest; several run at once."""
        ...


class AnyFlow(Protocol):
    """A flow as the rooms below it know it, and a turn."""

    @property
    def steps(self) -> tuple[Any, Any]:
        """The processors of the request, and those of the response."""
        ...

    @property
    def callbacks(self) -> FlowCallbacks: ...


class AnyLlmAgent(AnyAgent, Protocol):
    """An agent that works through a flow and a model."""

    instruction: Any
    global_instruction: Any
    static_instruction: Any
    on_missing: Literal["error", "empty", "keep"]
    generate_content_config: types.GenerateContentConfig | None
    mode: Literal["chat", "task", "single_turn"] | None
    disallow_transfer_to_parent: bool
    disallow_transfer_to_peers: bool
    include_contents: Literal["default", "none"]
    input_schema: Any
    output_schema: Any
    output_key: str | None
    output_retries: int
    planner: Any
    code_executor: Any
    limits: Limits | None
    tool_errors: Literal["return", "raise"] | None

    @property
    def tools(self) -> Sequence[Any]: ...
    @property
    def own_tools(self) -> Sequence[Any]:
        """`tools` with plain functions made tools, and the tools that delegation adds; toolsets, too."""
        ...

    @property
    def own_model(self) -> BaseLlm | None:
        """The model set on this agent itself; None if it inherits one."""
        ...

    @property
    def flow(self) -> AnyFlow: ...
    def companion(self, **fields: Any) -> AnyLlmAgent:
        """Another agent, of these fields, for a tool that needs one to do its work."""
        ...


def as_llm_agent(agent: AnyAgent | None) -> AnyLlmAgent | None:
    """The agent, if it works through a flow and a model; else None."""
    return agent if agent is not None and agent.is_llm_agent else None  # pyright: ignore[reportReturnType]


class Effects(Protocol):
    """Everything that a run does to the world: its seam for journals, recordings and fault injection.

    What stands here does the thing itself. `ctx` is the `InvocationContext` of the agent, `context` the `Context` of
    the call. An implementation that needs the effect's key takes `ctx.effect_key(kind)`, once per effect, before it
    awaits anything. The flow itself is deterministic: record and replay, durable runs, fault injection and benchmarks
    without latency are implementations.
    """

    def call_model(self, ctx: Any, model: BaseLlm, request: LlmRequest, stream: bool) -> AsyncIterator[LlmResponse]:
        """Ask the `model`; with `stream`, its partial responses come before the complete one. Raises what the model
        raises.

        `ctx` is the `InvocationContext` of the agent that asks, `request` what the model is given.
        """
        return model.generate_content_async(request, stream)

    async def call_tool(self, ctx: Any, tool: RunnableTool, args: dict[str, Any], context: Any) -> Any:
        """Run the `tool` with `args`, in its thread if it blocks. Raises what the tool raises.

        `ctx` is the `InvocationContext` of the agent that calls; `context` is that of the call, and
        `context.call_index` its position among the step's calls.
        """
        return await tool.run_async(args=args, tool_context=context)

    def now(self, ctx: Any) -> float:
        """The time, in seconds since the epoch. `ctx` is the `InvocationContext` of the agent that asks."""
        return now()

    def new_id(self, ctx: Any) -> str:
        """An id that nothing else has. `ctx` is the `InvocationContext` of the agent that asks."""
        return new_id()

    async def sleep(self, ctx: Any, seconds: float) -> None:
        """Wait for so many `seconds`. `ctx` is the `InvocationContext` of the agent that waits."""
        await sleep(seconds)


class AnyContext(Protocol):
    """An agent's place in a run; `InvocationContext` is the class."""

    agent: AnyAgent
    llm_agent: AnyLlmAgent | None
    branch: str | None
    isolation_scope: str | None

    @property
    def effects(self) -> Effects: ...
    @property
    def place(self) -> Place: ...
    def new_event(self, values: dict[str, Any]) -> Event: ...
