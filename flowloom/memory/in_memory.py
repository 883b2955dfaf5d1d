"""`InMemoryMemoryService`: memories that live as long as the process, found by shared words (spec §20.2)."""

from __future__ import annotations

import copy
import datetime
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from google.genai import types

from flowloom.errors import InputValidationError
from flowloom.events.event import Event
from flowloom.events.ids import new_id
from flowloom.events.wire import shallow_copy
from flowloom.memory.service import BaseMemoryService, MemoryEntry, SearchMemoryResponse
from flowloom.models.contents import copy_content

if TYPE_CHECKING:
    from flowloom.sessions import Session


@dataclass(slots=True)
class _Remembered:
    entry: MemoryEntry
    words: frozenset[str]


@dataclass(slots=True)
class _UserMemory:
    entries: list[_Remembered] = field(default_factory=list[_Remembered])
    seen: set[tuple[str | None, str]] = field(default_factory=set[tuple[str | None, str]])
    """Session and event ids of what was remembered. Outlives a deleted entry: what was forgotten stays forgotten."""


class InMemoryMemoryService(BaseMemoryService):
    """Keeps memories in lists and finds them by the words that they share with the query.

    Words are compared in lower case, in any script; the entry that shares the most words comes first, and of
    equals the one that was remembered first. Partial events and events without text are not remembered, nor are a
    model's thoughts. Every operation is atomic within an event loop.
    """

    def __init__(self) -> None:
        self._users: dict[tuple[str, str], _UserMemory] = {}

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
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        memory = self._of(app_name, user_id)
        for event in events:
            text = "" if event.partial or event.content is None else _text_of(event.content)
            # Events written by hand may have no id; what they say tells them apart.
            identity = (session_id, event.id or f"{event.timestamp} {event.author} {text}")
            if not text or identity in memory.seen:
                continue
            memory.seen.add(identity)
            entry = MemoryEntry.unvalidated(
                {
                    "id": event.id or new_id(),
                    "content": event.content,
                    "author": event.author,
                    "timestamp": datetime.datetime.fromtimestamp(event.timestamp, datetime.UTC).isoformat(),
                    "custom_metadata": copy.deepcopy((event.custom_metadata or {}) | dict(custom_metadata or {})),
                }
            )
            memory.entries.append(_Remembered(entry, words_of(text)))

    async def add_memory(
        self,
        *,
        app_name: str,
        user_id: str,
        memories: Sequence[MemoryEntry],
        custom_metadata: Mapping[str, Any] | None = None,
    ) -> None:
        """Remember entries; one with the id of an entry that is there replaces it.

        Raises `InputValidationError` for an entry without text, which no search could find; none is added then.
        """
        added: list[_Remembered] = []
        for memory in memories:
            text = _text_of(memory.content)
            if not text:
                raise InputValidationError("A memory has no text, so it could never be found. Give it a text part.")
            entry = _copy(memory)
            entry.id = memory.id or new_id()
            entry.custom_metadata |= copy.deepcopy(dict(custom_metadata or {}))
            added.append(_Remembered(entry, words_of(text)))
        entries = self._of(app_name, user_id).entries
        places = {remembered.entry.id: index for index, remembered in enumerate(entries)}
        for remembered in added:
            index = places.setdefault(remembered.entry.id, len(entries))
            entries[index : index + 1] = [remembered]

    async def search_memory(self, *, app_name: str, user_id: str, query: str) -> SearchMemoryResponse:
        memory = self._users.get((app_name, user_id))
        wanted = words_of(query)
        if memory is None or not wanted:
            return SearchMemoryResponse()
        scored = [(len(wanted & remembered.words), remembered.entry) for remembered in memory.entries]
        found = sorted((pair for pair in scored if pair[0]), key=lambda pair: -pair[0])
        return SearchMemoryResponse.unvalidated({"memories": [_copy(entry) for _, entry in found]})

    async def delete_memory(self, *, app_name: str, user_id: str, memory_id: str) -> None:
        """Forget the entries of that id. Adding their session again does not bring them back."""
        memory = self._users.get((app_name, user_id))
        if memory is not None:
            memory.entries = [remembered for remembered in memory.entries if remembered.entry.id != memory_id]

    async def delete_memories(self, *, app_name: str, user_id: str) -> None:
        """Forget everything about the user, also what was forgotten before."""
        self._users.pop((app_name, user_id), None)

    def _of(self, app_name: str, user_id: str) -> _UserMemory:
        if not app_name or not user_id:
            raise InputValidationError("A memory needs an app name and a user id; one of them is empty.")
        return self._users.setdefault((app_name, user_id), _UserMemory())


def words_of(text: str) -> frozenset[str]:
    """The words of `text`, in lower case: runs of letters, digits and marks of any script.

    Ideographs are not set apart by spaces, so each counts as a word.
    """
    spaced = "".join(map(_spaced, unicodedata.normalize("NFKC", text).casefold()))
    return frozenset(spaced.split())


def _spaced(char: str) -> str:
    if "\u3400" <= char <= "\u9fff":
        return f" {char} "
    # Marks are no letters, but parts of them: Indic vowel signs, Arabic vowels.
    return char if char.isalnum() or unicodedata.category(char) in ("Mn", "Mc") else " "


def _text_of(content: types.Content) -> str:
    return " ".join(part.text for part in content.parts or () if part.text and not part.thought).strip()


def _copy(entry: MemoryEntry) -> MemoryEntry:
    """An entry that may be changed without changing what is remembered."""
    new = shallow_copy(entry)
    new.content = copy_content(entry.content)
    new.custom_metadata = copy.deepcopy(entry.custom_metadata)
    return new
