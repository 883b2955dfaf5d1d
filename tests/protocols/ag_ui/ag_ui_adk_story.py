"""What the model and the tools of an agent do that is served by both engines; it needs neither."""

from __future__ import annotations

import json
from typing import Any

SAID = {"pieces": 0}
"""How many pieces the model has said in this process."""
PAUSE = 0.01
"""Seconds between two pieces."""
USAGE = {"prompt_token_count": 3, "candidates_token_count": 2, "total_token_count": 5}
_CALLS: dict[str, dict[str, Any]] = {"add": {"a": 1, "b": 2}, "pay": {"a": 1, "b": 2}, "colour": {"name": "red"}}
_SAID = {"hello": ["Hello", " you."], "long": ["On and on. "] * 300}


def answer(words: str, response: dict[str, Any] | None, request: str) -> dict[str, Any] | list[str]:
    """A call, or the pieces of a text: by the last words or result of a request, which `request` is as text."""
    if response is not None:
        return ["Done: ", json.dumps(response)]
    if words in _CALLS:
        return {"name": words, "args": _CALLS[words]}
    if words == "cart":
        return ["I see ", "shoes." if "2 shoes" in request else "nothing."]
    if words == "fail":
        raise ValueError("model boom")
    return _SAID[words]


def add(a: int, b: int) -> dict[str, int]:
    """Adds."""
    return {"sum": a + b}


def pay(a: int, b: int) -> dict[str, int]:
    """Pays."""
    return {"paid": a + b}
