"""`Session`: one conversation's state and log."""

# no annotations as texts: pydantic would compile each of the fields' by itself

from typing import Any

from pydantic import ConfigDict, Field, SerializerFunctionWrapHandler, field_serializer, field_validator

from flowloom.events.event import Event
from flowloom.events.wire import WireModel
from flowloom.log.history import History
from flowloom.sessions.leases import Fence
from flowloom.sessions.shared_list import SharedList


class Session(WireModel):
    """A conversation: who, its state (all scopes merged), and its events in the order they were stored.

    A session object is a snapshot for one run. It changes through `append_event` of its service only.
    """

    model_config = ConfigDict(defer_build=True)

    id: str
    app_name: str = ""
    user_id: str = ""
    state: dict[str, Any] = Field(default_factory=dict)
    events: list[Event] = Field(default_factory=list[Event])
    """A list, or what reads and changes as one and shares its beginning with the store (`SharedList`)."""
    last_update_time: float = 0.0
    """Epoch seconds of the latest event."""

    __slots__ = ("_fence", "_history")  # beside the fields: not part of the session's data, and quick to get at

    @field_validator("events", mode="before")
    @classmethod
    def _read_shared(cls, events: Any) -> Any:
        return list(events) if isinstance(events, SharedList) else events  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]

    @field_serializer("events", mode="wrap")
    def _dump_shared(self, events: Any, handler: SerializerFunctionWrapHandler) -> Any:
        return handler(list(events))

    @property
    def history(self) -> History:
        """The projections of `events` that were built so far. They live and die with the session."""
        try:
            return self._history
        except AttributeError:
            self.share_history(History())
            return self._history

    @property
    def fence(self) -> Fence | None:
        """What keeps a run from writing that has lost the session; None for what belongs to no run."""
        try:
            return self._fence
        except AttributeError:
            return None

    def guard(self, fence: Fence | None) -> None:
        """Append for the run that has this `fence`, or with None for no run."""
        object.__setattr__(self, "_fence", fence)

    def share_history(self, history: History) -> None:
        """Go on with the projections of another snapshot of the same session."""
        object.__setattr__(self, "_history", history)
