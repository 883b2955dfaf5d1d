"""What is wrong with a file that describes an agent: all of it at once, each with its place."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from flowloom.errors import ConfigurationError, closest_of, quoted_list

KeyPath = tuple[str | int, ...]
"""The way to a value in a document: keys of mappings, and positions in lists."""


def shown(path: KeyPath) -> str:
    """A path as people write it: `tools[0].name`."""
    text = ""
    for part in path:
        text += f"[{part}]" if isinstance(part, int) else f".{part}" if text else str(part)
    return text


@dataclass(frozen=True, slots=True)
class ConfigProblem:
    """One thing that is wrong with a file (protocols spec §6)."""

    file: str
    """The file, as it was given, or as the file that includes it names it."""
    line: int
    """The line, from 1."""
    path: KeyPath
    """The way to the value: `("tools", 0, "name")`."""
    message: str
    """What was given there, why it cannot be, and what was probably meant."""

    def __str__(self) -> str:
        where = f" `{shown(self.path)}`:" if self.path else ""
        text = f"{self.file}:{self.line}:{where} {self.message}"
        return text.encode("utf-8", "backslashreplace").decode("utf-8")  # a file may hold half of a character


class ConfigFileError(ConfigurationError):
    """A file, or one that it includes, describes no agent. `problems` has all that is wrong, file by file."""

    def __init__(self, problems: Iterable[ConfigProblem]) -> None:
        self.problems = list(problems)
        super().__init__("\n".join(map(str, self.problems)))


def closest(name: str, names: Iterable[str]) -> str:
    """The end of a message about an unknown name: the nearest of those that there are, or all."""
    known = sorted(names)
    near = closest_of(name, known)
    if near is not None:
        return f"Did you mean `{near}`?"
    return f"There is {quoted_list(known[:12])}{', …' if len(known) > 12 else ''}."
