"""`Run`: what all agents of one invocation share, and the totals that limits are held against."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from google.genai import types

from flowloom.context.effects import DIRECT_EFFECTS, Effects
from flowloom.context.hooks import NO_HOOKS, Callbacks, Hooks, first_answer
from flowloom.context.run_config import RunConfig, StreamingMode
from flowloom.context.threads import Threads
from flowloom.errors import LimitExceededError, LlmCallsLimitExceededError
from flowloom.events.actions import EventActions
from flowloom.events.clock import monotonic
from flowloom.events.event import Event
from flowloom.events.parts import content_of, response_part
from flowloom.events.wire import shallow_copy
from flowloom.observer import Observer, observers

if TYPE_CHECKING:
    from flowloom.artifacts import BaseArtifactService
    from flowloom.context.invocation import InvocationContext
    from flowloom.memory import BaseMemoryService
    from flowloom.sessions import BaseSessionService, Session

_dict: Any = dict  # called as it is: `dict[str, int]()` takes five times as long
_set: Any = set

INTERRUPTED = "The run was interrupted before this call gave a result."


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


class Totals:
    """What a run has used so far. Agent tools count into the totals of the run that called them."""

    __slots__ = ("config", "model_calls", "started", "tool_calls", "usage")

    def __init__(self, config: RunConfig) -> None:
        self.config = config
        self.model_calls = 0
        self.tool_calls = 0
        self.usage = Usage()
        self.started = monotonic()

    def count_model_call(self) -> None:
        """Count a model call that is about to be made. Raises when a limit forbids it."""
        config, limits = self.config, self.config.limits
        if 0 < config.max_llm_calls <= self.model_calls:
            raise LlmCallsLimitExceededError(
                f"The run made {self.model_calls} model calls, as many as `RunConfig.max_llm_calls` allows. "
                f"Its history is kept; raise the limit or send a new message to go on.",
                limit="max_llm_calls",
                allowed=config.max_llm_calls,
                used=self.model_calls,
            )
        if limits.model_calls is not None and self.model_calls >= limits.model_calls:
            raise LlmCallsLimitExceededError(
                _over("model_calls", limits.model_calls, self.model_calls),
                limit="model_calls",
                allowed=limits.model_calls,
                used=self.model_calls,
            )
        self._check("total_tokens", limits.total_tokens, self.usage.total_tokens)
        if limits.seconds is not None:
            self._check("seconds", limits.seconds, monotonic() - self.started)
        self.model_calls += 1

    def count_tool_calls(self, count: int) -> None:
        """Count tool calls that are about to be made. Raises when a limit forbids them."""
        limits = self.config.limits
        if limits.tool_calls is not None and self.tool_calls + count > limits.tool_calls:
            used = self.tool_calls
            raise LimitExceededError(
                f"{_over('tool_calls', limits.tool_calls, used)} The model asked for {count} more.",
                limit="tool_calls",
                allowed=limits.tool_calls,
                used=used,
            )
        if limits.seconds is not None:
            self._check("seconds", limits.seconds, monotonic() - self.started)
        self.tool_calls += count

    def _check(self, name: str, allowed: float | None, used: float) -> None:
        if allowed is not None and used >= allowed:
            raise LimitExceededError(_over(name, allowed, used), limit=name, allowed=allowed, used=used)


def _over(name: str, allowed: float, used: float) -> str:
    return f"The run reached its limit `{name}`: {used:g} used of {allowed:g}. Its history is kept."


@dataclass(slots=True)
class OpenCall:
    """A function call that is in the history without a result."""

    id: str
    name: str
    author: str
    branch: str | None
    isolation_scope: str | None


@dataclass(slots=True)
class Run:
    """What all agents of one invocation share."""

    invocation_id: str
    session: Session
    session_service: BaseSessionService
    artifact_service: BaseArtifactService | None
    memory_service: BaseMemoryService | None
    credential_service: Any
    config: RunConfig
    user_content: types.Content | None = None
    hooks: Hooks = NO_HOOKS
    effects: Effects = DIRECT_EFFECTS
    totals: Totals = None  # type: ignore[assignment] - set below when not shared
    threads: Threads = None  # type: ignore[assignment]
    streaming: bool = None  # type: ignore[assignment] - as the config says, if not given
    observers: tuple[Observer, ...] = field(default_factory=observers)
    rehearsal: bool = False
    """Whether this only finds out what a run would do: no telemetry, and no model is asked."""
    steps: dict[str, int] = field(default_factory=_dict)
    """Model steps taken so far, by agent path."""
    effect_counts: dict[tuple[str, int, str], int] = field(default_factory=_dict)
    open_calls: dict[str, OpenCall] = field(default_factory=_dict)
    waiting_calls: dict[str, OpenCall] = field(default_factory=_dict)
    """Calls of long-running tools, and requests to a person, that the user has not answered yet."""
    resume_authors: set[str] = field(default_factory=_set)
    """Agents whose calls the user's message answers, until they have taken up their turn (decision 28)."""
    handled_messages: set[tuple[str, str]] = field(default_factory=_set)
    """Agent path and event id of the decisions about tool calls that were carried out."""
    unsettled: Event | None = None
    """The event whose storing was cut off: nobody knows whether it was stored."""
    failed_context: InvocationContext | None = None
    """Where the first error of the run came from."""

    def __post_init__(self) -> None:
        self.totals = self.totals or Totals(self.config)  # pyright: ignore[reportUnnecessaryComparison]
        self.threads = self.threads or Threads(self.config.tool_thread_pool_config.max_workers)
        if self.streaming is None:  # pyright: ignore[reportUnnecessaryComparison]
            self.streaming = self.config.streaming_mode is StreamingMode.SSE

    async def record(self, ctx: InvocationContext, event: Event, hooks: Callbacks | None = None) -> Event:
        """Take an event into the session, and return it as the consumer is to see it (spec §18.8).

        Plugins may replace it (`hooks`: those asked; not for the user's message); it is stored unless it is partial;
        `temp:` state goes no further.
        """
        if not event.author:
            event.author = ctx.agent.name
        if self.config.custom_metadata:
            event = shallow_copy(event)
            event.custom_metadata = self.config.custom_metadata | (event.custom_metadata or {})
        if (
            event.output is not None
            and event.content is not None
            and (event.node_info and event.node_info.message_as_output)
        ):
            event = shallow_copy(event)
            event.output = None
        hooks = self.hooks.on_event if hooks is None else hooks
        if hooks:
            replaced = await first_answer(hooks, invocation_context=ctx, event=event)
            if replaced is not None:
                event = replaced
        if event.partial:
            for observer in self.observers:
                observer.event_recorded(ctx, event)
            return event
        try:
            stored = await self.session_service.append_event(self.session, event)
        except asyncio.CancelledError:
            self.unsettled = event
            raise
        self.follow(stored)
        for observer in self.observers:
            observer.event_recorded(ctx, stored)
        return stored

    def follow(self, event: Event) -> None:
        """Keep account of which calls are open after an event of this run."""
        content = event.content
        if content is None or not content.parts:
            return
        for part in content.parts:
            call, response = part.function_call, part.function_response
            if call is not None:
                if call.id:
                    waits = event.long_running_tool_ids is not None and call.id in event.long_running_tool_ids
                    calls = self.waiting_calls if waits else self.open_calls
                    calls[call.id] = OpenCall(
                        call.id, call.name or "", event.author, event.branch, event.isolation_scope
                    )
            elif response is not None and response.id:
                self.open_calls.pop(response.id, None)
                if event.author == "user":
                    self.waiting_calls.pop(response.id, None)

    async def answer_open_calls(self, ctx: InvocationContext, reason: str) -> list[Event]:
        """Give every call of this run that is still without a result an error result, so that the history is legal."""
        events: list[Event] = []
        if self.unsettled is not None:  # appending an event that is stored already changes nothing
            event, self.unsettled = self.unsettled, None
            self.follow(await self.session_service.append_event(self.session, event))
        while self.open_calls:
            first = next(iter(self.open_calls.values()))
            group = [
                call
                for call in self.open_calls.values()
                if (call.author, call.branch, call.isolation_scope)
                == (first.author, first.branch, first.isolation_scope)
            ]
            parts = [response_part(call.id, call.name, {"error": reason}) for call in group]
            event = Event.unvalidated(
                {
                    "id": self.effects.new_id(ctx),
                    "timestamp": self.effects.now(ctx),
                    "invocation_id": self.invocation_id,
                    "author": first.author,
                    "branch": first.branch,
                    "isolation_scope": first.isolation_scope,
                    "content": content_of("user", parts),
                    "actions": EventActions.unvalidated({}),
                }
            )
            for call in group:
                self.open_calls.pop(call.id, None)
            stored = await self.session_service.append_event(self.session, event)
            for observer in self.observers:
                observer.event_recorded(ctx, stored)
            events.append(stored)
        return events
