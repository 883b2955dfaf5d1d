"""What a run has used, and the limits that this is held against (decision 23)."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from google.genai import types

from flowloom.context.protocols import AnyContext, AnyLlmAgent
from flowloom.context.run_config import NO_LIMITS, Limits, RunConfig
from flowloom.errors import LimitExceededError, LlmCallsLimitExceededError
from flowloom.objects.notebook import count

new_dict: Any = dict
"""A factory for fields, called as it is: `dict[str, int]()` takes ten times as long."""


@dataclass(slots=True)
class Usage:
    """Tokens of all model calls of a run, sub-agents and agent tools included."""

    input_tokens: int = 0
    """What the models were sent."""
    output_tokens: int = 0
    """What the models have answered, thoughts included."""
    cached_tokens: int = 0
    """How much of the input came from a provider's cache."""
    reasoning_tokens: int = 0
    """How much of the output is thoughts."""
    tool_tokens: int = 0
    """Results of tools that the provider itself has run."""
    total_tokens: int = 0
    """All together, as the providers count."""
    searches: int = 0
    """How often tools that the provider itself has run searched."""

    def add(self, usage: types.GenerateContentResponseUsageMetadata, searches: int = 0) -> None:
        """Count `usage`, the tokens of one response, and its `searches`. Reasoning is part of the output, cached tokens
        are part of the input.
        """
        self.searches += searches
        reasoning = usage.thoughts_token_count or 0
        self.input_tokens += usage.prompt_token_count or 0
        self.output_tokens += (usage.candidates_token_count or 0) + reasoning
        self.cached_tokens += usage.cached_content_token_count or 0
        self.reasoning_tokens += reasoning
        self.tool_tokens += usage.tool_use_prompt_token_count or 0
        self.total_tokens += usage.total_token_count or (
            (usage.prompt_token_count or 0) + (usage.candidates_token_count or 0) + reasoning
        )


@dataclass(slots=True, eq=False, repr=False)
class Used:
    """What was used of one set of limits: of a run's, or of those of one agent in it."""

    model_calls: int = 0
    tool_calls: int = 0
    usage: Usage = field(default_factory=Usage)
    tools: dict[str, int] = field(default_factory=new_dict)
    """How often each tool was called, where limits are held against that."""
    started: float | None = None
    """When it began, in epoch seconds, once that was asked for."""


Budget = tuple[Limits, Used, str | None]
"""Limits, what was used of them, and whose they are: an agent's, or with None the run's."""


class Totals(Used):
    """What a run has used so far. Agent tools count into the totals of the run that called them."""

    __slots__ = ("_agents", "config", "reached")

    def __init__(self, config: RunConfig) -> None:
        super().__init__()
        self.config = config
        self._agents: defaultdict[str, Used] = defaultdict(Used)
        self.reached: LimitExceededError | None = None
        """The latest limit that was reached: an agent as a tool may meet one that ends the whole run."""

    def count_model_call(self, ctx: AnyContext) -> None:
        """Count a model call that is about to be made. Raises `LimitExceededError` when a limit forbids it."""
        config, agent = self.config, ctx.llm_agent
        if 0 < config.max_llm_calls <= self.model_calls:
            raise self._reached(config.limits, "max_llm_calls", config.max_llm_calls, self.model_calls)
        if config.limits is NO_LIMITS and (agent is None or agent.limits is None):
            self.model_calls += 1
            return
        budgets = self._budgets(agent)
        for limits, used, name in budgets:
            self._check(limits, "model_calls", limits.model_calls, used.model_calls, name)
            self._check(limits, "total_tokens", limits.total_tokens, used.usage.total_tokens, name)
            self._check_time(limits, used, name, ctx)
        for _, used, _ in budgets:
            used.model_calls += 1

    def count_tokens(
        self,
        usage: types.GenerateContentResponseUsageMetadata,
        agent: AnyLlmAgent | None = None,
        searches: int = 0,
    ) -> None:
        """Count the tokens of one response, and the searches that its provider made for it."""
        self.usage.add(usage, searches)
        if agent is not None and limits_of(agent, self.config.limits) is not None:
            self._agents[agent.name].usage.add(usage, searches)

    def count_tool_calls(self, names: Sequence[str], ctx: AnyContext) -> list[str | None]:
        """Count tool calls that are about to be made. Raises `LimitExceededError` when a limit forbids them.

        For each call: None, or why it must not be made because its tool was called as often as it may be.
        """
        agent = ctx.llm_agent
        if self.config.limits is NO_LIMITS and (agent is None or agent.limits is None):
            self.tool_calls += len(names)
            return [None] * len(names)
        budgets = self._budgets(agent)
        refused: list[str | None] = []
        wanted = Counter[str]()
        for name in names:
            refused.append(_refusal(name, wanted[name], budgets))
            wanted[name] += refused[-1] is None
        count = refused.count(None)
        for limits, used, whose in budgets:
            if limits.tool_calls is not None and used.tool_calls + count > limits.tool_calls:
                raise self._reached(limits, "tool_calls", limits.tool_calls, used.tool_calls, whose, wanted=count)
            self._check_time(limits, used, whose, ctx)
        for _, used, _ in budgets:
            used.tool_calls += count
            used.tools |= {name: used.tools.get(name, 0) + calls for name, calls in wanted.items() if calls}
        return refused

    def _budgets(self, agent: AnyLlmAgent | None) -> list[Budget]:
        """The limits that an agent is held to: the run's, and its own if it has some."""
        limits = self.config.limits
        budgets: list[Budget] = [(limits, self, None)]
        if agent is not None and (own := limits_of(agent, limits)) is not None:
            budgets.append((own, self._agents[agent.name], agent.name))
        return budgets

    def _check_time(self, limits: Limits, used: Used, agent: str | None, ctx: AnyContext) -> None:
        if limits.seconds is not None:
            now = ctx.effects.now(ctx)
            used.started = now if used.started is None else used.started
            self._check(limits, "seconds", limits.seconds, max(now - used.started, 0.0), agent)

    def _check(self, limits: Limits, name: str, allowed: float | None, used: float, agent: str | None) -> None:
        if allowed is not None and used >= allowed:
            raise self._reached(limits, name, allowed, used, agent)

    def _reached(
        self, limits: Limits, name: str, allowed: float, used: float, agent: str | None = None, *, wanted: int = 0
    ) -> LimitExceededError:
        owner = "The run" if agent is None else f"Agent `{agent}`"
        text = (
            f"{owner} reached its limit `{name}`: {used:g} used of {allowed:g}. Its history is kept; raise the limit "
            f"or send a new message to go on."
        )
        if wanted:
            text += f" The model asked for {wanted} more."
        kind = LlmCallsLimitExceededError if name in ("model_calls", "max_llm_calls") else LimitExceededError
        self.reached = kind(text, limit=name, allowed=allowed, used=used, agent=agent, on_limit=limits.on_limit)
        return self.reached


def limits_of(agent: AnyLlmAgent, limits: Limits) -> Limits | None:
    """The limits of one agent: its own, or those that the run gives it."""
    return limits.agents.get(agent.name, agent.limits)


def _refusal(name: str, wanted: int, budgets: Iterable[Budget]) -> str | None:
    """Why a tool must not be called, that `wanted` calls before this one are about to call."""
    for limits, used, agent in budgets:
        allowed, calls = limits.tools.get(name), used.tools.get(name, 0) + wanted
        if allowed is not None and calls >= allowed:
            most = "it may be in one run" if agent is None else "this agent may call it in one run"
            return (
                f"The tool `{name}` was called {count(calls, 'time')}, as often as {most}. Go on without it, with what "
                f"you have."
            )
    return None
