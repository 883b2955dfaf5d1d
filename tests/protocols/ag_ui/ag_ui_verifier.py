"""The order of events that AG-UI's own client demands, as far as a server can break it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

BRACKETS = {
    "TEXT_MESSAGE": ("message", "messageId", "START", "CONTENT", "END"),
    "TOOL_CALL": ("call", "toolCallId", "START", "ARGS", "END"),
    "REASONING": ("span", "messageId", "START", "", "END"),
    "REASONING_MESSAGE": ("reasoning", "messageId", "START", "CONTENT", "END"),
    "STEP": ("step", "stepName", "STARTED", "", "FINISHED"),
    "SUBAGENT": ("subagent", "subagentRunId", "STARTED", "", "FINISHED ERROR"),
}


class Order:
    """Takes one event after the other; an event out of order is an `AssertionError`."""

    def __init__(self) -> None:
        self.begun = self.over = False
        self.open: set[tuple[str, Any]] = set()
        self.subagents: set[str] = set()
        self.owners: dict[tuple[str, str], str | None] = {}

    def take(self, event: Mapping[str, Any]) -> None:
        kind = event["type"]
        assert not self.over, f"{kind} after the end of the run"
        assert self.begun is not (kind == "RUN_STARTED"), (
            f"{kind} where the run has {'' if self.begun else 'not '}begun"
        )
        self.begun = True
        assert None not in event.values(), f"{kind} has a null: {event}"
        if kind == "RUN_FINISHED":
            assert not self.open, f"RUN_FINISHED with {self.open}"
            for interrupt in (event.get("outcome") or {}).get("interrupts") or ():
                assert interrupt.get("subagentRunId", "") is not None
        self.over = kind in ("RUN_FINISHED", "RUN_ERROR")
        family, _, step = kind.rpartition("_")
        if family in BRACKETS:
            self._bracketed(family, step, event)
        if kind == "TOOL_CALL_RESULT":
            self.owners["message", event["messageId"]] = event.get("subagentRunId")
        if kind == "MESSAGES_SNAPSHOT":
            self._replayed(event["messages"])
        if kind == "REASONING_ENCRYPTED_VALUE":
            whose = ["call"] if event["subtype"] == "tool-call" else ["message", "reasoning"]
            known = [each for each in whose if (each, event["entityId"]) in self.owners]
            if known:
                self._owned(known[0], event["entityId"], event)

    def _bracketed(self, family: str, step: str, event: Mapping[str, Any]) -> None:
        what, id_name, begins, goes_on, ends = BRACKETS[family]
        owner = event.get("subagentRunId") if what == "step" else None
        key = (what, (owner, event[id_name]) if what == "step" else event[id_name])
        if step == begins:
            assert key not in self.open, f"{event['type']} of {key}, which is open"
            self.open.add(key)
            if what == "subagent":
                self._subagent_begins(event)
            elif what != "step":
                self._begins(what, event[id_name], event)
        elif step in (goes_on, *ends.split()):
            assert key in self.open, f"{event['type']} of {key}, which is not open"
            if step != goes_on:
                self.open.discard(key)
            if what not in ("step", "subagent"):
                self._owned(what, event[id_name], event)

    def _subagent_begins(self, event: Mapping[str, Any]) -> None:
        assert event["subagentRunId"] not in self.subagents, "a subagent begins twice"
        self.subagents.add(event["subagentRunId"])
        assert event.get("parentSubagentRunId") in (None, *self.subagents), "a subagent of one that has not begun"

    def _begins(self, what: str, its_id: str, event: Mapping[str, Any]) -> None:
        bucket = "reasoning" if what == "span" else what
        inherited = ("message", event.get("parentMessageId"))
        tag = event.get("subagentRunId")
        if what == "call" and inherited in self.owners:
            assert tag in (None, self.owners[inherited]), f"the call {its_id} is not of its message's agent"
            tag = self.owners[inherited]
        if (bucket, its_id) in self.owners:
            self._owned(bucket, its_id, event)
        self.owners.setdefault((bucket, its_id), tag)

    def _owned(self, what: str, its_id: str, event: Mapping[str, Any]) -> None:
        bucket, tag = "reasoning" if what == "span" else what, event.get("subagentRunId")
        assert tag is None or self.owners.get((bucket, its_id)) == tag, f"{event['type']} of {its_id} has another owner"

    def _replayed(self, messages: Iterable[Mapping[str, Any]]) -> None:
        for message in messages:
            bucket = message["role"] if message["role"] == "reasoning" else "message"
            self.owners[bucket, message["id"]] = message.get("subagentRunId")
            for call in message.get("toolCalls") or ():
                self.owners["call", call["id"]] = message.get("subagentRunId")


def verify(events: Iterable[Mapping[str, Any]]) -> None:
    """A whole run, in order, with its end."""
    order = Order()
    for event in events:
        order.take(event)
    assert order.over, "the run has no end"
