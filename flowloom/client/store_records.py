"""What an `EventStore` puts together from the events of a session."""

from __future__ import annotations

from collections import OrderedDict
from dataclasses import dataclass, field, fields
from typing import Any, Generic, Literal, NamedTuple, Self, TypeVar, cast

KeyT = TypeVar("KeyT")
ValueT = TypeVar("ValueT")
MessageStatus = Literal["streaming", "complete", "interrupted", "failed"]
_PIECES = 1024


class Bounded(OrderedDict[KeyT, ValueT], Generic[KeyT, ValueT]):
    """A dict that keeps its latest `size` entries."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self.size = size

    def __setitem__(self, key: KeyT, value: ValueT) -> None:
        super().__setitem__(key, value)
        if len(self) > self.size:
            self.popitem(last=False)


class GrowingText:
    """Text that comes in pieces; adding one costs what the piece costs."""

    __slots__ = ("_pieces",)

    def __init__(self, text: str = "") -> None:
        self._pieces = [text] if text else []

    def add(self, piece: str) -> None:
        """Put a piece at the end."""
        self._pieces.append(piece)
        if len(self._pieces) > _PIECES:
            self._pieces = [str(self)]

    def __str__(self) -> str:
        if len(self._pieces) > 1:
            self._pieces = ["".join(self._pieces)]
        return self._pieces[0] if self._pieces else ""

    def __bool__(self) -> bool:
        return bool(self._pieces)


class Record:
    """What all records can: become JSON data and come back."""

    def to_dict(self) -> dict[str, Any]:
        """The fields as JSON data."""
        return {each.name: getattr(self, each.name) for each in fields(cast(Any, self))}

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The record of such data; fields that this release does not know are left out."""
        names = {each.name for each in fields(cast(Any, cls))}
        return cls(**{name: value for name, value in data.items() if name in names})


@dataclass
class Totals(Record):
    """How many of everything came, also of what is not kept any more."""

    events: int = 0
    partials: int = 0
    """Of the events, those that were partial."""
    duplicates: int = 0
    """Events that came again; they are not among the events."""
    messages: int = 0
    calls: int = 0
    responses: int = 0
    transfers: int = 0
    sources: int = 0
    errors: int = 0


class Message:
    """What an author said in one go: partial events and the complete one that follows them.

    `status` is `streaming` while partial events come, then `complete`; `interrupted` or `failed` if the complete one
    never came. What had come by then is kept.
    """

    def __init__(
        self,
        author: str,
        *,
        branch: str | None = None,
        invocation_id: str = "",
        event_id: str = "",
        timestamp: float = 0.0,
        status: MessageStatus = "streaming",
        text: str = "",
        thoughts: str = "",
    ) -> None:
        self.author = author
        self.branch = branch
        self.invocation_id = invocation_id
        self.event_id = event_id
        """Of the last event that it was put together from."""
        self.timestamp = timestamp
        """When it began, in epoch seconds."""
        self.status: MessageStatus = status
        self._text = GrowingText(text)
        self._thoughts = GrowingText(thoughts)

    @property
    def text(self) -> str:
        """What was said, thoughts left out."""
        return str(self._text)

    @property
    def thoughts(self) -> str:
        """What was thought."""
        return str(self._thoughts)

    def __repr__(self) -> str:
        return f"Message({self.author!r}, {self.text[:40]!r}, {self.status})"

    def add(self, text: str, thoughts: str) -> None:
        """Put the text of a partial event at the end."""
        if text:
            self._text.add(text)
        if thoughts:
            self._thoughts.add(thoughts)

    def settle(self, text: str, thoughts: str) -> None:
        """Take the text of the complete event in place of the pieces. What it does not repeat stays."""
        if text:
            self._text = GrowingText(text)
        if thoughts:
            self._thoughts = GrowingText(thoughts)

    def to_dict(self) -> dict[str, Any]:
        """As JSON data."""
        return {
            "author": self.author,
            "branch": self.branch,
            "invocation_id": self.invocation_id,
            "event_id": self.event_id,
            "timestamp": self.timestamp,
            "status": self.status,
            "text": self.text,
            "thoughts": self.thoughts,
        }

    @classmethod
    def from_dict(cls, data: dict[str, Any]) -> Self:
        """The message of such data."""
        return cls(**data)


class Thought(NamedTuple):
    """What an agent thought before, or while, it said something."""

    author: str
    text: str


@dataclass
class CallRecord(Record):
    """A function call and what came back."""

    id: str
    name: str = ""
    args: dict[str, Any] | None = None
    """None for a response whose call did not come, or is not kept any more."""
    author: str = ""
    branch: str | None = None
    invocation_id: str = ""
    timestamp: float = 0.0
    long_running: bool = False
    responses: int = 0
    """How many came: a long-running call may have several."""
    response: dict[str, Any] | None = None
    """The latest one."""
    responded_at: float | None = None

    @property
    def answered(self) -> bool:
        """Whether a response came."""
        return self.responses > 0


@dataclass
class TimelineEntry(Record):
    """A time in which one agent (or the user) was heard in a branch, or a hand-over of the conversation."""

    kind: Literal["agent", "transfer"]
    agent: str
    branch: str | None
    invocation_id: str
    timestamp: float
    until: float
    """The time of the last event."""
    events: int = 1
    to: str | None = None
    """Of a transfer: the agent that the conversation went to."""


@dataclass
class ErrorRecord(Record):
    """An error that came in the stream."""

    message: str
    code: str | None = None
    author: str = ""
    invocation_id: str = ""
    timestamp: float = 0.0
    partial_text: str = ""
    """What had been said when it came; its message has it too."""
    details: dict[str, Any] = field(default_factory=dict[str, Any])
