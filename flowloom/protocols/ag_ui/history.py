"""The messages of a thread as its page has them, kept in step with what the page is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from flowloom.protocols.ag_ui.sdk import core


class History:
    """The messages that the page has sent, and those that it makes of what it is told."""

    def __init__(self, messages: Sequence[Any]) -> None:
        self._messages = list(messages)
        self._by_id = {message.id: message for message in self._messages}
        self._calls: dict[str, Any] = {
            call.id: (message, call)
            for message in self._messages
            for call in getattr(message, "tool_calls", None) or ()
        }

    def knows_call(self, call_id: str) -> bool:
        """Whether the page has the call."""
        return call_id in self._calls

    def open(self, message_id: str, name: str | None, subagent: str | None) -> Any:
        """The message of an agent with that id, which begins unless it has begun."""
        message = self._by_id.get(message_id)
        if message is None:
            message = core.AssistantMessage(id=message_id, name=name, subagent_run_id=subagent)
            self._by_id[message_id] = message
            self._messages.append(message)
        return message

    def said(self, message_id: str, text: str) -> None:
        """What a message comes to."""
        self._by_id[message_id].content = text

    def called(self, call_id: str, name: str, message_id: str, subagent: str | None) -> None:
        """A call of the message with that id."""
        message = self.open(message_id, None, subagent)
        call = core.ToolCall(id=call_id, function=core.FunctionCall(name=name, arguments=""))
        message.tool_calls = [*(message.tool_calls or ()), call]
        self._calls[call_id] = (message, call)

    def with_args(self, call_id: str, arguments: str) -> None:
        """The arguments of a call."""
        self._calls[call_id][1].function.arguments = arguments

    def answered(self, message_id: str, call_id: str, content: str, subagent: str | None) -> None:
        """The result of a call: it stands behind the call's message, and other results of that."""
        result = core.ToolMessage(id=message_id, tool_call_id=call_id, content=content, subagent_run_id=subagent)
        place = len(self._messages)
        if call_id in self._calls:
            place = self._messages.index(self._calls[call_id][0]) + 1
            while place < len(self._messages) and self._messages[place].role == "tool":
                place += 1
        self._messages.insert(place, result)

    def snapshot(self) -> Any:
        """All messages, as an event."""
        return core.MessagesSnapshotEvent(messages=[*self._messages])
