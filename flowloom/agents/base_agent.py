"""`BaseAgent`: an agent of any kind (spec §17.1 to §17.5)."""

# no annotations as texts: pydantic would compile each of the fields' by itself

import re
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Generic, Self

from pydantic import Field
from typing_extensions import TypeVar

from flowloom.context import InvocationContext
from flowloom.context.hooks import as_callbacks
from flowloom.errors import AgentNameError, ConfigurationError, DuplicateAgentError, NotSupportedError
from flowloom.events.event import Event
from flowloom.flow import run_agent
from flowloom.flow.turn import BodyTurn, Turn
from flowloom.objects.given import of_kind
from flowloom.objects.settings import Settings, nothing

NAME = re.compile(r"[\w-]+")
"""The names of agents and applications; `user` is none."""
_WITHIN_A_RUN = "`run_async` of an agent takes an `InvocationContext`; to say something to it, use a `Runner`."
_T = TypeVar("_T")
_edits = [0]
"""How often a field of an agent was set: what was derived before is out of date."""

OutputT = TypeVar("OutputT", default=Any)
"""What the structured answer of an agent is: an instance of its `output_schema`."""

AgentCallback = Callable[..., Any]
"""`(callback_context) -> Content | None`, sync or async."""
if TYPE_CHECKING:
    AgentCallbacks = AgentCallback | Sequence[AgentCallback] | None
else:
    AgentCallbacks = AgentCallback | list[AgentCallback] | None


def callbacks_of(field: str) -> property:
    """The callbacks of a field as a list, whether it holds none, one or several."""
    return property(lambda agent: list(as_callbacks(getattr(agent, field))), doc=f"`{field}` as a list.")


if TYPE_CHECKING:

    class TypedByOutput(Settings, Generic[OutputT]):
        """What type checkers know the output of."""

else:

    class TypedByOutput(Settings):
        def __class_getitem__(cls, output):
            return cls


class BaseAgent(TypedByOutput[OutputT]):
    """An agent: a value that says how to behave. Running does not change it.

    The same agent may run in many sessions at once and may appear in several trees. Its place in a tree belongs
    to the run; `parent_agent` gives the first agent that lists it. A custom agent overrides `_run_async_impl`.

    Raises `AgentNameError` for a name that is not of letters, digits, `_` and `-`, or is `user`;
    `DuplicateAgentError` for a sub-agent that is listed twice, or two of one name.
    """

    is_llm_agent: ClassVar[bool] = False
    takes_words: ClassVar[bool] = False
    """Whether the user's words answer what an agent of this kind has asked last, as a function response would."""

    name: str
    description: str = ""
    """What the agent is for, in a sentence: other agents decide by it."""
    if TYPE_CHECKING:  # given as any sequence, read as a list
        sub_agents: "list[BaseAgent]" = Field(init=False)
        _sub_agents: "Sequence[BaseAgent]" = Field(default=(), alias="sub_agents")
    else:
        sub_agents: "list[BaseAgent]" = Field(default_factory=nothing)
    before_agent_callback: AgentCallbacks = None
    after_agent_callback: AgentCallbacks = None

    __slots__ = ("_derived", "_parent")  # beside the fields, because runs read them at every step

    if not TYPE_CHECKING:

        def __init__(self, *given: Any, **fields: Any) -> None:
            object.__setattr__(self, "_derived", dict[Any, tuple[Any, Any]]())
            object.__setattr__(self, "_parent", None)
            super().__init__(*given, **fields)

    def _when_made(self) -> None:
        self._check_name()
        self._adopt_sub_agents()

    def _check_name(self) -> None:
        if self.name == "user":
            raise AgentNameError("An agent cannot be named `user`: that is the author of the user's messages.")
        if not NAME.fullmatch(self.name):
            raise AgentNameError(f"`{self.name}` is no name for an agent: use letters, digits, `_` and `-`.")

    def _adopt_sub_agents(self) -> None:
        seen: dict[str, BaseAgent] = {}
        for child in self.sub_agents:
            twin = seen.get(child.name)
            if twin is not None:
                what = "lists twice its sub-agent" if twin is child else "has two different sub-agents named"
                raise DuplicateAgentError(f"Agent `{self.name}` {what} `{child.name}`. Remove or rename one.")
            seen[child.name] = child
            if not self.is_llm_agent and getattr(child, "mode", None) == "task":
                raise ConfigurationError(
                    f"Agent `{child.name}` is in mode `task`, so it has to be called, but `{self.name}` runs its "
                    f"members itself. Use mode `chat` or `single_turn`."
                )
            if child._parent is None:
                object.__setattr__(child, "_parent", self)

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        if not name.startswith("_"):
            _edits[0] += 1

    def __eq__(self, other: object) -> bool:
        return self is other

    def __hash__(self) -> int:
        return id(self)

    # -- the tree ---------------------------------------------------------------------------------

    @property
    def parent_agent(self) -> "BaseAgent | None":
        """The first agent that lists this one as a sub-agent."""
        return self._parent

    @property
    def root_agent(self) -> "BaseAgent":
        """The agent at the top, following `parent_agent`."""
        agent = self
        while agent.parent_agent is not None:
            agent = agent.parent_agent
        return agent

    def find_agent(self, name: str) -> "BaseAgent | None":
        """This agent or the first one below it of that `name`; None if there is none."""
        return self if self.name == name else self.find_sub_agent(name)

    def find_sub_agent(self, name: str) -> "BaseAgent | None":
        """The first agent named `name` below this one; None if there is none."""
        found = (child.find_agent(name) for child in self.sub_agents)
        return next((agent for agent in found if agent is not None), None)

    def clone(self, update: Mapping[str, Any] | None = None) -> Self:
        """A copy with the fields in `update` changed; the sub-agents are copied too, so that it is a tree of its
        own."""
        values: dict[str, Any] = {name: getattr(self, name) for name in type(self).model_fields}
        values |= {"sub_agents": [child.clone() for child in self.sub_agents], **(update or {})}
        copied: dict[str, Any] = {name: [*held] for name, held in values.items() if isinstance(held, list)}
        return type(self)(**values | copied)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """`clone`, as pydantic calls it."""
        return self.clone(update)

    def __copy__(self, memo: dict[int, Any] | None = None) -> Self:
        return self.clone()

    __deepcopy__ = __copy__

    # -- what runs ask of an agent ------------------------------------------------------------------

    def derive(self, name: Any, make: Callable[..., _T], *on: Any) -> _T:
        """What `make(*on)` computes from agents' fields, kept as `name`; made again when a field of any agent is set,
        or `on` is another.

        Lists may be changed without being set: what depends on one is given its entries, or their ids, in `on`.
        """
        found = self._derived.get(name)
        if found is None or found[0] != _edits[0] or found[1] != on:
            found = self._derived[name] = (_edits[0], on, make(*on))
        return found[2]  # pyright: ignore[reportUnknownVariableType] - a cast would cost a call

    canonical_before_agent_callbacks = callbacks_of("before_agent_callback")
    canonical_after_agent_callbacks = callbacks_of("after_agent_callback")

    def run_async(self, parent_context: InvocationContext) -> AsyncGenerator[Event, None]:
        """Run the agent with its callbacks, and those it hands over to.

        Within a run, the outermost caller stores the events, before they are yielded. Close the generator
        (`aclose`) when you stop early. Raises `InputValidationError` for what is no context of a run.
        """
        ctx = of_kind(InvocationContext, parent_context, _WITHIN_A_RUN)
        if ctx.agent is not self:
            below = any(child is self for child in ctx.agent.sub_agents)
            place = ctx.below(self) if below else ctx.at(self, ctx.lineage)
            # a custom agent runs again from its start; an agent below it resumes where it was, the first time
            place.resumed = ctx.resumed and place.once("resumed")
            ctx = place
        return run_agent(ctx)

    def run_live(self, parent_context: InvocationContext) -> AsyncGenerator[Event, None]:
        """Not supported in this release; raises `NotSupportedError`."""
        raise NotSupportedError("Live (bidirectional) runs are not supported yet. Use `run_async`.")

    def turn(self, ctx: InvocationContext) -> Turn:
        """The agent's turn at the place `ctx` in a run. A class whose agents work in another way overrides it."""
        return BodyTurn(ctx)

    async def _run_async_impl(self, ctx: InvocationContext) -> AsyncGenerator[Event, None]:
        """What the agent does. Override it in a custom agent; yield events, run sub-agents by `run_async(ctx)`."""
        raise NotImplementedError(f"{type(self).__name__} does not say what to do: override `_run_async_impl`.")
        yield  # pyright: ignore[reportUnreachable] - makes this an async generator
