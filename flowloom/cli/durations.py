"""Durations as people write them: `30d`, `12h`, `90m`, `1.5h`, `45s`."""

from __future__ import annotations

import re

import typer

_UNITS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
_WRITTEN = re.compile(r"(\d{1,9}(?:\.\d{1,9})?)\s*([smhdw])", re.ASCII)


def duration(text: str) -> float:
    """The seconds that `text` means, a number with its unit. Raises `typer.BadParameter`."""
    written = _WRITTEN.fullmatch(text.strip())
    if written is None:
        raise typer.BadParameter(
            f"`{text}` is no duration: give a number and its unit, such as `45s`, `90m`, `12h`, `30d`."
        )
    return float(written[1]) * _UNITS[written[2]]


def seconds(text: str) -> float:
    """The same; a number alone means seconds."""
    try:
        return float(text)
    except ValueError:
        return duration(text)
