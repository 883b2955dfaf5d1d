"""Words, thoughts and calls of a run as a page is told of them (protocols spec §5)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from flowloom.protocols.ag_ui.agents import Agents
from flowloom.protocols.ag_ui.data import as_data, as_json
from flowloom.protocols.ag_ui.history import History
from flowloom.protocols.ag_ui.sdk import core
from flowloom.run_stream import (
    MessageCompleted,
    TextDelta,
    ThoughtDelta,
    ToolCallArgumentsCompleted,
    ToolCallArgumentsDelta,
    ToolCallFinished,
    ToolCallProgress,
    ToolCallStarted,
)

_Speaker = tuple[str, str | None, str | None]


class Message:
    """A message while it is told: `subagent` says it, if no agent of the run itself does."""

    def __init__(self, message_id: str, author: str, subagent: str | None) -> None:
        self.id, self.author, self.subagent = message_id, author, subagent
        self.text = self.thoughts = ""
        self.is_open = self.thinks = False

    @property
    def thoughts_id(self) -> str:
        return f"{self.id}-thoughts"


class Call:
    """A tool call while it is told."""

    def __init__(self, call: ToolCallStarted, subagent: str | None) -> None:
        self.id, self.name, self.long_running = call.call_id, call.name, call.long_running
        self.speaker: _Speaker = (call.agent, call.branch, call.parent_call_id)
        self.subagent = subagent
        self.pieces = ""
        self.args_told = self.finished = False


class Conversation:
    """What agents say and call in one run, for a page that has `messages`."""

    def __init__(self, agents: Agents, messages: Sequence[Any]) -> None:
        self._agents = agents
        self._history = History(messages)
        self._messages: dict[str, Message] = {}
        self._carriers: dict[_Speaker, str] = {}
        """The message that the next call of each speaker is a part of."""
        self._differs = False
        """Whether the page has been told what does not count, and is to be told all messages anew."""
        self.calls: dict[str, Call] = {}
        self.last_text = ""
        """What the run's own agents have said last."""

    def close(self) -> Iterator[Any]:
        """End what is open."""
        for message in self._messages.values():
            yield from self._end_message(message)
        for call in self.calls.values():
            if not call.args_told:
                yield from self._end_call(call, as_data(call.pieces) or {})
        self._messages.clear()
        yield from self._corrected()

    # -- messages --------------------------------------------------------------------------------

    def _message_of(self, event: TextDelta | ThoughtDelta | MessageCompleted) -> Message:
        message = self._messages.get(event.message_id)
        if message is None:
            subagent = self._agents.whose(event.author, event.branch, event.parent_call_id)
            message = self._messages[event.message_id] = Message(event.message_id, event.author, subagent)
            self._carriers[event.author, event.branch, event.parent_call_id] = message.id
        return message

    def thought(self, event: ThoughtDelta) -> Iterator[Any]:
        """The next piece of a message's thoughts."""
        yield from self._think(self._message_of(event), event.text)

    def text(self, event: TextDelta) -> Iterator[Any]:
        """The next piece of a message's text."""
        yield from self._say(self._message_of(event), event.text)

    def completed(self, event: MessageCompleted) -> Iterator[Any]:
        """A message as a whole: what was not told of it yet, and its end."""
        message = self._message_of(event)
        if event.thoughts and not message.thoughts:
            yield from self._think(message, event.thoughts)
        if event.text and not message.text:
            yield from self._say(message, event.text)
        yield from self._end_message(message)
        del self._messages[message.id]
        self._carriers.pop((event.author, event.branch, event.parent_call_id), None)
        if event.signature is not None:
            entity = message.thoughts_id if message.thoughts else message.id
            yield self._encrypted("message", entity, event.signature, message.subagent)
        if message.text:
            self._history.said(message.id, event.text)
        if event.text and event.parent_call_id is None:
            self.last_text = event.text
        if message.text != event.text:
            self._differs = True
        if event.parts:
            value = {"messageId": message.id, "parts": event.parts}
            yield core.CustomEvent(name="flowloom.files", value=value, **_tag(message.subagent))
        yield from self._corrected()

    def _think(self, message: Message, text: str) -> Iterator[Any]:
        behind = _tag(message.subagent)
        message.thoughts += text
        if not message.thinks:
            message.thinks = True
            yield core.ReasoningStartEvent(message_id=message.thoughts_id, **behind)
            yield core.ReasoningMessageStartEvent(message_id=message.thoughts_id, role="reasoning", **behind)
        yield core.ReasoningMessageContentEvent(message_id=message.thoughts_id, delta=text, **behind)

    def _say(self, message: Message, text: str) -> Iterator[Any]:
        behind = _tag(message.subagent)
        yield from self._end_thoughts(message)
        if not message.is_open:
            message.is_open = True
            self._history.open(message.id, message.author, message.subagent)
            yield core.TextMessageStartEvent(message_id=message.id, role="assistant", name=message.author, **behind)
        message.text += text
        yield core.TextMessageContentEvent(message_id=message.id, delta=text, **behind)

    def _end_message(self, message: Message) -> Iterator[Any]:
        yield from self._end_thoughts(message)
        if message.is_open:
            message.is_open = False
            yield core.TextMessageEndEvent(message_id=message.id)

    def _end_thoughts(self, message: Message) -> Iterator[Any]:
        if message.thinks:
            message.thinks = False
            yield core.ReasoningMessageEndEvent(message_id=message.thoughts_id)
            yield core.ReasoningEndEvent(message_id=message.thoughts_id)

    def _corrected(self) -> Iterator[Any]:
        """All messages, if the page has been told what does not count: as soon as none is open."""
        if self._differs and not self._messages and all(call.args_told for call in self.calls.values()):
            self._differs = False
            yield self._history.snapshot()

    def _encrypted(self, kind: Any, entity: str, value: str, subagent: str | None) -> Any:
        return core.ReasoningEncryptedValueEvent(
            subtype=kind, entity_id=entity, encrypted_value=value, **_tag(subagent)
        )

    # -- calls -----------------------------------------------------------------------------------

    def call_started(self, event: ToolCallStarted) -> Iterator[Any]:
        """A call begins, unless the page has it: of an earlier run, or of one that was resumed."""
        if event.call_id in self.calls:
            return
        subagent = self._agents.whose(event.agent, event.branch, event.parent_call_id)
        call = self.calls[event.call_id] = Call(event, subagent)
        self._agents.calls(call.id, subagent)
        call.args_told = self._history.knows_call(call.id)
        if call.args_told:
            return
        carrier = self._carriers.setdefault(call.speaker, call.id)
        self._history.called(call.id, call.name, carrier, subagent)
        yield core.ToolCallStartEvent(
            tool_call_id=call.id, tool_call_name=call.name, parent_message_id=carrier, **_tag(subagent)
        )

    def args_piece(self, event: ToolCallArgumentsDelta) -> Iterator[Any]:
        """A piece of the JSON text of a call's arguments. Pieces by path make none: those are told at the end."""
        call = self.calls.get(event.call_id)
        if call is not None and not call.args_told and event.path == "$" and isinstance(event.value, str):
            call.pieces += event.value
            yield core.ToolCallArgsEvent(tool_call_id=call.id, delta=event.value)

    def args_known(self, event: ToolCallArgumentsCompleted) -> Iterator[Any]:
        """The arguments of a call as a whole."""
        call = self.calls.get(event.call_id)
        if call is None:
            return
        if not call.args_told:
            yield from self._end_call(call, event.args)
        if event.signature is not None:
            yield self._encrypted("tool-call", call.id, event.signature, call.subagent)
        yield from self._corrected()

    def _end_call(self, call: Call, args: dict[str, Any]) -> Iterator[Any]:
        call.args_told = True
        self._carriers.pop(call.speaker, None)
        text = as_json(args)
        if not call.pieces:
            yield core.ToolCallArgsEvent(tool_call_id=call.id, delta=text)
        yield core.ToolCallEndEvent(tool_call_id=call.id)
        self._history.with_args(call.id, text)
        if call.pieces and as_data(call.pieces) != args:
            self._differs = True

    def call_finished(self, event: ToolCallFinished) -> Iterator[Any]:
        """The result of a call."""
        call = self.calls.get(event.call_id)
        if call is None:
            return
        if not call.args_told:
            yield from self._end_call(call, as_data(call.pieces) or {})
        call.finished = True
        content = as_json({"error": event.error} if event.error is not None else event.result)
        message_id = f"{call.id}-result"
        self._history.answered(message_id, call.id, content, call.subagent)
        yield core.ToolCallResultEvent(
            message_id=message_id, tool_call_id=call.id, content=content, role="tool", **_tag(call.subagent)
        )
        yield from self._corrected()

    def progress(self, event: ToolCallProgress) -> Iterator[Any]:
        """How far a call is."""
        call = self.calls.get(event.call_id)
        yield core.ActivitySnapshotEvent(
            message_id=f"{event.call_id}-progress",
            activity_type="tool_progress",
            content={"toolCallId": event.call_id, "name": event.name, **event.result},
            replace=True,
            **_tag(call.subagent if call is not None else None),
        )


def _tag(subagent: str | None) -> dict[str, Any]:
    """The field of an event that says which agent behind a call it is of."""
    return {} if subagent is None else {"subagent_run_id": subagent}
