"""What a docstring tells a model: about a function, and about each of its parameters."""

from __future__ import annotations

import re
import textwrap

# A section of Google's style: its header, and all lines below that are indented or empty.
_SECTION = re.compile(
    r"^(?:args|arguments|parameters|params|keyword args):[ \t]*\n((?:[ \t].*(?:\n|$)|\n)*)", re.I | re.M
)
_ITEM = re.compile(r"^\*{0,2}(\w+)[ \t]*(?:\(.*?\))?[ \t]*:(?=\s|$)(.*(?:\n+[ \t].*)*)", re.M)
_FIELD = re.compile(r"^:(param|type)[ \t]+(?:[^:\n]*[ \t])?\*{0,2}(\w+)[ \t]*:(.*(?:\n[ \t].*)*)\n?", re.M)  # reST


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """A docstring without its parameter descriptions, and those, by name (Google style and reST).

    `text` is without the indentation of the code, as `inspect.getdoc` gives it.
    """
    items = [item for section in _SECTION.findall(text) for item in _ITEM.findall(textwrap.dedent(section))]
    items += [(name, about) for kind, name, about in _FIELD.findall(text) if kind == "param"]
    prose = _FIELD.sub("", _SECTION.sub("\n", text))
    return re.sub(r"\n\s*\n\s*\n", "\n\n", prose).strip(), {name: " ".join(about.split()) for name, about in items}
