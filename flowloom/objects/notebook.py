"""How things show themselves where code is tried out: in lines, and as tables in a notebook."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

LINE = 120
"""How many characters a `repr` has at most."""
CELL = 2000
"""How many characters of a text a table shows."""

_ESCAPES = str.maketrans({"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;"})
_TABLE = '<table style="text-align:left">'
_TEXT = '<td style="text-align:left;vertical-align:top;white-space:pre-wrap;overflow-wrap:anywhere">'


def clipped(text: str, most: int) -> str:
    """A text of at most `most` characters."""
    return text if len(text) <= most else text[: most - 1] + "…"


def quoted(text: str, most: int = 60) -> str:
    """A text in quotes, on one line, and without characters that a terminal would obey."""
    return clipped(repr(" ".join(text[: 4 * most].split())), most)


def line(words: Iterable[str]) -> str:
    """The `repr` of an object of which `words` are told: one short line in angle brackets."""
    return f"<{clipped(' '.join(word for word in words if word), LINE - 2)}>"


def count(number: int, what: str) -> str:
    """A number with its noun, which takes an `s`."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def say(line: str) -> None:
    """Print a line; what the output's encoding does not have is told by its number, so that nothing fails for it."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    print(line.encode(encoding, "backslashreplace").decode(encoding))


def escaped(text: str) -> str:
    """A text as HTML."""
    return text.translate(_ESCAPES)


def table(title: str, rows: Iterable[Sequence[str]], head: Sequence[str] = ()) -> str:
    """A table in HTML. All texts are escaped, and long ones clipped."""
    lines = [f"<div><b>{escaped(title)}</b>{_TABLE}"]
    if head:
        lines.append(f"<tr>{''.join(f'<th>{escaped(each)}</th>' for each in head)}</tr>")
    lines += [f"<tr>{''.join(f'{_TEXT}{escaped(clipped(cell, CELL))}</td>' for cell in row)}</tr>" for row in rows]
    return "".join([*lines, "</table></div>"])


def framed(page: str) -> str:
    """An HTML page within another one, which neither has the other's styles nor may run scripts."""
    return f'<iframe sandbox srcdoc="{escaped(page)}" style="width:100%;height:40rem;border:0"></iframe>'


def named(error: BaseException) -> str:
    """An exception with its type."""
    return f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
