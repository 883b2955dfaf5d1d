"""The memory service protocol (spec §20.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from google.genai import types
from pydantic import Field

from flowloom.errors import NotSupportedError
from flowloom.events.event import Event
from flowloom.events.wire import WireModel
from flowloom.objects.service import Service

if TYPE_CHECKING:
    from flowloom.sessions import Session

Metadata = Mapping[str, Any] | None
"""What an application notes beside a memory."""


class MemoryEntry(WireModel):
    """One thing that is remembered."""

    content: types.Content
    custom_metadata: dict[str, Any] = Field(default_factory=dict)
    id: str | None = None
    """What `delete_memory` takes. A service gives one to an entry that comes without."""
    author: str | None = None
    """Who said it: `user` or an agent's name."""
    timestamp: str | None = None
    """When it was said, in ISO 8601."""


class SearchMemoryResponse(WireModel):
    """What a search found, best match first."""

    memories: list[MemoryEntry] = Field(default_factory=list[MemoryEntry])


class BaseMemoryService(Service, ABC):
    """Remembers what was said, by `app_name` and `user_id`, and finds it again.

    A service implements adding a session and searching. The rest raises `NotSupportedError` unless it does that too.
    """

    @abstractmethod
    async def add_session_to_memory(self, session: Session) -> None:
        """Remember the events of `session`. Adding it again, after further turns, adds only what is new."""

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Metadata = None,
    ) -> None:
        """Remember the `events` of the session `session_id`, such as those of the latest turn, with `custom_metadata`
        on each. Raises `NotSupportedError` unless the service can.
        """
        raise NotSupportedError(f"{type(self).__name__} cannot add single events. Use `add_session_to_memory`.")

    async def add_memory(
        self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry], custom_metadata: Metadata = None
    ) -> None:
        """Remember `memories` that were written elsewhere, with `custom_metadata` added to each. Raises
        `NotSupportedError` unless the service can."""
        raise NotSupportedError(f"{type(self).__name__} cannot add entries. Use `add_session_to_memory`.")

    @abstractmethod
    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        """What is remembered of this user that fits `query`, best match first."""

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        """Forget the entry with the id `memory_id`. Forgetting what is not remembered is fine. Raises
        `NotSupportedError` unless the service can."""
        raise NotSupportedError(f"{type(self).__name__} cannot delete memories.")
