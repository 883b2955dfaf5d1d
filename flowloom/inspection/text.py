"""The readable form of sections, and reading it again.

A section is a line with its path (and its author), then its leaves, one to a line; longer texts stand in blocks::

    config.system_instruction[0]  ← instructions
      | Answer in one sentence.
    contents[0]  ← contents
      parts[0].text = "How warm is it?"
      role = "user"
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from typing import Any, TypeGuard, cast

from flowloom.errors import InputValidationError
from flowloom.inspection.canonical import Data
from flowloom.inspection.sections import Section

_ARROW = "  ← "
_LONG = 90
_ESCAPED = re.compile("[←\ud800-\udfff]")
"""What is no part of a line, and the halves of characters, which no file can hold."""
_NAME = re.compile(r"[A-Za-z_][\w-]*\Z")
_STEP = re.compile(r'\.?([A-Za-z_][\w-]*)|\[(\d+)\]|\[("(?:[^"\\]|\\.)*")\]')


def write_sections(sections: Iterable[Section]) -> str:
    """The `sections` as text that `read_sections` reads back."""
    return "\n".join(line for section in sections for line in _lines(section))


def read_sections(text: str) -> list[Section]:
    """Sections as they were before `write_sections` made `text` of them. Lines that begin with `#` are comments.

    Raises `InputValidationError` with the number of the line that is none of the form.
    """
    sections: list[Section] = []
    root: Any = None
    head: tuple[str, str | None] | None = None
    leaf: tuple[list[str | int], list[str]] | None = None

    def close_leaf() -> None:
        nonlocal root, leaf
        if leaf is not None:
            root = _put(root, leaf[0], "\n".join(leaf[1]))
            leaf = None

    def close_section() -> None:
        nonlocal root
        close_leaf()
        if head is not None:
            sections.append(Section(head[0], root, head[1]))
        root = None

    # not `splitlines`: a text may hold other line breaks than the newline
    for number, line in enumerate(text.split("\n"), 1):
        if line.startswith("#") or not line:
            continue
        try:
            if not line.startswith("  "):
                close_section()
                path, value, by = _read_line(line)
                head, root = (path, by), value
                continue
            body = line.lstrip(" ")
            if body.startswith("|"):
                leaf = leaf or ([], [])
                leaf[1].append(body[2:])
                continue
            close_leaf()
            path, value, _ = _read_line(line[2:])
            steps = _steps(path)
            if value is None and " = " not in line:
                leaf = steps, []
            else:
                root = _put(root, steps, value)
        except (ValueError, LookupError, TypeError) as error:
            raise InputValidationError(
                f"Line {number} is no part of a written request: {line!r}. {error} Write the snapshot again."
            ) from error
    close_section()
    return sections


def _lines(section: Section) -> Iterator[str]:
    author = f"{_ARROW}{section.by}" if section.by else ""
    value = section.value
    if isinstance(value, dict | list) and value:
        yield section.path + author
        for path, leaf in _leaves(cast(Any, value), ""):
            yield from _leaf_lines(path.lstrip("."), leaf, "  ")
    elif _wants_block(value):
        yield section.path + author
        yield from _block(value, "  ")
    else:
        yield f"{section.path} = {_json(value)}{author}"


def _leaf_lines(path: str, value: Data, indent: str) -> Iterator[str]:
    if _wants_block(value):
        yield indent + path
        yield from _block(value, indent * 2)
    else:
        yield f"{indent}{path} = {_json(value)}"


def _leaves(value: Data, path: str) -> Iterator[tuple[str, Data]]:
    if isinstance(value, dict) and value:
        for key, item in cast(dict[str, Data], value).items():
            yield from _leaves(item, f"{path}.{key}" if _NAME.match(key) else f"{path}[{_json(key)}]")
    elif isinstance(value, list) and value:
        for index, item in enumerate(cast(list[Data], value)):
            yield from _leaves(item, f"{path}[{index}]")
    else:
        yield path, value


def _wants_block(value: Data) -> TypeGuard[str]:
    if not isinstance(value, str) or ("\n" not in value and len(value) <= _LONG):
        return False
    return all(character.isprintable() or character in "\n\t" for character in value)


def _block(text: str, indent: str) -> Iterator[str]:
    for line in text.split("\n"):
        yield f"{indent}| {line}" if line else f"{indent}|"


def _json(value: Data) -> str:
    return _ESCAPED.sub(lambda found: f"\\u{ord(found[0]):04x}", json.dumps(value, ensure_ascii=False))


def _read_line(line: str) -> tuple[str, Data, str | None]:
    rest, _, by = line.partition(_ARROW)
    match = re.match(r'(?:\[(?:"(?:[^"\\]|\\.)*"|[^\]]*)\]|[^\s\[=])+', rest)
    if match is None:
        raise ValueError("A line begins with a path.")
    tail = rest[match.end() :]
    if not tail:
        return match[0], None, by or None
    if not tail.startswith(" = "):
        raise ValueError("A path is followed by ` = ` and a value, or by nothing.")
    return match[0], json.loads(tail[3:]), by or None


def _steps(path: str) -> list[str | int]:
    steps: list[str | int] = []
    at = 0
    while at < len(path):
        found = _STEP.match(path, at)
        if found is None:
            raise ValueError(f"`{path}` is no path.")
        name, index, quoted = found.groups()
        steps.append(name if name is not None else int(index) if index is not None else json.loads(quoted))
        at = found.end()
    return steps


def _put(root: Any, steps: list[str | int], value: Data) -> Any:
    """The tree with a leaf more."""
    if not steps:
        return value
    step, *below = steps
    if isinstance(step, int):
        entries: list[Any] = [] if root is None else root
        if step == len(entries):
            entries.append(None)
        entries[step] = _put(entries[step], below, value)
        return entries
    fields: dict[str, Any] = {} if root is None else root
    fields[step] = _put(fields.get(step), below, value)
    return fields
