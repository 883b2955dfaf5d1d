"""The typed events of a run as AG-UI's (protocols spec §5): in the order that its clients verify."""

from __future__ import annotations

import json
from collections.abc import AsyncIterable, AsyncIterator, Iterator, Mapping
from typing import Any, Literal, cast

from flowloom.protocols.ag_ui.sdk import core
from flowloom.run_stream import (
    AgentFinished,
    AgentStarted,
    AgentTransferred,
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
CLOSED_PREFIXES = ("temp:", "app:", "user:")
"""Keys of the state that begin so are neither told nor taken."""
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


def shown_state(state: Mapping[str, Any]) -> dict[str, Any]:
    """What a page may see of a session's state."""
    return {key: value for key, value in state.items() if not key.startswith(CLOSED_PREFIXES)}


def as_mapping(value: object) -> dict[str, Any] | None:
    """A value that is a mapping; None for any other."""
    return cast("dict[str, Any]", value) if isinstance(value, dict) else None


class _Message:
    """A message while it is told."""

    def __init__(self, message_id: str, author: str) -> None:
        self.id, self.author = message_id, author
        self.text = ""
        self.thoughts = ""
        self.is_open = self.thinks = False


class _Call:
    """A tool call while it is told."""

    def __init__(self, call: ToolCallStarted) -> None:
        self.id, self.name, self.long_running = call.call_id, call.name, call.long_running
        self.pieces = ""
        self.args: dict[str, Any] | None = None
        self.finished = False


class _Teller:
    def __init__(self, input: Any, state: Mapping[str, Any] | None, *, structured: bool, modern: bool) -> None:
        self._input, self._structured, self._modern = input, structured, modern
        self._page_tools = {tool.name for tool in input.tools or ()}
        self._state = None if state is None else shown_state(state)
        self._state_changed = False
        self._history: list[Any] = list(input.messages or ())
        self._messages: dict[str, _Message] = {}
        self._calls: dict[str, _Call] = {}
        self._steps: dict[str, str] = {}
        self._subagents: dict[str, str] = {}
        self._behind: dict[str, str] = {}
        self._interrupts: list[Any] = []
        self._usage: dict[str | None, list[int]] = {}
        self._failure: tuple[str, str] | None = None
        self._last_text = ""
        self._last_message: str | None = None
        self._begun = self._over = False

    # -- from outside ----------------------------------------------------------------------------

    def tell(self, event: RunStreamEvent) -> Iterator[Any]:
        """The events that one of the run's is told by."""
        if self._over:
            return
        if not self._begun:
            yield from self._begin()
        method = _BY_KIND.get(type(event))
        if method is not None:
            yield from getattr(self, method)(event)

    def end(self) -> Iterator[Any]:
        """What ends a stream that broke off."""
        if self._over:
            return
        if not self._begun:
            yield from self._begin()
        self._failure = self._failure or ("RUN_BROKEN", "The run ended without telling how.")
        yield from self._finish("failed", None)

    # -- the run ---------------------------------------------------------------------------------

    def _begin(self) -> Iterator[Any]:
        self._begun = True
        started = core.RunStartedEvent(thread_id=self._input.thread_id, run_id=self._input.run_id)
        if self._modern:
            started.protocol_version = PROTOCOL
        yield started
        if self._state:
            yield core.StateSnapshotEvent(snapshot=dict(self._state))

    def _nothing(self, event: RunStarted | RequestAnswered) -> Iterator[Any]:
        yield from ()

    def _failed(self, event: RunFailed) -> Iterator[Any]:
        self._failure = (event.error_code, event.error_message)
        yield from ()

    def _finished(self, event: RunFinished) -> Iterator[Any]:
        if event.error_code is not None and self._failure is None:
            self._failure = (event.error_code, event.error_message or "")
        yield from self._finish(event.status, event)

    def _finish(self, status: str, event: RunFinished | None) -> Iterator[Any]:
        yield from self._close()
        self._over = True
        usage = self._usage_told()
        if status in ("failed", "limit"):
            code, message = self._failure or (status.upper(), f"The run ended: {status}.")
            failed = core.RunErrorEvent(message=message, code=code)
            if usage and self._modern:
                failed.usage = usage
            yield failed
            return
        if self._state_changed:
            yield core.StateSnapshotEvent(snapshot=dict(self._state or {}))
        finished = core.RunFinishedEvent(thread_id=self._input.thread_id, run_id=self._input.run_id)
        if self._modern:
            finished.outcome, finished.usage = self._outcome(status), usage or None
        if self._structured and status == "final":
            finished.result = _data(self._last_text)
        yield finished

    def _outcome(self, status: str) -> Any:
        if status == "cancelled":
            return core.RunFinishedCancelledOutcome()
        waiting = [call for call in self._calls.values() if not call.finished]
        pending = [call.id for call in waiting if call.name in self._page_tools]
        # beside a call of the page's, those of ours have not begun: they run when it is answered
        under_way = [] if pending else [_interrupt_of(call) for call in waiting if call.long_running]
        interrupts = [*self._interrupts, *under_way] if status == "paused" else []
        if interrupts:
            return core.RunFinishedInterruptOutcome(interrupts=interrupts)
        return core.RunFinishedSuccessOutcome(pending_tool_call_ids=pending or None)

    def _close(self) -> Iterator[Any]:
        """End what is open: messages, calls, agents behind calls, steps."""
        for message in self._messages.values():
            yield from self._end_message(message)
        for call in self._calls.values():
            if call.args is None:
                yield from self._end_call(call, _data(call.pieces) or {})
        for agent_id in [*self._subagents]:
            yield from self._end_subagent(agent_id)
        for agent_id in [*self._steps]:
            yield from self._end_step(agent_id)

    def _usage_told(self) -> list[Any]:
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
        ]

    def _used(self, event: UsageReported) -> Iterator[Any]:
        used = event.usage
        new = (used.input_tokens, used.output_tokens, used.total_tokens, used.reasoning_tokens, used.cached_tokens)
        before = self._usage.get(event.model, [0, 0, 0, 0, 0])
        self._usage[event.model] = [old + more for old, more in zip(before, new, strict=True)]
        yield from ()

    # -- messages --------------------------------------------------------------------------------

    def _message_of(self, event: TextDelta | ThoughtDelta | MessageCompleted) -> _Message:
        if event.message_id not in self._messages:
            self._messages[event.message_id] = _Message(event.message_id, event.author)
        self._last_message = event.message_id
        return self._messages[event.message_id]

    def _thought(self, event: ThoughtDelta) -> Iterator[Any]:
        message = self._message_of(event)
        message.thoughts += event.text
        thought_id, behind = f"{message.id}-thoughts", self._whose(event.parent_call_id)
        if not message.thinks:
            message.thinks = True
            yield core.ReasoningStartEvent(message_id=thought_id, **behind)
            yield core.ReasoningMessageStartEvent(message_id=thought_id, role="reasoning", **behind)
        yield core.ReasoningMessageContentEvent(message_id=thought_id, delta=event.text, **behind)

    def _text(self, event: TextDelta) -> Iterator[Any]:
        message, behind = self._message_of(event), self._whose(event.parent_call_id)
        yield from self._end_thoughts(message)
        if not message.is_open:
            message.is_open = True
            yield core.TextMessageStartEvent(message_id=message.id, role="assistant", name=event.author, **behind)
        message.text += event.text
        yield core.TextMessageContentEvent(message_id=message.id, delta=event.text, **behind)

    def _completed(self, event: MessageCompleted) -> Iterator[Any]:
        message, behind = self._message_of(event), self._whose(event.parent_call_id)
        if event.thoughts and not message.thoughts:
            yield from self._thought(
                ThoughtDelta(event.message_id, event.thoughts, event.author, event.branch, event.parent_call_id)
            )
        yield from self._end_thoughts(message)
        streamed = message.text
        if event.text and not streamed:
            yield from self._text(
                TextDelta(event.message_id, event.text, event.author, event.branch, event.parent_call_id)
            )
            streamed = event.text
        yield from self._end_message(message)
        message.text = event.text
        if event.text and event.parent_call_id is None:
            self._last_text = event.text
            self._history.append(core.AssistantMessage(id=message.id, content=event.text, name=event.author))
        if streamed != event.text:
            yield core.MessagesSnapshotEvent(messages=self._history)
        if event.parts:
            yield core.CustomEvent(
                name="flowloom.files", value={"messageId": message.id, "parts": event.parts}, **behind
            )
        del self._messages[message.id]

    def _end_message(self, message: _Message) -> Iterator[Any]:
        yield from self._end_thoughts(message)
        if message.is_open:
            message.is_open = False
            yield core.TextMessageEndEvent(message_id=message.id)

    def _end_thoughts(self, message: _Message) -> Iterator[Any]:
        if message.thinks:
            message.thinks = False
            thought_id = f"{message.id}-thoughts"
            yield core.ReasoningMessageEndEvent(message_id=thought_id)
            yield core.ReasoningEndEvent(message_id=thought_id)

    # -- calls -----------------------------------------------------------------------------------

    def _call_started(self, event: ToolCallStarted) -> Iterator[Any]:
        if event.call_id in self._calls:
            return
        self._calls[event.call_id] = _Call(event)
        yield core.ToolCallStartEvent(
            tool_call_id=event.call_id,
            tool_call_name=event.name,
            parent_message_id=self._last_message,
            **self._whose(event.parent_call_id),
        )

    def _args_piece(self, event: ToolCallArgumentsDelta) -> Iterator[Any]:
        call = self._calls.get(event.call_id)
        if call is not None and call.args is None and event.path == "$" and isinstance(event.value, str):
            call.pieces += event.value
            yield core.ToolCallArgsEvent(tool_call_id=call.id, delta=event.value)

    def _args_known(self, event: ToolCallArgumentsCompleted) -> Iterator[Any]:
        call = self._calls.get(event.call_id)
        if call is not None and call.args is None:
            yield from self._end_call(call, event.args)

    def _end_call(self, call: _Call, args: dict[str, Any]) -> Iterator[Any]:
        call.args = args
        text = _json(args)
        if not call.pieces:
            yield core.ToolCallArgsEvent(tool_call_id=call.id, delta=text)
        yield core.ToolCallEndEvent(tool_call_id=call.id)
        made = core.ToolCall(id=call.id, function=core.FunctionCall(name=call.name, arguments=text))
        self._history.append(core.AssistantMessage(id=f"{call.id}-call", tool_calls=[made]))
        if call.pieces and _data(call.pieces) != args:  # what was streamed is not what counts
            yield core.MessagesSnapshotEvent(messages=self._history)

    def _call_finished(self, event: ToolCallFinished) -> Iterator[Any]:
        call = self._calls.get(event.call_id)
        if call is None:
            return
        if call.args is None:
            yield from self._end_call(call, _data(call.pieces) or {})
        call.finished = True
        content = _json({"error": event.error} if event.error is not None else event.result)
        message_id = f"{call.id}-result"
        self._history.append(core.ToolMessage(id=message_id, tool_call_id=call.id, content=content))
        yield core.ToolCallResultEvent(message_id=message_id, tool_call_id=call.id, content=content, role="tool")

    def _progress(self, event: ToolCallProgress) -> Iterator[Any]:
        content = {"toolCallId": event.call_id, "name": event.name, **event.result}
        yield core.ActivitySnapshotEvent(
            message_id=f"{event.call_id}-progress", activity_type="tool_progress", content=content, replace=True
        )

    # -- agents ----------------------------------------------------------------------------------

    def _agent_started(self, event: AgentStarted) -> Iterator[Any]:
        if event.parent_call_id is not None:
            if not self._modern:
                return
            outer = self._behind.get(event.parent_call_id)
            self._subagents[event.agent_id] = event.parent_call_id
            if outer is None:
                self._behind[event.parent_call_id] = event.agent_id
            yield core.SubagentStartedEvent(
                subagent_run_id=event.agent_id,
                name=event.agent,
                parent_tool_call_id=event.parent_call_id,
                parent_subagent_run_id=outer,
            )
        elif event.agent not in self._steps.values():
            self._steps[event.agent_id] = event.agent
            yield core.StepStartedEvent(step_name=event.agent)

    def _agent_finished(self, event: AgentFinished) -> Iterator[Any]:
        yield from self._end_step(event.agent_id)
        yield from self._end_subagent(event.agent_id)

    def _end_step(self, agent_id: str) -> Iterator[Any]:
        name = self._steps.pop(agent_id, None)
        if name is not None:
            yield core.StepFinishedEvent(step_name=name)

    def _end_subagent(self, agent_id: str) -> Iterator[Any]:
        call_id = self._subagents.pop(agent_id, None)
        if call_id is not None:
            if self._behind.get(call_id) == agent_id:
                del self._behind[call_id]
            yield core.SubagentFinishedEvent(subagent_run_id=agent_id)

    def _transferred(self, event: AgentTransferred) -> Iterator[Any]:
        yield self._custom(event)

    def _whose(self, parent_call_id: str | None) -> dict[str, Any]:
        """The agent behind a call that an event is of, as the event's field."""
        agent_id = None if parent_call_id is None else self._behind.get(parent_call_id)
        return {} if agent_id is None else {"subagent_run_id": agent_id}

    # -- what a person is asked ------------------------------------------------------------------

    def _confirmation(self, event: ConfirmationRequested) -> Iterator[Any]:
        yield from self._asked(
            core.Interrupt(
                id=event.request_id,
                reason="tool_approval",
                message=event.hint or f"May `{event.name}` be called?",
                tool_call_id=event.call_id,
                response_schema=_APPROVAL,
                metadata={"name": event.name, "args": event.args, "agent": event.agent, "payload": event.payload},
                **self._whose(event.parent_call_id),
            )
        )

    def _input_asked(self, event: InputRequested) -> Iterator[Any]:
        schema = as_mapping(event.schema)
        yield from self._asked(
            core.Interrupt(
                id=event.request_id,
                reason="input_required",
                message=event.message,
                response_schema=schema,
                metadata={"agent": event.agent, "payload": event.payload},
                **self._whose(event.parent_call_id),
            )
        )

    def _credential(self, event: CredentialRequested) -> Iterator[Any]:
        yield from self._asked(
            core.Interrupt(
                id=event.request_id,
                reason="auth_required",
                message="A login is needed.",
                tool_call_id=event.call_id,
                metadata={"agent": event.agent, "authUri": event.auth_uri, "authConfig": event.auth_config},
                **self._whose(event.parent_call_id),
            )
        )

    def _asked(self, interrupt: Any) -> Iterator[Any]:
        self._interrupts.append(interrupt)
        if not self._modern:
            yield core.CustomEvent(name="flowloom.interrupt", value=interrupt.model_dump(by_alias=True, mode="json"))

    # -- the rest --------------------------------------------------------------------------------

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
        yield self._custom(event)

    def _custom(self, event: RunStreamEvent) -> Any:
        data = event.to_dict()
        return core.CustomEvent(name=f"flowloom.{data.pop('type')}", value=data)


_BY_KIND: dict[type[RunStreamEvent], str] = {
    RunStarted: "_nothing",
    RequestAnswered: "_nothing",
    RunFailed: "_failed",
    RunFinished: "_finished",
    UsageReported: "_used",
    ThoughtDelta: "_thought",
    TextDelta: "_text",
    MessageCompleted: "_completed",
    ToolCallStarted: "_call_started",
    ToolCallArgumentsDelta: "_args_piece",
    ToolCallArgumentsCompleted: "_args_known",
    ToolCallFinished: "_call_finished",
    ToolCallProgress: "_progress",
    AgentStarted: "_agent_started",
    AgentFinished: "_agent_finished",
    AgentTransferred: "_transferred",
    ConfirmationRequested: "_confirmation",
    InputRequested: "_input_asked",
    CredentialRequested: "_credential",
    StateChanged: "_state_delta",
    ErrorReported: "_reported",
}
"""The method of `_Teller` that tells of each kind of event."""
_APPROVAL: dict[str, Any] = {
    "type": "object",
    "properties": {"confirmed": {"type": "boolean"}},
    "required": ["confirmed"],
}


def _interrupt_of(call: _Call) -> Any:
    return core.Interrupt(id=call.id, reason="tool_call", message=f"`{call.name}` is under way.", tool_call_id=call.id)


def _escaped(key: str) -> str:
    return key.replace("~", "~0").replace("/", "~1")


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, default=str)


def _data(text: str) -> Any:
    """The data of a JSON text; None if it is none."""
    try:
        return json.loads(text)
    except ValueError:
        return None
