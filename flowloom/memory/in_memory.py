"""`InMemoryMemoryService`: memories that live as long as the process, found by shared words (spec §20.2)."""

from __future__ import annotations

import copy
import datetime
import unicodedata
from collections.abc import Sequence
from typing import TYPE_CHECKING

from google.genai import types

from flowloom.errors import InputValidationError
from flowloom.events.event import Event
from flowloom.events.ids import new_id
from flowloom.memory.service import BaseMemoryService, MemoryEntry, Metadata, SearchMemoryResponse

if TYPE_CHECKING:
    from flowloom.sessions import Session

_Memories = dict[tuple[str | None, str], tuple[MemoryEntry, frozenset[str]] | None]
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
            if event.partial or event.content is None or not _text_of(event.content) or key in memories:
                continue
            entry = MemoryEntry(
                id=event.id,
                content=event.content,
                author=event.author,
                timestamp=datetime.datetime.fromtimestamp(event.timestamp, datetime.UTC).isoformat(),
                custom_metadata={**(event.custom_metadata or {}), **(custom_metadata or {})},
            )
            memories[key] = (entry.model_copy(deep=True), _words_of(_text_of(entry.content)))

    async def add_memory(
        self, *, app_name: str, user_id: str, memories: Sequence[MemoryEntry], custom_metadata: Metadata = None
    ) -> None:
        """Remember entries; one with the id of an entry that is there replaces it.

        Raises `InputValidationError` for an entry without text, which no search could find; none is added then.
        """
        if not all(_text_of(memory.content) for memory in memories):
            raise InputValidationError("A memory has no text, so it could never be found. Give it a text part.")
        held = self._of(app_name, user_id)
        for memory in memories:
            entry = memory.model_copy(deep=True, update={"id": memory.id or new_id()})
            entry.custom_metadata |= copy.deepcopy(dict(custom_metadata or {}))
            key = next((key for key in held if key[1] == entry.id), (None, str(entry.id)))
            held[key] = (entry, _words_of(_text_of(entry.content)))

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        wanted = _words_of(query)
        held = filter(None, self._users.get((app_name, user_id), {}).values())
        found = [(entry, len(wanted & words)) for entry, words in held if wanted & words]
        found.sort(key=lambda pair: -pair[1])
        return SearchMemoryResponse(memories=[entry.model_copy(deep=True) for entry, _ in found])

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        """Forget the entries of that id. Adding their session again does not bring them back."""
        held = self._users.get((app_name, user_id), {})
        held.update({key: None for key in held if key[1] == memory_id})

    def _of(self, app_name: str, user_id: str) -> _Memories:
        if not app_name or not user_id:
            raise InputValidationError("A memory needs an app name and a user id; one of them is empty.")
        return self._users.setdefault((app_name, user_id), {})


def _words_of(text: str) -> frozenset[str]:
    """The words of `text`, in lower case: runs of letters, digits and marks of any script.

    Ideographs are not set apart by spaces, so each counts as a word.
    """
    return frozenset("".join(map(_spaced, unicodedata.normalize("NFKC", text).casefold())).split())


def _spaced(char: str) -> str:
    if "\u3400" <= char <= "\u9fff":
        return f" {char} "
    # Marks are no letters, but parts of them: Indic vowel signs, Arabic vowels.
    return char if char.isalnum() or unicodedata.category(char) in ("Mn", "Mc") else " "


def _text_of(content: types.Content) -> str:
    return " ".join(part.text for part in content.parts or () if part.text and not part.thought).strip()
