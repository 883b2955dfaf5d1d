"""Where answers are kept: `MemoryStore`, `DirectoryStore`, or any mapping of texts."""

from __future__ import annotations

import os
import tempfile
import threading
from collections import OrderedDict
from pathlib import Path
from typing import Any, Protocol, Self, runtime_checkable

from flowloom.errors import ConfigurationError


@runtime_checkable
class CacheStore(Protocol):
    """What a store has to have: `get` and item assignment, as a dict has them. Keys are 64 hexadecimal digits."""

    def get(self, key: str, /) -> str | None:
        """The text of a key, or None."""
        ...

    def __setitem__(self, key: str, value: str, /) -> None: ...


class MemoryStore:
    """Keeps the texts that were asked for last, in this process. A copy of it is itself."""

    def __init__(self, max_entries: int) -> None:
        if max_entries < 1:
            raise ConfigurationError(f"A cache of {max_entries} entries keeps nothing; give 1 or more.")
        self._max_entries = max_entries
        self._entries: OrderedDict[str, str] = OrderedDict()
        self._lock = threading.Lock()

    def __deepcopy__(self, memo: dict[int, Any]) -> Self:
        return self

    def __len__(self) -> int:
        return len(self._entries)

    def get(self, key: str, /) -> str | None:
        with self._lock:
            text = self._entries.get(key)
            if text is not None:
                self._entries.move_to_end(key)
            return text

    def __setitem__(self, key: str, value: str, /) -> None:
        with self._lock:
            self._entries[key] = value
            self._entries.move_to_end(key)
            while len(self._entries) > self._max_entries:
                self._entries.popitem(last=False)


class DirectoryStore:
    """Keeps a file for each text below `path`, which is made when it is needed.

    A file is written beside its place and then moved there, so that other processes see it whole or not at all; of
    two that write the same, the later one stays. Nothing is deleted.
    """

    def __init__(self, path: str | Path) -> None:
        self.path = Path(path)

    def __repr__(self) -> str:
        return f"DirectoryStore({str(self.path)!r})"

    def get(self, key: str, /) -> str | None:
        try:
            return self._file(key).read_text(encoding="utf-8")
        except (FileNotFoundError, UnicodeDecodeError):
            return None

    def __setitem__(self, key: str, value: str, /) -> None:
        file = self._file(key)
        file.parent.mkdir(parents=True, exist_ok=True)
        handle, beside = tempfile.mkstemp(dir=file.parent, prefix=f".{key[:8]}-", suffix=".new")
        try:
            with os.fdopen(handle, "w", encoding="utf-8") as writing:
                writing.write(value)
            os.replace(beside, file)
        except BaseException:
            Path(beside).unlink(missing_ok=True)
            raise

    def _file(self, key: str) -> Path:
        return self.path / key[:2] / f"{key}.json"
