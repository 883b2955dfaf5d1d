"""What a docstring tells a model: about a function, and about each of its parameters."""

from __future__ import annotations

import re
import textwrap
from collections.abc import Iterator
from importlib import import_module
from typing import Any

# A section of Google's style: its header, and all lines below that are indented or empty.
_SECTION = re.compile(
    r"^(?:args|arguments|parameters|params|keyword args|keyword arguments):[ \t]*\n((?:[ \t].*(?:\n|$)|\n)*)",
    re.I | re.M,
)
_ITEM = re.compile(r"^\*{0,2}(\w+)[ \t]*(?:\(.*?\))?[ \t]*:(?=\s|$)(.*(?:\n+[ \t].*)*)", re.M)
# A field of reST (`:param x:`) or of epydoc (`@param x:`).
_FIELD = re.compile(
    r"^[:@](param|parameter|arg|argument|key|keyword|type)[ \t]+(?:[^:\n]*[ \t])?\*{0,2}(\w+)[ \t]*:"
    r"(.*(?:\n[ \t].*)*)\n?",
    re.M,
)
# A section of NumPy's style: its underlined header, and all lines up to the next one.
_UNDERLINED = r"[^\W\d][\w ]*\n-{3,}[ \t]*(?:\n|$)"
_NUMPY = re.compile(
    rf"^(?:Other )?Parameters[ \t]*\n-{{3,}}[ \t]*\n(?:(?!^{_UNDERLINED}).*(?:\n|$))*?(?=^{_UNDERLINED}|\Z)", re.M
)


def split_docstring(text: str) -> tuple[str, dict[str, str]]:
    """A docstring without its parameter descriptions, and those, by name (Google, NumPy, reST and epydoc style).

    `text` is without the indentation of the code, as `inspect.getdoc` gives it.
    """
    items = [item for section in _SECTION.findall(text) for item in _ITEM.findall(textwrap.dedent(section))]
    items += [(name, about) for kind, name, about in _FIELD.findall(text) if kind != "type"]
    prose = _FIELD.sub("", _SECTION.sub("\n", text))
    if "\n---" in prose:
        items += [item for section in _NUMPY.findall(prose) for item in _numpy_items(section)]
        prose = _NUMPY.sub("\n", prose)
    return re.sub(r"\n\s*\n\s*\n", "\n\n", prose).strip(), {name: " ".join(about.split()) for name, about in items}


def _numpy_items(section: str) -> Iterator[tuple[str, str]]:
    """The parameters of a section; the parser is loaded by the first function that has one."""
    parser: Any = import_module("docstring_parser")
    for parameter in parser.parse(section, style=parser.DocstringStyle.NUMPYDOC).params:
        for name in parameter.arg_name.split(","):
            yield name.strip(" *"), parameter.description or ""
