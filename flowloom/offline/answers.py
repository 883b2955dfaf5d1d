"""The sentences of the offline model: results told, others summed up, its place explained."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, cast

from flowloom.offline.request import ASKS_BACK, Done, View
from flowloom.offline.words import is_small_talk

_MAX_ROWS = 6
_SAYING = ("message", "summary", "text", "answer", "note")


def told_results(done: Sequence[Done]) -> str:
    """What calls came to, a paragraph each."""
    several = len({each.name for each in done}) > 1
    return "\n".join(_told_result(each, several=several) for each in done)


def _told_result(done: Done, *, several: bool) -> str:
    name = _readable(done.name)
    result = done.result
    if isinstance(result, Mapping):
        data = cast(Mapping[str, Any], result)
        if "error" in data:
            return f"{name[:1].upper()}{name[1:]} did not work: {_ended(str(data['error']))}"
        if set(data) == {"result"}:
            result = data["result"]
    told = _told(result)
    lead = f"{name[:1].upper()}{name[1:]}"
    if not told:
        return f"{lead} is done."
    return f"{lead}: {told}" if several or not re.match(r"[A-Z“\"\d]", told) else told


def _told(value: Any) -> str:
    """JSON data in words: what it says itself first, then its values, lists as lines."""
    if isinstance(value, Mapping):
        data = cast(Mapping[str, Any], value)
        saying = next((key for key in _SAYING if isinstance(data.get(key), str) and data[key]), None)
        lists: dict[str, Any] = {k: v for k, v in data.items() if isinstance(v, list | Mapping) and v}
        plain = {k: v for k, v in data.items() if k not in lists and v not in (None, "", [], {})}
        first = _ended(str(data[saying]) if saying else _row(plain))
        if lists:  # what comes first is a heading
            first = first[:1].upper() + first[1:]
        return "\n".join([*([first] if first else []), *(_told_list(key, each) for key, each in lists.items())])
    if isinstance(value, list):
        rows = cast(list[Any], value)
        return _told_list("", rows) if rows else "nothing was found."
    return "" if value is None else _ended(_scalar(value))


def _told_list(key: str, value: Any) -> str:
    lead = f"{_readable(key)}: " if key else ""
    if isinstance(value, Mapping):
        return lead + _row(cast(Mapping[str, Any], value))
    rows = cast(list[Any], value)
    if not any(isinstance(row, Mapping) for row in rows):
        return _ended(lead + ", ".join(_scalar(row) for row in rows))
    name = _readable(key) or "found"
    lines = [f"{len(rows)} {name.removesuffix('s') if len(rows) == 1 else name}:"]
    shown = rows[:_MAX_ROWS]
    lines += [f"- {_row(cast(Mapping[str, Any], row)) if isinstance(row, Mapping) else _scalar(row)}" for row in shown]
    if len(rows) > _MAX_ROWS:
        lines.append(f"- and {len(rows) - _MAX_ROWS} more")
    return "\n".join(lines)


def _row(row: Mapping[str, Any]) -> str:
    return ", ".join(f"{_readable(key)} {_scalar(value)}" for key, value in row.items() if value is not None)


def _scalar(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, float):
        return f"{value:,.10g}" if abs(value) < 1e15 else repr(value)
    if isinstance(value, list):
        return ", ".join(_scalar(each) for each in cast(list[Any], value))
    if isinstance(value, Mapping):
        return f"({_row(cast(Mapping[str, Any], value))})"
    return str(value)


def _readable(name: str) -> str:
    return name.replace("_", " ").strip()


def _ended(text: str) -> str:
    text = text.strip()
    return text if not text or text[-1] in ".!?:" else f"{text}."


def first_sentence(text: str) -> str:
    """The first sentence of a text, on one line."""
    line = " ".join(text.split())
    match = re.match(r".+?[.!?](?=\s|$)", line)
    return match.group() if match else line


def asked_back(function: str, missing: Sequence[str]) -> str:
    """A question for what a call needs."""
    names = [_readable(name) for name in missing]
    listed = names[0] if len(names) == 1 else f"{', '.join(names[:-1])} and {names[-1]}"
    return f"I can do that ({_readable(function)}), but I need to know more. {ASKS_BACK}: {listed}."


def greeting(view: View) -> str:
    """An answer to small talk: who speaks, and what there is."""
    lead = f"Hello, this is {_readable(view.agent)}. " if view.agent else "Hello. "
    if re.search(r"\b(thanks?|thank you|bye|goodbye)\b", view.ask, re.I):
        lead = "You are welcome. "
    return lead + _offer(view)


def overview(view: View) -> str:
    """An answer to what nothing here fits."""
    return f"I found nothing here that fits “{_short(view.ask)}”. {_offer(view)}"


def _offer(view: View) -> str:
    targets = {name: text for name, text in view.targets.items() if name != view.parent}
    own = {name: function.description for name, function in view.functions.items()}
    items = {**own, **({} if own and view.parent else targets)}
    if not items:
        return "What can I do for you?"
    lines = [f"- {_readable(name)}: {first_sentence(text)}" if text else f"- {name}" for name, text in items.items()]
    return "I can help with:\n" + "\n".join(lines)


def composed(view: View) -> str:
    """An answer without tools: from the instruction, the message, and what others have said."""
    number = len(view.own_texts) + 1
    task = first_sentence(view.instruction)
    latest = dict(view.heard)
    if number > 1:
        remarks = " ".join(f"{_readable(a)} said: “{_short(t, 160)}”" for a, t in list(latest.items())[-1:])
        return f"Version {number} for “{_short(view.ask)}”." + (f" It takes this up: {remarks}" if remarks else "")
    if latest:
        lines = "\n".join(f"- {_readable(author)}: {_indented(text)}" for author, text in latest.items())
        return f"For “{_short(view.ask)}”, this is what the others found:\n{lines}"
    if is_small_talk(view.ask):
        return greeting(view)
    lead = f"You asked: “{_short(view.ask)}”." if view.ask else "Nothing was asked."
    return f"{lead} My part here: “{_short(task, 200)}” I only stand in for a model." if task else lead


def review(view: View) -> str:
    """What a reviewer says before it approves."""
    authors = [author for author, _ in view.heard]
    whose = f"the text of {_readable(authors[-1])}" if authors else "the text"
    return f"Review {len(view.own_texts) + 1} of {whose}: a good start; make it more concrete and give one example."


def _short(text: str, most: int = 100) -> str:
    line = " ".join(text.split())
    return line if len(line) <= most else line[: most - 1].rstrip() + "…"


def _indented(text: str) -> str:
    return text.strip().replace("\n", "\n  ")
