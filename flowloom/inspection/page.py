"""The HTML page of an assembly: what the model is given, coloured by the processor that wrote it, and the times.

Like the text page it is made from data. Everything in it is escaped; it loads nothing and runs no script.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from importlib.resources import files
from typing import Any, cast

from flowloom.inspection.canonical import Data
from flowloom.inspection.report import Entry, json_of, outline_of, parameters_of, part_lines, visible, warnings_of

_FIRST_HUE, _NEXT_HUE = 250, 129
"""Hues by position, in degrees: this step keeps those apart that write most of a request in the default flow."""
_SHOWN, _SHOWN_LINES = 600, 10
"""How many characters and lines are shown of a text that is at least twice as long."""
_TAGS = {"call": "calls", "result": "result", "thought": "thinks", "text": ""}


def page_of(data: Mapping[str, Data]) -> str:
    """The page of an assembly's data (see `Assembly.to_dict`) as one HTML file that needs no other."""
    steps = _steps_of(data)
    numbers = {step["name"]: step["number"] for step in reversed(steps)}
    outline = outline_of(data)

    def pieces(sections: list[Entry]) -> list[Entry]:
        return [_piece(section, numbers.get(section["by"])) for section in sections]

    groups: list[Entry] = [
        {"id": "system", "title": "System instruction", "pieces": pieces(outline.system)},
        {"id": "tools", "title": "Tools", "pieces": pieces(outline.tools)},
        {"id": "contents", "title": "Contents", "pieces": pieces(outline.contents)},
        {"id": "settings", "title": "Settings", "pieces": pieces(outline.settings)},
    ]
    for step in steps:
        step["pieces"] = [piece for group in groups for piece in group["pieces"] if piece["author"] == step["number"]]
    return _template().render(
        agent=data["agent"],
        model=cast(Entry, data["request"]).get("model") or "no model",
        steps=steps,
        total=sum(step["microseconds"] for step in steps),
        groups=groups,
        warnings=warnings_of(data),
    )


@cache
def _template() -> Any:
    """The page's template. Jinja2 takes 15 ms to load, and most programs never ask for a page."""
    from jinja2 import Environment, StrictUndefined

    environment = Environment(
        autoescape=True, undefined=StrictUndefined, finalize=_finalized, trim_blocks=True, lstrip_blocks=True
    )
    return environment.from_string(files("flowloom.inspection").joinpath("page.html").read_text("utf-8"))


def _finalized(value: Any) -> Any:
    return visible(value) if type(value) is str else value


def _steps_of(data: Mapping[str, Data]) -> list[Entry]:
    steps = cast(list[Entry], data["steps"])
    longest = max((step["microseconds"] for step in steps), default=0) or 1
    return [
        {
            "number": number,
            "hue": (_FIRST_HUE + _NEXT_HUE * (number - 1)) % 360,
            "name": step["name"],
            "microseconds": step["microseconds"],
            "percent": round(100 * step["microseconds"] / longest, 2),
            "halted": step["name"] == data["halted_by"],
            "changes": [_change(change) for change in step["changes"]],
            "events": [json_of(event, 2) for event in step["events"]],
        }
        for number, step in enumerate(steps, 1)
    ]


def _change(change: Entry) -> Entry:
    kind = change["kind"]
    return {
        "path": change["path"],
        "kind": kind,
        "before": None if kind == "added" else _text(change["before"]),
        "after": None if kind == "removed" else _text(change["after"]),
    }


def _piece(section: Entry, author: int | None) -> Entry:
    """What the template shows of a section: its kind says in what form."""
    path, value, by = section["path"], section["value"], section["by"]
    piece: Entry = {"path": path, "author": author, "by": by or "(author not known)", "kind": "value"}
    if ".function_declarations[" in path and isinstance(value, dict):
        declaration = cast(Entry, value)
        piece |= {
            "kind": "tool",
            "name": declaration.get("name") or "?",
            "description": declaration.get("description"),
            "parameters": parameters_of(declaration),
            "json": json_of(declaration, 2),
        }
    elif path.startswith("contents[") and isinstance(value, dict):
        content = cast(Entry, value)
        parts = cast(list[Entry], content.get("parts") or [])
        piece |= {"kind": "content", "role": content.get("role") or "no role", "lines": _lines(parts)}
    elif path.startswith("config.system_instruction") and isinstance(value, dict):
        piece |= {"kind": "text", "lines": _lines([cast(Entry, value)])}
    elif path.startswith("config.system_instruction"):
        piece |= {"kind": "text", "lines": [_line(_text(value), "text")]}
    else:
        piece["value"] = json_of(value, 2)
    return piece


def _lines(parts: list[Entry]) -> list[dict[str, str]]:
    return [_line(text, kind) for part in parts for text, kind in part_lines(part)]


def _line(text: str, kind: str) -> dict[str, str]:
    """A text for the page: of a long one the beginning is shown, until it is unfolded."""
    start = "\n".join(text[:_SHOWN].split("\n")[:_SHOWN_LINES])
    folded = len(text) > 2 * _SHOWN or text.count("\n") >= 2 * _SHOWN_LINES
    return {"kind": kind, "tag": _TAGS.get(kind, kind), "text": text, "start": start if folded else ""}


def _text(value: Data) -> str:
    return value if isinstance(value, str) else json_of(value, 2)
