"""`Pins`: descriptions of tools as a person has seen them (protocols spec §1, Security)."""

from __future__ import annotations

import difflib
import hashlib
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from flowloom.errors import ConfigurationError
from flowloom.protocols.words import cleaned


class Pins:
    """What each tool looked like at first sight; kept in the lock file at `path`, or in memory without one.

    Raises `ConfigurationError` for a file that cannot be read, or later not be written.
    """

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._known: dict[str, dict[str, Any]] | None = None
        if path is not None and path.exists():
            try:
                held: Any = json.loads(path.read_text(encoding="utf-8"))["tools"]
                self._known = {name: dict(each["description"]) for name, each in held.items()}
            except (OSError, ValueError, KeyError, TypeError, AttributeError) as error:
                raise ConfigurationError(f"The lock file {path} of pinned tools cannot be read: {error}.") from error

    def changes(self, tools: Sequence[Any]) -> dict[str, str]:
        """How tools differ from what was seen, by name; those seen first are kept, if none was before."""
        now = {tool.name: _description_of(tool) for tool in tools}
        if self._known is None:
            self._known = now
            self._save()
            return {}
        known = self._known
        return {name: _difference(known.get(name), each) for name, each in now.items() if known.get(name) != each}

    def accept(self, tool: Any) -> None:
        """A person has confirmed what a tool looks like now."""
        known = self._known = self._known or {}
        known[tool.name] = _description_of(tool)
        self._save()

    def _save(self) -> None:
        if self._path is None:
            return
        held = {
            name: {"sha256": hashlib.sha256(_text_of(each).encode()).hexdigest(), "description": each}
            for name, each in sorted((self._known or {}).items())
        }
        try:
            self._path.write_text(json.dumps({"tools": held}, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
        except OSError as error:
            raise ConfigurationError(
                f"The lock file {self._path} of pinned tools cannot be written: {error}."
            ) from error


def _description_of(tool: Any) -> dict[str, Any]:
    """All by which a tool presents itself."""
    given = cast(dict[str, Any], tool.model_dump(mode="json", by_alias=True, exclude_none=True))
    names = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
    return {name: given[name] for name in names if name in given}


def _text_of(description: dict[str, Any] | None) -> str:
    return "" if description is None else json.dumps(description, indent=2, sort_keys=True, ensure_ascii=False)


def _difference(before: dict[str, Any] | None, now: dict[str, Any]) -> str:
    old, new = cleaned(_text_of(before)).splitlines(), cleaned(_text_of(now)).splitlines()
    return "\n".join(difflib.unified_diff(old, new, "seen before", "now", lineterm=""))
