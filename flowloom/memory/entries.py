"""What all memory services agree on: which events are remembered, how, and by which words they are found."""

from __future__ import annotations

import copy
import datetime
import unicodedata
from collections.abc import Mapping, Sequence
from typing import Any

from google.genai import types
from pydantic import Field

from flowloom.errors import InputValidationError
from flowloom.events.event import Event
from flowloom.events.ids import new_id
from flowloom.events.wire import WireModel

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


def words_of(text: str) -> frozenset[str]:
    """The words of `text`, in lower case: runs of letters, digits and marks of any script.

    Ideographs are not set apart by spaces, so each counts as a word.
    """
    return frozenset("".join(map(_spaced, unicodedata.normalize("NFKC", text).casefold())).split())


def text_of(content: types.Content) -> str:
    """What is said aloud: the text, without thoughts."""
    return " ".join(part.text for part in content.parts or () if part.text and not part.thought).strip()


def is_memorable(event: Event) -> bool:
    """Whether an event is remembered: it is whole, and says something."""
    return not event.partial and event.content is not None and bool(text_of(event.content))


def entry_of(event: Event, custom_metadata: Metadata) -> MemoryEntry:
    """The memory of a memorable event. What is in it is the event's own."""
    assert event.content is not None
    return MemoryEntry(
        id=event.id,
        content=event.content,
        author=event.author,
        timestamp=datetime.datetime.fromtimestamp(event.timestamp, datetime.UTC).isoformat(),
        custom_metadata={**(event.custom_metadata or {}), **(custom_metadata or {})},
    )


def own_entries(memories: Sequence[MemoryEntry], custom_metadata: Metadata) -> list[MemoryEntry]:
    """Independent copies, each with an id and the metadata.

    Raises `InputValidationError` for an entry without text, which no search could find.
    """
    if not all(text_of(memory.content) for memory in memories):
        raise InputValidationError("A memory has no text, so it could never be found. Give it a text part.")
    entries = [memory.model_copy(deep=True, update={"id": memory.id or new_id()}) for memory in memories]
    for entry in entries:
        entry.custom_metadata |= copy.deepcopy(dict(custom_metadata or {}))
    return entries


def check_owner(app_name: str, user_id: str) -> None:
    """Raises `InputValidationError` for a memory that would be nobody's."""
    if not app_name or not user_id:
        raise InputValidationError("A memory needs an app name and a user id; one of them is empty.")


def _spaced(char: str) -> str:
    if "\u3400" <= char <= "\u9fff":
        return f" {char} "
    # Marks are no letters, but parts of them: Indic vowel signs, Arabic vowels.
    return char if char.isalnum() or unicodedata.category(char) in ("Mn", "Mc") else " "
