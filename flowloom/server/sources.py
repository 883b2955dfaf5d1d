"""Whether the sources of agents have changed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

_SOURCES = (".py", ".yaml", ".yml")


def stamp_of(path: Path) -> int:
    """A number that is another one when a source at or below a path is: hidden folders are left out."""
    return hash(tuple(sorted(_states(path))))


def _states(path: Path) -> Iterator[tuple[str, int, int]]:
    files = [path] if path.is_file() else _sources_in(path)
    for file in files:
        try:
            state = file.stat()
        except OSError:  # deleted meanwhile
            continue
        yield str(file), state.st_mtime_ns, state.st_size


def _sources_in(folder: Path) -> Iterator[Path]:
    for above, folders, files in os.walk(folder):
        folders[:] = [each for each in folders if not each.startswith(".") and each != "__pycache__"]
        yield from (Path(above, file) for file in files if file.endswith(_SOURCES))
