"""The typed events of a run as AG-UI's (protocols spec §5): in the order that its clients verify."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterator, Mapping
from typing import Any, Literal

from flowloom.protocols.ag_ui.agents import Agents
from flowloom.protocols.ag_ui.conversation import Call, Conversation
from flowloom.protocols.ag_ui.data import as_data, shown_state
from flowloom.protocols.ag_ui.interrupts import Request, interrupt_of
from flowloom.protocols.ag_ui.sdk import core
from flowloom.run_stream import (
    AgentFinished,
    AgentStarted,
    ConfirmationRequested,
    CredentialRequested,
    ErrorReported,
    InputRequested,
    MessageCompleted,
    RequestAnswered,
    RunFailed,
    RunFinished,
    RunStarted,
    RunStreamEvent,
    StateChanged,
    TextDelta,
    ThoughtDelta,
    ToolCallArgumentsCompleted,
    ToolCallArgumentsDelta,
    ToolCallFinished,
    ToolCallProgress,
    ToolCallStarted,
    UsageReported,
)

PROTOCOL = "1.0"
Emit = Literal["1.0", "legacy"]


async def ag_ui_events(
    run_stream: AsyncIterable[RunStreamEvent],
    input: Any,
    *,
    state: Mapping[str, Any] | None = None,
    structured: bool = False,
    emit: Emit = "1.0",
) -> AsyncIterator[Any]:
    """The AG-UI events of a run, from its typed events: `Runner.run_stream(...)`, or any other source of them.

    `input` is the `RunAgentInput` that the run answers: its thread, its run and the names of the page's tools. `state`
    is that of the session before the run; without it none is told. `structured` says that the answer is JSON, which the
    end of the run holds as its result. `emit="legacy"` leaves out what came with 1.0: outcomes, usage, subagents.

    Whatever the stream does, what was begun is ended, and the last event is RUN_FINISHED or RUN_ERROR.
    """
    teller = _Teller(input, state, structured=structured, modern=emit == "1.0")
    async for event in run_stream:
        for told in teller.tell(event):
            yield told
    for told in teller.end():
        yield told


class _Teller:
    def __init__(self, input: Any, state: Mapping[str, Any] | None, *, structured: bool, modern: bool) -> None:
        self._input, self._structured, self._modern = input, structured, modern
        self._state = None if state is None else shown_state(state)
        self._state_changed = False
        self._agents = Agents(subagents=modern)
        self._talk = talk = Conversation(self._agents, input.messages or ())
        self._interrupts: list[Any] = []
        self._usage: dict[str | None, list[int]] = {}
        self._failure: tuple[str, str] | None = None
        self._begun = self._over = False
        self._tells: dict[type[RunStreamEvent], Callable[[Any], Iterator[Any]]] = {
            RunStarted: _nothing,
            RequestAnswered: _nothing,
            RunFailed: self._failed,
            RunFinished: self._finished,
            UsageReported: self._used,
            ThoughtDelta: talk.thought,
            TextDelta: talk.text,
            MessageCompleted: talk.completed,
            ToolCallStarted: talk.call_started,
            ToolCallArgumentsDelta: talk.args_piece,
            ToolCallArgumentsCompleted: talk.args_known,
            ToolCallFinished: talk.call_finished,
            ToolCallProgress: talk.progress,
            AgentStarted: self._agents.begin,
            AgentFinished: self._agents.end,
            ConfirmationRequested: self._asked,
            InputRequested: self._asked,
            CredentialRequested: self._asked,
            StateChanged: self._state_delta,
            ErrorReported: self._reported,
        }

    # -- from outside ----------------------------------------------------------------------------

    def tell(self, event: RunStreamEvent) -> Iterator[Any]:
        """The events that one of the run's is told by; one of a kind without a place in the protocol is `CUSTOM`."""
        if self._over:
            return
        if not self._begun:
            yield from self._begin()
        yield from self._tells.get(type(event), _custom)(event)

    def end(self) -> Iterator[Any]:
        """What ends a stream that broke off."""
        if self._over:
            return
        if not self._begun:
            yield from self._begin()
        self._failure = self._failure or ("RUN_BROKEN", "The run ended without telling how.")
        yield from self._finish("failed")

    # -- the run ---------------------------------------------------------------------------------

    def _begin(self) -> Iterator[Any]:
        self._begun = True
        started = core.RunStartedEvent(thread_id=self._input.thread_id, run_id=self._input.run_id)
        if self._modern:
            started.protocol_version = PROTOCOL
        yield started
        if self._state:
            yield core.StateSnapshotEvent(snapshot=dict(self._state))

    def _failed(self, event: RunFailed) -> Iterator[Any]:
        self._failure = (event.error_code, event.error_message)
        yield from ()

    def _finished(self, event: RunFinished) -> Iterator[Any]:
        if event.error_code is not None and self._failure is None:
            self._failure = (event.error_code, event.error_message or "")
        yield from self._finish(event.status)

    def _finish(self, status: str) -> Iterator[Any]:
        yield from self._talk.close()
        yield from self._agents.close()
        self._over = True
        usage = self._usage_told() if self._modern else None
        if status in ("failed", "limit"):
            code, message = self._failure or (status.upper(), f"The run ended: {status}.")
            yield core.RunErrorEvent(message=message, code=code, usage=usage)
            return
        if self._state_changed:
            yield core.StateSnapshotEvent(snapshot=dict(self._state or {}))
        finished = core.RunFinishedEvent(thread_id=self._input.thread_id, run_id=self._input.run_id, usage=usage)
        if self._modern:
            finished.outcome = self._outcome(status)
        if self._structured and status == "final":
            finished.result = as_data(self._talk.last_text)
        yield finished

    def _outcome(self, status: str) -> Any:
        if status == "cancelled":
            return core.RunFinishedCancelledOutcome()
        waiting = [call for call in self._talk.calls.values() if not call.finished]
        page_tools = {tool.name for tool in self._input.tools or ()}
        pending = [call.id for call in waiting if call.name in page_tools]
        # beside a call of the page's, those of ours may not have begun: they are told when that is answered
        under_way = [] if pending else [_interrupt_of(call) for call in waiting if call.long_running]
        interrupts = [*self._interrupts, *under_way] if status == "paused" else []
        if interrupts:
            return core.RunFinishedInterruptOutcome(interrupts=interrupts)
        return core.RunFinishedSuccessOutcome(pending_tool_call_ids=pending or None)

    def _usage_told(self) -> list[Any] | None:
        return [
            core.TokenUsage(
                model=model,
                input_tokens=given,
                output_tokens=taken,
                total_tokens=total,
                reasoning_tokens=reasoning,
                cached_input_tokens=cached,
            )
            for model, (given, taken, total, reasoning, cached) in self._usage.items()
        ] or None

    def _used(self, event: UsageReported) -> Iterator[Any]:
        used = event.usage
        new = (used.input_tokens, used.output_tokens, used.total_tokens, used.reasoning_tokens, used.cached_tokens)
        before = self._usage.get(event.model, [0, 0, 0, 0, 0])
        self._usage[event.model] = [old + more for old, more in zip(before, new, strict=True)]
        yield from ()

    # -- what is asked, and what changes -----------------------------------------------------------

    def _asked(self, event: Request) -> Iterator[Any]:
        subagent = self._agents.whose(event.agent, event.branch, event.parent_call_id)
        interrupt = interrupt_of(event, subagent)
        self._interrupts.append(interrupt)
        self._agents.asks(subagent, interrupt.id)
        if not self._modern:
            yield core.CustomEvent(name="flowloom.interrupt", value=interrupt.model_dump(by_alias=True, mode="json"))

    def _state_delta(self, event: StateChanged) -> Iterator[Any]:
        delta = shown_state(event.delta)
        if delta and self._state is not None:
            self._state.update(delta)
            self._state_changed = True
            patch: Any = [{"op": "add", "path": f"/{_escaped(key)}", "value": value} for key, value in delta.items()]
            yield core.StateDeltaEvent(delta=patch)
        if event.artifacts:
            yield core.CustomEvent(name="flowloom.artifacts", value=event.artifacts)

    def _reported(self, event: ErrorReported) -> Iterator[Any]:
        self._agents.fails(event)
        yield from _custom(event)


def _nothing(_: RunStreamEvent) -> Iterator[Any]:
    yield from ()


def _custom(event: RunStreamEvent) -> Iterator[Any]:
    data = event.to_dict()
    yield core.CustomEvent(name=f"flowloom.{data.pop('type')}", value=data)


def _interrupt_of(call: Call) -> Any:
    return core.Interrupt(id=call.id, reason="tool_call", message=f"`{call.name}` is under way.", tool_call_id=call.id)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")
