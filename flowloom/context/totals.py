"""What a run has used, and the limits that this is held against (decision 23)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from google.genai import types

from flowloom.context.protocols import AnyContext, AnyLlmAgent
from flowloom.context.run_config import NO_LIMITS, Limits, RunConfig
from flowloom.errors import LimitExceededError, LlmCallsLimitExceededError
from flowloom.objects.notebook import count


@dataclass(slots=True)
class Usage:
    """Tokens of all model calls of a run, sub-agents and agent tools included."""

    input_tokens: int = 0
    output_tokens: int = 0
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    tool_tokens: int = 0
    total_tokens: int = 0

    def add(self, usage: types.GenerateContentResponseUsageMetadata) -> None:
        """Count one response. Reasoning is part of the output, cached tokens are part of the input."""
        reasoning = usage.thoughts_token_count or 0
        self.input_tokens += usage.prompt_token_count or 0
        self.output_tokens += (usage.candidates_token_count or 0) + reasoning
        self.cached_tokens += usage.cached_content_token_count or 0
        self.reasoning_tokens += reasoning
        self.tool_tokens += usage.tool_use_prompt_token_count or 0
        self.total_tokens += usage.total_token_count or (
            (usage.prompt_token_count or 0) + (usage.candidates_token_count or 0) + reasoning
        )


class AgentTotals:
    """What one agent has used in a run."""

    __slots__ = ("model_calls", "started", "tokens", "tool_calls", "tools")

    def __init__(self) -> None:
        self.model_calls = 0
        self.tool_calls = 0
        self.tokens = 0
        self.tools: dict[str, int] = {}
        self.started: float | None = None
        """When it was asked for first, in epoch seconds, if its time is limited."""


class Totals:
    """What a run has used so far. Agent tools count into the totals of the run that called them."""

    __slots__ = ("_agents", "_tools", "config", "model_calls", "reached", "started", "tool_calls", "usage")

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.model_calls = 0
        self.tool_calls = 0
        self.usage = Usage()
        self.started: float | None = 0.0 if config.limits.seconds is None else None
        """When the run began, in epoch seconds; None until it has, 0 if its time is not limited."""
        self._agents: dict[str, AgentTotals] = {}
        self._tools: dict[str, int] = {}
        self.reached: LimitExceededError | None = None
        """The latest limit that was reached: an agent as a tool may meet one that ends the whole run."""

    def start(self, ctx: AnyContext) -> None:
        """The run begins; its time is that of its effects, as all that it decides by."""
        self.started = ctx.effects.now(ctx)

    def count_model_call(self, ctx: AnyContext) -> None:
        """Count a model call that is about to be made. Raises when a limit forbids it."""
        config, limits, agent = self.config, self.config.limits, ctx.llm_agent
        if 0 < config.max_llm_calls <= self.model_calls:
            raise self._reached(limits, "max_llm_calls", config.max_llm_calls, self.model_calls)
        if limits is NO_LIMITS and (agent is None or agent.limits is None):
            self.model_calls += 1
            return
        if limits.model_calls is not None:
            self._check(limits, "model_calls", limits.model_calls, self.model_calls)
        if limits.total_tokens is not None:
            self._check(limits, "total_tokens", limits.total_tokens, self.usage.total_tokens)
        self._check_time(limits, ctx)
        own = limits_of(agent, limits)
        if own is not None and agent is not None:
            used = self._of(agent.name)
            self._check(own, "model_calls", own.model_calls, used.model_calls, agent.name)
            self._check(own, "total_tokens", own.total_tokens, used.tokens, agent.name)
            self._check_time(own, ctx, used)
            used.model_calls += 1
        self.model_calls += 1

    def count_tokens(self, usage: types.GenerateContentResponseUsageMetadata, agent: AnyLlmAgent | None = None) -> None:
        """Count the tokens of one response."""
        before = self.usage.total_tokens
        self.usage.add(usage)
        if agent is not None and limits_of(agent, self.config.limits) is not None:
            self._of(agent.name).tokens += self.usage.total_tokens - before

    def count_tool_calls(self, names: Sequence[str], ctx: AnyContext) -> list[str | None]:
        """Count tool calls that are about to be made. Raises when a limit of the run or the agent forbids them.

        For each call: None, or why it must not be made because its tool was called as often as it may be.
        """
        limits, agent = self.config.limits, ctx.llm_agent
        if limits is NO_LIMITS and (agent is None or agent.limits is None):
            self.tool_calls += len(names)
            return [None] * len(names)
        own = limits_of(agent, limits)
        used = self._of(agent.name) if own is not None and agent is not None else None
        budgets: list[tuple[dict[str, int], dict[str, int], str]] = []
        if limits.tools:
            budgets.append((limits.tools, self._tools, "it may be in one run"))
        if own is not None and used is not None and own.tools:
            budgets.append((own.tools, used.tools, "this agent may call it in one run"))
        refused: list[str | None] = [None] * len(names)
        wanted: dict[str, int] = {}
        if budgets:
            for index, name in enumerate(names):
                refused[index] = _refusal(name, wanted.get(name, 0), budgets)
                wanted[name] = wanted.get(name, 0) + (refused[index] is None)
        count = refused.count(None)
        if limits.tool_calls is not None and self.tool_calls + count > limits.tool_calls:
            raise self._reached(limits, "tool_calls", limits.tool_calls, self.tool_calls, wanted=count)
        self._check_time(limits, ctx)
        if own is not None and used is not None and agent is not None:
            if own.tool_calls is not None and used.tool_calls + count > own.tool_calls:
                raise self._reached(own, "tool_calls", own.tool_calls, used.tool_calls, agent.name, wanted=count)
            self._check_time(own, ctx, used)
            used.tool_calls += count
        for _, counted, _ in budgets:
            for name, calls in wanted.items():
                counted[name] = counted.get(name, 0) + calls
        self.tool_calls += count
        return refused

    def _check_time(self, limits: Limits, ctx: AnyContext, used: AgentTotals | None = None) -> None:
        if limits.seconds is None:
            return
        now, whose = ctx.effects.now(ctx), used or self
        whose.started = now if whose.started is None else whose.started
        name = None if used is None else ctx.agent.name
        self._check(limits, "seconds", limits.seconds, max(now - whose.started, 0.0), name)

    def _check(self, limits: Limits, name: str, allowed: float | None, used: float, agent: str | None = None) -> None:
        if allowed is not None and used >= allowed:
            raise self._reached(limits, name, allowed, used, agent)

    def _reached(
        self, limits: Limits, name: str, allowed: float, used: float, agent: str | None = None, *, wanted: int = 0
    ) -> LimitExceededError:
        if name == "max_llm_calls":
            text = (
                f"The run made {count(int(used), 'model call')}, as many as `RunConfig.max_llm_calls` allows. Its "
                f"history is kept; raise the limit or send a new message to go on."
            )
        else:
            who = "The run" if agent is None else f"Agent `{agent}`"
            text = f"{who} reached its limit `{name}`: {used:g} used of {allowed:g}. Its history is kept."
        if wanted:
            text += f" The model asked for {wanted} more."
        kind = LlmCallsLimitExceededError if name in ("model_calls", "max_llm_calls") else LimitExceededError
        self.reached = kind(text, limit=name, allowed=allowed, used=used, agent=agent, on_limit=limits.on_limit)
        return self.reached

    def _of(self, agent: str) -> AgentTotals:
        found = self._agents.get(agent)
        if found is None:
            found = self._agents[agent] = AgentTotals()
        return found


def limits_of(agent: AnyLlmAgent | None, limits: Limits) -> Limits | None:
    """The limits of one agent: its own, or those that the run gives it."""
    if agent is None:
        return None
    if limits.agents and (given := limits.agents.get(agent.name)) is not None:
        return given
    return agent.limits


def _refusal(name: str, wanted: int, budgets: Iterable[tuple[dict[str, int], dict[str, int], str]]) -> str | None:
    """Why a tool must not be called, that `wanted` calls before this one are about to call."""
    for tools, counted, allowed_by in budgets:
        allowed, used = tools.get(name), counted.get(name, 0) + wanted
        if allowed is not None and used >= allowed:
            return (
                f"The tool `{name}` was called {count(used, 'time')}, as often as {allowed_by}. Go on without it, with "
                f"what you have."
            )
    return None
