"""`InMemoryMemoryService`: memories that live as long as the process, found by shared words (spec §20.2)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from flowloom.events.event import Event
from flowloom.memory.service import BaseMemoryService
from flowloom.objects.on_use import ModuleOnUse

if TYPE_CHECKING:
    from flowloom.memory import entries as remembered
    from flowloom.memory.entries import MemoryEntry, Metadata, SearchMemoryResponse
    from flowloom.sessions import Session
else:
    remembered = ModuleOnUse("flowloom.memory.entries")

_Memories = dict[tuple[str | None, str], "tuple[MemoryEntry, frozenset[str]] | None"]
"""Entries and their words, by session and event id. A deleted entry leaves None: what was forgotten stays forgotten."""


class InMemoryMemoryService(BaseMemoryService):
    """Keeps memories in lists and finds them by the words that they share with the query.

    Words are compared in lower case, in any script; the entry that shares the most words comes first, and of
    equals the one that was remembered first. Partial events and events without text are not remembered, nor are a
    model's thoughts. Every operation is atomic within an event loop.
    """

    def __init__(self) -> None:
        self._users: dict[tuple[str, str], _Memories] = {}

    async def add_session_to_memory(self, session: Session) -> None:
        await self.add_events_to_memory(
            app_name=session.app_name, user_id=session.user_id, events=session.events, session_id=session.id
        )

    async def add_events_to_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        events: Sequence[Event],
        session_id: str | None = None,
        custom_metadata: Metadata = None,
    ) -> None:
        memories = self._of(app_name, user_id)
        for event in events:
            key = (session_id, event.id)
            if remembered.is_memorable(event) and key not in memories:
                entry = remembered.entry_of(event, custom_metadata)
                memories[key] = (entry.model_copy(deep=True), remembered.words_of(remembered.text_of(entry.content)))

    async def add_memory(
        self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry], custom_metadata: Metadata = None
    ) -> None:
        """Remember entries; one with the id of an entry that is there replaces it.

        Raises `InputValidationError` for an entry without text, which no search could find; none is added then.
        """
        entries = remembered.own_entries(memories, custom_metadata)
        held = self._of(app_name, user_id)
        for entry in entries:
            key = next((key for key in held if key[1] == entry.id), (None, str(entry.id)))
            held[key] = (entry, remembered.words_of(remembered.text_of(entry.content)))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        wanted = remembered.words_of(query)
        held = filter(None, self._users.get((app_name, user_id), {}).values())
        found = [(entry, len(wanted & words)) for entry, words in held if wanted & words]
        found.sort(key=lambda pair: -pair[1])
        return remembered.SearchMemoryResponse(memories=[entry.model_copy(deep=True) for entry, _ in found])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        """Forget the entries of that id. Adding their session again does not bring them back."""
        held = self._users.get((app_name, user_id), {})
        held.update({key: None for key in held if key[1] == memory_id})

    def _of(self, app_name: str, user_id: str) -> _Memories:
        remembered.check_owner(app_name, user_id)
        return self._users.setdefault((app_name, user_id), {})
