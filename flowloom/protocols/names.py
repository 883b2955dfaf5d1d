"""What tools from elsewhere are called here (protocols spec §0, Names).

`tool_names` gives the name of each of a server's tools, the same in every run and in any order of the list. The
original name goes over the wire. `is_reserved` says which names only the engine may have.
"""

from __future__ import annotations

import hashlib
import logging
import re
from collections import Counter
from collections.abc import Collection, Iterable
from typing import Any

from flowloom.errors import closest_of
from flowloom.events.requests import RESERVED_CALLS
from flowloom.protocols.words import cleaned

LONGEST = 64
"""How many characters a tool's name has at most."""
HASH_LENGTH = 8
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_-]{0,63}")
_OTHER = re.compile(r"[^A-Za-z0-9_-]")
_ENGINE = frozenset({"transfer_to_agent", "set_model_response", "exit_loop", "finish_task", *RESERVED_CALLS})
_PREFIX = "adk_request_"


def is_fit(name: str) -> bool:
    """Whether every model takes `name` as that of a tool."""
    return _NAME.fullmatch(name) is not None


def is_reserved(name: str) -> bool:
    """Whether `name` is one of the engine's own, which are never taken from outside."""
    return name in _ENGINE or name.startswith(_PREFIX)


def tool_names(originals: Iterable[str], prefix: str | None = None) -> dict[str, str]:
    """What models know each of `originals` by; with a `prefix`, that and an underscore come first.

    A name that fits stays. In others each character that does not fit becomes `_`; if one is too long, or another one
    has that name already, it ends in a hash of the original. What comes out does not depend on the order.
    """
    before = f"{prefix}_" if prefix else ""
    wanted = {original: before + original for original in originals}
    plain = {original: name if is_fit(name) else _replaced(name) for original, name in wanted.items()}
    shared = Counter(plain.values())
    return {
        original: name
        if len(name) <= LONGEST and (name == wanted[original] or shared[name] == 1)
        else _hashed(name, wanted[original])
        for original, name in plain.items()
    }


def fit_name(original: str) -> str:
    """What a single tool, agent or parameter of the name `original` is called."""
    return tool_names([original])[original]


def warn_of_missing(tool_filter: Any, known: Collection[str], where: str, log: logging.Logger) -> None:
    """Warn of each name in a toolset's `tool_filter` that is not among the `known` names of what is at `where`."""
    if tool_filter is None or callable(tool_filter):
        return
    for name in tool_filter:
        if name not in known:
            near = closest_of(str(name), known)
            hint = "" if near is None else f" Did you mean `{cleaned(near)}`?"
            log.warning("`tool_filter` names `%s`, but %s has no such tool.%s", name, where, hint)


def _replaced(name: str) -> str:
    fitting = _OTHER.sub("_", name)
    return fitting if fitting[:1].isalpha() or fitting.startswith("_") else f"_{fitting}"


def _hashed(name: str, original: str) -> str:
    """A name that is cut, with what tells it from others at its end."""
    told = hashlib.sha256(original.encode("utf-8", "surrogatepass")).hexdigest()[:HASH_LENGTH]
    return f"{name[: LONGEST - HASH_LENGTH - 1]}_{told}"
