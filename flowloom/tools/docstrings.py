"""What a docstring tells a model: about a function, and about each of its parameters."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable
from dataclasses import is_dataclass
from typing import Any

_SECTION = re.compile(r"(args|arguments|parameters|params|keyword args|keyword arguments|other parameters):", re.I)
_ITEM = re.compile(r"\*{0,2}(\w+)\s*(?:\(.*?\))?\s*:(?:\s+(.*))?")
_FIELD = re.compile(r":(param|parameter|arg|argument|key|keyword|type)\s+(?:[^:]*\s)?\*{0,2}(\w+)\s*:\s*(.*)")


def documentation(func: Callable[..., Any]) -> tuple[str, dict[str, str]]:
    """What the docstring of a function, class, `partial` or callable object says: as a whole, and by parameter."""
    while isinstance(func, functools.partial):
        func = func.func
    if inspect.isclass(func):  # what it inherits is about another class
        texts = [vars(func).get("__doc__"), getattr(vars(func).get("__init__"), "__doc__", None)]
        if is_dataclass(func) and str(texts[0]).startswith(f"{func.__name__}("):
            del texts[0]  # the signature, which `dataclass` puts there
    elif inspect.isroutine(func) or hasattr(func, "__wrapped__"):
        texts = [inspect.getdoc(func)]
    else:
        texts = [inspect.getdoc(type(func).__call__), inspect.getdoc(type(func))]
    split = [split_docstring(inspect.cleandoc(text)) for text in texts if text]
    explained: dict[str, str] = {}
    for _, items in split:
        explained |= items
    return next((prose for prose, _ in split if prose), ""), explained


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """A docstring without its parameter descriptions, and those, by name (Google style and reST)."""
    prose: list[str] = []
    explained: dict[str, list[str]] = {}
    current: list[str] | None = None  # the description that is being read
    section: int | None = None  # indentation of the section header above; None outside
    depth = 0  # indentation of the items in it, or of the reST field
    for line in text.splitlines():
        words = line.strip()
        indent = len(line) - len(line.lstrip())
        if section is not None and (not words or indent > section):
            depth = depth or indent
            item = _ITEM.fullmatch(words) if indent <= depth else None
            if item is not None:
                current = explained.setdefault(item[1], [])
            if current is not None:
                current.append((item[2] or "") if item is not None else words)
            continue
        if section is None and current is not None and words and indent > depth:
            current.append(words)
            continue
        section = current = None
        if _SECTION.fullmatch(words):
            section, depth = indent, 0
        elif field := _FIELD.fullmatch(words):
            current, depth = [] if field[1] == "type" else explained.setdefault(field[2], []), indent
            current.append(field[3])
        else:
            prose.append(line)
    return (
        re.sub(r"\n\s*\n\s*\n", "\n\n", "\n".join(prose)).strip(),
        {name: " ".join(filter(None, lines)) for name, lines in explained.items()},
    )
