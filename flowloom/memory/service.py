"""The memory service protocol (spec §20.2)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import TYPE_CHECKING

from flowloom.errors import NotSupportedError
from flowloom.events.event import Event
from flowloom.objects.service import Service

if TYPE_CHECKING:
    from flowloom.memory.entries import MemoryEntry, Metadata, SearchMemoryResponse
    from flowloom.sessions import Session


class BaseMemoryService(Service, ABC):
    """Remembers what was said, by `app_name` and `user_id`, and finds it again.

    A service implements `add_session_to_memory` and `search_memory`. The other methods raise `NotSupportedError` unless
    it overrides them.
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
